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

    /// It tells what is in files, and may be done once more.
    pub(super) fn changes_nothing(self) -> bool {
        matches!(
            self,
            Operation::GetFile
                | Operation::GetFileProperties
                | Operation::GetDirectoryProperties
                | Operation::ListDirectory
                | Operation::ListRanges
                | Operation::ListHandles
                | Operation::AbortCopy
        )
    }

    /// It is of no use where nobody takes its answer, and can end anywhere.
    pub(crate) fn only_reads(self) -> bool {
        let of_catalog = matches!(
            self,
            Operation::ListShares
                | Operation::GetServiceProperties
                | Operation::GetShareProperties
                | Operation::GetShareAcl
                | Operation::GetShareStats
                | Operation::GetPermission
        );
        of_catalog || self.changes_nothing()
    }

    /// It can be asked of a snapshot of a share: it reads, or is about the snapshot itself.
    pub(super) fn is_of_snapshots(self) -> bool {
        matches!(
            self,
            Operation::GetShareProperties
                | Operation::DeleteShare
                | Operation::LeaseShare
                | Operation::GetFile
                | Operation::GetFileProperties
                | Operation::GetDirectoryProperties
                | Operation::ListDirectory
                | Operation::ListRanges
                | Operation::GetSymbolicLink
                | Operation::ListHandles
                | Operation::CloseHandles
        )
    }

    /// The operation that is asked for.
    pub(crate) fn of(method: &Method, target: &Target, query: &Query, headers: &HeaderMap) -> Result<Self, Failure> {
        let [restype, comp] = ["restype", "comp"].map(|name| query.get(name).unwrap_or_default());
        let places: &[Place] = match (&target.share, target.names.is_empty()) {
            (None, _) => &[Place::Service],
            // A share is its root directory, too.
            (Some(_), true) => &[Place::Share, Place::Path],
            (Some(_), false) => &[Place::Path],
        };
        let is_asked = |route: &&Route| {
            places.contains(&route.place)
                && route.methods.contains(&method.as_str())
                && (route.restype == ANY || route.restype == restype)
                && route.comp == comp
                && route.header.is_none_or(|header| headers.contains_key(header))
        };
        let route = ROUTES.iter().find(is_asked).ok_or_else(|| {
            Failure::new(
                Code::UnsupportedQueryParameter,
                format!("{method} with restype={restype:?} and comp={comp:?} is not served here."),
            )
        })?;
        Ok(route.operation)
    }
}

/// What an operation is asked of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Service,
    Share,
    /// A file or directory; a share's root is one.
    Path,
}

/// How an operation is asked for.
#[derive(Clone, Copy, Debug)]
struct Route {
    place: Place,
    methods: &'static [&'static str],
    /// The parameters of the query that tell operations apart; empty where they are left out.
    restype: &'static str,
    comp: &'static str,
    /// It is asked for where this header is sent.
    header: Option<&'static str>,
    operation: Operation,
}

/// A `restype` that is not looked at.
const ANY: &str = "*";
const GET: &[&str] = &["GET"];
const GET_OR_HEAD: &[&str] = &["GET", "HEAD"];
const HEAD: &[&str] = &["HEAD"];
const PUT: &[&str] = &["PUT"];
const POST: &[&str] = &["POST"];
const DELETE: &[&str] = &["DELETE"];
const COPY_SOURCE: &str = "x-ms-copy-source";

/// All operations; the first that fits is asked for. docs/rest.openapi.json describes the same ones.
const ROUTES: &[Route] = &[
    service(GET, ANY, "list", Operation::ListShares),
    service(GET, "service", "properties", Operation::GetServiceProperties),
    service(PUT, "service", "properties", Operation::SetServiceProperties),
    service(POST, "service", "userdelegationkey", Operation::GetUserDelegationKey),
    share(PUT, "", Operation::CreateShare),
    share(GET_OR_HEAD, "", Operation::GetShareProperties),
    share(DELETE, "", Operation::DeleteShare),
    share(PUT, "properties", Operation::SetShareProperties),
    share(PUT, "metadata", Operation::SetShareMetadata),
    share(PUT, "undelete", Operation::UndeleteShare),
    share(PUT, "snapshot", Operation::SnapshotShare),
    share(PUT, "lease", Operation::LeaseShare),
    share(GET_OR_HEAD, "acl", Operation::GetShareAcl),
    share(PUT, "acl", Operation::SetShareAcl),
    share(GET, "stats", Operation::GetShareStats),
    share(PUT, "filepermission", Operation::CreatePermission),
    share(GET, "filepermission", Operation::GetPermission),
    path(GET, ANY, "listhandles", Operation::ListHandles),
    path(PUT, ANY, "forceclosehandles", Operation::CloseHandles),
    path(PUT, "directory", "", Operation::CreateDirectory),
    path(GET_OR_HEAD, "directory", "", Operation::GetDirectoryProperties),
    path(PUT, "directory", "properties", Operation::SetDirectoryProperties),
    path(PUT, "directory", "metadata", Operation::SetDirectoryMetadata),
    path(DELETE, "directory", "", Operation::DeleteDirectory),
    path(PUT, "directory", "rename", Operation::RenameDirectory),
    path(GET, "directory", "list", Operation::ListDirectory),
    path(PUT, "", "", Operation::CopyFile).with(COPY_SOURCE),
    path(PUT, "", "", Operation::CreateFile),
    path(GET, "", "", Operation::GetFile),
    path(HEAD, "", "", Operation::GetFileProperties),
    path(PUT, "", "properties", Operation::SetFileProperties),
    path(PUT, "", "metadata", Operation::SetFileMetadata),
    path(DELETE, "", "", Operation::DeleteFile),
    path(PUT, "", "rename", Operation::RenameFile),
    path(PUT, "", "lease", Operation::LeaseFile),
    path(PUT, "", "range", Operation::PutRangeFromUrl).with(COPY_SOURCE),
    path(PUT, "", "range", Operation::PutRange),
    path(GET, "", "rangelist", Operation::ListRanges),
    path(PUT, "", "copy", Operation::AbortCopy),
    path(PUT, "symboliclink", "", Operation::CreateSymbolicLink),
    path(GET, "symboliclink", "", Operation::GetSymbolicLink),
    path(PUT, "hardlink", "", Operation::CreateHardLink),
];

const fn service(
    methods: &'static [&'static str],
    restype: &'static str,
    comp: &'static str,
    operation: Operation,
) -> Route {
    Route { place: Place::Service, methods, restype, comp, header: None, operation }
}

const fn share(methods: &'static [&'static str], comp: &'static str, operation: Operation) -> Route {
    Route { place: Place::Share, methods, restype: "share", comp, header: None, operation }
}

const fn path(
    methods: &'static [&'static str],
    restype: &'static str,
    comp: &'static str,
    operation: Operation,
) -> Route {
    Route { place: Place::Path, methods, restype, comp, header: None, operation }
}

impl Route {
    const fn with(self, header: &'static str) -> Self {
        Route { header: Some(header), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Dots;

    fn asked(method: &str, path: &str, query: &str, headers: &[(&'static str, &str)]) -> Option<Operation> {
        let target = Target::parse("h", path, Dots::LeftOut).unwrap();
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

    /// An operation as docs/rest.openapi.json describes it, in the form of a route.
    fn described(path: &str, method: &str, operation: &serde_json::Value, document: &serde_json::Value) -> String {
        let (place, name) = path.split_once('#').unwrap();
        let place = match place {
            "/{account}" => Place::Service,
            "/{account}/{share}" => Place::Share,
            "/{account}/{share}/{path}" => Place::Path,
            other => panic!("{other} is no place"),
        };
        let parameters = operation["parameters"].as_array().unwrap().iter();
        let parameters: Vec<_> = parameters
            .map(|one| match one["$ref"].as_str() {
                Some(link) => document.pointer(link.trim_start_matches('#')).unwrap(),
                None => one,
            })
            .collect();
        let fixed = |name: &str| {
            let known = parameters.iter().find(|one| one["in"] == "query" && one["name"] == name);
            known.map_or("", |one| one["schema"]["enum"][0].as_str().unwrap())
        };
        let has_source = parameters.iter().any(|one| one["name"] == COPY_SOURCE && one["required"] == true);
        let method = method.to_uppercase();
        format!("{method} {place:?} {:?} {:?} source={has_source} {name}", fixed("restype"), fixed("comp"))
    }

    #[test]
    fn the_description_has_the_operations_there_are() {
        let document: serde_json::Value =
            serde_json::from_str(include_str!("../../../../docs/rest.openapi.json")).unwrap();
        let mut told = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap().iter().filter(|(key, _)| *key != "parameters") {
                told.push(described(path, method, operation, &document));
            }
        }
        let mut served = Vec::new();
        for Route { place, methods, restype, comp, header, operation } in ROUTES {
            let restype = if *restype == ANY { "" } else { restype };
            for method in *methods {
                let has_source = header.is_some();
                served.push(format!("{method} {place:?} {restype:?} {comp:?} source={has_source} {operation:?}"));
            }
        }
        told.sort_unstable();
        served.sort_unstable();
        assert_eq!(told, served);
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

    #[test]
    fn of_snapshots_nothing_is_asked_that_changes_files() {
        let changing =
            ROUTES.iter().filter(|route| route.methods.iter().any(|method| !matches!(*method, "GET" | "HEAD")));
        let asked: Vec<Operation> =
            changing.map(|route| route.operation).filter(|operation| operation.is_of_snapshots()).collect();
        // These are about the snapshot itself, and about who has it open.
        assert_eq!(asked, [Operation::DeleteShare, Operation::LeaseShare, Operation::CloseHandles]);
    }
}
