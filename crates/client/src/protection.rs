//! What signing and sealing cost on this machine.

use std::fmt;
use std::hint::black_box;
use std::time::{Duration, Instant};

use secure::Role;
use secure::seal::{Cipher, NonceRange, NonceSpace, Sealer, TRANSFORM_HEADER_LENGTH};
use secure::sign::{SigningAlgorithm, SigningKey};
use wire::ids::SessionId;

/// Bytes of the messages that are measured: those of large reads and writes.
const MESSAGE_BYTES: usize = 1 << 20;
/// Every byte of keys that are of no session: what is protected with them is thrown away.
const KEY_BYTE: u8 = 7;

/// One way to protect messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// A signature in each.
    Signing(SigningAlgorithm),
    /// Encryption of each.
    Sealing(Cipher),
}

impl Protection {
    /// Those that this client offers to servers, in the order of its liking.
    pub const ALL: [Protection; 6] = [
        Protection::Signing(SigningAlgorithm::AesGmac),
        Protection::Signing(SigningAlgorithm::AesCmac),
        Protection::Sealing(Cipher::Aes128Gcm),
        Protection::Sealing(Cipher::Aes256Gcm),
        Protection::Sealing(Cipher::Aes128Ccm),
        Protection::Sealing(Cipher::Aes256Ccm),
    ];

    /// Bytes per second that one core protects, in messages of 1 MiB. Works for about so long, on the thread that calls it.
    pub fn measure(self, duration: Duration) -> f64 {
        match self {
            Protection::Signing(algorithm) => {
                let key = SigningKey::new(algorithm, [KEY_BYTE; 16]);
                let mut message = vec![1; MESSAGE_BYTES];
                rate(duration, || key.sign(black_box(&mut message), Role::Client))
            }
            Protection::Sealing(cipher) => {
                let sealer = Sealer::new(cipher, &[KEY_BYTE; 32]);
                let (space, mut nonces) = (NonceSpace::new(), NonceRange::empty());
                let mut frame = vec![1; TRANSFORM_HEADER_LENGTH + MESSAGE_BYTES];
                rate(duration, || {
                    // Neither runs out nor refuses a frame of this length.
                    if let Ok(nonce) = nonces.draw(&space) {
                        let _ = sealer.seal(black_box(&mut frame), SessionId(1), nonce);
                    }
                })
            }
        }
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protection::Signing(SigningAlgorithm::HmacSha256) => "HMAC-SHA256",
            Protection::Signing(SigningAlgorithm::AesCmac) => "AES-128-CMAC",
            Protection::Signing(SigningAlgorithm::AesGmac) => "AES-128-GMAC",
            Protection::Sealing(Cipher::Aes128Ccm) => "AES-128-CCM",
            Protection::Sealing(Cipher::Aes128Gcm) => "AES-128-GCM",
            Protection::Sealing(Cipher::Aes256Ccm) => "AES-256-CCM",
            Protection::Sealing(Cipher::Aes256Gcm) => "AES-256-GCM",
        })
    }
}

/// Messages are protected until the time is over, one at least; the first, which warms up, does not count.
fn rate(duration: Duration, mut protect: impl FnMut()) -> f64 {
    protect();
    let begun = Instant::now();
    let mut rounds = 0_u32;
    loop {
        protect();
        rounds += 1;
        let elapsed = begun.elapsed();
        if elapsed >= duration && !elapsed.is_zero() {
            return f64::from(rounds) * MESSAGE_BYTES as f64 / elapsed.as_secs_f64();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_is_measured_and_has_its_own_name() {
        let mut names: Vec<String> = Protection::ALL.iter().map(ToString::to_string).collect();
        assert!(Protection::ALL.iter().all(|protection| protection.measure(Duration::ZERO) > 0.0));
        names.sort();
        names.dedup();
        assert_eq!(names.len(), Protection::ALL.len());
    }
}
