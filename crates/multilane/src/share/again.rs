//! A share as the commands that make it again.

use control::{Belief, DataFolder, Grants, ShareRecord, Source};
use server::admin::{AuditClass, HostsAllowed};

use crate::hints::quoted;

/// What a shell is told so that a share like this one, with these rights, is there again. Credits for bursts begin anew.
pub(super) fn commands(share: &ShareRecord, rights: &Grants, data: &DataFolder) -> Vec<String> {
    let mut words = vec!["multilane share create".to_owned(), quoted(&share.name)];
    let mut option = |name: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("--{name} {}", quoted(&value))));
    };
    let folder = match &share.source {
        Source::Folder { .. } if share.source.is_own(data) => ("path", None),
        Source::Folder { path, .. } => ("path", Some(path.display().to_string())),
        Source::Ram { bytes } => ("ram", Some(bytes.to_string())),
    };
    option(folder.0, folder.1);
    option("account", Some(share.account.clone()));
    for grant in rights.grants.iter().filter(|_| !rights.is_unsaid) {
        option("grant", Some(format!("{}={}", grant.who, grant.right)));
    }
    match (share.provisioned, &share.source) {
        (Some(provisioned), _) => {
            option("provisioned", Some(provisioned.gib.to_string()));
            let of_v2 = provisioned.model == control::ProvisionModel::V2;
            option("iops", of_v2.then(|| provisioned.iops.to_string()));
            option("mibps", of_v2.then(|| provisioned.mibps.to_string()));
        }
        (None, Source::Folder { quota_gib, .. }) => option("quota", quota_gib.map(|gib| format!("{gib}G"))),
        (None, Source::Ram { .. }) => {}
    }
    let audited: Vec<&str> =
        AuditClass::ALL.into_iter().filter(|class| share.audit.contains(*class)).map(AuditClass::name).collect();
    option("audit", (!audited.is_empty()).then(|| audited.join(",")));
    if let (Source::Folder { .. }, Belief::For(time)) = (&share.source, share.belief) {
        let is_default = share.belief == Belief::default();
        option("believed", (!is_default).then(|| format!("{}ms", time.as_millis())));
    }
    option("file-mode", share.modes.file.map(|mode| format!("{mode:04o}")));
    option("directory-mode", share.modes.directory.map(|mode| format!("{mode:04o}")));
    option("unix-owner", share.modes.owner.map(|owner| format!("{}:{}", owner.uid, owner.gid)));
    for (name, limit) in [
        ("iops-max", share.limits.iops_max),
        ("mibps-max", share.limits.mibps_max),
        ("user-iops-max", share.limits.user_iops_max),
        ("user-mibps-max", share.limits.user_mibps_max),
    ] {
        option(name, limit.map(|limit| limit.to_string()));
    }
    option("hosts-allow", (share.hosts != HostsAllowed::Any).then(|| share.hosts.to_string()));
    option("comment", (!share.comment.is_empty()).then(|| share.comment.clone()));
    let is_exclusive = share.belief == Belief::Lasting && matches!(share.source, Source::Folder { .. });
    for (name, is_set) in [
        ("read-only", share.read_only),
        ("seal", share.seal_required),
        ("continuous", share.continuous),
        ("access-based", share.access_based),
        ("time-machine", share.time_machine),
        ("exclusive", is_exclusive),
    ] {
        if is_set {
            words.push(format!("--{name}"));
        }
    }
    let closed = rights.grants.is_empty().then(|| format!("multilane share revoke {} everyone", quoted(&share.name)));
    [words.join(" ")].into_iter().chain(closed).collect()
}
