//! What requests are counted by: the API, with the names that Azure Monitor has for SMB, and the type of the response.

use wire::ids::Command;
use wire::status::Status;

named! {
    /// What a request asks for: the command of MS-SMB2 by Azure's name for it (the dimension ApiName).
    Api {
        /// NEGOTIATE.
        Negotiate,
        /// SESSION_SETUP.
        SessionSetup,
        /// LOGOFF.
        Logoff,
        /// TREE_CONNECT.
        TreeConnect,
        /// TREE_DISCONNECT.
        TreeDisconnect,
        /// CREATE.
        Create,
        /// CLOSE.
        Close,
        /// FLUSH.
        Flush,
        /// READ.
        Read,
        /// WRITE.
        Write,
        /// LOCK.
        Lock,
        /// IOCTL.
        Ioctl,
        /// CANCEL, which has no response.
        Cancel,
        /// ECHO.
        Echo,
        /// QUERY_DIRECTORY.
        QueryDirectory,
        /// CHANGE_NOTIFY.
        ChangeNotify,
        /// QUERY_INFO.
        QueryInfo,
        /// SET_INFO.
        SetInfo,
        /// OPLOCK_BREAK: a client acknowledges the break of an oplock or a lease.
        OplockBreak,
        /// A command that does not exist.
        Unknown,
    }
}

named! {
    /// How a request ended (the dimension ResponseType).
    ResponseType {
        /// It was done, without waiting for a limit of its share.
        Success,
        /// It was done after it had waited for requests a second.
        SuccessWithShareIopsThrottling,
        /// It was done after it had waited for bytes to read a second.
        SuccessWithShareEgressThrottling,
        /// It was done after it had waited for bytes to write a second.
        SuccessWithShareIngressThrottling,
        /// It was done after it had waited for requests a second that neither read nor write.
        SuccessWithMetadataThrottling,
        /// Its user may not do that, or has not said who it is.
        AuthorizationError,
        /// What it asked for could not be done, for a reason that its client knows or could know.
        ClientOtherError,
        /// The server had too little of something left.
        ServerBusyError,
        /// The server's store did not answer in time.
        ServerTimeoutError,
        /// The server or its store failed.
        ServerOtherError,
        /// Its connection was lost before it was done.
        NetworkError,
    }
}

named! {
    /// How whoever asked had proved who they are (the dimension Authentication).
    Authentication {
        /// With an account's key, which Azure calls so.
        AccountKey,
        /// As a user, with a password by NTLM.
        Ntlm,
        /// Nobody had signed in, or is signed in any more: as what asks for no session.
        Anonymous,
        /// For somebody who asks another interface of this process, which tells of that itself.
        Inside,
    }
}

named! {
    /// The latencies that have a histogram.
    LatencyKind {
        /// Of READ.
        Read,
        /// Of WRITE.
        Write,
        /// Of what else is done with files: the APIs that take requests from a share's limits, but ChangeNotify and Lock.
        Metadata,
        /// Of all others. Those of ChangeNotify and Lock say how long clients were ready to wait.
        Other,
    }
}

named! {
    /// What a request may wait for.
    Wait {
        /// A limit of its share, or memory that its user, or all, may have.
        Budget,
        /// The share's store: a thread that asks it, and its answer.
        Store,
        /// Another client: that it gives up an oplock, a lease, a lock or an open, or makes a change that is waited for.
        OtherClient,
    }
}

/// The limit of its share that a request waited for first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Throttle {
    Iops,
    Egress,
    Ingress,
    Metadata,
}

impl Api {
    /// The API of a command.
    pub(crate) fn of(command: Command) -> Self {
        match command {
            Command::NEGOTIATE => Api::Negotiate,
            Command::SESSION_SETUP => Api::SessionSetup,
            Command::LOGOFF => Api::Logoff,
            Command::TREE_CONNECT => Api::TreeConnect,
            Command::TREE_DISCONNECT => Api::TreeDisconnect,
            Command::CREATE => Api::Create,
            Command::CLOSE => Api::Close,
            Command::FLUSH => Api::Flush,
            Command::READ => Api::Read,
            Command::WRITE => Api::Write,
            Command::LOCK => Api::Lock,
            Command::IOCTL => Api::Ioctl,
            Command::CANCEL => Api::Cancel,
            Command::ECHO => Api::Echo,
            Command::QUERY_DIRECTORY => Api::QueryDirectory,
            Command::CHANGE_NOTIFY => Api::ChangeNotify,
            Command::QUERY_INFO => Api::QueryInfo,
            Command::SET_INFO => Api::SetInfo,
            Command::OPLOCK_BREAK => Api::OplockBreak,
            _ => Api::Unknown,
        }
    }

    /// The histogram that its latencies are counted in.
    pub fn latency_kind(self) -> LatencyKind {
        match self {
            Api::Read => LatencyKind::Read,
            Api::Write => LatencyKind::Write,
            Api::Create
            | Api::Close
            | Api::Flush
            | Api::Ioctl
            | Api::QueryDirectory
            | Api::QueryInfo
            | Api::SetInfo => LatencyKind::Metadata,
            Api::Negotiate
            | Api::SessionSetup
            | Api::Logoff
            | Api::TreeConnect
            | Api::TreeDisconnect
            | Api::Lock
            | Api::Cancel
            | Api::Echo
            | Api::ChangeNotify
            | Api::OplockBreak
            | Api::Unknown => LatencyKind::Other,
        }
    }
}

impl ResponseType {
    /// That of a final response with `status`, to a request that may have waited for a limit. Warnings, and the status with which a sign-in goes on,
    /// are successes.
    pub(crate) fn of(status: Status, throttle: Option<Throttle>) -> Self {
        match status {
            status if !status.is_error() || status == Status::MORE_PROCESSING_REQUIRED => match throttle {
                None => ResponseType::Success,
                Some(Throttle::Iops) => ResponseType::SuccessWithShareIopsThrottling,
                Some(Throttle::Egress) => ResponseType::SuccessWithShareEgressThrottling,
                Some(Throttle::Ingress) => ResponseType::SuccessWithShareIngressThrottling,
                Some(Throttle::Metadata) => ResponseType::SuccessWithMetadataThrottling,
            },
            Status::ACCESS_DENIED
            | Status::NETWORK_ACCESS_DENIED
            | Status::PRIVILEGE_NOT_HELD
            | Status::LOGON_FAILURE
            | Status::WRONG_PASSWORD
            | Status::NO_SUCH_USER
            | Status::LOGON_NOT_GRANTED
            | Status::LOGON_TYPE_NOT_GRANTED
            | Status::ACCOUNT_RESTRICTION
            | Status::ACCOUNT_DISABLED
            | Status::ACCOUNT_EXPIRED
            | Status::ACCOUNT_LOCKED_OUT
            | Status::PASSWORD_EXPIRED
            | Status::PASSWORD_MUST_CHANGE
            | Status::NETWORK_SESSION_EXPIRED
            | Status::NTLM_BLOCKED
            | Status::INVALID_SIGNATURE => ResponseType::AuthorizationError,
            Status::INSUFFICIENT_RESOURCES
            | Status::INSUFF_SERVER_RESOURCES
            | Status::NO_MEMORY
            | Status::TOO_MANY_SESSIONS
            | Status::NETWORK_BUSY
            | Status::SERVER_UNAVAILABLE
            | Status::SHARE_UNAVAILABLE => ResponseType::ServerBusyError,
            Status::IO_TIMEOUT => ResponseType::ServerTimeoutError,
            Status::INTERNAL_ERROR
            | Status::UNSUCCESSFUL
            | Status::DATA_ERROR
            | Status::CRC_ERROR
            | Status::DISK_CORRUPT_ERROR
            | Status::FILE_CORRUPT_ERROR
            | Status::EA_CORRUPT_ERROR
            | Status::DEVICE_DATA_ERROR
            | Status::DEVICE_NOT_READY
            | Status::DEVICE_NOT_CONNECTED
            | Status::DEVICE_UNREACHABLE
            | Status::DEVICE_DOES_NOT_EXIST
            | Status::NO_SUCH_DEVICE
            | Status::IO_DEVICE_ERROR
            | Status::UNEXPECTED_IO_ERROR
            | Status::DISK_OPERATION_FAILED
            | Status::VOLUME_DISMOUNTED
            | Status::ENCRYPTION_FAILED => ResponseType::ServerOtherError,
            _ => ResponseType::ClientOtherError,
        }
    }

    /// True where the request was done.
    pub fn is_success(self) -> bool {
        self <= ResponseType::SuccessWithMetadataThrottling
    }

    /// True where it was done after it had waited for a limit of its share.
    pub fn is_throttled(self) -> bool {
        self.is_success() && self != ResponseType::Success
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_an_api_of_its_own() {
        for number in 0..=0x12 {
            let api = Api::of(Command(number));
            assert_eq!(api as usize, usize::from(number), "{}", api.name());
            assert_eq!(Api::ALL[api as usize], api);
        }
        assert_eq!(Api::of(Command(0x13)), Api::Unknown);
    }

    #[test]
    fn a_status_has_the_response_type_of_whose_fault_it_is() {
        let of = |status| ResponseType::of(status, None);
        for status in [Status::SUCCESS, Status::BUFFER_OVERFLOW, Status::NO_MORE_FILES, Status::NOTIFY_ENUM_DIR] {
            assert_eq!(of(status), ResponseType::Success, "{status}");
        }
        assert_eq!(of(Status::MORE_PROCESSING_REQUIRED), ResponseType::Success);
        assert_eq!(of(Status::LOGON_FAILURE), ResponseType::AuthorizationError);
        assert_eq!(of(Status::OBJECT_NAME_NOT_FOUND), ResponseType::ClientOtherError);
        assert_eq!(of(Status::DISK_FULL), ResponseType::ClientOtherError);
        assert_eq!(of(Status::INSUFFICIENT_RESOURCES), ResponseType::ServerBusyError);
        assert_eq!(of(Status::IO_DEVICE_ERROR), ResponseType::ServerOtherError);
    }

    #[test]
    fn only_a_success_says_what_it_waited_for() {
        let throttled = |status| ResponseType::of(status, Some(Throttle::Egress));
        assert_eq!(throttled(Status::SUCCESS), ResponseType::SuccessWithShareEgressThrottling);
        assert!(throttled(Status::SUCCESS).is_throttled() && throttled(Status::SUCCESS).is_success());
        assert_eq!(throttled(Status::CANCELLED), ResponseType::ClientOtherError);
        assert!(!ResponseType::Success.is_throttled() && !ResponseType::NetworkError.is_success());
    }
}
