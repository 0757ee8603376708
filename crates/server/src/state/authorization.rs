//! Authorization: what a user may do with a file, directory or stream, whichever way it comes to it (MS-FSA 2.1.5.1).
//!
//! [`authorize`] is the one place that decides. It gives a [`GrantedAccess`], and what is done later (delete on close, another
//! descriptor, another owner, attributes, a rename) asks that value alone.

use store::Kind;
use wire::security::Sid;
use wire::security::access::{
    ACCESS_SYSTEM_SECURITY, APPEND_DATA, DELETE, DELETE_CHILD, EXECUTE, FILE_ALL, MAXIMUM_ALLOWED, READ_ATTRIBUTES,
    READ_DATA, SYNCHRONIZE, WRITE_ATTRIBUTES, WRITE_DATA,
};
use wire::status::Status;

use crate::state::descriptors::Rights;
use crate::state::refusal::Refusal;
use crate::state::user::User;

/// What READONLY withholds of a file (MS-FSA 2.1.5.1.2.1).
const CHANGES_DATA: u32 = WRITE_DATA | APPEND_DATA | DELETE_CHILD;
/// Each of them lets its holder cache.
const USES_DATA: u32 = READ_DATA | WRITE_DATA | APPEND_DATA | EXECUTE;

/// Open.GrantedAccess: rights that [`authorize`] granted, generic bits mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GrantedAccess(u32);

impl GrantedAccess {
    /// What everybody has of a pipe that it may open.
    pub(crate) const OF_PIPE: GrantedAccess = GrantedAccess(FILE_ALL);

    /// What the record of a persistent open says was granted.
    pub(crate) fn recorded(bits: u32) -> Self {
        GrantedAccess(bits)
    }

    /// What of it is among `access`.
    pub(crate) fn within(self, access: u32) -> Self {
        GrantedAccess(self.0 & access)
    }

    /// The access mask.
    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    /// True where every right of `access` was granted.
    pub(crate) fn has(self, access: u32) -> bool {
        self.0 & access == access
    }

    /// True where some right of `access` was granted.
    pub(crate) fn has_any(self, access: u32) -> bool {
        self.0 & access != 0
    }

    /// Whether a persistent open that was granted this keeps all others from its file while its client is away (MS-SMB2 3.3.5.9): only who may
    /// write has a reason to. What others do to one that reads, or looks at attributes, its share mode, locks and caching decide as if its client
    /// was there.
    pub(crate) fn keeps_others_out(self) -> bool {
        self.has_any(WRITE_DATA | APPEND_DATA)
    }

    /// The same where nothing else of the open is there yet: nobody may get past its share mode and its locks.
    pub(crate) fn keeps_others_out_before_it_is_back(self) -> bool {
        self.has_any(USES_DATA | DELETE)
    }
}

/// Asks a descriptor what it grants. It is called only where the descriptor counts: it does not bind the holder of an account's key.
pub(crate) type Read<'a> = &'a dyn Fn() -> Result<Rights, Refusal>;

/// Who wants what.
pub(crate) struct Request<'a> {
    pub(crate) user: &'a User,
    /// The most that an open of the share may have (TreeConnect.MaximalAccess).
    pub(crate) share_max: u32,
    /// DesiredAccess, generic bits mapped.
    pub(crate) desired: u32,
    /// FILE_DELETE_ON_CLOSE.
    pub(crate) deletes_on_close: bool,
    pub(crate) way: Way<'a>,
}

/// The way to a file.
pub(crate) enum Way<'a> {
    /// What exists is opened or emptied, or gets one more stream (MS-FSA 2.1.5.1.2).
    Existing(Existing<'a>),
    /// A file or directory is made, with or without a stream of its own (MS-FSA 2.1.5.1.1).
    New { directory: Read<'a>, kind: Kind },
    /// A file or directory is to have a name there (MS-FSA 2.1.5.15.7, 2.1.5.15.12). A file's needs SYNCHRONIZE, too: there the
    /// directory is opened for it.
    Name { directory: Read<'a>, kind: Kind },
    /// A file is to have another name as well. The documents name no right for it. What comes of it counts for others: what the file has from its directory
    /// becomes its own, and no directory lends its deletion any more.
    Link { own: Read<'a> },
    /// The name is taken, and what has it goes (MS-FSA 2.1.5.15.12), whatever its attribute READONLY says where that is overridden.
    Replace { taken: Read<'a>, directory: Read<'a>, overrides_read_only: bool },
    /// It is shown in a listing, or stands in somebody's way.
    Look { own: Read<'a> },
    /// An open whose client was lost is taken up by its user (MS-SMB2 3.3.5.9.7, 3.3.5.9.12).
    Again { owner: &'a Sid, granted: GrantedAccess },
}

/// What exists.
pub(crate) struct Existing<'a> {
    /// The descriptor of the file or directory; of a stream, that of the file which has it.
    pub(crate) own: Read<'a>,
    /// The descriptor of the directory that has the name; `None` for a share's root.
    pub(crate) directory: &'a dyn Fn() -> Result<Option<Rights>, Refusal>,
    /// Rights that the disposition needs and the open does not get for that.
    pub(crate) implied: u32,
    /// The file has the attribute READONLY.
    pub(crate) is_read_only: bool,
    /// The file has other names, too: no directory decides for all of them.
    pub(crate) has_other_names: bool,
}

/// Decides: what is granted, or why nothing is.
pub(crate) fn authorize(request: &Request<'_>) -> Result<GrantedAccess, Refusal> {
    if request.user.is_anonymous {
        // Whatever a descriptor grants the ANONYMOUS user: the anonymous user may use no share.
        return Err(Status::ACCESS_DENIED.into());
    }
    check_share(request.share_max, request.desired, request.deletes_on_close)?;
    if request.desired & ACCESS_SYSTEM_SECURITY != 0 && !request.user.has_full_control() {
        // SeSecurityPrivilege. The documents say ACCESS_DENIED (MS-FSA 2.1.5.1.1), Windows names what is missing.
        return Err(Status::PRIVILEGE_NOT_HELD.into());
    }
    let granted = match &request.way {
        Way::Existing(existing) => of_existing(request, existing)?,
        Way::New { directory, kind } => {
            require(request.user, directory, right_to_add(*kind))?;
            // Who makes it gets what was asked for, whatever its descriptor will say.
            within(request, all_of(request.desired))
        }
        Way::Name { directory, kind: Kind::Directory } => require(request.user, directory, APPEND_DATA)?,
        Way::Name { directory, kind: Kind::File | Kind::Stream } => {
            require(request.user, directory, WRITE_DATA | SYNCHRONIZE)?
        }
        // By what the user may do with the file, not by what the open was granted: some clients open it to look at its attributes alone.
        Way::Link { own } => require(request.user, own, WRITE_ATTRIBUTES)?,
        Way::Replace { taken, directory, overrides_read_only } => {
            if *overrides_read_only {
                // As deleting it takes (MS-FSA 2.1.5.15.4); of a rename the documents do not say.
                require(request.user, taken, WRITE_ATTRIBUTES)?;
            }
            match require(request.user, taken, DELETE) {
                Err(refusal) if refusal.status == Status::ACCESS_DENIED => {
                    require(request.user, directory, DELETE_CHILD)?
                }
                granted => granted?,
            }
        }
        Way::Look { own } => require(request.user, own, request.desired)?,
        Way::Again { owner, granted } if *owner == request.user.sid() => granted.bits(),
        Way::Again { .. } => return Err(Status::ACCESS_DENIED.into()),
    };
    if granted == 0 || request.deletes_on_close && granted & DELETE == 0 {
        return Err(Status::ACCESS_DENIED.into());
    }
    Ok(GrantedAccess(granted))
}

/// Whether what has this descriptor grants all of `desired` to who looks at it, in a share that allows at most `share_max`.
pub(crate) fn may_look(user: &User, share_max: u32, desired: u32, own: Read<'_>) -> bool {
    authorize(&Request { user, share_max, desired, deletes_on_close: false, way: Way::Look { own } }).is_ok()
}

/// Whether an open that was `granted` something may hold an oplock or lease. Others wait for whoever does, so that it takes a right to the
/// data. Where the open asked for none of these (it looks at attributes alone, MS-FSA 2.1.4.12), it counts that the user has one.
pub(crate) fn may_cache(user: &User, share_max: u32, granted: GrantedAccess, own: Read<'_>) -> Result<bool, Refusal> {
    let may = granted.has_any(USES_DATA) || user.has_full_control();
    Ok(may || own()?.among(USES_DATA & share_max) != 0)
}

/// Whether an open that was `granted` something may keep others from reading: only who may write what they read has a reason to
/// (MS-FSA 2.1.5.1.2).
pub(crate) fn may_exclude_readers(
    user: &User,
    share_max: u32,
    granted: GrantedAccess,
    own: Read<'_>,
) -> Result<bool, Refusal> {
    may_change(user, share_max, (granted, WRITE_DATA), own)
}

/// Whether an open of a directory that was `granted` something may keep others from making names in it: only who may change what is in it
/// itself, or remove it, has a reason to.
pub(crate) fn may_exclude_makers(
    user: &User,
    share_max: u32,
    granted: GrantedAccess,
    own: Read<'_>,
) -> Result<bool, Refusal> {
    may_change(user, share_max, (granted, CHANGES_DATA | DELETE), own)
}

/// Whether one of `rights` was granted, or could have been.
fn may_change(
    user: &User,
    share_max: u32,
    (granted, rights): (GrantedAccess, u32),
    own: Read<'_>,
) -> Result<bool, Refusal> {
    let may = granted.has_any(rights) || user.has_full_control();
    Ok(may || own()?.among(rights & share_max) != 0)
}

/// What can be said before the file is looked for: nothing is granted that the share does not allow, and what goes with its open
/// needs DELETE (MS-SMB2 3.3.5.9, MS-FSA 2.1.5.1 phase 1).
pub(crate) fn check_share(share_max: u32, desired: u32, deletes_on_close: bool) -> Result<(), Status> {
    let beyond = desired & !(share_max | MAXIMUM_ALLOWED | ACCESS_SYSTEM_SECURITY) != 0;
    let keeps = desired & (DELETE | MAXIMUM_ALLOWED) == 0 || share_max & DELETE == 0;
    if beyond || deletes_on_close && keeps { Err(Status::ACCESS_DENIED) } else { Ok(()) }
}

/// The algorithm of MS-FSA 2.1.5.1.2.1.
fn of_existing(request: &Request<'_>, existing: &Existing<'_>) -> Result<u32, Refusal> {
    let needed = request.desired & !MAXIMUM_ALLOWED | existing.implied;
    let wanted = all_of(request.desired) | existing.implied;
    let granted = if request.user.has_full_control() {
        wanted
    } else {
        // SYNCHRONIZE, too, is granted by the descriptor alone (MS-SMB2 notes 49 and 52).
        let own = (existing.own)()?.among(wanted);
        own | lent(existing, wanted & !own)?
    };
    if needed & !granted != 0 {
        return Err(Status::ACCESS_DENIED.into());
    }
    let given = if request.desired & MAXIMUM_ALLOWED != 0 { granted } else { request.desired };
    let withheld = if existing.is_read_only { CHANGES_DATA } else { 0 };
    Ok(within(request, given & !withheld))
}

/// What the directory lends of what is missing: who may delete in it may delete what is in it, and who may list it may see the
/// attributes of that. Of a file that has other names it lends no DELETE: anybody may link a file into a directory of its own,
/// and what is deleted with an open counts for the file under all its names, its streams among it.
fn lent(existing: &Existing<'_>, missing: u32) -> Result<u32, Refusal> {
    let missing = if existing.has_other_names { missing & !DELETE } else { missing };
    if missing & (DELETE | READ_ATTRIBUTES) == 0 {
        return Ok(0);
    }
    let Some(directory) = (existing.directory)()? else { return Ok(0) };
    let by = [(DELETE, DELETE_CHILD), (READ_ATTRIBUTES, READ_DATA)];
    let lent = by.into_iter().filter(|(_, by)| directory.among(*by) != 0);
    Ok(missing & lent.fold(0, |lent, (right, _)| lent | right))
}

/// Refuses where not all of `access` is granted by a descriptor.
fn require(user: &User, descriptor: &Read<'_>, access: u32) -> Result<u32, Refusal> {
    if user.has_full_control() || descriptor()?.among(access) == access {
        Ok(access)
    } else {
        Err(Status::ACCESS_DENIED.into())
    }
}

/// The right to make a name in a directory.
fn right_to_add(kind: Kind) -> u32 {
    match kind {
        Kind::Directory => APPEND_DATA,
        Kind::File | Kind::Stream => WRITE_DATA,
    }
}

/// DesiredAccess with MAXIMUM_ALLOWED spelled out.
fn all_of(desired: u32) -> u32 {
    let all = if desired & MAXIMUM_ALLOWED != 0 { FILE_ALL } else { 0 };
    desired & !MAXIMUM_ALLOWED | all
}

fn within(request: &Request<'_>, granted: u32) -> u32 {
    granted & (request.share_max | ACCESS_SYSTEM_SECURITY)
}
