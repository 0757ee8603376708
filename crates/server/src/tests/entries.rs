//! Opens that want to enter the table of files, past CREATE, and the names that are there, past the server.

use std::sync::Arc;

use store::{Resolved, SharePath, Store, Use};
use wire::security::access::READ_DATA;

use crate::state::caching::Wanted;
use crate::state::files::{Empties, Entry};
use crate::state::open_id::OpenId;
use crate::state::open_path::OpenPath;
use crate::state::session_link::SessionLink;

/// One that reads the file, shares it for everything, and asks to cache nothing.
pub(crate) fn entry<'a>(names: &'a Arc<OpenPath>, store: &'a Arc<dyn Store>, line: &'a Arc<SessionLink>) -> Entry<'a> {
    Entry {
        open: OpenId(u64::MAX),
        stream: "",
        link: None,
        access: READ_DATA,
        share: 7,
        names,
        store,
        line,
        is_directory: false,
        empties: Empties::Nothing,
        deletes: false,
        wanted: &Wanted::Nothing,
        opens_max: usize::MAX,
    }
}

/// Which of the names `a`, `b` and `c` there are.
pub(crate) fn names(store: &Arc<dyn Store>) -> String {
    let has = |name: &&str| {
        let path = SharePath::parse(name).unwrap();
        matches!(store.resolve(&path, Use::Metadata), Ok(Resolved::Found { .. }))
    };
    ["a", "b", "c"].into_iter().filter(has).collect()
}
