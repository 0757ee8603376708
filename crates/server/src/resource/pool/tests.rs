//! Pools whose work hangs, panics or is too much.

use std::cell::Cell;

use super::*;

/// The least that a thread can have (setpriority(2)).
const NICE_MAX: i32 = 19;
const ONE: QueueKey = QueueKey { device: Device::Volume(1), user: 1, session: 1 };

fn at(device: u64) -> QueueKey {
    QueueKey { device: Device::Volume(device), ..ONE }
}

#[tokio::test]
async fn work_is_answered_and_a_panic_is_none() {
    let pool = Pool::new();
    assert_eq!(pool.run(ONE, || 7).await, Some(7));
    assert_eq!(pool.run(ONE, || -> u8 { std::panic::resume_unwind(Box::new(())) }).await, None);
    assert_eq!(pool.run(ONE, || 8).await, Some(8));
    pool.close();
    assert_eq!(pool.run(ONE, || 9).await, None);
}

#[test]
fn what_has_begun_and_not_ended_is_known_with_what_stands_behind_it() {
    let pool = Pool::by_hand();
    let waiting = |than| pool.waiting_longer(than).into_iter().map(|one| (one.device, one.count)).collect::<Vec<_>>();
    (0..3).for_each(|_| pool.submit(at(7), Box::new(|| ())));
    let nothing = pool.try_hand_over(QueueKey { device: Device::Processor, ..ONE }, || ());
    assert_eq!(waiting(Duration::ZERO), [], "nothing has begun");
    let begun: Vec<_> = (0..3).filter_map(|_| pool.take_once()).collect();
    assert_eq!(waiting(Duration::ZERO), [(Device::Volume(7), 3)], "what only computes waits for no device");
    assert_eq!(waiting(Duration::from_secs(3_600)), []);
    begun.into_iter().for_each(|work| work());
    while pool.work_once() {}
    assert_eq!(waiting(Duration::ZERO), []);
    drop(nothing);
}

/// Jobs that end when they are let go.
struct Hanging {
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl Hanging {
    fn new() -> Self {
        Hanging { gate: Arc::default() }
    }

    fn job(&self) -> Job {
        let gate = Arc::clone(&self.gate);
        Box::new(move || {
            let mut open = gate.0.lock();
            while !*open {
                gate.1.wait(&mut open);
            }
        })
    }

    fn end(&self) {
        *self.gate.0.lock() = true;
        self.gate.1.notify_all();
    }
}

#[test]
fn what_others_wait_for_goes_before_the_backlog_of_its_user_and_behind_that_of_nobody() {
    let (pool, done) = (Pool::by_hand(), Arc::new(Mutex::new(Vec::new())));
    let submit = |queue_key, name| {
        let done = Arc::clone(&done);
        pool.submit(queue_key, Box::new(move || done.lock().push(name)));
    };
    for session in 1..=3 {
        (0..3).for_each(|_| submit(QueueKey { session, ..ONE }, "backlog"));
    }
    (0..2).for_each(|_| submit(QueueKey { user: 2, ..ONE }, "other user"));
    (0..2).for_each(|_| submit(QueueKey { session: 2, ..ONE }.first(), "first"));
    (0..5).for_each(|_| assert!(pool.work_once()));
    assert_eq!(*done.lock(), ["first", "other user", "first", "other user", "backlog"]);
}

#[tokio::test]
async fn a_pool_with_many_threads_at_work_is_crowded() {
    let (pool, hanging) = (Pool::new(), Hanging::new());
    for count in 0..=CROWD {
        assert!(!pool.is_crowded(), "{count} at work");
        pool.submit(ONE, hanging.job());
        while pool.0.running.load(Ordering::Relaxed) == count {
            thread::yield_now();
        }
    }
    assert!(pool.is_crowded());
    hanging.end();
    while pool.is_crowded() {
        thread::yield_now();
    }
}

#[tokio::test]
async fn a_device_that_hangs_keeps_nobody_elses_work_waiting() {
    let (pool, hanging) = (Pool::new(), Hanging::new());
    for device in 1..=3 {
        for session in 0..200 {
            pool.submit(QueueKey { user: session / 2, session, ..at(device) }, hanging.job());
        }
    }
    let other = at(4);
    assert_eq!(pool.run(other, || 1).await, Some(1));
    let own = QueueKey { device: Device::Own, ..ONE };
    assert_eq!(pool.run(own, || 2).await, Some(2));
    assert!(pool.0.state.lock().crew.threads() <= 3 * Limits::of_short_work(Limits::THREADS).device + 2);
    hanging.end();
    for device in 1..=3 {
        assert_eq!(pool.run(QueueKey { session: 7, ..at(device) }, || 3).await, Some(3));
    }
    pool.close();
}

#[tokio::test]
async fn long_work_has_few_threads_and_comes_behind_others() {
    let (pool, hanging) = (Pool::for_long_work(2), Hanging::new());
    for session in 0..60 {
        for _ in 0..8 {
            pool.submit(QueueKey { user: session / 2, session, ..ONE }, hanging.job());
        }
    }
    // Each thread calls the next one.
    while pool.0.running.load(Ordering::Relaxed) < 8 {
        thread::yield_now();
    }
    assert_eq!(pool.0.state.lock().crew.threads(), 8);
    let other = at(2);
    let priority = || rustix::process::getpriority_process(None).unwrap();
    let others = priority();
    assert_eq!(pool.run(other, priority).await, Some((others + NICE_OF_FEW).min(NICE_MAX)));
    assert_eq!(Pool::new().run(other, priority).await, Some(others));
    hanging.end();
    pool.close();
}

#[tokio::test]
async fn no_more_threads_than_cores_stand_beside_the_shards() {
    let (pool, hanging) = (Pool::of_threads(Limits::THREADS, 2), Hanging::new());
    let priority = || rustix::process::getpriority_process(None).unwrap();
    let own = priority();
    let all_at_rest_but = |held| {
        let state = pool.0.state.lock();
        (state.crew.idle(), state.crew.called()) == (state.crew.threads() - held, 0)
    };
    for (held, expected) in [(1, own), (2, own), (3, (own + NICE_OF_MANY).min(NICE_MAX))] {
        assert_eq!(pool.run(ONE, priority).await, Some(expected));
        while !all_at_rest_but(held - 1) {
            thread::yield_now();
        }
        pool.submit(ONE, hanging.job());
        while pool.0.running.load(Ordering::Relaxed) != held {
            thread::yield_now();
        }
    }
    hanging.end();
    pool.close();
}

#[tokio::test]
async fn who_hangs_keeps_no_place_beside_the_shards() {
    let (pool, hanging) = (Pool::of_threads(Limits::THREADS, 2), Hanging::new());
    let priority = || rustix::process::getpriority_process(None).unwrap();
    let own = priority();
    // So many that others, which come behind, are at rest afterwards.
    work_abreast(&pool, 8).await;
    for user in 0..4 {
        pool.submit(QueueKey { user, ..ONE }, hanging.job());
    }
    while pool.0.running.load(Ordering::Relaxed) < 4 {
        thread::yield_now();
    }
    assert_eq!(pool.0.state.lock().crew.at_rest(), Some(Row::Rear), "those that come behind nobody hang");
    thread::sleep(crew::HANGS_AFTER);
    for _ in 0..2 {
        assert_eq!(pool.run(at(2), priority).await, Some(own));
    }
    hanging.end();
    while pool.0.running.load(Ordering::Relaxed) > 0 {
        thread::yield_now();
    }
    while pool.0.state.lock().crew.front() > 2 {
        thread::yield_now();
    }
    pool.close();
}

/// Waits until all threads of the pool rest.
fn rest(pool: &Pool) {
    let all_rest = || {
        let state = pool.0.state.lock();
        (state.crew.idle(), state.crew.called()) == (state.crew.threads(), 0)
    };
    while !all_rest() {
        thread::yield_now();
    }
}

/// Has so many threads work at the same time, and rest.
async fn work_abreast(pool: &Pool, threads: usize) {
    let meet = Arc::new(std::sync::Barrier::new(threads));
    let all: Vec<_> = (0..threads as u64)
        .map(|user| {
            let meet = Arc::clone(&meet);
            pool.hand_over(QueueKey { user, ..at(2) }, move || _ = meet.wait())
        })
        .collect();
    for one in all {
        one.await.unwrap();
    }
    rest(pool);
}

/// Has both threads in the front hang.
fn hang_in_front(pool: &Pool, hanging: &Hanging) {
    for user in 0..2 {
        pool.submit(QueueKey { user, ..ONE }, hanging.job());
    }
    while pool.0.running.load(Ordering::Relaxed) < 2 {
        thread::yield_now();
    }
    thread::sleep(crew::HANGS_AFTER);
}

#[tokio::test]
async fn where_no_thread_can_be_started_beside_what_hangs_one_that_rests_is_called() {
    let pool = Pool::with(Threads { abreast: 2, ..WHERE_LEFT }, Limits::of_short_work(Limits::THREADS));
    let hanging = Hanging::new();
    LEFT.set(6);
    work_abreast(&pool, 6).await;
    LEFT.set(0);
    hang_in_front(&pool, &hanging);
    let done = tokio::time::timeout(IDLE_TIME / 4, pool.run(at(3), || 1)).await;
    assert_eq!(done, Ok(Some(1)), "not only when it has rested for long enough");
    hanging.end();
    pool.close();
}

#[tokio::test]
async fn a_device_that_hangs_again_and_again_leaves_no_threads_behind() {
    let pool = Pool::of_threads(Limits::THREADS, 2);
    work_abreast(&pool, 4).await;
    for _ in 0..16 {
        let hanging = Hanging::new();
        hang_in_front(&pool, &hanging);
        for _ in 0..2 {
            assert_eq!(pool.run(at(3), || 1).await, Some(1));
        }
        hanging.end();
        rest(&pool);
    }
    let threads = pool.0.state.lock().crew.threads();
    assert!(threads <= IDLE_THREADS_KEPT + 4, "{threads} threads");
    pool.close();
}

#[tokio::test]
async fn each_device_has_a_thread_however_many_hang() {
    let (pool, hanging) = (Pool::new(), Hanging::new());
    for device in 0..20 {
        for _ in 0..40 {
            pool.submit(at(device), hanging.job());
        }
    }
    let other = at(99);
    assert_eq!(pool.run(other, || 1).await, Some(1));
    hanging.end();
    pool.close();
}

#[tokio::test]
async fn devices_that_hang_leave_what_only_computes_its_threads() {
    let (pool, hanging) = (Pool::for_long_work(1), Hanging::new());
    for device in 0..8 {
        for user in 0..4 {
            pool.submit(QueueKey { user, ..at(device) }, hanging.job());
        }
    }
    let computes = |user| QueueKey { device: Device::Processor, user, session: user };
    let (meet, met) = (Arc::new(std::sync::Barrier::new(2)), Duration::from_secs(10));
    let pairs = [1, 2].map(|user| {
        let meet = Arc::clone(&meet);
        pool.hand_over(computes(user), move || meet.wait())
    });
    for pair in pairs {
        assert!(matches!(tokio::time::timeout(met, pair).await, Ok(Ok(_))), "two compute at a time");
    }
    hanging.end();
    pool.close();
}

#[tokio::test]
async fn one_session_that_hangs_leaves_threads_for_others_of_its_device() {
    let (pool, hanging) = (Pool::new(), Hanging::new());
    (0..200).for_each(|_| pool.submit(ONE, hanging.job()));
    assert_eq!(pool.run(QueueKey { session: 2, ..ONE }, || 1).await, Some(1));
    hanging.end();
    pool.close();
}

#[tokio::test]
async fn one_user_that_hangs_leaves_threads_for_others_of_its_device() {
    for pool in [Pool::new(), Pool::for_long_work(1)] {
        let hanging = Hanging::new();
        (0..200).for_each(|session| pool.submit(QueueKey { session, ..ONE }, hanging.job()));
        assert_eq!(pool.run(QueueKey { user: 2, session: 200, ..ONE }, || 1).await, Some(1));
        hanging.end();
        pool.close();
    }
}

#[tokio::test]
async fn work_that_hangs_on_one_of_two_devices_leaves_the_threads_of_both() {
    for pool in [Pool::new(), Pool::for_long_work(1)] {
        let hanging = Hanging::new();
        for user in 0..200 {
            let device = if user % 2 == 0 { Device::of_both(1, 2) } else { Device::of_both(2, 1) };
            pool.submit(QueueKey { device, user, session: user }, hanging.job());
        }
        for device in 1..=2 {
            assert_eq!(pool.run(at(device), move || device).await, Some(device));
        }
        let with_another = QueueKey { device: Device::of_both(2, 3), ..ONE };
        assert_eq!(pool.run(with_another, || 3).await, Some(3));
        assert!(pool.0.state.lock().crew.threads() <= Limits::of_short_work(Limits::THREADS).device / 4 + 3);
        hanging.end();
        pool.close();
    }
    assert_eq!(Device::of_both(1, 1), Device::Volume(1));
}

thread_local! {
    /// Threads that the system still gives to who asks on this one.
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

const WHERE_LEFT: Threads = Threads {
    name: "where left",
    max: usize::MAX,
    abreast: 0,
    nice: 0,
    start: |thread, work| {
        let left = LEFT.get().checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?;
        LEFT.set(left);
        thread.spawn(work).map(drop)
    },
};

#[tokio::test]
async fn what_no_thread_can_be_started_for_is_done_by_the_one_there_is() {
    let pool = Pool::with(WHERE_LEFT, Limits::of_short_work(Limits::THREADS));
    assert!(pool.begin().is_err(), "a server does not start without a thread");
    LEFT.set(1);
    pool.begin().unwrap();
    let devices = (1..=20).map(|device| QueueKey { session: device, ..at(device) });
    let answers: Vec<_> = devices.map(|queue_key| pool.hand_over(queue_key, move || queue_key.session)).collect();
    for (answer, session) in answers.into_iter().zip(1..) {
        assert_eq!(answer.await, Ok(session));
    }
    assert_eq!(pool.0.state.lock().crew.threads(), 1);
    pool.close();
}

#[tokio::test]
async fn work_beside_a_device_that_hangs_begins_once_a_thread_can_be_started() {
    let (pool, hanging) = (Pool::with(WHERE_LEFT, Limits::of_short_work(Limits::THREADS)), Hanging::new());
    LEFT.set(1);
    pool.begin().unwrap();
    pool.submit(ONE, hanging.job());
    let answer = pool.hand_over(at(2), || 1);
    pool.start_missing();
    LEFT.set(1);
    pool.start_missing();
    assert_eq!(answer.await, Ok(1));
    hanging.end();
    pool.close();
}

#[test]
fn sessions_take_turns() {
    let (pool, order) = (Pool::by_hand(), Arc::new(Mutex::new(Vec::new())));
    let add = |session: u64, name: &'static str| {
        let order = Arc::clone(&order);
        pool.submit(QueueKey { session, ..ONE }, Box::new(move || order.lock().push(name)));
    };
    ["a1", "a2", "a3"].into_iter().for_each(|name| add(1, name));
    ["b1", "b2"].into_iter().for_each(|name| add(2, name));
    add(3, "c1");
    while pool.work_once() {}
    assert_eq!(*order.lock(), ["a1", "b1", "c1", "a2", "b2", "a3"]);
    assert!(pool.0.state.lock().queues.are_empty(), "nothing is remembered of who has no work");
}

#[test]
fn users_take_turns_whatever_their_sessions() {
    let (pool, order) = (Pool::by_hand(), Arc::new(Mutex::new(Vec::new())));
    let add = |user: u64, session: u64, name: &'static str| {
        let order = Arc::clone(&order);
        pool.submit(QueueKey { user, session, ..ONE }, Box::new(move || order.lock().push(name)));
    };
    for (session, names) in [(1, ["a1", "a1 again"]), (2, ["a2", "a2 again"]), (3, ["a3", "a3 again"])] {
        names.into_iter().for_each(|name| add(1, session, name));
    }
    ["b4", "b4 again"].into_iter().for_each(|name| add(2, 4, name));
    while pool.work_once() {}
    assert_eq!(*order.lock(), ["a1", "b4", "a2", "b4 again", "a3", "a1 again", "a2 again", "a3 again"]);
    assert!(pool.0.state.lock().queues.are_empty(), "nothing is remembered of who has no work");
}

#[tokio::test]
async fn too_much_of_one_session_is_refused() {
    let pool = Pool::by_hand();
    (0..QUEUED_MAX).for_each(|_| pool.submit(ONE, Box::new(|| ())));
    assert_eq!(pool.run(ONE, || 1).await, None);
    let other = pool.run(QueueKey { session: 2, ..ONE }, || 1);
    let (answer, ()) = tokio::join!(other, async { while pool.work_once() {} });
    assert_eq!(answer, Some(1));
}
