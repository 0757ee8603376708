//! Named pipes of `IPC$`: the RPC interfaces behind them, and reading and writing by message (MS-SMB2 3.3.5.12, 3.3.5.13,
//! 3.3.5.15.3, 3.3.5.15.4).

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;
use tokio::sync::Notify;
use wire::fscc::ioctl::PipePeek;
use wire::fscc::pipe::CONNECTED;
use wire::ids::FileTime;
use wire::rpc::server::{Conversation, Taken};
use wire::rpc::srvsvc::{self, Share, ShareKind, Srvsvc};
use wire::status::Status;

use crate::Shared;
use crate::budgets::Held;
use crate::channel_sequence::ChannelSequence;
use crate::context::Context;
use crate::refusal::Refusal;
use crate::user::User;

/// The pipes there are: both speak the same interfaces, whatever is bound.
const PIPES: [&str; 2] = ["srvsvc", "wkssvc"];
/// What the server says it is for.
const COMMENT: &str = "Multilane file server";
/// The workgroup of a server without a domain.
const WORKGROUP: &str = "WORKGROUP";
/// Clients take a server of this version for a current one: Windows 10 and Server 2016 and later.
const VERSION: (u32, u32) = (10, 0);
/// A share's limit of uses where there is none (MS-SRVS 2.2.4.23 shi502_max_uses).
const UNLIMITED: u32 = u32::MAX;

/// One open of a pipe. What it gives to be read comes in messages, and a message is read to its end before the next.
pub(crate) struct Pipe {
    conversation: Mutex<Conversation>,
    changed: Notify,
    /// The client broke the protocol, or closed the pipe.
    broken: AtomicBool,
    pub(crate) channel_sequence: ChannelSequence,
    /// What its user has less for it.
    pub(crate) held: Option<Held>,
}

impl Pipe {
    /// Opens the pipe of a name such as `srvsvc`, `\srvsvc` or `PIPE\srvsvc` in any case; `None` where there is none.
    pub(crate) fn open(name: &str) -> Option<Pipe> {
        let name = known(name)?;
        Some(Pipe {
            conversation: Mutex::new(Conversation::new(name)),
            changed: Notify::new(),
            broken: AtomicBool::new(false),
            channel_sequence: ChannelSequence::default(),
            held: None,
        })
    }

    /// Takes what the client writes; what it completes is answered at once and can then be read.
    pub(crate) fn write(&self, context: &Context, data: &[u8]) -> Result<(), Refusal> {
        self.check()?;
        let user = context.session()?.user.load_full();
        let service = Service { server: context.server(), user: &user };
        let fed = self.conversation.lock().feed(data, &service);
        if let Err(closed) = fed {
            tracing::debug!(peer = %context.connection.peer, reason = closed.0, "a pipe was broken");
            self.close();
            return Err(Status::PIPE_BROKEN.into());
        }
        self.changed.notify_waiters();
        Ok(())
    }

    /// Reads up to `bytes_max` of one message, waiting for one where there is none.
    pub(crate) async fn read(&self, context: &Context, bytes_max: usize) -> Result<Taken, Refusal> {
        let mut announced = false;
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            self.check()?;
            if let Some(taken) = self.conversation.lock().take(bytes_max) {
                return Ok(taken);
            }
            if !announced {
                context.in_flight.announce_wait()?;
                announced = true;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = context.in_flight.cancelled() => return Err(Status::CANCELLED.into()),
            }
        }
    }

    /// True where a message, or the rest of one, waits to be read.
    pub(crate) fn is_readable(&self) -> bool {
        self.conversation.lock().readable_bytes() > 0
    }

    /// Looks without taking: the answer to FSCTL_PIPE_PEEK with up to `bytes_max` bytes of the first message.
    pub(crate) fn peek(&self, bytes_max: usize) -> Result<Vec<u8>, Status> {
        self.check()?;
        let conversation = self.conversation.lock();
        let first = conversation.peek();
        let peek = PipePeek {
            state: CONNECTED,
            read_available: conversation.readable_bytes() as u32,
            messages: conversation.readable_messages() as u32,
            message_length: first.len() as u32,
        };
        let mut answer = Vec::new();
        peek.encode(&mut answer);
        let room = bytes_max.checked_sub(answer.len()).ok_or(Status::INVALID_PARAMETER)?;
        answer.extend_from_slice(first.get(..room).unwrap_or(first));
        Ok(answer)
    }

    /// Ends the conversation and whoever waits for it.
    pub(crate) fn close(&self) {
        self.broken.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    fn check(&self) -> Result<(), Status> {
        if self.broken.load(Ordering::Acquire) { Err(Status::PIPE_BROKEN) } else { Ok(()) }
    }
}

/// True where there is a pipe of this name.
pub(crate) fn exists(name: &str) -> bool {
    known(name).is_some()
}

fn known(name: &str) -> Option<&'static str> {
    let name = name.strip_prefix('\\').unwrap_or(name);
    let name = match name.split_once('\\') {
        Some((directory, rest)) if directory.eq_ignore_ascii_case("pipe") => rest,
        Some(_) | None => name,
    };
    PIPES.into_iter().find(|known| known.eq_ignore_ascii_case(name))
}

/// What the RPC interfaces tell one user.
struct Service<'a> {
    server: &'a Shared,
    user: &'a User,
}

impl Srvsvc for Service<'_> {
    /// The shares of the user's account, and `IPC$`.
    fn shares(&self) -> Vec<Share> {
        let estate = self.server.estate.load();
        let own = estate.shares.iter().filter(|share| self.user.may_use(share));
        let disks = own.map(|share| described(&share.name, ShareKind::DISK_TREE, &share.comment));
        disks.chain([described("IPC$", ShareKind::IPC_SPECIAL, "Remote IPC")]).collect()
    }

    fn server(&self) -> srvsvc::Server {
        srvsvc::Server {
            name: self.server.estate.load().settings.server_name.to_uppercase(),
            comment: COMMENT.to_owned(),
            domain: WORKGROUP.to_owned(),
            version_major: VERSION.0,
            version_minor: VERSION.1,
        }
    }

    fn now(&self) -> FileTime {
        FileTime::from(SystemTime::now())
    }
}

fn described(name: &str, kind: ShareKind, comment: &str) -> Share {
    Share { name: name.to_owned(), kind, comment: comment.to_owned(), max_uses: UNLIMITED, ..Share::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_with_any_prefix() {
        for name in ["srvsvc", r"\srvsvc", "SrvSvc", r"PIPE\srvsvc", r"\pipe\WKSSVC"] {
            assert!(exists(name), "{name}");
        }
        for name in ["", r"\", "pipe", r"pipe\", "lsarpc", r"\\srvsvc", r"pipe\pipe\srvsvc", "srvsvc\0"] {
            assert!(!exists(name), "{name}");
        }
    }

    #[test]
    fn a_pipe_without_messages_shows_none() {
        let pipe = Pipe::open("srvsvc").unwrap();
        assert_eq!(pipe.peek(1024), Ok([3_u32.to_le_bytes(), [0; 4], [0; 4], [0; 4]].concat()));
        assert_eq!(pipe.peek(15), Err(Status::INVALID_PARAMETER));
        pipe.close();
        assert_eq!(pipe.peek(16), Err(Status::PIPE_BROKEN));
    }
}
