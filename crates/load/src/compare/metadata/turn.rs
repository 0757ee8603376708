//! A turn: clients who sign in and do all workloads one after the other, and what each of them came to.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use ::client::{Access, Error, OpenOptions, Tree};
use futures_util::future::try_join_all;

use super::super::servers::Server;
use super::clients::{Client, Clients, Moved};
use super::files::{FILE_BYTES, Files, making};
use super::plan::{Plan, Turn, Workload};
use crate::engine::{Failure, Stop};
use crate::results::Latency;

/// Files that the clients of a turn make at most.
pub(super) const CREATED_MAX: usize = 50_000;
/// Files that all clients together open at once before anything is measured.
const WARMING: usize = 32;

/// What one workload came to in a turn.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) turn: Turn,
    /// The round, from 1.
    pub(super) round: u32,
    pub(super) workload: Workload,
    pub(super) operations: u64,
    pub(super) seconds: f64,
    pub(super) moved: Moved,
    /// Of an operation, in microseconds: the mean, and at 50 and 99 percent.
    pub(super) latency_us: [f64; 3],
}

impl Sample {
    pub(super) fn operations_per_second(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    /// Both ways.
    pub(super) fn mibps(&self) -> f64 {
        (self.moved.sent_bytes + self.moved.received_bytes) as f64 / self.seconds / f64::from(1 << 20)
    }
}

/// Does a turn. `None` where it was stopped: half a turn counts for nothing.
pub(super) fn take(
    plan: &Plan,
    turn: Turn,
    round: u32,
    server: &Server,
    stop: &Stop,
) -> Result<Option<Vec<Sample>>, Failure> {
    if let Some(caching) = turn.condition.caching() {
        server.cache_metadata(caching.name())?;
    }
    let files = Files::new(plan, &server.folder);
    let bench = Bench { plan, turn, round, files: &files, clients: Clients::sign_in(server, turn.clients)?, stop };
    let (created, created_by) = bench.create()?;
    let mut samples = vec![created, bench.delete(&created_by)?];
    bench.warm_up()?;
    for workload in [Workload::Open, Workload::Stat, Workload::SmallFiles] {
        samples.push(bench.on_files(workload)?);
    }
    Ok((!stop.is_asked()).then_some(samples))
}

/// Makes the files of a server.
pub(super) fn prepare(plan: &Plan, server: &Server, stop: &Stop) -> Result<(), Failure> {
    let files = Files::new(plan, &server.folder);
    Clients::sign_in(server, 1)?.all(async |client| files.make(&client.tree, stop).await).map(drop)
}

/// Removes what is left of them.
pub(super) fn clean_up(plan: &Plan, server: &Server) -> Result<(), Failure> {
    let files = Files::new(plan, &server.folder);
    Clients::sign_in(server, 1)?.all(async |client| files.remove(&client.tree).await).map(drop)
}

/// Clients at work.
struct Bench<'a> {
    plan: &'a Plan,
    turn: Turn,
    round: u32,
    files: &'a Files,
    clients: Clients,
    stop: &'a Stop,
}

/// How much each client does.
struct Amount<F> {
    /// Operations at once.
    depth: u32,
    /// What begins later is left out; `None` for no end.
    duration: Option<Duration>,
    /// Operations at most, by the client's number.
    most: F,
}

/// What one client did.
struct Done {
    client: usize,
    operations: u64,
    latency: Latency,
}

impl Bench<'_> {
    /// Makes files for a while; gives how many each client made, too.
    fn create(&self) -> Result<(Sample, Vec<Done>), Failure> {
        let most = (CREATED_MAX / self.turn.clients) as u64;
        let amount = Amount { depth: self.plan.depth, duration: Some(self.plan.duration), most: |_| most };
        self.measure(Workload::Create, &amount, async |client, number| {
            let path = self.files.new_path(client.number, number);
            client.tree.open(&path, making()).await?.close().await
        })
    }

    /// Deletes all of them, each client its own.
    fn delete(&self, made: &[Done]) -> Result<Sample, Failure> {
        let by = |client| made.iter().find(|done| done.client == client).map_or(0, |done| done.operations);
        let amount = Amount { depth: self.plan.depth, duration: None, most: by };
        let deleted = self.measure(Workload::Delete, &amount, async |client, number| {
            client.tree.remove(&self.files.new_path(client.number, number)).await
        })?;
        Ok(deleted.0)
    }

    /// Opens each file once, which counts for nothing: what the server remembers of files it has seen by then.
    fn warm_up(&self) -> Result<(), Failure> {
        let clients = self.turn.clients;
        let depth = u32::try_from(WARMING / clients).unwrap_or(1).max(self.plan.depth);
        let amount =
            Amount { depth, duration: None, most: |client| (client..self.files.count).step_by(clients).len() as u64 };
        let open = async |client: &Client, number| {
            open_and_close(&client.tree, &self.files.path(client.number + number * clients)).await
        };
        self.clients.all(async |client| repeat(client, &amount, self.stop, &open).await).map(drop)
    }

    /// Does something with the files for a while. Clients begin far from each other and go through all of them, again and again.
    fn on_files(&self, workload: Workload) -> Result<Sample, Failure> {
        let amount = Amount { depth: self.plan.depth, duration: Some(self.plan.duration), most: |_| u64::MAX };
        let (count, clients) = (self.files.count, self.turn.clients);
        let path = |client: &Client, number| self.files.path((client.number * count / clients + number) % count);
        let done = match workload {
            Workload::Stat => self.measure(workload, &amount, async |client, number| {
                ask_and_close(&client.tree, &path(client, number)).await
            }),
            Workload::SmallFiles => self.measure(workload, &amount, async |client, number| {
                read_and_close(&client.tree, &path(client, number)).await
            }),
            Workload::Open | Workload::Create | Workload::Delete => {
                self.measure(workload, &amount, async |client, number| {
                    open_and_close(&client.tree, &path(client, number)).await
                })
            }
        };
        done.map(|(sample, _)| sample)
    }

    /// Has all clients repeat an operation at the same time.
    fn measure(
        &self,
        workload: Workload,
        amount: &Amount<impl Fn(usize) -> u64 + Sync>,
        operation: impl AsyncFn(&Client, usize) -> Result<(), Error> + Sync,
    ) -> Result<(Sample, Vec<Done>), Failure> {
        let (before, begun) = (self.clients.moved_bytes(), Instant::now());
        let done = self.clients.all(async |client| repeat(client, amount, self.stop, &operation).await)?;
        let seconds = begun.elapsed().as_secs_f64();
        let moved = self.clients.moved_bytes().since(before);
        let (turn, round) = (self.turn, self.round);
        let operations = done.iter().map(|done| done.operations).sum();
        Ok((Sample { turn, round, workload, operations, seconds, moved, latency_us: latency_us(&done) }, done))
    }
}

/// Repeats an operation with rising numbers from 0. Time is over for what has not begun.
async fn repeat(
    client: &Client,
    amount: &Amount<impl Fn(usize) -> u64>,
    stop: &Stop,
    operation: &impl AsyncFn(&Client, usize) -> Result<(), Error>,
) -> Result<Done, Error> {
    let until = amount.duration.map(|duration| Instant::now() + duration);
    let most = usize::try_from((amount.most)(client.number)).unwrap_or(usize::MAX);
    let next = Cell::new(0);
    let latency = RefCell::new(Latency::default());
    let one_by_one = async || {
        while next.get() < most && until.is_none_or(|until| Instant::now() < until) && !stop.is_asked() {
            let number = next.replace(next.get() + 1);
            let begun = Instant::now();
            operation(client, number).await?;
            latency.borrow_mut().record(begun.elapsed());
        }
        Ok::<(), Error>(())
    };
    try_join_all((0..amount.depth).map(|_| one_by_one())).await?;
    Ok(Done { client: client.number, operations: next.get() as u64, latency: latency.into_inner() })
}

/// The mean of all clients' operations, and what half of them and one in a hundred exceed.
fn latency_us(done: &[Done]) -> [f64; 3] {
    let mut all = Latency::default();
    done.iter().for_each(|done| all.merge(&done.latency));
    let percentile = |percent| all.nanoseconds.value_at_percentile(percent) as f64;
    let mean = all.sum / all.nanoseconds.len().max(1) as f64;
    [mean, percentile(50.0), percentile(99.0)].map(|nanoseconds| nanoseconds / 1e3)
}

async fn open_and_close(tree: &Tree, path: &str) -> Result<(), Error> {
    tree.open(path, reading()).await?.close().await
}

async fn ask_and_close(tree: &Tree, path: &str) -> Result<(), Error> {
    let options = OpenOptions { access: Access::Attributes, ..OpenOptions::default() };
    let file = tree.open(path, options).await?;
    let known = file.facts_now().await;
    known.map(drop).and(file.close().await)
}

async fn read_and_close(tree: &Tree, path: &str) -> Result<(), Error> {
    let file = tree.open(path, reading()).await?;
    let read = file.read(0, FILE_BYTES).await;
    read.map(drop).and(file.close().await)
}

fn reading() -> OpenOptions {
    OpenOptions { directory: Some(false), ..OpenOptions::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(milliseconds: &[u64]) -> Done {
        let mut latency = Latency::default();
        milliseconds.iter().for_each(|one| latency.record(Duration::from_millis(*one)));
        Done { client: 0, operations: milliseconds.len() as u64, latency }
    }

    #[test]
    fn latencies_of_all_clients_count() {
        let [mean, half, most] = latency_us(&[done(&[1, 1, 1]), done(&[9])]);
        assert!((mean - 3_000.0).abs() < 1e-6);
        assert!((half / 1_000.0 - 1.0).abs() < 0.01 && (most / 9_000.0 - 1.0).abs() < 0.01, "{half} {most}");
        assert_eq!(latency_us(&[]), [0.0; 3]);
    }
}
