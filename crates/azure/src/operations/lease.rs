//! Leases of files: who has one has the file to itself for writing and deleting. It is an open that this interface holds and shares for reading alone, so
//! that SMB clients are kept out as others who ask here are. Leases end with the server.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt::Write;
use std::ops::Deref;
use std::sync::Arc;

use client::{Access, File, OnDiskId, OpenOptions, Sharing, Status};
use hyper::StatusCode;
use secure::random;
use server::admin::{AuditSpeaker, NotedOrigin};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::opening::{Place, of_file};
use super::{Ask, Service};
use crate::answer::{Answer, empty, set, set_facts};
use crate::failure::{Code, Failure};

const ID: &str = "x-ms-lease-id";
const PROPOSED: &str = "x-ms-proposed-lease-id";
/// Leases of one share.
const LEASES_MAX: usize = 1000;
/// The part of what an account may have open that its leases may be: each request opens something, too.
const OPENS_PART: u64 = 2;
/// Hexadecimal digits of a lease's id.
const DIGITS: usize = 32;

/// The leases there are, by share and file.
#[derive(Default)]
pub(crate) struct Leases(parking_lot::Mutex<HashMap<i64, HashMap<FileNumber, Lease>>>);

/// A file by its numbers, whatever its name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FileNumber {
    volume: u64,
    file: u64,
}

struct Lease {
    id: String,
    /// The account whose session has the file open.
    account: String,
    /// None where it was broken.
    file: Option<File>,
    /// The session that has the file open.
    session: Option<u64>,
    turns: Turns,
}

/// There are as many leases as there may be.
struct TooMany {
    most: u64,
    /// Of what.
    of: &'static str,
    /// The open of the one that is refused.
    left: Option<File>,
}

/// Who uses the open of a lease: one request at a time, on whose behalf it is then.
#[derive(Clone)]
struct Turns {
    speaker: AuditSpeaker,
    turn: Arc<Mutex<()>>,
}

/// The open of a file's lease, while a request changes the file by it.
pub(super) struct Leased {
    file: File,
    _turn: OwnedMutexGuard<()>,
}

impl Deref for Leased {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl From<OnDiskId> for FileNumber {
    fn from(id: OnDiskId) -> Self {
        FileNumber { volume: id.volume_id, file: id.disk_file_id }
    }
}

impl Leases {
    fn has_any(&self, share: i64) -> bool {
        self.0.lock().get(&share).is_some_and(|leases| !leases.is_empty())
    }

    /// Looks at the lease of a file, if there is one.
    fn with<T>(&self, place: &Place, file: FileNumber, look: impl FnOnce(Option<&mut Lease>) -> T) -> T {
        let session = place.tree.session_id();
        // One whose session has ended, or was followed by another, protects nothing any more.
        let is_over = |lease: &Lease| {
            let is_others = session.is_some() && lease.session != session;
            lease.file.as_ref().is_some_and(|file| is_others || !file.is_open())
        };
        self.with_all(place, |of_share| {
            if of_share.get(&file).is_some_and(is_over)
                && let Some(left) = of_share.remove(&file).and_then(|lease| lease.file)
            {
                drop(tokio::spawn(left.close()));
            }
            look(of_share.get_mut(&file))
        })
    }

    /// Looks at all leases of a share.
    fn with_all<T>(&self, place: &Place, look: impl FnOnce(&mut HashMap<FileNumber, Lease>) -> T) -> T {
        let mut leases = self.0.lock();
        let of_share = leases.entry(place.share).or_default();
        let seen = look(of_share);
        if of_share.is_empty() {
            leases.remove(&place.share);
        }
        seen
    }

    /// Removes the lease of a file where it is the one that is meant; fails where that says so. Gives the open that it had.
    fn remove<E>(
        &self,
        place: &Place,
        file: FileNumber,
        is_meant: impl FnOnce(Option<&Lease>) -> Result<bool, E>,
    ) -> Result<Option<File>, E> {
        self.with_all(place, |of_share| {
            let removed = if is_meant(of_share.get(&file))? { of_share.remove(&file) } else { None };
            Ok(removed.and_then(|lease| lease.file))
        })
    }

    /// Adds one, where there are not as many of the share, or `of_account_max` of the account.
    fn add(&self, share: i64, file: FileNumber, lease: Lease, of_account_max: u64) -> Result<(), TooMany> {
        let mut leases = self.0.lock();
        let is_its = |other: &Lease| other.account == lease.account && other.file.as_ref().is_some_and(File::is_open);
        let of_account = leases.values().flat_map(HashMap::values).filter(|other| is_its(other)).count() as u64;
        if of_account >= of_account_max {
            return Err(TooMany { most: of_account_max, of: "An account", left: lease.file });
        }
        let of_share = leases.entry(share).or_default();
        if of_share.len() >= LEASES_MAX {
            // Those that were broken are remembered as long as there is room.
            of_share.retain(|_, lease| lease.file.as_ref().is_some_and(File::is_open));
        }
        if of_share.len() >= LEASES_MAX && !of_share.contains_key(&file) {
            return Err(TooMany { most: LEASES_MAX as u64, of: "A share", left: lease.file });
        }
        of_share.insert(file, lease);
        Ok(())
    }
}

/// The headers that tell whether a file is leased.
pub(super) fn tell(service: &Service, place: &Place, id: Option<OnDiskId>, answer: &mut Answer) {
    let told = id
        .filter(|_| service.files.leases.has_any(place.share))
        .map(|id| service.files.leases.with(place, id.into(), |lease| lease.map(|lease| lease.file.is_some())));
    let (state, status) = match told.flatten() {
        Some(true) => ("leased", "locked"),
        Some(false) => ("broken", "unlocked"),
        None => ("available", "unlocked"),
    };
    set(answer, "x-ms-lease-state", state);
    set(answer, "x-ms-lease-status", status);
    if state == "leased" {
        set(answer, "x-ms-lease-duration", "infinite");
    }
}

/// The open of the file's lease, where it is leased to who asks. Fails where it is leased to somebody else, or not and a lease is named.
pub(super) async fn of_change(service: &Service, ask: &Ask, place: &Place) -> Result<Option<Leased>, Failure> {
    by_header(service, (ask, &ask.origin), ID, place).await
}

/// The same for what a header of that name says of a file, on behalf of this origin.
pub(super) async fn by_header(
    service: &Service,
    (ask, origin): (&Ask, &NotedOrigin),
    name: &str,
    place: &Place,
) -> Result<Option<Leased>, Failure> {
    let Some((mut file, mut turns)) = named(service, ask.header(name), place).await? else { return Ok(None) };
    loop {
        let turn = Arc::clone(&turns.turn).lock_owned().await;
        // Until then the lease may have come to have another id, or another open.
        let Some((now, of_now)) = named(service, ask.header(name), place).await? else { return Ok(None) };
        if now.is_same(&file) {
            turns.speaker.speaks_for(&origin.speaker());
            return Ok(Some(Leased { file, _turn: turn }));
        }
        (file, turns) = (now, of_now);
    }
}

/// Gives up a file's lease, where a header of that name says which it is.
pub(super) async fn give_up(service: &Service, ask: &Ask, name: &str, place: &Place) -> Result<(), Failure> {
    if let Some((file, _)) = named(service, ask.header(name), place).await? {
        forget(service, place, &file);
        file.close().await?;
    }
    Ok(())
}

/// The open of the lease that is named, and who uses it.
async fn named(service: &Service, given: Option<&str>, place: &Place) -> Result<Option<(File, Turns)>, Failure> {
    if given.is_none() && !service.files.leases.has_any(place.share) {
        return Ok(None);
    }
    let given = given.map(|text| id_of(ID, text)).transpose()?;
    let id = match place.tree.facts_and_id(&place.path).await {
        Ok((_, Some(id))) => id,
        Err(error) if given.is_none() && is_missing(&error) => return Ok(None),
        Ok((_, None)) => return given.map_or(Ok(None), |_| Err(not_present())),
        Err(error) => return Err(error.into()),
    };
    service.files.leases.with(place, id.into(), |lease| {
        match (lease.map(|lease| (lease.id.clone(), lease.file.clone().map(|file| (file, lease.turns.clone())))), given)
        {
            (Some((id, Some(leased))), Some(given)) if id == given => Ok(Some(leased)),
            (Some((_, Some(_))), Some(_)) => Err(Failure::new(
                Code::LeaseIdMismatchWithFileOperation,
                "The lease ID specified did not match the lease ID for the file.",
            )),
            (Some((_, Some(_))), None) => Err(Failure::new(
                Code::LeaseIdMissing,
                "There is currently a lease on the file and no lease ID was specified in the request.",
            )),
            (Some((id, None)), Some(given)) if id == given => {
                Err(Failure::new(Code::LeaseLost, "A lease ID was specified, but the lease for the file was broken."))
            }
            (Some((_, None)) | None, Some(_)) => Err(not_present()),
            (Some((_, None)) | None, None) => Ok(None),
        }
    })
}

/// A lease goes with its file; others may have the name then.
pub(super) fn forget(service: &Service, place: &Place, file: &File) {
    if let Some(id) = file.id() {
        let is_its = |lease: Option<&Lease>| {
            let open = lease.and_then(|lease| lease.file.as_ref());
            Ok::<_, Infallible>(open.is_some_and(|open| open.is_same(file)))
        };
        drop(service.files.leases.remove(place, id.into(), is_its));
    }
}

/// Fails where a reader names a lease that is not the file's.
pub(super) async fn check_read(service: &Service, ask: &Ask, place: &Place) -> Result<(), Failure> {
    if ask.header(ID).is_none() {
        return Ok(());
    }
    named(service, ask.header(ID), place).await.map(drop)
}

fn is_missing(error: &client::Error) -> bool {
    matches!(error.status(), Some(Status::OBJECT_NAME_NOT_FOUND | Status::OBJECT_PATH_NOT_FOUND))
}

fn not_present() -> Failure {
    Failure::new(Code::LeaseNotPresentWithFileOperation, "There is currently no lease on the file.")
}

/// Lease File.
pub(super) async fn lease(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let place = service.place(ask).await?;
    let action = ask.header("x-ms-lease-action").map(str::to_ascii_lowercase);
    let given = ask.header(ID).map(|text| id_of(ID, text)).transpose()?;
    let proposed = ask.header(PROPOSED).map(|text| id_of(PROPOSED, text)).transpose()?;
    let needed = |id: Option<String>, name| id.ok_or_else(|| Failure::missing(name));
    match action.as_deref() {
        Some("acquire") => acquire(service, ask, &place, proposed).await,
        Some("change") => change(service, &place, &needed(given, ID)?, needed(proposed, PROPOSED)?).await,
        Some("release") => release(service, &place, &needed(given, ID)?).await,
        Some("break") => end(service, &place, given).await,
        Some(_) => Err(Failure::header("x-ms-lease-action", "acquire, change, release, or break")),
        None => Err(Failure::missing("x-ms-lease-action")),
    }
}

async fn acquire(service: &Service, ask: &Ask, place: &Place, proposed: Option<String>) -> Result<Answer, Failure> {
    if ask.header("x-ms-lease-duration").is_some_and(|text| text != "-1") {
        return Err(Failure::header("x-ms-lease-duration", "-1: leases of files have no end"));
    }
    let number = number_of(place).await?;
    let leased = |id: &Option<String>| {
        service.files.leases.with(place, number, |lease| match lease {
            Some(lease) if lease.file.is_some() => Some(id.as_ref() == Some(&lease.id)),
            Some(_) | None => None,
        })
    };
    match leased(&proposed) {
        Some(true) => return answer(service, place, StatusCode::CREATED, proposed).await,
        Some(false) => return Err(already()),
        None => {}
    }
    let options = OpenOptions { sharing: Sharing::Reading, ..of_file(Access::WriteAndDelete) };
    let file = match place.open(options).await {
        Ok(file) => file,
        // Another request was faster.
        Err(failure) if failure.code == Code::SharingViolation && leased(&proposed).is_some() => return Err(already()),
        Err(failure) => return Err(failure),
    };
    let number = file.id().map_or(number, Into::into);
    let id = match proposed {
        Some(id) => id,
        None => new_id()?,
    };
    let turns = Turns { speaker: ask.origin.speaker(), turn: Arc::default() };
    let account = ask.by.account().to_owned();
    let lease = Lease { id: id.clone(), account, file: Some(file.kept()), session: place.tree.session_id(), turns };
    let of_account_max = service.operations.opens_of_account_max() / OPENS_PART;
    if let Err(TooMany { most, of, left }) = service.files.leases.add(place.share, number, lease, of_account_max) {
        if let Some(file) = left {
            file.close().await?;
        }
        let message = format!("{of} has {most} leases of files here at most; release one first.");
        return Err(Failure::new(Code::HandleLimitExceeded, message));
    }
    answer(service, place, StatusCode::CREATED, Some(id)).await
}

async fn change(service: &Service, place: &Place, given: &str, proposed: String) -> Result<Answer, Failure> {
    let number = number_of(place).await?;
    service.files.leases.with(place, number, |lease| match lease {
        Some(lease) if lease.file.is_none() => Err(absent()),
        Some(lease) if lease.id == given || lease.id == proposed => {
            lease.id.clone_from(&proposed);
            Ok(())
        }
        Some(_) => Err(mismatch()),
        None => Err(absent()),
    })?;
    answer(service, place, StatusCode::OK, Some(proposed)).await
}

async fn release(service: &Service, place: &Place, given: &str) -> Result<Answer, Failure> {
    let number = number_of(place).await?;
    let removed = service.files.leases.remove(place, number, |lease| match lease {
        Some(lease) if lease.id == given => Ok(true),
        Some(_) => Err(mismatch()),
        None => Err(absent()),
    })?;
    if let Some(file) = removed {
        file.close().await?;
    }
    answer(service, place, StatusCode::OK, None).await
}

/// Break: a lease of a file has no time left, so that it ends at once.
async fn end(service: &Service, place: &Place, given: Option<String>) -> Result<Answer, Failure> {
    let number = number_of(place).await?;
    let file = service.files.leases.with(place, number, |lease| match lease {
        Some(lease) if given.as_ref().is_none_or(|given| *given == lease.id) => Ok(lease.file.take()),
        Some(_) => Err(mismatch()),
        None => Err(absent()),
    })?;
    if let Some(file) = file {
        file.close().await?;
    }
    let mut answer = answer(service, place, StatusCode::ACCEPTED, None).await?;
    set(&mut answer, "x-ms-lease-time", "0");
    Ok(answer)
}

async fn number_of(place: &Place) -> Result<FileNumber, Failure> {
    let (facts, id) = place.tree.facts_and_id(&place.path).await?;
    if facts.is_directory() {
        return Err(Failure::new(Code::ResourceTypeMismatch, "It is a directory; files have leases."));
    }
    id.map(Into::into).ok_or_else(|| Failure::new(Code::InternalError, "The file has no number."))
}

async fn answer(_: &Service, place: &Place, status: StatusCode, id: Option<String>) -> Result<Answer, Failure> {
    let facts = place.tree.facts(&place.path).await?;
    let mut answer = empty(status);
    set_facts(&mut answer, &facts);
    if let Some(id) = id {
        set(&mut answer, ID, &id);
    }
    Ok(answer)
}

fn already() -> Failure {
    Failure::new(Code::LeaseAlreadyPresent, "There is already a lease present.")
}

fn absent() -> Failure {
    Failure::new(Code::LeaseNotPresentWithLeaseOperation, "There is currently no lease on the file.")
}

fn mismatch() -> Failure {
    let message = "The lease ID specified did not match the lease ID for the file.";
    Failure::new(Code::LeaseIdMismatchWithLeaseOperation, message)
}

/// An id as it is kept and told. It may come in any of the forms that .NET reads a GUID in.
fn id_of(name: &str, text: &str) -> Result<String, Failure> {
    let digits: String = text.trim().chars().filter(|character| !"-{}()".contains(*character)).collect();
    let is_guid = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_guid || text.len() > DIGITS + 6 {
        return Err(Failure::header(name, "a GUID"));
    }
    Ok(hyphenated(&digits.to_ascii_lowercase()))
}

fn hyphenated(digits: &str) -> String {
    let parts = [0..8, 8..12, 12..16, 16..20, 20..DIGITS];
    parts.map(|part| digits.get(part).unwrap_or_default()).join("-")
}

/// An id that nobody guesses.
pub(super) fn new_id() -> Result<String, Failure> {
    let mut bytes = [0; DIGITS / 2];
    random(&mut bytes).map_err(|_| Failure::new(Code::InternalError, "This machine gave no randomness."))?;
    let mut digits = String::new();
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(digits, "{byte:02x}");
    }
    Ok(hyphenated(&digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_guids_in_any_form() {
        let wanted = "01234567-89ab-cdef-0123-456789abcdef";
        for text in [
            wanted,
            "0123456789ABCDEF0123456789abcdef",
            "{01234567-89AB-CDEF-0123-456789ABCDEF}",
            "(01234567-89ab-cdef-0123-456789abcdef)",
        ] {
            assert_eq!(id_of(ID, text).as_deref(), Ok(wanted), "{text}");
        }
        for text in ["", "1", "0123456789abcdef0123456789abcdeg", "0123456789abcdef0123456789abcdef0", &"-".repeat(99)]
        {
            assert_eq!(id_of(ID, text).map_err(|failure| failure.code), Err(Code::InvalidHeaderValue), "{text}");
        }
        let new = new_id().unwrap();
        assert_eq!(id_of(ID, &new), Ok(new));
    }
}
