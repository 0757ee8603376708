//! Where the server is, what the checks write, and how they report.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

/// How long a check may take: the longest takes a few seconds, and what waits for good is to be named by its line.
const CHECK_MAX: Duration = Duration::from_secs(60);

/// What a check returns: an error's text is the reason of its failure.
pub type Outcome = Result<(), Box<dyn Error>>;

/// The server under test.
pub struct Target {
    pub host: String,
    pub port: u16,
    pub share: String,
    pub user: String,
    pub password: String,
}

impl Target {
    pub fn from_environment() -> Self {
        let of = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
        Self {
            host: of("SMB_HOST"),
            port: of("SMB_PORT").parse().expect("SMB_PORT is a number"),
            share: of("SMB_SHARE"),
            user: of("SMB_USER"),
            password: of("SMB_PASSWORD"),
        }
    }
}

/// Runs one check and prints its line.
pub async fn check(name: &str, body: impl Future<Output = Outcome>) {
    match tokio::time::timeout(CHECK_MAX, body).await.unwrap_or_else(|_| Err("it did not end".into())) {
        Ok(()) => println!("ok {name}"),
        Err(error) => println!("not ok {name} - {}", format!("{error}: {error:?}").replace('\n', " | ")),
    }
}

/// Fails with what was seen unless the condition holds.
pub fn expect(condition: bool, seen: impl FnOnce() -> String) -> Outcome {
    if condition { Ok(()) } else { Err(seen().into()) }
}

/// Bytes that differ at every offset and from seed to seed (SplitMix64).
pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let word = |index: u64| {
        let mut mixed = (seed << 40).wrapping_add(index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).to_le_bytes()
    };
    (0..length as u64).step_by(8).flat_map(|offset| word(offset / 8)).take(length).collect()
}
