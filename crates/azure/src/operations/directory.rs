//! Directories.

use client::{Access, Disposition, FileAttributes, OpenOptions, Security, Sharing};
use hyper::StatusCode;

use super::described::{Described, changed};
use super::file::remove;
use super::kept::Kept;
use super::kept_stream::Written;
use super::made::end;
use super::opening::of_directory;
use super::smb_properties::SmbProperties;
use super::{Ask, Service, accepted};
use crate::answer::{Answer, empty};
use crate::failure::Failure;

/// Create Directory.
pub(super) async fn create(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let place = service.place(ask).await?;
    let properties = SmbProperties::asked(service, ask, place.share, None)?;
    let kept = Kept::asked(ask)?;
    let options = OpenOptions {
        disposition: Disposition::Create,
        // Nobody is in it before it is known who may be.
        sharing: Sharing::Nothing,
        security: if properties.has_permission() { Security::Change } else { Security::Nothing },
        attributes: FileAttributes::NONE,
        ..of_directory(Access::WriteAndDelete)
    };
    let made = place.open(options).await?;
    let done = async {
        properties.set_permission(&made).await?;
        if kept != Kept::default() {
            kept.replace(&place, Written::InTime).await?;
        }
        properties.set_basic(&made).await
    };
    let done = done.await;
    end(made, done).await?;
    changed(service, ask, StatusCode::CREATED, true).await
}

/// Get Directory Properties.
pub(super) async fn properties(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let place = service.place(ask).await?;
    let described = Described::asked(service, &place, true).await?;
    let mut answer = empty(StatusCode::OK);
    described.tell(service, &place, &mut answer);
    described.kept.tell(&mut answer, false);
    Ok(answer)
}

/// Set Directory Properties: attributes, times, permission.
pub(super) async fn set_properties(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let place = service.place(ask).await?;
    SmbProperties::asked(service, ask, place.share, None)?.set_at(&place, true).await?;
    changed(service, ask, StatusCode::OK, true).await
}

/// Delete Directory.
pub(super) async fn delete(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    remove(&service.place(ask).await?, true).await?;
    Ok(accepted())
}
