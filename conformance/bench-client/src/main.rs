//! A pipelining SMB 3.1.1 client for measuring servers: it keeps a number of requests in flight on each connection,
//! sends together all that is due, and checks every byte it reads.
//!
//! `bench-client --mode read --block 4096 --depth 16 --connections 4 --seconds 5 --protect gmac`; the server is in
//! the `SMB_*` variables. Prints one JSON object.

mod arguments;
mod bind;
mod connection;
mod content;
mod idle;
mod leases;
mod list;
mod load;
mod login;
mod metadata;
mod rest;
mod transfer;

use std::process::ExitCode;

use arguments::{Arguments, Mode};

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(reason) => {
            eprintln!("{reason}");
            return ExitCode::from(2);
        }
    };
    let outcome = match arguments.mode {
        Mode::Idle => idle::run(&arguments),
        Mode::Leases => leases::run(&arguments),
        Mode::Read
        | Mode::Rest
        | Mode::Write
        | Mode::Create
        | Mode::Open
        | Mode::Stat
        | Mode::Make
        | Mode::Delete
        | Mode::Walk
        | Mode::List
        | Mode::Bind => load::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}
