//! Checksums that clients send along, or ask for: MD5, and the CRC64 of the service.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;

use super::Ask;
use crate::failure::{Code, Failure};

/// Bytes from which on a checksum is computed beside the thread that answers everybody.
const BESIDE_BYTES: usize = 64 << 10;
/// The polynomial of CRC-64/NVME, which is the service's, with its lowest bit first.
const POLYNOMIAL: u64 = 0x9A6C_9329_AC4B_C9B5;

/// The MD5 in a header's value.
pub(super) fn md5_of_header(value: &str) -> Option<[u8; 16]> {
    BASE64_STANDARD.decode(value.trim()).ok()?.try_into().ok()
}

/// The MD5 of `data` as headers have it.
pub(super) async fn md5(data: Bytes) -> Result<String, Failure> {
    beside(data, |data| BASE64_STANDARD.encode(secure::md5(data))).await
}

/// The CRC64 of `data` as headers have it: the number's bytes, the lowest first, in Base64.
pub(super) async fn crc64(data: Bytes) -> Result<String, Failure> {
    beside(data, |data| BASE64_STANDARD.encode(crc64_of(data).to_le_bytes())).await
}

async fn beside(data: Bytes, work: fn(&[u8]) -> String) -> Result<String, Failure> {
    if data.len() < BESIDE_BYTES {
        return Ok(work(&data));
    }
    let failed = |_| Failure::new(Code::InternalError, "The checksum could not be computed.");
    tokio::task::spawn_blocking(move || work(&data)).await.map_err(failed)
}

fn crc64_of(data: &[u8]) -> u64 {
    const TABLE: [u64; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let (mut value, mut bit) = (byte as u64, 0);
            while bit < 8 {
                value = if value & 1 == 1 { value >> 1 ^ POLYNOMIAL } else { value >> 1 };
                bit += 1;
            }
            table[byte] = value;
            byte += 1;
        }
        table
    };
    !data.iter().fold(u64::MAX, |crc, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8)
}

impl Ask {
    /// Compares the body with the MD5 that came with it; gives that, to be told again.
    pub(super) async fn checked_md5(&self) -> Result<Option<String>, Failure> {
        if self.header("x-ms-structured-body").is_some() {
            return Err(Failure::new(
                Code::UnsupportedHeader,
                "Bodies in segments (x-ms-structured-body) are not taken.",
            ));
        }
        let Some(sent) = self.header("content-md5") else { return Ok(None) };
        if md5_of_header(sent).is_none() {
            return Err(Failure::new(Code::InvalidMd5, "Content-MD5 is no MD5 in Base64."));
        }
        let found = md5(self.body.clone()).await?;
        if found != sent.trim() {
            let message = format!("The MD5 of the body is {found}, and Content-MD5 says {sent}.");
            return Err(Failure::new(Code::Md5Mismatch, message));
        }
        Ok(Some(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crc_is_that_of_nvme() {
        assert_eq!(crc64_of(b"123456789"), 0xAE8B_1486_0A79_9888);
        assert_eq!(crc64_of(b""), 0);
    }

    #[test]
    fn an_md5_has_sixteen_bytes() {
        assert_eq!(md5_of_header("1B2M2Y8AsgTpgAmY7PhCfg=="), Some(secure::md5(b"")));
        assert_eq!(md5_of_header("1B2M2Y8AsgTpgAmY7PhC"), None);
        assert_eq!(md5_of_header("no!"), None);
    }
}
