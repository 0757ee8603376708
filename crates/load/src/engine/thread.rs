//! One thread in DiskSpd's sense: its opens, and its requests, which are all polled in one task.

use std::sync::Arc;

use client::File;
use fastrand::Rng;
use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt, TryStreamExt};
use parking_lot::Mutex;

use crate::engine::Failure;
use crate::engine::content::Random;
use crate::engine::offsets::Offsets;
use crate::engine::pace::Pace;
use crate::engine::plan::{Lane, ThreadPlan};
use crate::engine::prepare::{Ready, options, unopened};
use crate::engine::tally::{Kind, Tally};
use crate::engine::timer::Timer;
use crate::engine::window::{Moment, Window};
use crate::profile::TimeSpan;
use crate::results::{TargetResults, ThreadResults};

/// A thread with its files open.
pub(super) struct Thread {
    id: u32,
    files: Vec<Opened>,
    /// For each slot the lane that it works for, `None` where it chooses one each time.
    slots: Vec<Option<usize>>,
    random_write_data: bool,
    /// Of this thread alone, in whose task nothing else runs: it is never waited for.
    state: Mutex<State>,
}

struct Opened {
    ready: Arc<Ready>,
    file: File,
    /// For the request that is due next; those that are due after it queue up.
    timer: tokio::sync::Mutex<Timer>,
}

/// What changes with each request.
struct State {
    chance: Rng,
    lanes: Vec<LaneState>,
    /// The sum of the lanes' weights.
    weights: u64,
}

struct LaneState {
    weight: u64,
    offsets: Offsets,
    pace: Pace,
    tally: Tally,
    last: Kind,
}

/// What a slot has to do next.
struct Step {
    lane: usize,
    kind: Kind,
    offset: u64,
    due: Moment,
    /// Decides what is written.
    ticket: u64,
}

/// What a slot has done.
struct Done {
    lane: usize,
    kind: Kind,
    due: Moment,
}

impl Thread {
    /// Opens the thread's files.
    pub(super) async fn open(plan: ThreadPlan, span: &TimeSpan) -> Result<Self, Failure> {
        let mut chance = Rng::with_seed(seed(span.random_seed, plan.id));
        let mut files = Vec::with_capacity(plan.lanes.len());
        let mut lanes = Vec::with_capacity(plan.lanes.len());
        for Lane { ready, number, weight } in plan.lanes {
            let target = &ready.target;
            let offsets = Offsets::new(target, ready.region, number, &mut chance).map_err(|why| Failure {
                what: format!("{}: {why}", target.path),
                remedy: "make the file larger with -c<size>, or the stride or the ranges smaller".to_owned(),
            })?;
            let pace = Pace::of(target);
            let last = choose_kind(target.write_percent, &mut chance);
            lanes.push(LaneState { weight: u64::from(weight), offsets, pace, tally: Tally::new(span), last });
            let file = ready.tree.open(&ready.name, options(target)).await;
            let file = file.map_err(|error| unopened(&target.path, &error))?;
            files.push(Opened { file, ready, timer: tokio::sync::Mutex::default() });
        }
        let weights = lanes.iter().map(|lane| lane.weight).sum();
        Ok(Thread {
            id: plan.id,
            files,
            slots: plan.slots,
            random_write_data: span.random_write_data,
            state: Mutex::new(State { chance, lanes, weights }),
        })
    }

    /// Keeps all slots busy until the end of the window.
    pub(super) async fn run(&self, window: &Window) -> Result<(), Failure> {
        let slots: FuturesUnordered<_> = self.slots.iter().map(|lane| self.slot(*lane, window)).collect();
        slots.try_collect().await
    }

    /// Closes the files and gives what was counted.
    pub(super) async fn finish(self, window: &Window) -> ThreadResults {
        let lanes = self.state.into_inner().lanes;
        let mut closing = FuturesUnordered::new();
        let mut targets = Vec::with_capacity(lanes.len());
        for (opened, lane) in self.files.into_iter().zip(lanes) {
            let effective = lane.offsets.effective();
            let (read, write) = lane.tally.finish(window);
            let (path, file_bytes) = (opened.ready.target.path.clone(), opened.ready.file_bytes);
            targets.push(TargetResults { path, file_bytes, effective, read, write });
            closing.push(opened.file.close());
        }
        // All that was to be measured is; a server that is gone has closed them itself.
        while closing.next().await.is_some() {}
        ThreadResults { id: self.id, targets }
    }

    /// One request after the other.
    async fn slot(&self, lane: Option<usize>, window: &Window) -> Result<(), Failure> {
        let mut position = None;
        let mut own = Random::default();
        let mut free = window.now();
        let mut done = None;
        loop {
            let step = self.state.lock().turn(&self.files, window, lane, &mut position, free, done);
            if step.due > free {
                window.wait_until(step.due, &mut *self.files[step.lane].timer.lock().await).await;
            }
            if step.due.max(free) >= window.end() {
                return Ok(());
            }
            self.ask(&step, &mut own).await?;
            free = window.now();
            done = Some(Done { lane: step.lane, kind: step.kind, due: step.due });
        }
    }

    async fn ask(&self, step: &Step, own: &mut Random) -> Result<(), Failure> {
        let Opened { file, ready, .. } = &self.files[step.lane];
        let length = ready.target.block_bytes as usize;
        let done = match step.kind {
            Kind::Read => match file.read(step.offset, length).await {
                Ok(data) if data.len() < length => return Err(shortened(ready, step.offset)),
                other => other.map(|_| ()),
            },
            Kind::Write if self.random_write_data => file.write(step.offset, own.make(length, step.ticket)).await,
            Kind::Write => file.write(step.offset, ready.content.piece(step.ticket)).await,
        };
        done.map_err(|error| Failure::of(&ready.target.path, &error))
    }
}

impl State {
    /// Counts what a slot has done, and says what it does next.
    fn turn(
        &mut self,
        files: &[Opened],
        window: &Window,
        lane: Option<usize>,
        position: &mut Option<u64>,
        free: Moment,
        done: Option<Done>,
    ) -> Step {
        if let Some(Done { lane, kind, due }) = done {
            let bytes = u64::from(files[lane].ready.target.block_bytes);
            self.lanes[lane].tally.count(window, kind, bytes, due, free);
        }
        let number = lane.unwrap_or_else(|| self.choose_lane());
        let (lane, ready) = (&mut self.lanes[number], &files[number].ready);
        let next = lane.offsets.next(position, &ready.position, &mut self.chance);
        if next.is_new_run {
            lane.last = choose_kind(ready.target.write_percent, &mut self.chance);
        }
        let due = lane.pace.next(free);
        Step { lane: number, kind: lane.last, offset: next.offset, due, ticket: self.chance.u64(..) }
    }

    fn choose_lane(&mut self) -> usize {
        let mut ticket = self.chance.u64(0..self.weights.max(1));
        let holds = |lane: &LaneState| match ticket.checked_sub(lane.weight) {
            Some(rest) => {
                ticket = rest;
                false
            }
            None => true,
        };
        self.lanes.iter().position(holds).unwrap_or(0)
    }
}

fn choose_kind(write_percent: u8, chance: &mut Rng) -> Kind {
    match write_percent {
        0 => Kind::Read,
        100.. => Kind::Write,
        percent if chance.u8(0..100) < percent => Kind::Write,
        _ => Kind::Read,
    }
}

/// Threads next to each other must not make the same choices.
fn seed(of_span: u64, thread: u32) -> u64 {
    of_span.wrapping_add(u64::from(thread) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn shortened(ready: &Ready, offset: u64) -> Failure {
    Failure {
        what: format!("{}: the file no longer reaches beyond byte {offset}", ready.target.path),
        remedy: "use a file that nobody else shortens".to_owned(),
    }
}
