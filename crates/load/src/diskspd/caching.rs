//! `-S` and `-h`: what may be cached.

use super::refused::Refused;
use super::wrong;
use crate::engine::Failure;
use crate::profile::{Caching, SoftwareCache};

/// What has been said of caching so far. Each of the two may be said once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CachingSaid {
    software: Option<SoftwareCache>,
    write_through: Option<bool>,
}

impl CachingSaid {
    /// Takes the letters after `-S`; none means `u`.
    pub(super) fn take(&mut self, letters: &str) -> Result<(), Failure> {
        let letters = if letters.is_empty() { "u" } else { letters };
        letters.chars().try_for_each(|letter| match letter {
            'b' => self.software("-Sb", SoftwareCache::On),
            'r' => self.software("-Sr", SoftwareCache::LocalOff),
            'u' => self.software("-Su", SoftwareCache::Off),
            'w' => self.write_through("-Sw"),
            'h' => self.neither("-Sh"),
            'm' => Err(Refused::MemoryMapping.failure("-Sm")),
            _ => Err(wrong(format!("-S has no {letter:?}"), "use letters of b, h, r, u and w after -S")),
        })
    }

    /// Takes `-h` or `-Sh`: no software cache, and write-through.
    pub(super) fn neither(&mut self, option: &str) -> Result<(), Failure> {
        self.software(option, SoftwareCache::Off)?;
        self.write_through(option)
    }

    /// What it comes to.
    pub(super) fn caching(self) -> Caching {
        Caching { software: self.software.unwrap_or_default(), write_through: self.write_through.unwrap_or_default() }
    }

    fn software(&mut self, option: &str, cache: SoftwareCache) -> Result<(), Failure> {
        match self.software.replace(cache) {
            None => Ok(()),
            Some(_) => Err(wrong(
                format!("{option} contradicts what an earlier option says of the software cache"),
                "use one of -Sb, -Sr, -Su and -Sh",
            )),
        }
    }

    fn write_through(&mut self, option: &str) -> Result<(), Failure> {
        match self.write_through.replace(true) {
            None => Ok(()),
            Some(_) => {
                Err(wrong(format!("{option} asks for write-through a second time"), "use one of -Sw and -Sh, once"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(options: &[&str]) -> Result<Caching, Failure> {
        let mut said = CachingSaid::default();
        options.iter().try_for_each(|letters| said.take(letters)).map(|()| said.caching())
    }

    #[test]
    fn letters_combine_in_any_order() {
        let both = Caching { software: SoftwareCache::Off, write_through: true };
        for options in [&["h"][..], &["uw"], &["wu"], &["u", "w"], &["", "w"]] {
            assert_eq!(said(options), Ok(both), "{options:?}");
        }
        assert_eq!(said(&[]), Ok(Caching::default()));
        assert_eq!(said(&["b"]), Ok(Caching::default()));
        assert_eq!(said(&["rw"]), Ok(Caching { software: SoftwareCache::LocalOff, write_through: true }));
    }

    #[test]
    fn contradictions_are_refused() {
        for options in [&["bu"][..], &["hw"], &["hu"], &["h", "h"], &["ww"], &["", "r"], &["m"], &["um"], &["x"]] {
            assert!(said(options).is_err(), "{options:?}");
        }
    }
}
