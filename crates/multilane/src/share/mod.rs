//! `multilane share`.

mod again;
pub(crate) mod arguments;
mod deleted;
mod grants;
mod provision;
mod snapshots;
mod view;

use std::path::Path;
use std::slice;

use control::{
    BeliefChanges, Catalog, DataFolder, Error, ModeChanges, Modes, NewShare, OpenFile, Overlap, Request, ShareChanges,
    ShareRecord, Source, Status, ask, ask_for_all, catalogs_in, look_for_problems, overlapping,
};
use load::figures::bytes;

use crate::arguments::Switch;
use crate::data;
use crate::output::{Deleted, Output};
use crate::question::{self, Answer};
use crate::share::arguments::{OrDefault, Protocol, Quota, ShareCommand, ShareCreate, ShareUpdate, TimeMachine};
use crate::share::view::{Known, MayConnect, description, shown, table};
use crate::table::printable;

pub(crate) fn run(path: &Path, command: &ShareCommand, output: Output) -> Result<(), Error> {
    let (folder, mut catalog) = data::open(path)?;
    match command {
        ShareCommand::Create(create) => {
            let made = catalog.create_share_for(&new_share(create)?, &create.grant)?;
            let notes = notes(&catalog, &made)?;
            changed(&folder, made, "created", output)?;
            notes.iter().for_each(|note| eprintln!("note: {note}"));
            Ok(())
        }
        ShareCommand::List { deleted: true } => {
            output.print(&deleted::shown(catalog.deleted_shares()?), |shares| deleted::table(shares))
        }
        ShareCommand::List { deleted: false } => {
            let shares = catalog.shares()?;
            let known = known(&folder, &shares)?;
            let shares = shares.into_iter().map(|share| shown(share, &known));
            let kept = catalog.deleted_shares()?.len();
            output.print(&shares.collect::<Vec<_>>(), |shares| table(shares) + &deleted::note(kept))
        }
        ShareCommand::Show { name } => {
            let share = catalog.share(name)?;
            let known = known(&folder, slice::from_ref(&share))?;
            let grants = catalog.grants(name)?.grants.into_iter();
            let may_connect = grants.map(|grant| MayConnect { who: grant.who, right: grant.right.name() }).collect();
            let mut shown = shown(share, &known);
            shown.may_connect = Some(may_connect);
            output.print(&shown, description)
        }
        ShareCommand::Update(update) => {
            let changes = changes(update)?;
            if (changes.name.is_some() || changes.path.is_some()) && !update.force {
                agree_to_close(&folder, &catalog.share(&update.name)?.name)?;
                if changes.path.is_some() {
                    snapshots::refuse_to_leave(&catalog, &update.name)?;
                }
            }
            let before = catalog.share(&update.name)?.provisioned;
            let share = catalog.update_share(&update.name, &changes)?;
            let notes = match changes.path.is_some() {
                true => notes(&catalog, &share)?,
                false => beyond_disk(&share).filter(|_| share.provisioned != before).into_iter().collect(),
            };
            changed(&folder, share, "changed", output)?;
            notes.iter().for_each(|note| eprintln!("note: {note}"));
            Ok(())
        }
        ShareCommand::Grant { name, who, right } => {
            let granted = catalog.grant(name, who, *right)?;
            grants::changed(&folder, granted, output)
        }
        ShareCommand::Revoke { name, who } => {
            let left = catalog.revoke(name, who)?;
            grants::changed(&folder, left, output)
        }
        ShareCommand::Grants { name } => grants::print(catalog.grants(name)?, output),
        ShareCommand::Delete { name, force } => {
            if !force {
                agree_to_close(&folder, &catalog.share(name)?.name)?;
                deleted::agree(&catalog, &folder, name)?;
            }
            let rights = catalog.grants(name)?;
            let deletion = catalog.delete_share(name)?;
            let again = again::commands(deletion.share(), &rights, &folder);
            output.print(&deleted::Gone::of(&deletion, again), |gone| deleted::text(&deletion, gone))?;
            deleted::take_away(&folder, &mut catalog)
        }
        ShareCommand::Snapshot { name } => {
            let request = Request::TakeSnapshot { share: name.to_string() };
            let not_running = || Error::conflict("no server runs that could make the snapshot", "start it first");
            let time: String = ask(&folder, &request)?.ok_or_else(not_running)?;
            output.print(&snapshots::Made { time }, |made| format!("made the snapshot {}\n", made.time))
        }
        ShareCommand::Snapshots { name } => {
            let shown = snapshots::shown(catalog.snapshots(name)?);
            let refused = catalog.refuse_snapshots(name).err();
            output.print(&shown, |shown| snapshots::text(shown, refused.as_ref()))
        }
        ShareCommand::DeleteSnapshot { name, time, yes, force } => {
            if !force {
                snapshots::refuse_leased(&catalog, name, *time)?;
            }
            if !(*yes || *force) {
                snapshots::agree(name, *time)?;
            }
            let request = Request::DeleteSnapshot { share: name.to_string(), time: time.to_string() };
            if ask::<()>(&folder, &request)?.is_none() {
                catalog.delete_snapshot(name, *time)?;
            }
            output.print(&Deleted { deleted: &time.to_string() }, |gone| {
                format!("deleted the snapshot of {}\n", gone.deleted)
            })
        }
        ShareCommand::Undelete { name, version, new_name } => {
            let share = catalog.undelete_share(None, name, version.as_deref(), new_name.as_ref())?;
            changed(&folder, share, "undeleted", output)
        }
        ShareCommand::Purge { name, version, force } => {
            if !force {
                question::agree(&format!("Have the deleted share {name} be gone for good?"), name.as_str())?;
            }
            let purged = catalog.purge_share(name, version.as_deref())?;
            output.print(&Deleted { deleted: &purged.share.name }, |gone| {
                format!("the deleted share {} is gone\n", gone.deleted)
            })?;
            deleted::take_away(&folder, &mut catalog)
        }
    }
}

/// What is to be known of a share's folder by who has just shared it.
fn notes(catalog: &Catalog, share: &ShareRecord) -> Result<Vec<String>, Error> {
    let mut notes = overlaps(catalog, share)?;
    notes.extend(catalogs_in(share).iter().map(|file| {
        format!(
            "{} is a backup, or a copy of a data folder: who may read share {} may read the keys of every account in it; move it out of the share, and make new keys and passwords where somebody may have read it",
            printable(&file.display().to_string()),
            share.name
        )
    }));
    notes.extend(beyond_disk(share));
    Ok(notes)
}

/// What is to be known where other shares reach the same files: the rights on one are not asked by the others.
fn overlaps(catalog: &Catalog, share: &ShareRecord) -> Result<Vec<String>, Error> {
    let who_may = |share: &ShareRecord| Ok::<_, Error>(grants::who_may(&catalog.grants(&share.name.parse()?)?));
    let note = |(overlap, other): (Overlap, ShareRecord)| {
        let how = match overlap {
            Overlap::Is => "the same folder",
            Overlap::Holds => "a folder that holds this one",
            Overlap::LiesIn => "a folder that lies in this one",
        };
        let (of_other, own) = (who_may(&other)?, who_may(share)?);
        Ok(format!(
            "share {} has {how}, for {of_other}; share {} is for {own}, and each lets in by its own rights alone",
            other.name, share.name
        ))
    };
    overlapping(share, catalog.shares()?).into_iter().map(note).collect()
}

/// What is to be known where a share is promised more than its disk has in all.
fn beyond_disk(share: &ShareRecord) -> Option<String> {
    let (provisioned, Source::Folder { path, .. }) = (share.provisioned?, &share.source) else { return None };
    let disk = rustix::fs::statvfs(path).ok()?;
    let (wanted, all) = (u64::from(provisioned.gib) << 30, disk.f_blocks * disk.f_frsize);
    (wanted > all).then(|| {
        format!(
            "share {} is provisioned with {}, and the disk of {} has {} in all: clients see the larger number, and writes fail when the disk is full",
            share.name,
            bytes(wanted),
            path.display(),
            bytes(all)
        )
    })
}

fn new_share(create: &ShareCreate) -> Result<NewShare, Error> {
    // There is no other.
    let Protocol::Smb = create.protocol;
    let for_backups = create.time_machine.flatten();
    if for_backups.is_some() && (create.ram.is_some() || create.quota.is_some()) {
        return Err(size_is_quota());
    }
    let quota_gib = for_backups.or(create.quota);
    let folder = || Source::Folder { path: create.path.clone().unwrap_or_default(), quota_gib };
    Ok(NewShare {
        name: create.name.clone(),
        account: create.account.clone(),
        source: create.ram.map_or_else(folder, |bytes| Source::Ram { bytes }),
        read_only: create.read_only,
        seal_required: create.seal,
        continuous: create.continuous,
        access_based: create.access_based,
        hosts: create.hosts_allow.clone().unwrap_or_default(),
        time_machine: create.time_machine.is_some(),
        audit: create.audit.unwrap_or_default(),
        belief: BeliefChanges { exclusive: create.exclusive.then_some(true), believed: create.believed },
        modes: Modes { file: create.file_mode, directory: create.directory_mode, owner: create.unix_owner },
        comment: create.comment.clone(),
        provision: create.provision.provision(),
        limits: create.provision.limits(),
    })
}

/// The size for backups is the quota of a folder.
fn size_is_quota() -> Error {
    Error::argument(
        "the size behind --time-machine is the quota of a share's folder",
        "give the size once: behind --time-machine or --quota, and none for a RAM disk",
    )
}

fn changes(update: &ShareUpdate) -> Result<ShareChanges, Error> {
    let quota_gib = match (update.time_machine, update.quota) {
        (Some(TimeMachine::Within(_)), Some(_)) => return Err(size_is_quota()),
        (Some(TimeMachine::Within(gib)), None) => Some(Some(gib)),
        (_, quota) => quota.map(|Quota(gib)| gib),
    };
    Ok(ShareChanges {
        name: update.new_name.clone(),
        path: update.path.clone(),
        quota_gib,
        read_only: update.read_only.map(Switch::is_on),
        seal_required: update.seal.map(Switch::is_on),
        continuous: update.continuous.map(Switch::is_on),
        access_based: update.access_based.map(Switch::is_on),
        hosts: update.hosts_allow.clone(),
        time_machine: update.time_machine.map(|to| to != TimeMachine::Off),
        audit: update.audit,
        belief: BeliefChanges { exclusive: update.exclusive.map(Switch::is_on), believed: update.believed },
        modes: ModeChanges {
            file: update.file_mode.map(|OrDefault(mode)| mode),
            directory: update.directory_mode.map(|OrDefault(mode)| mode),
            owner: update.unix_owner.map(|OrDefault(owner)| owner),
        },
        comment: update.comment.clone(),
        provision: update.provision.provision()?,
        limits: update.provision.limits(),
    })
}

/// Asks whether to go on where clients have files open on a share, which would be closed. Where nobody can be asked that is refused.
fn agree_to_close(folder: &DataFolder, share: &str) -> Result<(), Error> {
    let open = ask_for_all::<OpenFile>(folder, &Request::OpenFiles).map_err(|cause| {
        let what = format!("what clients have open on share {share} cannot be seen: {}", cause.what());
        Error::machine(what, format!("{}, or go on with --force", cause.remedy()))
    })?;
    // What is open in a snapshot is told as of `SHARE:TIME`.
    let is_of = |file: &&OpenFile| file.share.split(':').next() == Some(share);
    let count = open.iter().flatten().filter(is_of).count();
    let what = match count {
        0 => return Ok(()),
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    };
    let question = format!("Clients have {what} open on share {share}. Close what is open, and go on?");
    if question::ask(&question) == Answer::Yes {
        return Ok(());
    }
    Err(Error::conflict(
        format!("clients have {what} open on share {share}, and nothing is changed"),
        "see `multilane open-files`, or go on with --force: what is open is closed then",
    ))
}

/// Has the server take up a share that was made or changed, and prints it.
fn changed(folder: &DataFolder, share: ShareRecord, how: &str, output: Output) -> Result<(), Error> {
    let told = data::reload(folder);
    let problems = match &told {
        Ok(Some(problems)) => problems.clone(),
        Ok(None) | Err(_) => look_for_problems(slice::from_ref(&share), folder),
    };
    let share = shown(share, &Known { problems, limits: Vec::new() });
    output.print(&share, |share| format!("{how} share {}\n", share.name))?;
    match &share.problem {
        Some(problem) if share.served => eprintln!("warning: {problem}; what is served of it stays as it was"),
        Some(problem) => {
            eprintln!(
                "warning: share {} is not served yet: {problem}; it is tried again every two seconds",
                share.name
            );
        }
        None => {}
    }
    told.map(drop)
}

/// What the running server knows of `shares`, or what can be seen to be wrong with them where none runs.
fn known(folder: &DataFolder, shares: &[ShareRecord]) -> Result<Known, Error> {
    let told = ask::<Status>(folder, &Request::Status)?;
    Ok(match told {
        Some(status) => Known { problems: status.problems, limits: status.limits },
        None => Known { problems: look_for_problems(shares, folder), limits: Vec::new() },
    })
}
