//! What a request names: an account, and perhaps a share of it, and a path there.

use hyper::header::HeaderMap;

use crate::failure::{Code, Failure};
use crate::head::is_true;
use crate::query::decoded;

/// Characters that no name of a file may have: those of Windows, of which `:` would lead to a stream.
const FORBIDDEN: &[char] = &['"', '\\', '/', ':', '|', '<', '>', '*', '?'];
/// UTF-16 units of a name, and of a whole path.
const NAME_MAX: usize = 255;
const PATH_MAX: usize = 2048;
/// Directories above each other.
const DEPTH_MAX: usize = 250;

/// What a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The account, without a `-secondary`.
    pub(crate) account: String,
    /// The share, if one is named.
    pub(crate) share: Option<String>,
    /// The names from the share's root on; none for the root.
    pub(crate) names: Vec<String>,
    /// Whether the host's name tells the account, and not the path.
    account_in_host: bool,
}

/// What becomes of dots at the end of names. Programs of Windows leave them out, and so does the service where nobody asks to keep them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dots {
    LeftOut,
    Kept,
}

impl Dots {
    /// What a request says of those of its own path.
    pub(crate) fn of_target(headers: &HeaderMap) -> Self {
        Self::asked(headers, "x-ms-allow-trailing-dot")
    }

    /// What it says of those of its source's.
    pub(crate) fn of_source(headers: &HeaderMap) -> Self {
        Self::asked(headers, "x-ms-source-allow-trailing-dot")
    }

    fn asked(headers: &HeaderMap, name: &str) -> Self {
        if is_true(headers, name) { Dots::Kept } else { Dots::LeftOut }
    }

    fn of_name(self, name: &str) -> &str {
        let without = name.trim_end_matches('.');
        // One of nothing else keeps them, and is refused.
        if self == Dots::Kept || without.is_empty() { name } else { without }
    }
}

impl Target {
    /// Reads the path of a URL as it was sent, and the host: `account.file.anything` names the account, whether or not there is one, and otherwise the path's
    /// first name does.
    pub(crate) fn parse(host: &str, path: &str, dots: Dots) -> Result<Self, Failure> {
        let mut names = path.split('/').filter(|name| !name.is_empty());
        let of_host = account_of(host);
        let account = match of_host {
            Some(account) => account.to_owned(),
            None => decoded(names.next().unwrap_or_default())?,
        };
        let share = names.next().map(decoded).transpose()?;
        // A `%2F` is a separator as well: some clients encode whole paths.
        let rest = names.map(decoded).collect::<Result<Vec<_>, _>>()?.join("/");
        let sent = rest.split('/').filter(|name| !name.is_empty());
        let names: Vec<String> = sent.map(|name| dots.of_name(name).to_owned()).collect();
        let units = |text: &str| text.encode_utf16().count();
        let whole = names.iter().map(|name| units(name) + 1).sum::<usize>();
        if names.len() > DEPTH_MAX || whole > PATH_MAX || !names.iter().all(|name| is_name(name)) {
            return Err(Failure::new(Code::InvalidResourceName, "The specified resource name is invalid."));
        }
        let account = without_secondary(&account).to_owned();
        Ok(Target { account, share, names, account_in_host: of_host.is_some() })
    }

    /// The account, where the path's first name tells it.
    pub(crate) fn account_of_path(&self) -> Option<&str> {
        (!self.account_in_host).then_some(&*self.account)
    }

    /// The address of the account's service as the client named it, without a `/` at its end.
    pub(crate) fn endpoint(&self, scheme: &str, host: &str) -> String {
        match self.account_in_host {
            true => format!("{scheme}://{host}"),
            false => format!("{scheme}://{host}/{}", self.account),
        }
    }

    /// Whether it is the same file or directory, however it was named.
    pub(crate) fn is_place_of(&self, other: &Target) -> bool {
        (&self.account, &self.share, &self.names) == (&other.account, &other.share, &other.names)
    }

    /// The path as SMB has it.
    pub(crate) fn path(&self) -> String {
        self.names.join("\\")
    }
}

/// The account that a host's name begins with, as in `account.file.core.windows.net`.
pub(crate) fn account_of(host: &str) -> Option<&str> {
    let (account, rest) = host.split_once('.')?;
    rest.starts_with("file.").then_some(without_secondary(account))
}

/// An account as it is called, where it is named for reading what it has elsewhere.
pub(crate) fn without_secondary(account: &str) -> &str {
    account.strip_suffix("-secondary").unwrap_or(account)
}

/// True for what Windows takes for a file's name.
fn is_name(name: &str) -> bool {
    let is_allowed = |character: char| !FORBIDDEN.contains(&character) && !character.is_control();
    !name.trim_end_matches('.').is_empty() && name.encode_utf16().count() <= NAME_MAX && name.chars().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(host: &str, path: &str) -> Result<Target, Code> {
        Target::parse(host, path, Dots::LeftOut).map_err(|failure| failure.code)
    }

    fn target(account: &str, share: Option<&str>, names: &[&str]) -> Target {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Target { account: account.into(), share: share.map(Into::into), names, account_in_host: false }
    }

    #[test]
    fn the_account_is_in_the_path_or_in_the_hosts_name() {
        assert_eq!(parsed("127.0.0.1:10004", "/work/docs/a/b%20c"), Ok(target("work", Some("docs"), &["a", "b c"])));
        assert_eq!(parsed("h", "/work/docs/a%2Fb"), Ok(target("work", Some("docs"), &["a", "b"])));
        assert_eq!(parsed("localhost", "/work/"), Ok(target("work", None, &[])));
        let by_host = Target { account_in_host: true, ..target("work", Some("docs"), &["work"]) };
        assert_eq!(parsed("work.file.core.localhost:1", "/docs/work"), Ok(by_host));
        let of_nobody = Target { account_in_host: true, ..target("nobody", Some("work"), &["docs"]) };
        assert_eq!(parsed("nobody.file.core.localhost", "/work/docs"), Ok(of_nobody));
        let second = Target { account_in_host: true, ..target("work", Some("docs"), &[]) };
        assert_eq!(parsed("work-secondary.file.core.localhost", "/docs"), Ok(second));
        assert_eq!(parsed("nas.example", "/work/docs"), Ok(target("work", Some("docs"), &[])));
        assert_eq!(parsed("h", "/work-secondary/docs"), Ok(target("work", Some("docs"), &[])));
    }

    #[test]
    fn the_endpoint_is_what_the_client_named() {
        let endpoint = |host: &str, path: &str| parsed(host, path).unwrap().endpoint("https", host);
        assert_eq!(endpoint("h:1", "/work/workshop"), "https://h:1/work");
        assert_eq!(endpoint("work.file.core.localhost:1", "/workshop"), "https://work.file.core.localhost:1");
    }

    #[test]
    fn a_path_leads_nowhere_else() {
        for path in [
            "..",
            "a/../b",
            "%2e%2e",
            "a%2f..%2fb",
            "a%5c..",
            "file:stream",
            "a%3Astream",
            ".",
            "...",
            "a/...",
            "nul%00",
            "a*",
            "%C2%85",
        ] {
            assert_eq!(parsed("h", &format!("/work/docs/{path}")), Err(Code::InvalidResourceName), "{path}");
        }
        assert_eq!(parsed("h", "/work/docs/%ff"), Err(Code::InvalidUri));
        assert_eq!(parsed("h", &format!("/work/docs/{}", "n".repeat(256))), Err(Code::InvalidResourceName));
        assert_eq!(parsed("h", &format!("/work/docs/{}", "d/".repeat(251))), Err(Code::InvalidResourceName));
    }

    #[test]
    fn names_that_windows_keeps_for_devices_are_names_here() {
        for name in ["con", "NUL", "aux", "COM1", "lpt1.txt", "CLOCK$", "a "] {
            let path = format!("/work/docs/{}", name.replace(' ', "%20"));
            assert_eq!(parsed("h", &path).unwrap().path(), name);
        }
    }

    #[test]
    fn dots_at_the_end_of_a_name_are_left_out() {
        assert_eq!(parsed("h", "/work/docs/a./b..%2Fc").unwrap().path(), "a\\b\\c");
    }

    #[test]
    fn dots_at_the_end_of_a_name_are_kept_where_that_is_asked_for() {
        let kept = |path: &str| Target::parse("h", path, Dots::Kept).map(|target| target.path());
        assert_eq!(kept("/work/docs/a./b..%2Fc"), Ok("a.\\b..\\c".to_owned()));
        for path in [".", "..", "...", "a./..", "a/%2e%2e"] {
            assert!(kept(&format!("/work/docs/{path}")).is_err(), "{path}");
        }
        let asked = |value: &str| {
            let headers = [("x-ms-allow-trailing-dot".parse().unwrap(), value.parse().unwrap())].into_iter().collect();
            (Dots::of_target(&headers), Dots::of_source(&headers))
        };
        assert_eq!(asked("True"), (Dots::Kept, Dots::LeftOut));
        assert_eq!(asked("false"), (Dots::LeftOut, Dots::LeftOut));
    }

    #[test]
    fn paths_are_smbs() {
        assert_eq!(parsed("h", "/work/docs/a/b/c").unwrap().path(), "a\\b\\c");
        assert_eq!(parsed("h", "/work/docs").unwrap().path(), "");
    }
}
