//! Runs by seed: files are written, read, made and renamed and breaks answered while channels are cut, held back, reset or go dead, and what is
//! sent first on one arrives after what is sent later on another. No error reaches the caller, no write is lost, none is applied again
//! after a later one, no break stays undelivered, credits add up, no nonce is used twice.

mod copies;
mod cuts;
mod files;
mod names;
mod rival;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use client::{Channels, Session, Settings, Tree};
use futures_util::future::join_all;
use server::admin::{Multichannel, Sealing};
use server::in_memory::{InMemory, Lapse, set_lapse};
use store::Store;
use tokio::time::{sleep, timeout};

use self::files::Watched;
use crate::chance::Chance;
use crate::configuration::{caching, configuration, session_over, simulate};
use crate::line::KEEPALIVE;
use crate::network::{Links, Reach};
use crate::witness::Counts;

/// Links of the client that works; the one behind them is its rival's.
const LINKS: usize = 4;
const FILES: usize = 2;
/// Runs of each mode, unless others are asked for.
const SEEDS: u64 = 350;
/// Runs that copy files, and nothing else.
const COPY_SEEDS: u64 = 350;
/// Runs that make and change names, and nothing else.
const NAME_SEEDS: u64 = 100;
const THREADS: u64 = 2;
/// No run takes longer, in its own time.
const RUN_MAX: Duration = Duration::from_secs(900);

/// What may happen in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// One link is never cut.
    OneLives,
    /// The same with everything encrypted.
    OneLivesSealed,
    /// Every link may be cut at once; opens are durable.
    AllMayGo,
    /// One link is never cut, and files are copied, and nothing else happens.
    Copies,
    /// One link is never cut, and names are made and changed, many of them, and nothing else happens.
    Names,
}

/// What came of a run.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    digest: u64,
    counts: Counts,
}

async fn run(seed: u64, mode: Mode) -> Outcome {
    let chance = Chance::new(seed);
    let configuration = configuration(LINKS as u8, Multichannel::On, Sealing::Enabled);
    // Every other run has the metadata cached.
    let configuration = if seed.is_multiple_of(2) { configuration } else { caching(configuration) };
    let store = Arc::clone(&configuration.shares[0].store);
    let links = Links::new(LINKS as u8 + 1, chance.next(), InMemory::new(configuration));
    let settings =
        Settings { channels: Channels::Exactly(4), seal: mode == Mode::OneLivesSealed, ..Settings::default() };
    let reach = |of: Range<usize>| Arc::new(Reach { links: Arc::clone(&links), of });
    let session = session_over(reach(0..LINKS), settings).await;
    let other = session_over(reach(LINKS..LINKS + 1), Settings { channels: Channels::Exactly(1), ..settings }).await;
    let (tree, share) = (session.tree("ram").await.unwrap(), other.tree("ram").await.unwrap());
    session.widen().await.unwrap();
    // Always the same one stays up: a channel on another might not be back yet.
    let kept = (mode != Mode::AllMayGo).then(|| chance.below(LINKS as u64) as usize);
    cuts::begin(&links, &chance, kept);
    let is_durable = mode == Mode::AllMayGo;
    if mode == Mode::Copies {
        return copy(&links, &session, &tree, &store, &chance, kept).await;
    }
    if mode == Mode::Names {
        change_names(&links, &tree, &chance, kept).await;
        return Outcome { digest: links.witness.digest(), counts: links.witness.counts() };
    }
    let mut watched = Vec::new();
    for number in 0..FILES {
        watched.push(Watched::make(&tree, &store, &format!("file{number}"), is_durable).await);
    }
    let branches: Vec<Chance> = (0..FILES).map(|_| chance.branch()).collect();
    let (of_lengths, of_names, of_cuts) = (chance.branch(), chance.branch(), chance.branch());
    let of_copies = chance.branch();
    let work = async {
        let written = join_all(watched.iter_mut().zip(&branches).map(|(file, chance)| file.work(chance)));
        let sized = files::lengths(&tree, &store, &of_lengths, is_durable);
        let copied = copies::copies(&tree, &store, &of_copies, is_durable, 200);
        tokio::join!(written, sized, copied, with_names(&tree, &share, &of_names, mode));
    };
    tokio::select! {
        biased;
        () = work => {}
        () = cuts::cut(&links, &of_cuts, kept) => {}
    }
    cuts::end(&links);
    for file in &watched {
        file.check_all(&share).await;
    }
    copies::check(&store);
    let left = copies::LEFT + if is_durable { names::KEPT } else { names::left(names::ROUNDS) + rival::LEFT };
    assert_eq!(share.entries("").await.unwrap().len(), FILES + 1 + left, "each name is there once");
    judge(&links, &session, mode).await;
    join_all(watched.into_iter().map(Watched::close)).await;
    session.close().await.unwrap();
    other.close().await.unwrap();
    if let Some(fault) = links.witness.fault() {
        panic!("{fault}");
    }
    Outcome { digest: links.witness.digest(), counts: links.witness.counts() }
}

/// Copies files while links are cut, and waits for what comes late.
async fn copy(
    links: &Arc<Links>,
    session: &Session,
    tree: &Tree,
    store: &Arc<dyn Store>,
    chance: &Chance,
    kept: Option<usize>,
) -> Outcome {
    let (of_copies, of_cuts) = (chance.branch(), chance.branch());
    tokio::select! {
        biased;
        () = copies::copies(tree, store, &of_copies, false, 1500) => {}
        () = cuts::cut(links, &of_cuts, kept) => {}
    }
    cuts::end(links);
    sleep(KEEPALIVE).await;
    copies::check(store);
    // Its only channel may have gone dead at the very end.
    let _ = session.clone().close().await;
    Outcome { digest: links.witness.digest(), counts: links.witness.counts() }
}

/// Makes and changes many names while links are cut, and waits for what comes late.
async fn change_names(links: &Links, tree: &Tree, chance: &Chance, kept: Option<usize>) {
    const ROUNDS: usize = 80;
    let (of_names, of_cuts) = (chance.branch(), chance.branch());
    tokio::select! {
        biased;
        () = names::names(tree, &of_names, ROUNDS) => {}
        () = cuts::cut(links, &of_cuts, kept) => {}
    }
    cuts::end(links);
    sleep(KEEPALIVE).await;
    assert_eq!(tree.entries("").await.unwrap().len(), names::left(ROUNDS), "each name is there once");
}

async fn with_names(tree: &Tree, share: &Tree, chance: &Chance, mode: Mode) {
    match mode {
        Mode::OneLives | Mode::OneLivesSealed => {
            let contended = chance.branch();
            tokio::join!(names::names(tree, chance, names::ROUNDS), rival::contend(tree, share, &contended));
        }
        // A name that was being made without a durable open while every channel went cannot be told from one that was there.
        Mode::Copies | Mode::Names => {}
        Mode::AllMayGo => names::names_kept(tree, chance).await,
    }
}

/// Once nothing is under way: credits as client and server count them, and breaks.
async fn judge(links: &Links, session: &Session, mode: Mode) {
    sleep(Duration::from_secs(5)).await;
    for channel in session.connected().channels {
        assert!((1..=8192).contains(&channel.credits), "{channel:?}");
        let std::net::IpAddr::V4(local) = channel.local else { panic!("an address of ours") };
        if mode == Mode::AllMayGo && channel.outstanding > 0 {
            // The only one, gone dead at the very end: nothing tells it from a server that takes its time.
            continue;
        }
        assert_eq!(channel.outstanding, 0, "{channel:?}");
        let balances = links.witness.balances(usize::from(local.octets()[2]));
        // What is sealed tells of no credits.
        let is_told = mode != Mode::OneLivesSealed;
        // One that went dead without a word, and that nothing was asked of since, is there for the client alone.
        let is_gone = balances.is_empty();
        assert!(
            !is_told || is_gone || balances.contains(&(channel.credits as u64)),
            "{channel:?}, for the server {balances:?}"
        );
    }
    if mode == Mode::OneLives {
        assert_eq!(links.witness.open_breaks(), 0, "every break is answered");
    }
}

fn simulated(seed: u64, mode: Mode) -> Outcome {
    simulate(async { timeout(RUN_MAX, run(seed, mode)).await.expect("the run comes to an end") })
}

/// Runs by seed: `MULTILANE_SEEDS=N` for the first N rather than `usual`, `MULTILANE_SEEDS=FIRST..LAST` for these.
fn seeds(usual: u64) -> Range<u64> {
    let Ok(asked) = std::env::var("MULTILANE_SEEDS") else { return 0..usual };
    match asked.split_once("..") {
        Some((first, last)) => first.parse().unwrap()..last.parse().unwrap(),
        None => 0..asked.parse().unwrap(),
    }
}

/// Runs that somebody chose need not see everything that many see.
fn are_chosen() -> bool {
    std::env::var_os("MULTILANE_SEEDS").is_some()
}

fn run_all(mode: Mode, usual: u64) -> Counts {
    let range = seeds(usual);
    let some = |thread: u64| {
        let mut sum = Counts::default();
        for seed in range.clone().skip(thread as usize).step_by(THREADS as usize) {
            let outcome = catch_unwind(AssertUnwindSafe(|| simulated(seed, mode))).unwrap_or_else(|panic| {
                eprintln!("it was seed {seed} of {mode:?}; MULTILANE_SEEDS={seed}..{} repeats it", seed + 1);
                resume_unwind(panic)
            });
            sum += outcome.counts;
        }
        sum
    };
    let sums: Vec<Counts> = std::thread::scope(|scope| {
        let some = &some;
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || some(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let mut sum = Counts::default();
    sums.into_iter().for_each(|counts| sum += counts);
    println!("{mode:?}: {} runs, {sum:?}", range.end - range.start);
    assert_eq!(sum.hung_up, 0, "the server ends no connection that nothing happened to");
    sum
}

#[test]
fn nothing_is_lost_while_one_channel_lives() {
    let sum = run_all(Mode::OneLives, SEEDS);
    assert!(are_chosen() || sum.messages > 0 && sum.replays > 0 && sum.breaks > 0, "{sum:?}");
}

#[test]
fn each_name_is_made_once_while_one_channel_lives() {
    let sum = run_all(Mode::Names, NAME_SEEDS);
    assert!(are_chosen() || sum.replays > 0, "{sum:?}");
}

#[test]
fn nothing_is_lost_while_one_sealed_channel_lives() {
    let sum = run_all(Mode::OneLivesSealed, SEEDS);
    assert!(are_chosen() || sum.sealed > 0, "{sum:?}");
}

#[test]
fn durable_opens_survive_the_loss_of_every_channel() {
    let sum = run_all(Mode::AllMayGo, SEEDS);
    assert!(are_chosen() || sum.messages > 0 && sum.replays > 0, "{sum:?}");
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for mode in [Mode::OneLives, Mode::OneLivesSealed, Mode::AllMayGo] {
        for seed in 0..3 {
            let (first, second) = (simulated(seed, mode), simulated(seed, mode));
            assert_eq!(first.digest, second.digest, "seed {seed} of {mode:?}: {first:?} {second:?}");
            assert_ne!(first.digest, simulated(seed + 1000, mode).digest);
        }
    }
}

/// How many seeds it takes until a run fails while the server breaks a rule.
fn seeds_until_caught(lapse: Lapse, mode: Mode, most: u64) -> Option<u64> {
    set_lapse(Some(lapse));
    let caught = (0..most).find(|seed| catch_unwind(|| simulated(*seed, mode)).is_err());
    set_lapse(None);
    caught
}

#[test]
fn a_server_that_does_late_creates_is_caught() {
    assert!(seeds_until_caught(Lapse::CreatesOutOfTurn, Mode::Names, 200).is_some());
}

/// A server that has no memory for it makes an empty file under the name that a copy had first, and that is all.
#[test]
fn copies_are_whole_on_a_server_that_does_late_creates() {
    set_lapse(Some(Lapse::CreatesOutOfTurn));
    let late: u64 = seeds(COPY_SEEDS).map(|seed| simulated(seed, Mode::Copies).counts.late).sum();
    set_lapse(None);
    assert!(are_chosen() || late > 0);
}

#[test]
fn a_server_that_applies_late_writes_is_caught() {
    assert!(seeds_until_caught(Lapse::ChangesOutOfTurn, Mode::OneLives, 600).is_some());
}

#[test]
fn a_server_that_sends_breaks_once_is_caught() {
    assert!(seeds_until_caught(Lapse::BreaksSentOnce, Mode::OneLives, 200).is_some());
}
