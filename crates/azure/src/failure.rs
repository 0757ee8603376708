//! What the service answers where something is not done: a code, a status and a sentence, in XML and in a header.

use client::Status;
use control::{Fault, LeaseRefusal, Measure, Reason};
use hyper::StatusCode;

/// Error codes of the service, by its names ("Common REST API error codes", "Azure Files error codes").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(serde::Deserialize))]
pub(crate) enum Code {
    AuthenticationFailed,
    AuthorizationFailure,
    AuthorizationPermissionMismatch,
    AuthorizationProtocolMismatch,
    AuthorizationResourceTypeMismatch,
    AuthorizationServiceMismatch,
    AuthorizationSourceIPMismatch,
    CannotConvertToSddlDueToCustomAce,
    CannotDeleteFileOrDirectory,
    CannotVerifyCopySource,
    ClientCacheFlushDelay,
    ContainerQuotaDowngradeNotAllowed,
    CorsPreflightFailure,
    Crc64Mismatch,
    DeletePending,
    DeleteShareWhenSnapshotLeased,
    DirectoryNotEmpty,
    EmptyMetadataKey,
    FileInvalidPermission,
    FileInvalidPermissionKey,
    FileLockConflict,
    FileOpenBySmbClient,
    FileShareProvisionedBandwidthDowngradeNotAllowed,
    FileShareProvisionedBandwidthInvalid,
    FileShareProvisionedIopsDowngradeNotAllowed,
    FileShareProvisionedIopsInvalid,
    FileShareProvisionedStorageInvalid,
    HandleLimitExceeded,
    InternalError,
    InvalidAuthenticationInfo,
    InvalidContinuationToken,
    InvalidHeaderValue,
    InvalidJsonDocument,
    InvalidMd5,
    InvalidMetadata,
    InvalidQueryParameterValue,
    InvalidRange,
    InvalidResourceName,
    InvalidUri,
    InvalidXmlDocument,
    InvalidXmlNodeValue,
    LeaseAlreadyPresent,
    LeaseIdMismatchWithContainerOperation,
    LeaseIdMismatchWithFileOperation,
    LeaseIdMismatchWithLeaseOperation,
    LeaseIdMissing,
    LeaseIsBreakingAndCannotBeAcquired,
    LeaseIsBreakingAndCannotBeChanged,
    LeaseIsBrokenAndCannotBeRenewed,
    LeaseLost,
    LeaseNotPresentWithContainerOperation,
    LeaseNotPresentWithFileOperation,
    LeaseNotPresentWithLeaseOperation,
    Md5Mismatch,
    MetadataTooLarge,
    MissingContentLengthHeader,
    MissingRequiredHeader,
    NoAuthenticationInformation,
    NoPendingCopyOperation,
    OperationTimedOut,
    OutOfRangeInput,
    OutOfRangeQueryParameterValue,
    ParentNotFound,
    PreviousSnapshotNotFound,
    ReadOnlyAttribute,
    RequestBodyTooLarge,
    ResourceAlreadyExists,
    ResourceNotFound,
    ResourceTypeMismatch,
    ServerBusy,
    ShareAlreadyExists,
    ShareHasSnapshots,
    ShareNotFound,
    ShareSizeLimitReached,
    ShareSnapshotCountExceeded,
    ShareSnapshotInProgress,
    ShareSnapshotNotFound,
    ShareSnapshotOperationNotSupported,
    SharingViolation,
    SourceConditionNotMet,
    TotalSharesCountExceedsAccountLimit,
    TotalSharesProvisionedBandwidthExceedsAccountLimit,
    TotalSharesProvisionedCapacityExceedsAccountLimit,
    TotalSharesProvisionedIopsExceedsAccountLimit,
    UnsupportedHeader,
    UnsupportedQueryParameter,
}

/// A request that is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    /// What happened, for people; nothing secret.
    pub(crate) message: String,
    /// What was wrong with a proof, where that is told by itself.
    pub(crate) detail: Option<String>,
    /// Why the source of a copy may not be read, whose status the answer has then.
    pub(crate) of_source: Option<Code>,
    /// What has to be reached anew before the next one.
    pub(crate) lost: Lost,
    /// It is a file that is sent when its turn comes.
    pub(crate) is_too_long: bool,
}

/// What of the way to an account's files is lost. Leases are of the session, and end with it: it is forgotten for nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lost {
    #[default]
    Nothing,
    /// The share, which was deleted or is another one.
    Share,
    Session,
}

impl Code {
    /// Its name on the wire.
    pub(crate) fn name(self) -> String {
        format!("{self:?}")
    }

    /// The status that goes with it.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Code::AuthenticationFailed
            | Code::AuthorizationFailure
            | Code::AuthorizationPermissionMismatch
            | Code::AuthorizationProtocolMismatch
            | Code::AuthorizationResourceTypeMismatch
            | Code::AuthorizationServiceMismatch
            | Code::AuthorizationSourceIPMismatch
            | Code::CorsPreflightFailure => StatusCode::FORBIDDEN,
            Code::InvalidAuthenticationInfo | Code::NoAuthenticationInformation => StatusCode::UNAUTHORIZED,
            Code::CannotVerifyCopySource
            | Code::ParentNotFound
            | Code::ResourceNotFound
            | Code::ShareNotFound
            | Code::ShareSnapshotNotFound => StatusCode::NOT_FOUND,
            Code::CannotDeleteFileOrDirectory
            | Code::ContainerQuotaDowngradeNotAllowed
            | Code::DeletePending
            | Code::DirectoryNotEmpty
            | Code::FileLockConflict
            | Code::FileOpenBySmbClient
            | Code::FileShareProvisionedBandwidthDowngradeNotAllowed
            | Code::FileShareProvisionedIopsDowngradeNotAllowed
            | Code::LeaseAlreadyPresent
            | Code::LeaseIdMismatchWithLeaseOperation
            | Code::LeaseIsBreakingAndCannotBeAcquired
            | Code::LeaseIsBreakingAndCannotBeChanged
            | Code::LeaseIsBrokenAndCannotBeRenewed
            | Code::LeaseNotPresentWithLeaseOperation
            | Code::NoPendingCopyOperation
            | Code::PreviousSnapshotNotFound
            | Code::ReadOnlyAttribute
            | Code::ResourceAlreadyExists
            | Code::ResourceTypeMismatch
            | Code::ShareAlreadyExists
            | Code::ShareSizeLimitReached
            | Code::DeleteShareWhenSnapshotLeased
            | Code::ShareHasSnapshots
            | Code::ShareSnapshotCountExceeded
            | Code::ShareSnapshotInProgress
            | Code::ShareSnapshotOperationNotSupported
            | Code::SharingViolation
            | Code::TotalSharesCountExceedsAccountLimit
            | Code::TotalSharesProvisionedBandwidthExceedsAccountLimit
            | Code::TotalSharesProvisionedCapacityExceedsAccountLimit
            | Code::TotalSharesProvisionedIopsExceedsAccountLimit => StatusCode::CONFLICT,
            Code::LeaseIdMismatchWithContainerOperation
            | Code::LeaseIdMismatchWithFileOperation
            | Code::LeaseIdMissing
            | Code::LeaseLost
            | Code::LeaseNotPresentWithContainerOperation
            | Code::LeaseNotPresentWithFileOperation
            | Code::SourceConditionNotMet => StatusCode::PRECONDITION_FAILED,
            Code::MissingContentLengthHeader => StatusCode::LENGTH_REQUIRED,
            Code::RequestBodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Code::InvalidRange => StatusCode::RANGE_NOT_SATISFIABLE,
            Code::ClientCacheFlushDelay | Code::InternalError | Code::OperationTimedOut => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            Code::ServerBusy => StatusCode::SERVICE_UNAVAILABLE,
            Code::CannotConvertToSddlDueToCustomAce
            | Code::Crc64Mismatch
            | Code::EmptyMetadataKey
            | Code::FileInvalidPermission
            | Code::FileInvalidPermissionKey
            | Code::FileShareProvisionedBandwidthInvalid
            | Code::FileShareProvisionedIopsInvalid
            | Code::FileShareProvisionedStorageInvalid
            | Code::HandleLimitExceeded
            | Code::InvalidContinuationToken
            | Code::InvalidHeaderValue
            | Code::InvalidJsonDocument
            | Code::InvalidMd5
            | Code::InvalidMetadata
            | Code::InvalidQueryParameterValue
            | Code::InvalidResourceName
            | Code::InvalidUri
            | Code::InvalidXmlDocument
            | Code::InvalidXmlNodeValue
            | Code::Md5Mismatch
            | Code::MetadataTooLarge
            | Code::MissingRequiredHeader
            | Code::OutOfRangeInput
            | Code::OutOfRangeQueryParameterValue
            | Code::UnsupportedHeader
            | Code::UnsupportedQueryParameter => StatusCode::BAD_REQUEST,
        }
    }
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Failure {
            code,
            message: message.into(),
            detail: None,
            of_source: None,
            lost: Lost::Nothing,
            is_too_long: false,
        }
    }

    /// A signature, or a key, that is not as it has to be.
    pub(crate) fn unauthenticated(detail: impl std::fmt::Display) -> Self {
        let detail = detail.to_string();
        let message = format!(
            "Server failed to authenticate the request: {detail}. Check the account's name and key, the clock, and what was signed."
        );
        Failure { detail: Some(detail), ..Failure::new(Code::AuthenticationFailed, message) }
    }

    /// The source of a copy that may not be read, for this reason.
    pub(crate) fn source(code: Code, message: impl Into<String>) -> Self {
        Failure { of_source: Some(code), ..Failure::new(Code::CannotVerifyCopySource, message) }
    }

    /// A file that is not sent before its turn, which may not come.
    pub(crate) fn too_long() -> Self {
        let message = "The server sends as many files as it may; try again.";
        Failure { is_too_long: true, ..Failure::new(Code::ServerBusy, message) }
    }

    /// The status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        self.of_source.unwrap_or(self.code).status()
    }

    /// A header whose value cannot be taken.
    pub(crate) fn header(name: &str, allowed: &str) -> Self {
        Failure::new(
            Code::InvalidHeaderValue,
            format!("The header {name} has a value that is not taken; allowed: {allowed}."),
        )
    }

    /// A header that is missing.
    pub(crate) fn missing(name: &str) -> Self {
        Failure::new(Code::MissingRequiredHeader, format!("The header {name} is missing."))
    }

    /// What the data folder's disk did not do, where it is that.
    fn of_data_folder(reason: Reason) -> Option<Self> {
        let (code, message) = match reason {
            Reason::Other => (
                Code::ServerBusy,
                "The catalog cannot be used just now; try again, or ask who operates the server, whose log says why.",
            ),
            Reason::DiskFull => (
                Code::ShareSizeLimitReached,
                "The disk of the server's data folder is full; ask who operates the server to free some space there.",
            ),
            Reason::DiskReadOnly => (
                Code::ReadOnlyAttribute,
                "The disk of the server's data folder takes no changes; ask who operates the server to have it take some.",
            ),
            _ => return None,
        };
        Some(Failure::new(code, message))
    }

    /// The disk of a share does not answer.
    pub(crate) fn of_disk() -> Self {
        let message = "The disk of the share does not answer; try again, or ask who operates the server, where `multilane status` tells of it.";
        Failure::new(Code::OperationTimedOut, message)
    }

    /// No such share.
    pub(crate) fn no_share(name: &str) -> Self {
        Failure::new(Code::ShareNotFound, format!("There is no share {name}."))
    }
}

/// What the catalog refuses, as the service says it, with the catalog's own words; but for the machine's faults, which name places on it.
impl From<control::Error> for Failure {
    fn from(error: control::Error) -> Self {
        if error.fault() == Fault::Machine
            && let Some(failure) = Failure::of_data_folder(error.reason())
        {
            tracing::warn!(name: "rest_catalog_failed", %error, "what a client of the REST interface asked could not be done in the catalog");
            return failure;
        }
        let code = match error.reason() {
            Reason::Other => match error.fault() {
                Fault::Argument | Fault::Conflict => Code::InvalidHeaderValue,
                Fault::Missing => Code::ResourceNotFound,
                Fault::Machine => Code::ServerBusy,
            },
            Reason::DiskReadOnly => Code::ReadOnlyAttribute,
            Reason::NoShare => Code::ShareNotFound,
            Reason::ShareExists => Code::ShareAlreadyExists,
            Reason::TooSoon(Measure::Size) => Code::ContainerQuotaDowngradeNotAllowed,
            Reason::TooSoon(Measure::Iops) => Code::FileShareProvisionedIopsDowngradeNotAllowed,
            Reason::TooSoon(Measure::Throughput) => Code::FileShareProvisionedBandwidthDowngradeNotAllowed,
            Reason::OutOfRange(Measure::Size) => Code::FileShareProvisionedStorageInvalid,
            Reason::OutOfRange(Measure::Iops) => Code::FileShareProvisionedIopsInvalid,
            Reason::OutOfRange(Measure::Throughput) => Code::FileShareProvisionedBandwidthInvalid,
            Reason::AccountFull(Measure::Size) => Code::TotalSharesProvisionedCapacityExceedsAccountLimit,
            Reason::AccountFull(Measure::Iops) => Code::TotalSharesProvisionedIopsExceedsAccountLimit,
            Reason::AccountFull(Measure::Throughput) => Code::TotalSharesProvisionedBandwidthExceedsAccountLimit,
            Reason::TooManyShares => Code::TotalSharesCountExceedsAccountLimit,
            Reason::TooManyPermissions => Code::ShareSizeLimitReached,
            Reason::Busy => Code::ServerBusy,
            Reason::NoSnapshot => Code::ShareSnapshotNotFound,
            Reason::SnapshotsUnsupported => Code::ShareSnapshotOperationNotSupported,
            Reason::TooManySnapshots => Code::ShareSnapshotCountExceeded,
            Reason::SnapshotInProgress => Code::ShareSnapshotInProgress,
            Reason::HasSnapshots => Code::ShareHasSnapshots,
            Reason::SnapshotLeased => Code::DeleteShareWhenSnapshotLeased,
            Reason::DiskFull => Code::ShareSizeLimitReached,
            Reason::TookTooLong => Code::OperationTimedOut,
            Reason::Lease(refusal) => match refusal {
                LeaseRefusal::AlreadyPresent => Code::LeaseAlreadyPresent,
                LeaseRefusal::BreakingNotAcquired => Code::LeaseIsBreakingAndCannotBeAcquired,
                LeaseRefusal::BreakingNotChanged => Code::LeaseIsBreakingAndCannotBeChanged,
                LeaseRefusal::BrokenNotRenewed => Code::LeaseIsBrokenAndCannotBeRenewed,
                LeaseRefusal::MismatchWithLease => Code::LeaseIdMismatchWithLeaseOperation,
                LeaseRefusal::NotPresentWithLease => Code::LeaseNotPresentWithLeaseOperation,
                LeaseRefusal::IdMissing => Code::LeaseIdMissing,
                LeaseRefusal::MismatchWithShare => Code::LeaseIdMismatchWithContainerOperation,
                LeaseRefusal::NotPresentWithShare => Code::LeaseNotPresentWithContainerOperation,
            },
        };
        Failure::new(code, format!("{}: {}.", error.what(), error.remedy()))
    }
}

/// What the file server said, as the service says it.
impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Self {
        let Some(status) = error.status() else {
            tracing::warn!(name: "rest_session_lost", %error, "the REST interface could not reach the file server");
            let busy = Failure::new(Code::ServerBusy, "The file server cannot be reached just now; try again.");
            return Failure { lost: Lost::Session, ..busy };
        };
        let (code, message) = match status {
            Status::OBJECT_NAME_NOT_FOUND | Status::NO_SUCH_FILE => {
                (Code::ResourceNotFound, "The specified resource does not exist.")
            }
            Status::OBJECT_PATH_NOT_FOUND => (Code::ParentNotFound, "The specified parent path does not exist."),
            Status::OBJECT_NAME_COLLISION => (Code::ResourceAlreadyExists, "The specified resource already exists."),
            Status::DIRECTORY_NOT_EMPTY => (Code::DirectoryNotEmpty, "The specified directory is not empty."),
            Status::FILE_IS_A_DIRECTORY | Status::NOT_A_DIRECTORY => (
                Code::ResourceTypeMismatch,
                "The resource is a directory where a file is named, or the other way round.",
            ),
            Status::STOPPED_ON_SYMLINK => {
                (Code::ResourceTypeMismatch, "A symbolic link is on the path, and this interface follows none.")
            }
            Status::SHARING_VIOLATION => {
                (Code::SharingViolation, "The specified resource may be in use by an SMB client.")
            }
            Status::DELETE_PENDING => {
                (Code::DeletePending, "The specified resource is marked for deletion by an SMB client.")
            }
            Status::CANNOT_DELETE => {
                (Code::CannotDeleteFileOrDirectory, "The file or directory could not be deleted; it may be read-only.")
            }
            Status::FILE_LOCK_CONFLICT => (Code::FileLockConflict, "A region of the file is locked by an SMB client."),
            Status::OBJECT_NAME_INVALID => (Code::InvalidResourceName, "The specified resource name is invalid."),
            Status::END_OF_FILE => (Code::InvalidRange, "The file has become shorter."),
            Status::FILE_CLOSED => (Code::LeaseLost, "The lease of the file has ended meanwhile."),
            Status::INVALID_OWNER | Status::INVALID_SECURITY_DESCR => {
                (Code::FileInvalidPermission, "The file permission specified is invalid.")
            }
            Status::DISK_FULL | Status::QUOTA_EXCEEDED => (Code::ShareSizeLimitReached, "The share is full."),
            Status::ACCESS_DENIED => {
                (Code::AuthorizationFailure, "This request is not authorized to perform this operation.")
            }
            Status::MEDIA_WRITE_PROTECTED => (
                Code::ReadOnlyAttribute,
                "The share, or the file system that it lies on, is read-only; ask who operates the server to have it written to.",
            ),
            Status::TOO_MANY_OPENED_FILES => (
                Code::HandleLimitExceeded,
                "The account has as many files open as it may, by SMB, by REST and by leases; close some, or release leases of files, and try again.",
            ),
            Status::NETWORK_NAME_DELETED => {
                let busy =
                    Failure::new(Code::ServerBusy, "The share was taken away, or is another one now; try again.");
                return Failure { lost: Lost::Share, ..busy };
            }
            Status::USER_SESSION_DELETED | Status::NETWORK_SESSION_EXPIRED => {
                let busy = Failure::new(Code::ServerBusy, "The session at the file server has ended; try again.");
                return Failure { lost: Lost::Session, ..busy };
            }
            Status::INSUFFICIENT_RESOURCES => {
                (Code::ServerBusy, "The file server has no room for this just now; try again.")
            }
            Status::BAD_NETWORK_NAME => (Code::ShareNotFound, "The specified share does not exist."),
            _ => {
                tracing::debug!(%error, "the file server refused what the REST interface asked");
                (Code::InternalError, "The server encountered an internal error. Please retry the request.")
            }
        };
        Failure::new(code, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_services_names_and_statuses() {
        assert_eq!(Code::ShareNotFound.name(), "ShareNotFound");
        assert_eq!(Code::ShareNotFound.status(), 404);
        assert_eq!(Code::InvalidRange.status(), 416);
        assert_eq!(Code::AuthenticationFailed.status(), 403);
    }

    #[test]
    fn the_description_has_the_codes_there_are() {
        let document: serde_json::Value =
            serde_json::from_str(include_str!("../../../docs/rest.openapi.json")).unwrap();
        let mut told = Vec::new();
        for path in document["paths"].as_object().unwrap().values() {
            for operation in path.as_object().unwrap().values().filter_map(|one| one.get("responses")) {
                for (status, answer) in operation.as_object().unwrap() {
                    let link = answer["$ref"].as_str().unwrap_or_default().trim_start_matches('#');
                    let codes = document
                        .pointer(link)
                        .and_then(|of| of["headers"]["x-ms-error-code"]["schema"]["enum"].as_array());
                    for code in codes.into_iter().flatten() {
                        let code: Code = serde_json::from_value(code.clone()).unwrap();
                        // The status of a copy's source is that with which the source refused.
                        let is_of_source = code == Code::CannotVerifyCopySource && ["401", "403"].contains(&&**status);
                        assert!(is_of_source || code.status().as_str() == status, "{code:?}: {status}");
                        told.push(code.name());
                    }
                }
            }
        }
        told.sort_unstable();
        told.dedup();
        // What says that there is no such code names those that there are.
        let unknown = serde_json::from_str::<Code>("\"none\"").unwrap_err().to_string();
        let known: Vec<&str> = unknown.split('`').skip(3).step_by(2).collect();
        assert_eq!(told, known);
    }

    #[test]
    fn what_smb_refuses_has_the_services_code() {
        let refused = |status| client::Error::Refused { status, doing: "do it".into() };
        for (status, code) in [
            (Status::SHARING_VIOLATION, Code::SharingViolation),
            (Status::FILE_LOCK_CONFLICT, Code::FileLockConflict),
            (Status::DELETE_PENDING, Code::DeletePending),
            (Status::OBJECT_PATH_NOT_FOUND, Code::ParentNotFound),
            (Status::END_OF_FILE, Code::InvalidRange),
            (Status::UNEXPECTED_IO_ERROR, Code::InternalError),
            (Status::INSUFFICIENT_RESOURCES, Code::ServerBusy),
            (Status::MEDIA_WRITE_PROTECTED, Code::ReadOnlyAttribute),
            (Status::TOO_MANY_OPENED_FILES, Code::HandleLimitExceeded),
            (Status::ACCESS_DENIED, Code::AuthorizationFailure),
        ] {
            let failure = Failure::from(refused(status));
            assert_eq!((failure.code, failure.lost), (code, Lost::Nothing), "no lease of others ends");
        }
        let lost = Failure::from(client::Error::Lost("gone"));
        assert_eq!((lost.code, lost.lost), (Code::ServerBusy, Lost::Session));
        let ended = Failure::from(refused(Status::USER_SESSION_DELETED));
        assert_eq!((ended.code, ended.lost), (Code::ServerBusy, Lost::Session));
        for (reason, code) in [
            (Reason::Other, Code::ServerBusy),
            (Reason::DiskFull, Code::ShareSizeLimitReached),
            (Reason::DiskReadOnly, Code::ReadOnlyAttribute),
        ] {
            let failure = Failure::from(control::Error::machine("cannot make /secret", "look there").because(reason));
            assert_eq!((failure.code, failure.message.contains("/secret")), (code, false));
        }
        // What is wrong with a share, or with the catalog, ends no lease of others.
        let share = Failure::from(refused(Status::NETWORK_NAME_DELETED));
        assert_eq!((share.code, share.lost), (Code::ServerBusy, Lost::Share));
        assert_eq!(Failure::from(control::Error::machine("it is locked", "try again")).lost, Lost::Nothing);
    }
}
