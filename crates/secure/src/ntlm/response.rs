//! The NTLMv2 computations (MS-NLMP 3.3.2) and the NTLMv2_RESPONSE (2.2.2.8).

use wire::Malformed;
use wire::codec::{Reader, Writer};
use wire::ids::FileTime;

use super::av_pair::AvPairs;
use super::hash::{NtHash, hmac_md5};
use crate::Secret;

/// Length of NTProofStr at the front of an NTLMv2_RESPONSE.
const PROOF_LENGTH: usize = 16;

/// NTOWFv2, the key of the proof. `user` and `domain` are UTF-16LE, as the client sent them.
pub(super) fn ntowf_v2(hash: &NtHash, user: &[u8], domain: &[u8]) -> Secret {
    hmac_md5(hash.as_bytes(), &[&uppercase(user), domain]).into()
}

/// NTProofStr over the server's challenge and the client's NTLMv2_CLIENT_CHALLENGE ("temp").
pub(super) fn proof(response_key: &[u8; 16], server_challenge: &[u8; 8], temp: &[u8]) -> [u8; 16] {
    hmac_md5(response_key, &[server_challenge, temp])
}

/// SessionBaseKey, which for NTLMv2 is the KeyExchangeKey too (3.4.5.1).
pub(super) fn session_base_key(response_key: &[u8; 16], proof: &[u8; 16]) -> Secret {
    hmac_md5(response_key, &[proof]).into()
}

/// The server's or client's uppercase as Windows does it: unit by unit, so that nothing changes its length and a
/// surrogate stays what it is.
fn uppercase(text: &[u8]) -> Vec<u8> {
    text.chunks_exact(2).flat_map(|unit| uppercase_unit(u16::from_le_bytes([unit[0], unit[1]])).to_le_bytes()).collect()
}

fn uppercase_unit(unit: u16) -> u16 {
    let Some(character) = char::from_u32(unit.into()) else { return unit };
    let mut upper = character.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(single), None) => u16::try_from(u32::from(single)).unwrap_or(unit),
        _ => unit,
    }
}

/// An NTLMv2_RESPONSE as received.
#[derive(Clone, Copy)]
pub(super) struct Response<'a> {
    /// NTProofStr.
    pub(super) proof: [u8; PROOF_LENGTH],
    /// NTLMv2_CLIENT_CHALLENGE (2.2.2.7), which the proof covers.
    pub(super) temp: &'a [u8],
    /// Its AvPairs.
    pub(super) pairs: AvPairs<'a>,
}

impl<'a> Response<'a> {
    /// Reads an NtChallengeResponse longer than NTLMv1's 24 bytes.
    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let proof = reader.array()?;
        let temp = reader.rest();
        let mut reader = Reader::new(temp);
        if reader.array()? != [1, 1] {
            return Err(Malformed("RespType"));
        }
        // Reserved1, Reserved2, TimeStamp, ChallengeFromClient, Reserved3.
        reader.skip(2 + 4 + 8 + 8 + 4)?;
        Ok(Response { proof, temp, pairs: AvPairs::parse(reader.rest())? })
    }
}

/// Builds NTLMv2_CLIENT_CHALLENGE. `pairs` come without their end.
pub(super) fn client_challenge(time: FileTime, challenge: [u8; 8], pairs: &[u8]) -> Vec<u8> {
    let mut temp = Vec::with_capacity(36 + pairs.len());
    let mut writer = Writer::new(&mut temp);
    writer.bytes(&[1, 1]);
    writer.zeros(6);
    writer.u64(time.0);
    writer.bytes(&challenge);
    writer.zeros(4);
    writer.bytes(pairs);
    writer.zeros(4 + 4);
    temp
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex::{hex, hex_array};
    use crate::ntlm::hash::rc4k;
    use wire::codec::utf16_bytes;

    /// The example of MS-NLMP 4.2.4.
    #[test]
    fn keys_and_response_of_the_specifications_example() {
        let hash = NtHash::from_password("Password");
        let response_key = ntowf_v2(&hash, &utf16_bytes("User"), &utf16_bytes("Domain"));
        assert_eq!(response_key, hex_array("0c868a403bfd7a93a3001ef22ef02e3f"));
        let pairs = hex("02000c0044006f006d00610069006e00 01000c005300650072007600650072 00");
        let temp = client_challenge(FileTime(0), [0xaa; 8], &pairs);
        let expected_temp = hex("0101000000000000 0000000000000000 aaaaaaaaaaaaaaaa 00000000
             02000c0044006f006d00610069006e00 01000c0053006500720076006500720000000000 00000000");
        assert_eq!(temp, expected_temp);
        let proof = proof(&response_key, &hex_array("0123456789abcdef"), &temp);
        assert_eq!(proof, hex_array("68cd0ab851e51c96aabc927bebef6a1c"));
        let base_key = session_base_key(&response_key, &proof);
        assert_eq!(base_key, hex_array("8de40ccadbc14a82f15cb0ad0de95ca3"));
        assert_eq!(rc4k(&base_key, [0x55; 16]), hex_array("c5dad2544fc9799094ce1ce90bc9d03e"));
        let response = [&proof[..], &temp].concat();
        let decoded = Response::decode(&response).unwrap();
        assert_eq!((decoded.proof, decoded.temp), (proof, &temp[..]));
    }

    #[test]
    fn uppercase_changes_no_length() {
        for (text, upper) in [("straße", "STRAßE"), ("ĳ", "Ĳ"), ("ŉ", "ŉ"), ("😀a", "😀A"), ("ÿ", "Ÿ")] {
            assert_eq!(uppercase(&utf16_bytes(text)), utf16_bytes(upper), "{text}");
        }
        assert_eq!(uppercase(&[0x00, 0xd8]), [0x00, 0xd8]);
    }

    #[test]
    fn a_response_cut_anywhere_is_malformed() {
        let response = [&[7; 16][..], &client_challenge(FileTime(1), [2; 8], &[])].concat();
        for length in 0..response.len() - 4 {
            assert!(Response::decode(&response[..length]).is_err(), "{length} bytes");
        }
        assert!(Response::decode(&response[..response.len() - 4]).is_ok());
    }

    #[test]
    fn another_response_version_is_malformed() {
        let mut response = [&[7; 16][..], &client_challenge(FileTime(1), [2; 8], &[])].concat();
        response[16] = 2;
        assert!(Response::decode(&response).is_err());
    }
}
