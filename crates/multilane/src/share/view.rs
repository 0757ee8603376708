//! Shares as commands print them.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use control::provisioning::next_decrease;
use control::{Belief, Problem, ProvisionModel, Provisioned, ShareProperties, ShareRecord, ShareUse, Source, Waited};
use load::figures::bytes;
use serde::Serialize;
use server::admin::AuditClass;

use crate::table::{Table, printable};

/// A share as `--json` prints it.
#[derive(Serialize)]
pub(crate) struct Shown {
    pub(crate) name: String,
    account: String,
    kind: &'static str,
    path: Option<PathBuf>,
    ram_bytes: Option<NonZeroU64>,
    quota_gib: Option<NonZeroU32>,
    read_only: bool,
    seal_required: bool,
    continuous: bool,
    access_based: bool,
    /// From where it may be used: networks with commas between them, or `any`.
    hosts_allow: String,
    /// Macs may back up to it.
    time_machine: bool,
    /// What of it goes to the audit log.
    audit: Vec<&'static str>,
    /// Nobody but the server changes its files.
    exclusive: bool,
    /// How long cached metadata is believed where nobody tells of changes; null where that is until the server makes one.
    believed_ms: Option<u128>,
    /// Permissions of new files and directories, where they are not 0600 and 0700; in octal.
    file_mode: Option<String>,
    directory_mode: Option<String>,
    /// Whose they are, as `UID:GID`, where they are not the server's own user's.
    unix_owner: Option<String>,
    comment: String,
    /// Why clients cannot connect to it, if they cannot, or what is wrong with its folder.
    pub(crate) problem: Option<String>,
    /// What the share as a whole, and each of its users, is limited to.
    limits: Limits,
    /// Bytes that its files take; null where they are not counted, or no server runs.
    used_bytes: Option<u64>,
    /// Requests that have waited for its limits since the server started; null where it is not known.
    waited: Option<Waited>,
    /// The same share by the names of Azure's management API.
    azure: ShareProperties,
    /// What it is provisioned with, for people.
    #[serde(skip)]
    provisioned: Option<Provisioned>,
    /// Whether clients can connect to it although there is a problem; not printed.
    #[serde(skip)]
    pub(crate) served: bool,
    /// The problem is that its disk does not answer.
    #[serde(skip)]
    disk_hangs: bool,
    /// Who may connect to it, where that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) may_connect: Option<Vec<MayConnect>>,
}

/// Who may connect to a share, as `--json` prints it.
#[derive(Serialize)]
pub(crate) struct MayConnect {
    /// A user, a group, or `everyone` of the share's account.
    pub(crate) who: String,
    /// `read`, `change` or `full`.
    pub(crate) right: &'static str,
}

/// A share's limits as `--json` prints them.
#[derive(Serialize)]
struct Limits {
    iops_max: Option<NonZeroU32>,
    mibps_max: Option<NonZeroU32>,
    user_iops_max: Option<NonZeroU32>,
    user_mibps_max: Option<NonZeroU32>,
}

/// What a running server knows of shares.
pub(crate) struct Known {
    /// Why they are not served.
    pub(crate) problems: Vec<Problem>,
    /// How their requests have met their limits.
    pub(crate) limits: Vec<ShareUse>,
}

/// The share with what is wrong with it.
pub(crate) fn shown(share: ShareRecord, known: &Known) -> Shown {
    let in_use = known.limits.iter().find(|one| one.share == share.name);
    let told = known.problems.iter().find(|one| one.share == share.name);
    let (problem, served) = (told.map(|told| told.problem.clone()), told.is_none_or(|told| told.served));
    let mut azure = ShareProperties::from(&share);
    azure.available_burst_credits = in_use.filter(|_| share.provisioned.is_some()).map(|in_use| in_use.burst_credits);
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
        hosts_allow: share.hosts.to_string(),
        time_machine: share.time_machine,
        audit: AuditClass::ALL.into_iter().filter(|class| share.audit.contains(*class)).map(AuditClass::name).collect(),
        exclusive: share.belief == Belief::Lasting,
        believed_ms: match share.belief {
            Belief::Lasting => None,
            Belief::For(time) => Some(time.as_millis()),
        },
        file_mode: share.modes.file.map(|mode| format!("{mode:04o}")),
        directory_mode: share.modes.directory.map(|mode| format!("{mode:04o}")),
        unix_owner: share.modes.owner.map(|owner| format!("{}:{}", owner.uid, owner.gid)),
        comment: share.comment,
        problem,
        limits: Limits {
            iops_max: share.limits.iops_max,
            mibps_max: share.limits.mibps_max,
            user_iops_max: share.limits.user_iops_max,
            user_mibps_max: share.limits.user_mibps_max,
        },
        used_bytes: in_use.and_then(|in_use| in_use.used_bytes),
        waited: in_use.map(|in_use| in_use.waited),
        azure,
        provisioned: share.provisioned,
        served,
        disk_hangs: told.is_some_and(Problem::is_disk_that_hangs),
        may_connect: None,
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
            (self.time_machine, "time-machine"),
            (!self.audit.is_empty(), "audited"),
            (self.exclusive && self.path.is_some(), "exclusive"),
            (self.provisioned.is_some(), "provisioned"),
            (!self.limits().is_empty(), "limited"),
            (self.problem.is_some() && !self.served, "not served"),
            (self.problem.is_some() && self.served && self.disk_hangs, "disk does not answer"),
            (self.problem.is_some() && self.served && !self.disk_hangs, "folder unavailable"),
        ];
        let set: Vec<&str> = flags.into_iter().filter_map(|(set, name)| set.then_some(name)).collect();
        set.join(",")
    }

    /// Such as `v2, 1024 GiB, 10000 IOPS, 500 MiB/s, bursts of 30000 IOPS`.
    fn provisioned(&self) -> String {
        let Some(Provisioned { model, gib, iops, mibps, burst_iops, .. }) = self.provisioned else {
            return String::new();
        };
        format!("{}, {gib} GiB, {iops} IOPS, {mibps} MiB/s, bursts of {burst_iops} IOPS", model.as_str())
    }

    /// From when on what is provisioned may be decreased.
    fn decreases(&self) -> String {
        let Some(Provisioned { model, increased, .. }) = self.provisioned else { return String::new() };
        let [gib, iops, mibps] = [increased.gib, increased.iops, increased.mibps].map(next_decrease);
        match model {
            ProvisionModel::V1 => format!("allowed from {gib} on"),
            ProvisionModel::V2 => {
                format!("allowed for size from {gib} on, for IOPS from {iops} on, for MiB/s from {mibps} on")
            }
        }
    }

    /// Such as `all users together 1000 IOPS, each user 50 MiB/s`.
    fn limits(&self) -> String {
        let Limits { iops_max, mibps_max, user_iops_max, user_mibps_max } = self.limits;
        let limits = [
            (iops_max, "all users together", "IOPS"),
            (mibps_max, "all users together", "MiB/s"),
            (user_iops_max, "each user", "IOPS"),
            (user_mibps_max, "each user", "MiB/s"),
        ];
        let set =
            limits.into_iter().filter_map(|(limit, whose, unit)| limit.map(|limit| format!("{whose} {limit} {unit}")));
        set.collect::<Vec<_>>().join(", ")
    }

    /// Such as `12 for IOPS, 3 to write`; `-` where it is not known.
    fn waited(&self) -> String {
        let Some(waited) = self.waited else { return "-".to_owned() };
        let Waited { for_iops, to_read, to_write, for_metadata_iops } = waited;
        let counts = [
            (for_iops, "for IOPS"),
            (for_metadata_iops, "for metadata IOPS"),
            (to_read, "to read"),
            (to_write, "to write"),
        ];
        let some = counts.into_iter().filter(|(count, _)| *count > 0);
        some.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
    }

    /// How long cached metadata is believed where nobody tells of changes, such as `1s`.
    fn believed(&self) -> String {
        match self.believed_ms {
            None => "until the server changes it".to_owned(),
            Some(time) if time.is_multiple_of(1000) => format!("{}s", time / 1000),
            Some(time) => format!("{time}ms"),
        }
    }

    /// Who may connect to it, such as `staff (change), alice (read)`.
    fn connect(&self) -> String {
        let rights = self.may_connect.iter().flatten();
        let each: Vec<String> = rights.map(|one| format!("{} ({})", one.who, one.right)).collect();
        match each.is_empty() {
            true => format!("nobody but the keys of account {}", self.account),
            false => format!("{}, and the keys of account {}", each.join(", "), self.account),
        }
    }

    fn quota(&self) -> String {
        self.quota_gib.map(|gib| bytes(u64::from(gib.get()) << 30)).unwrap_or_default()
    }
}

pub(crate) fn table(shares: &[Shown]) -> String {
    let mut table = Table::new(["NAME", "ACCOUNT", "PLACE", "QUOTA", "FLAGS", "COMMENT"]);
    for share in shares {
        let (name, account, comment) = (share.name.clone(), share.account.clone(), share.comment.clone());
        table.row([name, account, share.place(), share.quota(), share.flags(), comment]);
    }
    table.text()
}

pub(crate) fn description(share: &Shown) -> String {
    let yes = |set| if set { "yes" } else { "no" }.to_owned();
    let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
    let lines = [
        ("name", share.name.clone()),
        ("account", share.account.clone()),
        ("place", share.place()),
        ("quota", or(share.quota(), "none")),
        ("used", share.used_bytes.map_or_else(|| "-".to_owned(), bytes)),
        ("provisioned", or(share.provisioned(), "no")),
        ("decrease", or(share.decreases(), "-")),
        ("limits", or(share.limits(), "none")),
        ("credits", share.azure.available_burst_credits.map_or("-".to_owned(), |credits| credits.to_string())),
        ("waited", or(share.waited(), "none")),
        ("read-only", yes(share.read_only)),
        ("sealed", yes(share.seal_required)),
        ("continuous", yes(share.continuous)),
        ("access-based", yes(share.access_based)),
        ("connect", share.connect()),
        ("hosts", share.hosts_allow.clone()),
        ("time-machine", yes(share.time_machine)),
        ("audit", or(share.audit.join(","), "none")),
        ("exclusive", yes(share.exclusive)),
        ("believed", share.believed()),
        ("file mode", share.file_mode.clone().unwrap_or_else(|| "0600".to_owned())),
        ("dir mode", share.directory_mode.clone().unwrap_or_else(|| "0700".to_owned())),
        ("unix owner", share.unix_owner.clone().unwrap_or_else(|| "the server's user".to_owned())),
        ("comment", or(share.comment.clone(), "none")),
        ("problem", share.problem.clone().unwrap_or_else(|| "none".to_owned())),
    ];
    let is_known = |(name, _): &(&str, String)| *name != "connect" || share.may_connect.is_some();
    let lines = lines.into_iter().filter(is_known);
    lines.map(|(name, value)| format!("{name:<13}{}\n", printable(&value))).collect()
}
