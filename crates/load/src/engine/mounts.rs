//! The sessions of a run: one for each mount, which all threads use, and which is watched for its server's end.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use client::{Channels, Session, Tcp, Tree};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::engine::{Failure, Mount, Watch, liveness};
use crate::results::Protected;

/// How long signing out may take.
const CLOSE_MAX: Duration = Duration::from_secs(3);

/// Who is signed in where.
pub(super) struct Mounts {
    open: Vec<Open>,
    lost: Arc<watch::Sender<Option<Failure>>>,
}

struct Open {
    mount: Arc<Mount>,
    session: Arc<Session>,
    tree: Tree,
    /// Looks whether the server is still there.
    liveness: JoinHandle<()>,
}

impl Default for Mounts {
    fn default() -> Self {
        Mounts { open: Vec::new(), lost: Arc::new(watch::Sender::new(None)) }
    }
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
        let session = Arc::new(session);
        let (watched, watched_mount, lost) = (Arc::clone(&session), Arc::clone(mount), Arc::clone(&self.lost));
        let liveness = tokio::spawn(async move {
            let failure = liveness::of(&watched, &watched_mount).await;
            lost.send_replace(Some(failure));
        });
        self.open.push(Open { mount: Arc::clone(mount), session, tree: tree.clone(), liveness });
        Ok(tree)
    }

    pub(super) fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.open.iter().map(|open| &*open.session)
    }

    /// How the messages of all of them are protected.
    pub(super) fn protected(&self) -> Protected {
        Protected {
            is_signed: self.sessions().filter_map(Session::agreed).any(|agreed| agreed.is_signed),
            is_sealed: self.open.iter().any(|open| open.session.connected().is_sealed || open.tree.is_sealed()),
        }
    }

    /// Tells once a server has gone.
    pub(super) fn lost(&self) -> Lost {
        Lost(self.lost.subscribe())
    }

    /// Signs out everywhere. A server that is gone does not keep anybody.
    pub(super) async fn close(self) {
        for open in self.open {
            open.liveness.abort();
            // It ends without a result, and no longer holds the session.
            let _ = open.liveness.await;
            if let Some(session) = Arc::into_inner(open.session) {
                let _ = timeout(CLOSE_MAX, session.close()).await;
            }
        }
    }
}

/// Whether a server of the run has gone.
pub(super) struct Lost(watch::Receiver<Option<Failure>>);

impl Lost {
    /// The failure, once there is one.
    pub(super) fn now(&self) -> Option<Failure> {
        self.0.borrow().clone()
    }

    /// Does something for as long as all servers are there.
    pub(super) async fn or<T, E: From<Failure>>(mut self, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let lost = async {
            match self.0.wait_for(Option::is_some).await.as_deref() {
                Ok(Some(failure)) => failure.clone(),
                Ok(None) | Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            done = work => done,
            failure = lost => Err(failure.into()),
        }
    }
}
