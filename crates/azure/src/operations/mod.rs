//! What is done: the operations of the service ("File service REST API").

mod asked;
mod changed_ranges;
mod checksum;
mod copy;
mod delegation;
mod described;
mod directory;
mod disk;
mod file;
mod freed;
mod handles;
mod kept;
mod kept_stream;
mod lease;
mod listing;
mod made;
mod opening;
mod operation;
mod permission;
mod range;
mod ranges;
mod read;
mod rename;
mod running;
mod service;
mod service_properties;
mod share;
mod share_acl;
mod share_lease;
mod share_properties;
mod smb_properties;
mod unfinished;

use std::sync::Arc;
use std::time::Instant;

use control::{KnownCatalog, Operations, ShareRecord};
use hyper::StatusCode;

use crate::answer::{Answer, empty};
use crate::failure::{Code, Failure, Lost};
use crate::sessions::Sessions;
use crate::turns::{Turn, Turns};

use self::asked::{Ask, check_hosts};
pub(crate) use self::asked::{Asked, Proof};
pub(crate) use self::file::PUT_MAX;
pub(crate) use self::operation::Operation;
pub(crate) use self::read::{Said, read_body, read_head};
pub(crate) use self::running::Running;
pub(crate) use self::service_properties::rules;
pub(crate) use self::share::new_name as new_share_name;
pub(crate) use self::share_acl::parsed as policies;
pub(crate) use self::share_lease::{guid, new_guid};
pub(crate) use self::share_properties::{LeaseTold, etag as share_etag, of_snapshot, quota_gib, tier_name};
pub(crate) use self::unfinished::{Unfinished, sweep};

/// What operations work with.
pub(crate) struct Service {
    pub(crate) catalog: KnownCatalog,
    pub(crate) operations: Operations,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) files: Files,
    pub(crate) unfinished: Unfinished,
}

/// Bytes of files that are held at a time for being looked at whole.
const ROOM_BYTES: usize = 32 << 20;

/// The turn in which an answer was made, which is over when it is paid for what the answer takes.
#[derive(Clone)]
pub(crate) struct Making {
    _turn: Arc<Turn>,
}

/// What is known of files while the server runs.
pub(crate) struct Files {
    leases: lease::Leases,
    permissions: permission::Permissions,
    room: Turns,
    /// Turns for listings of directories.
    listings: Turns,
    /// Turns for comparing a file with what it was.
    comparisons: Turns,
}

impl Default for Files {
    fn default() -> Self {
        Files {
            leases: lease::Leases::default(),
            permissions: permission::Permissions::default(),
            room: Turns::new(ROOM_BYTES),
            listings: Turns::new(listing::AT_ONCE),
            comparisons: Turns::new(changed_ranges::AT_ONCE),
        }
    }
}

impl Service {
    /// Does what is asked. What changes nothing is done once more where the session that it was done by has ended, as it does when the account's key is
    /// replaced; of what changes something nobody knows how far it came.
    ///
    /// Who asks has to be allowed it each time: the key may be the one that was replaced.
    pub(crate) async fn perform(self: Arc<Self>, asked: Arc<Asked>) -> Result<Answer, Failure> {
        match asked.held.running() {
            Some(running) => running.scope(self.performed(&asked)).await,
            None => self.performed(&asked).await,
        }
    }

    async fn performed(&self, asked: &Arc<Asked>) -> Result<Answer, Failure> {
        let mut ask = Ask::of(asked, self)?;
        let mut done = self.once(&ask).await;
        if ask.operation.changes_nothing() && done.as_ref().is_err_and(|failure| failure.lost == Lost::Session) {
            ask = Ask::of(asked, self)?;
            done = self.once(&ask).await;
        }
        if !done.as_ref().is_err_and(|failure| failure.is_too_long) {
            told(&ask, &done);
        }
        done
    }

    async fn once(&self, ask: &Ask) -> Result<Answer, Failure> {
        let since = Instant::now();
        let done = self.done(ask).await.map_err(|failure| self.of_disk(ask, failure));
        match done.as_ref().map_or_else(|failure| failure.lost, |_| Lost::Nothing) {
            Lost::Nothing => {}
            Lost::Share => {
                // Which of the two was lost is not told.
                let source = ask.source.as_ref().filter(|source| source.target.account == ask.by.account());
                let source = source.and_then(|source| Some((source.target.share.as_deref()?, source.snapshot)));
                let target = ask.target.share.as_deref().map(|share| (share, ask.snapshot));
                for (share, snapshot) in target.into_iter().chain(source) {
                    if let Ok(share) = self.share_named(ask, share) {
                        self.sessions.leave(&share, snapshot).await;
                    }
                }
            }
            Lost::Session => self.sessions.forget(&ask.by, since).await,
        }
        done
    }

    async fn done(&self, ask: &Ask) -> Result<Answer, Failure> {
        permission::fetch(self, ask).await?;
        match ask.operation {
            Operation::ListShares => service::list_shares(self, ask).await,
            Operation::GetServiceProperties => service_properties::get(self, ask),
            Operation::SetServiceProperties => service_properties::set(self, ask).await,

            Operation::GetUserDelegationKey => delegation::key(self, ask),

            Operation::CreateShare => share::create(self, ask).await,
            Operation::GetShareProperties => share_properties::get(self, ask).await,
            Operation::SetShareProperties => share_properties::set(self, ask).await,
            Operation::SetShareMetadata => share_properties::set_metadata(self, ask).await,
            Operation::DeleteShare => share::delete(self, ask).await,
            Operation::UndeleteShare => share::undelete(self, ask).await,
            Operation::SnapshotShare => share::snapshot(self, ask).await,
            Operation::GetShareStats => share::stats(self, ask).await,
            Operation::LeaseShare => share_lease::lease(self, ask).await,
            Operation::GetShareAcl => share_acl::get(self, ask),
            Operation::SetShareAcl => share_acl::set(self, ask).await,

            Operation::CreatePermission => permission::create(self, ask).await,
            Operation::GetPermission => permission::get(self, ask),

            Operation::CreateDirectory => directory::create(self, ask).await,
            Operation::GetDirectoryProperties => directory::properties(self, ask).await,
            Operation::SetDirectoryProperties => directory::set_properties(self, ask).await,
            Operation::SetDirectoryMetadata => file::set_metadata(self, ask, true).await,
            Operation::DeleteDirectory => directory::delete(self, ask).await,
            Operation::ListDirectory => listing::list(self, ask).await,

            Operation::CreateFile => file::create(self, ask).await,
            Operation::GetFile => file::get(self, ask).await,
            Operation::GetFileProperties => file::properties(self, ask).await,
            Operation::SetFileProperties => file::set_properties(self, ask).await,
            Operation::SetFileMetadata => file::set_metadata(self, ask, false).await,
            Operation::DeleteFile => file::delete(self, ask).await,
            Operation::RenameDirectory | Operation::RenameFile => rename::rename(self, ask).await,
            Operation::LeaseFile => lease::lease(self, ask).await,
            Operation::PutRange => file::put_range(self, ask).await,
            Operation::PutRangeFromUrl => copy::put_range(self, ask).await,
            Operation::ListRanges => ranges::list(self, ask).await,
            Operation::CopyFile => copy::copy(self, ask).await,
            Operation::AbortCopy => copy::abort(self, ask).await,
            Operation::ListHandles => handles::list(self, ask).await,
            Operation::CloseHandles => handles::close(self, ask).await,
            Operation::CreateSymbolicLink | Operation::GetSymbolicLink | Operation::CreateHardLink => Err(of_nfs()),
        }
    }

    /// The share that is asked for, if it is one of the account's.
    fn record(&self, ask: &Ask) -> Result<ShareRecord, Failure> {
        self.share_named(ask, ask.target.share.as_deref().unwrap_or_default())
    }

    /// A share of the account by its name, which is there for the hosts that may use it alone.
    fn share_named(&self, ask: &Ask, name: &str) -> Result<ShareRecord, Failure> {
        let share = self.catalog.share_of(ask.by.account(), name).ok_or_else(|| Failure::no_share(name))?;
        check_hosts(&share, ask.peer.ip())?;
        Ok(share)
    }

    /// Does something that waits for the catalog's disk.
    async fn in_catalog<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Operations) -> Result<T, control::Error> + Send + 'static,
    ) -> Result<T, Failure> {
        let operations = self.operations.clone();
        let done = running::begin_blocking(move || work(&operations)).await;
        Ok(done.map_err(|_| Failure::new(Code::InternalError, "The change failed in the server."))??)
    }
}

/// Tells who looks for a cause what was asked, by which client, and what it was answered.
fn told(ask: &Ask, done: &Result<Answer, Failure>) {
    let agent = ask.header("user-agent").unwrap_or_default();
    // Some operations are several, by one header.
    let part = ask.header("x-ms-lease-action").or_else(|| ask.header("x-ms-write")).unwrap_or_default();
    let status = done.as_ref().map_or_else(|failure| failure.status(), Answer::status).as_u16();
    tracing::debug!(operation = ?ask.operation, part, status, agent, "asked by REST");
}

/// Links are made and read by this interface on NFS shares alone, which there are none of.
fn of_nfs() -> Failure {
    Failure::new(Code::UnsupportedQueryParameter, "Links are of NFS shares, and this share is one of SMB.")
}

/// Done, with nothing to tell.
fn accepted() -> Answer {
    empty(StatusCode::ACCEPTED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turns::Taker;

    #[test]
    fn a_slow_share_leaves_turns_and_room_for_others_of_its_account_and_for_other_accounts() {
        let files = Files::default();
        for (turns, count, most) in [(&files.room, 4 << 20, 2), (&files.listings, 1, 4), (&files.comparisons, 1, 1)] {
            let [slow, other, quick] = [("first", "slow"), ("first", "other"), ("second", "quick")]
                .map(|(account, share)| Taker::of_share(account, share));
            let held: Vec<_> = std::iter::from_fn(|| turns.some_now(&slow, count)).collect();
            assert_eq!(held.len(), most);
            let others: Vec<_> = std::iter::from_fn(|| turns.some_now(&other, count)).collect();
            assert!(!others.is_empty() && turns.some_now(&quick, count).is_some());
        }
    }
}
