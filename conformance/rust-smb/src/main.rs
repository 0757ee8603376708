//! Checks a server with the Rust clients `smb` and `smb2`; the server is in the `SMB_*` variables. The words on the
//! command line say which: `smb`, `smb2` or both.

mod check;
mod smb2_crate;
mod smb_crate;

#[tokio::main]
async fn main() {
    let target = check::Target::from_environment();
    for client in std::env::args().skip(1) {
        match client.as_str() {
            "smb" => smb_crate::checks(&target).await,
            "smb2" => smb2_crate::checks(&target).await,
            _ => panic!("there is no client {client}"),
        }
    }
}
