//! Many connections that log in, connect to the share, and then say nothing.

use std::io::Read;

use crate::arguments::Arguments;
use crate::connection::Fault;
use crate::login::connected;

pub fn run(arguments: &Arguments) -> Result<(), Fault> {
    let mut connections = Vec::with_capacity(arguments.connections);
    for _ in 0..arguments.connections {
        let mut connection = connected(&arguments.target, arguments.protection)?;
        connection.shrink();
        connections.push(connection);
    }
    println!("ready");
    let _ = std::io::stdin().read(&mut [0]);
    drop(connections);
    Ok(())
}
