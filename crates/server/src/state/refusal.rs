//! Why a request is not done, and the one table that turns a fault of the store into an NTSTATUS.

use store::Error;
use wire::Malformed;
use wire::status::Status;

/// The answer to a request that is not done: a status, and for a few statuses data behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// What the client is told.
    pub(crate) status: Status,
    /// ErrorData of the ERROR response (MS-SMB2 2.2.2), empty for most.
    pub(crate) data: Vec<u8>,
    /// What this machine or its disk lacks, for the log.
    pub(crate) fault: Option<Error>,
}

impl Refusal {
    /// BUFFER_TOO_SMALL with the length that would do (2.2.2.2.1).
    pub(crate) fn too_small(needed_bytes: u32) -> Self {
        Refusal { status: Status::BUFFER_TOO_SMALL, data: needed_bytes.to_le_bytes().to_vec(), fault: None }
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Refusal { status, data: Vec::new(), fault: None }
    }
}

/// MS-SMB2 3.3.5.2.6.
impl From<Malformed> for Refusal {
    fn from(malformed: Malformed) -> Self {
        tracing::debug!(%malformed, "request refused");
        Status::INVALID_PARAMETER.into()
    }
}

/// The fault is this machine's: nothing is said against the client, and what it has stays.
impl From<secure::RandomFault> for Refusal {
    fn from(fault: secure::RandomFault) -> Self {
        tracing::error!(name: "randomness_missing", error = %fault, "a client was refused: this machine gives no random numbers");
        Status::INSUFFICIENT_RESOURCES.into()
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal { status: status_of(error), data: Vec::new(), fault: is_fault(error).then_some(error) }
    }
}

/// True for what the machine or its disk cannot do, whoever asks.
fn is_fault(error: Error) -> bool {
    matches!(error, Error::Io(_) | Error::Full | Error::TooManyOpen | Error::NoMemory | Error::ReadOnly)
}

/// What a client is told of a fault or refusal of the store.
pub(crate) fn status_of(error: Error) -> Status {
    match error {
        Error::WouldBlock => Status::RETRY,
        Error::NotFound => Status::OBJECT_NAME_NOT_FOUND,
        Error::PathNotFound => Status::OBJECT_PATH_NOT_FOUND,
        Error::Exists => Status::OBJECT_NAME_COLLISION,
        // CREATE says where the link leads (command/create/stopped.rs).
        Error::Link => Status::OBJECT_PATH_NOT_FOUND,
        Error::NotDirectory => Status::NOT_A_DIRECTORY,
        Error::IsDirectory => Status::FILE_IS_A_DIRECTORY,
        Error::NotEmpty => Status::DIRECTORY_NOT_EMPTY,
        Error::NameInvalid => Status::OBJECT_NAME_INVALID,
        Error::Denied => Status::ACCESS_DENIED,
        Error::ReadOnly => Status::MEDIA_WRITE_PROTECTED,
        Error::Full => Status::DISK_FULL,
        Error::TooLarge => Status::DISK_FULL,
        Error::TooManyLinks => Status::TOO_MANY_LINKS,
        Error::CrossVolume => Status::NOT_SAME_DEVICE,
        Error::Unsupported => Status::NOT_SUPPORTED,
        Error::Invalid => Status::INVALID_PARAMETER,
        Error::Served(_) | Error::Nested => Status::SHARING_VIOLATION,
        Error::TooManyOpen => Status::TOO_MANY_OPENED_FILES,
        Error::NoMemory => Status::INSUFFICIENT_RESOURCES,
        Error::Gone => Status::FILE_INVALID,
        Error::Io(_) => Status::UNEXPECTED_IO_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_randomness_is_not_the_clients_fault() {
        assert_eq!(Refusal::from(secure::RandomFault), Status::INSUFFICIENT_RESOURCES.into());
    }
}
