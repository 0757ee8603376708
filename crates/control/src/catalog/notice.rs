//! What an operator should know of a catalog that was opened.

use std::fmt;
use std::path::PathBuf;

use tracing::{info, warn};

/// Something that happened as a catalog was opened, or was found then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It was raised to this program's schema, and what it was before is kept.
    Raised {
        /// The schema it had.
        from: usize,
        /// The one it has.
        to: usize,
        /// The copy.
        kept: PathBuf,
    },
    /// Its log was not beside it.
    WithoutLog {
        /// The catalog.
        catalog: PathBuf,
    },
}

impl Notice {
    /// Says so in the log of a server.
    pub(super) fn log(&self) {
        match self {
            Notice::Raised { from, to, kept } => {
                info!(name: "catalog_raised", from, to, kept = %kept.display(), "the catalog has this version's schema now; what it was before is kept");
            }
            Notice::WithoutLog { catalog } => {
                warn!(name: "catalog_without_log", catalog = %catalog.display(), "the catalog was found without its log: where it is a copy, its last changes may be missing");
            }
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Raised { from, to, kept } => write!(
                f,
                "the catalog was raised from schema {from} to {to}; what it was before is kept in {}, with all its secrets: delete that \
                 when you will not go back",
                kept.display()
            ),
            Notice::WithoutLog { catalog } => write!(
                f,
                "{0} was found without its log {0}-wal: where it is a copy of a catalog in use, its last changes may be missing; \
                 `multilane backup` makes copies that have all of them",
                catalog.display()
            ),
        }
    }
}
