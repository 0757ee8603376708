//! What service principals may do, by the names of Azure's built-in roles.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// A role of a service principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Sees and changes accounts, shares and features by the management interface, and reads accounts' keys.
    Contributor,
    /// Reads all files of all accounts, whatever their descriptors say.
    FileReader,
    /// Reads and changes all files of all accounts, whatever their descriptors say.
    FileContributor,
}

impl Role {
    /// All there are.
    pub const ALL: [Role; 3] = [Role::Contributor, Role::FileReader, Role::FileContributor];

    /// The role's name in the catalog and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Contributor => "contributor",
            Role::FileReader => "file-reader",
            Role::FileContributor => "file-contributor",
        }
    }

    /// The role's name, as Azure spells it.
    pub fn azure_name(self) -> &'static str {
        match self {
            Role::Contributor => "Contributor",
            Role::FileReader => "Storage File Data Privileged Reader",
            Role::FileContributor => "Storage File Data Privileged Contributor",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Role {
    type Err = Error;

    /// Reads either name, whatever its case.
    fn from_str(text: &str) -> Result<Self, Error> {
        let is_it = |role: &Role| [role.as_str(), role.azure_name()].iter().any(|name| name.eq_ignore_ascii_case(text));
        Role::ALL.into_iter().find(is_it).ok_or_else(|| {
            Error::argument(format!("{text:?} is no role"), format!("use {}", Role::ALL.map(Role::as_str).join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_by_either_name() {
        for role in Role::ALL {
            assert_eq!(role.as_str().parse(), Ok(role));
            assert_eq!(role.azure_name().to_uppercase().parse(), Ok(role));
        }
        assert!("owner".parse::<Role>().unwrap_err().remedy().contains("file-contributor"));
    }
}
