//! Which operation of the service ("File service REST API") a request asks for. What is asked here has its rights and its deed; nothing else is done.

use hyper::Method;
use hyper::header::HeaderMap;

use crate::failure::{Code, Failure};
use crate::operations::PUT_MAX;
use crate::query::Query;
use crate::target::Target;

/// An operation, by the service's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    ListShares,
    GetServiceProperties,
    SetServiceProperties,
    GetUserDelegationKey,

    CreateShare,
    GetShareProperties,
    SetShareProperties,
    SetShareMetadata,
    DeleteShare,
    UndeleteShare,
    SnapshotShare,
    LeaseShare,
    GetShareAcl,
    SetShareAcl,
    GetShareStats,
    CreatePermission,
    GetPermission,

    CreateDirectory,
    GetDirectoryProperties,
    SetDirectoryProperties,
    SetDirectoryMetadata,
    DeleteDirectory,
    RenameDirectory,
    ListDirectory,

    CreateFile,
    GetFile,
    GetFileProperties,
    SetFileProperties,
    SetFileMetadata,
    DeleteFile,
    RenameFile,
    LeaseFile,
    PutRange,
    PutRangeFromUrl,
    ListRanges,
    CopyFile,
    AbortCopy,
    CreateSymbolicLink,
    GetSymbolicLink,
    CreateHardLink,

    /// Of a file, or of a directory.
    ListHandles,
    /// Of a file, or of a directory.
    CloseHandles,
}

/// Bytes of a body that is no file's: five rules, five policies or a descriptor are far below that.
const DOCUMENT_MAX: u64 = 256 << 10;

impl Operation {
    /// How long its body may be.
    pub(crate) fn body_max(self) -> u64 {
        if matches!(self, Operation::CreateFile | Operation::PutRange) { PUT_MAX } else { DOCUMENT_MAX }
    }

    /// The operation that is asked for.
    pub(crate) fn of(method: &Method, target: &Target, query: &Query, headers: &HeaderMap) -> Result<Self, Failure> {
        let [restype, comp] = ["restype", "comp"].map(|name| query.get(name).unwrap_or_default());
        let found = match (&target.share, target.names.is_empty()) {
            (None, _) => of_service(method.as_str(), restype, comp),
            (Some(_), true) => {
                of_share(method.as_str(), restype, comp).or_else(|| of_path(method.as_str(), restype, comp, headers))
            }
            (Some(_), false) => of_path(method.as_str(), restype, comp, headers),
        };
        found.ok_or_else(|| {
            Failure::new(
                Code::UnsupportedQueryParameter,
                format!("{method} with restype={restype:?} and comp={comp:?} is not served here."),
            )
        })
    }
}

fn of_service(method: &str, restype: &str, comp: &str) -> Option<Operation> {
    Some(match (method, restype, comp) {
        ("GET", _, "list") => Operation::ListShares,
        ("GET", "service", "properties") => Operation::GetServiceProperties,
        ("PUT", "service", "properties") => Operation::SetServiceProperties,
        ("POST", "service", "userdelegationkey") => Operation::GetUserDelegationKey,
        _ => return None,
    })
}

fn of_share(method: &str, restype: &str, comp: &str) -> Option<Operation> {
    if restype != "share" {
        return None;
    }
    Some(match (method, comp) {
        ("PUT", "") => Operation::CreateShare,
        ("GET" | "HEAD", "") => Operation::GetShareProperties,
        ("DELETE", "") => Operation::DeleteShare,
        ("PUT", "properties") => Operation::SetShareProperties,
        ("PUT", "metadata") => Operation::SetShareMetadata,
        ("PUT", "undelete") => Operation::UndeleteShare,
        ("PUT", "snapshot") => Operation::SnapshotShare,
        ("PUT", "lease") => Operation::LeaseShare,
        ("GET" | "HEAD", "acl") => Operation::GetShareAcl,
        ("PUT", "acl") => Operation::SetShareAcl,
        ("GET", "stats") => Operation::GetShareStats,
        ("PUT", "filepermission") => Operation::CreatePermission,
        ("GET", "filepermission") => Operation::GetPermission,
        _ => return None,
    })
}

fn of_path(method: &str, restype: &str, comp: &str, headers: &HeaderMap) -> Option<Operation> {
    let has_source = headers.contains_key("x-ms-copy-source");
    Some(match (method, restype, comp) {
        ("GET", _, "listhandles") => Operation::ListHandles,
        ("PUT", _, "forceclosehandles") => Operation::CloseHandles,
        ("PUT", "directory", "") => Operation::CreateDirectory,
        ("GET" | "HEAD", "directory", "") => Operation::GetDirectoryProperties,
        ("PUT", "directory", "properties") => Operation::SetDirectoryProperties,
        ("PUT", "directory", "metadata") => Operation::SetDirectoryMetadata,
        ("DELETE", "directory", "") => Operation::DeleteDirectory,
        ("PUT", "directory", "rename") => Operation::RenameDirectory,
        ("GET", "directory", "list") => Operation::ListDirectory,
        ("PUT", "", "") if has_source => Operation::CopyFile,
        ("PUT", "", "") => Operation::CreateFile,
        ("GET", "", "") => Operation::GetFile,
        ("HEAD", "", "") => Operation::GetFileProperties,
        ("PUT", "", "properties") => Operation::SetFileProperties,
        ("PUT", "", "metadata") => Operation::SetFileMetadata,
        ("DELETE", "", "") => Operation::DeleteFile,
        ("PUT", "", "rename") => Operation::RenameFile,
        ("PUT", "", "lease") => Operation::LeaseFile,
        ("PUT", "", "range") if has_source => Operation::PutRangeFromUrl,
        ("PUT", "", "range") => Operation::PutRange,
        ("GET", "", "rangelist") => Operation::ListRanges,
        ("PUT", "", "copy") => Operation::AbortCopy,
        ("PUT", "symboliclink", "") => Operation::CreateSymbolicLink,
        ("GET", "symboliclink", "") => Operation::GetSymbolicLink,
        ("PUT", "hardlink", "") => Operation::CreateHardLink,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, path: &str, query: &str, headers: &[(&'static str, &str)]) -> Option<Operation> {
        let target = Target::parse("h", path, |_| true).unwrap();
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        Operation::of(&method.parse().unwrap(), &target, &Query::parse(query).unwrap(), &headers).ok()
    }

    #[test]
    fn what_is_asked_for_is_told_by_method_place_and_query() {
        assert_eq!(asked("GET", "/a", "comp=list", &[]), Some(Operation::ListShares));
        assert_eq!(asked("PUT", "/a/s", "restype=share", &[]), Some(Operation::CreateShare));
        assert_eq!(asked("GET", "/a/s", "restype=directory&comp=list", &[]), Some(Operation::ListDirectory));
        assert_eq!(asked("GET", "/a/s", "comp=listhandles", &[]), Some(Operation::ListHandles));
        assert_eq!(asked("PUT", "/a/s/d", "restype=directory", &[]), Some(Operation::CreateDirectory));
        assert_eq!(asked("PUT", "/a/s/f", "comp=range", &[]), Some(Operation::PutRange));
        let source = [("x-ms-copy-source", "http://h/a/s/g")];
        assert_eq!(asked("PUT", "/a/s/f", "comp=range", &source), Some(Operation::PutRangeFromUrl));
        assert_eq!(asked("PUT", "/a/s/f", "", &source), Some(Operation::CopyFile));
    }

    #[test]
    fn what_there_is_not_is_told_so() {
        for (method, path, query) in [
            ("GET", "/a", ""),
            ("GET", "/a", "restype=service&comp=stats"),
            ("PUT", "/a/s", "restype=share&comp=unknown"),
            ("DELETE", "/a/s/f", "comp=lease"),
            ("PATCH", "/a/s/f", ""),
            ("PUT", "/a/s/f", "restype=share"),
        ] {
            assert_eq!(asked(method, path, query, &[]), None, "{method} {path} {query}");
        }
    }
}
