//! Channels that come and go: each operation connects, binds the session of a connection that stays (MS-SMB2 3.2.5.3.3), and closes.

use crate::arguments::Arguments;
use crate::connection::Fault;
use crate::load::{Clock, Done, Phases};
use crate::login::Known;

pub fn run(arguments: &Arguments, phases: &Phases) -> Result<Done, Fault> {
    let (_first, session) = Known::sign_in(&arguments.target)?;
    phases.pass("begin");
    let clock = Clock::start(arguments.duration);
    let mut operations = 0;
    while !clock.is_over() {
        session.bind(&arguments.target)?;
        operations += 1;
    }
    let elapsed = clock.elapsed();
    phases.pass("end");
    Ok(Done { operations, errors: 0, elapsed })
}
