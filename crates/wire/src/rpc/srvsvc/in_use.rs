//! Sessions and open files, as Computer Management lists them (MS-SRVS 3.1.4.2, 3.1.4.5).

use crate::codec::Utf16;
use crate::rpc::Syntax;
use crate::rpc::ndr::NdrWriter;
use crate::rpc::srvsvc::response::union_tag;
use crate::rpc::srvsvc::{Call, NetStatus, OpenFile, Session, Srvsvc};

/// The most bytes of entries in one answer; the client asks for the rest.
const ENTRIES_BYTES_MAX: usize = 256 * 1024;
/// The most entries that one call looks at, whether it tells them or passes over them.
const LOOKED_AT_MAX: usize = 20_000;
/// How many short entries one step of it looks at: some hundred microseconds.
const LOOKED_AT_ONCE: usize = 256;
/// To compare so many letters takes as long as looking at one of them.
const LETTERS_OF_A_LOOK: usize = 64;
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

/// A call for what is in use. It is answered in steps, so that others have their turn between them.
#[derive(Debug)]
pub(crate) struct Enumeration {
    wanted: Wanted,
    syntax: Syntax,
    asked: Result<Asked, NetStatus>,
}

/// What is asked for, and what was found of it so far.
#[derive(Debug)]
enum Asked {
    Sessions { client: Option<Folded>, user: Option<Folded>, found: Found<Session> },
    Files { base: Option<Folded>, user: Option<Folded>, found: Found<OpenFile> },
}

/// What was found so far.
#[derive(Debug)]
struct Found<T> {
    told: Vec<T>,
    /// Bytes that there is room for besides.
    room: usize,
    /// Which entry is looked at next.
    next: usize,
    looked_at: usize,
    /// How many there are from that one on.
    left: usize,
}

impl<T> Found<T> {
    fn nothing(wanted: &Wanted) -> Self {
        let room = (wanted.preferred_bytes as usize).min(ENTRIES_BYTES_MAX);
        Found { told: Vec::new(), room, next: wanted.resume.unwrap_or(0) as usize, looked_at: 0, left: 0 }
    }

    /// Looks at some more, and tells those that match as far as there is room for them, but one at least. True where it is done. `matches` gives
    /// how long it took besides, in units of looking at a short entry.
    fn look(
        &mut self,
        list: impl FnOnce(usize, &mut dyn FnMut(T) -> bool) -> usize,
        matches: impl Fn(&T) -> (bool, usize),
        length: impl Fn(&T) -> usize,
    ) -> bool {
        let (mut passed, mut work, mut is_full) = (0, 0, false);
        let count = list(self.next, &mut |entry| {
            let (matches, more) = matches(&entry);
            if matches {
                let needed = ENTRY_BYTES + 2 * length(&entry);
                is_full = needed > self.room && !self.told.is_empty();
                if is_full {
                    return false;
                }
                self.room = self.room.saturating_sub(needed);
                self.told.push(entry);
            }
            passed += 1;
            work += 1 + more;
            work < LOOKED_AT_ONCE && self.looked_at + passed < LOOKED_AT_MAX
        });
        self.next += passed;
        self.looked_at += passed.max(1);
        self.left = count.saturating_sub(self.next);
        is_full || self.left == 0 || self.looked_at >= LOOKED_AT_MAX
    }

    /// What is held for it, in bytes.
    fn held_bytes(&self) -> usize {
        ENTRIES_BYTES_MAX.min(self.told.len() * (ENTRY_BYTES + size_of::<T>()))
    }
}

/// A qualifier, in upper case.
#[derive(Debug)]
struct Folded(String);

impl Folded {
    fn of(text: &str) -> Self {
        Folded(text.to_uppercase())
    }

    /// Whether it is `text` in any case. Seldom more than a few letters are looked at.
    fn is(&self, text: &str) -> bool {
        self.rest_of(text).is_some_and(|mut rest| rest.next().is_none())
    }

    /// "A prefix is the path component up to a backslash" (MS-SRVS 3.1.4.2).
    fn is_above(&self, path: &str) -> bool {
        self.rest_of(path).is_some_and(|mut rest| matches!(rest.next(), None | Some('\\')))
    }

    /// What is behind it in `text`, which begins with it, in upper case.
    fn rest_of<'a>(&self, text: &'a str) -> Option<impl Iterator<Item = char> + 'a> {
        let mut letters = text.chars().flat_map(char::to_uppercase);
        self.0.chars().all(|letter| letters.next() == Some(letter)).then_some(letters)
    }

    /// How long it takes at most to compare it with `text`.
    fn work(&self, text: &str) -> usize {
        self.0.len().min(text.len()) / LETTERS_OF_A_LOOK
    }
}

/// What is asked for, what an entry has, and how both are compared.
type Compared<'a> = (Option<&'a Folded>, &'a str, fn(&Folded, &str) -> bool);

/// Whether an entry with such texts is asked for, and how long it took to find that out.
fn matches(qualifiers: [Compared<'_>; 2]) -> (bool, usize) {
    let told = || qualifiers.iter().filter_map(|(qualifier, text, is)| Some(((*qualifier)?, *text, is)));
    let work = told().map(|(qualifier, text, _)| qualifier.work(text)).sum();
    (told().all(|(qualifier, text, is)| is(qualifier, text)), work)
}

impl Enumeration {
    /// The answer to `call`, where it is one for what is in use.
    pub(crate) fn of(call: &Call<'_>, syntax: Syntax) -> Option<Enumeration> {
        let (wanted, asked) = match call {
            Call::SessionEnum { client, user, wanted } => (*wanted, sessions(client.as_ref(), user.as_ref(), wanted)),
            Call::FileEnum { base, user, wanted } => (*wanted, files(base.as_ref(), user.as_ref(), wanted)),
            Call::ShareEnum { .. } | Call::ShareInfo { .. } | Call::ServerInfo { .. } | Call::RemoteTimeOfDay => {
                return None;
            }
        };
        Some(Enumeration { wanted, syntax, asked })
    }

    /// Goes on a step; gives the stub once it is complete.
    pub(crate) fn step(&mut self, service: &dyn Srvsvc) -> Option<Vec<u8>> {
        if !service.may_administer() {
            self.asked = Err(NetStatus::ACCESS_DENIED);
        }
        let done = match &mut self.asked {
            Ok(Asked::Sessions { client, user, found }) => {
                let matches = |session: &Session| {
                    matches([
                        (client.as_ref(), &session.client, Folded::is),
                        (user.as_ref(), &session.user, Folded::is),
                    ])
                };
                let length = |session: &Session| session.client.len() + session.user.len();
                found.look(|from, take| service.sessions(from, take), matches, length)
            }
            Ok(Asked::Files { base, user, found }) => {
                let matches = |file: &OpenFile| {
                    matches([(base.as_ref(), &file.path, Folded::is_above), (user.as_ref(), &file.user, Folded::is)])
                };
                let length = |file: &OpenFile| file.path.len() + file.user.len();
                found.look(|from, take| service.files(from, take), matches, length)
            }
            Err(_) => true,
        };
        done.then(|| self.encode())
    }

    /// What is held for it, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        let qualifiers = |one: &Option<Folded>, other: &Option<Folded>| {
            [one, other].into_iter().flatten().map(|qualifier| qualifier.0.len()).sum::<usize>()
        };
        match &self.asked {
            Ok(Asked::Sessions { client, user, found }) => qualifiers(client, user) + found.held_bytes(),
            Ok(Asked::Files { base, user, found }) => qualifiers(base, user) + found.held_bytes(),
            Err(_) => 0,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut ndr = NdrWriter::new(&mut out, self.syntax);
        let status = self.status();
        match &self.asked {
            Ok(Asked::Sessions { found, .. }) => {
                write_enumeration(&mut ndr, &self.wanted, (found, status), write_session, write_session_strings);
            }
            Ok(Asked::Files { found, .. }) => {
                write_enumeration(&mut ndr, &self.wanted, (found, status), write_file, |ndr, file, level| {
                    if level == 3 {
                        ndr.string(&file.path);
                        ndr.string(&file.user);
                    }
                });
            }
            Err(_) => {
                let nothing = Found::<OpenFile>::nothing(&self.wanted);
                write_enumeration(&mut ndr, &self.wanted, (&nothing, status), write_file, |_, _, _| {});
            }
        }
        out
    }

    fn status(&self) -> NetStatus {
        match &self.asked {
            Ok(Asked::Sessions { found, client, user }) if found.told.is_empty() && found.left == 0 => {
                match (user, client) {
                    (Some(_), _) => NetStatus::USER_NOT_FOUND,
                    (None, Some(_)) => NetStatus::CLIENT_NAME_NOT_FOUND,
                    (None, None) => NetStatus::SUCCESS,
                }
            }
            Ok(
                Asked::Sessions { found: Found { left: 0, .. }, .. }
                | Asked::Files { found: Found { left: 0, .. }, .. },
            ) => NetStatus::SUCCESS,
            Ok(_) => NetStatus::MORE_DATA,
            Err(status) => *status,
        }
    }
}

fn sessions(client: Option<&Utf16<'_>>, user: Option<&Utf16<'_>>, wanted: &Wanted) -> Result<Asked, NetStatus> {
    let (client, user) = (qualifier(client)?, qualifier(user)?);
    let client = match &client {
        Some(client) => Some(client.strip_prefix(r"\\").ok_or(NetStatus::INVALID_COMPUTER)?),
        None => None,
    };
    let (client, user) = (client.map(Folded::of), user.as_deref().map(Folded::of));
    Ok(Asked::Sessions { client, user, found: Found::nothing(wanted) })
}

fn files(base: Option<&Utf16<'_>>, user: Option<&Utf16<'_>>, wanted: &Wanted) -> Result<Asked, NetStatus> {
    let (base, user) = (qualifier(base)?, qualifier(user)?);
    let base = base.map(|base| Folded::of(base.trim_end_matches('\\')));
    Ok(Asked::Files { base, user: user.as_deref().map(Folded::of), found: Found::nothing(wanted) })
}

/// A qualifier that is told: empty is the same as none.
fn qualifier<'a>(text: Option<&Utf16<'a>>) -> Result<Option<String>, NetStatus> {
    match text {
        Some(text) if text.units().count() > QUALIFIER_UNITS_MAX => Err(NetStatus::INVALID_PARAMETER),
        Some(text) if !text.is_empty() => text.decode().map(Some).ok_or(NetStatus::INVALID_PARAMETER),
        Some(_) | None => Ok(None),
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

fn write_session_strings(ndr: &mut NdrWriter<'_>, session: &Session, level: u32) {
    let texts: &[&str] = match level {
        0 => &[&session.client],
        1 | 10 => &[&session.client, &session.user],
        2 => &[&session.client, &session.user, ""],
        _ => &[&session.client, &session.user, "", ""],
    };
    texts.iter().for_each(|text| ndr.string(text));
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
    (found, status): (&Found<T>, NetStatus),
    write: impl Fn(&mut NdrWriter<'_>, &T, u32),
    write_strings: impl Fn(&mut NdrWriter<'_>, &T, u32),
) {
    let level = wanted.level;
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
    ndr.u32((found.told.len() + found.left) as u32);
    ndr.pointer(wanted.resume.is_some());
    if wanted.resume.is_some() {
        ndr.u32(if found.left > 0 { found.next as u32 } else { 0 });
    }
    ndr.u32(status.0);
}
