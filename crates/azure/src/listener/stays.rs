//! Those who are connected: what each does, and who of them gets on too slowly to stay where others come.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;

use crate::turns::{self, Taker};

/// How long somebody may have said nothing before its place is another's: enough for a head that is on its way.
pub(super) const SILENT_AT_LEAST: Duration = Duration::from_millis(250);
/// The same for who has proved who it is and sends a body, or takes an answer, and has not moved a byte for so long; and for a stranger, who has not proved
/// it, since it came.
pub(super) const STUCK_AT_LEAST: Duration = Duration::from_secs(1);
/// How long somebody may take for an answer while others wait for its room, however it gets on.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);
/// What somebody who is sent a file takes in a second, on average of the time for which it has its turn, where others wait for one: so many bytes from so
/// long on. A range of 4 MiB may come over a slow line, and a long file has to come over a better one.
const RATES: [(Duration, u64); 2] = [(Duration::from_secs(5), 64 << 10), (Duration::from_secs(60), 1 << 20)];
/// The same where it is its own account and address that waits: many ranges at once share one line, and each that is broken off comes over it again.
const OWN_RATES: [(Duration, u64); 1] = [(Duration::from_secs(60), 64 << 10)];

/// How often they are looked at while somebody waits.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// All of them.
#[derive(Default)]
pub(super) struct Stays(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    next: u64,
    stays: BTreeMap<u64, Staying>,
}

pub(super) struct Staying {
    task: Option<AbortHandle>,
    pub(super) doing: Doing,
    pub(super) since: Instant,
    pub(super) came: Instant,
    /// Nobody has proved anything on it.
    pub(super) is_stranger: bool,
    /// Room for an answer.
    pub(super) holds: Option<Holding>,
    /// Its turn to be sent a file.
    pub(super) turn: Option<Holding>,
}

/// A turn that somebody has, or room.
pub(super) struct Holding {
    pub(super) taker: Taker,
    pub(super) since: Instant,
    /// Bytes that were written to it since.
    pub(super) taken: u64,
}

impl Holding {
    fn of(taker: &Taker) -> Self {
        Holding { taker: taker.clone(), since: Instant::now(), taken: 0 }
    }
}

/// Whether who has had a turn for so long, and taken so much, takes less than that.
fn is_slow(had: Duration, taken: u64, rates: &[(Duration, u64)]) -> bool {
    rates.iter().any(|(from, least)| had >= *from && u128::from(taken) * 1000 < u128::from(*least) * had.as_millis())
}

impl Staying {
    fn begins() -> Self {
        let now = Instant::now();
        Staying { task: None, doing: Doing::Silent, since: now, came: now, is_stranger: true, holds: None, turn: None }
    }

    /// Since when a stranger has said or moved nothing.
    fn stranger_since(&self) -> Option<Instant> {
        self.silent_since().or_else(|| self.still_since()).filter(|_| self.is_stranger)
    }

    /// Since when somebody has been here and still is a stranger, whatever it says.
    fn stranger_came(&self) -> Option<Instant> {
        self.is_stranger.then_some(self.came)
    }

    /// Since when it has said nothing, where there is nothing for it to take.
    fn silent_since(&self) -> Option<Instant> {
        (self.doing == Doing::Silent && self.holds.is_none()).then_some(self.since)
    }

    /// Since when it has not moved a byte of what it sends or takes.
    fn still_since(&self) -> Option<Instant> {
        let moves = matches!(self.doing, Doing::Sending | Doing::Queued | Doing::Taking) || self.holds.is_some();
        moves.then_some(self.since)
    }

    /// Since when it has room for an answer, where that is too long while others wait for it.
    pub(super) fn late_since(&self) -> Option<Instant> {
        self.holds.as_ref().map(|room| room.since).filter(|since| since.elapsed() >= TAKEN_WITHIN)
    }

    /// Since when it has its turn, where it takes too little of what it is sent for this one's waiting.
    pub(super) fn slow_since(&self, waits: &Taker) -> Option<Instant> {
        let turn = self.turn.as_ref()?;
        let rates: &[_] = if turn.taker == *waits { &OWN_RATES } else { &RATES };
        is_slow(turn.since.elapsed(), turn.taken, rates).then_some(turn.since)
    }
}

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// It has asked for nothing, or not to the end of a head, or has had its answer.
    Silent,
    /// It sends a body.
    Sending,
    /// It waits for the server to begin with what it has asked for, or for room for the answer.
    Queued,
    /// It waits for the server, which works for it.
    Waiting,
    /// It takes an answer.
    Taking,
}

/// Waits for something, and meanwhile has those looked at who may be sent away for it.
pub(super) async fn meanwhile<T>(waited: impl Future<Output = T>, look: impl Fn()) -> T {
    let mut waited = pin!(waited);
    loop {
        look();
        if let Ok(done) = timeout(LOOK_EVERY, &mut waited).await {
            return done;
        }
    }
}

/// One connection's stay, which ends when this is dropped.
pub(super) struct Stay {
    stays: Arc<Stays>,
    number: u64,
    _place: OwnedSemaphorePermit,
}

impl Stays {
    /// Somebody is there, whom a task attends to.
    pub(super) fn enter(
        self: &Arc<Self>,
        place: OwnedSemaphorePermit,
        attend: impl FnOnce(Arc<Stay>) -> JoinHandle<()>,
    ) {
        let number = {
            let mut inside = self.0.lock();
            inside.next += 1;
            let number = inside.next;
            inside.stays.insert(number, Staying::begins());
            number
        };
        let task = attend(self.stay(number, place)).abort_handle();
        if let Some(staying) = self.0.lock().stays.get_mut(&number) {
            staying.task = Some(task);
        }
    }

    /// The stay of this number; of none of those who are there where it is 0.
    pub(super) fn stay(self: &Arc<Self>, number: u64, place: OwnedSemaphorePermit) -> Arc<Stay> {
        Arc::new(Stay { stays: Arc::clone(self), number, _place: place })
    }

    /// Changes all of them.
    #[cfg(test)]
    pub(super) fn change(&self, change: impl FnMut(&mut Staying)) {
        self.0.lock().stays.values_mut().for_each(change);
    }

    /// What those do of whom this is true.
    #[cfg(test)]
    pub(super) fn those(&self, is_it: impl Fn(&Staying) -> bool) -> Vec<Doing> {
        self.0.lock().stays.values().filter(|one| is_it(one)).map(|one| one.doing).collect()
    }

    /// Of those who do such things, disconnects the stranger who has been silent or stuck longest, or else who has been a stranger longest. Where half of
    /// all are such strangers nobody else goes for one who comes: one of them may be sent away soon. Else that is who has been silent longest, or else who has
    /// been stuck longest, or else who has taken too little for longest.
    pub(super) fn send_one_away(
        &self,
        is_it: impl Fn(&Staying) -> bool,
        too_little: impl Fn(&Staying) -> Option<Instant>,
    ) {
        let mut inside = self.0.lock();
        let longest = |since: &dyn Fn(&Staying) -> Option<Instant>, at_least: Duration| {
            let those = inside.stays.iter().filter(|(_, one)| is_it(one) && one.task.is_some());
            let (since, number) = those.filter_map(|(number, one)| Some((since(one)?, *number))).min()?;
            (since.elapsed() >= at_least).then_some(number)
        };
        let strangers = inside.stays.values().filter(|one| one.is_stranger && is_it(one)).count();
        let others = || {
            longest(&Staying::silent_since, SILENT_AT_LEAST)
                .or_else(|| longest(&Staying::still_since, STUCK_AT_LEAST))
                .or_else(|| longest(&too_little, Duration::ZERO))
        };
        let number = longest(&Staying::stranger_since, SILENT_AT_LEAST)
            .or_else(|| longest(&Staying::stranger_came, STUCK_AT_LEAST))
            .or_else(|| if strangers * 2 < inside.stays.len() { others() } else { None });
        let staying = number.and_then(|number| inside.stays.remove(&number));
        drop(inside);
        staying.and_then(|staying| staying.task).iter().for_each(AbortHandle::abort);
    }
}

impl Stay {
    /// Changes what is known of it, as long as it is there.
    fn change(&self, change: impl FnOnce(&mut Staying)) {
        if let Some(staying) = self.stays.0.lock().stays.get_mut(&self.number) {
            change(staying);
        }
    }

    /// It takes so many bytes.
    pub(super) fn takes(&self, count: usize) {
        self.change(|staying| {
            staying.since = Instant::now();
            staying.turn.iter_mut().for_each(|turn| turn.taken += count as u64);
        });
    }

    /// It does this from now on, or has got on with it.
    pub(super) fn does(&self, doing: Doing) {
        self.change(|staying| (staying.doing, staying.since) = (doing, Instant::now()));
    }

    /// It has proved who it is: from now on strangers go before it.
    pub(super) fn proves(&self) {
        self.change(|staying| staying.is_stranger = false);
    }

    /// Whether it has asked for something that is not answered yet, and is no stranger.
    pub(super) fn is_owed_an_answer(&self) -> bool {
        let inside = self.stays.0.lock();
        inside.stays.get(&self.number).is_some_and(|one| !one.is_stranger && one.silent_since().is_none())
    }

    /// It has a turn, or no longer.
    fn has_turn(&self, taker: Option<&Taker>) {
        self.change(|staying| staying.turn = taker.map(Holding::of));
    }

    /// It has room for an answer, or no longer.
    pub(super) fn holds(&self, taker: Option<&Taker>) {
        self.change(|staying| staying.holds = taker.map(Holding::of));
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.stays.0.lock().stays.remove(&self.number);
    }
}

/// Somebody's turn to be sent a file, which others have once this is dropped.
pub(crate) struct Turn {
    stay: Arc<Stay>,
    _turn: turns::Turn,
}

impl Turn {
    pub(super) fn of(turn: turns::Turn, stay: &Arc<Stay>) -> Self {
        stay.has_turn(Some(turn.taker()));
        Turn { stay: Arc::clone(stay), _turn: turn }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.stay.has_turn(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_may_come_over_a_slow_line_and_a_long_file_may_not() {
        for (seconds, a_second, slow, slow_for_own) in [
            (4, 0, false, false),
            (5, (64 << 10) - 1, true, false),
            (59, 64 << 10, false, false),
            (60, (64 << 10) - 1, true, true),
            (60, 64 << 10, true, false),
            (60, (1 << 20) - 1, true, false),
            (600, 1 << 20, false, false),
        ] {
            let (had, taken) = (Duration::from_secs(seconds), seconds * a_second);
            let is = (is_slow(had, taken, &RATES), is_slow(had, taken, &OWN_RATES));
            assert_eq!(is, (slow, slow_for_own), "{seconds} {a_second}");
        }
    }
}
