//! The table of settings: a row for each that somebody has set, and for what a new catalog is given.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use server::admin::{Anonymous, CHANNELS_DEFAULT, CHANNELS_MAX, OwnAddresses, Sealing, Signing};

use super::{BusyPolling, Dialect, LockAfter, LockFor, PasswordLength, StoredSettings};
use crate::Error;
use crate::advertise::parse_advertised;
use crate::catalog::wrong::wrong;
use crate::random::fill_random;

/// The name of a setting in the catalog's table.
pub(super) fn row_name(name: &str) -> String {
    name.replace('-', "_")
}

/// Gives a new catalog the identity that it keeps.
pub(in crate::catalog) fn fill(connection: &mut Connection) -> Result<(), Error> {
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
pub(in crate::catalog) fn read(connection: &Connection) -> Result<StoredSettings, Error> {
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

pub(in crate::catalog) fn value(connection: &Connection, name: &str) -> Result<Option<String>, Error> {
    Ok(connection.query_row("SELECT value FROM setting WHERE name = ?1", [name], |row| row.get(0)).optional()?)
}

pub(in crate::catalog) fn put(connection: &Connection, name: &str, value: &str) -> Result<(), Error> {
    connection.execute("INSERT OR REPLACE INTO setting (name, value) VALUES (?1, ?2)", [name, value])?;
    Ok(())
}

fn channels(text: String) -> Option<usize> {
    text.parse().ok().filter(|channels| (1..=CHANNELS_MAX).contains(channels))
}

pub(super) fn numbers_text(numbers: &[u32]) -> String {
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
