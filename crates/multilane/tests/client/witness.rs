//! Who looks on while client and server speak: a digest of all that was carried, and whether both kept the rules that cannot be seen from
//! within either of them.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use tokio::time::Instant;
use wire::command::negotiate::NegotiateResponse;
use wire::command::oplock_break::{LeaseBreakFlags, OplockBreakNotification, OplockBreakRequest};
use wire::context::negotiate::{ContextType, SigningAlgorithm, SigningCapabilities};
use wire::header::{Flags, Header};
use wire::ids::{Command, MessageId};
use wire::status::Status;
use wire::transform::{TRANSFORM_PROTOCOL_ID, TransformHeader};

use crate::frames::{Frames, messages};

/// The most credits a client may hold (Smb2CreditsMax).
const CREDITS_MAX: u64 = 8192;

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Way {
    ToServer,
    ToClient,
}

/// What was seen of all connections.
#[derive(Default)]
pub(crate) struct Witness(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    digest: DefaultHasher,
    began: Option<Instant>,
    connections: BTreeMap<u64, Seam>,
    /// Session, way and nonce of what was sealed.
    nonces: BTreeSet<(u64, Way, [u8; 16])>,
    /// Lease keys of breaks that nobody has acknowledged yet, with how often they were sent.
    breaks: BTreeMap<[u8; 16], u32>,
    counts: Counts,
    faults: Vec<String>,
}

/// How much there was to see.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) messages: u64,
    pub(crate) sealed: u64,
    pub(crate) replays: u64,
    pub(crate) late: u64,
    pub(crate) breaks: u64,
    pub(crate) breaks_resent: u64,
    pub(crate) hung_up: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.messages += other.messages;
        self.sealed += other.sealed;
        self.replays += other.replays;
        self.late += other.late;
        self.breaks += other.breaks;
        self.breaks_resent += other.breaks_resent;
        self.hung_up += other.hung_up;
    }
}

/// One connection, at both of its ends.
#[derive(Default)]
struct Seam {
    link: usize,
    has_ended: bool,
    sent: [Frames; 2],
    arrived: [Frames; 2],
    /// The client's view: the first id that it was not given, and those that it has used.
    given_end: u64,
    spent: BTreeSet<u64>,
    /// The server's: credits granted and used.
    granted: u64,
    used: u64,
    asked: BTreeMap<u64, Asked>,
    signed: BTreeSet<(Way, u64)>,
    /// Its signatures have no nonce: what is answered in the interim may be signed as well.
    signs_without_nonce: bool,
}

/// A request that the server has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Anew,
    /// It has had its interim response.
    Pending,
}

/// One connection's place at the witness.
#[derive(Clone)]
pub(crate) struct Tap {
    witness: Arc<Witness>,
    connection: u64,
}

impl Witness {
    pub(crate) fn tap(witness: &Arc<Witness>, connection: u64, link: usize) -> Tap {
        let mut seen = witness.0.lock().unwrap();
        seen.note((connection, link));
        seen.connections.insert(connection, Seam { link, given_end: 1, granted: 1, ..Seam::default() });
        Tap { witness: Arc::clone(witness), connection }
    }

    /// Stands for everything that happened, and when.
    pub(crate) fn digest(&self) -> u64 {
        self.0.lock().unwrap().digest.finish()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.0.lock().unwrap().counts
    }

    /// The first rule that somebody broke.
    pub(crate) fn fault(&self) -> Option<String> {
        self.0.lock().unwrap().faults.first().cloned()
    }

    /// Breaks that are not acknowledged.
    pub(crate) fn open_breaks(&self) -> usize {
        self.0.lock().unwrap().breaks.len()
    }

    /// What the client may still use of each connection over a link, as the server has it, where it has answered everything.
    pub(crate) fn balances(&self, link: usize) -> Vec<u64> {
        let seen = self.0.lock().unwrap();
        let is_quiet = |seam: &&Seam| seam.link == link && !seam.has_ended && seam.asked.is_empty();
        seen.connections.values().filter(is_quiet).map(|seam| seam.granted - seam.used).collect()
    }
}

impl Tap {
    pub(crate) fn sent(&self, way: Way, bytes: &[u8]) {
        self.look(way, bytes, |seam| &mut seam.sent, Seen::judge_sent);
    }

    pub(crate) fn arrived(&self, way: Way, bytes: &[u8]) {
        self.look(way, bytes, |seam| &mut seam.arrived, Seen::judge_arrived);
    }

    fn look(
        &self,
        way: Way,
        bytes: &[u8],
        frames: impl Fn(&mut Seam) -> &mut [Frames; 2],
        judge: impl Fn(&mut Seen, u64, Way, &[u8]),
    ) {
        let mut seen = self.witness.0.lock().unwrap();
        seen.note((self.connection, way, bytes.len()));
        let Some(seam) = seen.connections.get_mut(&self.connection) else { return };
        for head in frames(seam)[way as usize].take(bytes) {
            judge(&mut seen, self.connection, way, &head);
        }
    }

    /// The server ended a connection that nothing had happened to.
    pub(crate) fn hung_up(&self) {
        self.witness.0.lock().unwrap().counts.hung_up += 1;
    }

    pub(crate) fn ended(&self) {
        let mut seen = self.witness.0.lock().unwrap();
        seen.note(self.connection);
        if let Some(seam) = seen.connections.get_mut(&self.connection) {
            seam.has_ended = true;
        }
    }

    /// How many of the bytes that a client has given up may reach the server all the same, ahead of the reset: what changes something, which the
    /// server has to tell from what came later.
    pub(crate) fn may_come_late(&self, under_way: &[u8]) -> usize {
        let mut seen = self.witness.0.lock().unwrap();
        let is_change = |header: &Header| {
            matches!(header.command, Command::CREATE | Command::WRITE | Command::SET_INFO | Command::CLOSE)
        };
        let seam = &seen.connections[&self.connection];
        let late = seam.arrived[Way::ToServer as usize].leading(under_way, is_change);
        seen.counts.late += u64::from(late > 0);
        late
    }
}

impl Seen {
    fn note(&mut self, event: impl Hash) {
        let began = *self.began.get_or_insert_with(Instant::now);
        (began.elapsed().as_millis() as u64, event).hash(&mut self.digest);
    }

    fn fault(&mut self, connection: u64, header: &Header, what: &str) {
        let (command, id) = (header.command, header.message_id);
        self.faults.push(format!("connection {connection}, {command:?}, {id:?}: {what}"));
    }

    /// A frame left its sender.
    fn judge_sent(&mut self, connection: u64, way: Way, head: &[u8]) {
        if head.starts_with(&TRANSFORM_PROTOCOL_ID) {
            self.counts.sealed += 1;
            let is_new = TransformHeader::decode(head)
                .is_ok_and(|header| self.nonces.insert((header.session_id.0, way, header.nonce)));
            if !is_new {
                self.faults.push(format!("connection {connection}: a nonce was used twice under one key"));
            }
        }
        for (header, message) in messages(head) {
            self.note_algorithm(connection, &header, message);
            self.judge_signature(connection, way, &header);
            match way {
                Way::ToServer => self.asked_by_client(connection, &header),
                Way::ToClient => self.answered_by_server(connection, &header, message),
            }
        }
    }

    /// A frame reached its receiver.
    fn judge_arrived(&mut self, connection: u64, way: Way, head: &[u8]) {
        for (header, message) in messages(head) {
            self.counts.messages += 1;
            let Some(seam) = self.connections.get_mut(&connection) else { return };
            match way {
                Way::ToClient => seam.given_end += u64::from(header.credits),
                Way::ToServer => {
                    seam.used += u64::from(header.credit_charge.max(1));
                    seam.asked.insert(header.message_id.0, Asked::Anew);
                    if let Ok(OplockBreakRequest::Lease(answer)) = OplockBreakRequest::decode(message)
                        && header.command == Command::OPLOCK_BREAK
                    {
                        self.breaks.remove(&answer.lease_key.0);
                    }
                }
            }
        }
    }

    /// Learns from a NEGOTIATE response whether message ids are nonces.
    fn note_algorithm(&mut self, connection: u64, header: &Header, message: &[u8]) {
        if header.command != Command::NEGOTIATE || !header.flags.contains(Flags::SERVER_TO_REDIR) {
            return;
        }
        let Ok(response) = NegotiateResponse::decode(message) else { return };
        let signing = response.contexts.find(ContextType::SIGNING_CAPABILITIES).map(SigningCapabilities::decode);
        if let (Some(Ok(signing)), Some(seam)) = (signing, self.connections.get_mut(&connection)) {
            seam.signs_without_nonce = signing.algorithms.iter().all(|chosen| chosen != SigningAlgorithm::AES_GMAC);
        }
    }

    /// What is signed is signed once: with AES-GMAC the message id is the nonce. Those who sign in use the session's key on every
    /// connection, as the protocol has it, and are left out.
    fn judge_signature(&mut self, connection: u64, way: Way, header: &Header) {
        if matches!(header.command, Command::NEGOTIATE | Command::SESSION_SETUP) {
            return;
        }
        let is_signed = header.flags.contains(Flags::SIGNED);
        let is_interim = header.status == Status::PENDING;
        let needs_none = is_interim || header.message_id == MessageId::UNSOLICITED;
        let Some(seam) = self.connections.get_mut(&connection) else { return };
        if is_signed && is_interim && seam.signs_without_nonce {
            return;
        }
        if is_signed && !seam.signed.insert((way, header.message_id.0)) {
            self.fault(connection, header, "two messages are signed with one nonce");
        } else if !is_signed && !needs_none {
            self.fault(connection, header, "it is not signed");
        }
    }

    /// "the client MUST consume a number of consecutive MessageIds equal to CreditCharge" (MS-SMB2 3.2.4.1.5), of those it was given, each
    /// once.
    fn asked_by_client(&mut self, connection: u64, header: &Header) {
        self.counts.replays += u64::from(header.flags.contains(Flags::REPLAY_OPERATION));
        let Some(seam) = self.connections.get_mut(&connection) else { return };
        let id = header.message_id.0;
        let end = id + u64::from(header.credit_charge.max(1));
        let are_new = (id..end).all(|id| seam.spent.insert(id));
        let is_given = end <= seam.given_end;
        if !are_new {
            self.fault(connection, header, "the client uses an id twice");
        }
        if !is_given {
            self.fault(connection, header, "the client uses credits that it was not given");
        }
    }

    fn answered_by_server(&mut self, connection: u64, header: &Header, message: &[u8]) {
        if header.message_id == MessageId::UNSOLICITED {
            return self.breaks_sent(message);
        }
        let Some(seam) = self.connections.get_mut(&connection) else { return };
        seam.granted += u64::from(header.credits);
        let is_held = (1..=CREDITS_MAX).contains(&(seam.granted - seam.used));
        let is_interim = header.status == Status::PENDING;
        let was_asked = match (seam.asked.get(&header.message_id.0), is_interim) {
            (Some(Asked::Anew), true) => seam.asked.insert(header.message_id.0, Asked::Pending).is_some(),
            (Some(_), false) => seam.asked.remove(&header.message_id.0).is_some(),
            (None, _) | (Some(Asked::Pending), true) => false,
        };
        if !was_asked {
            self.fault(connection, header, "it is answered twice, or was never asked");
        }
        if !is_held {
            self.fault(connection, header, "the server grants too many credits, or too few");
        }
    }

    fn breaks_sent(&mut self, message: &[u8]) {
        if let Ok(OplockBreakNotification::Lease(broken)) = OplockBreakNotification::decode(message)
            && broken.flags.contains(LeaseBreakFlags::ACK_REQUIRED)
        {
            let times = self.breaks.entry(broken.lease_key.0).or_default();
            *times += 1;
            self.counts.breaks += u64::from(*times == 1);
            self.counts.breaks_resent += u64::from(*times > 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::context::negotiate::NegotiateContextsBuilder;
    use wire::ids::Dialect;
    use wire::list::U16List;

    use super::*;
    use crate::configuration::simulate;

    fn framed(message: &[u8]) -> Vec<u8> {
        [&(message.len() as u32).to_be_bytes()[..], message].concat()
    }

    fn request(id: u64, charge: u16) -> Header {
        let message_id = MessageId(id);
        Header { command: Command::WRITE, message_id, credit_charge: charge, flags: Flags::SIGNED, ..Header::default() }
    }

    fn response(id: u64, credits: u16) -> Header {
        Header { credits, flags: Flags::SIGNED | Flags::SERVER_TO_REDIR, ..request(id, 1) }
    }

    fn carry(tap: &Tap, way: Way, header: Header) {
        let frame = framed(&header.to_bytes());
        // Wherever it is cut.
        for half in frame.chunks(50) {
            tap.sent(way, half);
            tap.arrived(way, half);
        }
    }

    /// The fault that is found after these messages.
    fn fault(messages: &[(Way, Header)]) -> Option<String> {
        let witness = Arc::default();
        simulate(async {
            let tap = Witness::tap(&witness, 0, 0);
            messages.iter().for_each(|(way, header)| carry(&tap, *way, *header));
        });
        witness.fault()
    }

    #[test]
    fn what_is_right_is_no_fault() {
        let pending = Header { status: Status::PENDING, flags: Flags::SERVER_TO_REDIR, ..response(1, 0) };
        let messages = [
            (Way::ToServer, request(0, 1)),
            (Way::ToClient, response(0, 5)),
            (Way::ToServer, request(1, 4)),
            (Way::ToClient, pending),
            (Way::ToClient, response(1, 1)),
        ];
        assert_eq!(fault(&messages), None);
    }

    #[test]
    fn an_interim_answer_is_signed_only_where_its_id_is_no_nonce() {
        for (algorithm, is_good) in [(SigningAlgorithm::AES_CMAC, true), (SigningAlgorithm::AES_GMAC, false)] {
            let witness = Arc::default();
            let algorithms = [algorithm];
            let signing = SigningCapabilities { algorithms: U16List::new(&algorithms) };
            let mut contexts = NegotiateContextsBuilder::new();
            contexts.add(ContextType::SIGNING_CAPABILITIES, |writer| signing.encode(writer));
            let contexts = contexts.contexts();
            let chosen = NegotiateResponse { dialect: Dialect::SMB_3_1_1, contexts, ..NegotiateResponse::default() };
            let header = Header { command: Command::NEGOTIATE, flags: Flags::SERVER_TO_REDIR, ..response(0, 5) };
            let mut negotiated = header.to_bytes().to_vec();
            chosen.encode(&mut negotiated);
            let pending = Header { status: Status::PENDING, ..response(1, 0) };
            simulate(async {
                let tap = Witness::tap(&witness, 0, 0);
                carry(&tap, Way::ToServer, Header { command: Command::NEGOTIATE, flags: Flags::NONE, ..request(0, 1) });
                tap.sent(Way::ToClient, &framed(&negotiated));
                tap.arrived(Way::ToClient, &framed(&negotiated));
                carry(&tap, Way::ToServer, request(1, 1));
                carry(&tap, Way::ToClient, pending);
                carry(&tap, Way::ToClient, response(1, 1));
            });
            assert_eq!(witness.fault().is_none(), is_good, "{:?}", witness.fault());
        }
    }

    #[test]
    fn each_broken_rule_is_seen() {
        use Way::{ToClient, ToServer};
        let unsigned = Header { flags: Flags::NONE, ..request(0, 1) };
        let negotiate = Header { command: Command::NEGOTIATE, ..unsigned };
        let cases: [(&[(Way, Header)], &str); 8] = [
            (&[(ToServer, request(0, 2))], "was not given"),
            (&[(ToServer, request(1, 1))], "was not given"),
            (&[(ToServer, request(0, 1)), (ToServer, negotiate)], "an id twice"),
            (&[(ToServer, unsigned)], "not signed"),
            (&[(ToClient, response(0, 1))], "never asked"),
            (&[(ToServer, request(0, 1)), (ToClient, response(0, 0))], "too few"),
            (&[(ToServer, request(0, 1)), (ToClient, response(0, 8193))], "too many"),
            (&[(ToServer, request(0, 1)), (ToClient, response(0, 1)), (ToClient, response(0, 1))], "one nonce"),
        ];
        for (messages, expected) in cases {
            let fault = fault(messages).expect(expected);
            assert!(fault.contains(expected), "{fault}");
        }
    }

    #[test]
    fn a_nonce_is_good_once_for_each_key() {
        let witness = Arc::default();
        let sealed = |session: u64, nonce: u8| {
            let session_id = wire::ids::SessionId(session);
            let header = TransformHeader {
                signature: [0; 16],
                nonce: [nonce; 16],
                original_message_size: 0,
                flags: 1,
                session_id,
            };
            framed(&header.to_bytes())
        };
        simulate(async {
            let taps = [0, 1].map(|number| Witness::tap(&witness, number, 0));
            for (tap, session, nonce) in [(0, 1, 1), (1, 1, 2), (0, 2, 1)] {
                taps[tap].sent(Way::ToServer, &sealed(session, nonce));
                taps[tap].sent(Way::ToClient, &sealed(session, nonce));
            }
            assert_eq!(witness.fault(), None);
            taps[1].sent(Way::ToServer, &sealed(1, 1));
        });
        assert!(witness.fault().is_some_and(|fault| fault.contains("nonce")));
    }
}
