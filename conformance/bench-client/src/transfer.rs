//! READs and WRITEs at random places of one file, all checked.

use std::collections::HashMap;

use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::create::{CreateDisposition, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess};
use wire::command::read::{ReadRequest, ReadResponse};
use wire::command::write::WriteRequest;
use wire::ids::{Command, FileId};
use wire::security::access;
use wire::status::Status;

use crate::arguments::{Arguments, Mode};
use crate::connection::{Connection, Fault, Part};
use crate::content::{Content, next_random};
use crate::load::{Clock, Done, Phases};

const PREPARE_BYTES: usize = 1 << 20;
const CREDIT_BYTES: usize = 64 << 10;
/// What the file holds before, and what WRITEs put there.
pub const BEFORE: u64 = 1;
const WRITTEN: u64 = 2;

/// What is asked of one block.
#[derive(Clone, Copy)]
enum Ask {
    Read { round: u64 },
    Write { round: u64 },
}

pub fn run(
    connection: &mut Connection,
    index: usize,
    arguments: &Arguments,
    content: &Content,
    phases: &Phases,
) -> Result<Done, Fault> {
    let file = open(connection, &format!("bench-{index}"))?;
    let mut transfer = Transfer { connection, file, content, errors: 0 };
    let length = arguments.file_bytes as u64;
    transfer.all((0..length).step_by(PREPARE_BYTES), PREPARE_BYTES, 8, Ask::Write { round: BEFORE })?;
    phases.pass("begin");

    let clock = Clock::start(arguments.duration);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ (index as u64 + 1);
    let blocks = length / arguments.block_bytes as u64;
    let mut written = vec![false; blocks as usize];
    let random_places = std::iter::from_fn(|| {
        if clock.is_over() {
            return None;
        }
        let block = next_random(&mut state) % blocks;
        written[block as usize] = true;
        Some(block * arguments.block_bytes as u64)
    });
    let ask = if arguments.mode == Mode::Write { Ask::Write { round: WRITTEN } } else { Ask::Read { round: BEFORE } };
    let operations = transfer.all(random_places, arguments.block_bytes, arguments.depth, ask)?;
    let elapsed = clock.elapsed();
    phases.pass("end");

    if arguments.mode == Mode::Write {
        for (round, was) in [(BEFORE, false), (WRITTEN, true)] {
            let places = (0..blocks).filter(|block| written[*block as usize] == was);
            let places = places.map(|block| block * arguments.block_bytes as u64).collect::<Vec<_>>();
            transfer.all(places.into_iter(), arguments.block_bytes, arguments.depth, Ask::Read { round })?;
        }
    }
    Ok(Done { operations, errors: transfer.errors, elapsed })
}

struct Transfer<'a> {
    connection: &'a mut Connection,
    file: FileId,
    content: &'a Content,
    errors: u64,
}

impl Transfer<'_> {
    /// Does the same to every place, with so many in flight; how many were done.
    fn all(
        &mut self,
        mut places: impl Iterator<Item = u64>,
        block_bytes: usize,
        depth: usize,
        ask: Ask,
    ) -> Result<u64, Fault> {
        let charge = block_bytes.div_ceil(CREDIT_BYTES) as u16;
        let mut in_flight = HashMap::with_capacity(depth);
        let mut block = vec![0; block_bytes];
        let mut done = 0;
        let mut more = true;
        loop {
            while more && in_flight.len() < depth && self.connection.affords(u32::from(charge)) {
                match places.next() {
                    Some(place) => {
                        let id = self.queue(place, &mut block, charge, ask)?;
                        in_flight.insert(id, place);
                    }
                    None => more = false,
                }
            }
            self.connection.send()?;
            if in_flight.is_empty() {
                return if more { Err(Fault("the server grants too few credits".into())) } else { Ok(done) };
            }
            let (content, errors) = (self.content, &mut self.errors);
            self.connection.receive(|header, message| {
                let place = in_flight.remove(&header.message_id.0).ok_or(Fault("an answer to nothing".into()))?;
                done += 1;
                let right = header.status == Status::SUCCESS
                    && match ask {
                        Ask::Read { round } => content.matches(place, round, ReadResponse::decode(message)?.data),
                        Ask::Write { .. } => true,
                    };
                *errors += u64::from(!right);
                Ok(())
            })?;
        }
    }

    fn queue(&mut self, place: u64, block: &mut [u8], charge: u16, ask: Ask) -> Result<u64, Fault> {
        let file_id = self.file;
        let length = block.len() as u32;
        let id = match ask {
            Ask::Read { .. } => {
                let request = ReadRequest { length, offset: place, file_id, ..ReadRequest::default() };
                let body = |out: &mut Vec<u8>| request.encode(out);
                self.connection.queue(&[Part { command: Command::READ, charge, body: &body }])?
            }
            Ask::Write { round } => {
                self.content.fill(place, round, block);
                let request = WriteRequest { offset: place, file_id, data: block, ..WriteRequest::default() };
                let body = |out: &mut Vec<u8>| request.encode(out);
                self.connection.queue(&[Part { command: Command::WRITE, charge, body: &body }])?
            }
        };
        Ok(id.0)
    }
}

fn open(connection: &mut Connection, name: &str) -> Result<FileId, Fault> {
    let name = utf16_bytes(name);
    let request = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION.0,
        desired_access: (access::READ_DATA | access::WRITE_DATA | access::READ_ATTRIBUTES).into(),
        share_access: ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
        disposition: CreateDisposition::OVERWRITE_IF,
        name: Utf16::new(&name)?,
        ..CreateRequest::default()
    };
    let body = |out: &mut Vec<u8>| request.encode(out);
    let (header, message) = connection.ask(&Part { command: Command::CREATE, charge: 1, body: &body })?;
    match header.status {
        Status::SUCCESS => Ok(CreateResponse::decode(&message)?.file_id),
        status => Err(Fault(format!("CREATE was answered with {status}"))),
    }
}
