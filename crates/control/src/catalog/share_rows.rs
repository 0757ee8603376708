//! The rows of shares, with what they are provisioned with.

use std::num::NonZeroU64;
use std::path::Path;

use rusqlite::{Connection, Row, Transaction, named_params, params};
use server::admin::HostsAllowed;
use store::UnixOwner;

use super::wrong::wrong_in;
use super::{DeletedShare, Modes, ShareRecord, Source, data_place, time};
use crate::provisioning::ProvisionedSum;
use crate::{Error, Increases, ProvisionModel, Provisioned, ShareLimits, ShareName, belief};

/// All shares, by name.
pub(super) fn all(connection: &Connection) -> Result<Vec<ShareRecord>, Error> {
    let data = data_place::of(connection)?;
    let mut select = connection.prepare(&select("WHERE deleted IS NULL ORDER BY folded_name"))?;
    select.query_and_then([], |row| record(row, &data))?.collect()
}

/// All shares that are deleted and kept, those that were deleted last first.
pub(super) fn deleted(connection: &Connection) -> Result<Vec<DeletedShare>, Error> {
    let data = data_place::of(connection)?;
    let mut select =
        connection.prepare(&select("WHERE deleted IS NOT NULL ORDER BY share.name, deleted DESC, share.id DESC"))?;
    let deleted = |row: &Row<'_>| {
        let (deleted, kept_until) = (time(row.get("deleted")?)?, time(row.get("kept_until")?)?);
        Ok(DeletedShare { share: record(row, &data)?, deleted, kept_until })
    };
    select.query_and_then([], deleted)?.collect()
}

/// One share, whatever the case of its name.
pub(super) fn find(connection: &Connection, name: &ShareName) -> Result<Option<ShareRecord>, Error> {
    let data = data_place::of(connection)?;
    let mut select = connection.prepare(&select("WHERE folded_name = ?1 AND deleted IS NULL"))?;
    select.query_and_then([store::fold(name.as_str())], |row| record(row, &data))?.next().transpose()
}

/// What the provisioned shares of `account` have together, but for the share called `but`.
pub(super) fn provisioned_sum(
    connection: &Connection,
    account: &str,
    but: Option<&str>,
) -> Result<ProvisionedSum, Error> {
    let is_other = |share: &ShareRecord| share.account == account && but != Some(share.name.as_str());
    let others = all(connection)?.into_iter().filter(is_other);
    let mut sum = ProvisionedSum::default();
    for share in others.filter_map(|share| share.provisioned) {
        sum.shares += 1;
        sum.gib += u64::from(share.gib);
        sum.iops += u64::from(share.iops);
        sum.mibps += u64::from(share.mibps);
    }
    Ok(sum)
}

/// The columns that [`record`] reads, of the rows that `which` says.
fn select(which: &str) -> String {
    format!(
        "SELECT share.id, share.name, account.name AS account, folder, ram_bytes, quota_gib, read_only, seal_required,
                comment, continuous, access_based, time_machine, audit, believed_ms, hosts, file_mode, directory_mode, unix_uid, unix_gid,
                iops_max, mibps_max, user_iops_max, user_mibps_max, deleted, kept_until,
                model, gib, iops, mibps, gib_increased, iops_increased, mibps_increased
         FROM share JOIN account ON account.relative_id = share.account
                    LEFT JOIN provision ON provision.share = share.id {which}"
    )
}

fn record(row: &Row<'_>, data: &Path) -> Result<ShareRecord, Error> {
    let folder: Option<String> = row.get("folder")?;
    let source = match folder {
        Some(path) => Source::Folder { path: data.join(path), quota_gib: row.get("quota_gib")? },
        None => {
            let bytes = u64::try_from(row.get::<_, i64>("ram_bytes")?).unwrap_or(1);
            Source::Ram { bytes: NonZeroU64::try_from(bytes).unwrap_or(NonZeroU64::MIN) }
        }
    };
    Ok(ShareRecord {
        id: row.get("id")?,
        name: row.get("name")?,
        account: row.get("account")?,
        source,
        read_only: row.get("read_only")?,
        seal_required: row.get("seal_required")?,
        comment: row.get("comment")?,
        continuous: row.get("continuous")?,
        access_based: row.get("access_based")?,
        time_machine: row.get("time_machine")?,
        audit: row.get::<_, String>("audit")?.parse().map_err(|_| wrong_in("share", "audit"))?,
        hosts: hosts(row.get("hosts")?)?,
        belief: belief::of_milliseconds(row.get("believed_ms")?),
        modes: Modes { file: row.get("file_mode")?, directory: row.get("directory_mode")?, owner: owner(row)? },
        provisioned: provisioned(row)?,
        limits: ShareLimits {
            iops_max: row.get("iops_max")?,
            mibps_max: row.get("mibps_max")?,
            user_iops_max: row.get("user_iops_max")?,
            user_mibps_max: row.get("user_mibps_max")?,
        },
    })
}

/// What the column says of hosts. What makes no sense is an error, and never everywhere.
pub(super) fn hosts(text: Option<String>) -> Result<HostsAllowed, Error> {
    let Some(text) = text else { return Ok(HostsAllowed::Any) };
    text.parse().map_err(|_| wrong_in("share", "hosts"))
}

fn owner(row: &Row<'_>) -> Result<Option<UnixOwner>, Error> {
    let (uid, gid): (Option<u32>, Option<u32>) = (row.get("unix_uid")?, row.get("unix_gid")?);
    Ok(uid.zip(gid).map(|(uid, gid)| UnixOwner { uid, gid }))
}

fn provisioned(row: &Row<'_>) -> Result<Option<Provisioned>, Error> {
    let Some(model) = row.get::<_, Option<String>>("model")? else { return Ok(None) };
    let increased = Increases {
        gib: time(row.get("gib_increased")?)?,
        iops: time(row.get("iops_increased")?)?,
        mibps: time(row.get("mibps_increased")?)?,
    };
    let gib = row.get("gib")?;
    let read = match model.as_str() {
        "v1" => Provisioned::v1(gib, increased.gib),
        _ => Provisioned::v2(gib, row.get("iops")?, row.get("mibps")?, increased),
    };
    read.map(Some).map_err(|_| wrong_in("provision", "value"))
}

/// Adds the row of a share that has none; its id is made here.
pub(super) fn insert(transaction: &Transaction<'_>, share: &ShareRecord, account_id: u32) -> Result<(), Error> {
    let data = data_place::of(transaction)?;
    let ram_bytes = match &share.source {
        Source::Folder { .. } => None,
        Source::Ram { bytes } => Some(i64::try_from(bytes.get()).unwrap_or(i64::MAX)),
    };
    transaction.execute(
        "INSERT INTO share (name, folded_name, account, folder, ram_bytes, file_mode, directory_mode, unix_uid, unix_gid,
                            read_only, seal_required, comment)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, 0, '')",
        params![
            share.name,
            store::fold(&share.name),
            account_id,
            folder(share, &data),
            ram_bytes,
            share.modes.file,
            share.modes.directory,
            share.modes.owner.map(|owner| owner.uid),
            share.modes.owner.map(|owner| owner.gid),
        ],
    )?;
    let id = transaction.last_insert_rowid();
    update(transaction, &ShareRecord { id, ..share.clone() })
}

/// What is kept of where a folder is.
fn folder<'a>(share: &'a ShareRecord, data: &Path) -> Option<&'a str> {
    match &share.source {
        Source::Folder { path, .. } => data_place::kept(path, data).to_str(),
        Source::Ram { .. } => None,
    }
}

/// Writes what can change of a share.
pub(super) fn update(transaction: &Transaction<'_>, share: &ShareRecord) -> Result<(), Error> {
    let data = data_place::of(transaction)?;
    transaction.execute(
        "UPDATE share SET name = :name, folded_name = :folded_name, folder = :folder,
                          quota_gib = :quota_gib, read_only = :read_only, seal_required = :seal_required,
                          comment = :comment, continuous = :continuous, access_based = :access_based,
                          time_machine = :time_machine, audit = :audit,
                          believed_ms = :believed_ms, hosts = :hosts,
                          file_mode = :file_mode, directory_mode = :directory_mode, unix_uid = :unix_uid, unix_gid = :unix_gid,
                          iops_max = :iops_max, mibps_max = :mibps_max,
                          user_iops_max = :user_iops_max, user_mibps_max = :user_mibps_max
         WHERE id = :id",
        named_params! {
            ":id": share.id,
            ":name": share.name,
            ":folded_name": store::fold(&share.name),
            ":folder": folder(share, &data),
            ":quota_gib": share.source.quota_gib(),
            ":read_only": share.read_only,
            ":seal_required": share.seal_required,
            ":comment": share.comment,
            ":continuous": share.continuous,
            ":access_based": share.access_based,
            ":time_machine": share.time_machine,
            ":audit": share.audit.to_string(),
            ":believed_ms": belief::to_milliseconds(share.belief),
            ":hosts": (share.hosts != HostsAllowed::Any).then(|| share.hosts.to_string()),
            ":file_mode": share.modes.file,
            ":directory_mode": share.modes.directory,
            ":unix_uid": share.modes.owner.map(|owner| owner.uid),
            ":unix_gid": share.modes.owner.map(|owner| owner.gid),
            ":iops_max": share.limits.iops_max,
            ":mibps_max": share.limits.mibps_max,
            ":user_iops_max": share.limits.user_iops_max,
            ":user_mibps_max": share.limits.user_mibps_max,
        },
    )?;
    transaction.execute("DELETE FROM provision WHERE share = ?1", [share.id])?;
    share.provisioned.as_ref().map_or(Ok(()), |provisioned| insert_provision(transaction, share.id, provisioned))
}

fn insert_provision(transaction: &Transaction<'_>, share: i64, provisioned: &Provisioned) -> Result<(), Error> {
    let (iops, mibps) = match provisioned.model {
        ProvisionModel::V1 => (None, None),
        ProvisionModel::V2 => (Some(provisioned.iops), Some(provisioned.mibps)),
    };
    transaction.execute(
        "INSERT INTO provision (share, model, gib, iops, mibps, gib_increased, iops_increased, mibps_increased)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            share,
            provisioned.model.as_str(),
            provisioned.gib,
            iops,
            mibps,
            provisioned.increased.gib.as_second(),
            provisioned.increased.iops.as_second(),
            provisioned.increased.mibps.as_second()
        ],
    )?;
    Ok(())
}
