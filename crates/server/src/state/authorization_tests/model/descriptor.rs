//! Descriptors with their bytes, and random ones.

use super::rights::ALL;
use crate::tests::random::Random;

/// A principal, by the numbers of its SID.
pub(crate) type Who = (u8, &'static [u32]);

pub(crate) const TESTER: Who = (5, &[21, 1, 2, 3, 1001]);
pub(crate) const OTHER: Who = (5, &[21, 1, 2, 3, 1002]);
pub(crate) const DOMAIN_USERS: Who = (5, &[21, 1, 2, 3, 513]);
pub(crate) const ANYBODY: Who = (1, &[0]);
pub(crate) const SIGNED_IN: Who = (5, &[11]);
pub(crate) const OVER_NETWORK: Who = (5, &[2]);
pub(crate) const USERS: Who = (5, &[32, 545]);
pub(crate) const ADMINISTRATORS: Who = (5, &[32, 544]);
pub(crate) const LOCAL_SYSTEM: Who = (5, &[18]);
pub(crate) const OWNER_CREATOR: Who = (3, &[0]);
pub(crate) const RIGHTS_OF_OWNER: Who = (3, &[4]);
pub(crate) const SELF: Who = (5, &[10]);
pub(crate) const EVERY: [Who; 12] = [
    TESTER,
    OTHER,
    DOMAIN_USERS,
    ANYBODY,
    SIGNED_IN,
    OVER_NETWORK,
    USERS,
    ADMINISTRATORS,
    LOCAL_SYSTEM,
    OWNER_CREATOR,
    RIGHTS_OF_OWNER,
    SELF,
];

/// ACE types (MS-DTYP 2.4.4.1) that may stand in a list, the last one of none that there is.
pub(crate) const ALLOW: u8 = 0;
pub(crate) const DENY: u8 = 1;
pub(crate) const ALLOW_IF: u8 = 9;
pub(crate) const DENY_IF: u8 = 10;
pub(crate) const ALLOW_OBJECT: u8 = 5;
pub(crate) const DENY_OBJECT: u8 = 6;
pub(crate) const AUDIT: u8 = 2;
pub(crate) const LABEL: u8 = 0x11;
pub(crate) const UNKNOWN: u8 = 0x40;

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) kind: u8,
    /// 8 is INHERIT_ONLY_ACE.
    pub(crate) flags: u8,
    pub(crate) mask: u32,
    pub(crate) who: Who,
}

#[derive(Clone, Debug)]
pub(crate) struct Descriptor {
    pub(crate) owner: Option<Who>,
    /// `None`: there is no list, or it is null.
    pub(crate) list: Option<Vec<Entry>>,
    pub(crate) says_there_is_a_list: bool,
}

/// What is stored with a file.
#[derive(Clone, Debug)]
pub(crate) enum Stored {
    Nothing,
    Damaged(Vec<u8>),
    Whole(Descriptor),
}

/// A user, where another server would not let `who` own anything.
pub(crate) fn user_instead_of(who: Who, seed: u64) -> Who {
    match who {
        TESTER | OTHER => who,
        _ => [TESTER, OTHER][(seed % 2) as usize],
    }
}

impl Stored {
    /// The same where nobody says whose it is.
    pub(crate) fn without_owner(&self) -> Stored {
        match self {
            Stored::Whole(descriptor) => Stored::Whole(Descriptor { owner: None, ..descriptor.clone() }),
            Stored::Nothing | Stored::Damaged(_) => self.clone(),
        }
    }

    /// The same in a directory: what was never given a descriptor has what an administrator's file there would get (MS-DTYP 2.5.3.4).
    pub(crate) fn in_directory(&self, directory: &Stored, is_directory: bool) -> Stored {
        let above = match (self, directory) {
            (Stored::Nothing, Stored::Whole(above)) => above,
            (Stored::Nothing, other) => return other.clone(),
            (own, _) => return own.clone(),
        };
        let mut list = Vec::new();
        for entry in above.list.iter().flatten() {
            let (to_files, to_directories, goes_on) =
                (entry.flags & 1 != 0, entry.flags & 2 != 0, entry.flags & 4 == 0);
            let counts = if is_directory { to_directories } else { to_files };
            let is_plain = matches!(entry.kind, ALLOW | DENY);
            let who = if entry.who == OWNER_CREATOR && is_plain { ADMINISTRATORS } else { entry.who };
            if counts {
                list.push(Entry { flags: 0, who, ..entry.clone() });
            } else if is_directory && (to_files || to_directories) && goes_on {
                list.push(Entry { flags: entry.flags | 8, ..entry.clone() });
            }
        }
        if list.is_empty() {
            let all = |who| Entry { kind: ALLOW, flags: 0, mask: ALL, who };
            list = vec![all(ADMINISTRATORS), all(LOCAL_SYSTEM)];
        }
        Stored::Whole(Descriptor { owner: Some(ADMINISTRATORS), list: Some(list), says_there_is_a_list: true })
    }

    /// What is nearest to it and can be set by a client: it is whole, belongs to a user, and has no entry that a server may refuse.
    pub(crate) fn that_can_be_set(&self, seed: u64) -> Descriptor {
        let everything = Entry { kind: ALLOW, flags: 0, mask: ALL, who: SIGNED_IN };
        let (owner, list) = match self {
            Stored::Whole(descriptor) => (descriptor.owner.unwrap_or(SELF), descriptor.list.clone()),
            Stored::Nothing | Stored::Damaged(_) => (SELF, Some(vec![everything])),
        };
        let can_be_set = |entry: &Entry| matches!(entry.kind, ALLOW | DENY | ALLOW_OBJECT | DENY_OBJECT);
        let list = list.map(|entries| entries.into_iter().filter(can_be_set).collect());
        Descriptor { owner: Some(user_instead_of(owner, seed)), list, says_there_is_a_list: true }
    }
}

pub(crate) fn sid_bytes((authority, numbers): Who) -> Vec<u8> {
    let mut bytes = vec![1, numbers.len() as u8, 0, 0, 0, 0, 0, authority];
    numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    bytes
}

pub(crate) fn bytes_of(descriptor: &Descriptor) -> Vec<u8> {
    let mut list = Vec::new();
    for entry in descriptor.list.iter().flatten() {
        let mut body = entry.mask.to_le_bytes().to_vec();
        if matches!(entry.kind, ALLOW_OBJECT | DENY_OBJECT) {
            body.extend([0; 4]); // Neither object type is there.
        }
        body.extend(sid_bytes(entry.who));
        if matches!(entry.kind, ALLOW_IF | DENY_IF) {
            body.extend(*b"artx"); // A condition, not whole.
        }
        list.extend([entry.kind, entry.flags]);
        list.extend((body.len() as u16 + 4).to_le_bytes());
        list.extend(body);
    }
    let mut control = 0x8000_u16;
    let (mut owner_at, mut list_at, mut rest) = (0_u32, 0_u32, Vec::new());
    if descriptor.list.is_some() || descriptor.says_there_is_a_list {
        control |= 4;
    }
    if let Some(entries) = &descriptor.list {
        list_at = 20;
        rest.extend([4, 0]);
        rest.extend((list.len() as u16 + 8).to_le_bytes());
        rest.extend((entries.len() as u16).to_le_bytes());
        rest.extend([0; 2]);
        rest.extend(list);
    }
    if let Some(owner) = descriptor.owner {
        owner_at = 20 + rest.len() as u32;
        rest.extend(sid_bytes(owner));
    }
    let mut bytes = vec![1, 0];
    bytes.extend(control.to_le_bytes());
    [owner_at, 0, 0, list_at].iter().for_each(|offset| bytes.extend(offset.to_le_bytes()));
    bytes.extend(rest);
    bytes
}

/// A few rights.
pub(crate) fn mask(random: &mut Random) -> u32 {
    let bits: Vec<u32> = (0..21).map(|bit| 1 << bit).filter(|bit| ALL & bit != 0).collect();
    (0..=random.below(4)).fold(0, |all, _| all | random.of(&bits))
}

pub(crate) fn stored(random: &mut Random) -> Stored {
    let chance = random.below(100);
    if chance < 8 {
        return Stored::Nothing;
    }
    let owners = [Some(TESTER), Some(OTHER), Some(ADMINISTRATORS), Some(LOCAL_SYSTEM), Some(DOMAIN_USERS), None];
    let list = match random.below(20) {
        0 => None,
        1 => Some(Vec::new()),
        _ => Some((0..=random.below(6)).map(|_| entry(random)).collect()),
    };
    let descriptor = Descriptor { owner: random.of(&owners), list, says_there_is_a_list: random.percent(50) };
    if chance < 92 {
        return Stored::Whole(descriptor);
    }
    let mut bytes = bytes_of(&descriptor);
    match random.below(5) {
        0 => bytes.truncate(bytes.len() - 1 - random.below(bytes.len() as u64 - 1) as usize),
        1 => bytes.fill(0),
        2 => bytes.clear(),
        3 => bytes[0] = 2 + random.below(250) as u8,
        _ => bytes[3] &= 0x7F, // Not self-relative.
    }
    Stored::Damaged(bytes)
}

pub(crate) fn entry(random: &mut Random) -> Entry {
    let kind = match random.below(100) {
        0..60 => ALLOW,
        60..80 => DENY,
        80..84 => ALLOW_IF,
        84..88 => DENY_IF,
        _ => random.of(&[ALLOW_OBJECT, DENY_OBJECT, AUDIT, LABEL, UNKNOWN]),
    };
    let mask = match random.below(10) {
        0..=3 if kind == ALLOW => ALL,
        0 => ALL,
        1 => random.of(&[1 << 31, 1 << 30, 1 << 29, 1 << 28]),
        _ => mask(random) | mask(random),
    };
    let flags = random.of(&[0, 0, 0, 0, 3, 8, 11, 0x13]);
    Entry { kind, flags, mask, who: random.of(&EVERY) }
}
