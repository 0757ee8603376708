//! All that an answer tells of a file or directory.

use client::{Access, Facts, File, OnDiskId, OpenOptions, Security};
use hyper::StatusCode;
use tokio::join;

use super::kept::Kept;
use super::lease;
use super::opening::{Place, closing};
use super::permission::TOLD;
use super::{Ask, Service};
use crate::answer::{Answer, empty, set, set_facts};
use crate::failure::{Code, Failure};

/// What is known of a file or directory.
pub(super) struct Described {
    pub(super) facts: Facts,
    pub(super) kept: Kept,
    id: Option<OnDiskId>,
    parent: Option<OnDiskId>,
    permission_key: Option<String>,
}

impl Described {
    /// Looks at what a request names, which has to be a directory or has to be none.
    pub(super) async fn of(service: &Service, place: &Place, is_directory: bool) -> Result<Self, Failure> {
        let options = OpenOptions {
            access: Access::Attributes,
            directory: Some(is_directory),
            security: Security::Read,
            wants_id: true,
            ..OpenOptions::default()
        };
        let file = place.open(options).await?;
        closing(file, async |file| Described::through(service, place, file).await).await.map(|(described, _)| described)
    }

    /// The same for who asks what is there: one of the other kind is not there.
    pub(super) async fn asked(service: &Service, place: &Place, is_directory: bool) -> Result<Self, Failure> {
        Described::of(service, place, is_directory).await.map_err(|failure| match failure.code {
            Code::ResourceTypeMismatch => Failure { code: Code::ResourceNotFound, ..failure },
            _ => failure,
        })
    }

    /// The same through an open that may read the descriptor.
    pub(super) async fn through(service: &Service, place: &Place, file: &File) -> Result<Self, Failure> {
        // A descriptor that cannot be read keeps nobody from the rest.
        let (descriptor, parent, kept) = join!(file.descriptor(TOLD), parent(place), Kept::of(place));
        let permission_key = descriptor.ok().and_then(|of| service.files.permissions.remember(place.share, &of));
        Ok(Described { facts: file.facts(), kept: kept?, id: file.id(), parent, permission_key })
    }

    /// The headers that tell it.
    pub(super) fn tell(&self, service: &Service, place: &Place, answer: &mut Answer) {
        set_facts(answer, &self.facts);
        if let Some(id) = self.id {
            set(answer, "x-ms-file-id", &id.disk_file_id.to_string());
        }
        // The root's is its own.
        if let Some(id) = self.parent.or(self.id) {
            set(answer, "x-ms-file-parent-id", &id.disk_file_id.to_string());
        }
        if let Some(key) = &self.permission_key {
            set(answer, "x-ms-file-permission-key", key);
        }
        if !self.facts.is_directory() {
            lease::tell(service, place, self.id, answer);
        }
    }
}

async fn parent(place: &Place) -> Option<OnDiskId> {
    if place.path.is_empty() {
        return None;
    }
    let (above, _) = place.path.rsplit_once('\\').unwrap_or(("", ""));
    place.tree.facts_and_id(above).await.ok()?.1
}

/// An answer without a body that tells what a request has made of a file or directory.
pub(super) async fn changed(
    service: &Service,
    ask: &Ask,
    status: StatusCode,
    is_directory: bool,
) -> Result<Answer, Failure> {
    let place = service.place(ask).await?;
    let described = Described::of(service, &place, is_directory).await?;
    let mut answer = empty(status);
    described.tell(service, &place, &mut answer);
    Ok(answer)
}
