//! A session: who is signed in, and the channels, trees and opens it has (MS-SMB2 3.2.1.3).

use std::sync::Arc;

use secure::seal::Cipher;
use secure::sign::SigningAlgorithm;
use tokio::sync::mpsc;
use wire::command::echo::EchoRequest;
use wire::command::logoff::LogoffRequest;
use wire::fscc::ioctl::Interface;
use wire::ids::{Command, FileId};
use wire::rpc::srvsvc::ListedShare;
use wire::status::Status;

use crate::breaks;
use crate::channel::Counters;
use crate::command::ioctl;
use crate::error::Error;
use crate::keeper;
use crate::network::Network;
use crate::pairing::Pair;
use crate::perform::Ask;
use crate::reconnect;
use crate::settings::{Channels, Settings};
use crate::share_list;
use crate::shared::{Phase, Shared};
use crate::target::Target;
use crate::tree::Tree;

/// A session, and what goes on in its name. Clones are the same session; the last one to go ends it.
#[derive(Clone)]
pub struct Session {
    pub(crate) shared: Arc<Shared>,
}

/// A session as users see it (Get-SmbConnection, Get-SmbMultichannelConnection).
#[derive(Clone, Debug)]
pub struct Connected {
    /// The server as the user called it.
    pub server: String,
    /// Its channels.
    pub channels: Vec<Counters>,
    /// The pairs of interfaces that were found and chosen; empty before anybody asked.
    pub pairs: Vec<Pair>,
    /// Channels lost so far.
    pub failure_count: u64,
    /// Everything is encrypted.
    pub is_sealed: bool,
}

/// What a session and its server agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// How messages are signed.
    pub signing: SigningAlgorithm,
    /// How messages are encrypted where they are; `None` where server and client have no cipher in common.
    pub cipher: Option<Cipher>,
    /// What is not encrypted is signed.
    pub is_signed: bool,
    /// Both sides can do multichannel.
    pub has_multichannel: bool,
    /// The most that one READ may move.
    pub read_bytes_max: u32,
    /// The most that one WRITE may move.
    pub write_bytes_max: u32,
}

impl Session {
    /// Signs in. Must be called within a tokio runtime, where the session's tasks go on.
    pub async fn connect(target: &Target, settings: Settings, network: Arc<dyn Network>) -> Result<Session, Error> {
        let (unsolicited, breaks) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared::of(target, settings, network, unsolicited)?);
        reconnect::establish(&shared).await?;
        tokio::spawn(keeper::keep(Arc::downgrade(&shared)));
        tokio::spawn(breaks::answer(Arc::downgrade(&shared), breaks));
        Ok(Session { shared })
    }

    /// Connects to a share.
    pub async fn tree(&self, share: &str) -> Result<Tree, Error> {
        let tree = Tree::connect(&self.shared, share).await?;
        keeper::learn_ahead(&self.shared);
        Ok(tree)
    }

    /// How it is doing.
    pub fn connected(&self) -> Connected {
        let paths = self.shared.paths.lock();
        let state = self.shared.state.lock();
        Connected {
            server: self.shared.host.clone(),
            channels: state.channels.iter().map(|channel| channel.counters()).collect(),
            pairs: paths.pairs.clone(),
            failure_count: state.losses,
            is_sealed: self.shared.settings.seal || state.identity.as_ref().is_some_and(|identity| identity.is_sealed),
        }
    }

    /// True once it is gone for good.
    pub fn has_ended(&self) -> bool {
        matches!(self.shared.state.lock().phase, Phase::Gone(_))
    }

    /// Opens as many channels as there may be, without waiting for there to be enough to do.
    ///
    /// # Errors
    ///
    /// What kept a channel from being opened. That the server has multichannel switched off is an error only where a number of
    /// channels was asked for.
    pub async fn widen(&self) -> Result<(), Error> {
        let widened = self.shared.open_paths().await;
        let is_off = matches!(&widened, Err(error) if error.status() == Some(Status::NOT_SUPPORTED));
        match self.shared.settings.channels {
            Channels::Automatic if is_off => Ok(()),
            Channels::Automatic | Channels::Exactly(_) => widened,
        }
    }

    /// What was agreed on; `None` while there is no session with the server.
    pub fn agreed(&self) -> Option<Agreed> {
        let state = self.shared.state.lock();
        let terms = state.identity.as_ref()?.terms;
        Some(Agreed {
            signing: terms.signing,
            cipher: terms.cipher,
            is_signed: terms.is_signing_required,
            has_multichannel: terms.has_multichannel,
            read_bytes_max: terms.read_bytes_max,
            write_bytes_max: terms.write_bytes_max,
        })
    }

    /// The network interfaces that the server tells of (2.2.32.5), those that cannot be reached included.
    pub async fn interfaces(&self) -> Result<Vec<Interface>, Error> {
        ioctl::interfaces(&self.shared).await
    }

    /// The shares that the server tells of, IPC$ among them.
    pub async fn shares(&self) -> Result<Vec<ListedShare>, Error> {
        share_list::shares(&self.shared).await
    }

    /// Asks the server for nothing, to see how long an answer takes (3.2.4.15).
    pub async fn echo(&self) -> Result<(), Error> {
        let body = |out: &mut Vec<u8>, _: FileId| EchoRequest.encode(out);
        let answer = self.shared.perform(&Ask { command: Command::ECHO, ..Ask::of_session(&body) }).await?;
        answer.expect(&[Status::SUCCESS], || "ask for an answer".into()).map(|_| ())
    }

    /// Signs out (3.2.4.23), which closes all that is open.
    pub async fn close(self) -> Result<(), Error> {
        let body = |out: &mut Vec<u8>, _: FileId| LogoffRequest.encode(out);
        let ask = Ask { command: Command::LOGOFF, ..Ask::of_session(&body) };
        self.shared.state.lock().is_closing = true;
        let answer = self.shared.perform_once(&ask).await;
        self.shared.finish(Error::Lost("the session was closed"));
        answer.map(|_| ())
    }
}
