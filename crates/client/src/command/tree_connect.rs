//! TREE_CONNECT (MS-SMB2 3.2.4.2.4).

use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::tree_connect::TreeConnectRequest;
use wire::ids::{Command, FileId};

use crate::perform::Ask;

/// The body of a request for a share.
pub(crate) fn body(host: &str, share: &str) -> impl Fn(&mut Vec<u8>, FileId) + Sync + use<> {
    let path = utf16_bytes(&format!(r"\\{host}\{share}"));
    move |out, _| {
        let path = Utf16::new(&path).unwrap_or_default();
        TreeConnectRequest { path, ..TreeConnectRequest::default() }.encode(out);
    }
}

/// The request with that body.
pub(crate) fn ask(body: &(dyn Fn(&mut Vec<u8>, FileId) + Sync)) -> Ask<'_> {
    Ask { command: Command::TREE_CONNECT, ..Ask::of_session(body) }
}
