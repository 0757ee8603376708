//! What the whole server has one of: its identity, where it listens, how it guards its connections.

mod busy_polling;
mod dialect;
mod passwords;
mod table;

use std::net::SocketAddr;

use rusqlite::{Connection, Transaction};
use server::admin::{AdvertisedAddress, Anonymous, LockRule, OwnAddresses, Sealing, Signing};

pub use self::busy_polling::BusyPolling;
pub use self::dialect::Dialect;
pub use self::passwords::{LockAfter, LockFor, PasswordLength};
pub(super) use self::table::{fill, put, read, value};
use self::table::{numbers_text, row_name};
use super::{Catalog, schema};
use crate::Error;
use crate::advertise::advertised_text;

/// Addresses of one kind that are kept.
const ADDRESSES_MAX: usize = 64;

/// The settings in the catalog. What `serve` is started with wins over them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSettings {
    /// Where to listen; empty for the default.
    pub listen: Vec<SocketAddr>,
    /// The oldest dialect to accept.
    pub dialect_min: Dialect,
    /// Whether every request must be signed.
    pub signing: Signing,
    /// Whether every session must be sealed.
    pub sealing: Sealing,
    /// The most connections that one session may use at once.
    pub channels_max: usize,
    /// How long threads that have nothing to do look for more before they sleep.
    pub busy_poll: BusyPolling,
    /// Addresses that clients are told of.
    pub advertise: Vec<AdvertisedAddress>,
    /// Whether they are told of the machine's own addresses, too.
    pub own_addresses: OwnAddresses,
    /// Whether a session may be signed in again as the anonymous user.
    pub anonymous: Anonymous,
    /// After how many wrong passwords a user is locked.
    pub lock_after: LockAfter,
    /// How long a lock lasts.
    pub lock_for: LockFor,
    /// The fewest characters that a password of a user may have from now on.
    pub password_length_min: PasswordLength,
    /// The name shown to clients; `None` for the host name's first label.
    pub server_name: Option<String>,
    /// The three numbers of the machine's SID, made once.
    pub machine_sid: [u32; 3],
    /// The server's GUID, made once.
    pub server_guid: [u8; 16],
    /// The names of those that somebody has set: the others are the defaults.
    pub kept: Vec<&'static str>,
}

/// A setting that may be kept in the catalog, with its value. It has the name and the text of an option of `serve`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Where to listen; empty for the default. It counts with the next start.
    Listen(Vec<SocketAddr>),
    /// Whether every request must be signed.
    Signing(Signing),
    /// Whether every session must be sealed.
    Sealing(Sealing),
    /// The oldest dialect to accept.
    DialectMin(Dialect),
    /// The most connections that one session may use at once.
    ChannelsMax(usize),
    /// How long threads that have nothing to do look for more before they sleep.
    BusyPoll(BusyPolling),
    /// Addresses that clients are told of.
    Advertise(Vec<AdvertisedAddress>),
    /// Whether they are told of the machine's own addresses, too.
    OwnAddresses(OwnAddresses),
    /// Whether a session may be signed in again as the anonymous user.
    Anonymous(Anonymous),
    /// After how many wrong passwords a user is locked.
    LockAfter(LockAfter),
    /// How long a lock lasts.
    LockFor(LockFor),
    /// The fewest characters that a new password of a user may have.
    PasswordLengthMin(PasswordLength),
}

impl Setting {
    /// Its name: that of the option of `serve`, where there is one.
    pub fn name(&self) -> &'static str {
        match self {
            Setting::Listen(_) => "listen",
            Setting::Signing(_) => "signing",
            Setting::Sealing(_) => "sealing",
            Setting::DialectMin(_) => "dialect-min",
            Setting::ChannelsMax(_) => "channels-max",
            Setting::BusyPoll(_) => "busy-poll",
            Setting::Advertise(_) => "advertise",
            Setting::OwnAddresses(_) => "advertise-only",
            Setting::Anonymous(_) => "anonymous",
            Setting::LockAfter(_) => "lock-after",
            Setting::LockFor(_) => "lock-for",
            Setting::PasswordLengthMin(_) => "password-length-min",
        }
    }

    /// True where a running server takes it up.
    pub fn is_live(&self) -> bool {
        !matches!(self, Setting::Listen(_))
    }

    /// Its value, as people write it.
    pub fn text(&self) -> String {
        match self {
            Setting::Listen(addresses) => with_spaces(addresses),
            Setting::Signing(Signing::Required) | Setting::Sealing(Sealing::Required) => "required".to_owned(),
            Setting::Signing(Signing::Enabled) | Setting::Sealing(Sealing::Enabled) => "enabled".to_owned(),
            Setting::DialectMin(dialect) => dialect.to_string(),
            Setting::ChannelsMax(count) => count.to_string(),
            Setting::BusyPoll(polling) => polling.to_string(),
            Setting::Advertise(addresses) => with_spaces(&addresses.iter().map(advertised_text).collect::<Vec<_>>()),
            Setting::OwnAddresses(OwnAddresses::LeftOut) => "true".to_owned(),
            Setting::OwnAddresses(OwnAddresses::Told) => "false".to_owned(),
            Setting::Anonymous(Anonymous::Refused) => "refused".to_owned(),
            Setting::Anonymous(Anonymous::Reauthentication) => "reauthentication".to_owned(),
            Setting::LockAfter(after) => after.to_string(),
            Setting::LockFor(time) => time.to_string(),
            Setting::PasswordLengthMin(length) => length.to_string(),
        }
    }
}

fn with_spaces<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(" ")
}

impl StoredSettings {
    /// The SID of a principal of this server.
    pub fn sid(&self, relative_id: u32) -> String {
        format!("S-1-5-21-{}-{relative_id}", numbers_text(&self.machine_sid))
    }

    /// Those of a catalog that a first start would make.
    pub fn of_new_catalog() -> Result<Self, Error> {
        let mut connection = Connection::open_in_memory()?;
        schema::raise(&mut connection)?;
        fill(&mut connection)?;
        read(&connection)
    }

    /// Those that somebody may set, as they are.
    pub fn each(&self) -> [Setting; 12] {
        [
            Setting::Listen(self.listen.clone()),
            Setting::Signing(self.signing),
            Setting::Sealing(self.sealing),
            Setting::DialectMin(self.dialect_min),
            Setting::ChannelsMax(self.channels_max),
            Setting::BusyPoll(self.busy_poll),
            Setting::Advertise(self.advertise.clone()),
            Setting::OwnAddresses(self.own_addresses),
            Setting::Anonymous(self.anonymous),
            Setting::LockAfter(self.lock_after),
            Setting::LockFor(self.lock_for),
            Setting::PasswordLengthMin(self.password_length_min),
        ]
    }

    /// When users are locked, for the server.
    pub(crate) fn lock(&self) -> Option<LockRule> {
        match self.lock_after {
            LockAfter::Off => None,
            LockAfter::Failures(after) => Some(LockRule { after, lasting: self.lock_for.duration() }),
        }
    }
}

impl Catalog {
    /// The settings as they stand.
    pub fn settings(&mut self) -> Result<StoredSettings, Error> {
        let view = self.connection.transaction()?;
        read(&view)
    }

    /// Keeps a setting; gives all as they are then.
    pub fn set(&mut self, setting: &Setting) -> Result<StoredSettings, Error> {
        self.write(|transaction| {
            check_count(setting)?;
            put(transaction, &row_name(setting.name()), &setting.text())?;
            checked(transaction)
        })
    }

    /// Forgets what was kept of the setting `name`, so that its default counts again; gives all as they are then.
    pub fn unset(&mut self, name: &str) -> Result<StoredSettings, Error> {
        self.write(|transaction| {
            let before = read(transaction)?;
            if !before.each().iter().any(|setting| setting.name() == name) {
                let names = before.each().map(|setting| setting.name()).join(", ");
                return Err(Error::argument(format!("{name:?} is no setting that is kept"), format!("use {names}")));
            }
            transaction.execute("DELETE FROM setting WHERE name = ?1", [row_name(name)])?;
            checked(transaction)
        })
    }
}

/// What the settings have become, if that makes sense.
fn checked(transaction: &Transaction<'_>) -> Result<StoredSettings, Error> {
    let settings = read(transaction)?;
    if settings.own_addresses == OwnAddresses::LeftOut && settings.advertise.is_empty() {
        return Err(Error::argument(
            "clients would be told of no address at all, and open no further channels",
            "set advertise first; or leave advertise-only at false",
        ));
    }
    Ok(settings)
}

fn check_count(setting: &Setting) -> Result<(), Error> {
    let count = match setting {
        Setting::Listen(addresses) => addresses.len(),
        Setting::Advertise(addresses) => addresses.len(),
        Setting::Signing(_)
        | Setting::Sealing(_)
        | Setting::DialectMin(_)
        | Setting::ChannelsMax(_)
        | Setting::BusyPoll(_)
        | Setting::OwnAddresses(_)
        | Setting::Anonymous(_)
        | Setting::LockAfter(_)
        | Setting::LockFor(_)
        | Setting::PasswordLengthMin(_) => 0,
    };
    if count <= ADDRESSES_MAX {
        return Ok(());
    }
    Err(Error::argument(format!("{count} addresses are too many"), format!("name at most {ADDRESSES_MAX}")))
}
