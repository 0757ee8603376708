//! How fast this client is, and what it costs: random reads or writes of one size, a task for each request in flight, on one thread.
//!
//! `MULTILANE_PASSWORD=… cargo run --release -p multilane-client --example throughput -- server=127.0.0.1:445 user=alice share=ram`
//!
//! Also: `op=write`, `block=4096`, `depth=16` (of each file), `files=1`, `mib=64` (of each file), `channels=0` (automatic), `seconds=5`,
//! `signed=true`, `sealed=true`, `json=true`. Prints requests a second, microseconds of own processor time for each, and each channel's share
//! of the requests.

use std::collections::HashMap;
use std::error::Error;
use std::future::Future;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Access, Bytes, Channels, Disposition, File, OpenOptions, Session, Settings, Signing, Target, Tcp, Tree};
use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinSet;

type Failure = Box<dyn Error + Send + Sync>;

/// What the command line says.
struct Options(HashMap<String, String>);

impl Options {
    fn new() -> Self {
        let pairs = std::env::args().skip(1);
        Options(
            pairs.filter_map(|word| word.split_once('=').map(|(name, value)| (name.into(), value.into()))).collect(),
        )
    }

    fn of<T: FromStr>(&self, name: &str, default: T) -> Result<T, Failure> {
        let Some(value) = self.0.get(name) else { return Ok(default) };
        value.parse().map_err(|_| format!("{name}={value} is not understood").into())
    }
}

/// What each task does.
#[derive(Clone, Copy)]
struct Work {
    is_write: bool,
    block: usize,
    blocks: u64,
    until: Instant,
}

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(&Options::new()))
}

async fn run(options: &Options) -> Result<(), Failure> {
    let session = connect(options).await?;
    let tree = session.tree(&options.of("share", "ram".to_owned())?).await?;
    let (block, depth) = (options.of("block", 4096)?, options.of("depth", 16)?);
    let bytes = options.of("mib", 64_u64)? << 20;
    let count = options.of("files", 1)?;
    let mut files = Vec::new();
    for number in 0..count {
        files.push(file(&tree, &format!("throughput{number}"), bytes).await?);
    }
    let is_write = options.of("op", "read".to_owned())? == "write";
    let work = |duration| Work { is_write, block, blocks: bytes / block as u64, until: Instant::now() + duration };
    // The channels come while there is something to do.
    load(&files, depth, work(Duration::from_secs(1))).await?;
    session.widen().await?;
    let before = session.connected();
    let (begun, cpu) = (Instant::now(), processor_time());
    let done = load(&files, depth, work(Duration::from_secs(options.of("seconds", 5)?))).await?;
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), processor_time() - cpu);
    let (rate, cost) = (done as f64 / seconds, cpu.as_secs_f64() * 1e6 / done as f64);
    let requests: Vec<u64> = session
        .connected()
        .channels
        .iter()
        .zip(before.channels.iter().map(|channel| channel.requests).chain(std::iter::repeat(0)))
        .map(|(channel, before)| channel.requests.saturating_sub(before))
        .collect();
    if options.of("json", false)? {
        println!(r#"{{"per_second": {rate:.0}, "own_microseconds_each": {cost:.3}, "channels": {requests:?}}}"#);
    } else {
        println!("{rate:.0} a second, {cost:.2} us of own processor time each; requests of each channel: {requests:?}");
    }
    for file in files {
        file.close().await?;
    }
    Ok(session.close().await?)
}

async fn connect(options: &Options) -> Result<Session, Failure> {
    let server = options.of("server", "127.0.0.1:445".to_owned())?;
    let (host, port) = server.rsplit_once(':').ok_or("server=HOST:PORT")?;
    let target = Target {
        host: host.into(),
        port: port.parse()?,
        user: options.of("user", String::new())?,
        password: std::env::var("MULTILANE_PASSWORD").map_err(|_| "set MULTILANE_PASSWORD")?,
    };
    let channels = match options.of("channels", 0)? {
        0 => Channels::Automatic,
        count => Channels::Exactly(count),
    };
    let signing = if options.of("signed", false)? { Signing::Required } else { Signing::AsServerWants };
    let seal = options.of("sealed", false)?;
    let settings = Settings { channels, signing, seal, ..Settings::default() };
    Ok(Session::connect(&target, settings, Arc::new(Tcp)).await?)
}

/// A file of so many bytes, all of them written.
async fn file(tree: &Tree, path: &str, bytes: u64) -> Result<File, Failure> {
    let options = |access, disposition| OpenOptions { access, disposition, ..OpenOptions::default() };
    let file = tree.open(path, options(Access::Write, Disposition::Overwrite)).await?;
    let fill = |at: u64, buffer: &mut [u8]| {
        let count = buffer.len().min((bytes - at) as usize);
        buffer[..count].fill(at as u8);
        Ok::<_, client::Error>(count)
    };
    file.write_range(0, fill).await?;
    Ok(file)
}

/// Keeps `depth` requests to each file in flight; their number.
async fn load(files: &[File], depth: usize, work: Work) -> Result<u64, Failure> {
    let mut tasks = JoinSet::new();
    for (number, file) in files.iter().enumerate() {
        for slot in 0..depth {
            tasks.spawn(one_after_another(file.clone(), work, (number * depth + slot) as u64));
        }
    }
    let mut done = 0;
    while let Some(task) = tasks.join_next().await {
        done += task??;
    }
    Ok(done)
}

fn one_after_another(file: File, work: Work, seed: u64) -> impl Future<Output = Result<u64, client::Error>> + Send {
    let data = Bytes::from(vec![7; work.block]);
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    async move {
        let mut done = 0;
        while Instant::now() < work.until {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let offset = state % work.blocks * work.block as u64;
            match work.is_write {
                true => file.write(offset, data.clone()).await?,
                false => drop(file.read(offset, work.block).await?),
            }
            done += 1;
        }
        Ok(done)
    }
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
