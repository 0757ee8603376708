//! What operators and clients have a running server do with snapshots of shares.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use store::Store;

use crate::catalog::refuse_of_other;
use crate::managed::changed;
use crate::share_lease::may_change;
use crate::snapshots::{self, SnapshotsOf, Turn};
use crate::{
    AccountName, AzureShare, By, Catalog, Error, LeaseTime, Operations, Reason, ShareName, ShareRecord, ShareSnapshot,
    SnapshotTime, Source, gone, refused_by_lease,
};

/// Snapshots of all shares of an account.
const OF_ACCOUNT_MAX: usize = 1000;
/// Snapshots that are made at a time, and for one account.
const AT_ONCE: usize = 4;
const AT_ONCE_OF_ACCOUNT: usize = 2;

/// What becomes of the snapshots of a share that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithSnapshots {
    /// It is not deleted where it has some.
    Refused,
    /// Nor where one of them has a lease.
    Unleased,
    /// They go with it.
    All,
}

/// By which lease something is done.
#[derive(Clone, Copy, Debug)]
pub enum LeaseNamed<'a> {
    /// By this, or by none.
    This(Option<&'a str>),
    /// Whoever has one.
    Whatever,
}

/// Somebody makes a snapshot for an account.
struct Taking(String);

/// The accounts for which snapshots are being made, each with how many.
static TAKING: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

impl Taking {
    fn begin(account: &AccountName) -> Result<Self, Error> {
        let mut taking = TAKING.lock();
        let own = taking.get(account.as_str()).copied().unwrap_or_default();
        if own >= AT_ONCE_OF_ACCOUNT || taking.values().sum::<usize>() >= AT_ONCE {
            let busy = Error::conflict("snapshots of other shares are being made", "try again");
            return Err(busy.because(Reason::Busy));
        }
        taking.insert(account.as_str().to_owned(), own + 1);
        Ok(Taking(account.as_str().to_owned()))
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        let mut taking = TAKING.lock();
        match taking.get_mut(&self.0) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(taking.remove(&self.0)),
        }
    }
}

/// Keeps a snapshot open that the server serves.
pub struct SnapshotHold {
    _store: Arc<dyn Store>,
}

impl Catalog {
    /// The snapshots of a share, the oldest first.
    pub fn snapshots(&self, share: &ShareName) -> Result<Vec<ShareSnapshot>, Error> {
        self.snapshots_of(share)?.map_or_else(|| Ok(Vec::new()), |of| of.all())
    }

    /// Refuses where no snapshot of a share can be made, with the reason: it does not lie where there are any.
    pub fn refuse_snapshots(&self, share: &ShareName) -> Result<(), Error> {
        let record = self.share(share)?;
        let of = self.snapshots_of(share)?.ok_or_else(|| snapshots::no_snapshots(unsupported(&record)))?;
        of.refuse_unsupported()
    }

    /// Deletes a snapshot of a share as an operator, whoever has a lease of it, where no server runs that does.
    pub fn delete_snapshot(&mut self, share: &ShareName, at: SnapshotTime) -> Result<(), Error> {
        let of = self.snapshots_of(share)?.ok_or_else(|| snapshots::missing(at))?;
        of.turn()?.delete(at, |_| Ok(()))?;
        gone::empty_gone(self.data())
    }

    fn snapshots_of(&self, share: &ShareName) -> Result<Option<SnapshotsOf>, Error> {
        Ok(self.share(share)?.source.folder().and_then(|path| SnapshotsOf::of(path, self.data())))
    }
}

impl Operations {
    /// Makes a snapshot of a share of an account, with this metadata or that of the share.
    pub fn take_snapshot(
        &self,
        by: By<'_>,
        account: &AccountName,
        share: &ShareName,
        metadata: Option<BTreeMap<String, String>>,
    ) -> Result<ShareSnapshot, Error> {
        let catalog = self.catalog()?;
        let record = catalog.share(share)?;
        refuse_of_other(&record, account)?;
        let mut kept = catalog.azure_share(share)?;
        let (shares, kept_shares) = (catalog.shares()?, catalog.deleted_shares()?);
        drop(catalog);
        let of = self.snapshots_of(&record).ok_or_else(|| snapshots::no_snapshots(unsupported(&record)))?;
        let _taking = Taking::begin(account)?;
        let turn = self.turn(of, &record)?;
        // Of a share whose snapshots cannot be looked at none is made, and others' are.
        let count =
            |share: &ShareRecord| self.snapshots_of(share).and_then(|of| of.times().ok()).map_or(0, |all| all.len());
        let all = shares.iter().chain(kept_shares.iter().map(|kept| &kept.share));
        let of_account = all.filter(|share| share.account == account.as_str());
        let counted: usize = of_account.map(count).sum();
        if counted >= OF_ACCOUNT_MAX {
            let what = format!("the account has {counted} snapshots of its shares, as many as one may have");
            return Err(Error::conflict(what, "delete one of them first").because(Reason::TooManySnapshots));
        }
        // Those are the share's own.
        (kept.lease, kept.policies) = (None, Vec::new());
        if let Some(metadata) = metadata {
            kept.metadata = metadata;
        }
        kept.touch(Timestamp::now());
        kept.check()?;
        let quota_gib = record.provisioned.map(|of| of.gib).or(record.source.quota_gib().map(NonZeroU32::get));
        let snapshot = turn.take(kept, quota_gib).inspect_err(|_| gone::take_away_if_any(self.folder.path()))?;
        changed(by, "snapshot made", &format!("{} {}", record.name, snapshot.at));
        Ok(snapshot)
    }

    /// The snapshots of these shares, each with its share, the oldest of each share first.
    pub fn snapshots_of_all(&self, shares: &[ShareRecord]) -> Result<Vec<(ShareRecord, ShareSnapshot)>, Error> {
        let mut all = Vec::new();
        for share in shares {
            let Some(of) = self.snapshots_of(share) else { continue };
            all.extend(of.all()?.into_iter().map(|snapshot| (share.clone(), snapshot)));
        }
        Ok(all)
    }

    /// A snapshot of a share. [`Reason::NoSnapshot`] where there is none of that time.
    pub fn snapshot(&self, share: &ShareRecord, at: SnapshotTime) -> Result<ShareSnapshot, Error> {
        let found = self.snapshots_of(share).map_or(Ok(None), |of| of.get(at))?;
        found.ok_or_else(|| snapshots::missing(at))
    }

    /// Changes what is kept of a snapshot as `change` does, which is told what it is now and the time. Where it refuses nothing is changed.
    pub fn change_snapshot<T>(
        &self,
        share: &ShareRecord,
        at: SnapshotTime,
        change: impl FnOnce(&mut AzureShare, Timestamp) -> Result<T, Error>,
    ) -> Result<(T, AzureShare), Error> {
        let of = self.snapshots_of(share).ok_or_else(|| snapshots::missing(at))?;
        self.turn(of, share)?.change(at, change)
    }

    /// Deletes a snapshot of a share for who may, by its lease. What clients have open in it is closed.
    pub fn delete_snapshot(
        &self,
        by: By<'_>,
        share: &ShareRecord,
        at: SnapshotTime,
        lease: LeaseNamed<'_>,
    ) -> Result<(), Error> {
        let of = self.snapshots_of(share).ok_or_else(|| snapshots::missing(at))?;
        self.turn(of, share)?.delete(at, |snapshot| match lease {
            LeaseNamed::Whatever => Ok(()),
            LeaseNamed::This(_) if snapshot.is_damaged => Err(snapshots::damaged(at)),
            LeaseNamed::This(lease) => {
                may_change(snapshot.kept.lease.as_ref(), lease, LeaseTime::now()).map_err(refused_by_lease)
            }
        })?;
        changed(by, "snapshot deleted", &format!("{} {at}", share.name));
        self.control()?.lock().open_snapshots(share).close(&at.to_string());
        // Who takes that up has it taken away, too.
        self.take_up().inspect_err(|_| gone::take_away_if_any(self.folder.path()))
    }

    /// Makes a snapshot for an operator.
    pub(crate) fn take_snapshot_named(&self, share: &ShareName) -> Result<String, Error> {
        let account = self.catalog()?.share(share)?.account.parse()?;
        Ok(self.take_snapshot(By::Command, &account, share, None)?.at.to_string())
    }

    /// The same for an operator, by the share's name.
    pub(crate) fn delete_snapshot_named(&self, share: &ShareName, at: SnapshotTime) -> Result<(), Error> {
        self.delete_snapshot(By::Command, &self.catalog()?.share(share)?, at, LeaseNamed::Whatever)
    }

    /// Has the server serve a snapshot to connections of this process, as `SHARE:TIME`, as long as somebody has what this gives, or is connected to it, unless
    /// it is deleted.
    pub fn open_snapshot(&self, share: &ShareRecord, at: SnapshotTime) -> Result<SnapshotHold, Error> {
        let of = self.snapshots_of(share).ok_or_else(|| snapshots::missing(at))?;
        let open = self.control()?.lock().open_snapshots(share);
        let name = at.to_string();
        of.require(at)?;
        let store = match open.get(&name) {
            Some(store) => store,
            None => open.add(&name, of.open(at)?),
        };
        // Whoever deletes it moves it away first, and may not have found it open.
        of.require(at).inspect_err(|_| open.close(&name))?;
        Ok(SnapshotHold { _store: store })
    }

    /// Refuses to delete a share that has snapshots which it may not be deleted with. Gives the turn to delete it.
    pub(crate) fn refuse_for_snapshots(&self, share: &ShareRecord, with: WithSnapshots) -> Result<Option<Turn>, Error> {
        let Some(of) = self.snapshots_of(share) else { return Ok(None) };
        let turn = of.turn()?;
        match with {
            WithSnapshots::Refused => {
                let what = match turn.of().times()?.len() {
                    0 => return Ok(Some(turn)),
                    1 => "the share has a snapshot".to_owned(),
                    count => format!("the share has {count} snapshots"),
                };
                let remedy = "delete them first, or say that they are to be deleted with it";
                Err(Error::conflict(what, remedy).because(Reason::HasSnapshots))
            }
            WithSnapshots::Unleased if turn.of().all()?.iter().any(ShareSnapshot::is_leased) => {
                let remedy = "end the lease first, or say that leased snapshots are to be deleted, too";
                let refused = Error::conflict("a snapshot of the share has a lease", remedy);
                Err(refused.because(Reason::SnapshotLeased))
            }
            WithSnapshots::Unleased | WithSnapshots::All => Ok(Some(turn)),
        }
    }

    /// The turn to change the snapshots of a share, which is still there then.
    fn turn(&self, of: SnapshotsOf, share: &ShareRecord) -> Result<Turn, Error> {
        let turn = of.turn()?;
        let now = self.catalog()?.share(&share.name.parse()?)?;
        if (now.id, &now.source) != (share.id, &share.source) {
            let what = format!("the share {:?} has become another one", share.name);
            return Err(Error::missing(what, "try again").because(Reason::NoShare));
        }
        Ok(turn)
    }

    fn snapshots_of(&self, share: &ShareRecord) -> Option<SnapshotsOf> {
        share.source.folder().and_then(|path| SnapshotsOf::of(path, self.folder.path()))
    }
}

/// Why a share has no snapshots that is on nothing that the server made.
fn unsupported(share: &ShareRecord) -> String {
    match &share.source {
        Source::Folder { path, .. } => {
            format!("the folder {} of the share is one that an operator named", path.display())
        }
        Source::Ram { .. } => "the share is on a RAM disk".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_leaves_room_for_others_to_make_snapshots() {
        let [one, two, three] = ["turnone", "turntwo", "turnthree"].map(|name| name.parse::<AccountName>().unwrap());
        let taking: Vec<Taking> = [&one, &one, &two].map(|account| Taking::begin(account).unwrap()).into();
        assert_eq!(Taking::begin(&one).err().unwrap().reason(), Reason::Busy);
        let last = Taking::begin(&two).unwrap();
        assert_eq!(Taking::begin(&three).err().unwrap().reason(), Reason::Busy);
        drop(last);
        assert!(Taking::begin(&three).is_ok());
        drop(taking);
        assert!(Taking::begin(&one).is_ok());
    }
}
