//! Files: made, looked at, read, changed and deleted.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Access, File, FileAttributes, OpenOptions, Security};
use futures_util::{StreamExt, TryFutureExt, stream};
use hyper::StatusCode;
use hyper::header::{ACCEPT_RANGES, CONTENT_RANGE, CONTENT_TYPE};
use tokio::sync::mpsc::{Sender, channel};

use super::described::{Described, changed};
use super::kept::{self, Content, Kept};
use super::made::Made;
use super::opening::{Opened, Place, closing, of_file};
use super::smb_properties::SmbProperties;
use super::{Ask, Service, accepted, checksum, lease, running};
use crate::answer::{Answer, Piece, Piecewise, empty, of_facts, set};
use crate::failure::{Code, Failure};
use crate::inside::Unread;
use crate::parts::{KeptOpen, Part};
use crate::turns::Turn;

/// Bytes of one Put Range, and of what Create File brings.
pub(crate) const PUT_MAX: u64 = 4 << 20;
/// The longest file.
pub(super) const LENGTH_MAX: u64 = 4 << 40;
/// Bytes of a range whose MD5 is told.
const RANGE_WITH_MD5_MAX: u64 = 4 << 20;
/// Bytes that one read of the file server moves, the reads that are under way at once, and those whose bytes wait for who takes them.
const PIECE_BYTES: u64 = 1 << 20;
const READS_AT_ONCE: usize = 2;
const PIECES_AHEAD: usize = 2;
/// Parts of a file that are on their way to who takes them, beside those.
const PARTS_AHEAD: u32 = 4;
/// Bytes that are sent at once, without a turn: they fit into what connections hold anyway.
const SHORT_BYTES: u64 = 64 << 10;
/// How long who takes a file may take nothing of it: its open keeps others from the file.
const TAKEN_WITHIN: Duration = Duration::from_secs(30);
/// How long a range that is wanted whole waits for room.
const ROOM_WITHIN: Duration = Duration::from_secs(10);

/// Create File. One that exists is made anew.
pub(super) async fn create(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    match ask.header("x-ms-type") {
        Some(kind) if kind.eq_ignore_ascii_case("file") => {}
        Some(_) => return Err(Failure::header("x-ms-type", "file")),
        None => return Err(Failure::missing("x-ms-type")),
    }
    let length = length(ask)?.ok_or_else(|| Failure::missing("x-ms-content-length"))?;
    if ask.body.len() as u64 > length.min(PUT_MAX) {
        return Err(Failure::new(Code::RequestBodyTooLarge, "The body is longer than the file, or than 4 MiB."));
    }
    let md5 = ask.checked_md5().await?;
    service.check_fits(ask, length)?;
    let place = service.place(ask).await?;
    let mut properties = SmbProperties::asked(service, ask, place.share, None)?;
    properties = if ask.restores()? { properties.alone() } else { properties.of_new() };
    let kept = Kept::asked(ask)?;
    let made = Made::of(service, ask, &place, &properties).await?;
    if matches!(made, Made::Leased(_)) {
        properties = properties.made_anew();
    }
    made.finish(&place, kept, &properties, async |file| fill(file, length, &ask.body).await).await?;
    let mut answer = changed(service, ask, StatusCode::CREATED, false).await?;
    if let Some(md5) = md5 {
        set(&mut answer, "content-md5", &md5);
    }
    Ok(answer)
}

async fn fill(file: &File, length: u64, body: &Bytes) -> Result<(), Failure> {
    // What nobody has written takes no space, and is none of its ranges.
    if length > body.len() as u64 {
        file.make_sparse().await?;
    }
    file.set_length(length).await?;
    if !body.is_empty() {
        file.write(0, body.clone()).await?;
    }
    Ok(())
}

/// What was refused because the file is read-only is told so.
pub(super) async fn read_only(place: &Place, failure: Failure) -> Failure {
    if !matches!(failure.code, Code::AuthorizationFailure | Code::CannotDeleteFileOrDirectory) {
        return failure;
    }
    match place.tree.facts(&place.path).await {
        Ok(facts) if facts.attributes.contains(FileAttributes::READONLY) => {
            Failure::new(Code::ReadOnlyAttribute, "The specified resource is read-only and cannot be modified.")
        }
        Ok(_) | Err(_) => failure,
    }
}

impl Service {
    /// A file is no longer than its share is large, however little of it takes space.
    fn check_fits(&self, ask: &Ask, length: u64) -> Result<(), Failure> {
        if length > super::quota_gib(&self.record(ask)?).saturating_mul(1 << 30) {
            return Err(Failure::new(Code::ShareSizeLimitReached, "The share is not as large as the file would be."));
        }
        Ok(())
    }
}

/// The length that a request gives a file.
fn length(ask: &Ask) -> Result<Option<u64>, Failure> {
    const NAME: &str = "x-ms-content-length";
    let Some(text) = ask.header(NAME) else { return Ok(None) };
    let length: i128 = text.parse().map_err(|_| Failure::header(NAME, "a number"))?;
    let length = u64::try_from(length).ok().filter(|length| *length <= LENGTH_MAX);
    let wrong = || Failure::new(Code::OutOfRangeInput, format!("A file has 0 to {LENGTH_MAX} bytes."));
    length.ok_or_else(wrong).map(Some)
}

/// Set File Properties: length, HTTP headers, attributes, times, permission. HTTP headers that are not named are gone then.
pub(super) async fn set_properties(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let length = length(ask)?;
    let mut content = kept::content(&ask.parts.headers)?;
    content.entry(Content::Type).or_default();
    service.check_fits(ask, length.unwrap_or_default())?;
    let place = service.place(ask).await?;
    let properties = SmbProperties::asked(service, ask, place.share, None)?;
    let leased = lease::of_change(service, ask, &place).await?;
    if let Some(length) = length {
        match leased {
            Some(file) => file.set_length(length).await?,
            None => {
                let resized = place.with(of_file(Access::Write), async |file| Ok(file.set_length(length).await?)).await;
                if let Err(failure) = resized {
                    return Err(read_only(&place, failure).await);
                }
            }
        }
    }
    let known = Described::of(service, &place, false).await?;
    // One that is read-only may be told to be so no more, and keeps the type that nobody has set.
    let left = content.iter().filter(|(_, value)| !value.is_empty());
    let is_kept = known.facts.attributes.contains(FileAttributes::READONLY) && left.eq(&known.kept.content);
    if known.kept.content != content && !is_kept {
        Kept::change(&place, |kept| kept.content = content).await?;
    }
    properties.set_at(&place, false).await?;
    changed(service, ask, StatusCode::OK, false).await
}

/// Set File Metadata, and that of a directory: all of it.
pub(super) async fn set_metadata(service: &Service, ask: &Ask, is_directory: bool) -> Result<Answer, Failure> {
    let metadata = kept::metadata(&ask.parts.headers)?;
    let place = service.place(ask).await?;
    lease::of_change(service, ask, &place).await?;
    let known = Described::of(service, &place, is_directory).await?;
    if known.kept.metadata != metadata {
        let changing = Kept::change(&place, |kept| kept.metadata = metadata).await;
        if let Err(failure) = changing {
            return Err(read_only(&place, failure).await);
        }
    }
    changed(service, ask, StatusCode::OK, is_directory).await
}

/// Get File Properties.
pub(super) async fn properties(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let place = service.place(ask).await?;
    lease::check_read(service, ask, &place).await?;
    let described = Described::asked(service, &place, false).await?;
    // Its length is told, and nothing is sent: who asks wants the headers.
    let (_, pieces) = channel(1);
    let mut answer = empty(StatusCode::OK);
    *answer.body_mut() = Piecewise::Sent { left: described.facts.end_of_file, pieces };
    tell(service, &place, &described, &mut answer, false);
    Ok(answer)
}

/// Get File.
pub(super) async fn get(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    if ask.header("x-ms-structured-body").is_some() {
        return Err(Failure::new(Code::UnsupportedHeader, "Bodies in segments (x-ms-structured-body) are not sent."));
    }
    let place = service.place(ask).await?;
    lease::check_read(service, ask, &place).await?;
    let file = place.open(OpenOptions { security: Security::Read, ..of_file(Access::Read) }).await?;
    let begun = begin((service, ask), &place, &file).await;
    let (answer, sent) = match begun {
        Ok(begun) => begun,
        Err(failure) => {
            file.close().await?;
            return Err(failure);
        }
    };
    let Some((range, sender)) = sent else {
        file.close().await?;
        return Ok(answer);
    };
    tokio::spawn(send(file, range, sender, ask.is_secure));
    Ok(answer)
}

/// The head of an answer with a file's bytes, and what is to be sent behind it; nothing where the answer is whole.
async fn begin(
    (service, ask): (&Service, &Ask),
    place: &Place,
    file: &File,
) -> Result<(Answer, Option<(Range<u64>, Sender<Piece>)>), Failure> {
    let length = file.facts().end_of_file;
    let range = ask.range_of(length)?;
    let sent = range.clone().unwrap_or(0..length);
    let wants_md5 = ask.is_true("x-ms-range-get-content-md5");
    if wants_md5 && (range.is_none() || sent.end - sent.start > RANGE_WITH_MD5_MAX) {
        return Err(Failure::header("x-ms-range-get-content-md5", "true for a range of 4 MiB at most"));
    }
    let is_short = sent.end - sent.start <= SHORT_BYTES;
    let described = Described::through(service, place, file).await?;
    let mut answer = empty(if range.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK });
    tell(service, place, &described, &mut answer, range.is_some());
    if range.is_some() {
        let text = format!("bytes {}-{}/{length}", sent.start, sent.end - 1);
        set(&mut answer, CONTENT_RANGE.as_str(), &text);
    }
    if wants_md5 {
        let data = read_all(service, file, sent).await?;
        set(&mut answer, "content-md5", &checksum::md5(data.clone()).await?);
        *answer.body_mut() = Piecewise::Whole(Some(data).filter(|data| !data.is_empty()));
        return Ok((answer, None));
    }
    if is_short {
        let data = read_short(file, sent).await?;
        *answer.body_mut() = Piecewise::Whole(Some(data).filter(|data| !data.is_empty()));
        return Ok((answer, None));
    }
    answer.extensions_mut().insert(Arc::new(ask.line.turn().ok_or_else(Failure::too_long)?));
    let (sender, pieces) = channel(PIECES_AHEAD);
    *answer.body_mut() = Piecewise::Sent { left: sent.end - sent.start, pieces };
    Ok((answer, Some((sent, sender))))
}

/// A range that is sent at once. What it was read into is free again.
async fn read_short(file: &File, range: Range<u64>) -> Result<Bytes, Failure> {
    let length = (range.end - range.start) as usize;
    if length == 0 {
        return Ok(Bytes::new());
    }
    let data: Bytes = file.read(range.start, length).await?.into();
    if data.len() < length {
        return Err(Failure::new(Code::InvalidRange, "The file has become shorter."));
    }
    Ok(Bytes::copy_from_slice(&data))
}

/// Bytes of a file, and the room that they take as long as somebody has them.
struct Whole {
    data: Vec<u8>,
    _room: Turn,
}

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

/// A range that is wanted whole, once there is room for it.
pub(super) async fn read_all(service: &Service, file: &File, mut range: Range<u64>) -> Result<Bytes, Failure> {
    let length = range.end - range.start;
    let wanted = usize::try_from(length).map_err(|_| Failure::new(Code::InvalidRange, "The range is too long."))?;
    let room = service.files.room.some_within(&running::share(), wanted, ROOM_WITHIN).await;
    let busy = "The server holds as much for the share as it may; try again.";
    let room = room.ok_or_else(|| Failure::new(Code::ServerBusy, busy))?;
    let mut data = Vec::with_capacity(wanted);
    while !range.is_empty() {
        let piece = file.read(range.start, (range.end - range.start).min(PIECE_BYTES) as usize).await?;
        if piece.is_empty() {
            return Err(Failure::new(Code::InvalidRange, "The file has become shorter."));
        }
        range.start += piece.len() as u64;
        data.extend_from_slice(&piece);
    }
    Ok(Bytes::from_owner(Whole { data, _room: room }))
}

/// Sends a file's bytes as far as somebody takes them, and closes it.
async fn send(file: Opened, range: Range<u64>, to: Sender<Piece>, is_secure: bool) {
    let open = KeptOpen::for_parts(PARTS_AHEAD);
    let starts = range.clone().step_by(PIECE_BYTES as usize);
    let read = |start: u64| {
        let length = (range.end - start).min(PIECE_BYTES);
        file.read_piece(start, length as usize).map_ok(move |piece| (piece, length))
    };
    let mut pieces = stream::iter(starts.map(read)).buffered(READS_AT_ONCE);
    while let Some(Ok((piece, wanted))) = pieces.next().await {
        let is_whole = piece.length() as u64 == wanted;
        let taken = async {
            match sendable(piece, &open, is_secure).await {
                Some(piece) => to.send(piece).await.is_ok(),
                None => false,
            }
        };
        // The file may have been cut meanwhile.
        match open.while_taken(TAKEN_WITHIN, taken).await {
            Some(true) if is_whole => {}
            Some(_) => break,
            None => {
                open.abandon();
                break;
            }
        }
    }
    drop((pieces, to));
    // What is sent from where it is is the file's as long as that is open.
    open.end(TAKEN_WITHIN).await;
    // The open goes with its session where even that is not to be had.
    if let Err(error) = file.close().await {
        tracing::debug!(%error, "a file that was read for the REST interface could not be closed");
    }
}

/// A piece as it is sent: from where it is where nothing has to be done with it.
async fn sendable(piece: client::Piece, open: &KeptOpen, is_secure: bool) -> Option<Piece> {
    let data = match piece {
        client::Piece::Bytes(bytes) => return Some(Piece::Bytes(bytes)),
        client::Piece::Elsewhere(data) if is_secure => return data.fetch().await.ok().map(Piece::Bytes),
        client::Piece::Elsewhere(data) => data,
    };
    let data: Box<dyn Any> = data;
    let unread = data.downcast::<Unread>().ok()?;
    Part::of(unread.0, open).await.map(Piece::File)
}

/// Delete File.
pub(super) async fn delete(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let place = service.place(ask).await?;
    if let Some(file) = lease::of_change(service, ask, &place).await? {
        file.delete_on_close().await?;
        lease::forget(service, &place, &file);
        File::clone(&file).close().await?;
        return Ok(accepted());
    }
    remove(&place, false).await?;
    Ok(accepted())
}

/// Removes a directory, or a file, and nothing that is the other.
pub(super) async fn remove(place: &Place, is_directory: bool) -> Result<(), Failure> {
    let options = OpenOptions { directory: Some(is_directory), link_itself: true, ..of_file(Access::Delete) };
    let removed = place.with(options, async |file| Ok(file.delete_on_close().await?)).await;
    match removed {
        Ok(_) => Ok(()),
        Err(failure) => Err(read_only(place, failure).await),
    }
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
    if !writes && !ask.body.is_empty() {
        return Err(Failure::header("Content-Length", "0 where a range is cleared"));
    }
    let sent = ask.checked_md5().await?;
    let changing = change_range(service, ask, range.end, async |file| match writes {
        true => Ok(file.write(range.start, ask.body.clone()).await?),
        false => Ok(file.zero(range.clone()).await?),
    });
    // Who has sent none is told that of what was written.
    let summing = async {
        match sent {
            None if writes => checksum::md5(ask.body.clone()).await.map(Some),
            sent => Ok(sent),
        }
    };
    let (answer, md5) = tokio::join!(changing, summing);
    let mut answer = answer?;
    if let Some(md5) = md5? {
        set(&mut answer, "content-md5", &md5);
    }
    Ok(answer)
}

/// Changes a part of a file that ends at `end`, by the open of its lease where it has one.
pub(super) async fn change_range(
    service: &Service,
    ask: &Ask,
    end: u64,
    work: impl AsyncFnOnce(&File) -> Result<(), Failure>,
) -> Result<Answer, Failure> {
    let keeps_time = ask.keeps_written()?;
    let place = service.place(ask).await?;
    let work = async |file: &File| {
        if end > file.facts_now().await?.end_of_file {
            return Err(Failure::new(Code::InvalidRange, "The range ends behind the file."));
        }
        if !keeps_time {
            return work(file).await;
        }
        file.set_basic(client::Basic { write: FREEZE, ..client::Basic::default() }).await?;
        let done = work(file).await;
        file.set_basic(client::Basic { write: THAW, ..client::Basic::default() }).await?;
        done
    };
    let facts = match lease::of_change(service, ask, &place).await? {
        Some(file) => {
            work(&file).await?;
            file.facts_now().await?
        }
        None => match place.open(of_file(Access::Write)).await {
            Ok(file) => closing(file, work).await?.1,
            Err(failure) => return Err(read_only(&place, failure).await),
        },
    };
    Ok(of_facts(StatusCode::CREATED, &facts))
}

/// Times that stop, or resume, the change of a time through an open (MS-FSCC 2.4.7).
pub(super) const FREEZE: client::FileTime = client::FileTime(u64::MAX);
const THAW: client::FileTime = client::FileTime(u64::MAX - 1);

impl Ask {
    /// The file is one that was elsewhere before, and has what is said of it and nothing that new ones have.
    fn restores(&self) -> Result<bool, Failure> {
        const NAME: &str = "x-ms-file-property-semantics";
        match self.header(NAME).map(str::to_ascii_lowercase).as_deref() {
            None | Some("new") => Ok(false),
            Some("restore") => Ok(true),
            Some(_) => Err(Failure::header(NAME, "New, or Restore")),
        }
    }

    /// The time of the last write stays as it is.
    fn keeps_written(&self) -> Result<bool, Failure> {
        const NAME: &str = "x-ms-file-last-write-time";
        match self.header(NAME).map(str::to_ascii_lowercase).as_deref() {
            None | Some("now") => Ok(false),
            Some("preserve") => Ok(true),
            Some(_) => Err(Failure::header(NAME, "now, or preserve")),
        }
    }
}

fn tell(service: &Service, place: &Place, described: &Described, answer: &mut Answer, is_part: bool) {
    if !described.kept.content.contains_key(&Content::Type) {
        set(answer, CONTENT_TYPE.as_str(), "application/octet-stream");
    }
    described.tell(service, place, answer);
    described.kept.tell(answer, is_part);
    set(answer, ACCEPT_RANGES.as_str(), "bytes");
    set(answer, "x-ms-type", "File");
}
