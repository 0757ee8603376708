//! What the whole server has one of: its identity, where it listens, how it guards its connections.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};
use server::admin::{
    AdvertisedAddress, Anonymous, CHANNELS_DEFAULT, CHANNELS_MAX, LockRule, OwnAddresses, Polling, Sealing, Signing,
};

use super::{Catalog, schema};
use crate::advertise::{advertised_text, parse_advertised};
use crate::{Error, span};

/// Addresses of one kind that are kept.
const ADDRESSES_MAX: usize = 64;

/// An SMB2 dialect (MS-SMB2 2.2.3 Dialects).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dialect {
    /// SMB 2.0.2.
    Smb202,
    /// SMB 2.1.
    Smb210,
    /// SMB 3.0.
    Smb300,
    /// SMB 3.0.2.
    Smb302,
    /// SMB 3.1.1.
    Smb311,
}

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

/// The name of a setting in the catalog's table.
fn row_name(name: &str) -> String {
    name.replace('-', "_")
}

fn with_spaces<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(" ")
}

/// How long a thread that has nothing to do looks for more before it sleeps and has to be woken, which takes tens of microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BusyPolling {
    /// It sleeps at once.
    Off,
    /// As long as that spares processor time, 50 us at most.
    #[default]
    Auto,
    /// So long, in microseconds, from 1 to [`BusyPolling::MICROSECONDS_MAX`], whatever it costs; but not where others want the core.
    Microseconds(u32),
}

impl BusyPolling {
    /// More than a client takes between two requests that it sends one after the other.
    pub const MICROSECONDS_MAX: u32 = 10_000;

    /// The same for the server.
    pub(crate) fn polling(self) -> Polling {
        match self {
            BusyPolling::Off => Polling::Off,
            BusyPolling::Auto => Polling::Thrifty,
            BusyPolling::Microseconds(time) => Polling::For(Duration::from_micros(time.into())),
        }
    }
}

impl fmt::Display for BusyPolling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BusyPolling::Off => f.write_str("off"),
            BusyPolling::Auto => f.write_str("auto"),
            BusyPolling::Microseconds(time) => write!(f, "{time}us"),
        }
    }
}

impl FromStr for BusyPolling {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let time = |number: &str| {
            let time: u32 = number.parse().ok()?;
            (1..=BusyPolling::MICROSECONDS_MAX).contains(&time).then_some(BusyPolling::Microseconds(time))
        };
        match text {
            "off" => Ok(BusyPolling::Off),
            "auto" => Ok(BusyPolling::Auto),
            text => text.strip_suffix("us").and_then(time).ok_or_else(|| {
                let remedy =
                    format!("use off, auto, or a time from 1us to {}us, such as 200us", BusyPolling::MICROSECONDS_MAX);
                Error::argument(format!("{text:?} is no time to poll"), remedy)
            }),
        }
    }
}

/// After how many wrong passwords a user is locked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockAfter {
    /// Never.
    #[default]
    Off,
    /// So many, from [`LockAfter::MIN`] to [`LockAfter::MAX`].
    Failures(NonZeroU32),
}

impl LockAfter {
    /// Fewer would lock who mistypes once, or whose client tries a name with two domains.
    pub const MIN: u32 = 3;
    /// More would be none.
    pub const MAX: u32 = 1_000;
}

impl fmt::Display for LockAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockAfter::Off => f.write_str("off"),
            LockAfter::Failures(count) => count.fmt(f),
        }
    }
}

impl FromStr for LockAfter {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text == "off" {
            return Ok(LockAfter::Off);
        }
        let count: Option<NonZeroU32> = text.parse().ok();
        let count = count.filter(|count| (LockAfter::MIN..=LockAfter::MAX).contains(&count.get()));
        count.map(LockAfter::Failures).ok_or_else(|| {
            let remedy = format!("use off, or a number from {} to {}", LockAfter::MIN, LockAfter::MAX);
            Error::argument(format!("{text:?} is no number of wrong passwords"), remedy)
        })
    }
}

/// How long a user stays locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockFor(Duration);

impl LockFor {
    /// As long as wrong passwords are remembered.
    const DEFAULT: Duration = Duration::from_secs(15 * 60);
    const MIN: Duration = Duration::from_secs(60);
    const MAX: Duration = Duration::from_secs(24 * 60 * 60);

    /// The time.
    pub fn duration(self) -> Duration {
        self.0
    }
}

impl Default for LockFor {
    fn default() -> Self {
        LockFor(LockFor::DEFAULT)
    }
}

impl fmt::Display for LockFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&span::to_text(self.0))
    }
}

impl FromStr for LockFor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        span::parse(text).filter(|time| (LockFor::MIN..=LockFor::MAX).contains(time)).map(LockFor).ok_or_else(|| {
            Error::argument(
                format!("{text:?} is no time that a lock may last"),
                "use a time from 1m to 24h, such as 30m",
            )
        })
    }
}

/// How many characters a password of a user has at least. What is there already stays, and keys of accounts are no passwords.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PasswordLength(u8);

impl PasswordLength {
    /// As NIST SP 800-63B wants it, and one more than Windows' policy for a domain.
    const DEFAULT: u8 = 8;
    const MAX: u8 = 64;

    /// Refuses a password that is shorter.
    pub fn check(self, password: &str) -> Result<(), Error> {
        let length = password.chars().count();
        if length >= usize::from(self.0) {
            return Ok(());
        }
        Err(Error::argument(
            format!("the password has {length} characters, and passwords of users have {self} at least"),
            format!(
                "take a longer one; `multilane server set password-length-min N` says how long, 1 to {}",
                Self::MAX
            ),
        ))
    }
}

impl Default for PasswordLength {
    fn default() -> Self {
        PasswordLength(PasswordLength::DEFAULT)
    }
}

impl fmt::Display for PasswordLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for PasswordLength {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let length = text.parse().ok().filter(|length| (1..=PasswordLength::MAX).contains(length));
        length.map(PasswordLength).ok_or_else(|| {
            Error::argument(
                format!("{text:?} is no length of a password"),
                format!("use a number of characters from 1 to {}", PasswordLength::MAX),
            )
        })
    }
}

impl StoredSettings {
    /// When users are locked, for the server.
    pub(crate) fn lock(&self) -> Option<LockRule> {
        match self.lock_after {
            LockAfter::Off => None,
            LockAfter::Failures(after) => Some(LockRule { after, lasting: self.lock_for.0 }),
        }
    }
}

impl Dialect {
    const ALL: [Dialect; 5] = [Dialect::Smb202, Dialect::Smb210, Dialect::Smb300, Dialect::Smb302, Dialect::Smb311];

    /// The revision number on the wire.
    pub fn revision(self) -> u16 {
        match self {
            Dialect::Smb202 => 0x0202,
            Dialect::Smb210 => 0x0210,
            Dialect::Smb300 => 0x0300,
            Dialect::Smb302 => 0x0302,
            Dialect::Smb311 => 0x0311,
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Dialect::Smb202 => "2.0.2",
            Dialect::Smb210 => "2.1",
            Dialect::Smb300 => "3.0",
            Dialect::Smb302 => "3.0.2",
            Dialect::Smb311 => "3.1.1",
        })
    }
}

impl FromStr for Dialect {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Dialect::ALL.into_iter().find(|dialect| dialect.to_string() == text).ok_or_else(|| {
            Error::argument(format!("{text:?} is no SMB dialect"), "use 2.0.2, 2.1, 3.0, 3.0.2 or 3.1.1")
        })
    }
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

/// Gives a new catalog the identity that it keeps.
pub(super) fn fill(connection: &mut Connection) -> Result<(), Error> {
    if value(connection, "server_guid")?.is_some() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if value(&transaction, "server_guid")?.is_none() {
        let (mut guid, mut sid) = ([0; 16], [0; 12]);
        fill_random(&mut guid)?;
        fill_random(&mut sid)?;
        let (numbers, _) = sid.as_chunks::<4>();
        let numbers: Vec<u32> = numbers.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        put(&transaction, "machine_sid", &numbers_text(&numbers))?;
        put(&transaction, "server_guid", &hex(&guid))?;
    }
    Ok(transaction.commit()?)
}

/// The oldest dialect that is accepted where nobody says otherwise: those before it cannot seal, and sign with less.
const DIALECT_MIN_DEFAULT: Dialect = Dialect::Smb300;

/// Reads every setting. What the catalog says wrongly is an error, never a weaker default.
pub(super) fn read(connection: &Connection) -> Result<StoredSettings, Error> {
    let text = |name| value(connection, name);
    let listen = text("listen")?.unwrap_or_default();
    let listen: Result<Vec<_>, _> = listen.split_whitespace().map(str::parse).collect();
    let advertise = text("advertise")?.unwrap_or_default();
    let advertise: Result<Vec<_>, _> = advertise.split_whitespace().map(parse_advertised).collect();
    let mut settings = StoredSettings {
        listen: listen.map_err(|_| wrong("listen"))?,
        dialect_min: text("dialect_min")?.map_or(Ok(DIALECT_MIN_DEFAULT), |text| text.parse())?,
        signing: match text("signing")?.as_deref() {
            None | Some("required") => Signing::Required,
            Some("enabled") => Signing::Enabled,
            Some(_) => return Err(wrong("signing")),
        },
        sealing: match text("sealing")?.as_deref() {
            None | Some("enabled") => Sealing::Enabled,
            Some("required") => Sealing::Required,
            Some(_) => return Err(wrong("sealing")),
        },
        channels_max: text("channels_max")?
            .map_or(Some(CHANNELS_DEFAULT), channels)
            .ok_or_else(|| wrong("channels_max"))?,
        busy_poll: text("busy_poll")?.map_or(Ok(BusyPolling::default()), |text| text.parse())?,
        advertise: advertise.map_err(|_| wrong("advertise"))?,
        own_addresses: match text("advertise_only")?.as_deref() {
            None | Some("false") => OwnAddresses::Told,
            Some("true") => OwnAddresses::LeftOut,
            Some(_) => return Err(wrong("advertise_only")),
        },
        anonymous: match text("anonymous")?.as_deref() {
            None | Some("refused") => Anonymous::Refused,
            Some("reauthentication") => Anonymous::Reauthentication,
            Some(_) => return Err(wrong("anonymous")),
        },
        lock_after: text("lock_after")?.map_or(Ok(LockAfter::Off), |text| text.parse())?,
        lock_for: text("lock_for")?.map_or(Ok(LockFor::default()), |text| text.parse())?,
        password_length_min: text("password_length_min")?.map_or(Ok(PasswordLength::default()), |text| text.parse())?,
        server_name: text("server_name")?.filter(|name| !name.is_empty()),
        machine_sid: text("machine_sid")?.and_then(|text| numbers(&text)).ok_or_else(|| wrong("machine_sid"))?,
        server_guid: text("server_guid")?.and_then(|text| unhex(&text)).ok_or_else(|| wrong("server_guid"))?,
        kept: Vec::new(),
    };
    for setting in settings.each() {
        if value(connection, &row_name(setting.name()))?.is_some() {
            settings.kept.push(setting.name());
        }
    }
    Ok(settings)
}

/// A number of the kernel's chance, which nobody guesses.
pub fn random_number() -> Result<u128, Error> {
    let mut bytes = [0; 16];
    fill_random(&mut bytes)?;
    Ok(u128::from_le_bytes(bytes))
}

/// Fills `bytes` with the kernel's chance.
pub(super) fn fill_random(bytes: &mut [u8]) -> Result<(), Error> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(cause) => {
                return Err(Error::machine(format!("the kernel gives no random bytes: {cause}"), "try again"));
            }
        }
    }
    Ok(())
}

pub(super) fn value(connection: &Connection, name: &str) -> Result<Option<String>, Error> {
    Ok(connection.query_row("SELECT value FROM setting WHERE name = ?1", [name], |row| row.get(0)).optional()?)
}

pub(super) fn put(connection: &Connection, name: &str, value: &str) -> Result<(), Error> {
    connection.execute("INSERT OR REPLACE INTO setting (name, value) VALUES (?1, ?2)", [name, value])?;
    Ok(())
}

pub(super) fn wrong(name: &str) -> Error {
    let what = format!("the catalog's setting {name} makes no sense");
    Error::machine(what, "correct it in the table `setting` of catalog.db, or restore that file from a copy")
}

/// A row of `table` says in `column` what no program wrote.
pub(super) fn wrong_in(table: &str, column: &str) -> Error {
    let what = format!("the catalog's table {table} has a row with a {column} that makes no sense");
    Error::machine(what, "correct it in catalog.db, or restore that file from a copy")
}

fn channels(text: String) -> Option<usize> {
    text.parse().ok().filter(|channels| (1..=CHANNELS_MAX).contains(channels))
}

fn numbers_text(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join("-")
}

fn numbers(text: &str) -> Option<[u32; 3]> {
    let numbers: Vec<u32> = text.split('-').map(str::parse).collect::<Result<_, _>>().ok()?;
    numbers.try_into().ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 16]> {
    let whole = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
    whole.then(|| u128::from_str_radix(text, 16).ok()).flatten().map(u128::to_be_bytes)
}
