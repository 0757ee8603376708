//! Files made, opened or looked at, many at once: a CREATE whose answer is followed by a CLOSE, or all in a compound.

use std::collections::HashMap;

use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::close::CloseRequest;
use wire::command::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use wire::command::query_info::{InfoClass, InfoType, QueryInfoRequest};
use wire::fscc::FileClass;
use wire::header::Header;
use wire::ids::{Command, FileId};
use wire::security::access;
use wire::status::Status;

use crate::arguments::{Arguments, Mode};
use crate::connection::{Connection, Fault, Part};
use crate::content::next_random;
use crate::load::{Clock, Done, Phases};

/// Files that opening and looking choose from.
const FILES: u64 = 500;
/// FileNetworkOpenInformation is 56 bytes.
const FACTS_BYTES_MAX: u32 = 1024;

pub fn run(connection: &mut Connection, index: usize, arguments: &Arguments, phases: &Phases) -> Result<Done, Fault> {
    let mut files = Files {
        connection,
        folder: format!("bench-files-{index}"),
        new: format!("new-{}", std::process::id()),
        errors: 0,
        depth: arguments.depth,
    };
    files.make_folder()?;
    files.all(&mut (0..FILES).map(|number| Step::make(Group::Kept, number)))?;
    phases.pass("begin");

    let clock = Clock::start(arguments.duration);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ (index as u64 + 1);
    let mut counter = 0..;
    let mut steps = std::iter::from_fn(|| {
        let step = match arguments.mode {
            Mode::Create => Step::make(Group::New, counter.next().unwrap_or(0)),
            Mode::Open => Step { kind: Kind::Open, group: Group::Kept, number: next_random(&mut state) % FILES },
            Mode::Stat | Mode::Read | Mode::Write | Mode::Bind | Mode::Idle | Mode::Leases => {
                Step { kind: Kind::Stat, group: Group::Kept, number: next_random(&mut state) % FILES }
            }
        };
        (!clock.is_over()).then_some(step)
    });
    let operations = files.all(&mut steps)?;
    let elapsed = clock.elapsed();
    phases.pass("end");
    Ok(Done { operations, errors: files.errors, elapsed })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Make,
    Open,
    Stat,
}

#[derive(Clone, Copy)]
enum Group {
    Kept,
    New,
}

#[derive(Clone, Copy)]
struct Step {
    kind: Kind,
    group: Group,
    number: u64,
}

impl Step {
    fn make(group: Group, number: u64) -> Self {
        Step { kind: Kind::Make, group, number }
    }
}

/// What an answer is to.
#[derive(Clone, Copy)]
enum Awaited {
    Create,
    Query,
    /// The last answer of a step.
    Close,
}

struct Files<'a> {
    connection: &'a mut Connection,
    folder: String,
    /// What new files are called: a later run must not find them.
    new: String,
    errors: u64,
    depth: usize,
}

impl Files<'_> {
    /// Does all steps, with so many under way; how many were done.
    fn all(&mut self, steps: &mut dyn Iterator<Item = Step>) -> Result<u64, Fault> {
        let mut awaited = HashMap::new();
        let (mut under_way, mut done, mut more) = (0, 0, true);
        let mut to_close: Vec<FileId> = Vec::new();
        loop {
            for file_id in to_close.drain(..) {
                let id = self.queue_close(file_id)?;
                awaited.insert(id, Awaited::Close);
            }
            while more && under_way < self.depth && self.connection.affords(8) {
                let Some(step) = steps.next() else {
                    more = false;
                    break;
                };
                self.queue_step(step, &mut awaited)?;
                under_way += 1;
            }
            self.connection.send()?;
            if under_way == 0 {
                return if more { Err(Fault("the server grants too few credits".into())) } else { Ok(done) };
            }
            let errors = &mut self.errors;
            self.connection.receive(|header, message| {
                match awaited.remove(&header.message_id.0).ok_or(Fault("an answer to nothing".into()))? {
                    Awaited::Create => match created(header, message)? {
                        Some(file_id) => to_close.push(file_id),
                        None => return Err(Fault(format!("CREATE was answered with {}", header.status))),
                    },
                    Awaited::Query => *errors += u64::from(header.status != Status::SUCCESS),
                    Awaited::Close => {
                        *errors += u64::from(header.status != Status::SUCCESS);
                        under_way -= 1;
                        done += 1;
                    }
                }
                Ok(())
            })?;
        }
    }

    fn queue_step(&mut self, step: Step, awaited: &mut HashMap<u64, Awaited>) -> Result<(), Fault> {
        let group = match step.group {
            Group::Kept => "kept",
            Group::New => self.new.as_str(),
        };
        let name = utf16_bytes(&format!(r"{}\{group}-{}", self.folder, step.number));
        let create = CreateRequest {
            desired_access: (access::READ_DATA | access::READ_ATTRIBUTES).into(),
            disposition: if step.kind == Kind::Make { CreateDisposition::OPEN_IF } else { CreateDisposition::OPEN },
            name: Utf16::new(&name)?,
            ..plain_create()
        };
        let create = |out: &mut Vec<u8>| create.encode(out);
        let create = Part { command: Command::CREATE, charge: 1, body: &create };
        if step.kind != Kind::Stat {
            let id = self.connection.queue(&[create])?;
            awaited.insert(id.0, Awaited::Create);
            return Ok(());
        }
        let query = QueryInfoRequest {
            info_type: InfoType::FILE,
            class: InfoClass(FileClass::NETWORK_OPEN.0),
            output_buffer_length: FACTS_BYTES_MAX,
            file_id: FileId::ANY,
            ..QueryInfoRequest::default()
        };
        let query = |out: &mut Vec<u8>| query.encode(out);
        let close = |out: &mut Vec<u8>| CloseRequest { file_id: FileId::ANY, ..CloseRequest::default() }.encode(out);
        let id = self.connection.queue(&[
            create,
            Part { command: Command::QUERY_INFO, charge: 1, body: &query },
            Part { command: Command::CLOSE, charge: 1, body: &close },
        ])?;
        for (place, what) in [Awaited::Query, Awaited::Query, Awaited::Close].into_iter().enumerate() {
            awaited.insert(id.0 + place as u64, what);
        }
        Ok(())
    }

    fn queue_close(&mut self, file_id: FileId) -> Result<u64, Fault> {
        let close = |out: &mut Vec<u8>| CloseRequest { file_id, ..CloseRequest::default() }.encode(out);
        Ok(self.connection.queue(&[Part { command: Command::CLOSE, charge: 1, body: &close }])?.0)
    }

    fn make_folder(&mut self) -> Result<(), Fault> {
        let name = utf16_bytes(&self.folder);
        let request = CreateRequest {
            desired_access: access::READ_ATTRIBUTES.into(),
            disposition: CreateDisposition::OPEN_IF,
            options: CreateOptions::DIRECTORY_FILE,
            name: Utf16::new(&name)?,
            ..plain_create()
        };
        let body = |out: &mut Vec<u8>| request.encode(out);
        let (header, message) = self.connection.ask(&Part { command: Command::CREATE, charge: 1, body: &body })?;
        let Some(file_id) = created(&header, &message)? else {
            return Err(Fault(format!("the folder's CREATE was answered with {}", header.status)));
        };
        self.queue_close(file_id)?;
        self.connection.send()?;
        self.connection.answer().map(|_| ())
    }
}

fn plain_create<'a>() -> CreateRequest<'a> {
    CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION.0,
        share_access: ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
        ..CreateRequest::default()
    }
}

fn created(header: &Header, message: &[u8]) -> Result<Option<FileId>, Fault> {
    match header.status {
        Status::SUCCESS => Ok(Some(CreateResponse::decode(message)?.file_id)),
        _ => Ok(None),
    }
}
