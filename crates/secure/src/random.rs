//! The operating system's randomness, for challenges, salts and identifiers.

use aws_lc_rs::rand::{SecureRandom, SystemRandom};

/// The operating system gave no randomness. Nothing that needs a key or a challenge can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gave no randomness")]
pub struct RandomFault;

/// Fills `out` with bytes that nobody can predict.
pub fn random(out: &mut [u8]) -> Result<(), RandomFault> {
    SystemRandom::new().fill(out).map_err(|_| RandomFault)
}
