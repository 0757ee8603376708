//! A file that a request makes, whole or not at all: what has the name until then stays until this one is as it is to be.

use client::{Access, Disposition, File, FileAttributes, OpenOptions, Security, Sharing};

use super::file::read_only;
use super::kept::Kept;
use super::kept_stream::Written;
use super::opening::{Opened, Place, of_file};
use super::permission::{self, TOLD};
use super::smb_properties::SmbProperties;
use super::unfinished::Noted;
use super::{Ask, Service, lease};
use crate::failure::{Code, Failure};

/// How often a file is found and lost again by who makes it.
const RACES_MAX: usize = 4;

/// A file that a request makes.
pub(super) enum Made {
    /// It was not there. Nobody else has it open before it is as asked for.
    New(Opened),
    /// Something is there, which stays until this one, of another name beside it, is whole and takes its place.
    Anew { file: Opened, beside: Place, noted: Option<Noted> },
    /// The same file, by the open of its lease.
    Leased(lease::Leased),
}

impl Made {
    /// Makes it, or another one beside what is there, where who asks may write that over. A leased one is to be emptied: its lease is of that file.
    pub(super) async fn of(
        service: &Service,
        ask: &Ask,
        place: &Place,
        properties: &SmbProperties,
    ) -> Result<Made, Failure> {
        if let Some(file) = lease::of_change(service, ask, place).await? {
            if !ask.by.may_overwrite() {
                return Err(Failure::new(Code::ResourceAlreadyExists, "The specified resource already exists."));
            }
            return Ok(Made::Leased(file));
        }
        let security = if properties.has_permission() { Security::Change } else { Security::Nothing };
        let making = OpenOptions {
            disposition: Disposition::Create,
            sharing: Sharing::Nothing,
            security,
            ..of_file(Access::WriteAndDelete)
        };
        let reading = if properties.has_permission() { Security::Nothing } else { Security::Read };
        let there = OpenOptions { security: reading, ..of_file(Access::Write) };
        for _ in 0..RACES_MAX {
            match place.open(making).await {
                Ok(file) => return permitted(file, properties).await.map(Made::New),
                Err(failure) if failure.code == Code::ResourceAlreadyExists && ask.by.may_overwrite() => {}
                Err(failure) => return Err(failure),
            }
            match place.open(there).await {
                Ok(there) => return anew((service, ask), place, there, (making, properties)).await,
                Err(failure) if failure.code == Code::ResourceNotFound => {}
                Err(failure) => return Err(read_only(place, failure).await),
            }
        }
        Err(Failure::new(Code::SharingViolation, "Others make and delete the file at the same time; try again."))
    }

    /// Gives it all that it is to have. One that could not be given that goes again, and what was there stays.
    pub(super) async fn finish(
        self,
        place: &Place,
        kept: Kept,
        properties: &SmbProperties,
        work: impl AsyncFnOnce(&File) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self {
            Made::Leased(file) => {
                // What may be refused comes before the old data go.
                kept.replace(place, Written::InTime).await?;
                file.set_length(0).await?;
                work(&file).await?;
                properties.set_at(place, false).await
            }
            Made::New(file) => {
                let made = async {
                    work(&file).await?;
                    if kept != Kept::default() {
                        kept.replace(place, Written::InTime).await?;
                    }
                    properties.set_basic(&file).await
                };
                let done = made.await;
                end(file, done).await
            }
            Made::Anew { file, beside, noted } => {
                let made = async {
                    work(&file).await?;
                    properties.deletable().set_basic(&file).await?;
                    // The disk has what takes the place before it does: a power cut leaves the one or the other.
                    match kept == Kept::default() {
                        true => file.flush().await?,
                        false => kept.replace(&beside, Written::Now).await?,
                    }
                    file.rename(&place.path, true).await.map_err(in_use)
                };
                if let Err(refused) = made.await {
                    undo_noted(file, noted).await;
                    return Err(refused);
                }
                if let Some(noted) = noted {
                    noted.end().await;
                }
                // What it was renamed for has changed its time of change, and its attributes.
                let done = properties.set_basic(&file).await;
                file.close().await?;
                done
            }
        }
    }
}

/// Makes a file that is to take the place of another one, beside it. Where no permission is asked for it has that of the other one.
async fn anew(
    (service, ask): (&Service, &Ask),
    place: &Place,
    there: Opened,
    (making, properties): (OpenOptions, &SmbProperties),
) -> Result<Made, Failure> {
    let permission = match properties.has_permission() {
        true => Ok(None),
        false => there.descriptor(TOLD).await.map(Some),
    };
    there.close().await?;
    let permission = permission?;
    let making = OpenOptions { security: Security::Change, ..making };
    let beside = place.beside()?;
    let noted = service.unfinished.note(ask.by.account(), &beside).await;
    let file = match (beside.open(making).await, noted.as_ref()) {
        (Ok(file), Some(noted)) => {
            noted.made(&file).await;
            file
        }
        (Ok(file), None) => file,
        (Err(failure), _) => {
            // What comes late may have been made.
            if let Some(noted) = noted.filter(|_| failure.code != Code::ClientCacheFlushDelay) {
                noted.end().await;
            }
            return Err(failure);
        }
    };
    let done = match &permission {
        Some(permission) => permission::set(&file, permission).await,
        None => properties.set_permission(&file).await,
    };
    match done {
        Ok(()) => Ok(Made::Anew { file, beside, noted }),
        Err(failure) => {
            undo_noted(file, noted).await;
            Err(failure)
        }
    }
}

/// Gives a new file the permission that is asked for.
async fn permitted(file: Opened, properties: &SmbProperties) -> Result<Opened, Failure> {
    match properties.set_permission(&file).await {
        Ok(()) => Ok(file),
        Err(failure) => {
            undo(file).await;
            Err(failure)
        }
    }
}

/// A file is replaced where nobody has it open.
fn in_use(error: client::Error) -> Failure {
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

/// The same of one that may be recorded: it stays so where it is left.
async fn undo_noted(file: Opened, noted: Option<Noted>) {
    if undo(file).await
        && let Some(noted) = noted
    {
        noted.end().await;
    }
}
