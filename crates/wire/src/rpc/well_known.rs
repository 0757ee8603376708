//! The principals that every machine knows by the same SIDs (MS-LSAT 3.1.1.1.1 to 3.1.1.1.3), written as Windows shows them in English.

use std::borrow::Cow;

use crate::rpc::names::{Domain, Principal, SidUse};
use crate::security::Sid;

/// A domain of the tables, and who is in it.
struct Table {
    name: &'static str,
    /// Authority and sub-authorities of its SID.
    authority: u64,
    below: &'static [u32],
    /// What the principals in it are.
    sid_use: SidUse,
    /// Whether the domain is a principal itself.
    is_named: bool,
    principals: &'static [(&'static [u32], &'static str)],
}

const TABLES: &[Table] = &[
    group("", 0, &[], &[(&[0], "NULL SID")]),
    group("", 1, &[], &[(&[0], "Everyone")]),
    group("", 2, &[], &[(&[0], "LOCAL"), (&[1], "CONSOLE LOGON")]),
    group(
        "",
        3,
        &[],
        &[
            (&[0], "CREATOR OWNER"),
            (&[1], "CREATOR GROUP"),
            (&[2], "CREATOR OWNER SERVER"),
            (&[3], "CREATOR GROUP SERVER"),
            (&[4], "OWNER RIGHTS"),
        ],
    ),
    group(
        NT_AUTHORITY,
        5,
        &[],
        &[
            (&[1], "DIALUP"),
            (&[2], "NETWORK"),
            (&[3], "BATCH"),
            (&[4], "INTERACTIVE"),
            (&[6], "SERVICE"),
            (&[7], "ANONYMOUS LOGON"),
            (&[8], "PROXY"),
            (&[9], "ENTERPRISE DOMAIN CONTROLLERS"),
            (&[10], "SELF"),
            (&[11], "Authenticated Users"),
            (&[12], "RESTRICTED"),
            (&[13], "TERMINAL SERVER USER"),
            (&[14], "REMOTE INTERACTIVE LOGON"),
            (&[15], "This Organization"),
            (&[17], "IUSR"),
            (&[18], "SYSTEM"),
            (&[19], "LOCAL SERVICE"),
            (&[20], "NETWORK SERVICE"),
            (&[33], "WRITE RESTRICTED"),
            (&[113], "Local account"),
            (&[114], "Local account and member of Administrators group"),
            (&[1000], "Other Organization"),
        ],
    ),
    group(
        NT_AUTHORITY,
        5,
        &[64],
        &[(&[10], "NTLM Authentication"), (&[14], "SChannel Authentication"), (&[21], "Digest Authentication")],
    ),
    Table {
        name: BUILTIN,
        authority: 5,
        below: &[32],
        sid_use: SidUse::ALIAS,
        is_named: true,
        principals: &[
            (&[544], "Administrators"),
            (&[545], "Users"),
            (&[546], "Guests"),
            (&[547], "Power Users"),
            (&[548], "Account Operators"),
            (&[549], "Server Operators"),
            (&[550], "Print Operators"),
            (&[551], "Backup Operators"),
            (&[552], "Replicator"),
            (&[555], "Remote Desktop Users"),
            (&[556], "Network Configuration Operators"),
            (&[558], "Performance Monitor Users"),
            (&[559], "Performance Log Users"),
            (&[562], "Distributed COM Users"),
            (&[568], "IIS_IUSRS"),
            (&[569], "Cryptographic Operators"),
            (&[573], "Event Log Readers"),
            (&[578], "Hyper-V Administrators"),
            (&[579], "Access Control Assistance Operators"),
            (&[580], "Remote Management Users"),
        ],
    },
    named_group("Internet$", 7, &[], &[]),
    named_group(
        "NT SERVICE",
        5,
        &[80],
        &[
            (&[0], "ALL SERVICES"),
            (&[956_008_885, 3_418_522_649, 1_831_038_044, 1_853_292_631, 2_271_478_464], "TrustedInstaller"),
        ],
    ),
    named_group(
        "APPLICATION PACKAGE AUTHORITY",
        15,
        &[2],
        &[(&[1], "ALL APPLICATION PACKAGES"), (&[2], "ALL RESTRICTED APPLICATION PACKAGES")],
    ),
    Table {
        name: "Mandatory Label",
        authority: 16,
        below: &[],
        sid_use: SidUse::LABEL,
        is_named: true,
        principals: &[
            (&[0], "Untrusted Mandatory Level"),
            (&[4096], "Low Mandatory Level"),
            (&[8192], "Medium Mandatory Level"),
            (&[12288], "High Mandatory Level"),
            (&[16384], "System Mandatory Level"),
            (&[20480], "Protected Process Mandatory Level"),
        ],
    },
];

const NT_AUTHORITY: &str = "NT AUTHORITY";
/// The domain of the local groups that every machine has.
pub(crate) const BUILTIN: &str = "BUILTIN";

/// A domain of groups that has no name to be found by: that of `Everyone`, or a second one of the name.
const fn group(
    name: &'static str,
    authority: u64,
    below: &'static [u32],
    principals: &'static [(&'static [u32], &'static str)],
) -> Table {
    Table { name, authority, below, sid_use: SidUse::WELL_KNOWN_GROUP, is_named: false, principals }
}

/// A domain of groups that is a principal itself.
const fn named_group(
    name: &'static str,
    authority: u64,
    below: &'static [u32],
    principals: &'static [(&'static [u32], &'static str)],
) -> Table {
    Table { is_named: true, ..group(name, authority, below, principals) }
}

impl Table {
    fn domain(&self) -> Domain {
        let sid = Sid::new(self.authority, self.below).unwrap_or(Sid::NOBODY);
        Domain { name: Cow::Borrowed(self.name), sid }
    }

    /// True where `sid` is the domain's.
    fn is_of(&self, sid: &Sid) -> bool {
        self.authority == sid.authority() && self.below == sid.sub_authorities()
    }

    fn principal(&self, (last, name): &(&'static [u32], &'static str)) -> Principal {
        let domain = self.domain();
        let sid = last.iter().try_fold(domain.sid, |sid, number| sid.join(*number)).unwrap_or(Sid::NOBODY);
        Principal { domain, name: Cow::Borrowed(name), sid, sid_use: self.sid_use }
    }

    /// The domain as a principal: it is in itself.
    fn itself(&self) -> Principal {
        let domain = self.domain();
        Principal { name: domain.name.clone(), sid: domain.sid, sid_use: SidUse::DOMAIN, domain }
    }
}

/// The principal of a SID.
pub(crate) fn by_sid(sid: &Sid) -> Option<Principal> {
    let of_authority = TABLES.iter().filter(|table| table.authority == sid.authority());
    for table in of_authority {
        let Some(last) = sid.sub_authorities().strip_prefix(table.below) else { continue };
        if last.is_empty() && table.is_named {
            return Some(table.itself());
        }
        if let Some(entry) = table.principals.iter().find(|(numbers, _)| *numbers == last) {
            return Some(table.principal(entry));
        }
    }
    None
}

/// The principal of a name, in the domain of a name, or in any where none is given.
pub(crate) fn by_name(domain: Option<&str>, name: &str) -> Option<Principal> {
    for table in TABLES {
        if domain.is_some_and(|domain| !domain.eq_ignore_ascii_case(table.name)) {
            continue;
        }
        if let Some(entry) = table.principals.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)) {
            return Some(table.principal(entry));
        }
        if domain.is_none() && table.is_named && table.name.eq_ignore_ascii_case(name) {
            return Some(table.itself());
        }
    }
    None
}

/// The domain of a SID.
pub(crate) fn domain_by_sid(sid: &Sid) -> Option<Domain> {
    TABLES.iter().find(|table| table.is_of(sid)).map(Table::domain)
}

/// The domain of a name.
pub(crate) fn domain_by_name(name: &str) -> Option<Domain> {
    TABLES.iter().find(|table| !table.name.is_empty() && table.name.eq_ignore_ascii_case(name)).map(Table::domain)
}

/// The domain of the local groups that every machine has.
pub(crate) fn builtin() -> Domain {
    Domain { name: Cow::Borrowed(BUILTIN), sid: Sid::new(5, &[32]).unwrap_or(Sid::NOBODY) }
}

/// The local groups that every machine has, by relative id.
pub(crate) fn builtin_aliases() -> impl Iterator<Item = (u32, &'static str)> {
    let table = TABLES.iter().find(|table| table.name == BUILTIN);
    table.into_iter().flat_map(|table| table.principals).filter_map(|(last, name)| Some((*last.first()?, *name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sids_and_names_lead_to_each_other() {
        let mut count = 0;
        for table in TABLES {
            for entry in table.principals {
                let principal = table.principal(entry);
                assert_eq!(by_sid(&principal.sid).as_ref(), Some(&principal));
                assert_eq!(by_name(Some(table.name), &principal.name.to_uppercase()).as_ref(), Some(&principal));
                assert_eq!(by_name(None, &principal.name.to_lowercase()).as_ref(), Some(&principal));
                count += 1;
            }
        }
        assert!(count > 60, "{count}");
    }

    #[test]
    fn domains_are_found_by_both_and_are_principals() {
        for (name, text) in [("BUILTIN", "S-1-5-32"), ("NT SERVICE", "S-1-5-80"), ("Mandatory Label", "S-1-16")] {
            let sid: Sid = text.parse().unwrap();
            let found = by_sid(&sid).unwrap();
            assert_eq!((&*found.name, found.sid_use, found.domain.sid), (name, SidUse::DOMAIN, sid));
            assert_eq!(by_name(None, &name.to_lowercase()).unwrap().sid, sid);
            assert_eq!(domain_by_name(name).unwrap().sid, sid);
        }
        assert_eq!(&*domain_by_sid(&"S-1-5".parse().unwrap()).unwrap().name, "NT AUTHORITY");
        assert_eq!(domain_by_name(""), None);
        assert_eq!(by_sid(&"S-1-5".parse().unwrap()), None);
    }

    #[test]
    fn what_is_not_in_the_tables_is_not_found() {
        for text in ["S-1-5-32-999", "S-1-5-32-544-1", "S-1-9-0", "S-1-5-80-956008885", "S-1-5-5-1-2"] {
            assert_eq!(by_sid(&text.parse().unwrap()), None, "{text}");
        }
        assert_eq!(by_name(Some("BUILTIN"), "Everyone"), None);
        assert_eq!(by_name(Some("NT AUTHORITY"), "BUILTIN"), None);
    }
}
