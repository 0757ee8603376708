//! Whether every shard goes on: each answers a call with the number that the call had. Between calls that costs a shard nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// How often it is looked whether all have answered.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The last call, and which of them each shard has answered last.
pub(crate) struct RollCall {
    call: watch::Sender<u64>,
    answers: Vec<AtomicU64>,
}

impl RollCall {
    /// That of `shards` shards, which were not called yet.
    pub(crate) fn new(shards: usize) -> Self {
        RollCall { call: watch::Sender::new(0), answers: (0..shards).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Where a shard hears of calls, also of the last one before it listened.
    pub(crate) fn listen(&self) -> watch::Receiver<u64> {
        let mut calls = self.call.subscribe();
        calls.mark_changed();
        calls
    }

    /// A shard has heard this call.
    pub(crate) fn answer(&self, shard: usize, call: u64) {
        if let Some(answer) = self.answers.get(shard) {
            answer.fetch_max(call, Ordering::Release);
        }
    }

    /// Calls all shards, and gives those that have not answered within `patience`.
    pub(crate) fn silent(&self, patience: Duration) -> Vec<usize> {
        let until = Instant::now() + patience;
        let mut call = 0;
        self.call.send_modify(|last| {
            *last += 1;
            call = *last;
        });
        loop {
            let answers = self.answers.iter().enumerate();
            let silent: Vec<usize> =
                answers.filter(|(_, answer)| answer.load(Ordering::Acquire) < call).map(|(shard, _)| shard).collect();
            if silent.is_empty() || Instant::now() >= until {
                return silent;
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_answered_an_earlier_call_alone_is_silent() {
        let roll_call = RollCall::new(3);
        let silent = || roll_call.silent(Duration::ZERO);
        let calls = roll_call.listen();
        assert_eq!(silent(), [0, 1, 2]);
        roll_call.answer(1, *calls.borrow());
        assert_eq!(silent(), [0, 1, 2], "that was before");
        thread::scope(|scope| {
            let asking = scope.spawn(|| roll_call.silent(Duration::from_secs(60)));
            let is_called = || *calls.borrow() == 3;
            while !is_called() {
                thread::sleep(LOOK_EVERY);
            }
            (0..3).for_each(|shard| roll_call.answer(shard, 3));
            assert_eq!(asking.join().unwrap(), [0; 0]);
        });
    }
}
