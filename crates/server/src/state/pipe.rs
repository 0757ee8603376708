//! Named pipes of `IPC$`: the RPC interfaces behind them, and reading and writing by message (MS-SMB2 3.3.5.12, 3.3.5.13,
//! 3.3.5.15.3, 3.3.5.15.4).

use std::cell::RefCell;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::yield_now;
use wire::fscc::ioctl::PipePeek;
use wire::fscc::pipe::CONNECTED;
use wire::ids::FileTime;
use wire::rpc;
use wire::rpc::handles::{Handle, Object, Opened};
use wire::rpc::names::{Account, AccountKind, Listed, Names};
use wire::rpc::server::{Closed, Conversation, Refused, Taken};
use wire::rpc::srvsvc::{self, Share, ShareKind, Srvsvc};
use wire::security::Sid;
use wire::status::Status;

use crate::resource::budget::{Budget, Charge};
use crate::resource::budgets::Held;
use crate::state::associations::{Association, Associations};
use crate::state::channel_sequence::ChannelSequence;
use crate::state::configuration::Configuration;
use crate::state::in_flight::InFlight;
use crate::state::principals::Principals;
use crate::state::refusal::Refusal;
use crate::state::user::User;
use crate::state::walk::Walk;

/// The pipes there are: all speak the same interfaces, whatever is bound.
const PIPES: [&str; 4] = ["srvsvc", "wkssvc", "lsarpc", "samr"];
/// The share that they are in.
const IPC: &str = "IPC$";
/// What the server says it is for.
const COMMENT: &str = "Multilane file server";
/// The workgroup of a server without a domain.
const WORKGROUP: &str = "WORKGROUP";
/// Clients take a server of this version for a current one: Windows 10 and Server 2016 and later.
const VERSION: (u32, u32) = (10, 0);
/// A share's limit of uses where there is none (MS-SRVS 2.2.4.23 shi502_max_uses).
const UNLIMITED: u32 = u32::MAX;
/// Bytes of work that each share costs a call that looks through them, and each that it tells besides.
const SHARE_COST: u64 = 32;
const TOLD_SHARE_COST: u64 = 512;
/// Bytes of work that looking for one account costs, or telling it.
const ACCOUNT_COST: u64 = 256;

/// One open of a pipe. What it gives to be read comes in messages, and a message is read to its end before the next.
pub(crate) struct Pipe {
    pub(crate) name: &'static str,
    talk: Mutex<Talk>,
    /// What its user may hold for pipes.
    bytes: Arc<Budget>,
    changed: Notify,
    /// The client broke the protocol, or closed the pipe.
    broken: AtomicBool,
    pub(crate) channel_sequence: ChannelSequence,
    /// What its user has less for it.
    pub(crate) held: Option<Held>,
}

/// Who speaks on a pipe, by one request.
pub(crate) struct Client<'a> {
    pub(crate) user: Arc<User>,
    pub(crate) configuration: Arc<Configuration>,
    pub(crate) principals: Arc<Principals>,
    pub(crate) associations: &'a Associations,
    pub(crate) in_use: &'a dyn InUse,
    pub(crate) in_flight: &'a InFlight,
    /// For the log.
    pub(crate) peer: &'a str,
    /// Its address, where it has one.
    pub(crate) host: Option<IpAddr>,
}

/// Who knows what a storage account has in use. Each of its functions hands entries to `take`, from the one with a number on, until that wants
/// no more, or much was done: whoever wants more calls again, and leaves the walk as it is.
pub(crate) trait InUse {
    /// The sessions of its principals.
    fn sessions(
        &self,
        account: &str,
        from: (&mut Option<Walk>, usize),
        take: &mut dyn FnMut(srvsvc::Session) -> bool,
    ) -> Looked;

    /// What these have open.
    fn files(
        &self,
        account: &str,
        from: (&mut Option<Walk>, usize),
        take: &mut dyn FnMut(srvsvc::OpenFile) -> bool,
    ) -> Looked;
}

/// What a look at what is in use comes to.
pub(crate) struct Looked {
    /// How many entries there are.
    pub(crate) count: usize,
    /// The work it was, in bytes.
    pub(crate) work: u64,
}

/// What is said on a pipe, and what its user has less for what was not read yet.
struct Talk {
    conversation: Conversation,
    charge: Charge,
    /// With whose pipes it shares handles, once it is bound.
    association: Option<Arc<Association>>,
    /// Where the call that is being answered has come to.
    walk: Option<Walk>,
}

impl Pipe {
    /// Opens the pipe of a name such as `srvsvc`, `\srvsvc` or `PIPE\srvsvc` in any case; `None` where there is none. What it holds is
    /// charged to `bytes`.
    pub(crate) fn open(name: &str, bytes: &Arc<Budget>) -> Option<Pipe> {
        let name = known(name)?;
        let talk =
            Talk { conversation: Conversation::new(name), charge: bytes.overdraw(0), association: None, walk: None };
        Some(Pipe {
            name,
            talk: Mutex::new(talk),
            bytes: Arc::clone(bytes),
            changed: Notify::new(),
            broken: AtomicBool::new(false),
            channel_sequence: ChannelSequence::default(),
            held: None,
        })
    }

    /// Takes what the client writes. What it completes is answered at once and can then be read, unless there is something to be read
    /// already: then it waits for that. A call that takes long is answered in steps, between which others have their turn.
    pub(crate) async fn write(&self, client: &Client<'_>, data: &[u8]) -> Result<(), Refusal> {
        let fed = self.with(client, |conversation, service| conversation.feed(data, service))?;
        match fed {
            Ok(()) => {
                self.changed.notify_waiters();
                self.work(client).await
            }
            // "The named pipe contains unread data" (MS-FSCC 2.3.48).
            Err(Refused::Full) if self.is_busy() => Err(Status::PIPE_BUSY.into()),
            Err(Refused::Full | Refused::NoRoom) => Err(Status::INSUFFICIENT_RESOURCES.into()),
            Err(Refused::Closed(why)) => {
                self.give_up(client, why);
                Err(Status::PIPE_BROKEN.into())
            }
        }
    }

    /// Reads up to `bytes_max` of one message, waiting for one where there is none.
    pub(crate) async fn read(&self, client: &Client<'_>, bytes_max: usize) -> Result<Taken, Refusal> {
        let mut announced = false;
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(taken) = self.take(client, bytes_max)? {
                // What was read is told in any case.
                let _ = self.work(client).await;
                return Ok(taken);
            }
            // Whoever wrote the call may have gone.
            if self.is_working() {
                self.work(client).await?;
                continue;
            }
            if !announced {
                client.in_flight.announce_wait()?;
                announced = true;
            }
            client.in_flight.unless_cancelled(changed).await?;
        }
    }

    /// Goes on with a call that takes long until it is answered.
    async fn work(&self, client: &Client<'_>) -> Result<(), Refusal> {
        while self.is_working() {
            // What was done counts, and whoever has done much stands in line (`InFlight::counting`).
            yield_now().await;
            if let Err(why) = self.with(client, |conversation, service| conversation.proceed(service))? {
                self.give_up(client, why);
            }
            self.changed.notify_waiters();
        }
        Ok(())
    }

    fn is_working(&self) -> bool {
        self.talk.lock().conversation.is_working()
    }

    /// What can be read now. What waited until it was read goes on.
    fn take(&self, client: &Client<'_>, bytes_max: usize) -> Result<Option<Taken>, Refusal> {
        let (taken, went_on) = self.with(client, |conversation, service| {
            let taken = conversation.take(bytes_max);
            (taken, conversation.proceed(service))
        })?;
        match went_on {
            // Who found nothing has changed nothing, and would wake itself.
            Ok(()) if taken.is_none() => {}
            Ok(()) => self.changed.notify_waiters(),
            Err(why) => self.give_up(client, why),
        }
        Ok(taken)
    }

    /// True where a message, or the rest of one, waits to be read, or will as soon as it is made.
    pub(crate) fn is_busy(&self) -> bool {
        let talk = self.talk.lock();
        talk.conversation.readable_bytes() > 0 || talk.conversation.is_working()
    }

    /// Looks without taking: the answer to FSCTL_PIPE_PEEK with up to `bytes_max` bytes of the first message.
    pub(crate) fn peek(&self, bytes_max: usize) -> Result<Vec<u8>, Status> {
        self.check()?;
        let talk = self.talk.lock();
        let conversation = &talk.conversation;
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

    /// Ends the conversation and whoever waits for it. What was not read is let go.
    pub(crate) fn close(&self) {
        self.broken.store(true, Ordering::Release);
        let mut talk = self.talk.lock();
        talk.conversation.clear();
        talk.charge.shrink_to(0);
        (talk.association, talk.walk) = (None, None);
        drop(talk);
        self.changed.notify_waiters();
    }

    /// Ends the conversation since the client broke the protocol.
    fn give_up(&self, client: &Client<'_>, why: Closed) {
        tracing::debug!(peer = %client.peer, reason = why.0, "a pipe was broken");
        self.close();
    }

    /// Does something with the conversation. What it holds is charged before it is held, what it lets go is given back.
    fn with<T>(
        &self,
        client: &Client<'_>,
        act: impl FnOnce(&mut Conversation, &dyn rpc::service::Service) -> T,
    ) -> Result<T, Refusal> {
        let mut talk = self.talk.lock();
        self.check()?;
        let Talk { conversation, charge, association, walk } = &mut *talk;
        let done = {
            let (charge, association) = (RefCell::new(&mut *charge), RefCell::new(&mut *association));
            act(
                conversation,
                &Service { client, bytes: &self.bytes, charge, association, walk: RefCell::new(&mut *walk) },
            )
        };
        // Without a place to go on at, the next step looks for it.
        walk.take_if(|walk| !conversation.is_working() || !charge.grow(walk.held_bytes() as u64));
        let walk = walk.as_ref().map_or(0, Walk::held_bytes);
        charge.set((conversation.held_bytes() + walk) as u64);
        Ok(done)
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

/// What the RPC interfaces tell one user, and what they may have held for that.
struct Service<'a> {
    client: &'a Client<'a>,
    /// What the user may hold for its pipes.
    bytes: &'a Arc<Budget>,
    charge: RefCell<&'a mut Charge>,
    association: RefCell<&'a mut Option<Arc<Association>>>,
    walk: RefCell<&'a mut Option<Walk>>,
}

impl Service<'_> {
    /// The shares of the user's account. To look through all of them is work that counts for the request.
    fn disks(&self) -> impl Iterator<Item = &crate::state::configuration::Share> {
        let shares = &self.client.configuration.shares;
        self.client.in_flight.note_done_here(SHARE_COST * shares.len() as u64);
        let host = self.client.host;
        shares.iter().filter(move |share| share.rights.hosts.allow(host) && self.client.user.right_on(share).is_some())
    }

    /// Who asks, for what is told to the principals of its storage account; the principals that are asked about.
    fn ask(&self) -> (&str, &Principals) {
        self.client.in_flight.note_done_here(ACCOUNT_COST);
        (&self.client.user.account, &self.client.principals)
    }

    /// Counts a look as work of the request, and gives how many entries there are.
    fn looked(&self, looked: Looked) -> usize {
        self.client.in_flight.note_done_here(looked.work);
        looked.count
    }
}

impl Srvsvc for Service<'_> {
    /// The shares of the user's account, and `IPC$`.
    fn shares(&self, from: usize, take: &mut dyn FnMut(Share) -> bool) -> usize {
        let (mut count, mut wanted) = (0, true);
        let mut tell = |disk: Option<&crate::state::configuration::Share>| {
            if wanted && count >= from {
                self.client.in_flight.note_done_here(TOLD_SHARE_COST);
                wanted = take(disk.map_or_else(pipes, of_disk));
            }
            count += 1;
        };
        self.disks().for_each(|disk| tell(Some(disk)));
        tell(None);
        count
    }

    fn share(&self, name: &str) -> Option<Share> {
        if name.eq_ignore_ascii_case(IPC) {
            return Some(pipes());
        }
        let folded = store::fold(name);
        self.disks().find(|disk| store::fold(&disk.name) == folded).map(of_disk)
    }

    /// Who holds the account's key (MS-SRVS notes 47, 53 and 62: administrators).
    fn may_administer(&self) -> bool {
        !self.client.user.is_anonymous && self.client.user.has_full_control()
    }

    fn sessions(&self, from: usize, take: &mut dyn FnMut(srvsvc::Session) -> bool) -> usize {
        let (account, mut walk) = (&self.client.user.account, self.walk.borrow_mut());
        self.looked(self.client.in_use.sessions(account, (&mut **walk, from), take))
    }

    fn files(&self, from: usize, take: &mut dyn FnMut(srvsvc::OpenFile) -> bool) -> usize {
        let (account, mut walk) = (&self.client.user.account, self.walk.borrow_mut());
        self.looked(self.client.in_use.files(account, (&mut **walk, from), take))
    }

    fn server(&self) -> srvsvc::Server {
        srvsvc::Server {
            name: self.client.principals.server_name.clone(),
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

impl Names for Service<'_> {
    fn may_ask(&self) -> bool {
        !self.client.user.is_anonymous
    }

    fn domain_name(&self) -> String {
        self.client.principals.server_name.clone()
    }

    fn domain_sid(&self) -> Sid {
        self.client.principals.machine_sid
    }

    fn workgroup(&self) -> String {
        WORKGROUP.to_owned()
    }

    fn caller(&self) -> u32 {
        self.client.user.id.0
    }

    fn account(&self, relative_id: u32) -> Option<Account> {
        let (asker, principals) = self.ask();
        principals.find(asker, relative_id)
    }

    fn account_of_name(&self, name: &str) -> Option<Account> {
        let (asker, principals) = self.ask();
        principals.find_by_name(asker, name)
    }

    fn accounts(&self, kind: AccountKind, which: Listed, take: &mut dyn FnMut(Account) -> bool) -> usize {
        let (asker, principals) = self.ask();
        principals.list(asker, kind, which, &mut |account| {
            self.client.in_flight.note_done_here(ACCOUNT_COST);
            take(account)
        })
    }

    fn aliases_of(&self, relative_id: u32) -> Vec<u32> {
        let (asker, principals) = self.ask();
        principals.aliases_of(asker, relative_id)
    }

    fn members_of(&self, relative_id: u32, max: usize) -> Vec<u32> {
        let (asker, principals) = self.ask();
        principals.members_of(asker, relative_id, max)
    }
}

impl rpc::service::Service for Service<'_> {
    fn may_hold(&self, bytes: usize) -> bool {
        let mut charge = self.charge.borrow_mut();
        let more = (bytes as u64).saturating_sub(charge.units());
        more == 0 || charge.grow(more)
    }

    fn note_work(&self, bytes: usize) {
        self.client.in_flight.note_done_here(bytes as u64);
    }

    fn join(&self, group: u32) -> u32 {
        let joined = self.client.associations.join(group, self.bytes);
        let group = joined.group;
        **self.association.borrow_mut() = Some(joined);
        group
    }

    fn open(&self, object: Object, granted: u32) -> Option<Handle> {
        self.association.borrow().as_ref()?.open(object, granted)
    }

    fn find(&self, handle: Handle) -> Option<Opened> {
        self.association.borrow().as_ref()?.find(handle)
    }

    fn close(&self, handle: Handle) -> bool {
        self.association.borrow().as_ref().is_some_and(|association| association.close(handle))
    }
}

fn of_disk(share: &crate::state::configuration::Share) -> Share {
    described(&share.name, ShareKind::DISK_TREE, &share.comment)
}

fn pipes() -> Share {
    described(IPC, ShareKind::IPC_SPECIAL, "Remote IPC")
}

fn described(name: &str, kind: ShareKind, comment: &str) -> Share {
    Share { name: name.to_owned(), kind, comment: comment.to_owned(), max_uses: UNLIMITED, ..Share::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_with_any_prefix() {
        for name in ["srvsvc", r"\srvsvc", "SrvSvc", r"PIPE\srvsvc", r"\pipe\WKSSVC", "lsarpc", r"\PIPE\samr"] {
            assert!(exists(name), "{name}");
        }
        for name in ["", r"\", "pipe", r"pipe\", "netlogon", r"\\srvsvc", r"pipe\pipe\srvsvc", "srvsvc\0"] {
            assert!(!exists(name), "{name}");
        }
    }

    #[test]
    fn a_pipe_without_messages_shows_none() {
        let pipe = Pipe::open("srvsvc", &Budget::new(0)).unwrap();
        assert_eq!(pipe.peek(1024), Ok([3_u32.to_le_bytes(), [0; 4], [0; 4], [0; 4]].concat()));
        assert_eq!(pipe.peek(15), Err(Status::INVALID_PARAMETER));
        pipe.close();
        assert_eq!(pipe.peek(16), Err(Status::PIPE_BROKEN));
    }
}
