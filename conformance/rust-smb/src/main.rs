//! Checks a server with the Rust clients `smb` and `smb2`; the server is in the `SMB_*` variables. The words on the
//! command line say which: `smb`, `smb2` or both.

mod check;
mod smb2_crate;
mod smb_crate;

use std::error::Error;

use tokio::runtime::Builder;

fn main() -> Result<(), Box<dyn Error>> {
    let target = check::Target::from_environment();
    for client in std::env::args().skip(1) {
        match client.as_str() {
            // On one thread, because a listing of this crate may wait for good on several: the task that fetches entries begins to
            // listen for "all were taken" only when it has handed over the last one, and misses it where the reader is quicker.
            "smb" => Builder::new_current_thread().enable_all().build()?.block_on(smb_crate::checks(&target)),
            "smb2" => Builder::new_multi_thread().enable_all().build()?.block_on(smb2_crate::checks(&target)),
            _ => panic!("there is no client {client}"),
        }
    }
    Ok(())
}
