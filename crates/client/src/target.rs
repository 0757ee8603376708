//! The server, and who signs in.

use secure::ntlm::{Credentials, NtHash};

/// The server, and who signs in.
#[derive(Clone)]
pub struct Target {
    /// The server's name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The user, perhaps as `DOMAIN\user`.
    pub user: String,
    /// The password.
    pub password: String,
}

impl Target {
    /// `DOMAIN\user` names a domain; a name without one is the server's.
    pub(crate) fn credentials(&self) -> Credentials {
        let (domain, user) = self.user.split_once('\\').unwrap_or(("", &self.user));
        Credentials {
            domain: domain.to_owned(),
            user: user.to_owned(),
            workstation: String::new(),
            nt_hash: NtHash::from_password(&self.password),
        }
    }
}
