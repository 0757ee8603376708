//! Names of Azure's regions.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// The most letters and digits of a region's name.
const REGION_MAX: usize = 64;

/// A region's name as Azure writes it for programs: lower-case letters and digits, such as `westeurope`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region(String);

impl Region {
    /// The name's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for Region {
    type Err = Error;

    /// Reads `westeurope` and what people write for it, such as `West Europe`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let name: String = text.chars().filter(|c| *c != ' ').map(|c| c.to_ascii_lowercase()).collect();
        if (1..=REGION_MAX).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Ok(Region(name));
        }
        Err(Error::argument(
            format!("{text:?} cannot be the name of a region"),
            "use 1 to 64 letters and digits, such as westeurope or \"West Europe\"",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_one_however_people_write_them() {
        for text in ["westeurope", "West Europe", "WESTEUROPE", " west  europe "] {
            assert_eq!(text.parse::<Region>().unwrap().as_str(), "westeurope");
        }
        let longest = "x".repeat(64);
        assert_eq!(longest.parse::<Region>().unwrap().as_str(), longest);
        for bad in ["", " ", "west-europe", "west\teurope", "küste", "x".repeat(65).as_str(), "a,b"] {
            assert!(bad.parse::<Region>().is_err(), "{bad:?}");
        }
    }
}
