//! Takes a comparison's files away from a server that stays.

use std::sync::Arc;
use std::time::Duration;

use ::client::{Channels, Session, Settings, Status, Tcp};

use super::sample::Files;
use super::servers::Server;
use crate::engine::Failure;

/// How long a server that is gone is looked for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Removes the files. One that was never made is no failure.
pub(super) fn remove(server: &Server, files: &Files) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|cause| Failure { what: cause.to_string(), remedy: "remove the files by hand".to_owned() })?;
    let removed = runtime.block_on(async {
        let settings = Settings { channels: Channels::Exactly(1), session_timeout: PATIENCE, ..server.mount.settings };
        let session = Session::connect(&server.mount.server, settings, Arc::new(Tcp)).await?;
        let tree = session.tree(&server.mount.share).await?;
        let mut failed = None;
        for path in files.on(server) {
            match tree.remove(&path).await {
                Err(error) if error.status() != Some(Status::OBJECT_NAME_NOT_FOUND) => failed = Some(error),
                Ok(()) | Err(_) => {}
            }
        }
        drop(tree);
        let _ = session.close().await;
        failed.map_or(Ok(()), Err)
    });
    removed.map_err(|error: ::client::Error| Failure { what: error.to_string(), remedy: error.remedy().to_owned() })
}
