//! What an operation needs, and what who asks may do. It is said here once for each operation; whatever is not said is refused.
//!
//! Account signatures have a level and letters for each operation ("Create an account SAS"); signatures of a share or a file have letters of their own, and
//! none of them reaches a share's own properties ("Create a service SAS").

use crate::failure::{Code, Failure};
use crate::operations::Operation;

/// What is permitted, by the service's letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Permissions(u8);

impl Permissions {
    /// Those of who reads all files.
    pub(crate) const OF_READER: Self = Self::READ.or(Self::LIST);
    /// Those of who reads and changes all files.
    pub(crate) const OF_CONTRIBUTOR: Self = Self::OF_READER.or(Self::CREATE).or(Self::WRITE).or(Self::DELETE);
    /// That of who sees and changes shares, and the service. No letter gives it, and with files it gives nothing.
    pub(crate) const OF_MANAGER: Self = Permissions(1 << 5);
    const READ: Self = Permissions(1);
    const CREATE: Self = Permissions(1 << 1);
    const WRITE: Self = Permissions(1 << 2);
    const DELETE: Self = Permissions(1 << 3);
    const LIST: Self = Permissions(1 << 4);
    const NONE: Self = Permissions(0);

    /// Reads letters in any order. Those of other services permit nothing here.
    pub(crate) fn of_letters(text: &str) -> Self {
        text.chars().fold(Permissions::NONE, |known, letter| {
            known.or(match letter {
                'r' => Permissions::READ,
                'c' => Permissions::CREATE,
                'w' => Permissions::WRITE,
                'd' => Permissions::DELETE,
                'l' => Permissions::LIST,
                _ => Permissions::NONE,
            })
        })
    }

    /// What both permit.
    pub(crate) const fn and(self, other: Self) -> Self {
        Permissions(self.0 & other.0)
    }

    /// What either permits.
    pub(crate) const fn or(self, other: Self) -> Self {
        Permissions(self.0 | other.0)
    }

    fn has_one_of(self, wanted: Self) -> bool {
        self.0 & wanted.0 != 0
    }
}

/// What an operation is about, as account signatures tell it apart (`srt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Service,
    /// The service's word is container.
    Share,
    /// A file or a directory.
    Object,
}

/// The levels that an account signature names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Levels {
    service: bool,
    share: bool,
    object: bool,
}

impl Levels {
    /// Reads `sco`, or some of it.
    pub(crate) fn of_letters(text: &str) -> Self {
        Levels { service: text.contains('s'), share: text.contains('c'), object: text.contains('o') }
    }

    fn has(self, level: Level) -> bool {
        match level {
            Level::Service => self.service,
            Level::Share => self.share,
            Level::Object => self.object,
        }
    }
}

/// The smallest signature of a service that an operation can be asked for with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// One of the file, or of its share.
    File,
    /// One of the share.
    Share,
    /// None: an account's signature, or its key.
    Account,
    /// The account's key, and nothing that it signed.
    Key,
    /// A token alone.
    Token,
}

/// What an operation needs.
struct Needs {
    level: Level,
    /// One of these.
    permissions: Permissions,
    by: By,
}

/// What who asks may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Everything: by a key of the account.
    Key,
    /// What an account signature says.
    Account { levels: Levels, permissions: Permissions },
    /// What a service principal may do with each share and its files.
    Principal(Permissions),
    /// What a signature says of the files of a share.
    Share(Permissions),
    /// What a signature says of one file.
    File(Permissions),
}

impl Operation {
    /// It is about files, or the descriptors that they have.
    pub(super) fn is_of_files(self) -> bool {
        matches!(self.needs().by, By::File | By::Share)
    }

    fn needs(self) -> Needs {
        const R: Permissions = Permissions::READ;
        const W: Permissions = Permissions::WRITE;
        const D: Permissions = Permissions::DELETE;
        const L: Permissions = Permissions::LIST;
        const CREATE: Permissions = Permissions::CREATE.or(W);
        const LEASE: Permissions = W.or(D);
        const NOTHING: Permissions = Permissions::NONE;
        let (level, permissions, by) = match self {
            Operation::ListShares => (Level::Service, L, By::Account),
            Operation::GetServiceProperties => (Level::Service, R, By::Account),
            Operation::SetServiceProperties => (Level::Service, W, By::Account),
            Operation::GetUserDelegationKey => (Level::Service, NOTHING, By::Token),

            Operation::CreateShare | Operation::SnapshotShare => (Level::Share, CREATE, By::Account),
            Operation::GetShareProperties | Operation::GetShareStats => (Level::Share, R, By::Account),
            Operation::SetShareProperties | Operation::SetShareMetadata | Operation::UndeleteShare => {
                (Level::Share, W, By::Account)
            }
            Operation::DeleteShare => (Level::Share, D, By::Account),
            Operation::LeaseShare => (Level::Share, LEASE, By::Account),
            // Who may change these could give away more than it has.
            Operation::GetShareAcl | Operation::SetShareAcl => (Level::Share, NOTHING, By::Key),
            Operation::CreatePermission => (Level::Share, W, By::Share),
            Operation::GetPermission => (Level::Share, R, By::Share),

            Operation::CreateDirectory => (Level::Object, CREATE, By::Share),
            Operation::GetDirectoryProperties => (Level::Object, R, By::Share),
            Operation::SetDirectoryProperties | Operation::SetDirectoryMetadata | Operation::RenameDirectory => {
                (Level::Object, W, By::Share)
            }
            Operation::DeleteDirectory => (Level::Object, D, By::Share),
            Operation::ListDirectory => (Level::Share, L, By::Share),

            Operation::CreateFile | Operation::CopyFile | Operation::CreateSymbolicLink | Operation::CreateHardLink => {
                (Level::Object, CREATE, By::File)
            }
            Operation::GetFile | Operation::GetFileProperties | Operation::ListRanges | Operation::GetSymbolicLink => {
                (Level::Object, R, By::File)
            }
            Operation::SetFileProperties
            | Operation::SetFileMetadata
            | Operation::RenameFile
            | Operation::PutRange
            | Operation::PutRangeFromUrl
            | Operation::AbortCopy
            | Operation::CloseHandles => (Level::Object, W, By::File),
            Operation::DeleteFile => (Level::Object, D, By::File),
            Operation::LeaseFile => (Level::Object, LEASE, By::File),
            Operation::ListHandles => (Level::Object, L, By::Share),
        };
        Needs { level, permissions, by }
    }
}

impl Rights {
    /// Whether it is allowed for all that is below as well: a signature of a file counts for that alone, also where its path is a directory's.
    pub(crate) fn allow_below(self, operation: Operation, is_recursive: bool) -> Result<(), Failure> {
        let is_too_much = matches!(self, Rights::File(_)) && operation == Operation::CloseHandles && is_recursive;
        if is_too_much { Err(wrong_level()) } else { Ok(()) }
    }

    /// Whether an operation is allowed.
    pub(crate) fn allow(self, operation: Operation) -> Result<(), Failure> {
        let Needs { level, permissions: needed, by } = operation.needs();
        let has = match self {
            Rights::Key if by == By::Token => {
                return Err(Failure::unauthenticated("only who shows a token may ask for this"));
            }
            Rights::Key => return Ok(()),
            Rights::Principal(_) if by == By::Token => return Ok(()),
            Rights::Principal(of) if by == By::Account && of.has_one_of(Permissions::OF_MANAGER) => return Ok(()),
            Rights::Principal(_) if !matches!(by, By::File | By::Share) => return Err(wrong_level()),
            Rights::Account { levels, .. } if matches!(by, By::Key | By::Token) || !levels.has(level) => {
                return Err(wrong_level());
            }
            Rights::Share(_) if !matches!(by, By::File | By::Share) => return Err(beyond()),
            Rights::File(_) if by != By::File => return Err(beyond()),
            Rights::Account { permissions, .. }
            | Rights::Principal(permissions)
            | Rights::Share(permissions)
            | Rights::File(permissions) => permissions,
        };
        if has.has_one_of(needed) {
            return Ok(());
        }
        Err(Failure::new(
            Code::AuthorizationPermissionMismatch,
            "This request is not authorized to perform this operation using this permission.",
        ))
    }

    /// No more than this permits, too.
    pub(crate) fn within(self, permitted: Permissions) -> Self {
        match self {
            Rights::Key | Rights::Principal(_) => Rights::Principal(permitted),
            Rights::Account { levels, permissions } => {
                Rights::Account { levels, permissions: permissions.and(permitted) }
            }
            Rights::Share(permissions) => Rights::Share(permissions.and(permitted)),
            Rights::File(permissions) => Rights::File(permissions.and(permitted)),
        }
    }

    /// Whether what is there already may be made anew. Who may only create may not.
    pub(crate) fn allow_overwriting(self) -> bool {
        match self {
            Rights::Key => true,
            Rights::Account { permissions, .. }
            | Rights::Principal(permissions)
            | Rights::Share(permissions)
            | Rights::File(permissions) => permissions.has_one_of(Permissions::WRITE),
        }
    }
}

/// A signature of a share or a file is for these alone.
fn beyond() -> Failure {
    Failure::new(Code::AuthorizationFailure, "This request is not authorized to perform this operation.")
}

fn wrong_level() -> Failure {
    Failure::new(
        Code::AuthorizationResourceTypeMismatch,
        "This request is not authorized to perform this operation using this resource type.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERYTHING: &str = "rcwdlaupiytfx";

    fn account(levels: &str, letters: &str) -> Rights {
        Rights::Account { levels: Levels::of_letters(levels), permissions: Permissions::of_letters(letters) }
    }

    fn share(letters: &str) -> Rights {
        Rights::Share(Permissions::of_letters(letters))
    }

    fn file(letters: &str) -> Rights {
        Rights::File(Permissions::of_letters(letters))
    }

    fn code(rights: Rights, operation: Operation) -> Option<Code> {
        rights.allow(operation).err().map(|failure| failure.code)
    }

    /// What signatures of each kind have to say at least; `-` where none is enough.
    const TABLE: &[(Operation, char, &str, &str, &str)] = &[
        (Operation::ListShares, 's', "l", "-", "-"),
        (Operation::GetServiceProperties, 's', "r", "-", "-"),
        (Operation::SetServiceProperties, 's', "w", "-", "-"),
        (Operation::GetUserDelegationKey, 's', "-", "-", "-"),
        (Operation::CreateShare, 'c', "cw", "-", "-"),
        (Operation::GetShareProperties, 'c', "r", "-", "-"),
        (Operation::SetShareProperties, 'c', "w", "-", "-"),
        (Operation::SetShareMetadata, 'c', "w", "-", "-"),
        (Operation::DeleteShare, 'c', "d", "-", "-"),
        (Operation::UndeleteShare, 'c', "w", "-", "-"),
        (Operation::SnapshotShare, 'c', "cw", "-", "-"),
        (Operation::LeaseShare, 'c', "wd", "-", "-"),
        (Operation::GetShareAcl, 'c', "-", "-", "-"),
        (Operation::SetShareAcl, 'c', "-", "-", "-"),
        (Operation::GetShareStats, 'c', "r", "-", "-"),
        (Operation::CreatePermission, 'c', "w", "w", "-"),
        (Operation::GetPermission, 'c', "r", "r", "-"),
        (Operation::CreateDirectory, 'o', "cw", "cw", "-"),
        (Operation::GetDirectoryProperties, 'o', "r", "r", "-"),
        (Operation::SetDirectoryProperties, 'o', "w", "w", "-"),
        (Operation::SetDirectoryMetadata, 'o', "w", "w", "-"),
        (Operation::DeleteDirectory, 'o', "d", "d", "-"),
        (Operation::RenameDirectory, 'o', "w", "w", "-"),
        (Operation::ListDirectory, 'c', "l", "l", "-"),
        (Operation::CreateFile, 'o', "cw", "cw", "cw"),
        (Operation::GetFile, 'o', "r", "r", "r"),
        (Operation::GetFileProperties, 'o', "r", "r", "r"),
        (Operation::SetFileProperties, 'o', "w", "w", "w"),
        (Operation::SetFileMetadata, 'o', "w", "w", "w"),
        (Operation::DeleteFile, 'o', "d", "d", "d"),
        (Operation::RenameFile, 'o', "w", "w", "w"),
        (Operation::LeaseFile, 'o', "wd", "wd", "wd"),
        (Operation::PutRange, 'o', "w", "w", "w"),
        (Operation::PutRangeFromUrl, 'o', "w", "w", "w"),
        (Operation::ListRanges, 'o', "r", "r", "r"),
        (Operation::CopyFile, 'o', "cw", "cw", "cw"),
        (Operation::AbortCopy, 'o', "w", "w", "w"),
        (Operation::CreateSymbolicLink, 'o', "cw", "cw", "cw"),
        (Operation::GetSymbolicLink, 'o', "r", "r", "r"),
        (Operation::CreateHardLink, 'o', "cw", "cw", "cw"),
        (Operation::ListHandles, 'o', "l", "l", "-"),
        (Operation::CloseHandles, 'o', "w", "w", "w"),
    ];

    #[test]
    fn a_signature_of_a_file_counts_for_nothing_below() {
        let (file, share) = (Rights::File(Permissions::WRITE), Rights::Share(Permissions::WRITE));
        assert!(file.allow_below(Operation::CloseHandles, true).is_err());
        assert!(file.allow_below(Operation::CloseHandles, false).is_ok());
        assert!(share.allow_below(Operation::CloseHandles, true).is_ok());
    }

    #[test]
    fn each_operation_needs_the_letters_of_the_service_and_nothing_else_is_enough() {
        for &(operation, level, of_account, of_share, of_file) in TABLE {
            let is_for_tokens = operation == Operation::GetUserDelegationKey;
            assert_eq!(code(Rights::Key, operation), is_for_tokens.then_some(Code::AuthenticationFailed));
            let principal = |of: Permissions| code(Rights::Principal(of), operation).is_none();
            assert_eq!(principal(Permissions::NONE), is_for_tokens);
            assert_eq!(principal(Permissions::OF_CONTRIBUTOR), is_for_tokens || of_share != "-", "{operation:?}");
            let is_of_shares = of_share == "-" && of_account != "-";
            assert_eq!(principal(Permissions::OF_MANAGER), is_for_tokens || is_of_shares, "{operation:?}");
            let reads = of_share.contains(['r', 'l']);
            assert_eq!(principal(Permissions::OF_READER), is_for_tokens || reads, "{operation:?}");
            for letter in EVERYTHING.chars() {
                let letters = letter.to_string();
                let allowed = |rights| code(rights, operation).is_none();
                assert_eq!(allowed(account("sco", &letters)), of_account.contains(letter), "{operation:?} {letter}");
                assert_eq!(allowed(account(&level.to_string(), &letters)), of_account.contains(letter));
                assert_eq!(allowed(share(&letters)), of_share.contains(letter), "{operation:?} {letter}");
                assert_eq!(allowed(file(&letters)), of_file.contains(letter), "{operation:?} {letter}");
            }
            let others: String = "sco".chars().filter(|other| *other != level).collect();
            let wrong = Some(Code::AuthorizationResourceTypeMismatch);
            assert_eq!(code(account(&others, EVERYTHING), operation), wrong, "{operation:?}");
        }
    }

    #[test]
    fn the_code_says_whether_the_letters_or_the_level_are_missing() {
        assert_eq!(code(share("r"), Operation::PutRange), Some(Code::AuthorizationPermissionMismatch));
        assert_eq!(code(share("r"), Operation::GetShareProperties), Some(Code::AuthorizationFailure));
        assert_eq!(code(file(EVERYTHING), Operation::ListDirectory), Some(Code::AuthorizationFailure));
        assert_eq!(code(account("sco", ""), Operation::ListShares), Some(Code::AuthorizationPermissionMismatch));
    }

    #[test]
    fn who_may_only_create_overwrites_nothing() {
        assert!(!share("rcdl").allow_overwriting() && !account("sco", "c").allow_overwriting());
        assert!(share("w").allow_overwriting() && file("cw").allow_overwriting() && Rights::Key.allow_overwriting());
    }
}
