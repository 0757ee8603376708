//! Who has a place, and may have to give it up: who connects and says nothing, or asks and does not take the answer, must not keep others out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinHandle};

use crate::http::limits::Limits;

/// Those who have one, in the order in which they came.
#[derive(Default)]
pub(super) struct Visitors(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    next: u64,
    visitors: BTreeMap<u64, Visitor>,
}

struct Visitor {
    task: Option<AbortHandle>,
    has_asked: bool,
    /// When it came, or had asked.
    since: Instant,
}

/// The stay of one.
pub(super) struct Visit {
    visitors: Arc<Visitors>,
    number: u64,
}

impl Visitors {
    /// Somebody comes, whom a task attends to.
    pub(super) fn enter(self: &Arc<Self>, attend: impl FnOnce(Visit) -> JoinHandle<()>) {
        let number = {
            let mut inside = self.0.lock();
            inside.next += 1;
            let number = inside.next;
            inside.visitors.insert(number, Visitor { task: None, has_asked: false, since: Instant::now() });
            number
        };
        let task = attend(Visit { visitors: Arc::clone(self), number }).abort_handle();
        if let Some(visitor) = self.0.lock().visitors.get_mut(&number) {
            visitor.task = Some(task);
        }
    }

    /// Ends the stay of who has been silent longest, or else of who has taken longest over an answer, where that is long enough. False where nobody is.
    pub(super) fn send_one_away(&self, limits: Limits) -> bool {
        let mut inside = self.0.lock();
        let longest = |has_asked: bool, at_least: Duration| {
            let those = inside.visitors.iter().filter(|(_, one)| one.has_asked == has_asked && one.task.is_some());
            let (number, visitor) = those.min_by_key(|(_, one)| one.since)?;
            (visitor.since.elapsed() >= at_least).then_some(*number)
        };
        let number = longest(false, limits.silent_at_least).or_else(|| longest(true, limits.taking_at_least));
        let visitor = number.and_then(|number| inside.visitors.remove(&number));
        let task = visitor.and_then(|visitor| visitor.task);
        task.inspect(AbortHandle::abort).is_some()
    }
}

impl Visit {
    /// All of its request is there.
    pub(super) fn has_asked(&self) {
        if let Some(visitor) = self.visitors.0.lock().visitors.get_mut(&self.number) {
            (visitor.has_asked, visitor.since) = (true, Instant::now());
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.visitors.0.lock().visitors.remove(&self.number);
    }
}
