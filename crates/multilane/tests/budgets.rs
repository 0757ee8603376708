//! What a share may do in a second, over real sockets and in real time: limits so small that seconds show them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use client::{Access, Channels, Disposition, OpenOptions, Session, Settings, Target, Tcp, Tree};
use server::admin::{Rate, RequestRate, ShareLimit, ShareRates};
use server::{Config, Server, admin};
use store::RamStore;
use tokio::task::JoinSet;
use tokio::time::sleep;

#[allow(dead_code)]
#[path = "../../server/src/tests/kit/configuration.rs"]
mod kit;

const BASELINE: u32 = 100;
const BURST: u32 = 300;
/// They last for two seconds.
const CREDITS: u64 = (BURST - BASELINE) as u64 * 2;
const METADATA: u32 = 200;
const DEPTH: usize = 32;
const BLOCK: usize = 4_096;

/// A server on a free port of this machine, and a client of its one share.
struct Served {
    server: Server,
    limit: Arc<ShareLimit>,
    session: Session,
    tree: Tree,
}

impl Served {
    async fn start() -> Self {
        let mut configuration = kit::configuration(Arc::new(RamStore::new(1 << 20)));
        let limit = Arc::new(ShareLimit::default());
        configuration.shares[0].limit = Arc::clone(&limit);
        let config =
            Config { listen: vec!["127.0.0.1:0".parse().unwrap()], shards: 1, opens: None, metadata_cache_bytes: None };
        let server = Server::start(&config, configuration).unwrap();
        let (host, port) = ("127.0.0.1".into(), server.addresses()[0].port());
        let target = Target { host, port, user: kit::USER.into(), password: kit::PASSWORD.into() };
        let settings = Settings { channels: Channels::Exactly(1), ..Settings::default() };
        let session = Session::connect(&target, settings, Arc::new(Tcp)).await.unwrap();
        let tree = session.tree("ram").await.unwrap();
        Served { server, limit, session, tree }
    }

    async fn file(&self) -> Arc<client::File> {
        let options =
            OpenOptions { access: Access::Write, disposition: Disposition::OpenOrCreate, ..OpenOptions::default() };
        let file = self.tree.open("file", options).await.unwrap();
        file.write(0, vec![1; BLOCK]).await.unwrap();
        Arc::new(file)
    }

    async fn stop(self) {
        self.session.close().await.unwrap();
        tokio::task::spawn_blocking(|| self.server.stop(Duration::from_secs(1))).await.unwrap();
    }
}

fn assert_near(found: impl Into<f64>, expected: f64, off_max: f64) {
    let found = found.into();
    assert!((found - expected).abs() <= off_max, "{found} where {expected} is meant, but for {off_max}");
}

/// Keeps as many of them on their way as `DEPTH` until `end` after `began`; gives how many were answered, and when the last one was.
async fn repeat<F>(began: Instant, end: Duration, one: impl Fn() -> F) -> (u32, f64)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (mut tasks, mut answered) = (JoinSet::new(), 0);
    (0..DEPTH).for_each(|_| drop(tasks.spawn(one())));
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
        answered += 1;
        if began.elapsed() < end {
            tasks.spawn(one());
        }
    }
    (answered, began.elapsed().as_secs_f64())
}

#[tokio::test]
async fn credits_last_as_long_and_come_back_as_fast_as_the_formula_says() {
    let served = Served::start().await;
    let (file, limit) = (served.file().await, Arc::clone(&served.limit));
    let read = || {
        let file = Arc::clone(&file);
        async move { assert_eq!(file.read(0, BLOCK).await.unwrap().len(), BLOCK) }
    };
    let requests = RequestRate { baseline: BASELINE, burst: BURST, credits_max: CREDITS };
    limit.change(&ShareRates { share: Rate { requests: Some(requests), mib: None }, ..ShareRates::default() });
    assert_eq!(limit.usage().credits, CREDITS);
    let (baseline, burst, credits) = (f64::from(BASELINE), f64::from(BURST), CREDITS as f64);

    // It bursts, and spends what it does beyond the baseline.
    let began = Instant::now();
    let (first, seconds) = repeat(began, Duration::from_secs(1), &read).await;
    assert_near(first, burst * seconds, 0.1 * burst);
    assert_near(limit.usage().credits as f64, credits - (burst - baseline) * seconds, 0.1 * burst);

    // The rest is spent; then there is the baseline.
    let (second, seconds) = repeat(began, Duration::from_secs(4), &read).await;
    assert_near(first + second, credits + baseline * seconds, 0.1 * burst);
    assert!(limit.usage().credits <= 1, "{:?}", limit.usage());

    // What is not made is earned.
    let stopped = Instant::now();
    sleep(Duration::from_millis(1_500)).await;
    let earned = limit.usage().credits as f64;
    assert_near(earned, baseline * stopped.elapsed().as_secs_f64(), 0.1 * baseline);

    // That is spent, too, and there is the baseline again.
    let began = Instant::now();
    let (third, seconds) = repeat(began, Duration::from_secs(2), &read).await;
    assert_near(third, earned + baseline * seconds, 0.1 * burst);
    served.stop().await;
}

#[tokio::test]
async fn opens_wait_for_the_limit_of_what_is_no_data_and_reads_do_not() {
    let served = Served::start().await;
    let (file, limit) = (served.file().await, Arc::clone(&served.limit));
    let metadata = Rate { requests: Some(RequestRate::steady(METADATA)), mib: None };
    limit.change(&ShareRates { metadata, ..ShareRates::default() });
    let tree = Arc::new(served.session.tree("ram").await.unwrap());
    let open_and_close = || {
        let tree = Arc::clone(&tree);
        async move { tree.open("file", OpenOptions::default()).await.unwrap().close().await.unwrap() }
    };
    let reads = AtomicU32::new(0);
    let began = Instant::now();
    let read_on = async {
        while began.elapsed() < Duration::from_secs(3) {
            file.read(0, BLOCK).await.unwrap();
            reads.fetch_add(1, Ordering::Relaxed);
        }
    };
    let ((opened, seconds), ()) = tokio::join!(repeat(began, Duration::from_secs(3), open_and_close), read_on);
    assert_near(opened * 2, f64::from(METADATA) * seconds, 0.1 * f64::from(METADATA));
    let usage = limit.usage();
    assert!(usage.delayed_by_metadata > 0 && usage.delayed_by_requests == 0, "{usage:?}");
    assert!(reads.into_inner() > METADATA * 6, "they had the same limit");
    served.stop().await;
}
