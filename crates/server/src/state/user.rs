//! Who a session speaks for (MS-SMB2 3.3.1.8 Session.SecurityContext).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::iter;

use secure::Secret;
use store::UnixOwner;
use wire::security::Sid;

use crate::state::configuration::{Principal, PrincipalKind, Share, ShareRight, Standing};
use crate::state::counters::Authentication;

/// SECURITY_NT_AUTHORITY, and the primary group's relative id (MS-DTYP 2.4.2.4).
const NT_AUTHORITY: u64 = 5;
pub(crate) const DOMAIN_USERS: u32 = 513;

/// Names a user for as long as the server's catalog lives: its relative id, which is nobody else's, and never again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct UserId(pub(crate) u32);

/// The SID of a machine with these three numbers.
pub(crate) fn of_machine([a, b, c]: [u32; 3]) -> Sid {
    Sid::new(NT_AUTHORITY, &[21, a, b, c]).unwrap_or(Sid::NOBODY)
}

/// A principal as access checks see it.
pub(crate) struct User {
    /// Whose it is, also where nothing is left of what the user may do.
    pub(crate) id: UserId,
    /// The name as configured.
    pub(crate) name: String,
    /// The storage account it belongs to.
    pub(crate) account: String,
    pub(crate) kind: PrincipalKind,
    /// By what its work is counted, whatever sessions it is asked for in: its own SID, in short. Never 0.
    pub(crate) number: u64,
    /// Its own SID first, then its groups'.
    pub(crate) sids: Vec<Sid>,
    /// The relative ids of the groups that an operator has put it in.
    groups: Vec<u32>,
    /// Whose the files are on this machine that it makes, where that is not as for all that its share makes.
    pub(crate) unix_owner: Option<UnixOwner>,
    /// The secret that it signed in with: it ends with that. None for who did not.
    pub(crate) secret: Option<Secret>,
    /// Session.IsAnonymous: whoever speaks has not said that it is this user, or no longer.
    pub(crate) is_anonymous: bool,
}

impl User {
    /// The user that `principal` becomes on a machine whose SID has these three numbers.
    pub(crate) fn new(principal: &Principal, machine_sid: [u32; 3]) -> Self {
        let machine = of_machine(machine_sid);
        let of_machine = |relative_id| machine.join(relative_id).unwrap_or(Sid::NOBODY);
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
        sids.extend(principal.groups.iter().copied().map(of_machine));
        let (name, account) = (principal.name.clone(), principal.account.clone());
        let mut hasher = DefaultHasher::new();
        sids.first().hash(&mut hasher);
        let (id, number) = (UserId(principal.relative_id), hasher.finish().max(1));
        let (kind, groups) = (principal.kind, principal.groups.clone());
        let unix_owner = principal.unix_owner;
        User { id, name, account, kind, number, sids, groups, unix_owner, secret: None, is_anonymous: false }
    }

    /// What is left of the user of a session that signs in again as the anonymous user: the name, by which operators know the session and with which it
    /// ends, and no right to anything.
    pub(crate) fn anonymous(&self) -> Self {
        User {
            id: self.id,
            name: self.name.clone(),
            account: self.account.clone(),
            kind: PrincipalKind::User,
            number: self.number,
            sids: vec![Sid::ANONYMOUS, Sid::NOBODY],
            groups: Vec::new(),
            unix_owner: None,
            secret: self.secret.clone(),
            is_anonymous: true,
        }
    }

    /// True where both are the same principal, whatever is left of its rights.
    pub(crate) fn is_same(&self, other: &User) -> bool {
        self.id == other.id && self.name == other.name && self.account == other.account
    }

    /// The same, signed in with one of the principal's secrets.
    pub(crate) fn with_secret(self, secret: Option<&Secret>) -> Self {
        User { secret: secret.cloned(), ..self }
    }

    /// True where `principal` is still this user and may sign in, and the secret that it signed in with is still one of its own, or was lately. Who was
    /// removed and added again is another, whatever the name and the password.
    pub(crate) fn is_still(&self, principal: &Principal) -> bool {
        UserId(principal.relative_id) == self.id
            && (&principal.name, &principal.account) == (&self.name, &self.account)
            && principal.standing == Standing::Good
            && self
                .secret
                .as_ref()
                .is_none_or(|secret| principal.secrets.iter().chain(&principal.former).any(|one| one == secret))
    }

    /// This user as `principal`, which it still is, now is; `None` where nothing has changed. Of the anonymous user nothing does.
    pub(crate) fn as_now(&self, principal: &Principal, machine_sid: [u32; 3]) -> Option<Self> {
        if self.is_anonymous || (&self.groups, self.unix_owner) == (&principal.groups, principal.unix_owner) {
            return None;
        }
        Some(User::new(principal, machine_sid).with_secret(self.secret.as_ref()))
    }

    /// What it may do in a share at most; `None` where it may not connect to it: that is for its own account alone, and for those of it whom
    /// the share's rights name.
    pub(crate) fn right_on(&self, share: &Share) -> Option<ShareRight> {
        if self.is_anonymous || self.account != share.account {
            return None;
        }
        if self.has_full_control() {
            return Some(ShareRight::Full);
        }
        share.rights.of(iter::once(self.id.0).chain(self.groups.iter().copied()))
    }

    /// How whoever speaks has proved who that is.
    pub(crate) fn authentication(&self) -> Authentication {
        match self.kind {
            _ if self.is_anonymous => Authentication::Anonymous,
            PrincipalKind::Account => Authentication::AccountKey,
            PrincipalKind::User => Authentication::Ntlm,
        }
    }

    /// Its own SID.
    pub(crate) fn sid(&self) -> &Sid {
        &self.sids[0]
    }

    /// The SID of its primary group.
    pub(crate) fn group(&self) -> &Sid {
        &self.sids[1]
    }

    /// True where it may make `owner` the owner of a file: itself or a group it is in, and with an account's key anybody.
    pub(crate) fn may_own_as(&self, owner: &Sid) -> bool {
        self.has_full_control() || self.sids.contains(owner)
    }

    /// True where security descriptors do not bind it: the holder of an account's key.
    pub(crate) fn has_full_control(&self) -> bool {
        self.kind == PrincipalKind::Account
    }
}
