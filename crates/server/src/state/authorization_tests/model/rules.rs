//! What Samba does otherwise than the documents say: `conformance/known-differences-access.txt` has why, by these names.

/// One rule that Samba has and the documents do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// Who makes something in a directory has nothing by an entry for OWNER RIGHTS.
    MakersHaveNoOwnerRights,
    /// A listing by access shows what may be read, with SYNCHRONIZE or without.
    ListsWantLess,
    /// DELETE that is asked for beside MAXIMUM_ALLOWED is not lent by the directory.
    MaximumBorrowsNothing,
    /// Every open of a directory has FILE_READ_ATTRIBUTES.
    DirectoriesTellAttributes,
    /// A directory is renamed without any right to it, a file with FILE_WRITE_ATTRIBUTES, too.
    RenamesNeedLess,
    /// FILE_READ_ATTRIBUTES is granted by every file.
    AttributesAreFree,
    /// A null list adds nothing to what MAXIMUM_ALLOWED finds, beside what its owner has.
    NullListHasNoMaximum,
    /// Nobody is in BUILTIN\Users.
    NobodyIsInUsers,
    /// Nobody but who has SeSecurityPrivilege has it, the administrator of the share neither.
    KeeperHasNoPrivilege,
    /// FILE_DELETE_ON_CLOSE wants DELETE to be asked for by its name.
    DeleteOnCloseWantsDelete,
    /// To overwrite or supersede needs WRITE_DATA alone.
    OverwriteNeedsWriteAlone,
    /// A new stream needs no right to its file.
    StreamsAreFree,
    /// A file whose owner is refused has been made by then.
    OwnerIsRefusedTooLate,
    /// A new name for a file needs no SYNCHRONIZE on its directory.
    NamesNeedNoSynchronize,
    /// A rename needs no right to what it replaces.
    RenamesReplaceFreely,
    /// A link needs no right to its directory, nor to its file.
    LinksAreFree,
    /// A directory does not replace a file.
    DirectoryReplacesNothing,
}

impl Difference {
    pub(crate) const EVERY: [Difference; 17] = [
        Difference::AttributesAreFree,
        Difference::NullListHasNoMaximum,
        Difference::MaximumBorrowsNothing,
        Difference::MakersHaveNoOwnerRights,
        Difference::ListsWantLess,
        Difference::DirectoriesTellAttributes,
        Difference::RenamesNeedLess,
        Difference::NobodyIsInUsers,
        Difference::KeeperHasNoPrivilege,
        Difference::DeleteOnCloseWantsDelete,
        Difference::OverwriteNeedsWriteAlone,
        Difference::StreamsAreFree,
        Difference::OwnerIsRefusedTooLate,
        Difference::NamesNeedNoSynchronize,
        Difference::RenamesReplaceFreely,
        Difference::LinksAreFree,
        Difference::DirectoryReplacesNothing,
    ];
}

/// The rules that a case is judged by: the documents', but for these differences.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a>(pub(crate) &'a [Difference]);

impl Rules<'_> {
    pub(crate) const OF_THE_DOCUMENTS: Rules<'static> = Rules(&[]);

    pub(crate) fn have(self, difference: Difference) -> bool {
        self.0.contains(&difference)
    }
}
