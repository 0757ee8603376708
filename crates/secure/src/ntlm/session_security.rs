//! Message signatures with extended session security (MS-NLMP 3.4.4.2), for SPNEGO's mechListMIC.

use std::fmt;

use aws_lc_rs::constant_time;
use rc4::{Rc4, StreamCipher};

use super::hash::{hmac_md5, md5, rc4};
use super::message::Flags;
use crate::Role;

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
    signing_key: [u8; 16],
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
fn sign_key(sender: Role, exported_session_key: &[u8; 16]) -> [u8; 16] {
    let magic: &[u8] = match sender {
        Role::Client => b"session key to client-to-server signing key magic constant\0",
        Role::Server => b"session key to server-to-client signing key magic constant\0",
    };
    md5(&[exported_session_key, magic])
}

/// SEALKEY (3.4.5.3) with extended session security.
fn seal_key(sender: Role, flags: Flags, exported_session_key: &[u8; 16]) -> [u8; 16] {
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
    md5(&[&exported_session_key[..strength], magic])
}
