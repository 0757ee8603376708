//! Checks a server with the Rust clients `smb` and `smb2`; the server is in the `SMB_*` variables.

mod check;
mod smb2_crate;
mod smb_crate;

#[tokio::main]
async fn main() {
    let target = check::Target::from_environment();
    smb_crate::checks(&target).await;
    smb2_crate::checks(&target).await;
}
