//! Channels are cut, held back and broken by seed while files are written, read, made and renamed: no error reaches the caller, no write is
//! lost, none is applied twice or out of turn.

use std::sync::Arc;
use std::time::Duration;

use client::{Access, Channels, Disposition, File, OpenOptions, Session, Settings, Tree};
use futures_util::future::join_all;
use server::admin::{Multichannel, Sealing};
use tokio::time::{Instant, sleep};

use crate::network::{Chance, Link, Links, server, session, simulate};

const LINKS: u8 = 4;
const FILES: usize = 3;
const BLOCKS: usize = 12;
const BLOCK_BYTES: usize = 48 << 10;
const ROUNDS: usize = 30;

/// A file with what must stand in it: for each block the round that wrote it last.
struct Watched {
    file: File,
    rounds: [u8; BLOCKS],
}

fn block(index: usize, round: u8) -> Vec<u8> {
    vec![(index as u8).wrapping_mul(31) ^ round; BLOCK_BYTES]
}

fn options(access: Access, disposition: Disposition, durable: bool) -> OpenOptions {
    OpenOptions { access, disposition, directory: Some(false), durable, ..OpenOptions::default() }
}

impl Watched {
    async fn make(tree: &Tree, name: &str, durable: bool) -> Self {
        let options = options(Access::Write, Disposition::Create, durable);
        let file = tree.open(name, options).await.unwrap();
        let rounds = [0; BLOCKS];
        let all = (0..BLOCKS).map(|index| file.write((index * BLOCK_BYTES) as u64, &[0; 0]));
        join_all(all).await.into_iter().for_each(Result::unwrap);
        let mut watched = Watched { file, rounds };
        for index in 0..BLOCKS {
            watched.write(&[index], 0).await;
        }
        watched
    }

    /// Writes some blocks at once.
    async fn write(&mut self, indices: &[usize], round: u8) {
        let data: Vec<_> = indices.iter().map(|index| block(*index, round)).collect();
        let writes = indices.iter().zip(&data).map(|(index, data)| self.file.write((index * BLOCK_BYTES) as u64, data));
        join_all(writes).await.into_iter().for_each(Result::unwrap);
        indices.iter().for_each(|index| self.rounds[*index] = round);
    }

    async fn check(&self, file: &File, index: usize) {
        let data = file.read((index * BLOCK_BYTES) as u64, BLOCK_BYTES).await.unwrap();
        assert!(
            *data == block(index, self.rounds[index]),
            "block {index} is not as round {} left it",
            self.rounds[index]
        );
    }

    async fn work(&mut self, chance: &Chance) {
        for round in 1..ROUNDS {
            let count = 1 + chance.below(6) as usize;
            let first = chance.below(BLOCKS as u64) as usize;
            let indices: Vec<_> = (0..count).map(|step| (first + step) % BLOCKS).collect();
            self.write(&indices, round as u8).await;
            self.check(&self.file, chance.below(BLOCKS as u64) as usize).await;
            sleep(Duration::from_millis(chance.below(120))).await;
        }
    }
}

/// Makes, renames and removes; each must be done exactly once.
async fn names(tree: &Tree, chance: &Chance) {
    for round in 0..ROUNDS {
        let (first, second) = (format!("name{round}"), format!("other{round}"));
        let made = tree.open(&first, options(Access::Write, Disposition::Create, false)).await.unwrap();
        made.write(0, first.as_bytes()).await.unwrap();
        made.close().await.unwrap();
        tree.rename(&first, &second, false).await.unwrap();
        assert_eq!(tree.facts(&second).await.unwrap().end_of_file, first.len() as u64);
        if round % 2 == 0 {
            tree.remove(&second).await.unwrap();
        }
        sleep(Duration::from_millis(chance.below(100))).await;
    }
}

/// Cuts links until dropped. One stays up unless `all`.
async fn cut(links: &Links, chance: &Chance, all: bool) {
    let up = Link::Up { delay_max: 500 };
    // Always the same one: a channel on another might not be back yet.
    let keeps = chance.below(4) as usize;
    loop {
        sleep(Duration::from_millis(50 + chance.below(1200))).await;
        let cut: Vec<usize> = match all && chance.below(3) == 0 {
            true => (0..usize::from(LINKS)).collect(),
            false => (0..1 + chance.below(3) as usize).map(|step| (step + chance.below(4) as usize) % 4).collect(),
        };
        let state = if chance.below(2) == 0 { Link::Broken } else { Link::Held };
        for link in cut.iter().filter(|link| all || **link != keeps) {
            links.set(*link, state);
        }
        sleep(Duration::from_millis(chance.below(3000))).await;
        (0..usize::from(LINKS)).for_each(|link| links.set(link, up));
    }
}

async fn run(seed: u64, all: bool, settings: Settings) {
    let links = Links::new(LINKS, seed, server(LINKS, Multichannel::On, Sealing::Enabled));
    let session = session(&links, settings).await;
    let tree = session.tree("ram").await.unwrap();
    session.widen().await.unwrap();
    let chance = Chance::new(seed);
    let mut files = Vec::new();
    for number in 0..FILES {
        files.push(Watched::make(&tree, &format!("file{number}"), all).await);
    }
    {
        let work = async {
            let written = join_all(files.iter_mut().map(|file| file.work(&chance)));
            // A name that was being made while every channel went cannot be told from one that was there.
            let named = async {
                if !all {
                    names(&tree, &chance).await;
                }
            };
            tokio::join!(written, named);
        };
        tokio::select! {
            () = work => {}
            () = cut(&links, &chance, all) => {}
        }
    }
    (0..usize::from(LINKS)).for_each(|link| links.set(link, Link::Up { delay_max: 200 }));
    check(&links, &tree, &files, all).await;
    let connected = session.connected();
    assert!(connected.channels.iter().all(|channel| (1..=8192).contains(&channel.credits)), "{connected:?}");
    close(session, files).await;
}

/// What a client sees that was not there.
async fn check(links: &Arc<Links>, tree: &Tree, files: &[Watched], all: bool) {
    let other = session(links, Settings { channels: Channels::Exactly(1), ..Settings::default() }).await;
    let share = other.tree("ram").await.unwrap();
    for (number, watched) in files.iter().enumerate() {
        let file = share.open(&format!("file{number}"), OpenOptions::default()).await.unwrap();
        for index in 0..BLOCKS {
            watched.check(&file, index).await;
        }
    }
    let expected = FILES + if all { 0 } else { ROUNDS / 2 };
    assert_eq!(tree.entries("").await.unwrap().len(), expected);
    other.close().await.unwrap();
}

async fn close(session: Session, files: Vec<Watched>) {
    for watched in files {
        watched.file.close().await.unwrap();
    }
    session.close().await.unwrap();
}

/// Runs by seed: `MULTILANE_SEEDS=FIRST..LAST` for others than the usual few.
fn seeds() -> std::ops::Range<u64> {
    let asked = std::env::var("MULTILANE_SEEDS").ok();
    let range = asked.as_deref().and_then(|text| text.split_once(".."));
    range.map_or(0..12, |(first, last)| first.parse().unwrap()..last.parse().unwrap())
}

fn each_seed(all: bool, settings: Settings) {
    for seed in seeds() {
        simulate(async move {
            println!("seed {seed}");
            let over = Duration::from_secs(600);
            tokio::time::timeout(over, run(seed, all, settings)).await.expect("the run comes to an end");
        });
    }
}

#[test]
fn nothing_is_lost_while_one_channel_lives() {
    each_seed(false, Settings { channels: Channels::Exactly(4), ..Settings::default() });
}

#[test]
fn nothing_is_lost_while_one_sealed_channel_lives() {
    each_seed(false, Settings { channels: Channels::Exactly(4), seal: true, ..Settings::default() });
}

#[test]
fn durable_opens_survive_the_loss_of_every_channel() {
    each_seed(true, Settings { channels: Channels::Exactly(4), ..Settings::default() });
}

#[test]
fn channels_come_back_with_their_link() {
    simulate(async {
        let links = Links::new(LINKS, 1, server(LINKS, Multichannel::On, Sealing::Enabled));
        let session = session(&links, Settings::default()).await;
        let tree = session.tree("ram").await.unwrap();
        let file = tree.open("f", options(Access::Write, Disposition::Create, false)).await.unwrap();
        let data = vec![7; 1 << 20];
        session.widen().await.unwrap();
        assert_eq!(session.connected().channels.len(), 4);
        join_all((0..16).map(|at| file.write(at << 20, &data))).await.into_iter().for_each(Result::unwrap);
        for (cut, left) in [(vec![0], 3), (vec![1, 2, 3], 1)] {
            cut.iter().for_each(|link| links.set(*link, Link::Held));
            let started = Instant::now();
            while session.connected().channels.len() > left {
                join_all((0..16).map(|at| file.write(at << 20, &data))).await.into_iter().for_each(Result::unwrap);
                assert!(started.elapsed() < Duration::from_secs(2), "dead channels are found");
            }
            cut.iter().for_each(|link| links.set(*link, Link::Up { delay_max: 200 }));
            let started = Instant::now();
            while session.connected().channels.len() < 4 {
                join_all((0..16).map(|at| file.write(at << 20, &data))).await.into_iter().for_each(Result::unwrap);
                assert!(started.elapsed() < Duration::from_secs(15), "channels come back");
            }
        }
        file.close().await.unwrap();
    });
}

#[test]
fn a_write_that_drains_slowly_is_no_silence() {
    simulate(async {
        let links = Links::new(2, 1, server(2, Multichannel::On, Sealing::Enabled));
        let session = session(&links, Settings::default()).await;
        let tree = session.tree("ram").await.unwrap();
        let file = tree.open("f", options(Access::Write, Disposition::Create, false)).await.unwrap();
        session.widen().await.unwrap();
        links.set(1, Link::Slow { bytes_per_second: 125_000 });
        let data = vec![7; 1 << 20];
        for _ in 0..3 {
            join_all((0..4).map(|at| file.write(at << 20, &data))).await.into_iter().for_each(Result::unwrap);
        }
        let connected = session.connected();
        assert!(connected.channels.iter().all(|channel| channel.sent_bytes > 1 << 20), "{connected:?}");
        assert_eq!(connected.failure_count, 0);
        file.close().await.unwrap();
    });
}
