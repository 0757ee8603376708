//! Security descriptors as text: the Security Descriptor Description Language (MS-DTYP 2.5.1).
//!
//! Read and written are owner, group and lists of plain entries: those that grant, deny, audit, label or name a central policy. Conditional and object
//! entries and resource attributes are refused, and so are names of a domain's principals: which domain is meant nobody can tell.

use std::fmt::Write;

use super::access::{
    DELETE, FILE_ALL, FILE_GENERIC_EXECUTE, FILE_GENERIC_READ, FILE_GENERIC_WRITE, GENERIC_ALL, GENERIC_EXECUTE,
    GENERIC_READ, GENERIC_WRITE, READ_CONTROL, WRITE_DAC, WRITE_OWNER,
};
use super::{Ace, AceBody, AceFlags, AceKind, Acl, Control, SecurityDescriptor, Sid};

/// What stands for a list that lets everyone do everything.
const NO_LIST: &str = "NO_ACCESS_CONTROL";
/// Fields of an entry.
const FIELDS: usize = 6;

/// Names of principals, each with its authority and sub-authorities (MS-DTYP 2.4.2.4). Those of a domain are left out.
const PRINCIPALS: &[(&str, u64, &[u32])] = &[
    ("WD", 1, &[0]),
    ("CO", 3, &[0]),
    ("CG", 3, &[1]),
    ("OW", 3, &[4]),
    ("NU", 5, &[2]),
    ("IU", 5, &[4]),
    ("SU", 5, &[6]),
    ("AN", 5, &[7]),
    ("ED", 5, &[9]),
    ("PS", 5, &[10]),
    ("AU", 5, &[11]),
    ("RC", 5, &[12]),
    ("SY", 5, &[18]),
    ("LS", 5, &[19]),
    ("NS", 5, &[20]),
    ("WR", 5, &[33]),
    ("BA", 5, &[32, 544]),
    ("BU", 5, &[32, 545]),
    ("BG", 5, &[32, 546]),
    ("PU", 5, &[32, 547]),
    ("AO", 5, &[32, 548]),
    ("SO", 5, &[32, 549]),
    ("PO", 5, &[32, 550]),
    ("BO", 5, &[32, 551]),
    ("RE", 5, &[32, 552]),
    ("RU", 5, &[32, 554]),
    ("RD", 5, &[32, 555]),
    ("NO", 5, &[32, 556]),
    ("MU", 5, &[32, 558]),
    ("LU", 5, &[32, 559]),
    ("IS", 5, &[32, 568]),
    ("CY", 5, &[32, 569]),
    ("ER", 5, &[32, 573]),
    ("CD", 5, &[32, 574]),
    ("RA", 5, &[32, 575]),
    ("ES", 5, &[32, 576]),
    ("MS", 5, &[32, 577]),
    ("HA", 5, &[32, 578]),
    ("AA", 5, &[32, 579]),
    ("RM", 5, &[32, 580]),
    ("AC", 15, &[2, 1]),
    ("LW", 16, &[4096]),
    ("ME", 16, &[8192]),
    ("MP", 16, &[8448]),
    ("HI", 16, &[12288]),
    ("SI", 16, &[16384]),
];

/// Kinds of entries.
const KINDS: &[(&str, AceKind)] = &[
    ("A", AceKind::ACCESS_ALLOWED),
    ("D", AceKind::ACCESS_DENIED),
    ("AU", AceKind::SYSTEM_AUDIT),
    ("ML", AceKind::SYSTEM_MANDATORY_LABEL),
    ("SP", AceKind::SYSTEM_SCOPED_POLICY_ID),
];

/// Flags of entries, in the order in which Windows writes them.
const FLAGS: &[(&str, AceFlags)] = &[
    ("OI", AceFlags::OBJECT_INHERIT),
    ("CI", AceFlags::CONTAINER_INHERIT),
    ("NP", AceFlags::NO_PROPAGATE_INHERIT),
    ("IO", AceFlags::INHERIT_ONLY),
    ("ID", AceFlags::INHERITED),
    ("SA", AceFlags::SUCCESSFUL_ACCESS),
    ("FA", AceFlags::FAILED_ACCESS),
];

/// Rights that are written by their names: a mask of only these has one for each bit.
const RIGHTS: &[(&str, u32)] = &[
    ("GA", GENERIC_ALL),
    ("GR", GENERIC_READ),
    ("GW", GENERIC_WRITE),
    ("GX", GENERIC_EXECUTE),
    ("RC", READ_CONTROL),
    ("SD", DELETE),
    ("WD", WRITE_DAC),
    ("WO", WRITE_OWNER),
];
/// Masks of files that have a name of their own.
const FILE_RIGHTS: &[(&str, u32)] =
    &[("FA", FILE_ALL), ("FR", FILE_GENERIC_READ), ("FW", FILE_GENERIC_WRITE), ("FX", FILE_GENERIC_EXECUTE)];
/// Names of other objects' rights, which count for files by their bits.
const OTHER_RIGHTS: &[(&str, u32)] = &[
    ("CC", 0x0001),
    ("DC", 0x0002),
    ("LC", 0x0004),
    ("SW", 0x0008),
    ("RP", 0x0010),
    ("WP", 0x0020),
    ("DT", 0x0040),
    ("LO", 0x0080),
    ("CR", 0x0100),
    ("KA", 0x000F_003F),
    ("KR", 0x0002_0019),
    ("KX", 0x0002_0019),
    ("KW", 0x0002_0006),
];

/// Text that is not a descriptor, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SddlText(pub &'static str);

impl SecurityDescriptor {
    /// Reads a descriptor that is given as text.
    pub fn from_sddl(text: &str) -> Result<SecurityDescriptor, SddlText> {
        let mut descriptor = SecurityDescriptor::default();
        let mut rest = text.trim();
        // "sddl = [owner-string] [group-string] [dacl-string] [sacl-string]"; Windows takes them in any order.
        while !rest.is_empty() {
            let (part, behind) = rest.split_once(':').ok_or(SddlText("a part of it has no colon"))?;
            rest = match part {
                "O" if descriptor.owner.is_none() => principal_at_start(behind, &mut descriptor.owner)?,
                "G" if descriptor.group.is_none() => principal_at_start(behind, &mut descriptor.group)?,
                "D" if !descriptor.control.contains(Control::DACL_PRESENT) => {
                    descriptor.control |= Control::DACL_PRESENT;
                    list(behind, OF_DACL, &mut descriptor.control, &mut descriptor.dacl)?
                }
                "S" if !descriptor.control.contains(Control::SACL_PRESENT) => {
                    descriptor.control |= Control::SACL_PRESENT;
                    list(behind, OF_SACL, &mut descriptor.control, &mut descriptor.sacl)?
                }
                _ => return Err(SddlText("a part is neither O, G, D nor S, or it is there twice")),
            };
        }
        Ok(descriptor)
    }

    /// The descriptor as text; `None` where it has an entry that text cannot say here.
    pub fn to_sddl(&self) -> Option<String> {
        let mut text = String::new();
        for (part, sid) in [("O:", &self.owner), ("G:", &self.group)] {
            if let Some(sid) = sid {
                text.push_str(part);
                write_principal(&mut text, sid);
            }
        }
        let lists =
            [("D:", OF_DACL, Control::DACL_PRESENT, &self.dacl), ("S:", OF_SACL, Control::SACL_PRESENT, &self.sacl)];
        for (part, flags, present, list) in lists {
            if list.is_some() || self.control.contains(present) {
                text.push_str(part);
                write_list(&mut text, self.control, flags, list.as_ref())?;
            }
        }
        Some(text)
    }
}

/// What the flags of a list mean for a descriptor's control bits.
type ListFlags = [(&'static str, Control); 3];
const OF_DACL: ListFlags =
    [("P", Control::DACL_PROTECTED), ("AR", Control::DACL_AUTO_INHERIT_REQ), ("AI", Control::DACL_AUTO_INHERITED)];
const OF_SACL: ListFlags =
    [("P", Control::SACL_PROTECTED), ("AR", Control::SACL_AUTO_INHERIT_REQ), ("AI", Control::SACL_AUTO_INHERITED)];

/// Reads the principal that `text` begins with; gives what is behind it.
fn principal_at_start<'a>(text: &'a str, into: &mut Option<Sid>) -> Result<&'a str, SddlText> {
    let length = if text.starts_with("S-1-") || text.starts_with("s-1-") { sid_length(text) } else { 2 };
    let (name, rest) = text.split_at_checked(length).ok_or(NO_PRINCIPAL)?;
    *into = Some(principal(name)?);
    Ok(rest)
}

const NO_PRINCIPAL: SddlText =
    SddlText("a principal is neither an S-1-… nor one of the two-letter names that mean the same everywhere");

/// Digits of an authority in hexadecimal (MS-DTYP 2.4.2.1): the letter behind them may be one, too, as in "O:S-1-0x010203040506D:".
const AUTHORITY_DIGITS: usize = 12;

/// The length of the SID that a text begins with.
fn sid_length(text: &str) -> usize {
    let mut length = "S-1-".len();
    let run =
        |from: usize, is_in: fn(&u8) -> bool| text.as_bytes()[from..].iter().take_while(|byte| is_in(byte)).count();
    let is_hexadecimal = text[length..].starts_with("0x") || text[length..].starts_with("0X");
    length += if is_hexadecimal {
        2 + run(length + 2, u8::is_ascii_hexdigit).min(AUTHORITY_DIGITS)
    } else {
        run(length, u8::is_ascii_digit)
    };
    while text[length..].starts_with('-') {
        length += 1 + run(length + 1, u8::is_ascii_digit);
    }
    length
}

fn principal(name: &str) -> Result<Sid, SddlText> {
    if let Some((_, authority, sub_authorities)) =
        PRINCIPALS.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name))
    {
        return Sid::new(*authority, sub_authorities).ok_or(NO_PRINCIPAL);
    }
    name.parse().map_err(|_| NO_PRINCIPAL)
}

/// Reads a list's flags and entries; gives what is behind it.
fn list<'a>(
    mut text: &'a str,
    flags: ListFlags,
    control: &mut Control,
    into: &mut Option<Acl>,
) -> Result<&'a str, SddlText> {
    if let Some(rest) = text.strip_prefix(NO_LIST) {
        return Ok(rest);
    }
    while let Some((name, bit)) = flags.iter().find(|(name, _)| text.starts_with(name)) {
        *control |= *bit;
        text = &text[name.len()..];
    }
    let mut aces = Vec::new();
    while let Some(rest) = text.strip_prefix('(') {
        let (entry, behind) = rest.split_once(')').ok_or(SddlText("an entry is not closed"))?;
        aces.push(ace(entry)?);
        text = behind;
    }
    *into = Some(Acl { aces });
    Ok(text)
}

fn ace(text: &str) -> Result<Ace, SddlText> {
    let fields: Vec<&str> = text.splitn(FIELDS + 1, ';').map(str::trim).collect();
    let [kind, flags, rights, object, inherited_object, sid] = fields[..] else {
        return Err(SddlText("an entry has not the six fields of a plain one"));
    };
    let known = KINDS.iter().find(|(name, _)| *name == kind);
    let (_, kind) =
        *known.ok_or(SddlText("an entry is none that grants, denies, audits or labels (A, D, AU, ML, SP)"))?;
    if !object.is_empty() || !inherited_object.is_empty() {
        return Err(SddlText("an entry names an object of a directory service"));
    }
    let (mut left, mut set) = (flags, AceFlags::NONE);
    while !left.is_empty() {
        let found = FLAGS.iter().find(|(name, _)| left.starts_with(name));
        let (name, flag) = found.ok_or(SddlText("an entry has a flag that is none"))?;
        set |= *flag;
        left = &left[name.len()..];
    }
    Ok(Ace { kind, flags: set, body: AceBody::Plain { mask: mask(rights)?, sid: principal(sid)? } })
}

/// Reads "ace-rights": a number in hexadecimal, octal or decimal, or names.
fn mask(text: &str) -> Result<u32, SddlText> {
    const WRONG: SddlText = SddlText("an entry has rights that are neither names nor a number of 32 bits");
    let number = |digits: &str, radix| match digits.starts_with('+') {
        true => Err(WRONG),
        false => u32::from_str_radix(digits, radix).map_err(|_| WRONG),
    };
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return number(digits, 16);
    }
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        return if text.len() > 1 && text.starts_with('0') { number(&text[1..], 8) } else { number(text, 10) };
    }
    let (mut left, mut mask) = (text, 0);
    while !left.is_empty() {
        let mut names = RIGHTS.iter().chain(FILE_RIGHTS).chain(OTHER_RIGHTS);
        let (name, bits) = names.find(|(name, _)| left.starts_with(name)).ok_or(WRONG)?;
        mask |= bits;
        left = &left[name.len()..];
    }
    Ok(mask)
}

fn write_principal(text: &mut String, sid: &Sid) {
    let is_it =
        |(_, authority, subs): &&(&str, u64, &[u32])| *authority == sid.authority() && *subs == sid.sub_authorities();
    match PRINCIPALS.iter().find(is_it) {
        Some((name, ..)) => text.push_str(name),
        // Writing to a string does not fail.
        None => {
            let _ = write!(text, "{sid}");
        }
    }
}

fn write_list(text: &mut String, control: Control, flags: ListFlags, list: Option<&Acl>) -> Option<()> {
    let Some(list) = list else {
        text.push_str(NO_LIST);
        return Some(());
    };
    flags.iter().filter(|(_, bit)| control.contains(*bit)).for_each(|(name, _)| text.push_str(name));
    for ace in &list.aces {
        let AceBody::Plain { mask, sid } = &ace.body else { return None };
        let (kind, _) = KINDS.iter().find(|(_, kind)| *kind == ace.kind)?;
        text.push('(');
        text.push_str(kind);
        text.push(';');
        let mut known = AceFlags::NONE;
        for (name, flag) in FLAGS {
            known |= *flag;
            if ace.flags.contains(*flag) {
                text.push_str(name);
            }
        }
        if !ace.flags.without(known).is_empty() {
            return None;
        }
        text.push(';');
        write_mask(text, *mask);
        text.push_str(";;;");
        write_principal(text, sid);
        text.push(')');
    }
    Some(())
}

fn write_mask(text: &mut String, mask: u32) {
    if let Some((name, _)) = FILE_RIGHTS.iter().find(|(_, bits)| *bits == mask) {
        text.push_str(name);
        return;
    }
    let named = RIGHTS.iter().fold(0, |all, (_, bit)| all | bit);
    if mask != 0 && mask & !named == 0 {
        RIGHTS.iter().filter(|(_, bit)| mask & bit != 0).for_each(|(name, _)| text.push_str(name));
        return;
    }
    // Writing to a string does not fail.
    let _ = write!(text, "0x{mask:x}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of MS-DTYP 2.5.1.4, and its bytes.
    const EXAMPLE: &str =
        "O:BAG:BAD:P(A;CIOI;GRGX;;;BU)(A;CIOI;GA;;;BA)(A;CIOI;GA;;;SY)(A;CIOI;GA;;;CO)S:P(AU;FA;GR;;;WD)";
    const EXAMPLE_BYTES: &str = "010014b090000000a00000001400000030000000\
        02001c000100000002801400000000800101000000000001000000000200600004000000\
        00031800000000a001020000000000052000000021020000\
        000318000000001001020000000000052000000020020000\
        0003140000000010010100000000000512000000\
        0003140000000010010100000000000300000000\
        0102000000000005200000002002000001020000000000052000000020020000";

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn the_specifications_example_is_its_bytes() {
        let read = SecurityDescriptor::from_sddl(EXAMPLE).unwrap();
        let mut wanted = SecurityDescriptor::decode(&bytes(EXAMPLE_BYTES)).unwrap();
        wanted.control = wanted.control.without(Control::SELF_RELATIVE);
        assert_eq!(read, wanted);
        let written = wanted.to_sddl().unwrap();
        // Flags have no order.
        assert_eq!(written, EXAMPLE.replace("CIOI", "OICI"));
        assert_eq!(SecurityDescriptor::from_sddl(&written), Ok(read));
    }

    #[test]
    fn what_is_read_is_written() {
        for text in [
            "",
            "O:SYG:S-1-5-21-2127521184-1604012920-1887927527-1881",
            "O:S-1-5-21-2127521184-1604012920-1887927527-27067814G:S-1-5-21-2127521184-1604012920-1887927527-513\
             D:(A;;FA;;;BA)(A;OICIIO;GA;;;CO)(D;;0x1301bf;;;AU)",
            "D:NO_ACCESS_CONTROL",
            "D:PAI",
            "D:ARAI(A;ID;FR;;;WD)S:AI(AU;SAFA;FW;;;S-1-22-1-1000)(ML;;0x1;;;HI)",
            "O:S-1-0x010203040506-7D:(A;;0x0;;;OW)",
            "O:S-1-0x010203040506D:(A;;FA;;;S-1-0x00010000000D)",
            "D:(A;;RCSD;;;PS)(A;NP;FX;;;S-1-5-88-3-420)",
        ] {
            let read = SecurityDescriptor::from_sddl(text).unwrap();
            assert_eq!(read.to_sddl().as_deref(), Some(text));
            let encoded = SecurityDescriptor::decode(&read.encode().unwrap()).unwrap();
            assert_eq!(encoded.to_sddl().as_deref(), Some(text), "through its bytes");
        }
    }

    #[test]
    fn rights_are_names_or_numbers() {
        for (text, wanted) in [
            ("0x1301BF", 0x0013_01BF),
            ("010", 8),
            ("17", 17),
            ("0", 0),
            ("FRFX", FILE_GENERIC_READ | FILE_GENERIC_EXECUTE),
            ("CCDCLCSWRPWPDTLOCR", 0x01FF),
            ("", 0),
        ] {
            assert_eq!(mask(text), Ok(wanted), "{text}");
        }
        for text in ["0x", "0x1ffffffff", "4294967296", "08", "FA1", "0+1", "-1", "ga"] {
            assert!(mask(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_descriptor_is_refused() {
        for text in [
            "nonsense",
            "O",
            "O:",
            "O:XX",
            "O:DA",
            "O:S-1-",
            "O:BAO:BA",
            "D:D:",
            "D:(A;;FA;;;WD",
            "D:(A;;FA;;WD)",
            "D:(A;;FA;;;)",
            "D:(A;XX;FA;;;WD)",
            "D:(XA;;FX;;;S-1-1-0;(@User.Title==\"VP\"))",
            "D:(OA;;RP;00000000-0000-0000-0000-000000000000;;WD)",
            "D:(A;;FA;;;WD)rest",
            "D:(A;;FA;;;WD)é:",
            "O:é",
        ] {
            assert!(SecurityDescriptor::from_sddl(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_cut_anywhere_is_refused_or_means_what_it_says() {
        for text in
            [EXAMPLE, "O:S-1-0x010203040506-7-8G:SYD:PAIAR(A;OICIIO;0x1301bf;;;S-1-5-21-1-2-3-500)S:NO_ACCESS_CONTROL"]
        {
            for (start, end) in (0..text.len()).flat_map(|at| [(0, at), (at, text.len())]) {
                let Ok(read) = SecurityDescriptor::from_sddl(&text[start..end]) else { continue };
                let written = read.to_sddl().unwrap();
                assert_eq!(SecurityDescriptor::from_sddl(&written), Ok(read), "{}", &text[start..end]);
            }
        }
    }

    #[test]
    fn an_entry_that_text_cannot_say_has_none() {
        let ace = Ace { kind: AceKind(0x09), flags: AceFlags::NONE, body: AceBody::Opaque(vec![0; 12]) };
        let descriptor = SecurityDescriptor { dacl: Some(Acl { aces: vec![ace] }), ..SecurityDescriptor::default() };
        assert_eq!(descriptor.to_sddl(), None);
        let odd = Ace::allow(Sid::EVERYONE, 1, AceFlags(0x20));
        let descriptor = SecurityDescriptor { dacl: Some(Acl { aces: vec![odd] }), ..SecurityDescriptor::default() };
        assert_eq!(descriptor.to_sddl(), None);
    }
}
