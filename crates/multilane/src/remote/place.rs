//! Names of places on servers: `smb://[user@]host[:port]/share/path`, `\\host\share\path` and `//host/share/path`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use control::Error;

const PORT: u16 = 445;
const REMEDY: &str = r"use smb://HOST/SHARE/PATH or \\HOST\SHARE\PATH";

/// A place in a share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) user: Option<String>,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) share: String,
    /// With `/` between its parts and none around them; empty for the share's root.
    pub(crate) path: String,
    /// The name ends with a separator: it means a directory.
    pub(crate) is_directory: bool,
}

/// A server, or a place in one of its shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) user: Option<String>,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) share: Option<String>,
    /// As of a [`Place`].
    pub(crate) path: String,
    /// As of a [`Place`].
    pub(crate) is_directory: bool,
}

/// A place on a server or on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Either {
    Remote(Place),
    Local(PathBuf),
}

impl FromStr for Either {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match is_remote(text) {
            true => text.parse().map(Either::Remote),
            false => Ok(Either::Local(text.into())),
        }
    }
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        text.parse::<Server>()?.place().ok_or_else(|| wrong(text))
    }
}

impl FromStr for Server {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || wrong(text);
        let (rest, is_url) = match strip_scheme(text) {
            Some(rest) => (rest.to_owned(), true),
            None if is_remote(text) => (text[2..].replace('\\', "/"), false),
            None => return Err(wrong()),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((&rest, ""));
        let (user, server) = match authority.rsplit_once('@') {
            Some((user, server)) => (Some(decoded(user, is_url).ok_or_else(wrong)?), server),
            None => (None, authority),
        };
        if user.as_ref().is_some_and(|user| user.contains(':')) {
            return Err(Error::argument("a password in a name is seen by everybody", "set MULTILANE_PASSWORD instead"));
        }
        let (host, port) = host_and_port(server).ok_or_else(wrong)?;
        let path = decoded(path, is_url).ok_or_else(wrong)?;
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let share = parts.next().map(str::to_owned);
        let parts: Vec<&str> = parts.collect();
        if parts.iter().any(|part| matches!(*part, "." | "..") || part.contains('\\')) {
            return Err(wrong());
        }
        Ok(Server {
            user: user.filter(|user| !user.is_empty()),
            host,
            port,
            share,
            path: parts.join("/"),
            is_directory: path.ends_with('/') || parts.is_empty(),
        })
    }
}

impl Server {
    /// The place that is named, where a share is.
    pub(crate) fn place(self) -> Option<Place> {
        let Server { user, host, port, share, path, is_directory } = self;
        share.map(|share| Place { user, host, port, share, path, is_directory })
    }
}

fn wrong(text: &str) -> Error {
    Error::argument(format!("{text:?} is no place on a server"), REMEDY)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, r"\\{}\{}", self.host, self.share)?;
        if self.path.is_empty() { Ok(()) } else { write!(f, r"\{}", self.path.replace('/', r"\")) }
    }
}

impl Place {
    /// What has this path from here, with `/` between its parts; `None` where a part is no name.
    pub(crate) fn below(&self, path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        if parts.iter().any(|part| matches!(*part, "." | "..") || part.contains('\\')) {
            return None;
        }
        let is_directory = path.ends_with('/') || parts.is_empty();
        let path = match self.path.as_str() {
            "" => parts.join("/"),
            path => format!("{path}/{}", parts.join("/")),
        };
        Some(Place { path, is_directory, ..self.clone() })
    }

    /// The last part of the path, or the share's name.
    pub(crate) fn name(&self) -> &str {
        match self.path.rsplit('/').next() {
            Some(name) if !name.is_empty() => name,
            Some(_) | None => &self.share,
        }
    }
}

fn is_remote(text: &str) -> bool {
    strip_scheme(text).is_some() || text.starts_with(r"\\") || text.starts_with("//")
}

fn strip_scheme(text: &str) -> Option<&str> {
    let scheme = text.get(..6)?;
    scheme.eq_ignore_ascii_case("smb://").then(|| &text[6..])
}

fn host_and_port(server: &str) -> Option<(String, u16)> {
    let (host, port) = match server.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, rest.strip_prefix(':'))
        }
        None => match server.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') => (host, Some(port)),
            Some(_) => (server, None),
            None => (server, None),
        },
    };
    let port = port.map_or(Some(PORT), |port| port.parse().ok().filter(|port| *port > 0))?;
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

/// Undoes `%20` and the like in a URL; `None` where that is no text.
fn decoded(text: &str, is_url: bool) -> Option<String> {
    if !is_url {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
            bytes.push((digit()? * 16 + digit()?) as u8);
        } else {
            bytes.push(byte);
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.contains('\0')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Place {
        text.parse().unwrap()
    }

    #[test]
    fn the_three_forms_mean_the_same() {
        let url = place("smb://nas/media/a/b");
        assert_eq!(url, place(r"\\nas\media\a\b"));
        assert_eq!(url, place("//nas/media/a/b"));
        assert_eq!((url.host.as_str(), url.port, url.share.as_str(), url.path.as_str()), ("nas", 445, "media", "a/b"));
        assert_eq!(url.to_string(), r"\\nas\media\a\b");
    }

    #[test]
    fn urls_name_users_ports_and_escaped_characters() {
        let url = place("SMB://al%40ice@[fe80::1]:4450/my%20share/x%25/");
        assert_eq!((url.user.as_deref(), url.host.as_str(), url.port), (Some("al@ice"), "fe80::1", 4450));
        assert_eq!((url.share.as_str(), url.path.as_str(), url.is_directory), ("my share", "x%", true));
        assert_eq!(place("smb://nas:4450/s").port, 4450);
        assert_eq!(place(r"\\nas:4450\s").port, 4450);
    }

    #[test]
    fn the_share_names_its_root() {
        assert_eq!(place("smb://nas/media").name(), "media");
        assert_eq!(place("smb://nas/media/x/y").name(), "y");
    }

    #[test]
    fn what_names_no_share_is_refused() {
        for text in [
            "nas",
            "smb://nas",
            "smb://nas/",
            "smb:///s",
            "smb://nas:0/s",
            "smb://nas/s/../t",
            "smb://u:p@nas/s",
            "smb://nas/%zz",
            "smb://nas/%ff",
        ] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_server_may_go_without_a_share() {
        for text in ["smb://u@nas:4450", "smb://u@nas:4450/"] {
            let server: Server = text.parse().unwrap();
            assert_eq!((server.host.as_str(), server.port, server.share), ("nas", 4450, None));
            assert_eq!(server.user.as_deref(), Some("u"));
        }
        let server: Server = r"\\nas\media\x".parse().unwrap();
        assert_eq!((server.share.as_deref(), server.path.as_str()), (Some("media"), "x"));
        for text in ["nas", "smb://", "smb:///s", "smb://u:p@nas"] {
            assert!(text.parse::<Server>().is_err(), "{text}");
        }
    }

    #[test]
    fn other_names_are_of_this_machine() {
        for text in ["x", "./x", "/x/y", "C:x"] {
            assert_eq!(text.parse::<Either>().unwrap(), Either::Local(text.into()));
        }
    }
}
