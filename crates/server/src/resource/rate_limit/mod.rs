//! Requests and bytes a second, with bursts. Who is over a limit waits; nobody is refused. What is allowed is shared evenly among the users who want
//! more of it, and what one has among that one's sessions, however much each asks for at a time and however often one signs in.
//!
//! As long as nobody waits a limit is a few atomic numbers: no lock, no allocation. Behind them is a line of those who wait. A task of the shard whose
//! request was the first in it leads: it sleeps until somebody's time has come, and lets all go whose has, until the line is empty.

mod bucket;
mod line;
mod rates;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep_until};

use bucket::Bucket;
pub(crate) use line::Member;
use line::{Line, Place, Waiting};
use rates::Price;
pub(crate) use rates::Rates;
pub use rates::{Rate, RequestRate};

/// Who has had less than its share goes at once, though what was taken is paid for only so much later (nanoseconds): who asks for one thing at a
/// time would have no more than one each time that the line is looked at, and one for each large request of others. As long as the largest
/// request takes where 100 MiB are allowed in a second.
const AHEAD: u64 = 100_000_000;

/// The line is looked at again after so long at the latest: what is allowed may have changed.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What of a limit was used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Requests,
    Bytes,
}

/// What has been taken of some [`Rates`], and who waits for more.
pub(crate) struct RateLimit {
    began: Instant,
    /// At the baseline: what is owed here is credits to be earned.
    requests: Bucket,
    /// The same requests at the rate of bursts.
    bursts: Bucket,
    bytes: Bucket,
    /// Requests in the line; changed with it locked.
    waiting: AtomicUsize,
    line: Mutex<Line>,
    /// Tells who leads that something was given back.
    look_again: Notify,
    /// Which change of the rates the buckets are counted by,
    seen: AtomicU64,
    /// and what a request with a MiB cost then.
    counted: Mutex<Price>,
}

/// A [`RateLimit`] that is made when something is first limited by it.
#[derive(Default)]
pub(crate) struct MadeOnUse(OnceLock<Arc<RateLimit>>);

impl MadeOnUse {
    pub(crate) fn get(&self) -> &Arc<RateLimit> {
        self.0.get_or_init(Arc::default)
    }
}

impl Default for RateLimit {
    fn default() -> Self {
        RateLimit {
            began: Instant::now(),
            requests: Bucket::default(),
            bursts: Bucket::default(),
            bytes: Bucket::default(),
            waiting: AtomicUsize::new(0),
            line: Mutex::default(),
            look_again: Notify::new(),
            seen: AtomicU64::new(0),
            counted: Mutex::default(),
        }
    }
}

impl RateLimit {
    /// Takes a request with so many bytes where it need not wait.
    pub(crate) fn try_take(&self, rates: &Rates, bytes: u64, now: Instant) -> bool {
        let now = self.since(now);
        self.waiting.load(Ordering::Relaxed) == 0 && self.charge(&self.price(rates, bytes, now), now, 0).is_ok()
    }

    /// Takes it once it may be made, in turn with those of other members. Where it has to wait `begins_to_wait` is told for what, before it
    /// does. Whoever stops waiting has taken nothing.
    pub(crate) async fn take(
        self: &Arc<Self>,
        rates: &Arc<Rates>,
        bytes: u64,
        member: Member,
        begins_to_wait: impl FnOnce(Over),
    ) {
        let now = self.since(Instant::now());
        let price = self.price(rates, bytes, now);
        let over = match self.waiting.load(Ordering::Relaxed) {
            0 => match self.charge(&price, now, 0) {
                Ok(()) => return,
                Err(over) => over,
            },
            _ => self.over(&price),
        };
        let Some(mut waits) = self.enter(rates, bytes, member, now) else { return };
        begins_to_wait(over);
        // Who leads ends by letting all go.
        let _ = (&mut waits.told).await;
        waits.has_gone = true;
    }

    /// Gives back a request that was taken and is not made, with its bytes.
    pub(crate) fn give_back(&self, rates: &Rates, bytes: u64) {
        self.give_back_price(&rates.price(bytes));
    }

    fn give_back_price(&self, price: &Price) {
        self.requests.give_back(price.baseline);
        self.bursts.give_back(price.burst);
        self.bytes.give_back(price.bytes);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.look_again.notify_one();
        }
    }

    /// Gives back what a request has taken for more bytes than it was made with.
    pub(crate) fn settle(&self, rates: &Rates, taken: u64, made: u64, member: Option<Member>) {
        let (before, after) = rates.price_of_two(taken, made);
        self.bytes.give_back(before.bytes - after.bytes);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            if let Some(member) = member {
                self.line.lock().lighten(member, before.weight() - after.weight());
            }
            self.look_again.notify_one();
        }
    }

    /// True where all that was taken is paid for.
    pub(crate) fn is_paid(&self) -> bool {
        let now = self.since(Instant::now());
        [&self.requests, &self.bursts, &self.bytes].iter().all(|bucket| bucket.debt(now) == 0)
    }

    /// The credits that are left.
    pub(crate) fn credits(&self, rates: &Rates) -> u64 {
        let now = self.since(Instant::now());
        self.see(rates, now);
        let debt = self.requests.debt(now);
        rates.credits_max().saturating_sub(rates.credits_in(debt))
    }

    fn since(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.began).as_nanos()).unwrap_or(u64::MAX)
    }

    /// What a request costs, with the buckets counted by the same rates.
    fn price(&self, rates: &Rates, bytes: u64, now: u64) -> Price {
        self.see(rates, now);
        rates.price(bytes)
    }

    /// Counts what is owed by the rates as they are now: as many requests, credits and bytes as before, and no more credits than there may be.
    fn see(&self, rates: &Rates, now: u64) {
        let changes = rates.changes();
        if self.seen.load(Ordering::Relaxed) == changes {
            return;
        }
        let mut counted = self.counted.lock();
        let after = rates.price_of_mib();
        let before = std::mem::replace(&mut *counted, after);
        self.requests.recount(now, before.baseline, after.baseline, after.credits);
        self.bursts.recount(now, before.burst, after.burst, u64::MAX);
        self.bytes.recount(now, before.bytes, after.bytes, u64::MAX);
        self.seen.store(changes, Ordering::Relaxed);
    }

    /// Takes all of `price`, or nothing, where what was taken before is paid for `ahead` nanoseconds from now.
    fn charge(&self, price: &Price, now: u64, ahead: u64) -> Result<(), Over> {
        let by = now + ahead;
        if !self.requests.take(now, by.saturating_add(price.credits), price.baseline) {
            return Err(Over::Requests);
        }
        if !self.bursts.take(now, by, price.burst) {
            self.requests.give_back(price.baseline);
            return Err(Over::Requests);
        }
        if !self.bytes.take(now, by, price.bytes) {
            self.requests.give_back(price.baseline);
            self.bursts.give_back(price.burst);
            return Err(Over::Bytes);
        }
        Ok(())
    }

    /// When `price` could be charged if nobody took anything more.
    fn due(&self, price: &Price) -> u64 {
        let of = |bucket: &Bucket, cost| if cost == 0 { 0 } else { bucket.paid_at() };
        let requests = of(&self.requests, price.baseline).saturating_sub(price.credits);
        requests.max(of(&self.bursts, price.burst)).max(of(&self.bytes, price.bytes))
    }

    /// What of the limit is used up longest.
    fn over(&self, price: &Price) -> Over {
        let bytes = if price.bytes == 0 { 0 } else { self.bytes.paid_at() };
        if bytes > 0 && bytes >= self.due(price) { Over::Bytes } else { Over::Requests }
    }

    /// A place in the line, unless the request may go now: nobody is before it, or its member has had less than those who are.
    fn enter(self: &Arc<Self>, rates: &Arc<Rates>, bytes: u64, member: Member, now: u64) -> Option<Waits<'_>> {
        let price = self.price(rates, bytes, now);
        let mut line = self.line.lock();
        let place = line.place(member);
        let ahead = if line.is_empty() { 0 } else { AHEAD };
        if line.is_first(place) && self.charge(&price, now, ahead).is_ok() {
            if !line.is_empty() {
                line.count(member, place, &price);
                line.goes(place, price.weight());
            }
            return None;
        }
        line.count(member, place, &price);
        let (go, told) = oneshot::channel();
        line.enter(place, Waiting { weight: price.weight(), bytes, go });
        self.waiting.fetch_add(1, Ordering::Relaxed);
        if !std::mem::replace(&mut line.is_led, true) {
            spawn_local(Lead { limit: Arc::clone(self), rates: Arc::clone(rates), is_done: false }.run());
        }
        Some(Waits { limit: self, member, place, told, has_gone: false })
    }

    /// Lets all go whose time has come; gives when that of the next one does, and nobody leads any more where there is none.
    fn let_go(&self, rates: &Rates) -> Option<Instant> {
        let mut line = self.line.lock();
        let now = self.since(Instant::now());
        while let Some((place, bytes)) = line.first().map(|(place, first)| (place, first.bytes)) {
            let price = self.price(rates, bytes, now);
            if self.charge(&price, now, 0).is_err() {
                return Some(self.began + Duration::from_nanos(self.due(&price)));
            }
            line.goes(place, price.weight());
            if let Some(left) = self.leave(&mut line, place) {
                // Who is gone by now gives it back.
                let _ = left.go.send(price);
            }
        }
        line.is_led = false;
        None
    }

    fn leave(&self, line: &mut Line, place: Place) -> Option<Waiting> {
        let left = line.leave(place)?;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(left)
    }
}

/// The task that leads a line.
struct Lead {
    limit: Arc<RateLimit>,
    rates: Arc<Rates>,
    /// The line was empty, and another may lead it by now.
    is_done: bool,
}

impl Lead {
    async fn run(mut self) {
        while let Some(due) = self.limit.let_go(&self.rates) {
            tokio::select! {
                () = sleep_until(due.min(Instant::now() + LOOK_AGAIN)) => {}
                () = self.limit.look_again.notified() => {}
            }
        }
        self.is_done = true;
    }
}

impl Drop for Lead {
    /// Where its shard has ended, nobody is left waiting.
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let mut line = self.limit.line.lock();
        while let Some((place, _)) = line.first() {
            self.limit.leave(&mut line, place);
        }
        line.is_led = false;
    }
}

/// A request in the line.
struct Waits<'a> {
    limit: &'a RateLimit,
    member: Member,
    place: Place,
    told: oneshot::Receiver<Price>,
    has_gone: bool,
}

impl Drop for Waits<'_> {
    /// Who stops waiting leaves the line, or gives back what it has.
    fn drop(&mut self) {
        if self.has_gone {
            return;
        }
        let mut line = self.limit.line.lock();
        let left = self.limit.leave(&mut line, self.place);
        if let Some(left) = &left {
            line.lighten_session(self.member, left.weight);
        }
        drop(line);
        if left.is_none()
            && let Ok(paid) = self.told.try_recv()
        {
            self.limit.give_back_price(&paid);
        }
    }
}
