//! A folder that is listed to its end, again and again, one request after the other.

use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::close::CloseRequest;
use wire::command::create::{CreateDisposition, CreateOptions, CreateRequest};
use wire::command::query_directory::QueryDirectoryRequest;
use wire::fscc::FileClass;
use wire::ids::{Command, FileId};
use wire::security::access;
use wire::status::Status;

use crate::arguments::Arguments;
use crate::connection::{Connection, Fault, Part};
use crate::load::{Clock, Done, Phases};
use crate::metadata::{created, plain_create};

/// What Linux and Windows ask for at a time.
const PAGE_BYTES: u32 = 64 << 10;

pub fn run(connection: &mut Connection, arguments: &Arguments, phases: &Phases) -> Result<Done, Fault> {
    // Once before: the system has the folder in memory then, whoever lists it first.
    list(connection, &arguments.folder)?;
    phases.pass("begin");
    let clock = Clock::start(arguments.duration);
    let mut operations = 0;
    while operations == 0 || !clock.is_over() {
        list(connection, &arguments.folder)?;
        operations += 1;
    }
    let elapsed = clock.elapsed();
    phases.pass("end");
    Ok(Done { operations, errors: 0, elapsed })
}

fn list(connection: &mut Connection, folder: &str) -> Result<(), Fault> {
    let name = utf16_bytes(folder);
    let open = CreateRequest {
        desired_access: (access::READ_DATA | access::READ_ATTRIBUTES).into(),
        disposition: CreateDisposition::OPEN,
        options: CreateOptions::DIRECTORY_FILE,
        name: Utf16::new(&name)?,
        ..plain_create()
    };
    let (header, message) = asked(connection, Command::CREATE, &|out| open.encode(out))?;
    let Some(file_id) = created(&header, &message)? else {
        return Err(Fault(format!("the folder's CREATE was answered with {}", header.status)));
    };
    while page(connection, file_id)? {}
    let (header, _) =
        asked(connection, Command::CLOSE, &|out| CloseRequest { file_id, ..CloseRequest::default() }.encode(out))?;
    if header.status == Status::SUCCESS { Ok(()) } else { Err(Fault(format!("CLOSE: {}", header.status))) }
}

/// Asks for some names; whether there were any.
fn page(connection: &mut Connection, file_id: FileId) -> Result<bool, Fault> {
    let pattern = utf16_bytes("*");
    let request = QueryDirectoryRequest {
        class: FileClass::ID_BOTH_DIRECTORY,
        file_id,
        pattern: Utf16::new(&pattern)?,
        output_buffer_length: PAGE_BYTES,
        ..QueryDirectoryRequest::default()
    };
    match asked(connection, Command::QUERY_DIRECTORY, &|out| request.encode(out))?.0.status {
        Status::SUCCESS => Ok(true),
        Status::NO_MORE_FILES => Ok(false),
        status => Err(Fault(format!("QUERY_DIRECTORY: {status}"))),
    }
}

fn asked(
    connection: &mut Connection,
    command: Command,
    body: &dyn Fn(&mut Vec<u8>),
) -> Result<(wire::header::Header, Vec<u8>), Fault> {
    connection.ask(&Part { command, charge: 1, body })
}
