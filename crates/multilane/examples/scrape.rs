//! How long it takes to read the counters of a server with many sessions and shares, and to make the metrics' text of them:
//! `cargo run --release -p multilane --example scrape -- SESSIONS SHARES TREES`, of which each session connects to so many.

use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Access, Channels, Disposition, OpenOptions, Session, Settings, Target, Tcp};
use insight::exposition::{Exposition, Format, LogLoss, Observed, ObservedShare};
use server::{Config, Server, admin};
use store::RamStore;

#[allow(dead_code)]
#[path = "../../server/src/tests/kit/configuration.rs"]
mod kit;

/// The same heap as the program has.
#[global_allocator]
static HEAP: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const ROUNDS: usize = 51;
const BLOCK: usize = 4_096;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = [1_000, 200, 5];
    for (number, word) in numbers.iter_mut().zip(std::env::args().skip(1)) {
        *number = word.parse()?;
    }
    let [sessions, shares, trees] = numbers;
    let mut configuration = kit::configuration(Arc::new(RamStore::new(1 << 20)));
    let model = configuration.shares[0].clone();
    configuration.shares = (0..shares)
        .map(|number| admin::Share {
            name: share_name(number),
            store: Arc::new(RamStore::new(1 << 20)),
            limit: Arc::default(),
            snapshots: Arc::default(),
            ..model.clone()
        })
        .collect();
    let listen = vec!["127.0.0.1:0".parse()?];
    let config = Config { listen, shards: 1, opens: None, metadata_cache_bytes: None };
    let server = Server::start(&config, configuration)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let kept = runtime.block_on(async {
        let mut kept = Vec::new();
        for number in 0..sessions {
            kept.push(work(&server, number, (shares, trees)).await?);
        }
        Ok::<_, client::Error>(kept)
    })?;
    measure(&server, shares)?;
    runtime.block_on(async { drop(kept) });
    server.stop(Duration::from_secs(1));
    Ok(())
}

fn share_name(number: usize) -> String {
    format!("projects-{number:04}")
}

/// Signs in, and reads and writes a little in some shares.
async fn work(server: &Server, number: usize, (shares, trees): (usize, usize)) -> Result<Session, client::Error> {
    let (host, port) = ("127.0.0.1".into(), server.addresses()[0].port());
    let target = Target { host, port, user: kit::USER.into(), password: kit::PASSWORD.into() };
    let settings = Settings { channels: Channels::Exactly(1), ..Settings::default() };
    let session = Session::connect(&target, settings, Arc::new(Tcp)).await?;
    for tree in 0..trees {
        let tree = session.tree(&share_name((number + tree) % shares)).await?;
        let options =
            OpenOptions { access: Access::Write, disposition: Disposition::OpenOrCreate, ..OpenOptions::default() };
        let file = tree.open("file", options).await?;
        file.write(0, vec![1; BLOCK]).await?;
        file.read(0, BLOCK).await?;
        // What is not there is an error.
        let _ = tree.open("nothing", OpenOptions::default()).await;
    }
    Ok(session)
}

fn measure(server: &Server, shares: usize) -> Result<(), std::fmt::Error> {
    let admin = server.admin();
    let (mut exposition, mut text) = (Exposition::default(), String::new());
    let (mut reading, mut open, mut classic) = (Vec::new(), Vec::new(), Vec::new());
    let mut rows = 0;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let observed = Arc::new(Observed {
            version: env!("CARGO_PKG_VERSION"),
            since: Duration::ZERO,
            counters: admin.counters(),
            sessions: admin.session_count(),
            opens: admin.open_count(),
            connections: admin.connections(),
            silent_shards: 0,
            memory: admin.memory(),
            log: LogLoss::default(),
            audit: admin.audit(),
            catalog_is_damaged: false,
            locked_users: 0,
            data_available: None,
            shares: (0..shares)
                .map(|number| ObservedShare { name: share_name(number), ..Default::default() })
                .collect(),
            rest: Default::default(),
        });
        reading.push(began.elapsed());
        rows = observed.counters.rows.len();
        for (format, times) in [(Format::Classic, &mut classic), (Format::OpenMetrics, &mut open)] {
            let began = Instant::now();
            text = exposition.text(&observed, format)?;
            times.push(began.elapsed());
        }
    }
    let samples = text.lines().filter(|line| !line.starts_with('#')).count();
    println!("{rows} rows of counters, {samples} samples, {} KiB of text", text.len() >> 10);
    for (what, mut times) in [("reading", reading), ("OpenMetrics", open), ("classic text", classic)] {
        times.sort_unstable();
        let [median, longest] = [times[ROUNDS / 2], times[ROUNDS - 1]].map(|time| time.as_secs_f64() * 1e3);
        println!("{what:<13}{median:7.2} ms, {longest:7.2} ms at most");
    }
    Ok(())
}
