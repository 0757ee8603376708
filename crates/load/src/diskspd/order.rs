//! `-r`, `-rs` and `-s`: in which order blocks are asked for.

use super::size::{number, size};
use super::wrong;
use crate::engine::Failure;
use crate::profile::Pattern;

const EITHER: &str = "use -r for random or -s for sequential offsets, once; -rs<percent> mixes both";

/// What has been said of the order so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OrderSaid {
    /// Bytes after `-r` or `-s`, or a block.
    align_bytes: Option<u64>,
    random_percent: Option<u8>,
    is_mixed: bool,
    is_interlocked: bool,
}

impl OrderSaid {
    /// Takes what follows `-r`.
    pub(super) fn random(&mut self, value: &str, block_bytes: u32) -> Result<(), Failure> {
        let align_bytes = match value {
            "" => u64::from(block_bytes),
            _ => match size(value, block_bytes) {
                Ok(0) => return Err(wrong(format!("-r{value}: nothing is aligned to 0 bytes"), "use -r[size]")),
                Ok(bytes) => bytes,
                Err(why) => return Err(wrong(format!("-r{value}: {why}"), "use -r[size], such as -r or -r8K")),
            },
        };
        match (self.align_bytes, self.random_percent) {
            (Some(_), None) => return Err(wrong("-r contradicts -s", EITHER)),
            (Some(_), Some(_)) => return Err(wrong("-r is given twice", EITHER)),
            (None, _) => {}
        }
        self.align_bytes = Some(align_bytes);
        self.random_percent.get_or_insert(100);
        Ok(())
    }

    /// Takes what follows `-rs`: the percentage of random offsets.
    pub(super) fn mixed(&mut self, value: &str) -> Result<(), Failure> {
        let percent = match number(value) {
            Ok(percent @ 1..=100) => percent as u8,
            Ok(_) | Err(_) => {
                return Err(wrong(
                    format!("-rs{value} is no percentage from 1 to 100"),
                    "use -rs<percent>, such as -rs80",
                ));
            }
        };
        if self.align_bytes.is_some() && self.random_percent.is_none() {
            return Err(wrong("-rs contradicts -s", "use -r[size] to align a mix of random and sequential offsets"));
        }
        if self.is_mixed {
            return Err(wrong("-rs is given twice", EITHER));
        }
        self.is_mixed = true;
        self.random_percent = Some(percent);
        Ok(())
    }

    /// Takes what follows `-s`.
    pub(super) fn sequential(&mut self, value: &str, block_bytes: u32) -> Result<(), Failure> {
        let stride = value.strip_prefix('i');
        self.is_interlocked |= stride.is_some();
        if self.random_percent.is_some() {
            return Err(wrong("-s contradicts -r", EITHER));
        }
        if self.align_bytes.is_some() {
            return Err(wrong("-s is given twice", EITHER));
        }
        let bytes = match stride.unwrap_or(value) {
            "" => u64::from(block_bytes),
            text => size(text, block_bytes)
                .map_err(|why| wrong(format!("-s{value}: {why}"), "use -s[i][size], such as -s, -si or -s64K"))?,
        };
        self.align_bytes = Some(bytes);
        Ok(())
    }

    /// What it comes to. An alignment of 0 bytes is a block, as is none.
    pub(super) fn pattern(self, block_bytes: u32) -> Pattern {
        let bytes = self.align_bytes.filter(|bytes| *bytes > 0).unwrap_or(u64::from(block_bytes));
        match self.random_percent {
            Some(random_percent) => Pattern::Random { align_bytes: bytes, random_percent },
            None if self.is_interlocked => Pattern::Interlocked { stride_bytes: bytes },
            None => Pattern::Sequential { stride_bytes: bytes },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK_BYTES: u32 = 4096;

    fn said(options: &[&str]) -> Result<Pattern, Failure> {
        let mut said = OrderSaid::default();
        for option in options {
            match option.strip_prefix("rs") {
                Some(percent) => said.mixed(percent)?,
                None if option.starts_with('r') => said.random(&option[1..], BLOCK_BYTES)?,
                None => said.sequential(&option[1..], BLOCK_BYTES)?,
            }
        }
        Ok(said.pattern(BLOCK_BYTES))
    }

    #[test]
    fn a_block_is_the_alignment_where_none_is_given() {
        assert_eq!(said(&[]), Ok(Pattern::Sequential { stride_bytes: 4096 }));
        assert_eq!(said(&["s"]), Ok(Pattern::Sequential { stride_bytes: 4096 }));
        assert_eq!(said(&["s0"]), Ok(Pattern::Sequential { stride_bytes: 4096 }));
        assert_eq!(said(&["si"]), Ok(Pattern::Interlocked { stride_bytes: 4096 }));
        assert_eq!(said(&["r"]), Ok(Pattern::Random { align_bytes: 4096, random_percent: 100 }));
        assert_eq!(said(&["rs30"]), Ok(Pattern::Random { align_bytes: 4096, random_percent: 30 }));
    }

    #[test]
    fn alignments_are_sizes() {
        assert_eq!(said(&["s2b"]), Ok(Pattern::Sequential { stride_bytes: 8192 }));
        assert_eq!(said(&["si1M"]), Ok(Pattern::Interlocked { stride_bytes: 1 << 20 }));
        for options in [&["r512", "rs30"][..], &["rs30", "r512"]] {
            assert_eq!(said(options), Ok(Pattern::Random { align_bytes: 512, random_percent: 30 }), "{options:?}");
        }
        assert_eq!(said(&["rs100", "r512"]), Ok(Pattern::Random { align_bytes: 512, random_percent: 100 }));
    }

    #[test]
    fn contradictions_are_refused() {
        for options in [
            &["r", "s"][..],
            &["s", "r"],
            &["s", "rs50"],
            &["rs50", "s"],
            &["r", "r"],
            &["s", "s"],
            &["si", "s"],
            &["rs50", "rs60"],
            &["rs100", "rs60"],
            &["rs50", "r", "r"],
            &["r0"],
            &["rx"],
            &["sx"],
            &["six"],
            &["rs"],
            &["rs0"],
            &["rs101"],
            &["rs5x"],
        ] {
            assert!(said(options).is_err(), "{options:?}");
        }
    }
}
