//! How the server is, for who looks whether it lives and whether it serves.

use crate::flight::Work;
use crate::source::{Stage, Stages};

/// Finds out.
pub(crate) struct Pulse(pub(crate) Stages);

/// How it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Starting,
    Well,
    /// These shards do not answer.
    Hangs(Vec<usize>),
    Ending,
}

impl Work for Pulse {
    type Reading = Health;
    type Question = ();
    type Answer = Health;

    fn read(&mut self) -> Health {
        match self.0.now() {
            Stage::Starting => Health::Starting,
            Stage::Ending(_) => Health::Ending,
            Stage::Serving(source) => {
                let silent = source.silent_shards();
                if silent.is_empty() { Health::Well } else { Health::Hangs(silent) }
            }
        }
    }

    fn answer(&mut self, health: &Health, (): ()) -> Health {
        health.clone()
    }
}

impl Health {
    /// The process lives, and so do its shards.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self, Health::Hangs(_))
    }

    /// It serves clients.
    pub(crate) fn is_ready(&self) -> bool {
        *self == Health::Well
    }

    pub(crate) fn sentence(&self) -> String {
        match self {
            Health::Starting => "the server starts".to_owned(),
            Health::Well => "the server is ready".to_owned(),
            Health::Hangs(shards) => {
                let shards = shards.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
                format!("shards do not answer: {shards}")
            }
            Health::Ending => "the server was told to end".to_owned(),
        }
    }
}
