//! Who a session speaks for (MS-SMB2 3.3.1.8 Session.SecurityContext).

use wire::security::Sid;

use crate::admin::{Principal, PrincipalKind};

/// SECURITY_NT_AUTHORITY, and the primary group's relative id (MS-DTYP 2.4.2.4).
const NT_AUTHORITY: u64 = 5;
const DOMAIN_USERS: u32 = 513;

/// A principal as access checks see it.
pub(crate) struct User {
    /// The name as configured.
    pub(crate) name: String,
    /// The storage account it belongs to.
    pub(crate) account: String,
    pub(crate) kind: PrincipalKind,
    /// Its own SID first, then its groups'.
    pub(crate) sids: Vec<Sid>,
}

impl User {
    /// The user that `principal` becomes on a machine whose SID has these three numbers.
    pub(crate) fn new(principal: &Principal, machine_sid: [u32; 3]) -> Self {
        let [a, b, c] = machine_sid;
        let of_machine = |relative_id| Sid::new(NT_AUTHORITY, &[21, a, b, c, relative_id]).unwrap_or(Sid::NOBODY);
        let mut sids = vec![
            of_machine(principal.relative_id),
            of_machine(DOMAIN_USERS),
            Sid::EVERYONE,
            Sid::AUTHENTICATED_USERS,
            Sid::NETWORK,
            Sid::BUILTIN_USERS,
        ];
        if principal.kind == PrincipalKind::Account {
            sids.push(Sid::BUILTIN_ADMINISTRATORS);
        }
        User { name: principal.name.clone(), account: principal.account.clone(), kind: principal.kind, sids }
    }

    /// Its own SID.
    pub(crate) fn sid(&self) -> &Sid {
        &self.sids[0]
    }

    /// The SID of its primary group.
    pub(crate) fn group(&self) -> &Sid {
        &self.sids[1]
    }

    /// True where security descriptors do not bind it: the holder of an account's key.
    pub(crate) fn has_full_control(&self) -> bool {
        self.kind == PrincipalKind::Account
    }
}
