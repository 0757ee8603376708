//! Who is connected. There are so many places; where none is free, who says nothing, or does not take its answer, gives its place to who comes. So it is with
//! room for long answers.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{timeout, timeout_at};

use crate::turns::{self, Taker, Turns};

/// The part of all descriptors that connections may have, and the least and the most that this is.
const DESCRIPTORS_PART: u64 = 64;
const PLACES: (u64, u64) = (16, 1024);
/// How long somebody may have said nothing before its place is another's: enough for a head that is on its way.
const SILENT_AT_LEAST: Duration = Duration::from_millis(250);
/// The same for who sends a body, or takes an answer, and has not moved a byte for so long.
const STUCK_AT_LEAST: Duration = Duration::from_secs(1);
/// Files that are sent at a time: of each, some pieces wait for who takes them.
const SENT_MAX: usize = 64;
/// How long somebody waits for its turn to be sent one, from the head of its request on. The part of all places that those who wait may have: others come meanwhile.
pub(super) const TURN_WITHIN: Duration = Duration::from_secs(30);
const QUEUE_PART: usize = 2;
/// Bytes of answers that are held at a time for who takes them. Short ones are paid for by the place.
const ANSWERS_BYTES: usize = 32 << 20;
/// Bytes of a short one.
const SHORT_BYTES: usize = 16 << 10;
/// How long an answer waits for room, and how many do at a time.
const ROOM_WITHIN: Duration = Duration::from_secs(20);
const WAITING_MAX: usize = 16;
/// How long somebody may take for an answer while others wait for its room, however it gets on.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);
/// What somebody who is sent a file takes in a second, on average of the time for which it has its turn, where others wait for one: so many bytes from so
/// long on. A range of 4 MiB may come over a slow line, and a long file has to come over a better one.
const RATES: [(Duration, u64); 2] = [(Duration::from_secs(5), 64 << 10), (Duration::from_secs(60), 1 << 20)];
/// The same where it is its own account and address that waits: many ranges at once share one line, and each that is broken off comes over it again.
const OWN_RATES: [(Duration, u64); 1] = [(Duration::from_secs(60), 64 << 10)];
/// The part of all places whose requests are worked for at a time, also where nobody waits for that any more: who has one of these keeps its place, and the
/// others can be anothers. How long a request waits for that.
const RUNNING_PART: (usize, usize) = (3, 4);
const RUNS_WITHIN: Duration = Duration::from_secs(20);
/// How often that is looked at while somebody waits.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// All places, and who has them.
#[derive(Clone)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    running: Turns,
    sent: Turns,
    queue: Turns,
    room: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    stays: Arc<Stays>,
}

#[derive(Default)]
struct Stays(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    next: u64,
    stays: BTreeMap<u64, Staying>,
}

struct Staying {
    task: Option<AbortHandle>,
    doing: Doing,
    since: Instant,
    /// Since when it has room for an answer.
    holds: Option<Instant>,
    /// Its turn to be sent a file.
    turn: Option<Holding>,
}

/// A turn that somebody has.
struct Holding {
    taker: Taker,
    since: Instant,
    /// Bytes that were written to it since.
    taken: u64,
}

/// Whether who has had a turn for so long, and taken so much, takes less than that.
fn is_slow(had: Duration, taken: u64, rates: &[(Duration, u64)]) -> bool {
    rates.iter().any(|(from, least)| had >= *from && u128::from(taken) * 1000 < u128::from(*least) * had.as_millis())
}

impl Staying {
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
    fn late_since(&self) -> Option<Instant> {
        self.holds.filter(|since| since.elapsed() >= TAKEN_WITHIN)
    }

    /// Since when it has its turn, where it takes too little of what it is sent for this one's waiting.
    fn slow_since(&self, waits: &Taker) -> Option<Instant> {
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

/// One connection's stay, which ends when this is dropped.
pub(super) struct Stay {
    stays: Arc<Stays>,
    number: u64,
    _place: OwnedSemaphorePermit,
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
        let [free, room, waiting] = [count, ANSWERS_BYTES, WAITING_MAX].map(|count| Arc::new(Semaphore::new(count)));
        Places { free, running, sent, queue, room, waiting, stays: Arc::default() }
    }

    /// Waits for a place. `None` once there will be none any more.
    pub(super) async fn take(&self) -> Option<OwnedSemaphorePermit> {
        self.some_of((&self.free, 1), |one| one.doing != Doing::Waiting).await
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
        let turn = async {
            let mut turn = self.sent.soon(taker);
            loop {
                if let Ok(turn) = timeout(LOOK_EVERY, &mut turn).await {
                    return turn.ok();
                }
                let held = self.sent.held();
                let yields = |one: &Staying| {
                    let has = one.turn.as_ref().filter(|_| one.doing == Doing::Taking);
                    has.is_some_and(|has| held.yields(&has.taker, taker))
                };
                self.stays.send_one_away(yields, |one| one.slow_since(taker));
            }
        };
        timeout_at(until.into(), turn).await.ok().flatten().map(|turn| Turn::of(turn, stay))
    }

    /// Has an answer hold what it takes, until that is sent. `None` where there is no room: it is held by nobody then.
    pub(super) async fn charge(&self, body: Bytes, stay: &Arc<Stay>) -> Option<Bytes> {
        if body.len() <= SHORT_BYTES {
            return Some(body);
        }
        let room = self.room(body.len()).await?;
        stay.holds(true);
        Some(Bytes::from_owner(Charged { body, stay: Arc::clone(stay), _room: room }))
    }

    async fn room(&self, length: usize) -> Option<OwnedSemaphorePermit> {
        let count = length.min(ANSWERS_BYTES) as u32;
        if let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(count) {
            return Some(room);
        }
        // Who waits holds its answer, and has not paid for it.
        let _waits = self.waiting.try_acquire().ok()?;
        let room = self.some_of((&self.room, count), |one| one.holds.is_some());
        timeout(ROOM_WITHIN, room).await.ok().flatten()
    }

    /// Waits for so many of these, in the order in which they came, and meanwhile sends those away that do such things too slowly.
    async fn some_of(
        &self,
        (free, count): (&Arc<Semaphore>, u32),
        is_it: impl Fn(&Staying) -> bool,
    ) -> Option<OwnedSemaphorePermit> {
        if let Ok(some) = Arc::clone(free).try_acquire_many_owned(count) {
            return Some(some);
        }
        let mut some = pin!(Arc::clone(free).acquire_many_owned(count));
        loop {
            self.stays.send_one_away(&is_it, Staying::late_since);
            if let Ok(some) = timeout(LOOK_EVERY, &mut some).await {
                return some.ok();
            }
        }
    }

    /// Somebody is there, whom a task attends to.
    pub(super) fn enter(&self, place: OwnedSemaphorePermit, attend: impl FnOnce(Arc<Stay>) -> JoinHandle<()>) {
        let number = {
            let mut inside = self.stays.0.lock();
            inside.next += 1;
            let number = inside.next;
            let begins = Staying { task: None, doing: Doing::Silent, since: Instant::now(), holds: None, turn: None };
            inside.stays.insert(number, begins);
            number
        };
        let task = attend(Arc::new(Stay { stays: Arc::clone(&self.stays), number, _place: place })).abort_handle();
        if let Some(staying) = self.stays.0.lock().stays.get_mut(&number) {
            staying.task = Some(task);
        }
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
        let (stays, place) = (Arc::clone(&self.stays), self.take().await.unwrap());
        Arc::new(Stay { stays, number: 0, _place: place })
    }

    /// True where this one has a turn.
    pub(super) fn has_turn(&self, taker: &Taker) -> bool {
        self.sent.held().yields(taker, &Taker::of("nobody", [192, 0, 2, 255].into()))
    }

    /// What each does.
    pub(super) fn those(&self) -> Vec<Doing> {
        self.stays.0.lock().stays.values().map(|one| one.doing).collect()
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

impl Stays {
    /// Of those who do such things, disconnects who has been silent longest, or else who has been stuck longest, or else who has taken too little for
    /// longest.
    fn send_one_away(&self, is_it: impl Fn(&Staying) -> bool, too_little: impl Fn(&Staying) -> Option<Instant>) {
        let mut inside = self.0.lock();
        let longest = |since: &dyn Fn(&Staying) -> Option<Instant>, at_least: Duration| {
            let those = inside.stays.iter().filter(|(_, one)| is_it(one) && one.task.is_some());
            let (since, number) = those.filter_map(|(number, one)| Some((since(one)?, *number))).min()?;
            (since.elapsed() >= at_least).then_some(number)
        };
        let number = longest(&Staying::silent_since, SILENT_AT_LEAST)
            .or_else(|| longest(&Staying::still_since, STUCK_AT_LEAST))
            .or_else(|| longest(&too_little, Duration::ZERO));
        let staying = number.and_then(|number| inside.stays.remove(&number));
        drop(inside);
        staying.and_then(|staying| staying.task).iter().for_each(AbortHandle::abort);
    }
}

impl Stay {
    /// It takes so many bytes.
    pub(super) fn takes(&self, count: usize) {
        if let Some(staying) = self.stays.0.lock().stays.get_mut(&self.number) {
            staying.since = Instant::now();
            staying.turn.iter_mut().for_each(|turn| turn.taken += count as u64);
        }
    }

    /// It does this from now on, or has got on with it.
    pub(super) fn does(&self, doing: Doing) {
        if let Some(staying) = self.stays.0.lock().stays.get_mut(&self.number) {
            (staying.doing, staying.since) = (doing, Instant::now());
        }
    }

    /// It has a turn, or no longer.
    fn has_turn(&self, taker: Option<Taker>) {
        if let Some(staying) = self.stays.0.lock().stays.get_mut(&self.number) {
            staying.turn = taker.map(|taker| Holding { taker, since: Instant::now(), taken: 0 });
        }
    }

    /// It has room for an answer, or no longer.
    fn holds(&self, holds: bool) {
        if let Some(staying) = self.stays.0.lock().stays.get_mut(&self.number) {
            staying.holds = holds.then(Instant::now);
        }
    }
}

/// Somebody's turn to be sent a file, which others have once this is dropped.
pub(crate) struct Turn {
    stay: Arc<Stay>,
    _turn: turns::Turn,
}

impl Turn {
    fn of(turn: turns::Turn, stay: &Arc<Stay>) -> Self {
        stay.has_turn(Some(turn.taker().clone()));
        Turn { stay: Arc::clone(stay), _turn: turn }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.stay.has_turn(None);
    }
}

/// An answer with the room that it takes, which others have once it is sent.
struct Charged {
    body: Bytes,
    stay: Arc<Stay>,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Drop for Charged {
    fn drop(&mut self) {
        self.stay.holds(false);
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.stays.0.lock().stays.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::FutureExt;

    use super::*;

    /// Somebody who does this and stays; told of by the place that is given back.
    async fn enter(places: &Places, doing: Doing) {
        let place = places.take().await.unwrap();
        places.enter(place, |stay| {
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

    #[tokio::test]
    async fn who_takes_a_file_slowly_gives_its_turn_to_who_waits_after_a_minute() {
        let places = Places::new(32);
        while enter_with_turn(&places, taker("first", 1)).await {}
        // All get on, and have since the last minute; one has had its turn for longer.
        let stays = Arc::clone(&places.stays);
        let getting_on = tokio::spawn(async move {
            loop {
                for one in stays.0.lock().stays.values_mut() {
                    one.since = Instant::now();
                    one.turn.iter_mut().for_each(|turn| turn.taken = 2 << 20);
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        });
        let with_turn = || places.stays.0.lock().stays.values().filter(|one| one.turn.is_some()).count();
        let all = with_turn();
        let (visitor, first) = (places.visitor().await, taker("first", 1));
        let in_time = Instant::now() + STUCK_AT_LEAST + 4 * LOOK_EVERY;
        assert!(places.turn(&first, &visitor, in_time).await.is_none() && with_turn() == all);
        if let Some(one) = places.stays.0.lock().stays.values_mut().find_map(|one| one.turn.as_mut()) {
            one.since = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        }
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

    /// Somebody who has asked for a long answer, and has it by now, or not.
    async fn enter_for_answer(places: &Places, length: usize) -> bool {
        let (place, asks) = (places.take().await.unwrap(), places.clone());
        let (told, tells) = tokio::sync::oneshot::channel();
        places.enter(place, |stay| {
            tokio::spawn(async move {
                stay.does(Doing::Waiting);
                let answer = asks.charge(Bytes::from(vec![0; length]), &stay).await;
                // What is handed over whole is taken, as far as its connection knows.
                stay.does(Doing::Silent);
                let _ = told.send(answer.is_some());
                pending::<()>().await;
                drop(answer);
            })
        });
        tells.await.unwrap()
    }

    #[tokio::test]
    async fn who_takes_no_answer_gives_its_room_to_who_comes() {
        let places = Places::new(9);
        enter(&places, Doing::Silent).await;
        for _ in 0..4 {
            assert!(enter_for_answer(&places, ANSWERS_BYTES / 4).await);
        }
        assert_eq!(places.room.available_permits(), 0);
        assert!(enter_for_answer(&places, SHORT_BYTES).await, "a short one needs no room");
        assert!(enter_for_answer(&places, SHORT_BYTES + 1).await);
        assert_eq!(places.those().len(), 6, "one of those who take none has gone, and nobody else");
    }

    #[tokio::test]
    async fn few_answers_wait_for_room() {
        let places = Places::new(9);
        let room = places.room(ANSWERS_BYTES).await.unwrap();
        let waits: Vec<_> = (0..WAITING_MAX).map(|_| places.waiting.try_acquire().unwrap()).collect();
        assert!(!enter_for_answer(&places, ANSWERS_BYTES).await, "it is not waited for");
        drop(waits);
        drop(room);
        assert!(enter_for_answer(&places, 2 * ANSWERS_BYTES).await, "one that is longer than all room has all of it");
    }

    #[tokio::test]
    async fn an_answer_has_its_room_until_it_is_sent() {
        let places = Places::new(9);
        let stay = Arc::new(Stay { stays: Arc::clone(&places.stays), number: 0, _place: places.take().await.unwrap() });
        let answer = places.charge(Bytes::from(vec![7; 1 << 20]), &stay).await.unwrap();
        assert_eq!((answer.len(), places.room.available_permits()), (1 << 20, ANSWERS_BYTES - (1 << 20)));
        let rest = answer.slice(5..);
        drop(answer);
        assert_eq!(places.room.available_permits(), ANSWERS_BYTES - (1 << 20));
        drop(rest);
        assert_eq!(places.room.available_permits(), ANSWERS_BYTES);
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
