//! What the documents say of a case.

use wire::status::Status;

use super::case::*;
use super::descriptor::*;
use super::rights::*;

/// What comes of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The first status that is no success.
    pub(crate) status: Status,
    /// What the open was granted.
    pub(crate) granted: Option<u32>,
    /// The open got the batch oplock that every case asks for.
    pub(crate) caches: bool,
    pub(crate) changed: bool,
}

/// An open of what exists (MS-SMB2 3.3.5.9, MS-FSA 2.1.5.1.2.1): what it is granted.
pub(crate) fn opened(case: &Case, implied: u32, deletes: bool) -> Result<u32, Status> {
    let desired = mapped(case.desired);
    let share = case.share_allows();
    if desired & !(share | MAXIMUM | SYSTEM_SECURITY) != 0 {
        return Err(Status::ACCESS_DENIED);
    }
    if deletes && (share & DELETE_RIGHT == 0 || desired & (DELETE_RIGHT | MAXIMUM) == 0) {
        return Err(Status::ACCESS_DENIED);
    }
    if case.read_only && matches!(case.way, Way::Overwrite | Way::Supersede) {
        return Err(Status::MEDIA_WRITE_PROTECTED);
    }
    if desired & SYSTEM_SECURITY != 0 && case.asks != Asks::Keeper {
        // We say what Windows says; the documents have ACCESS_DENIED.
        return Err(Status::PRIVILEGE_NOT_HELD);
    }
    let needed = desired & !MAXIMUM | implied;
    let searched = needed | if desired & MAXIMUM != 0 { ALL } else { 0 };
    // SYNCHRONIZE is a right like any other (MS-SMB2 notes 49 and 52).
    let mut granted = grants(case.asks, &case.own, searched);
    let lends = |by| grants(case.asks, &case.folder, by) == by;
    if searched & DELETE_RIGHT != 0 && lends(DELETE_CHILD_RIGHT) {
        granted |= DELETE_RIGHT;
    }
    if searched & READ_ATTRIBUTES_RIGHT != 0 && lends(1) {
        granted |= READ_ATTRIBUTES_RIGHT;
    }
    if needed & !granted != 0 {
        return Err(Status::ACCESS_DENIED);
    }
    let given = if desired & MAXIMUM != 0 { granted } else { desired } & (share | SYSTEM_SECURITY);
    if given == 0 || deletes && given & DELETE_RIGHT == 0 { Err(Status::ACCESS_DENIED) } else { Ok(given) }
}

/// A new file or directory (MS-FSA 2.1.5.1.1).
pub(crate) fn made(case: &Case) -> Result<u32, Status> {
    let desired = mapped(case.desired);
    if desired & !(ALL | MAXIMUM | SYSTEM_SECURITY) != 0 {
        return Err(Status::ACCESS_DENIED);
    }
    if desired & SYSTEM_SECURITY != 0 && case.asks != Asks::Keeper {
        return Err(Status::PRIVILEGE_NOT_HELD);
    }
    let adds = if case.is_directory { APPEND } else { WRITE };
    if grants(case.asks, &case.folder, adds) == 0 {
        return Err(Status::ACCESS_DENIED);
    }
    if case.way == Way::MakeOwned && case.asks != Asks::Keeper && !case.asks.is(case.new_owner) {
        return Err(Status::INVALID_OWNER);
    }
    Ok(desired & !MAXIMUM | if desired & MAXIMUM != 0 { ALL } else { 0 })
}

impl Case {
    /// What the documents say.
    pub(crate) fn expected(&self) -> Outcome {
        let (status, granted, changed) = match self.expected_in_full() {
            Ok((granted, changed)) => (Status::SUCCESS, granted, changed),
            Err((status, granted)) => (status, granted, false),
        };
        Outcome { status, granted, caches: granted.is_some_and(|granted| self.caches(granted)), changed }
    }

    /// MS-FSA 2.1.5.18 has every open of a file cache, also one that looks at attributes alone. We: others wait for whoever caches, so
    /// that this takes a right to the data, whether the open asked for it or not.
    fn caches(&self, granted: u32) -> bool {
        let is_new = matches!(self.way, Way::Make | Way::MakeOwned);
        let may = || grants(self.asks, &self.own, DATA & self.share_allows()) != 0;
        !self.is_directory && (granted & DATA != 0 || is_new || may())
    }

    /// The most that an open of the share may have.
    fn share_allows(&self) -> u32 {
        if self.read_only { OF_READ_ONLY } else { ALL }
    }

    fn expected_in_full(&self) -> Result<(Option<u32>, bool), (Status, Option<u32>)> {
        let plain = |implied, deletes| opened(self, implied, deletes).map_err(|status| (status, None));
        match self.way {
            Way::Open | Way::OpenStream => Ok((Some(plain(0, false)?), false)),
            Way::MakeStream => {
                let granted = plain(WRITE, false)?;
                if self.read_only { Err((Status::MEDIA_WRITE_PROTECTED, None)) } else { Ok((Some(granted), true)) }
            }
            Way::Make | Way::MakeOwned => Ok((Some(made(self).map_err(|status| (status, None))?), true)),
            Way::Overwrite => Ok((Some(plain(WRITE | WRITE_OF_FILE, false)?), true)),
            // We empty the file for all its names, which takes WRITE_DATA besides.
            Way::Supersede => Ok((Some(plain(DELETE_RIGHT | WRITE | WRITE_OF_FILE, false)?), true)),
            Way::DeleteOnClose => Ok((Some(plain(0, true)?), true)),
            Way::Disposition => self.then(plain(0, false)?, DELETE_RIGHT, Ok(())),
            Way::Rename => self.then(plain(0, false)?, DELETE_RIGHT, self.new_name()),
            Way::Link => self.then(plain(0, false)?, 0, self.new_name()),
            // "If Open.File.SecurityDescriptor.Owner is NULL" (MS-FSA 2.1.5.17).
            Way::SetList => {
                let ownerless = matches!(&self.own, Stored::Whole(descriptor) if descriptor.owner.is_none());
                self.then(
                    plain(0, false)?,
                    WRITE_DAC_RIGHT,
                    if ownerless { Err(Status::INVALID_OWNER) } else { Ok(()) },
                )
            }
            Way::SetOwner => {
                let stays = self.old_owner() == Some(self.new_owner);
                let may = self.asks == Asks::Keeper || self.asks.is(self.new_owner) || stays;
                self.then(plain(0, false)?, WRITE_OWNER_RIGHT, if may { Ok(()) } else { Err(Status::INVALID_OWNER) })
            }
            Way::SetAudit => {
                let ownerless = matches!(&self.own, Stored::Whole(descriptor) if descriptor.owner.is_none());
                self.then(
                    plain(0, false)?,
                    SYSTEM_SECURITY,
                    if ownerless { Err(Status::INVALID_OWNER) } else { Ok(()) },
                )
            }
            // GENERIC_READ, by the file's own descriptor (MS-SMB2 3.3.5.18 with TreeConnect's access-based enumeration).
            Way::List => Ok((None, grants(self.asks, &self.own, 0x12_0089) == 0x12_0089)),
        }
    }

    pub(crate) fn old_owner(&self) -> Option<Who> {
        match &self.own {
            Stored::Whole(descriptor) => descriptor.owner,
            Stored::Nothing | Stored::Damaged(_) => Some(ADMINISTRATORS),
        }
    }

    /// Something is done through an open that was granted `granted`.
    fn then(
        &self,
        granted: u32,
        needed: u32,
        does: Result<(), Status>,
    ) -> Result<(Option<u32>, bool), (Status, Option<u32>)> {
        let done = if granted & needed == needed { does } else { Err(Status::ACCESS_DENIED) };
        done.map(|()| (Some(granted), true)).map_err(|status| (status, Some(granted)))
    }

    /// A name in the other folder (MS-FSA 2.1.5.15.12): the folder lets one be added; what has it may be deleted, or lies in a folder
    /// that lets it be.
    fn new_name(&self) -> Result<(), Status> {
        let adds = if self.is_directory { APPEND } else { WRITE };
        if grants(self.asks, &self.target, adds) == 0 {
            return Err(Status::ACCESS_DENIED);
        }
        let may_go = |taken| {
            grants(self.asks, taken, DELETE_RIGHT) != 0 || grants(self.asks, &self.target, DELETE_CHILD_RIGHT) != 0
        };
        if self.taken.as_ref().is_none_or(may_go) { Ok(()) } else { Err(Status::ACCESS_DENIED) }
    }
}
