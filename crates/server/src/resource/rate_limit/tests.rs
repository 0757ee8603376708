//! Limits in virtual time.

use std::cell::Cell;
use std::rc::Rc;

use tokio::task::LocalSet;
use tokio::time::sleep;

use super::*;

const MIB: u64 = 1 << 20;

/// A limit, and clients that ask it for more.
#[derive(Clone)]
struct Limited {
    limit: Arc<RateLimit>,
    rates: Arc<Rates>,
}

/// Clients of users of their own, and of one user.
fn of_users(number: u64) -> Member {
    Member { user: number, session: number }
}

fn of_one_user(number: u64) -> Member {
    Member { user: 7, session: number }
}

/// How much one client was let do.
#[derive(Clone, Default)]
struct Done(Rc<Cell<u64>>);

impl Limited {
    fn to(rate: Rate) -> Self {
        Limited { limit: Arc::default(), rates: Arc::new(Rates::new(rate)) }
    }

    fn steady(requests: u32) -> Self {
        Limited::to(Rate { requests: Some(RequestRate::steady(requests)), mib: None })
    }

    /// A client of a user of its own that has `depth` requests of `bytes` on their way at all times, each of which takes `micros` beside its wait.
    fn client(&self, number: u64, depth: usize, bytes: u64, micros: u64) -> Done {
        self.client_of(of_users(number), depth, bytes, micros)
    }

    fn client_of(&self, member: Member, depth: usize, bytes: u64, micros: u64) -> Done {
        let done = Done::default();
        for _ in 0..depth {
            let (this, done) = (self.clone(), done.clone());
            spawn_local(async move {
                loop {
                    if !this.limit.try_take(&this.rates, bytes, Instant::now()) {
                        this.limit.take(&this.rates, bytes, member, |_| ()).await;
                    }
                    if micros > 0 {
                        sleep(Duration::from_micros(micros)).await;
                    }
                    done.0.set(done.0.get() + 1);
                }
            });
        }
        done
    }
}

impl Done {
    /// How many requests were done in so many seconds from now.
    async fn within(&self, seconds: u64) -> u64 {
        let before = self.0.get();
        sleep(Duration::from_secs(seconds)).await;
        self.0.get() - before
    }
}

fn assert_near(found: u64, expected: u64, percent: u64) {
    let (low, high) = (expected * (100 - percent) / 100, expected * (100 + percent) / 100);
    assert!((low..=high).contains(&found), "{found} where {expected} is meant, within {percent} %");
}

async fn in_virtual_time<T>(test: impl Future<Output = T>) -> T {
    LocalSet::new().run_until(test).await
}

#[tokio::test(start_paused = true)]
async fn ten_seconds_have_as_many_requests_as_ten_times_a_second() {
    in_virtual_time(async {
        for rate in [500, 3_100, 20_000] {
            let limited = Limited::steady(rate);
            let done = limited.client(1, 64, 4_096, 100);
            assert_near(done.within(10).await, u64::from(rate) * 10, 1);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn ten_seconds_have_as_many_bytes_whatever_the_size() {
    in_virtual_time(async {
        for (bytes, depth) in [(64 << 10, 32), (MIB, 8), (MIB, 1), (8 * MIB, 4)] {
            let limited = Limited::to(Rate { requests: None, mib: Some(110) });
            let done = limited.client(1, depth, bytes, 100);
            assert_near(done.within(10).await * bytes / MIB, 1_100, 2);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_request_at_a_time_has_as_much_as_sixty_four() {
    in_virtual_time(async {
        for (rate, of) in
            [(500, of_users as fn(u64) -> Member), (3_000, of_users), (500, of_one_user), (3_000, of_one_user)]
        {
            let limited = Limited::steady(rate);
            let (one, many) = (limited.client_of(of(1), 1, 4_096, 0), limited.client_of(of(2), 64, 4_096, 0));
            sleep(Duration::from_secs(1)).await;
            let (before, one) = (many.0.get(), one.within(10).await);
            let many = many.0.get() - before;
            assert_near(one + many, u64::from(rate) * 10, 2);
            assert_near(one, u64::from(rate) * 5, 5);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn small_requests_one_at_a_time_have_as_much_as_large_ones() {
    in_virtual_time(async {
        let cases = [(64 << 10, MIB, 50), (256 << 10, 8 * MIB, 110), (256 << 10, MIB, 20)];
        let whose = [of_users as fn(u64) -> Member, of_one_user];
        for ((small, large, mib), of) in cases.into_iter().flat_map(|case| whose.map(|of| (case, of))) {
            let limited = Limited::to(Rate { requests: None, mib: Some(mib) });
            let (one, many) = (limited.client_of(of(1), 1, small, 100), limited.client_of(of(2), 64, large, 100));
            sleep(Duration::from_secs(1)).await;
            let (before, one) = (many.0.get(), one.within(20).await * small);
            let many = (many.0.get() - before) * large;
            assert_near((one + many) / MIB, u64::from(mib) * 20, 2);
            assert_near(one / MIB, u64::from(mib) * 10, 5);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn who_signs_in_sixty_times_has_as_much_as_who_does_once() {
    in_virtual_time(async {
        for depth in [1, 16] {
            let limited = Limited::steady(200);
            let one = limited.client_of(Member { user: 1, session: 1 }, depth, 4_096, 100);
            let many: Vec<_> =
                (2..62).map(|session| limited.client_of(Member { user: 2, session }, depth, 4_096, 100)).collect();
            sleep(Duration::from_secs(2)).await;
            let before: Vec<u64> = many.iter().map(|one| one.0.get()).collect();
            assert_near(one.within(60).await, 200 * 60 / 2, 5);
            for (one, before) in many.iter().zip(before) {
                assert_near(one.0.get() - before, 200 * 60 / 2 / 60, 10);
            }
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn eight_members_have_an_eighth_each_though_one_asks_for_large_things() {
    for of in [of_users as fn(u64) -> Member, of_one_user] {
        in_virtual_time(an_eighth_each(of)).await;
    }
}

async fn an_eighth_each(of: fn(u64) -> Member) {
    let limited = Limited::to(Rate { requests: None, mib: Some(100) });
    let large = limited.client_of(of(0), 4, MIB, 100);
    let small: Vec<_> = (1..8).map(|member| limited.client_of(of(member), 16, 64 << 10, 100)).collect();
    sleep(Duration::from_secs(1)).await;
    let before: Vec<u64> = small.iter().map(|one| one.0.get()).collect();
    let large = large.within(20).await;
    assert_near(large, 100 * 20 / 8, 5);
    for (one, before) in small.iter().zip(before) {
        assert_near((one.0.get() - before) / 16, 100 * 20 / 8, 5);
    }
}

#[tokio::test(start_paused = true)]
async fn credits_run_out_and_come_back_when_the_formula_says() {
    in_virtual_time(async {
        // A hundredth of a share of 100 GiB.
        let requests = RequestRate { baseline: 31, burst: 100, credits_max: 69 * 3_600 };
        let limited = Limited::to(Rate { requests: Some(requests), mib: None });
        assert_eq!(limited.limit.credits(&limited.rates), 69 * 3_600);
        let done = limited.client(1, 8, 4_096, 100);
        assert_near(done.within(1_800).await, 100 * 1_800, 1);
        assert_near(limited.limit.credits(&limited.rates), 69 * 1_800, 1);
        assert_near(done.within(1_780).await, 100 * 1_780, 1);
        sleep(Duration::from_secs(40)).await;
        assert_near(done.within(100).await, 31 * 100, 1);
        assert!(limited.limit.credits(&limited.rates) <= 1);
    })
    .await;
    in_virtual_time(async {
        let requests = RequestRate { baseline: 31, burst: 100, credits_max: 69 * 10 };
        let limited = Limited::to(Rate { requests: Some(requests), mib: None });
        for _ in 0..69 * 20 {
            limited.limit.take(&limited.rates, 0, of_users(1), |_| ()).await;
        }
        assert!(limited.limit.credits(&limited.rates) <= 1);
        sleep(Duration::from_secs(10)).await;
        assert_near(limited.limit.credits(&limited.rates), 310, 1);
        sleep(Duration::from_secs(20)).await;
        assert_eq!(limited.limit.credits(&limited.rates), 690, "there are no more than fit");
    })
    .await;
}

/// What Azure's table has of provisioned v1: baseline, burst, and MiB a second.
const TABLE: [(u32, u32, u32); 8] = [
    (3_100, 10_000, 110),
    (3_500, 10_000, 150),
    (4_024, 10_000, 203),
    (8_120, 15_360, 613),
    (13_240, 30_720, 1_125),
    (36_792, 101_376, 3_480),
    (54_200, 102_400, 5_220),
    (102_400, 102_400, 10_340),
];

#[tokio::test(start_paused = true)]
async fn every_row_of_the_table_is_what_ten_seconds_have() {
    // A hundredth of the requests and a tenth of the bytes, and credits for twelve seconds rather than an hour.
    for (baseline, burst, mib) in TABLE.map(|(baseline, burst, mib)| (baseline / 100, burst / 100, mib / 10)) {
        let requests = RequestRate { baseline, burst, credits_max: u64::from(burst - baseline) * 12 };
        let rate = Rate { requests: Some(requests), mib: Some(mib) };
        in_virtual_time(async {
            let done = Limited::to(rate).client(1, 32, 4_096, 100);
            assert_near(done.within(10).await, u64::from(burst) * 10, 2);
            sleep(Duration::from_secs(3)).await;
            assert_near(done.within(10).await, u64::from(baseline) * 10, 2);
        })
        .await;
        in_virtual_time(async {
            let done = Limited::to(rate).client(1, 32, MIB, 100);
            assert_near(done.within(10).await, u64::from(mib) * 10, 2);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_stops_waiting_has_taken_nothing() {
    in_virtual_time(async {
        let limited = Limited::steady(10);
        for _ in 0..100 {
            let wait = tokio::time::timeout(
                Duration::from_millis(1),
                limited.limit.take(&limited.rates, 0, of_users(1), |_| ()),
            );
            let _ = wait.await;
        }
        let done = limited.client(1, 4, 0, 0);
        assert_near(done.within(10).await, 100, 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_raised_or_taken_away_counts_for_those_who_wait() {
    in_virtual_time(async {
        let limited = Limited::steady(10);
        let done = limited.client(1, 64, 4_096, 100);
        assert_near(done.within(10).await, 100, 2);
        limited.rates.change(Rate { requests: Some(RequestRate::steady(1_000)), mib: None });
        assert_near(done.within(10).await, 10_000, 2);
        limited.rates.change(Rate::default());
        assert!(done.within(1).await > 50_000);
        limited.rates.change(Rate { requests: Some(RequestRate::steady(100)), mib: None });
        sleep(Duration::from_secs(1)).await;
        assert_near(done.within(10).await, 1_000, 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn spent_credits_hold_up_nobody_who_may_do_more_now() {
    in_virtual_time(async {
        let bursts = |baseline, burst, credits_max| {
            let requests = RequestRate { baseline, burst, credits_max };
            Rate { requests: Some(requests), mib: None }
        };
        let limited = Limited::to(bursts(31, 100, 69 * 100));
        let done = limited.client(1, 8, 4_096, 100);
        sleep(Duration::from_secs(110)).await;
        assert!(limited.limit.credits(&limited.rates) <= 1);
        limited.rates.change(Rate { requests: Some(RequestRate::steady(1_000)), mib: None });
        assert_near(done.within(10).await, 10_000, 1);
        // Half of what there is to spend now.
        let limited = Limited::to(bursts(31, 100, 69 * 100));
        let done = limited.client(1, 8, 4_096, 100);
        sleep(Duration::from_secs(110)).await;
        limited.rates.change(bursts(62, 200, 138 * 100));
        assert_near(limited.limit.credits(&limited.rates), 69 * 100, 1);
        assert_near(done.within(10).await, 2_000, 1);
        assert_near(limited.limit.credits(&limited.rates), 69 * 100 - 138 * 10, 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_large_request_is_paid_for_at_the_rate_that_is_allowed_now() {
    in_virtual_time(async {
        let limited = Limited::to(Rate { requests: None, mib: Some(1) });
        limited.limit.take(&limited.rates, 8 * MIB, of_users(1), |_| ()).await;
        limited.rates.change(Rate { requests: None, mib: Some(100) });
        let began = Instant::now();
        limited.limit.take(&limited.rates, 4_096, of_users(1), |_| ()).await;
        assert_near(began.elapsed().as_millis() as u64, 80, 5);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn who_leaves_the_line_moves_nobody_elses_place() {
    in_virtual_time(async {
        let limited = Limited::steady(10);
        let waits = |member: u64, count: usize| -> Vec<_> {
            let wait = |_| {
                let this = limited.clone();
                spawn_local(async move { this.limit.take(&this.rates, 0, of_users(member), |_| ()).await })
            };
            (0..count).map(wait).collect()
        };
        let (stays, goes) = (waits(1, 100), waits(2, 200));
        sleep(Duration::from_millis(500)).await;
        goes.iter().for_each(|task| task.abort());
        sleep(Duration::from_millis(1)).await;
        let began = Instant::now();
        limited.limit.take(&limited.rates, 0, of_users(3), |_| ()).await;
        assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
        drop(stays);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_given_back_is_had_at_once_and_shared_evenly() {
    in_virtual_time(async {
        // Reads of small files with large buffers: 8 MiB are asked for, and 4 KiB are there.
        let limited = Limited::to(Rate { requests: None, mib: Some(10) });
        let counts = [1, 2].map(of_users).map(|member| {
            let (this, done) = (limited.clone(), Done::default());
            let count = done.clone();
            spawn_local(async move {
                loop {
                    this.limit.take(&this.rates, 8 * MIB, member, |_| ()).await;
                    tokio::task::yield_now().await;
                    this.limit.settle(&this.rates, 8 * MIB, 4_096, Some(member));
                    count.0.set(count.0.get() + 1);
                }
            });
            done
        });
        sleep(Duration::from_secs(1)).await;
        let before = counts[1].0.get();
        let one = counts[0].within(10).await;
        let other = counts[1].0.get() - before;
        assert_near(one + other, 10 * 10 * 256, 2);
        assert_near(one, 10 * 10 * 128, 5);
    })
    .await;
}
