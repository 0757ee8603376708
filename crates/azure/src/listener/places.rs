//! Who is connected. There are so many places; where none is free, a stranger who has proved nothing, or else who says nothing, or does not take its
//! answer, gives its place to who comes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::process::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{timeout, timeout_at};

use super::answers::Answers;
use super::stays::{Doing, Stay, Staying, Stays, Turn, meanwhile};
use crate::turns::{self, Taker, Turns};

/// The part of all descriptors that connections may have, and the least and the most that this is.
const DESCRIPTORS_PART: u64 = 64;
const PLACES: (u64, u64) = (16, 1024);
/// Files that are sent at a time: of each, some pieces wait for who takes them.
const SENT_MAX: usize = 64;
/// How long somebody waits for its turn to be sent one, from the head of its request on. The part of all places that those who wait may have: others come meanwhile.
pub(super) const TURN_WITHIN: Duration = Duration::from_secs(30);
const QUEUE_PART: usize = 2;
/// The part of all places whose requests are worked for at a time, also where nobody waits for that any more: who has one of these keeps its place, and the
/// others can be anothers. How long a request waits for that.
const RUNNING_PART: (usize, usize) = (3, 4);
const RUNS_WITHIN: Duration = Duration::from_secs(20);
/// All places, and who has them.
#[derive(Clone)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    running: Turns,
    sent: Turns,
    queue: Turns,
    pub(super) answers: Answers,
    stays: Arc<Stays>,
}

impl Places {
    /// As many as a process with these limits should give.
    pub(super) fn of_this_process() -> Self {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Places::new((descriptors / DESCRIPTORS_PART).clamp(PLACES.0, PLACES.1) as usize)
    }

    pub(super) fn new(count: usize) -> Self {
        let running = count * RUNNING_PART.0 / RUNNING_PART.1;
        let [running, sent, queue] = [running, count.min(SENT_MAX), count / QUEUE_PART].map(Turns::new);
        let free = Arc::new(Semaphore::new(count));
        Places { free, running, sent, queue, answers: Answers::default(), stays: Arc::default() }
    }

    /// Waits for a place. `None` once there will be none any more.
    pub(super) async fn take(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.free).try_acquire_owned() {
            return Some(place);
        }
        let look = || self.stays.send_one_away(|one| one.doing != Doing::Waiting, Staying::late_since);
        meanwhile(Arc::clone(&self.free).acquire_owned(), look).await.ok()
    }

    /// Its turn to be worked for, which whoever works keeps to the end of that. `None` where it does not come in time.
    pub(super) async fn run(&self, taker: &Taker, stay: &Stay) -> Option<turns::Turn> {
        let turn = match self.running.now(taker) {
            Some(turn) => turn,
            None => {
                stay.does(Doing::Queued);
                timeout(RUNS_WITHIN, self.running.soon(taker)).await.ok()?.ok()?
            }
        };
        stay.does(Doing::Waiting);
        Some(turn)
    }

    /// Its turn to be sent a file, where it comes at once.
    pub(super) fn turn_now(&self, taker: &Taker, stay: &Arc<Stay>) -> Option<Turn> {
        self.sent.now(taker).map(|turn| Turn::of(turn, stay))
    }

    /// Waits for its turn to be sent a file. `None` where it does not come until then, or too many wait.
    pub(super) async fn turn(&self, taker: &Taker, stay: &Arc<Stay>, until: Instant) -> Option<Turn> {
        let _waits = self.queue.now(taker)?;
        let look = || {
            let held = self.sent.held();
            let yields = |one: &Staying| {
                let has = one.turn.as_ref().filter(|_| one.doing == Doing::Taking);
                has.is_some_and(|has| held.yields(&has.taker, taker))
            };
            self.stays.send_one_away(yields, |one| one.slow_since(taker));
        };
        let turn = timeout_at(until.into(), meanwhile(self.sent.soon(taker), look)).await.ok()?;
        turn.ok().map(|turn| Turn::of(turn, stay))
    }

    /// Has an answer of this taker's hold what it takes, until that is sent. `None` where there is no room: it is held by nobody then.
    pub(super) async fn charge(&self, body: Bytes, taker: &Taker, stay: &Arc<Stay>) -> Option<Bytes> {
        self.answers.charge(body, taker, (stay, &self.stays)).await
    }

    /// Somebody is there, whom a task attends to.
    pub(super) fn enter(&self, place: OwnedSemaphorePermit, attend: impl FnOnce(Arc<Stay>) -> JoinHandle<()>) {
        self.stays.enter(place, attend);
    }
}

#[cfg(test)]
impl Places {
    /// All turns that one can have.
    pub(super) fn turns_of(&self, taker: &Taker) -> Vec<turns::Turn> {
        std::iter::from_fn(|| self.sent.now(taker)).collect()
    }

    /// So many places, and one who has come and stays.
    pub(super) async fn with_one(count: usize) -> (Places, Arc<Stay>) {
        let places = Places::new(count);
        let (place, (told, tells)) = (places.take().await.unwrap(), tokio::sync::oneshot::channel());
        places.enter(place, |stay| {
            let _ = told.send(stay);
            tokio::spawn(std::future::pending())
        });
        (places, tells.await.unwrap())
    }

    /// One who asks now, and stays where it is.
    pub(super) async fn visitor(&self) -> Arc<Stay> {
        self.stays.stay(0, self.take().await.unwrap())
    }

    /// True where this one has a turn.
    pub(super) fn has_turn(&self, taker: &Taker) -> bool {
        self.sent.held().yields(taker, &Taker::of("nobody", [192, 0, 2, 255].into()))
    }

    /// What each does.
    pub(super) fn those(&self) -> Vec<Doing> {
        self.stays.those(|_| true)
    }

    /// True where nobody is worked for.
    pub(super) fn nobody_runs(&self) -> bool {
        self.running.is_free()
    }

    /// True where somebody waits for its turn.
    pub(super) fn somebody_waits(&self) -> bool {
        !self.queue.is_free()
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::FutureExt;

    use super::super::stays::{LOOK_EVERY, SILENT_AT_LEAST, STUCK_AT_LEAST};
    use super::*;

    /// Somebody who has proved who it is, does this and stays.
    async fn enter(places: &Places, doing: Doing) {
        enter_as(places, doing, Stay::proves).await;
    }

    async fn enter_stranger(places: &Places, doing: Doing) {
        enter_as(places, doing, |_| ()).await;
    }

    async fn enter_as(places: &Places, doing: Doing, proves: impl Fn(&Stay)) {
        let place = places.take().await.unwrap();
        places.enter(place, |stay| {
            proves(&stay);
            stay.does(doing);
            tokio::spawn(async move {
                let _stay = stay;
                pending::<()>().await;
            })
        });
    }

    #[tokio::test]
    async fn who_says_nothing_gives_its_place_to_who_comes() {
        let places = Places::new(3);
        for doing in [Doing::Waiting, Doing::Silent, Doing::Taking] {
            enter(&places, doing).await;
        }
        enter(&places, Doing::Waiting).await;
        assert_eq!(places.those(), [Doing::Waiting, Doing::Taking, Doing::Waiting]);
        enter(&places, Doing::Waiting).await;
        assert_eq!(places.those(), [Doing::Waiting; 3], "who takes no answer goes last");
    }

    /// Has all have come, and said or moved nothing, since so long.
    fn since(places: &Places, ago: Duration) {
        let at = Instant::now().checked_sub(ago).unwrap();
        places.stays.change(|one| (one.came, one.since) = (at, at));
    }

    fn strangers(places: &Places) -> usize {
        places.stays.those(|one| one.is_stranger).len()
    }

    #[tokio::test]
    async fn strangers_give_their_places_before_anybody_who_has_proved_who_it_is() {
        let places = Places::new(5);
        for doing in [Doing::Silent, Doing::Sending, Doing::Taking] {
            enter(&places, doing).await;
        }
        since(&places, 2 * STUCK_AT_LEAST);
        enter_stranger(&places, Doing::Silent).await;
        enter_stranger(&places, Doing::Sending).await;
        let all = [Doing::Silent, Doing::Sending, Doing::Taking, Doing::Waiting, Doing::Waiting];
        tokio::time::sleep(SILENT_AT_LEAST).await;
        for _ in 0..2 {
            enter(&places, Doing::Waiting).await;
        }
        assert_eq!(places.those(), all);
        enter(&places, Doing::Waiting).await;
        assert_eq!(places.those(), [all[1], all[2], all[3], all[4], Doing::Waiting], "who is silent goes next");
    }

    #[tokio::test]
    async fn strangers_who_come_all_the_time_send_nobody_away_who_has_proved_who_it_is() {
        let places = Places::new(4);
        for doing in [Doing::Silent, Doing::Sending] {
            enter(&places, doing).await;
        }
        since(&places, 2 * STUCK_AT_LEAST);
        for _ in 0..8 {
            enter_stranger(&places, Doing::Silent).await;
        }
        assert_eq!((places.those()[..2].to_vec(), strangers(&places)), (vec![Doing::Silent, Doing::Sending], 2));
    }

    #[tokio::test]
    async fn strangers_who_ask_all_the_time_keep_nobody_out() {
        let places = Places::new(2);
        for _ in 0..2 {
            enter_stranger(&places, Doing::Silent).await;
        }
        let stays = Arc::clone(&places.stays);
        let asking = tokio::spawn(async move {
            loop {
                stays.change(|one| one.since = Instant::now());
                tokio::time::sleep(LOOK_EVERY).await;
            }
        });
        timeout(10 * STUCK_AT_LEAST, enter(&places, Doing::Waiting)).await.unwrap();
        assert_eq!(strangers(&places), 1);
        asking.abort();
    }

    fn taker(account: &str, last: u8) -> Taker {
        Taker::of(account, [192, 0, 2, last].into())
    }

    fn soon() -> Instant {
        Instant::now() + TURN_WITHIN
    }

    /// Somebody who has its turn, and takes nothing. False where there is no turn.
    async fn enter_with_turn(places: &Places, taker: Taker) -> bool {
        let (place, asks) = (places.take().await.unwrap(), places.clone());
        let (told, tells) = tokio::sync::oneshot::channel();
        places.enter(place, |stay| {
            tokio::spawn(async move {
                stay.proves();
                let turn = asks.turn_now(&taker, &stay);
                stay.does(if turn.is_some() { Doing::Taking } else { Doing::Waiting });
                let _ = told.send(turn.is_some());
                pending::<()>().await;
                drop(turn);
            })
        });
        tells.await.unwrap()
    }

    #[tokio::test]
    async fn who_takes_no_file_gives_its_turn_to_who_comes_and_others_keep_their_places() {
        let places = Places::new(32);
        enter(&places, Doing::Silent).await;
        enter(&places, Doing::Taking).await;
        let mut stuck = 0;
        while enter_with_turn(&places, taker("first", 1)).await {
            stuck += 1;
        }
        assert_eq!(stuck, 8, "a quarter of all turns");
        let visitor = places.visitor().await;
        let began = Instant::now();
        let turn = places.turn(&taker("first", 1), &visitor, soon()).await;
        assert!(turn.is_some() && began.elapsed() >= STUCK_AT_LEAST / 2, "{:?}", began.elapsed());
        let left = [Doing::Silent].into_iter().chain([Doing::Taking; 8]).chain([Doing::Waiting]);
        assert_eq!(places.those(), left.collect::<Vec<_>>(), "one of those who are stuck with a turn has gone");
    }

    #[tokio::test]
    async fn who_takes_no_files_keeps_no_other_account_or_address_waiting() {
        let places = Places::new(64);
        let mut count = 0;
        while enter_with_turn(&places, taker("first", 1)).await {
            count += 1;
        }
        assert_eq!(count, 16);
        for other in [taker("first", 2), taker("second", 1)] {
            let visitor = places.visitor().await;
            assert!(places.turn_now(&other, &visitor).is_some(), "{other:?}");
        }
    }

    #[tokio::test]
    async fn who_takes_a_file_slowly_gives_its_turn_to_who_waits_after_a_minute() {
        let places = Places::new(32);
        while enter_with_turn(&places, taker("first", 1)).await {}
        // All get on, and have since the last minute; one has had its turn for longer.
        let stays = Arc::clone(&places.stays);
        let getting_on = tokio::spawn(async move {
            loop {
                stays.change(|one| {
                    one.since = Instant::now();
                    one.turn.iter_mut().for_each(|turn| turn.taken = 2 << 20);
                });
                tokio::time::sleep(LOOK_EVERY).await;
            }
        });
        let with_turn = || places.stays.those(|one| one.turn.is_some()).len();
        let all = with_turn();
        let (visitor, first) = (places.visitor().await, taker("first", 1));
        let in_time = Instant::now() + STUCK_AT_LEAST + 4 * LOOK_EVERY;
        assert!(places.turn(&first, &visitor, in_time).await.is_none() && with_turn() == all);
        let mut is_first = true;
        places.stays.change(|one| {
            if let Some(turn) = one.turn.as_mut().filter(|_| std::mem::take(&mut is_first)) {
                turn.since = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
            }
        });
        assert!(places.turn(&first, &visitor, soon()).await.is_some() && with_turn() == all - 1);
        getting_on.abort();
    }

    #[tokio::test]
    async fn no_more_wait_for_a_turn_than_leave_others_a_place() {
        let places = Places::new(32);
        while enter_with_turn(&places, taker("first", 1)).await {}
        let visitor = places.visitor().await;
        let waits: Vec<_> = std::iter::from_fn(|| places.queue.now(&taker("first", 1))).collect();
        assert_eq!(waits.len(), 4);
        let began = Instant::now();
        assert!(places.turn(&taker("first", 1), &visitor, soon()).await.is_none());
        assert!(began.elapsed() < STUCK_AT_LEAST, "it is not waited for");
        assert!(places.turn(&taker("second", 1), &visitor, soon()).await.is_some());
    }

    #[tokio::test]
    async fn who_waits_for_the_server_keeps_its_place() {
        let places = Places::new(1);
        enter(&places, Doing::Waiting).await;
        let more = SILENT_AT_LEAST + STUCK_AT_LEAST + 4 * LOOK_EVERY;
        assert!(timeout(more, places.take()).await.is_err());
    }

    /// Somebody who has asked for something of this account, and is worked for, or waits for that.
    async fn enter_to_ask(places: &Places, taker: Taker) {
        let (place, asks) = (places.take().await.unwrap(), places.clone());
        let (told, tells) = tokio::sync::oneshot::channel();
        places.enter(place, |stay| {
            tokio::spawn(async move {
                stay.proves();
                stay.does(Doing::Queued);
                let _ = told.send(());
                let turn = asks.run(&taker, &stay).await;
                pending::<()>().await;
                drop(turn);
            })
        });
        tells.await.unwrap();
    }

    #[tokio::test]
    async fn who_waits_to_be_worked_for_gives_its_place_to_who_comes_and_another_account_is_worked_for_at_once() {
        let places = Places::new(16);
        for number in 0..16 {
            enter_to_ask(&places, taker("first", number)).await;
        }
        while places.those().iter().filter(|doing| **doing == Doing::Waiting).count() < 6 {
            tokio::task::yield_now().await;
        }
        // All places have somebody of the one account, of whom half of those that there may be are worked for.
        let (visitor, other) = (places.visitor().await, taker("second", 1));
        assert!(places.run(&other, &visitor).now_or_never().flatten().is_some());
        assert_eq!(places.those().iter().filter(|doing| **doing == Doing::Waiting).count(), 6);
        assert_eq!(places.those().len(), 15);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_to_be_worked_for_without_end() {
        let (places, stay) = Places::with_one(16).await;
        let first = taker("first", 1);
        let turns: Vec<_> = std::iter::from_fn(|| places.running.now(&first)).collect();
        assert_eq!(turns.len(), 3, "an address has a quarter");
        assert!(timeout(2 * RUNS_WITHIN, places.run(&first, &stay)).await.unwrap().is_none());
        assert!(places.run(&taker("first", 2), &stay).await.is_some());
    }

    #[tokio::test]
    async fn who_gets_on_with_its_body_keeps_its_place() {
        let places = Places::new(1);
        let place = places.take().await.unwrap();
        places.enter(place, |stay| {
            stay.proves();
            tokio::spawn(async move {
                loop {
                    stay.does(Doing::Sending);
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            })
        });
        assert!(timeout(STUCK_AT_LEAST + 4 * LOOK_EVERY, places.take()).await.is_err());
    }
}
