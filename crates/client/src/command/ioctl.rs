//! IOCTL: the server's network interfaces (MS-SMB2 3.2.4.20.10), sparse files (MS-FSCC 2.3.51, 2.3.72, 2.3.85), and copies that the server makes
//! (MS-SMB2 3.2.4.20.2).

use std::ops::Range;
use std::sync::{Arc, Weak};

use wire::command::ioctl::{CtlCode, IoctlFlags, IoctlRequest, IoctlResponse};
use wire::command::tree_connect::ShareType;
use wire::fscc::ioctl::{self, Chunk, CopyChunks, Interface, RESUME_KEY_BYTES, Reparse, ResumeKey, ZeroData};
use wire::ids::{Command, FileId};
use wire::status::Status;

use super::tree_connect;
use crate::error::Error;
use crate::message::Answer;
use crate::open_state::OpenState;
use crate::perform::{Again, Ask};
use crate::shared::Shared;

/// MaxOutputResponse of Windows (note 177), and the interfaces that it has room for.
const OUTPUT_BYTES: u32 = 64 << 10;

/// Bytes of a chunk, and chunks of one copy: less than any server's limits (MS-SMB2 3.3.3).
const CHUNK_BYTES: u64 = 1 << 20;
const CHUNKS_MAX: usize = 16;

/// An open that is copied from, as its session names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyKey([u8; RESUME_KEY_BYTES]);

/// The share that every server has, to ask through where there is no other.
pub(crate) const SHARE_OF_PIPES: &str = "IPC$";

/// The server's interfaces.
pub(crate) async fn interfaces(shared: &Arc<Shared>) -> Result<Vec<Interface>, Error> {
    let trees = shared.state.lock().trees.clone();
    let tree = match trees.iter().find_map(Weak::upgrade) {
        Some(tree) => tree,
        None => tree_connect::connect(shared, SHARE_OF_PIPES, ShareType::PIPE).await?,
    };
    let body = |out: &mut Vec<u8>, _: FileId| {
        let request = IoctlRequest {
            ctl_code: CtlCode::QUERY_NETWORK_INTERFACE_INFO,
            file_id: FileId::ANY,
            max_output_response: OUTPUT_BYTES,
            flags: IoctlFlags::IS_FSCTL,
            ..IoctlRequest::default()
        };
        request.encode(out);
    };
    let ask = Ask { command: Command::IOCTL, tree: Some(&tree), ..Ask::of_session(&body) };
    let answer = shared.perform(&ask).await?;
    let answer = answer.expect(&[Status::SUCCESS], || "ask for the server's interfaces".into())?;
    let output = IoctlResponse::decode(answer.message())?.output;
    Ok(ioctl::interfaces(output).collect::<Result<_, _>>()?)
}

/// FSCTL_SET_SPARSE.
pub(crate) async fn make_sparse(open: &OpenState) -> Result<(), Error> {
    of_open(open, CtlCode::SET_SPARSE, &[], Again::Replayed, &[Status::SUCCESS], "make sparse").await.map(drop)
}

/// FSCTL_SET_ZERO_DATA.
pub(crate) async fn zero(open: &OpenState, range: Range<u64>) -> Result<(), Error> {
    let mut input = Vec::new();
    ZeroData { offset: range.start, beyond_final_zero: range.end }.encode(&mut input);
    of_open(open, CtlCode::SET_ZERO_DATA, &input, Again::Replayed, &[Status::SUCCESS], "clear a part of")
        .await
        .map(drop)
}

/// FSCTL_QUERY_ALLOCATED_RANGES, asked again behind the last range where not all fit into an answer and there are not `most` yet.
pub(crate) async fn allocated(open: &OpenState, mut range: Range<u64>, most: usize) -> Result<Vec<Range<u64>>, Error> {
    let mut found = Vec::new();
    while !range.is_empty() && found.len() < most {
        let mut input = Vec::new();
        ioctl::Range { offset: range.start, length: range.end - range.start }.encode(&mut input);
        let taken = &[Status::SUCCESS, Status::BUFFER_OVERFLOW];
        let code = CtlCode::QUERY_ALLOCATED_RANGES;
        let answer = of_open(open, code, &input, Again::Anew, taken, "ask for the ranges of").await?;
        let told = IoctlResponse::decode(answer.message())?.output;
        let before = range.start;
        for part in ioctl::ranges(told)? {
            let end = part.offset.saturating_add(part.length).min(range.end);
            let start = part.offset.max(range.start);
            if start < end {
                found.push(start..end);
                range.start = end;
            }
        }
        if answer.status() == Status::SUCCESS || range.start == before {
            break;
        }
    }
    Ok(found)
}

/// FSCTL_SRV_REQUEST_RESUME_KEY.
pub(crate) async fn copy_key(open: &OpenState) -> Result<CopyKey, Error> {
    let code = CtlCode::SRV_REQUEST_RESUME_KEY;
    let answer = of_open(open, code, &[], Again::Anew, &[Status::SUCCESS], "copy").await?;
    Ok(CopyKey(ResumeKey::decode(IoctlResponse::decode(answer.message())?.output)?.key))
}

/// FSCTL_SRV_COPYCHUNK_WRITE, as often as it takes.
pub(crate) async fn copy_from(open: &OpenState, source: &CopyKey, mut range: Range<u64>) -> Result<(), Error> {
    while !range.is_empty() {
        let mut chunks = Vec::new();
        while !range.is_empty() && chunks.len() < CHUNKS_MAX {
            let length = CHUNK_BYTES.min(range.end - range.start);
            chunks.push(Chunk { source_offset: range.start, target_offset: range.start, length: length as u32 });
            range.start += length;
        }
        let mut input = Vec::new();
        CopyChunks::encode(&source.0, &chunks, &mut input);
        let code = CtlCode::SRV_COPYCHUNK_WRITE;
        of_open(open, code, &input, Again::Replayed, &[Status::SUCCESS], "copy to").await?;
    }
    Ok(())
}

/// FSCTL_GET_REPARSE_POINT: where a symbolic link leads, as its server says it; `None` for something else that stands for another thing.
pub(crate) async fn link(open: &OpenState) -> Result<Option<String>, Error> {
    let code = CtlCode::GET_REPARSE_POINT;
    let answer = of_open(open, code, &[], Again::Anew, &[Status::SUCCESS], "read the link").await?;
    let point = Reparse::decode(IoctlResponse::decode(answer.message())?.output)?;
    Ok(match point.symlink()? {
        Some(link) if !link.print.is_empty() => link.print.decode(),
        Some(link) => link.substitute.decode(),
        None => point.lx_link()?.map(str::to_owned),
    })
}

async fn of_open(
    open: &OpenState,
    ctl_code: CtlCode,
    input: &[u8],
    again: Again,
    taken: &[Status],
    doing: &str,
) -> Result<Answer, Error> {
    let body = |out: &mut Vec<u8>, file_id: FileId| {
        let request = IoctlRequest {
            ctl_code,
            file_id,
            input,
            max_output_response: OUTPUT_BYTES,
            flags: IoctlFlags::IS_FSCTL,
            ..IoctlRequest::default()
        };
        request.encode(out);
    };
    let ask = Ask { bytes: OUTPUT_BYTES as usize, again, ..Ask::of(open, Command::IOCTL, &body) };
    open.tree.shared.perform(&ask).await?.expect(taken, || format!("{doing} {}", open.path))
}
