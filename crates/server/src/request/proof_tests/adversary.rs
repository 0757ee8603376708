//! Somebody on the way, who has sessions of its own and everything that was captured, sends what it likes: whatever the order, a rule of a few
//! lines says what may have been done, and what must have been.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use proptest::prelude::*;
use secure::Role;
use secure::seal::NonceSpace;
use secure::sign::SigningAlgorithm;
use tokio::task::LocalSet;
use wire::command::echo::EchoRequest;
use wire::command::logoff::LogoffRequest;
use wire::command::read::ReadResponse;
use wire::command::session_setup::{SessionSetupFlags, SessionSetupRequest};
use wire::command::write::WriteRequest;
use wire::header::{FLAGS_OFFSET, Flags, Header, Route};
use wire::ids::{Command, MessageId, SessionId, TreeId};
use wire::status::Status;
use wire::transform::TRANSFORM_PROTOCOL_ID;

use super::{Member, join, swap};
use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::kit::client::seal_with;
use crate::tests::testing::{OTHER_USER, Peer, Terms, chained, server};

/// Whose session: two share the connection, one is on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Who {
    First,
    Second,
    Elsewhere,
}

const EVERYBODY: [Who; 3] = [Who::First, Who::Second, Who::Elsewhere];

#[derive(Clone, Copy, Debug)]
enum Action {
    /// One byte, at a place of its own, through somebody's open.
    Write {
        through: Who,
    },
    Echo,
    LogOff,
    /// With a token that is none.
    SignInAgain {
        binding: bool,
    },
    Cancel,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    /// The session that the header names; none is 0.
    names: Option<Who>,
    related: bool,
    signed_by: Option<Who>,
    /// A byte of it was changed after it was signed.
    changed: bool,
    action: Action,
}

#[derive(Clone, Debug)]
struct Frame {
    sealed_by: Option<Who>,
    parts: Vec<Part>,
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![4 => Just(Who::First), 4 => Just(Who::Second), 1 => Just(Who::Elsewhere)]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => who().prop_map(|through| Action::Write { through }),
        2 => Just(Action::Echo),
        1 => Just(Action::LogOff),
        1 => any::<bool>().prop_map(|binding| Action::SignInAgain { binding }),
        1 => Just(Action::Cancel),
    ]
}

/// Half of what is sent is what an honest client would send, or nothing would be left to be attacked.
fn part() -> impl Strategy<Value = Part> {
    let any_part = (proptest::option::weighted(0.9, who()), any::<bool>(), proptest::option::of(who()), action())
        .prop_flat_map(|(names, related, signed_by, action)| {
            proptest::bool::weighted(0.2).prop_map(move |changed| Part { names, related, signed_by, changed, action })
        });
    let honest = (who(), any::<bool>()).prop_map(|(who, related)| Part {
        names: Some(who),
        related,
        signed_by: Some(who),
        changed: false,
        action: Action::Write { through: who },
    });
    prop_oneof![any_part, honest]
}

fn frame() -> impl Strategy<Value = Frame> {
    (proptest::option::weighted(0.4, who()), proptest::collection::vec(part(), 1..4), any::<bool>()).prop_map(
        |(sealed_by, mut parts, agrees)| {
            // Most frames are sealed by who speaks in them, or each would end the connection.
            if let Some(who) = sealed_by.filter(|_| agrees) {
                parts.iter_mut().for_each(|part| part.names = Some(who));
                parts[0].related = false;
            }
            Frame { sealed_by, parts }
        },
    )
}

/// The connection, and what its sessions know.
struct World {
    server: Arc<Shared>,
    peer: Peer,
    second: Member,
    elsewhere: Peer,
    elsewhere_file: wire::ids::FileId,
    first_file: wire::ids::FileId,
    /// The place of the next byte that is written, and who may and who must have written which.
    place: u64,
    may: HashSet<(u64, Who)>,
    must: HashSet<(u64, Who)>,
    /// Message ids that answers were signed with, by session.
    signed: HashSet<(SessionId, MessageId)>,
}

impl World {
    async fn new(signing: SigningAlgorithm) -> World {
        let server = server(Signing::Required);
        let terms = Terms { signing: Some(signing), ..Terms::default() };
        let mut peer = Peer::sign_in_as(&server, terms).await;
        let file = peer.open("First").await;
        let mut second = join(&mut peer, file, OTHER_USER).await;
        second.file = peer.open("Second").await;
        swap(&mut peer, &mut second);
        let mut elsewhere = Peer::sign_in_as(&server, terms).await;
        let elsewhere_file = elsewhere.open("Elsewhere").await;
        World {
            server,
            peer,
            second,
            elsewhere,
            elsewhere_file,
            first_file: file,
            place: 0,
            may: HashSet::new(),
            must: HashSet::new(),
            signed: HashSet::new(),
        }
    }

    fn session_id(&self, who: Who) -> SessionId {
        match who {
            Who::First => self.peer.session_id,
            Who::Second => self.second.session_id,
            Who::Elsewhere => self.elsewhere.session_id,
        }
    }

    fn tree_id(&self, who: Who) -> TreeId {
        match who {
            Who::First => self.peer.tree_id,
            Who::Second => self.second.tree_id,
            Who::Elsewhere => self.elsewhere.tree_id,
        }
    }

    fn key(&self, who: Who) -> &secure::sign::SigningKey {
        let key = match who {
            Who::First => &self.peer.signing_key,
            Who::Second => &self.second.signing_key,
            Who::Elsewhere => &self.elsewhere.signing_key,
        };
        key.as_ref().unwrap()
    }

    fn keys(&self, who: Who) -> &secure::kdf::SessionKeys {
        let keys = match who {
            Who::First => &self.peer.keys,
            Who::Second => &self.second.keys,
            Who::Elsewhere => &self.elsewhere.keys,
        };
        keys.as_ref().unwrap()
    }

    fn lives(&self, who: Who) -> bool {
        self.server.sessions.find(self.session_id(who)).is_some_and(|session| !session.has_ended())
    }

    fn encode(&mut self, part: &Part) -> Vec<u8> {
        let command = match part.action {
            Action::Write { .. } => Command::WRITE,
            Action::Echo => Command::ECHO,
            Action::LogOff => Command::LOGOFF,
            Action::SignInAgain { .. } => Command::SESSION_SETUP,
            Action::Cancel => Command::CANCEL,
        };
        let before = self.peer.message_id;
        let mut header = self.peer.header(command);
        if command == Command::CANCEL {
            self.peer.message_id = before;
        }
        header.session_id = part.names.map_or(SessionId(0), |who| self.session_id(who));
        header.route = Route::Sync { tree_id: part.names.map_or(TreeId(0), |who| self.tree_id(who)) };
        header.flags = Flags::NONE;
        if part.related {
            header.flags |= Flags::RELATED_OPERATIONS;
        }
        let mut message = header.to_bytes().to_vec();
        match part.action {
            Action::Write { through } => {
                let file_id = match through {
                    Who::First => self.first_file,
                    Who::Second => self.second.file,
                    Who::Elsewhere => self.elsewhere_file,
                };
                WriteRequest { file_id, offset: self.place, data: b"x", ..Default::default() }.encode(&mut message);
            }
            Action::Echo | Action::Cancel => EchoRequest.encode(&mut message),
            Action::LogOff => LogoffRequest.encode(&mut message),
            Action::SignInAgain { binding } => {
                let flags = if binding { SessionSetupFlags::BINDING } else { SessionSetupFlags::NONE };
                SessionSetupRequest { flags, security_buffer: b"none", ..Default::default() }.encode(&mut message);
            }
        }
        message
    }

    /// Sends a frame; false where the connection ended.
    async fn send(&mut self, frame: &Frame) -> bool {
        let mut messages = Vec::new();
        let mut session: Option<Option<Who>> = None;
        let mut may_end = HashSet::new();
        let mut binds = false;
        for part in &frame.parts {
            // A CANCEL is no operation that another could be related to.
            let spoken_for = if part.related { session.unwrap_or(part.names) } else { part.names };
            if !matches!(part.action, Action::Cancel) {
                session = Some(spoken_for);
            }
            let session = frame.sealed_by.or(spoken_for);
            let proven = match (session, frame.sealed_by) {
                (Some(Who::Elsewhere) | None, _) => false,
                (Some(who), Some(by)) => who == by,
                (Some(who), None) => part.signed_by == Some(who) && !part.changed,
            };
            if let (true, Some(who)) = (proven, session) {
                match part.action {
                    Action::Write { through } => {
                        self.may.insert((self.place, who));
                        let stands_alone =
                            !part.related && through == who && !may_end.contains(&who) && self.lives(who);
                        if stands_alone && self.is_accepted(frame) {
                            self.must.insert((self.place, who));
                        }
                    }
                    Action::LogOff | Action::SignInAgain { .. } => {
                        may_end.insert(who);
                    }
                    Action::Echo | Action::Cancel => {}
                }
            }
            binds |=
                matches!(part.action, Action::SignInAgain { binding: true }) && part.signed_by == Some(Who::Elsewhere);
            messages.push(self.encode(part));
            self.place += 1;
        }
        let lived: Vec<Who> = EVERYBODY.into_iter().filter(|who| self.lives(*who)).collect();
        let mut bytes = chained(messages, |position, message| {
            let part = &frame.parts[position];
            if let Some(who) = part.signed_by.filter(|_| frame.sealed_by.is_none()) {
                message[FLAGS_OFFSET] |= Flags::SIGNED.0 as u8;
                self.key(who).sign(message, Role::Client);
                // The signature, so that all else stays what it is.
                message[50] ^= u8::from(part.changed);
            }
        });
        if let Some(who) = frame.sealed_by {
            bytes = seal_with(self.keys(who), self.session_id(who), &NonceSpace::new(), &bytes);
        }
        self.peer.opens_first = self.place % 2 == 1;
        let goes_on = self.peer.process(&mut bytes).is_ok();
        assert!(goes_on || !self.is_accepted(frame), "an honest frame ended the connection");
        if goes_on {
            let answers = frame.parts.iter().filter(|part| !matches!(part.action, Action::Cancel)).count();
            self.check_answers(frame, answers, binds).await;
        }
        for who in lived {
            assert!(self.lives(who) || may_end.contains(&who), "{who:?} ended without its key");
        }
        goes_on
    }

    /// True for a frame that 3.3.5.2.1.1 lets in.
    fn is_accepted(&self, frame: &Frame) -> bool {
        let Some(by) = frame.sealed_by else { return true };
        let names_one = frame.parts.iter().all(|part| part.related || part.names == Some(by));
        names_one && !frame.parts[0].related && by != Who::Elsewhere && self.lives(by)
    }

    /// What is answered is signed or sealed by who was spoken to, and under no message id twice.
    async fn check_answers(&mut self, frame: &Frame, mut expected: usize, binds: bool) {
        while expected > 0 {
            let mut bytes = loop {
                match self.peer.take_frame() {
                    Some(bytes) => break bytes,
                    None => tokio::task::yield_now().await,
                }
            };
            let mut rest = match frame.sealed_by {
                Some(who) => {
                    assert_eq!(bytes[..4], TRANSFORM_PROTOCOL_ID);
                    self.keys(who).opener().unwrap().open(&mut bytes).expect("sealed for who asked").to_vec()
                }
                None => bytes,
            };
            while !rest.is_empty() {
                let header = Header::decode(&rest).unwrap();
                let end = if header.next_command == 0 { rest.len() } else { header.next_command as usize };
                let mut behind = rest.split_off(end);
                std::mem::swap(&mut rest, &mut behind);
                if header.flags.contains(Flags::SIGNED) {
                    let who = EVERYBODY.into_iter().find(|who| self.session_id(*who) == header.session_id).unwrap();
                    let is_here = who != Who::Elsewhere || binds && header.command == Command::SESSION_SETUP;
                    assert!(is_here, "signed with the key of a session that is not here: {header:?}");
                    assert!(self.key(who).verify(&mut behind, Role::Server));
                    let is_new = self.signed.insert((header.session_id, header.message_id));
                    assert!(is_new, "two answers are signed under one message id");
                }
                assert!(frame.sealed_by.is_none_or(|who| self.session_id(who) == header.session_id));
                expected -= usize::from(header.status != Status::PENDING);
            }
        }
    }

    /// What was written, as somebody else sees it, is what may and what must have been.
    async fn check_files(self) {
        let mut reader = Peer::sign_in(&self.server).await;
        for who in EVERYBODY {
            let file_id = reader.open(&format!("{who:?}")).await;
            let answer = reader.read(file_id, 0, 4096).await;
            let data = match answer.status() {
                Status::SUCCESS => ReadResponse::decode(&answer.message).unwrap().data.to_vec(),
                _ => Vec::new(),
            };
            for place in 0..self.place {
                let written = data.get(place as usize) == Some(&b'x');
                assert!(!written || self.may.contains(&(place, who)), "{place} of {who:?} was written without its key");
                assert!(written || !self.must.contains(&(place, who)), "{place} of {who:?} was not written");
            }
        }
        assert!(Rc::strong_count(&self.peer.connection) > 0);
    }
}

async fn attack(signing: SigningAlgorithm, frames: Vec<Frame>) {
    let mut world = World::new(signing).await;
    for frame in &frames {
        if !world.send(frame).await {
            break;
        }
    }
    world.check_files().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_done_in_a_session_without_its_key(gmac: bool, frames in proptest::collection::vec(frame(), 1..12)) {
        let signing = if gmac { SigningAlgorithm::AesGmac } else { SigningAlgorithm::AesCmac };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(LocalSet::new().run_until(attack(signing, frames)));
    }
}
