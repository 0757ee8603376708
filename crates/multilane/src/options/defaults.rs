//! What options are of which nobody has said anything, where that depends on the machine.

use std::path::Path;
use std::thread;

use control::ServeOption;

use crate::log::Format;

/// Has `option` say its default, where it has one and nobody has named it. `data` is the server's data folder.
pub(super) fn tell(option: &mut ServeOption, data: &Path) {
    if option.value.is_some() {
        return;
    }
    option.value = match option.name.as_str() {
        "threads" => Some(thread::available_parallelism().map_or(1, usize::from).to_string()),
        "metadata-cache" => Some(format!("{}M", server::metadata_cache_bytes_usual() >> 20)),
        "audit-log" => Some(data.join("audit.log").to_string_lossy().into_owned()),
        "log-format" => Some(if Format::is_journal_by_default() { "journald" } else { "text" }.to_owned()),
        _ => None,
    };
}
