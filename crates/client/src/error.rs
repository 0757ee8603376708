//! What can go wrong, by whose fault it is.

use std::io;

use secure::LogonFailure;
use wire::Malformed;
use wire::status::Status;

/// Why something was not done. [`Display`](std::fmt::Display) says what happened, [`Error::remedy`] what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The server said no.
    #[error("cannot {doing}: {status}")]
    Refused {
        /// How it said so.
        status: Status,
        /// What it was asked, in words that follow "cannot".
        doing: String,
    },
    /// No connection to the server.
    #[error("cannot connect to {server}: {cause}")]
    Unreachable {
        /// The name or address.
        server: String,
        /// What the network said.
        cause: String,
    },
    /// Every connection to the server broke, and none could be opened again in time.
    #[error("the connection to the server is lost: {0}")]
    Lost(&'static str),
    /// The file was open while every connection broke, and the server did not keep it.
    #[error("{0} was open when the connection broke, and is no longer")]
    OpenLost(String),
    /// The server's end of the logon does not add up.
    #[error("cannot sign in: {0}")]
    Logon(#[from] LogonFailure),
    /// The server would let this user in as a guest only, whom nobody has authenticated.
    #[error("the server takes this user for a guest")]
    Guest,
    /// The server lacks something that is needed.
    #[error("the server lacks {0}")]
    Lacking(&'static str),
    /// The server sent something that is no SMB.
    #[error("the server sent something that is no SMB: {0}")]
    Malformed(&'static str),
    /// This machine gave no randomness or no memory.
    #[error("{0}")]
    Machine(String),
}

impl Error {
    /// What the server said, where it said no.
    pub fn status(&self) -> Option<Status> {
        match self {
            Error::Refused { status, .. } => Some(*status),
            Error::Unreachable { .. }
            | Error::Lost(_)
            | Error::OpenLost(_)
            | Error::Logon(_)
            | Error::Guest
            | Error::Lacking(_)
            | Error::Malformed(_)
            | Error::Machine(_) => None,
        }
    }

    /// What whoever reads this may do, as a clause without a full stop.
    pub fn remedy(&self) -> &'static str {
        match self {
            Error::Refused { status, .. } => remedy_for(*status),
            Error::Unreachable { .. } => "check the server's name and port, and that it runs",
            Error::Lost(_) | Error::OpenLost(_) => "run the command again; what is done already is not done twice",
            Error::Logon(_) | Error::Guest => "check the user name and the password",
            Error::Lacking(_) => "use a server that speaks SMB 3.1.1",
            Error::Malformed(_) => "check that an SMB server listens there, and report this if so",
            Error::Machine(_) => "see what this machine lacks",
        }
    }

    pub(crate) fn refused(status: Status, doing: impl Into<String>) -> Self {
        Error::Refused { status, doing: doing.into() }
    }

    pub(crate) fn unreachable(server: &str, cause: &io::Error) -> Self {
        Error::Unreachable { server: server.to_owned(), cause: cause.to_string() }
    }
}

/// By NTSTATUS; the statuses that users meet.
fn remedy_for(status: Status) -> &'static str {
    match status {
        Status::LOGON_FAILURE => "check the user name and the password",
        Status::ACCESS_DENIED => "ask for access, or sign in as another user with --user",
        Status::BAD_NETWORK_NAME => "check the name of the share",
        Status::OBJECT_NAME_NOT_FOUND | Status::OBJECT_PATH_NOT_FOUND | Status::NO_SUCH_FILE => {
            "check the path; `multilane ls` lists what is there"
        }
        Status::OBJECT_NAME_COLLISION => "choose another name, or remove what has it",
        Status::SHARING_VIOLATION => "close it where it is open, and try again",
        Status::DIRECTORY_NOT_EMPTY => "remove what it holds first, or use --recursive",
        Status::DISK_FULL | Status::QUOTA_EXCEEDED => "make room on the share",
        Status::MEDIA_WRITE_PROTECTED => "the share is read-only; have that changed, or use another",
        Status::FILE_IS_A_DIRECTORY => "name a file, or use --recursive",
        Status::NOT_A_DIRECTORY => "name a directory",
        Status::STOPPED_ON_SYMLINK => "name what the symbolic link leads to; `multilane ls --long` shows links",
        _ => "see the server's log",
    }
}

impl From<Malformed> for Error {
    fn from(malformed: Malformed) -> Self {
        Error::Malformed(malformed.0)
    }
}

impl From<secure::RandomFault> for Error {
    fn from(fault: secure::RandomFault) -> Self {
        Error::Machine(fault.to_string())
    }
}
