//! Copy File, Abort Copy, and Put Range from URL: from files of the same account, and done when they are answered. Nothing is fetched from elsewhere.

use client::{Access, Facts, File, OpenOptions, Security, SecurityDescriptor};
use hyper::StatusCode;
use jiff::Timestamp;

use super::described::changed;
use super::file::{PUT_MAX, change_range, read_all};
use super::freed::Freed;
use super::kept::{Copied, Kept};
use super::made::Made;
use super::opening::{Place, closing, of_file};
use super::permission::{self, TOLD};
use super::range::parsed;
use super::smb_properties::SmbProperties;
use super::{Ask, Service, checksum, guid, lease, running};
use crate::answer::{Answer, http_date, set};
use crate::failure::{Code, Failure};
use crate::target::Target;

const SOURCE: &str = "x-ms-copy-source";
/// Ranges of a file that are looked for at a time.
const RANGES_AHEAD: usize = 4096;
/// Bytes of a file that are copied at a time.
const STEP_BYTES: usize = 64 << 20;
/// Bytes of a source's URL, as the service has it.
const URL_BYTES_MAX: usize = 2 << 10;

/// The file that is copied from, which has to be one of the same account.
async fn source(service: &Service, ask: &Ask) -> Result<Place, Failure> {
    let is_here = |from: &Target| from.account == ask.target.account && !from.names.is_empty();
    let from = ask.source.as_ref().filter(|from| is_here(&from.target));
    let elsewhere = || {
        let message = "The source is not a file of this account. This server copies within an account, and fetches nothing from elsewhere.";
        Failure::new(Code::CannotVerifyCopySource, message)
    };
    let from = from.ok_or_else(elsewhere)?;
    let name = from.target.share.as_deref().unwrap_or_default();
    let record = service.share_named(ask, name)?;
    service.place_in((ask, &from.origin), (&record, from.snapshot), &from.target).await
}

/// Copy File.
pub(super) async fn copy(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let url = ask.header(SOURCE).filter(|url| url.len() <= URL_BYTES_MAX);
    // What proves that it may be read stays with who had it.
    let url = url.and_then(|url| url.split('?').next()).ok_or_else(|| Failure::header(SOURCE, "a URL of 2 KiB"))?;
    let source = source(service, ask).await?;
    let from = source.open(OpenOptions { security: Security::Read, ..of_file(Access::Read) }).await?;
    let (id, _) = closing(from, async |from| copy_from(service, ask, url, &source, from).await).await?;
    let mut answer = changed(service, ask, StatusCode::ACCEPTED, false).await?;
    set(&mut answer, "x-ms-copy-id", &id);
    set(&mut answer, "x-ms-copy-status", "success");
    Ok(answer)
}

async fn copy_from(service: &Service, ask: &Ask, url: &str, source: &Place, from: &File) -> Result<String, Failure> {
    let (facts, place) = (from.facts(), service.place(ask).await?);
    let mut properties = SmbProperties::asked(service, ask, place.share, Some(&facts))?;
    properties = properties.or_permission(permission_of_source(ask, from).await?);
    if ask.header("x-ms-file-copy-set-archive").is_none() || ask.is_true("x-ms-file-copy-set-archive") {
        properties = properties.archived();
    }
    let mut kept = Kept::of(source).await?;
    let asked = Kept::asked(ask)?;
    if !asked.metadata.is_empty() {
        kept.metadata = asked.metadata;
    }
    let id = lease::new_id()?;
    let completed = http_date(Timestamp::now());
    kept.copy = Some(Copied { id: id.clone(), source: url.to_owned(), length: facts.end_of_file, completed });
    if is_same(source, &place, from).await {
        return Err(Failure::header(SOURCE, "another file than the one that is written"));
    }
    // Who may not write over a file does not make it writable either.
    let frees = ask.is_true("x-ms-file-copy-ignore-readonly") && ask.by.may_overwrite();
    let freed = match place.tree.facts(&place.path).await {
        Ok(facts) if frees => Freed::of(&place, &facts).await?,
        _ => None,
    };
    let made = async {
        let made = Made::of(service, ask, &place, &properties).await?;
        made.finish(&place, kept, &properties, async |to| copy_data(from, to, &facts).await).await
    };
    Freed::written_over(freed, &place, made).await?;
    Ok(id)
}

/// The descriptor of the source, where it is to be copied.
async fn permission_of_source(ask: &Ask, from: &File) -> Result<Option<SecurityDescriptor>, Failure> {
    const MODE: &str = "x-ms-file-permission-copy-mode";
    match ask.header(MODE).map(str::to_ascii_lowercase).as_deref() {
        None => Ok(None),
        Some("override") if permission::is_named(ask) => Ok(None),
        Some("override") => Err(Failure::missing("x-ms-file-permission")),
        Some("source") => Ok(Some(from.descriptor(TOLD).await?)),
        Some(_) => Err(Failure::header(MODE, "source, or override")),
    }
}

async fn is_same(source: &Place, target: &Place, from: &File) -> bool {
    let there = target.tree.facts_and_id(&target.path).await.ok().and_then(|(_, id)| id);
    source.share == target.share && there.is_some() && there == from.id()
}

/// Copies what has been written of a file; what has not takes no space in the copy either.
async fn copy_data(from: &File, to: &File, facts: &Facts) -> Result<(), Failure> {
    let length = facts.end_of_file;
    let mut at = 0;
    let key = from.copy_key().await?;
    let mut ranges = from.allocated(0..length, RANGES_AHEAD).await?;
    if ranges.len() != 1 || ranges.first() != Some(&(0..length)) {
        to.make_sparse().await?;
    }
    to.set_length(length).await?;
    while !ranges.is_empty() {
        for range in ranges {
            at = range.end;
            for start in range.step_by(STEP_BYTES) {
                to.copy_from(&key, start..at.min(start + STEP_BYTES as u64)).await?;
                running::gets_on();
            }
        }
        ranges = from.allocated(at..length, RANGES_AHEAD).await?;
    }
    Ok(())
}

/// Abort Copy: none is ever pending.
pub(super) async fn abort(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    if !ask.header("x-ms-copy-action").is_some_and(|action| action.eq_ignore_ascii_case("abort")) {
        return Err(Failure::header("x-ms-copy-action", "abort"));
    }
    if ask.query.get("copyid").is_none_or(|id| guid("copyid", id).is_err()) {
        return Err(Failure::new(Code::InvalidQueryParameterValue, "copyid is no id of a copy, which is a GUID."));
    }
    let place = service.place(ask).await?;
    place.tree.facts(&place.path).await?;
    Err(Failure::new(Code::NoPendingCopyOperation, "There is currently no pending copy operation."))
}

/// Put Range from URL.
pub(super) async fn put_range(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    if !ask.header("x-ms-write").is_some_and(|text| text.eq_ignore_ascii_case("update")) {
        return Err(Failure::header("x-ms-write", "update"));
    }
    if !ask.body.is_empty() {
        return Err(Failure::header("Content-Length", "0"));
    }
    let range = ask.range_to_change()?;
    let (start, last) = match ask.header("x-ms-source-range") {
        Some(text) => parsed(text)?,
        None => (0, None),
    };
    let end = last.map_or(start.saturating_add(range.end - range.start), |last| last.saturating_add(1));
    if end - start != range.end - range.start || end - start > PUT_MAX {
        return Err(Failure::header("x-ms-source-range", "as many bytes as x-ms-range has, and 4 MiB at most"));
    }
    let source = source(service, ask).await?;
    let read = async |file: &File| {
        if end > file.facts().end_of_file {
            return Err(Failure::new(Code::InvalidRange, "The range of the source ends behind it."));
        }
        read_all(service, file, start..end).await
    };
    let (data, _) = closing(source.open(of_file(Access::Read)).await?, read).await?;
    let crc64 = checksum::crc64(data.clone()).await?;
    check_crc(ask, &crc64)?;
    let mut answer =
        change_range(service, ask, range.end, async |file| Ok(file.write(range.start, data).await?)).await?;
    set(&mut answer, "x-ms-content-crc64", &crc64);
    Ok(answer)
}

fn check_crc(ask: &Ask, found: &str) -> Result<(), Failure> {
    if ask.header("x-ms-source-content-crc64").is_some_and(|wanted| wanted != found) {
        return Err(Failure::new(Code::Crc64Mismatch, format!("The CRC64 of the source's range is {found}.")));
    }
    let is_unmet = ask.header("x-ms-source-if-match-crc64").is_some_and(|wanted| wanted != found)
        || ask.header("x-ms-source-if-none-match-crc64").is_some_and(|wanted| wanted == found);
    if is_unmet {
        let message = "The source condition specified using HTTP conditional header(s) is not met.";
        return Err(Failure::new(Code::SourceConditionNotMet, message));
    }
    Ok(())
}
