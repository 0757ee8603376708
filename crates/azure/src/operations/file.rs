//! Files.

use std::ops::Range;

use bytes::Bytes;
use client::{Access, Disposition, Facts, File, OpenOptions, Tree};
use hyper::StatusCode;
use hyper::header::{ACCEPT_RANGES, CONTENT_RANGE, CONTENT_TYPE};
use tokio::sync::mpsc::{Sender, channel};

use super::directory::remove;
use super::{Ask, Service, accepted};
use crate::answer::{Answer, Piecewise, empty, of_facts, set, set_facts};
use crate::failure::{Code, Failure};

/// Bytes of one Put Range, and of what Create File brings.
pub(crate) const PUT_MAX: u64 = 4 << 20;
/// The longest file.
const LENGTH_MAX: u64 = 4 << 40;
/// Bytes that one read of the file server moves, and the reads that an answer is ahead of who takes it.
const PIECE_BYTES: u64 = 1 << 20;
const PIECES_AHEAD: usize = 4;
/// What a cleared range is written with.
const ZEROS: &[u8] = &[0; 1 << 20];

/// Create File. One that exists is made anew.
pub(super) async fn create(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    match ask.header("x-ms-type") {
        Some(kind) if kind.eq_ignore_ascii_case("file") => {}
        Some(_) => return Err(Failure::header("x-ms-type", "file")),
        None => return Err(Failure::missing("x-ms-type")),
    }
    let length = ask.number("x-ms-content-length")?.ok_or_else(|| Failure::missing("x-ms-content-length"))?;
    if length > LENGTH_MAX {
        return Err(Failure::new(Code::OutOfRangeInput, format!("A file has at most {LENGTH_MAX} bytes.")));
    }
    if ask.body.len() as u64 > length.min(PUT_MAX) {
        return Err(Failure::new(Code::RequestBodyTooLarge, "The body is longer than the file, or than 4 MiB."));
    }
    let tree = service.tree(ask).await?;
    // Who may only create makes nothing anew.
    let disposition = if ask.by.may_overwrite() { Disposition::Overwrite } else { Disposition::Create };
    let options = OpenOptions { disposition, ..of_file(Access::Write) };
    let facts = with(&tree, &ask.target.path(), options, async |file| {
        file.set_length(length).await?;
        if !ask.body.is_empty() {
            file.write(0, ask.body.clone()).await?;
        }
        Ok(())
    })
    .await?;
    Ok(of_facts(StatusCode::CREATED, &facts))
}

/// Put Range: writes, or clears.
pub(super) async fn put_range(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let range = ask.range_to_change()?;
    let writes = match ask.header("x-ms-write").map(str::to_ascii_lowercase).as_deref() {
        Some("update") => true,
        Some("clear") => false,
        Some(_) => return Err(Failure::header("x-ms-write", "update, or clear")),
        None => return Err(Failure::missing("x-ms-write")),
    };
    if writes && range.end - range.start != ask.body.len() as u64 {
        return Err(Failure::header("x-ms-range", "as many bytes as the body has"));
    }
    let tree = service.tree(ask).await?;
    let facts = with(&tree, &ask.target.path(), of_file(Access::Write), async |file| {
        if range.end > file.facts_now().await?.end_of_file {
            return Err(Failure::new(Code::InvalidRange, "The range ends behind the file."));
        }
        if writes {
            file.write(range.start, ask.body.clone()).await?;
            return Ok(());
        }
        clear(file, range.clone()).await
    })
    .await?;
    Ok(of_facts(StatusCode::CREATED, &facts))
}

async fn clear(file: &File, mut range: Range<u64>) -> Result<(), Failure> {
    while !range.is_empty() {
        let length = (range.end - range.start).min(ZEROS.len() as u64);
        file.write(range.start, Bytes::from_static(&ZEROS[..length as usize])).await?;
        range.start += length;
    }
    Ok(())
}

/// Set File Properties: the length.
pub(super) async fn set_properties(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let length = ask.number("x-ms-content-length")?;
    let tree = service.tree(ask).await?;
    let facts = with(&tree, &ask.target.path(), of_file(Access::Write), async |file| match length {
        Some(length) if length > LENGTH_MAX => {
            Err(Failure::new(Code::OutOfRangeInput, format!("A file has at most {LENGTH_MAX} bytes.")))
        }
        Some(length) => Ok(file.set_length(length).await?),
        None => Ok(()),
    })
    .await?;
    Ok(of_facts(StatusCode::OK, &facts))
}

/// Get File Properties.
pub(super) async fn properties(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let tree = service.tree(ask).await?;
    let facts = tree.facts(&ask.target.path()).await?;
    if facts.is_directory() {
        return Err(Failure::new(Code::ResourceTypeMismatch, "It is a directory."));
    }
    // Its length is told, and nothing is sent: who asks wants the headers.
    let (_, pieces) = channel(1);
    let mut answer = empty(StatusCode::OK);
    *answer.body_mut() = Piecewise::Sent { left: facts.end_of_file, pieces };
    set_file(&mut answer, &facts);
    Ok(answer)
}

/// Get File.
pub(super) async fn get(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let tree = service.tree(ask).await?;
    let file = tree.open(&ask.target.path(), of_file(Access::Read)).await?;
    let facts = file.facts();
    let range = match ask.range_of(facts.end_of_file) {
        Ok(range) => range,
        Err(failure) => {
            file.close().await?;
            return Err(failure);
        }
    };
    let sent = range.clone().unwrap_or(0..facts.end_of_file);
    let mut answer = empty(if range.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK });
    set_file(&mut answer, &facts);
    if range.is_some() {
        let text = format!("bytes {}-{}/{}", sent.start, sent.end - 1, facts.end_of_file);
        set(&mut answer, CONTENT_RANGE.as_str(), &text);
    }
    let (sender, pieces) = channel(PIECES_AHEAD);
    *answer.body_mut() = Piecewise::Sent { left: sent.end - sent.start, pieces };
    tokio::spawn(send(file, sent, sender));
    Ok(answer)
}

/// Sends a file's bytes as far as somebody takes them, and closes it.
async fn send(file: File, mut range: Range<u64>, to: Sender<Bytes>) {
    while !range.is_empty() {
        let length = (range.end - range.start).min(PIECE_BYTES);
        let Ok(piece) = file.read(range.start, length as usize).await else { break };
        let piece = Bytes::copy_from_slice(&piece);
        range.start += piece.len() as u64;
        if piece.is_empty() || to.send(piece).await.is_err() {
            break;
        }
    }
    // The open goes with its session where even that is not to be had.
    if let Err(error) = file.close().await {
        tracing::debug!(%error, "a file that was read for the REST interface could not be closed");
    }
}

/// Delete File.
pub(super) async fn delete(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let tree = service.tree(ask).await?;
    remove(&tree, &ask.target.path(), false).await?;
    Ok(accepted())
}

/// Rename File and Rename Directory: the source is named by its whole URL.
pub(super) async fn rename(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let is_true = |name| ask.header(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let from = ask.source.as_ref().filter(|from| from.account == ask.target.account && from.share == ask.target.share);
    let from = from.ok_or_else(|| {
        Failure::header("x-ms-file-rename-source", "the URL of a file or directory of the same share")
    })?;
    let replaces = is_true("x-ms-file-rename-replace-if-exists") && ask.by.may_overwrite();
    let tree = service.tree(ask).await?;
    tree.rename(&from.path(), &ask.target.path(), replaces).await?;
    let facts = tree.facts(&ask.target.path()).await?;
    Ok(of_facts(StatusCode::OK, &facts))
}

/// How a file, and nothing else, is opened.
fn of_file(access: Access) -> OpenOptions {
    OpenOptions { access, directory: Some(false), ..OpenOptions::default() }
}

/// Opens a file, works with it, and closes it whatever came of that. Gives what the file is then.
async fn with(
    tree: &Tree,
    path: &str,
    options: OpenOptions,
    work: impl AsyncFnOnce(&File) -> Result<(), Failure>,
) -> Result<Facts, Failure> {
    let file = tree.open(path, options).await?;
    let before = file.facts();
    let done = work(&file).await;
    let closed = file.close_and_look().await;
    done?;
    Ok(closed?.unwrap_or(before))
}

fn set_file(answer: &mut Answer, facts: &Facts) {
    set_facts(answer, facts);
    set(answer, ACCEPT_RANGES.as_str(), "bytes");
    set(answer, CONTENT_TYPE.as_str(), "application/octet-stream");
    set(answer, "x-ms-type", "File");
    set(answer, "x-ms-lease-status", "unlocked");
    set(answer, "x-ms-lease-state", "available");
}
