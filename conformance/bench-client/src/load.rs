//! The loads: a queue of a given depth, refilled together, every byte verified.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::close::CloseRequest;
use wire::command::create::{AccessMask, CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ShareAccess};
use wire::command::read::{ReadRequest, ReadResponse};
use wire::command::write::WriteRequest;
use wire::header::Header;
use wire::ids::{Command, FileId};
use wire::status::Status;

use crate::connection::Connection;

/// Bytes of one connection's file.
pub const FILE_BYTES: usize = 64 << 20;

/// What to do over and over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Read,
    Write,
    /// CREATE of a new name, then CLOSE.
    Create,
    /// CREATE of a name that exists, then CLOSE.
    Open,
}

/// How much of it.
#[derive(Clone, Copy)]
pub struct Amount {
    pub block: usize,
    pub depth: usize,
    pub time: Duration,
}

/// What came of it.
#[derive(Clone, Copy, Default)]
pub struct Result {
    pub operations: u64,
    pub errors: u64,
}

/// What a request in flight was for.
enum Flight {
    Read(u64),
    Write,
    Create,
    Close,
}

pub struct Load<'a> {
    connection: &'a mut Connection,
    operation: Operation,
    amount: Amount,
    number: u64,
    chance: u64,
    file: FileId,
    content: Vec<u8>,
    flights: HashMap<u64, Flight>,
    result: Result,
}

impl<'a> Load<'a> {
    /// Makes what the load needs: a file of known content, or names.
    pub fn prepare(
        connection: &'a mut Connection,
        operation: Operation,
        amount: Amount,
        number: u64,
    ) -> std::result::Result<Self, String> {
        let content: Vec<u8> = (0..FILE_BYTES as u64 / 8)
            .flat_map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
            .collect();
        let mut load = Load {
            connection,
            operation,
            amount,
            number,
            chance: 0x1234_5678 + number,
            file: FileId::ANY,
            content,
            flights: HashMap::new(),
            result: Result::default(),
        };
        match operation {
            Operation::Read | Operation::Write => {
                load.file = load.create(&format!("bench-{number}"), CreateDisposition::OVERWRITE_IF)?;
                for offset in (0..FILE_BYTES).step_by(1 << 16) {
                    let request = WriteRequest {
                        offset: offset as u64,
                        file_id: load.file,
                        data: &load.content[offset..offset + (1 << 16)],
                        ..WriteRequest::default()
                    };
                    load.connection.ask(Command::WRITE, |body| request.encode(body))?;
                }
            }
            Operation::Create => {}
            Operation::Open => {
                let file = load.create(&format!("bench-open-{number}"), CreateDisposition::OPEN_IF)?;
                load.connection.ask(Command::CLOSE, |body| close(file).encode(body))?;
            }
        }
        Ok(load)
    }

    /// Runs until the time is over and everything is answered.
    pub fn run(mut self) -> std::result::Result<Result, String> {
        let until = Instant::now() + self.amount.time;
        let mut begun = 0;
        loop {
            let running = Instant::now() < until;
            while running && begun < self.amount.depth && self.connection.credits >= u32::from(self.charge()) + 1 {
                self.begin();
                begun += 1;
            }
            if self.flights.is_empty() {
                break;
            }
            self.connection.send()?;
            begun -= self.collect()?;
        }
        self.check()?;
        Ok(self.result)
    }

    fn charge(&self) -> u16 {
        match self.operation {
            Operation::Read | Operation::Write => self.amount.block.div_ceil(65_536) as u16,
            Operation::Create | Operation::Open => 1,
        }
    }

    fn begin(&mut self) {
        let charge = self.charge();
        let block = self.amount.block;
        match self.operation {
            Operation::Read => {
                let offset = self.offset();
                let request =
                    ReadRequest { length: block as u32, offset, file_id: self.file, ..ReadRequest::default() };
                let id = self.connection.request(Command::READ, charge, |body| request.encode(body));
                self.flights.insert(id, Flight::Read(offset));
            }
            Operation::Write => {
                let offset = self.offset();
                let data = &self.content[offset as usize..offset as usize + block];
                let request = WriteRequest { offset, file_id: self.file, data, ..WriteRequest::default() };
                let id = self.connection.request(Command::WRITE, charge, |body| request.encode(body));
                self.flights.insert(id, Flight::Write);
            }
            Operation::Create => {
                self.chance += 1;
                let name = format!("bench-{}-{}", self.number, self.chance);
                self.begin_create(&name, CreateDisposition::CREATE);
            }
            Operation::Open => {
                let name = format!("bench-open-{}", self.number);
                self.begin_create(&name, CreateDisposition::OPEN);
            }
        }
    }

    fn begin_create(&mut self, name: &str, disposition: CreateDisposition) {
        let name = utf16_bytes(name);
        let request = create(&name, disposition);
        let id = self.connection.request(Command::CREATE, 1, |body| request.encode(body));
        self.flights.insert(id, Flight::Create);
    }

    fn offset(&mut self) -> u64 {
        // xorshift64: any spread of offsets will do.
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance % (FILE_BYTES / self.amount.block) as u64 * self.amount.block as u64
    }

    /// Takes what has come; gives how many operations ended.
    fn collect(&mut self) -> std::result::Result<usize, String> {
        let (mut ended, mut closes) = (0, Vec::new());
        let (flights, result, content, block) = (&mut self.flights, &mut self.result, &self.content, self.amount.block);
        self.connection.receive(|header: &Header, message: &[u8]| {
            if header.status == Status::PENDING {
                return;
            }
            let good = match flights.remove(&header.message_id.0) {
                None => false,
                Some(_) if header.status != Status::SUCCESS => false,
                Some(Flight::Read(offset)) => ReadResponse::decode(message)
                    .is_ok_and(|response| response.data == &content[offset as usize..offset as usize + block]),
                Some(Flight::Create) => match CreateResponse::decode(message) {
                    Ok(response) => {
                        closes.push(response.file_id);
                        return;
                    }
                    Err(_) => false,
                },
                Some(Flight::Write | Flight::Close) => true,
            };
            ended += 1;
            result.operations += 1;
            result.errors += u64::from(!good);
        })?;
        for file in closes {
            let id = self.connection.request(Command::CLOSE, 1, |body| close(file).encode(body));
            self.flights.insert(id, Flight::Close);
        }
        Ok(ended)
    }

    /// After writing, the whole file is read back.
    fn check(&mut self) -> std::result::Result<(), String> {
        if self.operation != Operation::Write {
            return Ok(());
        }
        for offset in (0..FILE_BYTES).step_by(1 << 16) {
            let request =
                ReadRequest { length: 1 << 16, offset: offset as u64, file_id: self.file, ..ReadRequest::default() };
            let (_, message) = self.connection.ask(Command::READ, |body| request.encode(body))?;
            let response = ReadResponse::decode(&message).map_err(|error| error.to_string())?;
            self.result.errors += u64::from(response.data != &self.content[offset..offset + (1 << 16)]);
        }
        Ok(())
    }

    fn create(&mut self, name: &str, disposition: CreateDisposition) -> std::result::Result<FileId, String> {
        let name = utf16_bytes(name);
        let request = create(&name, disposition);
        let (_, message) = self.connection.ask(Command::CREATE, |body| request.encode(body))?;
        Ok(CreateResponse::decode(&message).map_err(|error| error.to_string())?.file_id)
    }
}

fn create(name: &[u8], disposition: CreateDisposition) -> CreateRequest<'_> {
    CreateRequest {
        impersonation_level: 2,
        desired_access: AccessMask(0x0012_019f),
        share_access: ShareAccess(7),
        disposition,
        options: CreateOptions::NON_DIRECTORY_FILE,
        name: Utf16::new(name).unwrap_or_default(),
        ..CreateRequest::default()
    }
}

fn close(file_id: FileId) -> CloseRequest {
    CloseRequest { file_id, ..CloseRequest::default() }
}
