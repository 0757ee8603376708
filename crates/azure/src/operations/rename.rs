//! Rename File and Rename Directory.

use std::collections::BTreeMap;

use client::{Access, File, FileAttributes, OpenOptions};
use hyper::StatusCode;

use super::described::changed;
use super::file::read_only;
use super::freed::Freed;
use super::kept::{Content, Kept};
use super::kept_stream;
use super::made::{in_use, soon};
use super::opening::{Place, closing, of_file};
use super::smb_properties::SmbProperties;
use super::{Ask, Operation, Service, lease};
use crate::answer::Answer;
use crate::failure::{Code, Failure};
use crate::target::Target;

/// Renames within the share, over a file that has the name where that is asked for, and gives it the properties that the request names.
pub(super) async fn rename(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let is_directory = ask.operation == Operation::RenameDirectory;
    let is_here = |from: &Target| from.account == ask.target.account && from.share == ask.target.share;
    let from = ask.source.as_ref().filter(|from| is_here(&from.target));
    let wrong = || Failure::header("x-ms-file-rename-source", "the URL of a file or directory of the same share");
    let from = from.ok_or_else(wrong)?;
    if ask.target.names.is_empty() {
        return Err(Failure::new(Code::InvalidUri, "A share's root cannot be renamed over."));
    }
    let to = service.place(ask).await?;
    let source = Place {
        tree: to.tree.marked(from.origin.context()),
        share: to.share,
        share_name: to.share_name.clone(),
        path: from.target.path(),
    };
    let properties = SmbProperties::asked(service, ask, to.share, None)?;
    let given = Given::asked(ask, is_directory)?;
    let replaces = ask.is_true("x-ms-file-rename-replace-if-exists") && ask.by.may_overwrite();
    let leased = match is_directory {
        true => None,
        false => lease::by_header(service, (ask, &from.origin), "x-ms-source-lease-id", &source).await?,
    };
    let work = async |file: &File| {
        let freed = match replaces {
            true => free(service, ask, &to).await?,
            false => None,
        };
        Freed::written_over(freed, &to, renamed(file, &source, (&to, replaces), &given)).await
    };
    let done = match leased {
        Some(file) => work(&file).await,
        None => {
            let options = OpenOptions { directory: Some(is_directory), link_itself: true, ..of_file(Access::Delete) };
            match source.open(options).await {
                Ok(file) => closing(file, work).await.map(drop),
                Err(failure) => Err(failure),
            }
        }
    };
    if let Err(failure) = done {
        let failure = read_only(&source, failure).await;
        let is_in_use = is_directory && failure.code == Code::SharingViolation;
        let in_use = || Failure::new(Code::FileOpenBySmbClient, "An SMB client has something open in the directory.");
        return Err(if is_in_use { in_use() } else { failure });
    }
    properties.set_at(&to, is_directory).await?;
    changed(service, ask, StatusCode::OK, is_directory).await
}

/// Renames what is open, and gives it what the request says. The room for that is taken by then: where there is none nothing is renamed.
async fn renamed(file: &File, source: &Place, (to, replaces): (&Place, bool), given: &Given) -> Result<(), Failure> {
    let is_read_only = file.facts().attributes.contains(FileAttributes::READONLY);
    let rename = move || async move {
        // The account may do everything: what it may not is because of what others have open, or of the file.
        let refused = if is_read_only { Failure::from } else { in_use };
        file.rename(&to.path, replaces).await.map_err(refused)
    };
    if given.is_nothing() {
        return soon(rename).await;
    }
    kept_stream::reserve(source, |kept| given.give(kept)).await?;
    match soon(rename).await {
        Ok(()) => Kept::change(to, |kept| given.give(kept)).await,
        Err(refused) => {
            kept_stream::give_back(source).await;
            Err(refused)
        }
    }
}

/// What a request gives beside the name; what it leaves out stays.
struct Given {
    metadata: BTreeMap<String, String>,
    kind: Option<String>,
}

impl Given {
    fn asked(ask: &Ask, is_directory: bool) -> Result<Self, Failure> {
        let kind = ask.header("x-ms-content-type").filter(|_| !is_directory).map(str::to_owned);
        Ok(Given { metadata: Kept::asked(ask)?.metadata, kind })
    }

    fn is_nothing(&self) -> bool {
        self.metadata.is_empty() && self.kind.is_none()
    }

    fn give(&self, kept: &mut Kept) {
        if !self.metadata.is_empty() {
            kept.metadata.clone_from(&self.metadata);
        }
        if let Some(kind) = &self.kind {
            kept.content.insert(Content::Type, kind.clone());
        }
    }
}

/// Readies a file for being replaced: its lease ends where it is named, and it is no longer read-only where that is to be ignored.
async fn free(service: &Service, ask: &Ask, to: &Place) -> Result<Option<Freed>, Failure> {
    let Ok(facts) = to.tree.facts(&to.path).await else { return Ok(None) };
    if facts.is_directory() {
        return Err(Failure::new(Code::ResourceAlreadyExists, "The name is a directory's, which is never replaced."));
    }
    if facts.attributes.contains(FileAttributes::READONLY) && !ask.is_true("x-ms-file-rename-ignore-readonly") {
        return Err(Failure::new(Code::ReadOnlyAttribute, "The file that has the name is read-only."));
    }
    lease::give_up(service, ask, "x-ms-destination-lease-id", to).await?;
    Freed::of(to, &facts).await
}
