//! Message signatures with extended session security (MS-NLMP 3.4.4.2), for SPNEGO's mechListMIC.

use std::fmt;

use aws_lc_rs::constant_time;
use rc4::{Rc4, StreamCipher};

use super::hash::{hmac_md5, md5, rc4};
use super::message::Flags;
use crate::{Role, Secret};

/// The signing state of an authenticated exchange: one numbered stream of signatures in each direction.
pub struct SessionSecurity {
    ours: Stream,
    theirs: Stream,
}

impl SessionSecurity {
    /// The state of `role`'s end, before the first signature.
    pub(super) fn new(role: Role, flags: Flags, exported_session_key: &[u8; 16]) -> Self {
        SessionSecurity {
            ours: Stream::new(role, flags, exported_session_key),
            theirs: Stream::new(role.peer(), flags, exported_session_key),
        }
    }

    /// Signs our next message.
    pub fn mic(&mut self, message: &[u8]) -> [u8; 16] {
        self.ours.next(message)
    }

    /// True when `mic` is the peer's signature of its next message.
    #[must_use]
    pub fn verify_mic(&mut self, message: &[u8], mic: &[u8]) -> bool {
        constant_time::verify_slices_are_equal(&self.theirs.next(message), mic).is_ok()
    }
}

impl fmt::Debug for SessionSecurity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionSecurity").finish_non_exhaustive()
    }
}

/// One direction.
struct Stream {
    signing_key: Secret,
    /// With a key exchange, checksums are encrypted with this stream (the "Handle").
    handle: Option<Rc4>,
    sequence: u32,
}

impl Stream {
    fn new(sender: Role, flags: Flags, exported_session_key: &[u8; 16]) -> Self {
        let handle = flags.contains(Flags::KEY_EXCHANGE).then(|| rc4(&seal_key(sender, flags, exported_session_key)));
        Stream { signing_key: sign_key(sender, exported_session_key), handle, sequence: 0 }
    }

    /// NTLMSSP_MESSAGE_SIGNATURE (2.2.2.9.2): Version 1, Checksum, SeqNum.
    fn next(&mut self, message: &[u8]) -> [u8; 16] {
        let sequence = self.sequence.to_le_bytes();
        self.sequence = self.sequence.wrapping_add(1);
        let mut signature = [0; 16];
        signature[0] = 1;
        signature[4..12].copy_from_slice(&hmac_md5(&self.signing_key, &[&sequence, message])[..8]);
        if let Some(handle) = &mut self.handle {
            handle.apply_keystream(&mut signature[4..12]);
        }
        signature[12..].copy_from_slice(&sequence);
        signature
    }
}

/// SIGNKEY (3.4.5.2).
fn sign_key(sender: Role, exported_session_key: &[u8; 16]) -> Secret {
    let magic: &[u8] = match sender {
        Role::Client => b"session key to client-to-server signing key magic constant\0",
        Role::Server => b"session key to server-to-client signing key magic constant\0",
    };
    md5(&[exported_session_key, magic]).into()
}

/// SEALKEY (3.4.5.3) with extended session security.
fn seal_key(sender: Role, flags: Flags, exported_session_key: &[u8; 16]) -> Secret {
    let strength = if flags.contains(Flags::STRONG_128) {
        16
    } else if flags.contains(Flags::WEAK_56) {
        7
    } else {
        5
    };
    let magic: &[u8] = match sender {
        Role::Client => b"session key to client-to-server sealing key magic constant\0",
        Role::Server => b"session key to server-to-client sealing key magic constant\0",
    };
    md5(&[&exported_session_key[..strength], magic]).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex::{hex, hex_array};

    /// MS-NLMP 4.2.4.4. The example seals its data with the key stream before the checksum.
    #[test]
    fn keys_and_signature_of_the_specifications_example() {
        let flags = Flags(0xe28a_8233);
        let key = [0x55; 16];
        assert_eq!(*seal_key(Role::Client, flags, &key), hex_array("59f600973cc4960a25480a7c196e4c58"));
        assert_eq!(*sign_key(Role::Client, &key), hex_array("4788dc861b4782f35d43fd98fe1a2d39"));
        let plaintext = hex("50006c00610069006e007400650078007400");
        let mut stream = Stream::new(Role::Client, flags, &key);
        let mut sealed = plaintext.clone();
        stream.handle.as_mut().unwrap().apply_keystream(&mut sealed);
        assert_eq!(sealed, hex("54e50165bf1936dc996020c1811b0f06fb5f"));
        assert_eq!(stream.next(&plaintext), hex_array("010000007fb38ec5c55d497600000000"));
    }

    #[test]
    fn without_a_key_exchange_the_checksum_is_plain() {
        let flags = Flags(0xe28a_8233 & !Flags::KEY_EXCHANGE.0);
        let plaintext = hex("50006c00610069006e007400650078007400");
        let signature = Stream::new(Role::Client, flags, &[0x55; 16]).next(&plaintext);
        assert_eq!(signature, hex_array("0100000070352851f256430900000000"));
    }

    #[test]
    fn weaker_sealing_keys_keep_fewer_bytes() {
        let strong = seal_key(Role::Server, Flags::STRONG_128 | Flags::WEAK_56, &[0x55; 16]);
        let weak = seal_key(Role::Server, Flags::WEAK_56, &[0x55; 16]);
        let weakest = seal_key(Role::Server, Flags(0), &[0x55; 16]);
        assert!(strong != weak && weak != weakest);
        let tail_changed = [[0x55; 7].as_slice(), &[0; 9]].concat().try_into().unwrap();
        assert_eq!(seal_key(Role::Server, Flags::WEAK_56, &tail_changed), weak);
    }

    #[test]
    fn a_signature_of_another_length_is_refused() {
        let mut server = SessionSecurity::new(Role::Server, Flags(0), &[1; 16]);
        let mic = SessionSecurity::new(Role::Client, Flags(0), &[1; 16]).mic(b"text");
        assert!(!server.verify_mic(b"text", &mic[..15]));
        assert!(!server.verify_mic(b"text", &[]));
    }
}
