//! One client that keeps files open under leases and then says nothing. The files are there: `leases/0` and so on.

use std::io::Read;

use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::create::{
    CreateDisposition, CreateRequest, CreateResponse, ImpersonationLevel, OplockLevel, ShareAccess,
};
use wire::context::create::{CreateContextsBuilder, Lease, LeaseState, name};
use wire::context::lease::LeaseV2;
use wire::ids::{Command, Guid};
use wire::security::access;
use wire::status::Status;

use crate::arguments::Arguments;
use crate::connection::{Connection, Fault, Part};
use crate::login::connected;

pub fn run(arguments: &Arguments) -> Result<(), Fault> {
    let mut connection = connected(&arguments.target, arguments.protection)?;
    pause("connected");
    for number in 0..arguments.files {
        open(&mut connection, number)?;
    }
    connection.shrink();
    pause("ready");
    Ok(())
}

/// Says where it is, and waits for a byte.
fn pause(name: &str) {
    println!("{name}");
    let _ = std::io::stdin().read(&mut [0]);
}

fn open(connection: &mut Connection, number: usize) -> Result<(), Fault> {
    let mut key = [0x5a; 16];
    key[..8].copy_from_slice(&(number as u64).to_le_bytes());
    let lease_state = LeaseState::READ_CACHING | LeaseState::WRITE_CACHING | LeaseState::HANDLE_CACHING;
    let lease = Lease { lease_key: Guid(key), lease_state, v2: Some(LeaseV2::default()), ..Lease::default() };
    let mut contexts = CreateContextsBuilder::new();
    contexts.add(name::LEASE, &lease.to_bytes());
    let path = utf16_bytes(&format!(r"leases\{number}"));
    let request = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION.0,
        desired_access: (access::READ_DATA | access::WRITE_DATA | access::READ_ATTRIBUTES).into(),
        share_access: ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
        disposition: CreateDisposition::OPEN,
        oplock_level: OplockLevel::LEASE,
        name: Utf16::new(&path)?,
        contexts: contexts.contexts(),
        ..CreateRequest::default()
    };
    let body = |out: &mut Vec<u8>| request.encode(out);
    let (header, message) = connection.ask(&Part { command: Command::CREATE, charge: 1, body: &body })?;
    if header.status != Status::SUCCESS {
        return Err(Fault(format!("the CREATE of file {number} was answered with {}", header.status)));
    }
    let response = CreateResponse::decode(&message)?;
    let granted = response.contexts.find(name::LEASE).map(Lease::decode).transpose()?;
    match granted {
        Some(granted) if granted.lease_state == lease_state => Ok(()),
        _ => Err(Fault(format!("file {number} has another lease: {granted:?}"))),
    }
}
