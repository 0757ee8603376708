//! The control plane: the catalog of accounts, users and shares; the configuration it gives the server; the admin socket.
//!
//! An operator's command writes the catalog and then tells the running server to reload, through a socket in the same
//! data folder. The server never writes what an operator decides.
//!
//! # Example
//!
//! What `multilane account create` does, before it tells the server:
//!
//! ```
//! use control::{AccountKind, AccountName, Catalog, DataFolder};
//!
//! # let place = tempfile::tempdir()?;
//! # let place = place.path();
//! let folder = DataFolder::create(place)?;
//! let mut catalog = Catalog::open(&folder)?;
//! let name: AccountName = "studio".parse()?;
//! let account = catalog.create_account(&name, AccountKind::FileStorage)?;
//! assert_eq!(account.shares, 0);
//! // Either of the two signs in.
//! let keys = catalog.keys(&name)?;
//! assert_ne!(keys.key1, keys.key2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod advertise;
mod audit_place;
mod azure;
mod belief;
mod btrfs;
mod by;
mod catalog;
mod catalog_changes;
mod catalog_health;
mod catalogs_in;
mod control;
mod count;
mod counters;
mod development;
mod error;
mod feature;
mod file_service;
mod folder;
mod gone;
mod hosts;
mod known;
mod lease_time;
mod limits;
mod look;
mod loopback;
mod managed;
mod name;
mod operations;
mod operators;
mod overlap;
mod own_folder;
mod problems;
mod provisioned;
pub mod provisioning;
mod published_key;
mod random;
mod rates;
mod region;
mod reload;
mod restoring;
mod role;
mod serve_option;
mod served_folder;
mod server_health;
mod service_principals;
mod share_gauges;
mod share_lease;
mod size;
mod sku;
#[cfg(test)]
mod small_disk;
mod snapshot_operations;
mod snapshot_time;
mod snapshots;
mod socket;
mod span;
mod stores;
mod views;
mod within;

pub use advertise::parse_advertised;
pub use azure::ShareProperties;
pub use belief::{BeliefChanges, BelievedFor};
pub use by::{By, Requester, Who};
pub use catalog::refused_by_lease;
pub use catalog::{
    ACCOUNTS_MAX, Account, AccountChanges, Backup, BusyPolling, Catalog, CatalogProblem, Checked, DeletedShare,
    Deletion, Dialect, Existing, Grace, Grant, Grantee, Grants, Group, Holds, Key, Keys, LockAfter, LockFor, LostShare,
    MetadataCaching, ModeChanges, Modes, NewShare, Notice, Operator, PasswordLength, ProvisionUpdate, Restored,
    ServicePrincipal, Setting, ShareChanges, ShareRecord, Source, StoredSettings, User, UserChanges, check_catalog,
    kept_settings,
};
pub use catalogs_in::catalogs_in;
pub use control::{Control, Overrides, first_start};
pub use counters::ask_for_counters;
pub use development::{
    DEVELOPMENT_ACCOUNT, DEVELOPMENT_APPLICATION, DEVELOPMENT_FOLDER, DEVELOPMENT_SECRET, account_with_published_key,
    development_start,
};
pub use error::{Error, Fault, Measure, Reason};
pub use feature::{Feature, FeatureState, Features, Regions, WhyNot};
pub use file_service::{AccessTier, AzureShare, CorsRule, FileService, MetricsPolicy, StoredPolicy};
pub use folder::{DataFolder, Lock, REST_CERTIFICATE};
pub use hosts::parse_hosts;
pub use known::KnownCatalog;
pub use lease_time::LeaseTime;
pub use limits::{LimitChanges, ShareLimits};
pub use loopback::{LoopbackName, is_for_machine};
pub use managed::Registration;
pub use name::{AccountName, ShareName, UserName};
pub use operations::Operations;
pub use operators::{ProvedOperator, folded_name};
pub use overlap::{Overlap, overlapping};
pub use provisioned::{Increases, Provision, ProvisionChanges, Provisioned};
pub use provisioning::ProvisionModel;
pub use published_key::DEVELOPMENT_KEY;
pub use random::random_number;
pub use region::Region;
pub use reload::{Reloader, Told, reload};
pub use restoring::restore_catalog;
pub use role::Role;
pub use serve_option::{ServeOption, SettingView, views_of};
pub use server_health::ServerHealth;
pub use share_gauges::{ShareGauges, ShareReading};
pub use share_lease::{
    BREAK_SECONDS_MAX, LEASE_SECONDS, LeaseAction, LeaseRefusal, LeaseState, ShareLease, lease_by, lease_state,
    may_change, may_use,
};
pub use size::{parse_bytes, parse_size};
pub use sku::{AccountKind, AccountPlan, Billing, Sku};
pub use snapshot_operations::{LeaseNamed, SnapshotHold, WithSnapshots};
pub use snapshot_time::{NoSnapshotTime, SnapshotTime};
pub use snapshots::ShareSnapshot;
pub use socket::{AdminSocket, Explain, Facts, LogFilter, Request, Seen, ask, ask_for_all, see};
pub use store::{Belief, UnixOwner};
pub use stores::{Folders, look_for_problems};
pub use views::{
    AuditLines, BusyFile, Channel, Interface, LockedUser, OpenFile, Problem, Session, ShareUse, Status, Waited,
};
