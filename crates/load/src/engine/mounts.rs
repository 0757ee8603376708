//! The sessions of a run: one for each mount, which all threads use.

use std::sync::Arc;
use std::time::Duration;

use client::{Channels, Session, Tcp, Tree};
use tokio::time::timeout;

use crate::engine::{Failure, Mount, Watch};

/// How long signing out may take.
const CLOSE_MAX: Duration = Duration::from_secs(3);

/// Who is signed in where.
#[derive(Default)]
pub(super) struct Mounts {
    open: Vec<Open>,
}

struct Open {
    mount: Arc<Mount>,
    session: Session,
    tree: Tree,
}

impl Mounts {
    /// The share of a mount. The first time it signs in, and opens all the channels there may be: no measured time is spent on that.
    pub(super) async fn tree(&mut self, mount: &Arc<Mount>, watch: &dyn Watch) -> Result<Tree, Failure> {
        if let Some(open) = self.open.iter().find(|open| Arc::ptr_eq(&open.mount, mount)) {
            return Ok(open.tree.clone());
        }
        let place = format!(r"\\{}\{}", mount.server.host, mount.share);
        let failed = |error: client::Error| Failure::of(&place, &error);
        let session = Session::connect(&mount.server, mount.settings, Arc::new(Tcp)).await.map_err(failed)?;
        let tree = session.tree(&mount.share).await.map_err(failed)?;
        if let Err(error) = session.widen().await {
            match mount.settings.channels {
                Channels::Exactly(_) => watch.note(&format!("{place}: not every channel could be opened: {error}")),
                Channels::Automatic => tracing::debug!(%error, "not every channel could be opened"),
            }
        }
        self.open.push(Open { mount: Arc::clone(mount), session, tree: tree.clone() });
        Ok(tree)
    }

    pub(super) fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.open.iter().map(|open| &open.session)
    }

    /// Signs out everywhere. A server that is gone does not keep anybody.
    pub(super) async fn close(self) {
        for open in self.open {
            let _ = timeout(CLOSE_MAX, open.session.close()).await;
        }
    }
}
