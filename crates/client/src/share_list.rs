//! Listing a server's shares: NetrShareEnum (MS-SRVS 3.1.4.8) over the pipe srvsvc of IPC$.

use std::sync::Arc;

use wire::command::tree_connect::ShareType;
use wire::rpc::client::{self, Answer, Failure};
use wire::rpc::pdu::{FRAGMENT_BYTES_MAX, FaultStatus};
use wire::rpc::srvsvc::{ListedShare, NetStatus, Operation, decode_listing, encode_list_shares};
use wire::rpc::{Syntax, SyntaxId};
use wire::status::Status;

use crate::command::ioctl::SHARE_OF_PIPES;
use crate::command::tree_connect;
use crate::error::Error;
use crate::file::File;
use crate::options::{Access, OpenOptions};
use crate::shared::Shared;

const PIPE: &str = "srvsvc";
/// Calls for one list, each of which may give many thousands.
const CALLS_MAX: u32 = 1000;

/// The shares that the server tells of.
pub(crate) async fn shares(shared: &Arc<Shared>) -> Result<Vec<ListedShare>, Error> {
    let tree = tree_connect::connect(shared, SHARE_OF_PIPES, ShareType::PIPE).await?;
    let pipe = File::open((&tree, None), PIPE, OpenOptions { access: Access::Write, ..OpenOptions::default() }).await?;
    let listed = list(&pipe, &shared.host).await;
    let closed = pipe.close().await;
    let shares = listed?;
    closed.map(|()| shares)
}

async fn list(pipe: &File, host: &str) -> Result<Vec<ListedShare>, Error> {
    pipe.write(0, client::bind(&SyntaxId::SRVSVC)).await?;
    let fragment_bytes_max = client::bound(&fragment(pipe).await?).map_err(failed)?;
    let (server, mut shares, mut resume) = (format!(r"\\{host}"), Vec::new(), 0);
    for call in 1..=CALLS_MAX {
        let mut stub = Vec::new();
        encode_list_shares(&server, resume, Syntax::Ndr32, &mut stub);
        for part in client::request(call, Operation::SHARE_ENUM.0, &stub, fragment_bytes_max) {
            pipe.write(0, part).await?;
        }
        let listing = decode_listing(&answer(pipe, call).await?, Syntax::Ndr32)?;
        shares.extend(listing.shares);
        match listing.status {
            NetStatus::SUCCESS => return Ok(shares),
            NetStatus::MORE_DATA => resume = listing.resume,
            NetStatus::ACCESS_DENIED => return Err(Error::refused(Status::ACCESS_DENIED, "list the shares")),
            _ => return Err(Error::Lacking("a list of its shares")),
        }
    }
    Err(Error::Malformed("a list of shares without an end"))
}

/// The whole answer to a call.
async fn answer(pipe: &File, call: u32) -> Result<Vec<u8>, Error> {
    let mut answer = Answer::new(call);
    loop {
        if let Some(stub) = answer.fragment(&fragment(pipe).await?).map_err(failed)? {
            return Ok(stub);
        }
    }
}

/// One fragment: a pipe gives messages, and not a part of the next one.
async fn fragment(pipe: &File) -> Result<Vec<u8>, Error> {
    let data = pipe.read(0, FRAGMENT_BYTES_MAX).await?;
    match client::fragment_length(&data)? {
        Some(length) if length == data.len() => Ok(data.to_vec()),
        Some(_) | None => Err(Error::Malformed("a fragment of RPC that is not whole")),
    }
}

fn failed(failure: Failure) -> Error {
    match failure {
        Failure::Malformed(malformed) => malformed.into(),
        Failure::Fault(FaultStatus::ACCESS_DENIED) => Error::refused(Status::ACCESS_DENIED, "list the shares"),
        Failure::Rejected | Failure::Fault(_) => Error::Lacking("a list of its shares"),
    }
}
