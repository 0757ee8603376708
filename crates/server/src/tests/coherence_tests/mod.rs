//! Clients that cache under their leases, acknowledge late or never and lose their connections, as chance has it from a seed, in virtual
//! time: what they read is what was written last, whatever happens, and nobody waits longer than for a break.

mod client;
mod history;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use store::{RamStore, Store};
use tokio::task::LocalSet;
use tokio::time::sleep;

use self::client::{Client, World};
use crate::state::caching::ACKNOWLEDGE_WITHIN;
use crate::state::configuration::Signing;
use crate::state::scavenger::scavenge;
use crate::tests::kit::configuration::behind_cache;
use crate::tests::random::Random;
use crate::tests::testing::{by_hand, server_with};

/// Runs, unless `MULTILANE_SEEDS=N` asks for N.
const SEEDS: u64 = 350;
const THREADS: usize = 2;
const STEPS: usize = 25;
/// Clients look for answers only now and then.
const SLACK: Duration = Duration::from_millis(500);

/// One run; gives what happened in it.
fn run(seed: u64) -> Rc<World> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let world = Rc::new(World::default());
    LocalSet::new().block_on(&runtime, all_clients(seed, Rc::clone(&world)));
    world
}

async fn all_clients(seed: u64, world: Rc<World>) {
    let mut random = Random::new(seed);
    let disk: Arc<dyn Store> = Arc::new(RamStore::new(1 << 20));
    // Every other run has the metadata cached.
    let store = if seed.is_multiple_of(2) { disk } else { behind_cache(disk) };
    let server = by_hand(server_with(Signing::Enabled, store));
    tokio::task::spawn_local(scavenge(Arc::clone(&server)));
    let (pool, mut delays) = (server.pool.clone(), Random::new(random.next()));
    let pool_works = tokio::task::spawn_local(async move {
        loop {
            sleep(delays.pause(100)).await;
            while !pool.work_once() {
                sleep(Duration::from_millis(100)).await;
            }
        }
    });
    let clients: Vec<_> = (0..2 + random.below(3) as u8)
        .map(|number| Client::new(number, &server, &world, Random::new(random.next())))
        .map(|client| tokio::task::spawn_local(client.live(STEPS)))
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    // What nobody came back for goes when its time is over.
    sleep(Duration::from_secs(60)).await;
    pool_works.abort();
    while server.pool.work_once() {}
    assert!(server.files.is_empty(), "something is still open");
}

fn judged(seed: u64) -> Rc<World> {
    let world = run(seed);
    if let Some(fault) = history::fault(&world.events()) {
        panic!("seed {seed}: {fault}");
    }
    let longest = world.longest.get();
    assert!(longest <= ACKNOWLEDGE_WITHIN + SLACK, "seed {seed}: somebody waited {longest:?}");
    world
}

/// What happened in many runs.
#[derive(Default)]
struct Sum {
    breaks: usize,
    reclaims: usize,
    local_reads: usize,
}

fn judged_all(seeds: impl Iterator<Item = u64>) -> Sum {
    let mut sum = Sum::default();
    for seed in seeds {
        let world = std::panic::catch_unwind(|| judged(seed)).unwrap_or_else(|panic| {
            eprintln!("it was seed {seed}");
            std::panic::resume_unwind(panic)
        });
        sum.breaks += world.breaks.get();
        sum.reclaims += world.reclaims.get();
        sum.local_reads += world.local_reads.get();
    }
    sum
}

#[test]
fn no_read_is_stale_and_no_write_lost_under_any_schedule() {
    let asked = std::env::var("MULTILANE_SEEDS").ok();
    let seeds = 0..asked.map_or(SEEDS, |number| number.parse().unwrap());
    let sums = std::thread::scope(|scope| {
        let some = |thread: usize| seeds.clone().skip(thread).step_by(THREADS);
        let threads: Vec<_> = (0..THREADS).map(some).map(|seeds| scope.spawn(move || judged_all(seeds))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let sum = |what: fn(&Sum) -> usize| sums.iter().map(what).sum::<usize>();
    let (breaks, reclaims, local_reads) = (sum(|sum| sum.breaks), sum(|sum| sum.reclaims), sum(|sum| sum.local_reads));
    let seen = [breaks, 10 * reclaims, local_reads].map(|count| count as u64 > seeds.end / 2);
    assert!(seen == [true; 3], "{breaks} {reclaims} {local_reads}");
}
