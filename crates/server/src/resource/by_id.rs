//! Maps by what this server or a disk numbers itself.

use std::collections::HashMap;

use foldhash::quality::RandomState;

/// A map by ids that no peer chooses. So it needs no hash that withstands whoever does, and each request looks into several of them.
pub(crate) type ById<K, V> = HashMap<K, V, RandomState>;
