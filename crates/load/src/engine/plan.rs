//! Which threads a time span has, and what each has to do with which target.

use std::sync::Arc;

use crate::engine::Failure;
use crate::engine::prepare::Ready;
use crate::profile::{Target, TimeSpan};

/// Requests in flight of a whole time span. Each has a buffer, here and at the server.
const IN_FLIGHT_MAX: u64 = 1 << 20;

/// What one thread is to do.
pub(super) struct ThreadPlan {
    pub(super) id: u32,
    pub(super) lanes: Vec<Lane>,
    /// For each of its slots the lane that it works for, `None` where it chooses one each time.
    pub(super) slots: Vec<Option<usize>>,
}

/// One thread's part in one target.
pub(super) struct Lane {
    pub(super) ready: Arc<Ready>,
    /// The thread's number among those of the target.
    pub(super) number: u32,
    /// Its share where the thread chooses.
    pub(super) weight: u32,
}

/// The threads of a time span: those of the first target first, or those that share all targets.
pub(super) fn threads(span: &TimeSpan, ready: &[Arc<Ready>]) -> Result<Vec<ThreadPlan>, Failure> {
    let in_flight = in_flight(span);
    if in_flight == 0 || in_flight > IN_FLIGHT_MAX {
        return Err(Failure {
            what: format!("{in_flight} requests would be in flight"),
            remedy: format!("choose -t, -F, -o and -O so that it is 1 to {IN_FLIGHT_MAX}"),
        });
    }
    match span.thread_count {
        Some(count) => (0..count).map(|id| shared(id, span.request_count, ready)).collect(),
        None => {
            let each =
                ready.iter().flat_map(|ready| (0..ready.target.threads_per_file).map(move |number| (ready, number)));
            Ok(each.zip(0..).map(|((ready, number), id)| alone(id, number, ready)).collect())
        }
    }
}

/// A thread of one target.
fn alone(id: u32, number: u32, ready: &Arc<Ready>) -> ThreadPlan {
    let slots = vec![Some(0); ready.target.outstanding as usize];
    ThreadPlan { id, lanes: vec![Lane { ready: Arc::clone(ready), number, weight: 1 }], slots }
}

/// A thread of all targets that it is to use.
fn shared(id: u32, request_count: Option<u32>, ready: &[Arc<Ready>]) -> Result<ThreadPlan, Failure> {
    let part = |ready: &Arc<Ready>| {
        let weight = weight(&ready.target, id)?;
        Some(Lane { ready: Arc::clone(ready), number: id, weight })
    };
    let lanes: Vec<Lane> = ready.iter().filter_map(part).collect();
    if lanes.is_empty() {
        return Err(Failure {
            what: format!("thread {id} has no target"),
            remedy: "name it in the profile's ThreadTargets, or have fewer threads".to_owned(),
        });
    }
    let slots = match request_count {
        Some(count) => vec![None; count as usize],
        None => {
            let each = lanes.iter().enumerate();
            each.flat_map(|(at, lane)| std::iter::repeat_n(Some(at), lane.ready.target.outstanding as usize)).collect()
        }
    };
    Ok(ThreadPlan { id, lanes, slots })
}

/// A thread's share of a target; `None` where it does not use it.
fn weight(target: &Target, thread: u32) -> Option<u32> {
    match target.thread_targets.as_slice() {
        [] => Some(target.weight),
        named => named.iter().find(|named| named.thread == thread).map(|named| named.weight),
    }
}

fn in_flight(span: &TimeSpan) -> u64 {
    let outstanding = span.targets.iter().map(|target| u64::from(target.outstanding));
    match (span.thread_count, span.request_count) {
        (Some(threads), Some(requests)) => u64::from(threads).saturating_mul(requests.into()),
        (Some(threads), None) => u64::from(threads).saturating_mul(outstanding.sum()),
        (None, _) => {
            let each =
                span.targets.iter().map(|target| u64::from(target.threads_per_file) * u64::from(target.outstanding));
            each.fold(0, u64::saturating_add)
        }
    }
}
