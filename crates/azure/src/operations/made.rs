//! A file that a request makes, whole or not at all: what has the name until then stays until this one is as it is to be.

use std::time::{Duration, Instant};

use client::{
    Access, Disposition, File, FileAttributes, OpenOptions, Security, SecurityDescriptor, SecurityInformation, Sharing,
    Status,
};
use tokio::time::sleep;

use super::file::read_only;
use super::kept::Kept;
use super::kept_stream::Written;
use super::opening::{Opened, Place, of_file};
use super::permission::{self, AUDITED, TOLD};
use super::smb_properties::SmbProperties;
use super::unfinished::Noted;
use super::{Ask, Service, lease};
use crate::failure::{Code, Failure, Lost};

/// How long a name may be taken by what others have open only for a moment, and how long each look is apart.
const IN_USE_FOR: Duration = Duration::from_secs(2);
const AGAIN_AFTER: Duration = Duration::from_millis(15);

/// A file that a request makes.
pub(super) enum Made {
    /// One beside the place, of another name, which takes the place when it is whole.
    Beside(Box<Beside>),
    /// The file that is there, by the open of its lease.
    Leased(lease::Leased),
}

/// A file beside the place where it is to be.
pub(super) struct Beside {
    file: Opened,
    at: Place,
    noted: Option<Noted>,
    replaced: Option<Replaced>,
    may_overwrite: bool,
}

/// What has the name until then, and what of it stays.
struct Replaced {
    /// Its path, as the names in it were given: they are not those that a request has where cases differ.
    path: String,
    /// These parts of its security descriptor: what is audited, and all where the request names no permission.
    descriptor: SecurityDescriptor,
    parts: SecurityInformation,
}

impl Made {
    /// Makes it beside what is there, where who asks may write that over. A leased one is to be emptied: its lease is of that file.
    pub(super) async fn of(
        service: &Service,
        ask: &Ask,
        place: &Place,
        properties: &SmbProperties,
    ) -> Result<Made, Failure> {
        let may_overwrite = ask.by.may_overwrite();
        let exists = || Failure::new(Code::ResourceAlreadyExists, "The specified resource already exists.");
        if let Some(file) = lease::of_change(service, ask, place).await? {
            return if may_overwrite { Ok(Made::Leased(file)) } else { Err(exists()) };
        }
        let replaced = match may_overwrite {
            true => there(place, properties).await?,
            false if place.tree.facts(&place.path).await.is_ok() => return Err(exists()),
            // What comes there meanwhile keeps it from its place.
            false => None,
        };
        let security = match &replaced {
            Some(_) => Security::ChangeAudited,
            None if properties.has_permission() => Security::Change,
            None => Security::Nothing,
        };
        let (file, at, noted) = beside(service, ask, place, security).await?;
        let secured = async {
            if let Some(Replaced { descriptor, parts, .. }) = &replaced {
                permission::set_parts(&file, descriptor, *parts).await?;
            }
            properties.set_permission(&file).await
        };
        match secured.await {
            Ok(()) => Ok(Made::Beside(Box::new(Beside { file, at, noted, replaced, may_overwrite }))),
            Err(failure) => {
                undo_noted(file, noted).await;
                Err(failure)
            }
        }
    }

    /// Gives it all that it is to have. One that could not be given that goes again, and what was there stays.
    pub(super) async fn finish(
        self,
        place: &Place,
        kept: Kept,
        properties: &SmbProperties,
        work: impl AsyncFnOnce(&File) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Beside { file, at, noted, replaced, may_overwrite } = match self {
            Made::Beside(beside) => *beside,
            Made::Leased(file) => {
                // What may be refused comes before the old data go.
                kept.replace(place, Written::InTime).await?;
                file.set_length(0).await?;
                work(&file).await?;
                return properties.set_at(place, false).await;
            }
        };
        let whole = async {
            if kept != Kept::default() {
                kept.replace(&at, if replaced.is_some() { Written::Now } else { Written::InTime }).await?;
            }
            // It goes with its session, or with the server, where either ends in the middle.
            file.delete_on_close().await?;
            work(&file).await?;
            properties.deletable().set_basic(&file).await?;
            if replaced.is_some() {
                // The disk has what takes the place before it does: a power cut leaves the one or the other.
                file.flush().await?;
            }
            Ok(file.keep().await?)
        };
        let path = replaced.as_ref().map_or(&place.path, |replaced| &replaced.path);
        let placed = match whole.await {
            Ok(()) => take_place(&file, path, may_overwrite).await,
            refused => refused,
        };
        if let Err(refused) = placed {
            match where_is(&file, place).await {
                Is::Elsewhere => undo_noted(file, noted).await,
                // What is there is whole, whatever was answered.
                Is::There => closed(file, noted).await,
                Is::Unknown => {
                    noted.into_iter().for_each(Noted::left);
                    let _ = file.close().await;
                }
            }
            return Err(refused);
        }
        // What it was renamed for has changed its time of change, and its attributes.
        let done = properties.set_basic(&file).await;
        closed(file, noted).await;
        done
    }
}

/// Looks at what has the name, which may be nothing.
async fn there(place: &Place, properties: &SmbProperties) -> Result<Option<Replaced>, Failure> {
    let there = OpenOptions { security: Security::ReadAudited, ..of_file(Access::Write) };
    let file = match soon(|| place.open(there)).await {
        Ok(file) => file,
        Err(failure) if failure.code == Code::ResourceNotFound => return Ok(None),
        Err(failure) => return Err(read_only(place, failure).await),
    };
    let parts = if properties.has_permission() { AUDITED } else { AUDITED | TOLD };
    let (descriptor, path) = (file.descriptor(parts).await, file.path().await);
    file.close().await?;
    Ok(Some(Replaced { path: path?, descriptor: descriptor?, parts }))
}

/// Makes a file of another name in the same directory. Nobody else has it open.
async fn beside(
    service: &Service,
    ask: &Ask,
    place: &Place,
    security: Security,
) -> Result<(Opened, Place, Option<Noted>), Failure> {
    let at = place.beside()?;
    let making = OpenOptions {
        disposition: Disposition::Create,
        sharing: Sharing::Nothing,
        security,
        ..of_file(Access::WriteAndDelete)
    };
    let noted = service.unfinished.note(ask.by.account(), &at).await;
    match at.open(making).await {
        Ok(file) => Ok((file, at, noted)),
        Err(failure) => {
            // What comes late may have been made, and so may what was never answered.
            let may_be_there = failure.code == Code::ClientCacheFlushDelay || failure.lost != Lost::Nothing;
            noted.into_iter().for_each(if may_be_there { Noted::left } else { Noted::end });
            Err(failure)
        }
    }
}

/// Gives a file the name of what it takes the place of.
async fn take_place(file: &File, path: &str, replaces: bool) -> Result<(), Failure> {
    soon(move || async move { file.rename(path, replaces).await.map_err(in_use) }).await
}

/// Does something, and does it again for a while where somebody has the file open: mostly that is over in a moment.
pub(super) async fn soon<T, F: Future<Output = Result<T, Failure>>>(work: impl Fn() -> F) -> Result<T, Failure> {
    let until = Instant::now() + IN_USE_FOR;
    loop {
        match work().await {
            Err(failure) if failure.code == Code::SharingViolation && Instant::now() < until => {}
            done => return done,
        }
        sleep(AGAIN_AFTER).await;
    }
}

/// Where a file is whose renaming was refused: an error may tell of what was done.
enum Is {
    There,
    Elsewhere,
    Unknown,
}

async fn where_is(file: &File, place: &Place) -> Is {
    match place.tree.facts_and_id(&place.path).await {
        Ok((_, Some(id))) if file.id() == Some(id) => Is::There,
        Ok((_, Some(_))) => Is::Elsewhere,
        Ok((_, None)) => Is::Unknown,
        Err(error) => match error.status() {
            Some(Status::OBJECT_NAME_NOT_FOUND) => Is::Elsewhere,
            _ => Is::Unknown,
        },
    }
}

/// Closes a file that has its place.
async fn closed(file: Opened, noted: Option<Noted>) {
    noted.into_iter().for_each(Noted::end);
    let _ = file.close().await;
}

/// A file is replaced where nobody has it open.
pub(super) fn in_use(error: client::Error) -> Failure {
    let failure = Failure::from(error);
    match failure.code {
        Code::AuthorizationFailure => {
            Failure::new(Code::SharingViolation, "The specified resource may be in use by an SMB client.")
        }
        _ => failure,
    }
}

/// Closes a new file or directory, or takes it away again where it could not be made as was asked.
pub(super) async fn end(file: Opened, done: Result<(), Failure>) -> Result<(), Failure> {
    match done {
        Ok(()) => Ok(file.close().await?),
        Err(failure) => {
            undo(file).await;
            Err(failure)
        }
    }
}

/// Takes a new file away again. False where it is left.
async fn undo(file: Opened) -> bool {
    let mut deleted = file.delete_on_close().await;
    if deleted.is_err() {
        // It may have become read-only by now.
        let attributes = FileAttributes::NORMAL;
        let _ = file.set_basic(client::Basic { attributes, ..client::Basic::default() }).await;
        deleted = file.delete_on_close().await;
    }
    let undone = deleted.and(file.close().await);
    if let Err(error) = &undone {
        tracing::debug!(%error, "a file that could not be made for the REST interface is left");
    }
    undone.is_ok()
}

/// The same of one that may be recorded.
async fn undo_noted(file: Opened, noted: Option<Noted>) {
    let is_gone = undo(file).await;
    noted.into_iter().for_each(if is_gone { Noted::end } else { Noted::left });
}
