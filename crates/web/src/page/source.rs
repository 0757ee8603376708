//! What the page is of.

use std::path::PathBuf;
use std::sync::Arc;

use control::{Explain, KnownCatalog, LogFilter, Operations, ShareGauges, folded_name};
use insight::why::Path;
use serde_json::Value;
use server::admin::Admin;

/// Tells how the connection between the server's and the client's end is doing, where the system does.
pub type PathOf = dyn Fn(&str, &str) -> Option<Path> + Send + Sync;

/// Where the page asks, and what it does things by.
pub struct PageSource {
    /// The server.
    pub admin: Arc<dyn Admin>,
    /// Its shares.
    pub shares: ShareGauges,
    /// Its catalog.
    pub catalog: KnownCatalog,
    /// What may be done with it.
    pub operations: Operations,
    /// Who says where the time went.
    pub explain: Arc<dyn Explain>,
    /// What is logged.
    pub log_filter: Arc<dyn LogFilter>,
    /// The last events of the log, the newest first, each as the log has it in JSON.
    pub events: Box<dyn Fn() -> Vec<Value> + Send + Sync>,
    /// How the connection between the server's and the client's end is doing.
    pub path: Box<PathOf>,
    /// Where the numbers of the last thirty days are kept.
    pub archive: PathBuf,
    /// Where the audit log is.
    pub audit_log: String,
    /// The program's version.
    pub version: &'static str,
    /// When the server started, as text.
    pub since: String,
    /// The arguments that lead a command to this server's data folder, with a space before them, or nothing.
    pub of_data: String,
}

impl PageSource {
    /// A share's name as the catalog has it, whatever its case here; what no share has, as it is.
    pub(crate) fn share_named(&self, name: &str) -> String {
        let folded = folded_name(name);
        let known = self.catalog.shares().into_iter().map(|share| share.name);
        { known }.find(|share| folded_name(share) == folded).unwrap_or_else(|| name.to_owned())
    }
}
