//! What the documents say of a case.

use wire::status::Status;

use super::case::*;
use super::descriptor::*;
use super::rights::*;
use super::rules::{Difference, Rules};

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

impl Case {
    /// What the documents say.
    pub(crate) fn expected(&self) -> Outcome {
        self.judged_by(Rules::OF_THE_DOCUMENTS)
    }

    pub(crate) fn judged_by(&self, rules: Rules<'_>) -> Outcome {
        let above = if self.way == Way::List { &Stored::Nothing } else { &self.folder };
        let case = Case {
            own: self.own.in_directory(above, self.is_directory),
            taken: self.taken.as_ref().map(|taken| taken.in_directory(&self.target, false)),
            ..self.clone()
        };
        Judge { case: &case, rules }.outcome()
    }

    pub(crate) fn old_owner(&self) -> Option<Who> {
        match &self.own {
            Stored::Whole(descriptor) => descriptor.owner,
            Stored::Nothing | Stored::Damaged(_) => Some(ADMINISTRATORS),
        }
    }

    /// The most that an open of the share may have.
    fn share_allows(&self) -> u32 {
        if self.read_only { OF_READ_ONLY } else { ALL }
    }
}

/// What was granted and whether anything changed; or why not, and what had been granted before.
type Verdict = Result<(Option<u32>, bool), (Status, Option<u32>)>;

struct Judge<'a> {
    case: &'a Case,
    rules: Rules<'a>,
}

impl Judge<'_> {
    fn outcome(&self) -> Outcome {
        let (status, granted, changed) = match self.verdict() {
            Ok((granted, changed)) => (Status::SUCCESS, granted, changed),
            // By then Samba has made the file.
            Err((Status::INVALID_OWNER, None)) if self.rules.have(Difference::OwnerIsRefusedTooLate) => {
                (Status::INVALID_OWNER, None, true)
            }
            Err((status, granted)) => (status, granted, false),
        };
        Outcome { status, granted, caches: granted.is_some_and(|granted| self.caches(granted)), changed }
    }

    fn verdict(&self) -> Verdict {
        let case = self.case;
        let plain = |implied, deletes| self.opened(implied, deletes).map_err(|status| (status, None));
        match case.way {
            Way::Open | Way::OpenStream => Ok((Some(plain(0, false)?), false)),
            Way::MakeStream => {
                let granted = self.made_stream().map_err(|status| (status, None))?;
                if case.read_only { Err((Status::MEDIA_WRITE_PROTECTED, None)) } else { Ok((Some(granted), true)) }
            }
            Way::Make | Way::MakeOwned => Ok((Some(self.made().map_err(|status| (status, None))?), true)),
            Way::Overwrite | Way::Supersede => Ok((Some(plain(self.empties(), false)?), true)),
            Way::DeleteOnClose => Ok((Some(plain(0, true)?), true)),
            Way::Disposition => then(plain(0, false)?, DELETE_RIGHT, Ok(())),
            Way::Rename => {
                let granted = plain(0, false)?;
                let may = !self.rules.have(Difference::RenamesNeedLess)
                    || !case.is_directory && granted & (DELETE_RIGHT | WRITE_ATTRIBUTES_RIGHT) == 0;
                then(granted, if may { DELETE_RIGHT } else { 0 }, self.new_name())
            }
            Way::Link => then(plain(0, false)?, 0, self.may_be_linked().and_then(|()| self.new_name())),
            Way::SetList => then(plain(0, false)?, WRITE_DAC_RIGHT, self.has_owner()),
            Way::SetOwner => {
                let stays = case.old_owner() == Some(case.new_owner);
                let may = stays || self.may_make(case.new_owner);
                then(plain(0, false)?, WRITE_OWNER_RIGHT, if may { Ok(()) } else { Err(Status::INVALID_OWNER) })
            }
            Way::SetAudit => then(plain(0, false)?, SYSTEM_SECURITY, self.has_owner()),
            // GENERIC_READ, by the file's own descriptor (MS-SMB2 3.3.5.18 with TreeConnect's access-based enumeration).
            Way::List => {
                let wanted = if self.rules.have(Difference::ListsWantLess) { 0x2_0089 } else { 0x12_0089 };
                Ok((None, self.grants(&case.own, wanted) == wanted))
            }
        }
    }

    /// An open of what exists (MS-SMB2 3.3.5.9, MS-FSA 2.1.5.1.2.1): what it is granted.
    fn opened(&self, implied: u32, deletes: bool) -> Result<u32, Status> {
        let case = self.case;
        let desired = mapped(case.desired);
        let share = case.share_allows();
        if deletes && case.desired & DELETE_RIGHT == 0 && self.rules.have(Difference::DeleteOnCloseWantsDelete) {
            self.check_privilege(desired)?;
            return Err(Status::INVALID_PARAMETER);
        }
        if desired & !(share | MAXIMUM | SYSTEM_SECURITY) != 0 {
            return Err(Status::ACCESS_DENIED);
        }
        if deletes && (share & DELETE_RIGHT == 0 || desired & (DELETE_RIGHT | MAXIMUM) == 0) {
            return Err(Status::ACCESS_DENIED);
        }
        if case.read_only && matches!(case.way, Way::Overwrite | Way::Supersede) {
            return Err(Status::MEDIA_WRITE_PROTECTED);
        }
        self.check_privilege(desired)?;
        let maximum = desired & MAXIMUM != 0;
        let needed = desired & !MAXIMUM | implied;
        let searched = needed | if maximum { ALL } else { 0 };
        // SYNCHRONIZE is a right like any other (MS-SMB2 notes 49 and 52).
        let mut granted = self.grants(&case.own, searched);
        let lends = |by| self.grants(&case.folder, by) == by;
        let borrows = !(maximum && desired & DELETE_RIGHT != 0 && self.rules.have(Difference::MaximumBorrowsNothing));
        if searched & DELETE_RIGHT != 0 && borrows && lends(DELETE_CHILD_RIGHT) {
            granted |= DELETE_RIGHT;
        }
        if searched & READ_ATTRIBUTES_RIGHT != 0 && lends(1) {
            granted |= READ_ATTRIBUTES_RIGHT;
        }
        if self.rules.have(Difference::AttributesAreFree) {
            granted |= READ_ATTRIBUTES_RIGHT;
        }
        if needed & !granted != 0 {
            return Err(Status::ACCESS_DENIED);
        }
        if maximum && self.rules.have(Difference::NullListHasNoMaximum) && self.has_null_list() {
            let of_owner = if case.old_owner().is_some_and(|owner| case.asks.is(owner)) { 0x6_0000 } else { 0 };
            let borrowed = if lends(DELETE_CHILD_RIGHT) { DELETE_RIGHT } else { 0 };
            granted &= of_owner | borrowed | READ_ATTRIBUTES_RIGHT | desired;
        }
        let given = if maximum { granted } else { desired | self.told() } & (share | SYSTEM_SECURITY);
        if given == 0 || deletes && given & DELETE_RIGHT == 0 { Err(Status::ACCESS_DENIED) } else { Ok(given) }
    }

    /// A new file or directory (MS-FSA 2.1.5.1.1).
    fn made(&self) -> Result<u32, Status> {
        let case = self.case;
        let granted = self.everything_asked()?;
        if !self.lets_add(&case.folder, self.adds()) {
            return Err(Status::ACCESS_DENIED);
        }
        if case.way == Way::MakeOwned && !self.may_make(case.new_owner) {
            return Err(Status::INVALID_OWNER);
        }
        Ok(granted)
    }

    /// What is granted of a new file whatever its descriptor says.
    fn everything_asked(&self) -> Result<u32, Status> {
        let desired = mapped(self.case.desired);
        if desired & !(ALL | MAXIMUM | SYSTEM_SECURITY) != 0 {
            return Err(Status::ACCESS_DENIED);
        }
        self.check_privilege(desired)?;
        Ok(desired & !MAXIMUM | if desired & MAXIMUM != 0 { ALL } else { 0 } | self.told())
    }

    /// A new stream of what exists (MS-FSA 2.1.5.1.2, "Stream not found").
    fn made_stream(&self) -> Result<u32, Status> {
        if !self.rules.have(Difference::StreamsAreFree) {
            return self.opened(WRITE, false);
        }
        let everything = self.everything_asked()?;
        let asked = mapped(self.case.desired) & !MAXIMUM;
        let granted = self.grants(&self.case.own, asked) | READ_ATTRIBUTES_RIGHT;
        if asked & !granted != 0 { Err(Status::ACCESS_DENIED) } else { Ok(everything) }
    }

    /// What an open has without having asked for it.
    fn told(&self) -> u32 {
        let is_directory = self.case.is_directory && self.case.way != Way::MakeStream;
        let told = is_directory && self.rules.have(Difference::DirectoriesTellAttributes);
        if told { READ_ATTRIBUTES_RIGHT } else { 0 }
    }

    /// No document names a right to the file itself; we want one, whatever the open was granted.
    fn may_be_linked(&self) -> Result<(), Status> {
        let may = self.rules.have(Difference::LinksAreFree) || self.grants(&self.case.own, WRITE_ATTRIBUTES_RIGHT) != 0;
        if may { Ok(()) } else { Err(Status::ACCESS_DENIED) }
    }

    /// A name in the other folder (MS-FSA 2.1.5.15.12): the folder lets one be added; what has it may be deleted, or lies in a folder
    /// that lets it be.
    fn new_name(&self) -> Result<(), Status> {
        let case = self.case;
        let is_free = case.way == Way::Link && self.rules.have(Difference::LinksAreFree);
        // "FILE_ADD_FILE|SYNCHRONIZE", for a directory FILE_ADD_SUBDIRECTORY alone.
        let waits = !case.is_directory && !self.rules.have(Difference::NamesNeedNoSynchronize);
        let adds = self.adds() | if waits { SYNCHRONIZE_RIGHT } else { 0 };
        if !self.lets_add(&case.target, adds) && !is_free {
            return Err(Status::ACCESS_DENIED);
        }
        if case.is_directory && case.taken.is_some() && self.rules.have(Difference::DirectoryReplacesNothing) {
            return Err(Status::OBJECT_NAME_COLLISION);
        }
        let replaces_freely = case.way == Way::Rename && self.rules.have(Difference::RenamesReplaceFreely);
        let may_go = |taken| {
            replaces_freely
                || self.grants(taken, DELETE_RIGHT) != 0
                || self.grants(&case.target, DELETE_CHILD_RIGHT) != 0
        };
        if case.taken.as_ref().is_none_or(may_go) { Ok(()) } else { Err(Status::ACCESS_DENIED) }
    }

    /// MS-FSA 2.1.5.18 has every open of a file cache, also one that looks at attributes alone. We: others wait for whoever caches, so
    /// that this takes a right to the data, whether the open asked for it or not.
    fn caches(&self, granted: u32) -> bool {
        let case = self.case;
        let is_new = matches!(case.way, Way::Make | Way::MakeOwned);
        let may = || self.grants(&case.own, DATA & case.share_allows()) != 0;
        !case.is_directory && (granted & DATA != 0 || is_new || may())
    }

    fn check_privilege(&self, desired: u32) -> Result<(), Status> {
        let has = self.case.asks == Asks::Keeper && !self.rules.have(Difference::KeeperHasNoPrivilege);
        // We say what Windows says; the documents have ACCESS_DENIED.
        if desired & SYSTEM_SECURITY != 0 && !has { Err(Status::PRIVILEGE_NOT_HELD) } else { Ok(()) }
    }

    fn may_make(&self, owner: Who) -> bool {
        self.case.asks == Asks::Keeper || self.case.asks.is(owner)
    }

    /// "If Open.File.SecurityDescriptor.Owner is NULL" (MS-FSA 2.1.5.17).
    fn has_owner(&self) -> Result<(), Status> {
        let ownerless = matches!(&self.case.own, Stored::Whole(descriptor) if descriptor.owner.is_none());
        if ownerless { Err(Status::INVALID_OWNER) } else { Ok(()) }
    }

    /// Who makes a name in `folder` has these rights to it.
    fn lets_add(&self, folder: &Stored, rights: u32) -> bool {
        let knows_owner = !self.rules.have(Difference::MakersHaveNoOwnerRights);
        let folder = if knows_owner { folder.clone() } else { folder.without_owner() };
        self.grants(&folder, rights) == rights
    }

    /// The right to make a name.
    fn adds(&self) -> u32 {
        if self.case.is_directory { APPEND } else { WRITE }
    }

    fn has_null_list(&self) -> bool {
        let null = matches!(&self.case.own, Stored::Whole(descriptor) if descriptor.list.is_none());
        null && self.case.asks != Asks::Keeper
    }

    /// What emptying a file needs.
    fn empties(&self) -> u32 {
        let deletes = if self.case.way == Way::Supersede { DELETE_RIGHT } else { 0 };
        let besides = if self.rules.have(Difference::OverwriteNeedsWriteAlone) { 0 } else { WRITE_OF_FILE | deletes };
        // We empty the file for all its names, which takes WRITE_DATA besides when it is superseded.
        WRITE | besides
    }

    fn grants(&self, stored: &Stored, rights: u32) -> u32 {
        grants(self.rules, self.case.asks, stored, rights)
    }
}

/// Something is done through an open that was granted `granted`.
fn then(granted: u32, needed: u32, does: Result<(), Status>) -> Verdict {
    let done = if granted & needed == needed { does } else { Err(Status::ACCESS_DENIED) };
    done.map(|()| (Some(granted), true)).map_err(|status| (status, Some(granted)))
}
