//! What an account decides about what its shares are provisioned with.

use jiff::Timestamp;
use rusqlite::Connection;

use super::share_rows::provisioned_sum;
use super::{Account, ProvisionUpdate, ShareRecord};
use crate::{Billing, Error, Provision, ProvisionChanges, ProvisionModel, Provisioned};

/// What a share of `account` is provisioned with for which `wanted` is asked, made at `now`.
pub(super) fn of_new(
    account: &Account,
    wanted: Option<Provision>,
    now: Timestamp,
) -> Result<Option<Provisioned>, Error> {
    match (account.billing(), wanted) {
        (Billing::Local | Billing::PayAsYouGo, None) => Ok(None),
        (Billing::Local, Some(wanted)) => wanted.by(local_model(wanted), now).map(Some),
        (Billing::Provisioned(model), Some(wanted)) => wanted.by(model, now).map(Some),
        (Billing::Provisioned(model), None) => Err(must_be_provisioned(account, model)),
        (Billing::PayAsYouGo, Some(_)) => Err(is_never_provisioned(account)),
    }
}

/// What `share` of `account` is provisioned with once `update` is made at `now`.
pub(super) fn changed(
    account: &Account,
    share: &ShareRecord,
    update: ProvisionUpdate,
    now: Timestamp,
) -> Result<Option<Provisioned>, Error> {
    match (update, account.billing()) {
        (ProvisionUpdate::Remove, Billing::Local | Billing::PayAsYouGo) => Ok(None),
        (ProvisionUpdate::Remove, Billing::Provisioned(model)) => Err(must_be_provisioned(account, model)),
        (ProvisionUpdate::Change(_), Billing::PayAsYouGo) => Err(is_never_provisioned(account)),
        (ProvisionUpdate::Change(changes), Billing::Local | Billing::Provisioned(_)) => {
            let Some(provisioned) = &share.provisioned else { return first(account, share, changes, now) };
            in_model(account, provisioned, changes)?.changed(changes, now).map(Some)
        }
    }
}

/// What a share is provisioned with that was not.
fn first(
    account: &Account,
    share: &ShareRecord,
    ProvisionChanges { gib, iops, mibps }: ProvisionChanges,
    now: Timestamp,
) -> Result<Option<Provisioned>, Error> {
    match gib {
        Some(gib) => of_new(account, Some(Provision { gib, iops, mibps }), now),
        None => Err(Error::conflict(
            format!("share {:?} is not provisioned, so it has no --iops and --mibps", share.name),
            "give its size with --provisioned GIB, too, or limit it with --iops-max and --mibps-max",
        )),
    }
}

/// The same values in the model that takes `changes`: in a local account a share of v1 becomes one of v2 where operations or throughput are said.
fn in_model(account: &Account, share: &Provisioned, changes: ProvisionChanges) -> Result<Provisioned, Error> {
    let wants_v2 = changes.iops.is_some() || changes.mibps.is_some();
    match (account.billing(), share.model) {
        (Billing::Local, ProvisionModel::V1) if wants_v2 => {
            Provisioned::v2(share.gib, share.iops, share.mibps, share.increased)
        }
        (Billing::Local | Billing::Provisioned(_) | Billing::PayAsYouGo, ProvisionModel::V1 | ProvisionModel::V2) => {
            Ok(*share)
        }
    }
}

/// Fails where the account has no room for what `share` is to be provisioned with, beside its other shares. Called with the write lock held.
pub(super) fn check_room(connection: &Connection, account: &Account, share: &ShareRecord) -> Result<(), Error> {
    match (&share.provisioned, account.billing()) {
        (Some(provisioned), Billing::Provisioned(model)) => {
            provisioned_sum(connection, &account.name, Some(&share.name))?.room_for(provisioned, model)
        }
        (Some(_), Billing::Local | Billing::PayAsYouGo) | (None, _) => Ok(()),
    }
}

/// By which model a share of a local account is provisioned: by the one that takes what is said.
fn local_model(wanted: Provision) -> ProvisionModel {
    match (wanted.iops, wanted.mibps) {
        (None, None) => ProvisionModel::V1,
        (Some(_), _) | (_, Some(_)) => ProvisionModel::V2,
    }
}

fn is_never_provisioned(account: &Account) -> Error {
    Error::conflict(
        format!("no share of account {:?} is provisioned: it is of kind {}", account.name, account.kind.as_str()),
        "leave out --provisioned, --iops and --mibps, or use an account of kind FileStorage: one with a Premium or PremiumV2 SKU, or one \
         without --sku",
    )
}

fn must_be_provisioned(account: &Account, model: ProvisionModel) -> Error {
    let (sku, sizes) = (account.sku.map_or("none", |sku| sku.as_str()), model.gib());
    Error::conflict(
        format!("each share of account {:?} is provisioned: its SKU is {sku}", account.name),
        format!("say how large with --provisioned GIB, from {} to {}", sizes.start(), sizes.end()),
    )
}
