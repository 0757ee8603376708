//! Requests as they are counted: each once, by the name that Azure Monitor has for what it asks.

use std::mem::take;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::KnownCatalog;
use hyper::header::HeaderMap;
use insight::monitor::{AskedOnce, Tally};
use server::admin::{AuditProof, ResponseType};

use crate::answer::Answer;
use crate::failure::{Code, Failure};
use crate::operations::{Asked, Operation};

/// What asks for none of the operations there are.
const UNKNOWN: &str = "Unknown";

/// Nobody has proved anything.
const ANONYMOUS: &str = "Anonymous";

/// One request. It is counted when this is dropped: once its answer was taken, or once nobody is there any more who would.
pub(super) struct Counted {
    tally: Arc<Tally>,
    since: Instant,
    /// How long it took to come.
    coming: Duration,
    answered: Option<Instant>,
    asked: AskedOnce,
}

impl Counted {
    /// One that has just come, of which nothing is known.
    pub(super) fn begin(tally: &Arc<Tally>) -> Self {
        let asked = AskedOnce {
            share: String::new(),
            api: UNKNOWN,
            authentication: ANONYMOUS,
            response: ResponseType::NetworkError,
            received: 0,
            sent: 0,
            took: Duration::ZERO,
            by_client: Duration::ZERO,
        };
        Counted { tally: Arc::clone(tally), since: Instant::now(), coming: Duration::ZERO, answered: None, asked }
    }

    /// It is none of the data plane's.
    pub(super) fn is_of_management(&mut self) {
        self.asked.api = "";
    }

    /// It asks what a page of another origin may do.
    pub(super) fn is_preflight(&mut self) {
        (self.asked.api, self.asked.authentication) = ("FilePreflightRequest", "AnonymousPreflight");
    }

    /// It asks for this, whoever it is.
    pub(super) fn asks(&mut self, asked: &Asked, known: &KnownCatalog) {
        let (parts, target) = (&asked.parts, &asked.target);
        if let Ok(operation) = Operation::of(&parts.method, target, &asked.query, &parts.headers) {
            self.asked.api = api(operation, &parts.headers);
        }
        let share = target.share.as_deref().and_then(|share| known.share_of(&target.account, share));
        self.asked.share = share.map(|share| share.name).unwrap_or_default();
    }

    /// What it asks for, by Azure Monitor's name.
    pub(super) fn api(&self) -> &'static str {
        self.asked.api
    }

    /// Who asks has proved this.
    pub(super) fn proves(&mut self, by: AuditProof) {
        self.asked.authentication = match by {
            AuditProof::AccountKey => "AccountKey",
            AuditProof::SharedAccess | AuditProof::DelegatedAccess => "SAS",
            AuditProof::Token => "OAuth",
            AuditProof::Claimed | AuditProof::Ntlm | AuditProof::Anonymous | AuditProof::Operator => ANONYMOUS,
        };
    }

    /// All of it has come, with so many bytes.
    pub(super) fn has_come(&mut self, bytes: usize) {
        self.coming = self.since.elapsed();
        self.asked.received = bytes as u64;
    }

    /// This is to be answered.
    pub(super) fn is_answered(&mut self, answer: &Result<Answer, Failure>) {
        self.answered = Some(Instant::now());
        self.asked.response = response(answer);
    }

    /// So many bytes of the answer were taken, which may not have been all.
    pub(super) fn is_taken(&mut self, bytes: u64, is_all: bool) {
        self.asked.sent = bytes;
        if !is_all && self.asked.response == ResponseType::Success {
            self.asked.response = ResponseType::NetworkError;
        }
    }

    /// The file could not be read to its end.
    pub(super) fn is_broken(&mut self) {
        self.asked.response = ResponseType::ServerOtherError;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if !self.asked.api.is_empty() {
            let taking = self.answered.map(|at| at.elapsed()).unwrap_or_default();
            let (took, by_client) = (self.since.elapsed(), self.coming + taking);
            self.tally.add(AskedOnce { took, by_client, share: take(&mut self.asked.share), ..self.asked.clone() });
        }
    }
}

/// How it ended, by Azure Monitor's names.
fn response(answer: &Result<Answer, Failure>) -> ResponseType {
    let failure = match answer {
        Ok(answer) if answer.status().as_u16() < 400 => return ResponseType::Success,
        Ok(_) => return ResponseType::ClientOtherError,
        Err(failure) => failure,
    };
    match (failure.code, failure.code.status().as_u16()) {
        (Code::ServerBusy, _) => ResponseType::ServerBusyError,
        (Code::OperationTimedOut, _) => ResponseType::ServerTimeoutError,
        (Code::InternalError, _) => ResponseType::ServerOtherError,
        (_, 401 | 403) => ResponseType::AuthorizationError,
        _ => ResponseType::ClientOtherError,
    }
}

/// What Azure Monitor calls it.
fn api(operation: Operation, headers: &HeaderMap) -> &'static str {
    let said = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let lease = |[acquire, renew, change, release, broken]: [&'static str; 5]| match said("x-ms-lease-action")
        .to_ascii_lowercase()
        .as_str()
    {
        "renew" => renew,
        "change" => change,
        "release" => release,
        "break" => broken,
        _ => acquire,
    };
    match operation {
        Operation::ListShares => "ListShares",
        Operation::GetServiceProperties => "GetFileServiceProperties",
        Operation::SetServiceProperties => "SetFileServiceProperties",
        Operation::GetUserDelegationKey => "GetUserDelegationKey",
        Operation::CreateShare => "CreateShare",
        Operation::GetShareProperties => "GetShareProperties",
        Operation::SetShareProperties => "SetShareProperties",
        Operation::SetShareMetadata => "SetShareMetadata",
        Operation::DeleteShare => "DeleteShare",
        Operation::UndeleteShare => "RestoreShare",
        Operation::SnapshotShare => "SnapshotShare",
        Operation::LeaseShare => {
            lease(["AcquireShareLease", "RenewShareLease", "ChangeShareLease", "ReleaseShareLease", "BreakShareLease"])
        }
        Operation::GetShareAcl => "GetShareAcl",
        Operation::SetShareAcl => "SetShareAcl",
        Operation::GetShareStats => "GetShareStats",
        Operation::CreatePermission => "PutFilePermission",
        Operation::GetPermission => "GetFilePermission",
        Operation::CreateDirectory => "CreateDirectory",
        Operation::GetDirectoryProperties => "GetDirectoryProperties",
        Operation::SetDirectoryProperties => "SetDirectoryProperties",
        Operation::SetDirectoryMetadata => "SetDirectoryMetadata",
        Operation::DeleteDirectory => "DeleteDirectory",
        Operation::RenameDirectory => "RenameDirectory",
        Operation::ListDirectory => "ListFiles",
        Operation::CreateFile => "CreateFile",
        Operation::GetFile => "GetFile",
        Operation::GetFileProperties => "GetFileProperties",
        Operation::SetFileProperties => "SetFileProperties",
        Operation::SetFileMetadata => "SetFileMetadata",
        Operation::DeleteFile => "DeleteFile",
        Operation::RenameFile => "RenameFile",
        Operation::LeaseFile => {
            lease(["AcquireFileLease", "RenewFileLease", "ChangeFileLease", "ReleaseFileLease", "BreakFileLease"])
        }
        Operation::PutRange if said("x-ms-write").eq_ignore_ascii_case("clear") => "ClearRange",
        Operation::PutRange => "PutRange",
        Operation::PutRangeFromUrl => "PutRangeFromURL",
        Operation::ListRanges => "ListFileRanges",
        Operation::CopyFile => "CopyFile",
        Operation::AbortCopy => "AbortCopyFile",
        Operation::CreateSymbolicLink => "CreateSymbolicLink",
        Operation::GetSymbolicLink => "GetSymbolicLink",
        Operation::CreateHardLink => "CreateHardLink",
        Operation::ListHandles => "ListHandles",
        Operation::CloseHandles => "CloseHandles",
    }
}
