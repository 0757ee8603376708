//! How the server is, for who looks whether it lives and whether it serves.

use std::io;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::flight::{Flight, Unanswered, Work};
use crate::source::{Stage, Stages};

/// What is known is told again for so long: who probes has little patience, and may not be alone.
const TOLD_FOR: Duration = Duration::from_secs(1);
/// The process is said to live while its shards have been seen to hang for less: on a machine that has too much to do they may be late, and who
/// looks for life starts the server anew.
const LIVES_FOR: Duration = Duration::from_secs(10);

/// Who knows how the server is.
pub(crate) struct Doctor {
    stages: Stages,
    pulse: Flight<Pulse>,
    last: Mutex<Option<(Instant, Health)>>,
}

impl Doctor {
    /// Starts a thread that finds out.
    pub(crate) fn start(stages: Stages) -> io::Result<Self> {
        let pulse = Flight::start("metrics-health", Pulse { stages: stages.clone(), hangs_since: None })?;
        Ok(Doctor { stages, pulse, last: Mutex::new(None) })
    }

    /// How it is now, or was a moment ago.
    pub(crate) async fn health(&self) -> Result<Health, Unanswered> {
        match self.stages.now() {
            Stage::Starting => return Ok(Health::Starting),
            Stage::Ending(_) => return Ok(Health::Ending),
            Stage::Serving(_) => {}
        }
        let known = self.last.lock().clone();
        if let Some((at, health)) = known
            && at.elapsed() < TOLD_FOR
        {
            return Ok(health);
        }
        let health = self.pulse.ask(()).await?;
        *self.last.lock() = Some((Instant::now(), health.clone()));
        Ok(health)
    }
}

/// Finds out.
struct Pulse {
    stages: Stages,
    hangs_since: Option<Instant>,
}

/// How it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Starting,
    Well,
    /// These shards do not answer, and have been seen not to since then.
    Hangs(Vec<usize>, Instant),
    Ending,
}

impl Work for Pulse {
    type Reading = Health;
    type Question = ();
    type Answer = Health;

    fn read(&mut self) -> Health {
        let health = match self.stages.now() {
            Stage::Starting => Health::Starting,
            Stage::Ending(_) => Health::Ending,
            Stage::Serving(source) => match source.silent_shards() {
                silent if silent.is_empty() => Health::Well,
                silent => Health::Hangs(silent, self.hangs_since.unwrap_or_else(Instant::now)),
            },
        };
        self.hangs_since = match &health {
            Health::Hangs(_, since) => Some(*since),
            _ => None,
        };
        health
    }

    fn answer(&mut self, health: &Health, (): ()) -> Health {
        health.clone()
    }
}

impl Health {
    /// The process lives, and so do its shards, as far as can be said yet.
    pub(crate) fn is_alive(&self) -> bool {
        match self {
            Health::Hangs(_, since) => since.elapsed() < LIVES_FOR,
            Health::Starting | Health::Well | Health::Ending => true,
        }
    }

    /// It serves clients.
    pub(crate) fn is_ready(&self) -> bool {
        *self == Health::Well
    }

    pub(crate) fn sentence(&self) -> String {
        match self {
            Health::Starting => "the server starts".to_owned(),
            Health::Well => "the server is ready".to_owned(),
            Health::Hangs(shards, _) => {
                let shards = shards.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
                format!("shards do not answer: {shards}")
            }
            Health::Ending => "the server was told to end".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_that_are_late_are_no_reason_to_start_anew_and_those_that_hang_are() {
        let hangs = |since: Instant| Health::Hangs(vec![1], since);
        let (now, earlier) = (Instant::now(), Instant::now().checked_sub(LIVES_FOR).unwrap());
        assert_eq!((hangs(now).is_alive(), hangs(now).is_ready()), (true, false));
        assert_eq!((hangs(earlier).is_alive(), hangs(earlier).is_ready()), (false, false));
    }
}
