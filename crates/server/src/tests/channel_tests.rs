//! Channels that come and go in any order, with requests in flight on the others, by seed.

use std::sync::Arc;

use proptest::prelude::*;
use wire::command::create::CreateResponse;
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::command::logoff::LogoffRequest;
use wire::command::session_setup::SessionSetupFlags;
use wire::fscc::FileClass;
use wire::ids::{Command, FileId, SessionId};
use wire::status::Status;

use crate::state::configuration::{CHANNELS_DEFAULT, Signing};
use crate::state::shared::Shared;
use crate::tests::testing::{Peer, Terms, server};

/// What happens next, on a channel chosen by a number.
#[derive(Clone, Copy, Debug)]
enum Step {
    Bind(usize),
    BindBadly(usize),
    Break(usize),
    Use(usize),
    Wait(usize),
    SignInAgain(usize),
    LogOff(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0usize..40, 0usize..8).prop_map(|(kind, channel)| match kind {
        0..10 => Step::Bind(channel),
        10..14 => Step::BindBadly(channel),
        14..20 => Step::Break(channel),
        20..29 => Step::Use(channel),
        29..36 => Step::Wait(channel),
        36..39 => Step::SignInAgain(channel),
        _ => Step::LogOff(channel),
    });
    proptest::collection::vec(step, 1..40)
}

/// One session as its client has it.
struct Client {
    server: Arc<Shared>,
    channels: Vec<Peer>,
    /// The connection that set the session up, of which its keys are known.
    session: SessionId,
    file: FileId,
}

impl Client {
    async fn sign_in(server: &Arc<Shared>) -> Client {
        let mut first = Peer::sign_in(server).await;
        let file = first.open("file").await;
        Client { server: Arc::clone(server), session: first.session_id, channels: vec![first], file }
    }

    /// Takes a step; false where the session is over.
    async fn take(&mut self, step: Step, keys: &Peer) -> bool {
        let (Step::Bind(number)
        | Step::BindBadly(number)
        | Step::Break(number)
        | Step::Use(number)
        | Step::Wait(number)
        | Step::SignInAgain(number)
        | Step::LogOff(number)) = step;
        let chosen = number % self.channels.len();
        match step {
            Step::Bind(_) => self.bind(keys).await,
            Step::BindBadly(_) => self.bind_badly(keys, number).await,
            Step::Break(_) => self.channels.swap_remove(chosen).disconnect(),
            Step::Use(_) => {
                let answer = self.channels[chosen].query(self.file, FileClass::BASIC, 100).await;
                assert_eq!(answer.status(), Status::SUCCESS);
            }
            Step::Wait(_) => wait_for_a_lock(&mut self.channels[chosen], self.file),
            Step::SignInAgain(_) => {
                let status = self.channels[chosen].sign_in_again(SessionSetupFlags::NONE).await;
                assert_eq!(status, Status::SUCCESS);
            }
            Step::LogOff(_) => {
                let peer = &mut self.channels[chosen];
                let mut answer = peer.ask(Command::LOGOFF, |body| LogoffRequest.encode(body)).await;
                while answer.header.command != Command::LOGOFF || answer.status() == Status::PENDING {
                    // What waited on this channel ends with the session, and that may take the time of an interim answer.
                    answer = peer.receive().await;
                }
                assert_eq!(answer.status(), Status::SUCCESS);
                return false;
            }
        }
        !self.channels.is_empty()
    }

    async fn bind(&mut self, keys: &Peer) {
        let mut peer = Peer::connect_as(&self.server, Terms::default());
        peer.negotiate().await;
        let expected = match self.channels.len() < CHANNELS_DEFAULT {
            true => Status::SUCCESS,
            false => Status::INSUFFICIENT_RESOURCES,
        };
        assert_eq!(peer.bind(keys).await, expected);
        match expected {
            Status::SUCCESS => self.channels.push(peer),
            _ => peer.disconnect(),
        }
    }

    async fn bind_badly(&mut self, keys: &Peer, how: usize) {
        let mut terms = Terms::default();
        match how % 3 {
            0 => terms.client.0[0] ^= 1,
            1 => terms.cipher = None,
            _ => terms.user = crate::tests::testing::OTHER_USER,
        }
        let mut peer = Peer::connect_as(&self.server, terms);
        peer.negotiate().await;
        assert_ne!(peer.bind(keys).await, Status::SUCCESS);
        peer.disconnect();
    }

    /// What the server knows is what the client has.
    fn check(&self) {
        let session = self.server.sessions.find(self.session).expect("it has a channel");
        assert_eq!(session.channel_count(), self.channels.len());
        for peer in &self.channels {
            assert!(peer.connection.channel(self.session).is_some());
            assert!(peer.connection.setups.borrow().is_empty());
        }
    }
}

/// Leaves a request in flight: another client has the lock.
fn wait_for_a_lock(peer: &mut Peer, file_id: FileId) {
    let elements = [LockElement { offset: 0, length: 1, flags: LockFlags::EXCLUSIVE_LOCK }];
    let request = LockRequest { file_id, locks: LockElements::new(&elements), ..LockRequest::default() };
    let mut message = peer.message(Command::LOCK, |body| request.encode(body));
    peer.process(&mut message).unwrap();
    while peer.take_frame().is_some() {}
}

async fn run(steps: Vec<Step>) {
    let server = server(Signing::Required);
    let mut other = Client::sign_in(&server).await;
    let elements =
        [LockElement { offset: 0, length: 1, flags: LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY }];
    let request = LockRequest { file_id: other.file, locks: LockElements::new(&elements), ..LockRequest::default() };
    let locked = other.channels[0].ask(Command::LOCK, |body| request.encode(body)).await;
    assert_eq!(locked.status(), Status::SUCCESS);

    let mut client = Client::sign_in(&server).await;
    let keys = client.channels[0].known_session();
    let mut goes_on = true;
    for step in steps {
        goes_on = client.take(step, &keys).await;
        if !goes_on {
            break;
        }
        client.check();
    }
    for peer in client.channels.drain(..) {
        let over = !goes_on;
        assert_eq!(server.sessions.find(client.session).is_none(), over);
        peer.disconnect();
    }
    assert!(server.sessions.find(client.session).is_none());
    other.check();
    let made = other.channels[0].create("file", |_| {}).await;
    assert_eq!(CreateResponse::decode(&made.message).map(|_| made.status()), Ok(Status::SUCCESS));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn a_session_is_what_its_channels_make_of_it(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, run(steps));
    }
}
