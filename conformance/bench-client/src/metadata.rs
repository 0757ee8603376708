//! Files made, opened, looked at or removed, many at once: a CREATE whose answer is followed by a CLOSE, or all in a compound.

use std::collections::HashMap;
use std::time::Duration;

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
    let count = arguments.files as u64;
    let make = |number| Step { kind: Kind::Make, group: Group::New, number };
    let remove = |number| Step { kind: Kind::Remove, group: Group::New, number };
    let (operations, elapsed) = match arguments.mode {
        Mode::Walk => {
            files.folder.clone_from(&arguments.folder);
            let in_each = count.div_ceil(arguments.folders as u64);
            let each =
                |number| Step { kind: Kind::Open, group: Group::Within(number / in_each), number: number % in_each };
            files.timed(arguments, phases, (0..count).map(each))?
        }
        Mode::Make => {
            files.make_folder()?;
            let made = files.timed(arguments, phases, (0..count).map(make))?;
            files.all(&mut (0..made.0).map(remove))?;
            made
        }
        Mode::Delete => {
            files.make_folder()?;
            files.all(&mut (0..count).map(make))?;
            let removed = files.timed(arguments, phases, (0..count).map(remove))?;
            files.all(&mut (removed.0..count).map(remove))?;
            removed
        }
        Mode::Create => {
            files.make_kept()?;
            files.timed(arguments, phases, (0..).map(make))?
        }
        Mode::Open => {
            files.make_kept()?;
            files.timed(arguments, phases, kept_at_random(Kind::Open, index))?
        }
        Mode::Stat | Mode::Read | Mode::Rest | Mode::Write | Mode::List | Mode::Bind | Mode::Idle | Mode::Leases => {
            files.make_kept()?;
            files.timed(arguments, phases, kept_at_random(Kind::Stat, index))?
        }
    };
    Ok(Done { operations, errors: files.errors, elapsed })
}

/// The kept files, again and again, in no order.
fn kept_at_random(kind: Kind, index: usize) -> impl Iterator<Item = Step> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ (index as u64 + 1);
    std::iter::repeat_with(move || Step { kind, group: Group::Kept, number: next_random(&mut state) % FILES })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Make,
    Open,
    Stat,
    Remove,
}

#[derive(Clone, Copy)]
enum Group {
    Kept,
    New,
    /// What others made, in the folder of this number.
    Within(u64),
}

#[derive(Clone, Copy)]
struct Step {
    kind: Kind,
    group: Group,
    number: u64,
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
    /// Does these steps while there are any and it is not over; how many were done, and how long that took.
    fn timed(
        &mut self,
        arguments: &Arguments,
        phases: &Phases,
        steps: impl Iterator<Item = Step>,
    ) -> Result<(u64, Duration), Fault> {
        phases.pass("begin");
        let clock = Clock::start(arguments.duration);
        let done = self.all(&mut steps.take_while(|_| !clock.is_over()))?;
        let elapsed = clock.elapsed();
        phases.pass("end");
        Ok((done, elapsed))
    }

    fn make_kept(&mut self) -> Result<(), Fault> {
        self.make_folder()?;
        let kept = (0..FILES).map(|number| Step { kind: Kind::Make, group: Group::Kept, number });
        self.all(&mut { kept }).map(|_| ())
    }

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
        let (folder, number) = (&self.folder, step.number);
        let name = utf16_bytes(&match step.group {
            Group::Kept => format!(r"{folder}\kept-{number}"),
            Group::New => format!(r"{folder}\{}-{number}", self.new),
            Group::Within(within) => format!(r"{folder}\{within}\{number}"),
        });
        let (desired, options) = match step.kind {
            Kind::Remove => (access::DELETE, CreateOptions::DELETE_ON_CLOSE),
            Kind::Make | Kind::Open | Kind::Stat => {
                (access::READ_DATA | access::READ_ATTRIBUTES, CreateOptions::default())
            }
        };
        let create = CreateRequest {
            desired_access: desired.into(),
            disposition: if step.kind == Kind::Make { CreateDisposition::OPEN_IF } else { CreateDisposition::OPEN },
            options,
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

pub fn plain_create<'a>() -> CreateRequest<'a> {
    CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION.0,
        share_access: ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
        ..CreateRequest::default()
    }
}

pub fn created(header: &Header, message: &[u8]) -> Result<Option<FileId>, Fault> {
    match header.status {
        Status::SUCCESS => Ok(Some(CreateResponse::decode(message)?.file_id)),
        _ => Ok(None),
    }
}
