//! Sessions and open files, as Computer Management lists them (MS-SRVS 3.1.4.2, 3.1.4.5).

use crate::codec::Utf16;
use crate::rpc::Syntax;
use crate::rpc::ndr::NdrWriter;
use crate::rpc::srvsvc::response::union_tag;
use crate::rpc::srvsvc::{NetStatus, OpenFile, Session, Srvsvc};

/// The most bytes of entries in one answer; the client asks for the rest.
const ENTRIES_BYTES_MAX: usize = 256 * 1024;
/// The most entries that one call looks at, whether it tells them or passes over them.
const LOOKED_AT_MAX: usize = 20_000;
/// Bytes of an entry's fixed part and counts in NDR64, at most.
const ENTRY_BYTES: usize = 192;
/// The longest qualifier, in UTF-16 units (MS-SRVS 3.1.4.5).
const QUALIFIER_UNITS_MAX: usize = 1023;

/// Where an enumeration begins, and how much of it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Information level.
    pub level: u32,
    /// How much data the client would like at most, in bytes.
    pub preferred_bytes: u32,
    /// Where to go on, and whether the client wants to be told.
    pub resume: Option<u32>,
}

/// What an enumeration found.
struct Found<T> {
    told: Vec<T>,
    /// Where to go on, where there is more.
    next: Option<u32>,
    total: usize,
}

impl<T> Found<T> {
    fn nothing() -> Self {
        Found { told: Vec::new(), next: None, total: 0 }
    }
}

/// Collects entries from where the client wants to go on, as many as there is room for and one at least.
fn collect<T>(
    wanted: &Wanted,
    list: impl FnOnce(usize, &mut dyn FnMut(T) -> bool) -> usize,
    matches: impl Fn(&T) -> bool,
    length: impl Fn(&T) -> usize,
) -> Found<T> {
    let from = wanted.resume.unwrap_or(0) as usize;
    let mut room = (wanted.preferred_bytes as usize).min(ENTRIES_BYTES_MAX);
    let (mut told, mut passed) = (Vec::new(), 0);
    let count = list(from, &mut |entry| {
        if passed == LOOKED_AT_MAX {
            return false;
        }
        if matches(&entry) {
            let needed = ENTRY_BYTES + 2 * length(&entry);
            if needed > room && !told.is_empty() {
                return false;
            }
            room = room.saturating_sub(needed);
            told.push(entry);
        }
        passed += 1;
        true
    });
    let left = count.saturating_sub(from + passed);
    let next = (left > 0).then(|| (from + passed) as u32);
    Found { total: told.len() + left, told, next }
}

/// A qualifier that is told: empty is the same as none.
fn qualifier<'a>(text: Option<&Utf16<'a>>) -> Result<Option<String>, NetStatus> {
    match text {
        Some(text) if text.units().count() > QUALIFIER_UNITS_MAX => Err(NetStatus::INVALID_PARAMETER),
        Some(text) if !text.is_empty() => text.decode().map(Some).ok_or(NetStatus::INVALID_PARAMETER),
        Some(_) | None => Ok(None),
    }
}

fn same(one: &str, other: &str) -> bool {
    one.to_uppercase() == other.to_uppercase()
}

/// Appends NetrSessionEnum's answer to `out`. `client` is an address behind two backslashes.
pub(super) fn encode_sessions(
    service: &dyn Srvsvc,
    (client, user): (Option<&Utf16<'_>>, Option<&Utf16<'_>>),
    wanted: &Wanted,
    syntax: Syntax,
    out: &mut Vec<u8>,
) {
    let found = find_sessions(service, client, user, wanted);
    let mut ndr = NdrWriter::new(out, syntax);
    write_enumeration(&mut ndr, wanted, found, write_session, |ndr, session, level| {
        let texts: &[&str] = match level {
            0 => &[&session.client],
            1 | 10 => &[&session.client, &session.user],
            2 => &[&session.client, &session.user, ""],
            _ => &[&session.client, &session.user, "", ""],
        };
        texts.iter().for_each(|text| ndr.string(text));
    });
}

fn find_sessions(
    service: &dyn Srvsvc,
    client: Option<&Utf16<'_>>,
    user: Option<&Utf16<'_>>,
    wanted: &Wanted,
) -> Result<Found<Session>, NetStatus> {
    if !service.may_administer() {
        return Err(NetStatus::ACCESS_DENIED);
    }
    let (client, user) = (qualifier(client)?, qualifier(user)?);
    let client = match &client {
        Some(client) => Some(client.strip_prefix(r"\\").ok_or(NetStatus::INVALID_COMPUTER)?),
        None => None,
    };
    let matches = |session: &Session| {
        client.is_none_or(|client| same(client, &session.client))
            && user.as_deref().is_none_or(|user| same(user, &session.user))
    };
    let length = |session: &Session| session.client.len() + session.user.len();
    let found = collect(wanted, |from, take| service.sessions(from, take), matches, length);
    match (found.told.is_empty() && found.next.is_none(), &user, client) {
        (true, Some(_), _) => Err(NetStatus::USER_NOT_FOUND),
        (true, None, Some(_)) => Err(NetStatus::CLIENT_NAME_NOT_FOUND),
        (true, None, None) | (false, ..) => Ok(found),
    }
}

/// SESSION_INFO_level (MS-SRVS 2.2.4.11 to 2.2.4.15), its strings left for later. No session is a guest's.
fn write_session(ndr: &mut NdrWriter<'_>, session: &Session, level: u32) {
    ndr.align_word();
    ndr.pointer(true);
    if level == 0 {
        return;
    }
    ndr.pointer(true);
    if level != 10 {
        ndr.u32(session.opens);
    }
    ndr.u32(session.seconds);
    ndr.u32(session.idle_seconds);
    if level != 10 {
        ndr.u32(0);
    }
    if matches!(level, 2 | 502) {
        ndr.pointer(true);
    }
    if level == 502 {
        ndr.pointer(true);
    }
}

/// Appends NetrFileEnum's answer to `out`.
pub(super) fn encode_files(
    service: &dyn Srvsvc,
    (base, user): (Option<&Utf16<'_>>, Option<&Utf16<'_>>),
    wanted: &Wanted,
    syntax: Syntax,
    out: &mut Vec<u8>,
) {
    let found = find_files(service, base, user, wanted);
    let mut ndr = NdrWriter::new(out, syntax);
    write_enumeration(&mut ndr, wanted, found, write_file, |ndr, file, level| {
        if level == 3 {
            ndr.string(&file.path);
            ndr.string(&file.user);
        }
    });
}

fn find_files(
    service: &dyn Srvsvc,
    base: Option<&Utf16<'_>>,
    user: Option<&Utf16<'_>>,
    wanted: &Wanted,
) -> Result<Found<OpenFile>, NetStatus> {
    if !service.may_administer() {
        return Err(NetStatus::ACCESS_DENIED);
    }
    let (base, user) = (qualifier(base)?, qualifier(user)?);
    let base = base.map(|base| base.trim_end_matches('\\').to_uppercase());
    // "A prefix is the path component up to a backslash."
    let is_below = |path: &str, base: &str| {
        let rest = path.to_uppercase();
        rest.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('\\'))
    };
    let matches = |file: &OpenFile| {
        base.as_deref().is_none_or(|base| is_below(&file.path, base))
            && user.as_deref().is_none_or(|user| same(user, &file.user))
    };
    let length = |file: &OpenFile| file.path.len() + file.user.len();
    Ok(collect(wanted, |from, take| service.files(from, take), matches, length))
}

/// FILE_INFO_level (MS-SRVS 2.2.4.6, 2.2.4.7), its strings left for later.
fn write_file(ndr: &mut NdrWriter<'_>, file: &OpenFile, level: u32) {
    if level == 2 {
        return ndr.u32(file.id);
    }
    ndr.align_word();
    ndr.u32(file.id);
    ndr.u32(file.permissions);
    ndr.u32(file.locks);
    ndr.pointer(true);
    ndr.pointer(true);
}

/// A level, a union with a pointer to a container of entries, their total, where to go on, and how the call ended.
fn write_enumeration<T>(
    ndr: &mut NdrWriter<'_>,
    wanted: &Wanted,
    found: Result<Found<T>, NetStatus>,
    write: impl Fn(&mut NdrWriter<'_>, &T, u32),
    write_strings: impl Fn(&mut NdrWriter<'_>, &T, u32),
) {
    let level = wanted.level;
    let (found, status) = match found {
        Ok(found) if found.next.is_some() => (found, NetStatus::MORE_DATA),
        Ok(found) => (found, NetStatus::SUCCESS),
        Err(status) => (Found::nothing(), status),
    };
    ndr.align_word();
    ndr.u32(level);
    union_tag(ndr, level);
    ndr.pointer(true);
    ndr.u32(found.told.len() as u32);
    ndr.pointer(!found.told.is_empty());
    if !found.told.is_empty() {
        ndr.count(found.told.len());
        found.told.iter().for_each(|entry| write(ndr, entry, level));
        found.told.iter().for_each(|entry| write_strings(ndr, entry, level));
    }
    ndr.u32(found.total as u32);
    ndr.pointer(wanted.resume.is_some());
    if wanted.resume.is_some() {
        ndr.u32(found.next.unwrap_or(0));
    }
    ndr.u32(status.0);
}
