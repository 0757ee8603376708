//! What the servers of tests serve. Tests change the value where they want something else.

use std::sync::Arc;

use store::{Belief, CacheBounds, CachedStore, Known, Store};

use crate::admin::{
    Account, Advertise, Anonymous, AuditClasses, CHANNELS_DEFAULT, Configuration, Multichannel, Polling, Principal,
    PrincipalKind, Sealing, Settings, Share, ShareRights, Signing, Standing, nt_hash,
};

/// The users. All have one password.
pub(crate) const USER: &str = "tester";
pub(crate) const OTHER_USER: &str = "other";
pub(crate) const THIRD_USER: &str = "third";
pub(crate) const PASSWORD: &str = "secret";

const ACCOUNT: &str = "local";

/// The store behind a cache that keeps all that it is asked for.
pub(crate) fn behind_cache(store: Arc<dyn Store>) -> Arc<dyn Store> {
    let bounds = CacheBounds { learns_at_once: true, ..CacheBounds::default() };
    Arc::new(CachedStore::new(store, Known::new(bounds), Belief::Lasting))
}

/// One account, whose sessions may have several channels, with its users and one share, `ram`, on `store`.
pub(crate) fn configuration(store: Arc<dyn Store>) -> Configuration {
    let share = Share {
        name: "ram".into(),
        account: ACCOUNT.into(),
        comment: String::new(),
        store,
        read_only: false,
        seal_required: false,
        access_based: false,
        time_machine: false,
        rights: ShareRights::open(),
        audit: AuditClasses::NONE,
        continuously_available: false,
        limit: Arc::default(),
        snapshots: Arc::default(),
    };
    let settings = Settings {
        server_name: "test".into(),
        machine_sid: [1, 2, 3],
        server_guid: [7; 16],
        dialect_min: 0x0202,
        signing: Signing::Enabled,
        sealing: Sealing::Enabled,
        channels_max: CHANNELS_DEFAULT,
        advertise: Advertise::default(),
        anonymous: Anonymous::default(),
        busy_poll: Polling::Thrifty,
        lock: None,
    };
    Configuration {
        principals: vec![user(USER, 1001), user(OTHER_USER, 1002), user(THIRD_USER, 1003)],
        accounts: vec![Account { name: ACCOUNT.into(), multichannel: Multichannel::On }],
        groups: Vec::new(),
        shares: vec![share],
        awaited: Vec::new(),
        settings,
    }
}

fn user(name: &str, relative_id: u32) -> Principal {
    Principal {
        name: name.into(),
        account: ACCOUNT.into(),
        kind: PrincipalKind::User,
        relative_id,
        secrets: vec![nt_hash(PASSWORD)],
        former: Vec::new(),
        groups: Vec::new(),
        standing: Standing::Good,
        unix_owner: None,
    }
}
