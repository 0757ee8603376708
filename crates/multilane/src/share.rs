//! `multilane share`.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::slice;

use control::{
    DataFolder, Error, Modes, NewShare, Problem, Request, ShareChanges, ShareRecord, Source, Status, ask,
    look_for_problems,
};
use load::figures::bytes;
use serde::Serialize;

use crate::arguments::{Quota, ShareCommand, ShareCreate, ShareUpdate};
use crate::data;
use crate::output::{Deleted, Output};
use crate::table::{Table, printable};

/// A share as `--json` prints it.
#[derive(Serialize)]
struct Shown {
    name: String,
    account: String,
    kind: &'static str,
    path: Option<PathBuf>,
    ram_bytes: Option<NonZeroU64>,
    quota_gib: Option<NonZeroU32>,
    read_only: bool,
    seal_required: bool,
    continuous: bool,
    access_based: bool,
    /// Permissions of new files and directories, where they are not 0600 and 0700; in octal.
    file_mode: Option<String>,
    directory_mode: Option<String>,
    comment: String,
    /// Why clients cannot connect to it, if they cannot, or what is wrong with its folder.
    problem: Option<String>,
    /// Whether clients can connect to it although there is a problem; not printed.
    #[serde(skip)]
    served: bool,
}

pub(crate) fn run(path: &Path, command: &ShareCommand, output: Output) -> Result<(), Error> {
    let (folder, mut catalog) = data::open(path)?;
    match command {
        ShareCommand::Create(create) => {
            let made = catalog.create_share(&new_share(create))?;
            changed(&folder, made, "made", output)
        }
        ShareCommand::List => {
            let shares = catalog.shares()?;
            let problems = problems(&folder, &shares)?;
            let shares = shares.into_iter().map(|share| shown(share, &problems));
            output.print(&shares.collect::<Vec<_>>(), |shares| table(shares))
        }
        ShareCommand::Show { name } => {
            let share = catalog.share(name)?;
            let problems = problems(&folder, slice::from_ref(&share))?;
            output.print(&shown(share, &problems), description)
        }
        ShareCommand::Update(update) => {
            let share = catalog.update_share(&update.name, &changes(update))?;
            changed(&folder, share, "changed", output)
        }
        ShareCommand::Delete { name } => {
            let share = catalog.delete_share(name)?;
            let kept = match &share.source {
                Source::Folder { path, .. } => format!("; the files in {} are still there", path.display()),
                Source::Ram { .. } => String::new(),
            };
            output.print(&Deleted { deleted: &share.name }, |_| format!("deleted share {}{kept}\n", share.name))?;
            data::reload(&folder).map(drop)
        }
    }
}

fn new_share(create: &ShareCreate) -> NewShare {
    let folder = || Source::Folder { path: create.path.clone().unwrap_or_default(), quota_gib: create.quota };
    NewShare {
        name: create.name.clone(),
        account: create.account.clone(),
        source: create.ram.map_or_else(folder, |bytes| Source::Ram { bytes }),
        read_only: create.read_only,
        seal_required: create.seal,
        continuous: create.continuous,
        access_based: create.access_based,
        modes: Modes { file: create.file_mode, directory: create.directory_mode },
        comment: create.comment.clone(),
    }
}

fn changes(update: &ShareUpdate) -> ShareChanges {
    ShareChanges {
        quota_gib: update.quota.map(|Quota(gib)| gib),
        read_only: update.read_only,
        seal_required: update.seal,
        continuous: update.continuous,
        access_based: update.access_based,
        comment: update.comment.clone(),
    }
}

/// Has the server take up a share that was made or changed, and prints it.
fn changed(folder: &DataFolder, share: ShareRecord, how: &str, output: Output) -> Result<(), Error> {
    let told = data::reload(folder);
    let share = match &told {
        Ok(Some(problems)) => shown(share, problems),
        Ok(None) | Err(_) => {
            let problems = look_for_problems(slice::from_ref(&share), folder);
            shown(share, &problems)
        }
    };
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

/// What the running server does not serve of `shares`, or what can be seen to be wrong with them where none runs. Where one runs it knows.
fn problems(folder: &DataFolder, shares: &[ShareRecord]) -> Result<Vec<Problem>, Error> {
    let told = ask::<Status>(folder, &Request::Status)?.map(|status| status.problems);
    Ok(told.unwrap_or_else(|| look_for_problems(shares, folder)))
}

/// The share with what is wrong with it.
fn shown(share: ShareRecord, problems: &[Problem]) -> Shown {
    let told = problems.iter().find(|one| one.share == share.name);
    let (problem, served) = (told.map(|told| told.problem.clone()), told.is_none_or(|told| told.served));
    let (kind, path, ram_bytes, quota_gib) = match share.source {
        Source::Folder { path, quota_gib } => ("folder", Some(path), None, quota_gib),
        Source::Ram { bytes } => ("ram", None, Some(bytes), None),
    };
    Shown {
        name: share.name,
        account: share.account,
        kind,
        path,
        ram_bytes,
        quota_gib,
        read_only: share.read_only,
        seal_required: share.seal_required,
        continuous: share.continuous,
        access_based: share.access_based,
        file_mode: share.modes.file.map(|mode| format!("{mode:04o}")),
        directory_mode: share.modes.directory.map(|mode| format!("{mode:04o}")),
        comment: share.comment,
        problem,
        served,
    }
}

impl Shown {
    fn place(&self) -> String {
        match (&self.path, self.ram_bytes) {
            (Some(path), _) => path.display().to_string(),
            (None, Some(memory)) => format!("RAM {}", bytes(memory.get())),
            (None, None) => String::new(),
        }
    }

    fn flags(&self) -> String {
        let flags = [
            (self.read_only, "read-only"),
            (self.seal_required, "sealed"),
            (self.continuous, "continuous"),
            (self.access_based, "access-based"),
            (self.problem.is_some() && !self.served, "not served"),
            (self.problem.is_some() && self.served, "folder unavailable"),
        ];
        let set: Vec<&str> = flags.into_iter().filter_map(|(set, name)| set.then_some(name)).collect();
        set.join(",")
    }

    fn quota(&self) -> String {
        self.quota_gib.map(|gib| bytes(u64::from(gib.get()) << 30)).unwrap_or_default()
    }
}

fn table(shares: &[Shown]) -> String {
    let mut table = Table::new(["NAME", "ACCOUNT", "PLACE", "QUOTA", "FLAGS", "COMMENT"]);
    for share in shares {
        let (name, account, comment) = (share.name.clone(), share.account.clone(), share.comment.clone());
        table.row([name, account, share.place(), share.quota(), share.flags(), comment]);
    }
    table.text()
}

fn description(share: &Shown) -> String {
    let yes = |set| if set { "yes" } else { "no" }.to_owned();
    let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
    let lines = [
        ("name", share.name.clone()),
        ("account", share.account.clone()),
        ("place", share.place()),
        ("quota", or(share.quota(), "none")),
        ("read-only", yes(share.read_only)),
        ("sealed", yes(share.seal_required)),
        ("continuous", yes(share.continuous)),
        ("access-based", yes(share.access_based)),
        ("comment", or(share.comment.clone(), "none")),
        ("problem", share.problem.clone().unwrap_or_else(|| "none".to_owned())),
    ];
    lines.map(|(name, value)| format!("{name:<13}{}\n", printable(&value))).concat()
}
