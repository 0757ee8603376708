//! One connection: messages gathered into one send, answers taken from one receive, credits, signatures and seals.

use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use secure::Role;
use secure::seal::{NonceRange, NonceSpace, Opener, Sealer, TRANSFORM_HEADER_LENGTH};
use secure::sign::SigningKey;
use wire::frame::{PREFIX_LENGTH, frame_length, frame_prefix};
use wire::header::{Flags, HEADER_LENGTH, Header, NEXT_COMMAND_OFFSET, Route};
use wire::ids::{Command, MessageId, SessionId, TreeId};
use wire::status::Status;
use wire::transform::TRANSFORM_PROTOCOL_ID;

use crate::arguments::Target;

/// What one receive may bring; the longest frame and some more.
const RECEIVE_BYTES: usize = 20 << 20;
/// Credits that the connection gathers: enough for 8 requests of 1 MiB and their answers to overlap.
const CREDITS_WANTED: u32 = 1024;
/// A server that says nothing for so long has failed.
pub const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Why the measurement ended: the sentence says what the server did.
#[derive(Debug)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Fault(format!("connection: {error}"))
    }
}

impl From<wire::Malformed> for Fault {
    fn from(malformed: wire::Malformed) -> Self {
        Fault(malformed.to_string())
    }
}

/// How messages go out and must come in.
pub enum Shield {
    Bare,
    Signed(SigningKey),
    Sealed { sealer: Sealer, opener: Opener, space: NonceSpace, nonces: NonceRange },
}

/// One request of a frame: what is asked, and its body. A second and later one of a frame is related to the first.
pub struct Part<'a> {
    pub command: Command,
    /// Credits it costs.
    pub charge: u16,
    /// Appends the body.
    pub body: &'a dyn Fn(&mut Vec<u8>),
}

pub struct Connection {
    stream: TcpStream,
    pub shield: Shield,
    pub session_id: SessionId,
    pub tree_id: TreeId,
    next_message_id: u64,
    credits: u32,
    out: Vec<u8>,
    received: Vec<u8>,
    /// The part of `received` that holds bytes not yet taken.
    pending: std::ops::Range<usize>,
}

impl Connection {
    pub fn open(target: &Target) -> Result<Self, Fault> {
        let stream = TcpStream::connect((target.host.as_str(), target.port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        Ok(Connection {
            stream,
            shield: Shield::Bare,
            session_id: SessionId(0),
            tree_id: TreeId(0),
            next_message_id: 0,
            credits: 1,
            out: Vec::new(),
            received: Vec::new(),
            pending: 0..0,
        })
    }

    /// Whether requests that cost so much may be sent now.
    pub fn affords(&self, charge: u32) -> bool {
        self.credits >= charge
    }

    /// Adds a frame to the next send. The ids of its requests count up from the one returned.
    pub fn queue(&mut self, parts: &[Part<'_>]) -> Result<MessageId, Fault> {
        let first = MessageId(self.next_message_id);
        let frame = self.out.len();
        let room = match self.shield {
            Shield::Sealed { .. } => TRANSFORM_HEADER_LENGTH,
            Shield::Bare | Shield::Signed(_) => 0,
        };
        self.out.resize(frame + PREFIX_LENGTH + room, 0);
        for (index, part) in parts.iter().enumerate() {
            self.append(part, index > 0, index + 1 < parts.len());
        }
        if let Shield::Sealed { sealer, space, nonces, .. } = &mut self.shield {
            let nonce = nonces.draw(space).map_err(|exhausted| Fault(exhausted.to_string()))?;
            sealer
                .seal(&mut self.out[frame + PREFIX_LENGTH..], self.session_id, nonce)
                .map_err(|refused| Fault(refused.to_string()))?;
        }
        let length = self.out.len() - frame - PREFIX_LENGTH;
        self.out[frame..frame + PREFIX_LENGTH].copy_from_slice(&frame_prefix(length)?);
        Ok(first)
    }

    fn append(&mut self, part: &Part<'_>, related: bool, another_follows: bool) {
        let start = self.out.len();
        let mut flags = if related { Flags::RELATED_OPERATIONS } else { Flags::NONE };
        if matches!(self.shield, Shield::Signed(_)) {
            flags |= Flags::SIGNED;
        }
        let header = Header {
            credit_charge: part.charge,
            command: part.command,
            credits: part.charge + CREDITS_WANTED.saturating_sub(self.credits).min(256) as u16,
            flags,
            message_id: MessageId(self.next_message_id),
            route: Route::Sync { tree_id: self.tree_id },
            session_id: self.session_id,
            ..Header::default()
        };
        self.out.extend_from_slice(&header.to_bytes());
        (part.body)(&mut self.out);
        if another_follows {
            let length = (self.out.len() - start).next_multiple_of(8);
            self.out.resize(start + length, 0);
            self.out[start + NEXT_COMMAND_OFFSET..][..4].copy_from_slice(&(length as u32).to_le_bytes());
        }
        if let Shield::Signed(key) = &self.shield {
            key.sign(&mut self.out[start..], Role::Client);
        }
        self.next_message_id += u64::from(part.charge.max(1));
        self.credits = self.credits.saturating_sub(u32::from(part.charge));
    }

    /// Sends all that was queued, in one write.
    pub fn send(&mut self) -> Result<(), Fault> {
        self.stream.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    /// The bytes of the message queued last, as the pre-authentication hash wants them.
    pub fn queued(&self) -> &[u8] {
        &self.out[PREFIX_LENGTH..]
    }

    /// Receives once, if no whole frame is there yet, and hands every answer to `take`: its header and its message.
    /// Interim answers are left out.
    pub fn receive(&mut self, mut take: impl FnMut(&Header, &[u8]) -> Result<(), Fault>) -> Result<(), Fault> {
        while self.frame_at_hand()?.is_none() {
            self.fill()?;
        }
        while let Some(length) = self.frame_at_hand()? {
            let start = self.pending.start + PREFIX_LENGTH;
            self.pending.start = start + length;
            let frame = &mut self.received[start..start + length];
            let message = opened(&mut self.shield, frame)?;
            self.credits += each_answer(&self.shield, message, &mut take)?;
        }
        Ok(())
    }

    /// The length of the frame that has arrived whole.
    fn frame_at_hand(&self) -> Result<Option<usize>, Fault> {
        let bytes = &self.received[self.pending.clone()];
        let Some(prefix) = bytes.first_chunk::<PREFIX_LENGTH>() else { return Ok(None) };
        let length = frame_length(*prefix)?;
        Ok((bytes.len() >= PREFIX_LENGTH + length).then_some(length))
    }

    fn fill(&mut self) -> Result<(), Fault> {
        if self.received.is_empty() {
            // Zeroed by the kernel, a page when it is needed: connections may be many and short.
            self.received = vec![0; RECEIVE_BYTES];
        }
        if self.pending.is_empty() {
            self.pending = 0..0;
        } else if self.pending.start > RECEIVE_BYTES / 8 {
            self.received.copy_within(self.pending.clone(), 0);
            self.pending = 0..self.pending.len();
        }
        match self.stream.read(&mut self.received[self.pending.end..])? {
            0 => Err(Fault("the server closed the connection".into())),
            count => {
                self.pending.end += count;
                Ok(())
            }
        }
    }

    /// Gives back the receive buffer's memory; for connections that wait.
    pub fn shrink(&mut self) {
        if self.pending.is_empty() {
            self.received = Vec::new();
            self.pending = 0..0;
        }
    }

    /// One request, and the message that answers it whatever its status.
    pub fn ask(&mut self, part: &Part<'_>) -> Result<(Header, Vec<u8>), Fault> {
        self.queue(std::slice::from_ref(part))?;
        self.send()?;
        self.answer()
    }

    /// The next answer.
    pub fn answer(&mut self) -> Result<(Header, Vec<u8>), Fault> {
        let mut answer = None;
        while answer.is_none() {
            self.receive(|header, message| {
                answer = Some((*header, message.to_vec()));
                Ok(())
            })?;
        }
        answer.ok_or_else(|| Fault("no answer".into()))
    }
}

/// The message in a frame, unsealed where the connection seals.
fn opened<'a>(shield: &mut Shield, frame: &'a mut [u8]) -> Result<&'a mut [u8], Fault> {
    match shield {
        Shield::Sealed { opener, .. } => opener.open(frame).map_err(|refused| Fault(refused.to_string())),
        Shield::Bare | Shield::Signed(_) if frame.starts_with(&TRANSFORM_PROTOCOL_ID) => {
            Err(Fault("a sealed answer to a request that was not".into()))
        }
        Shield::Bare | Shield::Signed(_) => Ok(frame),
    }
}

/// Takes the answers of a compound one by one; the credits that they grant.
fn each_answer(
    shield: &Shield,
    mut rest: &mut [u8],
    take: &mut impl FnMut(&Header, &[u8]) -> Result<(), Fault>,
) -> Result<u32, Fault> {
    let mut credits = 0;
    loop {
        let header = Header::decode(rest)?;
        let step = header.next_command as usize;
        let length = if step == 0 { rest.len() } else { step };
        if !(HEADER_LENGTH..=rest.len()).contains(&length) {
            return Err(Fault("NextCommand of an answer lies outside of its frame".into()));
        }
        let (message, behind) = rest.split_at_mut(length);
        credits += u32::from(header.credits);
        if header.status != Status::PENDING {
            if let Shield::Signed(key) = shield
                && !key.verify(message, Role::Server)
            {
                return Err(Fault("an answer's signature is wrong or missing".into()));
            }
            take(&header, message)?;
        }
        if step == 0 {
            return Ok(credits);
        }
        rest = behind;
    }
}
