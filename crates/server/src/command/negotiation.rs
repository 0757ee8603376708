//! What a connection has agreed on (MS-SMB2 3.3.1.7).

use secure::preauth::PreauthHash;
use secure::seal::Cipher;
use secure::sign::SigningAlgorithm;
use wire::command::negotiate::{Capabilities, SecurityMode};
use wire::ids::{Dialect, Guid};

/// Largest READ, WRITE and transaction where credits pay for it: Windows Server's.
pub(super) const LARGE_PAYLOAD_BYTES: u32 = 8 << 20;
/// The same without large MTU.
pub(super) const SMALL_PAYLOAD_BYTES: u32 = 64 << 10;
/// Offered dialects that are kept for VALIDATE_NEGOTIATE_INFO: ten times what there are.
pub(super) const DIALECTS_KEPT_MAX: usize = 64;

/// What a connection has agreed on (MS-SMB2 3.3.1.7).
#[derive(Default)]
pub(crate) struct Negotiation {
    pub(super) dialect: Option<Dialect>,
    /// An SMB1 NEGOTIATE was answered with the wildcard revision: a real one follows.
    pub(super) wildcard: bool,
    pub(crate) client_guid: Guid,
    pub(crate) client_capabilities: Capabilities,
    pub(crate) client_security_mode: SecurityMode,
    /// The dialects that the client offered, in its order; none where there were more than [`DIALECTS_KEPT_MAX`].
    pub(crate) client_dialects: Vec<Dialect>,
    pub(crate) server_capabilities: Capabilities,
    pub(crate) server_security_mode: SecurityMode,
    pub(crate) cipher: Option<Cipher>,
    pub(super) signing: Option<SigningAlgorithm>,
    pub(super) preauth: PreauthHash,
}

impl Negotiation {
    /// The dialect, once there is one.
    pub(crate) fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// Opens may be persistent.
    pub(crate) fn has_persistent_opens(&self) -> bool {
        self.server_capabilities.contains(Capabilities::PERSISTENT_HANDLES)
    }

    /// True where credits pay for payloads above 64 KiB.
    pub(crate) fn has_large_mtu(&self) -> bool {
        self.dialect.is_some_and(|dialect| dialect >= Dialect::SMB_2_1)
    }

    /// The largest READ, WRITE or transaction.
    pub(crate) fn payload_bytes_max(&self) -> u32 {
        if self.has_large_mtu() { LARGE_PAYLOAD_BYTES } else { SMALL_PAYLOAD_BYTES }
    }

    /// True where the client was told that a session may have several channels.
    pub(crate) fn has_multichannel(&self) -> bool {
        self.server_capabilities.contains(Capabilities::MULTI_CHANNEL)
    }

    /// How this connection's sessions sign.
    pub(crate) fn signing(&self) -> SigningAlgorithm {
        let by_dialect = match self.dialect {
            Some(dialect) if dialect >= Dialect::SMB_3_0 => SigningAlgorithm::AesCmac,
            Some(_) | None => SigningAlgorithm::HmacSha256,
        };
        self.signing.unwrap_or(by_dialect)
    }

    /// The pre-auth hash after NEGOTIATE, from which every session's own begins.
    pub(crate) fn preauth(&self) -> &PreauthHash {
        &self.preauth
    }

    /// Takes a message into the pre-auth hash.
    pub(crate) fn hash(&mut self, message: &[u8]) {
        if self.dialect == Some(Dialect::SMB_3_1_1) {
            self.preauth.update(message);
        }
    }
}
