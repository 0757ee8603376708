//! Key derivation (MS-SMB2 3.1.4.2, with the labels and contexts of 3.2.5.3 and 3.3.5.5): SP800-108 in counter mode
//! with HMAC-SHA256.

use std::fmt;

use aws_lc_rs::hmac;
use wire::ids::Dialect;
use zeroize::Zeroizing;

use crate::preauth::PreauthHash;
use crate::seal::{Cipher, Opener, Sealer};
use crate::sign::{SigningAlgorithm, SigningKey};
use crate::{Role, Secret};

/// What a dialect feeds into the derivation.
#[derive(Clone, Copy, Debug)]
pub enum Derivation<'a> {
    /// 2.0.2 and 2.1: none. Messages are signed with the session key itself and cannot be sealed.
    Smb2,
    /// 3.0 and 3.0.2: fixed labels and contexts.
    Smb30,
    /// 3.1.1: fixed labels; the context is Session.PreauthIntegrityHashValue (for a bound channel, its own).
    Smb311(&'a PreauthHash),
}

/// The keys of a session, as one end of it sees them. Never printed.
#[derive(Clone)]
pub struct SessionKeys {
    signing: Secret,
    application: Secret,
    cipher: Option<Cipher>,
    encryption: Zeroizing<[u8; 32]>,
    decryption: Zeroizing<[u8; 32]>,
}

impl SessionKeys {
    /// Derives the keys of a session from the key that authentication produced. `role` is the end that will use them:
    /// what the server encrypts with, the client decrypts with. `cipher` is Connection.CipherId, or `None` where
    /// nothing is sealed; 3.0 and 3.0.2 know only AES-128-CCM.
    ///
    /// `session_key` is the key as the authentication gives it, of any length. Its first 16 bytes, padded with zeros,
    /// are Session.SessionKey; the whole is Session.FullSessionKey, which 256-bit ciphers derive from.
    pub fn derive(role: Role, derivation: Derivation<'_>, session_key: &[u8], cipher: Option<Cipher>) -> Self {
        let short = short_key(session_key);
        let cipher = match derivation {
            Derivation::Smb2 => None,
            Derivation::Smb30 => cipher.map(|_| Cipher::Aes128Ccm),
            Derivation::Smb311(_) => cipher,
        };
        let mut keys = SessionKeys {
            signing: channel_signing_key(derivation, session_key),
            application: short.clone(),
            cipher,
            encryption: Zeroizing::default(),
            decryption: Zeroizing::default(),
        };
        if let Some((label, context)) = derivation.application() {
            keys.application = derive_16(&short[..], label, context);
        }
        if let Some(cipher) = cipher {
            let from = if cipher.key_length() == 32 { session_key } else { &short[..] };
            keys.encryption = derivation.cipher_key(from, role, cipher);
            keys.decryption = derivation.cipher_key(from, role.peer(), cipher);
        }
        keys
    }

    /// Session.SigningKey, ready to sign with `algorithm`.
    pub fn signing_key(&self, algorithm: SigningAlgorithm) -> SigningKey {
        SigningKey::new(algorithm, self.signing.clone())
    }

    /// Session.ApplicationKey, for those above who ask for the session key (3.3.4.4). The session key itself in 2.x.
    pub fn application_key(&self) -> Secret {
        self.application.clone()
    }

    /// Session.EncryptionKey, ready to seal; `None` where the session has no cipher.
    pub fn sealer(&self) -> Option<Sealer> {
        self.cipher.map(|cipher| Sealer::new(cipher, &self.encryption))
    }

    /// Session.DecryptionKey, ready to open; `None` where the session has no cipher.
    pub fn opener(&self) -> Option<Opener> {
        self.cipher.map(|cipher| Opener::new(cipher, &self.decryption))
    }
}

impl fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionKeys").field("cipher", &self.cipher).finish_non_exhaustive()
    }
}

/// Channel.SigningKey of a bound channel (3.3.5.5.3), or Session.SigningKey where the session's own keys go in.
pub fn channel_signing_key(derivation: Derivation<'_>, session_key: &[u8]) -> Secret {
    let short = short_key(session_key);
    match derivation {
        Derivation::Smb2 => short,
        Derivation::Smb30 => derive_16(&short[..], b"SMB2AESCMAC\0", b"SmbSign\0"),
        Derivation::Smb311(preauth) => derive_16(&short[..], b"SMBSigningKey\0", preauth.as_bytes()),
    }
}

impl<'a> Derivation<'a> {
    /// What `dialect` asks for. `preauth` is the session's hash, or the channel's when one is bound; it counts in 3.1.1
    /// only.
    pub fn new(dialect: Dialect, preauth: &'a PreauthHash) -> Self {
        match dialect {
            Dialect::SMB_3_1_1 => Derivation::Smb311(preauth),
            Dialect::SMB_3_0 | Dialect::SMB_3_0_2 => Derivation::Smb30,
            _ => Derivation::Smb2,
        }
    }

    fn application(self) -> Option<(&'static [u8], &'a [u8])> {
        match self {
            Derivation::Smb2 => None,
            Derivation::Smb30 => Some((b"SMB2APP\0", b"SmbRpc\0")),
            Derivation::Smb311(preauth) => Some((b"SMBAppKey\0", preauth.as_bytes())),
        }
    }

    /// The key that `sender` seals with, in the first `cipher.key_length()` bytes.
    fn cipher_key(self, from: &[u8], sender: Role, cipher: Cipher) -> Zeroizing<[u8; 32]> {
        let (label, context): (&[u8], &[u8]) = match (self, sender) {
            (Derivation::Smb2, Role::Client | Role::Server) => return Zeroizing::default(),
            (Derivation::Smb30, Role::Client) => (b"SMB2AESCCM\0", b"ServerIn \0"),
            (Derivation::Smb30, Role::Server) => (b"SMB2AESCCM\0", b"ServerOut\0"),
            (Derivation::Smb311(preauth), Role::Client) => (b"SMBC2SCipherKey\0", preauth.as_bytes()),
            (Derivation::Smb311(preauth), Role::Server) => (b"SMBS2CCipherKey\0", preauth.as_bytes()),
        };
        let mut key = kdf(from, label, context, cipher.key_length());
        key[cipher.key_length()..].fill(0);
        key
    }
}

/// Session.SessionKey: "the first 16 bytes of the cryptographic key [...] right-padded with zero bytes" (3.3.1.8).
fn short_key(session_key: &[u8]) -> Secret {
    let mut short = Secret::default();
    let length = session_key.len().min(short.len());
    short[..length].copy_from_slice(&session_key[..length]);
    short
}

fn derive_16(key: &[u8], label: &[u8], context: &[u8]) -> Secret {
    let mut out = Secret::default();
    out.copy_from_slice(&kdf(key, label, context, 16)[..16]);
    out
}

/// SP800-108 5.1 with r = 32. At most one block of HMAC-SHA256 is ever asked for, so the counter stays at 1:
/// HMAC(key, 1 || label || 0 || context || length in bits). The caller's labels end with their NUL.
fn kdf(key: &[u8], label: &[u8], context: &[u8], length: usize) -> Zeroizing<[u8; 32]> {
    let mut prf = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    prf.update(&1u32.to_be_bytes());
    prf.update(label);
    prf.update(&[0]);
    prf.update(context);
    prf.update(&(length as u32 * 8).to_be_bytes());
    let mut out = Zeroizing::new([0; 32]);
    out.copy_from_slice(prf.sign().as_ref());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex::{hex, hex_array};

    fn preauth_counting_up() -> PreauthHash {
        PreauthHash::from_bytes(std::array::from_fn(|i| i as u8))
    }

    /// "SMB 2 and SMB 3 security in Windows 10: the anatomy of signing and cryptographic keys", Microsoft Open
    /// Specifications blog, 2017: the 3.0 multichannel example.
    #[test]
    fn keys_of_microsofts_3_0_example() {
        let session_key = hex("7CD451825D0450D235424E44BA6E78CC");
        let client = SessionKeys::derive(Role::Client, Derivation::Smb30, &session_key, Some(Cipher::Aes128Ccm));
        assert_eq!(client.signing, hex_array("0B7E9C5CAC36C0F6EA9AB275298CEDCE"));
        assert_eq!(client.encryption[..16], hex("FAD27796665B313EBB578F388632B4F7"));
        assert_eq!(client.decryption[..16], hex("B0F0427F7CEB416D1D9DCC0CD4F99447"));
        assert_eq!(client.application, hex_array("BB23A4575AA26C721AF525AF15A87B4F"));
        let second = channel_signing_key(Derivation::Smb30, &hex("4E01A2B313BCF660CC250BEF021AEDE6"));
        assert_eq!(second, hex_array("BA1A17DBBFEC349BCA105563D598952F"));
    }

    /// The same article's 3.1.1 example.
    #[test]
    fn keys_of_microsofts_3_1_1_example() {
        let preauth = PreauthHash::from_bytes(hex_array(
            "0DD13628CC3ED218EF9DF9772D436D0887AB9814BFAE63A80AA845F36909DB79
             28622DDDAD522D9751640A459762C5A9D6BB084CBB3CE6BDADEF5D5BCE3C6C01",
        ));
        let session_key = hex("270E1BA896585EEB7AF3472D3B4C75A7");
        let derivation = Derivation::Smb311(&preauth);
        let client = SessionKeys::derive(Role::Client, derivation, &session_key, Some(Cipher::Aes128Gcm));
        assert_eq!(client.signing, hex_array("73FE7A9A77BEF0BDE49C650D8CCB5F76"));
        assert_eq!(client.encryption[..16], hex("629BCBC54422A0F572B97F45989B6073"));
        assert_eq!(client.decryption[..16], hex("E2AF0DCEFAC68DA71A0DFBD0D1350D74"));
        assert_eq!(client.application, hex_array("6D7AD7954E9EC61E907B4D473DC178FF"));
    }

    /// The expected values were computed with another library (OpenSSL through Python).
    #[test]
    fn ciphers_of_256_bits_take_the_full_session_key_and_signing_does_not() {
        let preauth = preauth_counting_up();
        let full: Vec<u8> = (0..32).collect();
        let derivation = Derivation::Smb311(&preauth);
        let server = SessionKeys::derive(Role::Server, derivation, &full, Some(Cipher::Aes256Gcm));
        assert_eq!(server.signing, hex_array("f7e5401ecc6e79ef9eab401b05004e4f"));
        assert_eq!(server.application, hex_array("3b37360639dd593424d252bd73a0c0ff"));
        let c2s = hex("e568de865ae188f20138931c5423898fc0d5e94fa094b72d474fc56cf5703db6");
        let s2c = hex("53f8b2fb513a90f5231f5ac12ba0a24b9eed8f6e80596136560f1b0003e8d2ae");
        assert_eq!(server.encryption[..], s2c[..]);
        assert_eq!(server.decryption[..], c2s[..]);
        let short = SessionKeys::derive(Role::Server, derivation, &full, Some(Cipher::Aes128Gcm));
        assert_eq!(short.decryption[..16], hex("f1b6250ca4d9f8877e41071f59228ce4"));
        assert_eq!(short.encryption[..16], hex("99676aedfbfd18e61ca5bb60d502e8f2"));
    }

    #[test]
    fn what_one_end_encrypts_with_the_other_decrypts_with() {
        let preauth = preauth_counting_up();
        for (derivation, cipher) in [
            (Derivation::Smb30, Cipher::Aes128Ccm),
            (Derivation::Smb311(&preauth), Cipher::Aes128Gcm),
            (Derivation::Smb311(&preauth), Cipher::Aes256Ccm),
        ] {
            let server = SessionKeys::derive(Role::Server, derivation, &[5; 16], Some(cipher));
            let client = SessionKeys::derive(Role::Client, derivation, &[5; 16], Some(cipher));
            assert_eq!(server.encryption, client.decryption);
            assert_eq!(server.decryption, client.encryption);
            assert_ne!(server.encryption, server.decryption);
            assert_eq!((server.signing, server.application), (client.signing, client.application));
        }
    }

    #[test]
    fn dialects_before_3_0_sign_with_the_session_key_and_seal_nothing() {
        let keys = SessionKeys::derive(Role::Server, Derivation::Smb2, &[5; 16], Some(Cipher::Aes128Ccm));
        assert_eq!((*keys.signing, *keys.application), ([5; 16], [5; 16]));
        assert!(keys.sealer().is_none() && keys.opener().is_none());
    }

    #[test]
    fn a_short_session_key_is_padded_and_a_long_one_cut() {
        let mut padded = [0; 16];
        padded[..3].copy_from_slice(&[1, 2, 3]);
        assert_eq!(short_key(&[1, 2, 3]), padded);
        assert_eq!(short_key(&[7; 32]), [7; 16]);
    }

    #[test]
    fn dialects_choose_their_derivation() {
        let hash = PreauthHash::new();
        assert!(matches!(Derivation::new(Dialect::SMB_2_0_2, &hash), Derivation::Smb2));
        assert!(matches!(Derivation::new(Dialect::SMB_2_1, &hash), Derivation::Smb2));
        assert!(matches!(Derivation::new(Dialect::SMB_3_0, &hash), Derivation::Smb30));
        assert!(matches!(Derivation::new(Dialect::SMB_3_0_2, &hash), Derivation::Smb30));
        assert!(matches!(Derivation::new(Dialect::SMB_3_1_1, &hash), Derivation::Smb311(_)));
    }

    #[test]
    fn keys_are_not_printed() {
        let keys = SessionKeys::derive(Role::Server, Derivation::Smb30, &[0xab; 16], Some(Cipher::Aes128Ccm));
        assert_eq!(format!("{keys:?}"), "SessionKeys { cipher: Some(Aes128Ccm), .. }");
    }
}
