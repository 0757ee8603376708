//! The local security authority, as far as clients ask it for names and SIDs (MS-LSAT), and for which domain the server is in
//! (MS-LSAD 3.1.4.4.4).

mod request;
mod response;

pub use request::{Call, SIDS_MAX};
pub(crate) use response::Lookup;
pub use response::answer;

numbers! {
    /// Operations (MS-LSAT 3.1.4).
    Operation(u16) {
        /// Closes a handle.
        CLOSE = 0,
        /// Opens the policy.
        OPEN_POLICY = 6,
        /// Tells about the server.
        QUERY_INFORMATION_POLICY = 7,
        /// Names to relative ids.
        LOOKUP_NAMES = 14,
        /// SIDs to names.
        LOOKUP_SIDS = 15,
        /// Opens the policy.
        OPEN_POLICY2 = 44,
        /// Who asks.
        GET_USER_NAME = 45,
        /// Tells about the server.
        QUERY_INFORMATION_POLICY2 = 46,
        /// SIDs to names.
        LOOKUP_SIDS2 = 57,
        /// Names to relative ids.
        LOOKUP_NAMES2 = 58,
        /// Names to SIDs.
        LOOKUP_NAMES3 = 68,
        /// SIDs to names, of a domain controller.
        LOOKUP_SIDS3 = 76,
        /// Names to SIDs, of a domain controller.
        LOOKUP_NAMES4 = 77,
    }
}

numbers! {
    /// How far a lookup goes (MS-LSAT 2.2.16, LSAP_LOOKUP_LEVEL).
    LookupLevel(u32) {
        /// Everything that the server knows.
        WORKSTATION = 1,
        /// The last one: a full domain controller.
        READ_ONLY_TO_FULL = 7,
    }
}

numbers! {
    /// What is asked about the server (MS-LSAD 2.2.4.1, POLICY_INFORMATION_CLASS).
    PolicyClass(u32) {
        /// The domain that it is in.
        PRIMARY_DOMAIN = 3,
        /// The domain of its own accounts.
        ACCOUNT_DOMAIN = 5,
        /// Whether it is a primary or a backup.
        SERVER_ROLE = 6,
        /// The domain that it is in, with its names in the DNS.
        DNS_DOMAIN = 12,
        /// The same.
        DNS_DOMAIN_INTERNAL = 13,
        /// The domain of its own accounts.
        LOCAL_ACCOUNT_DOMAIN = 14,
    }
}

/// What a lookup asks for, and in which form (MS-LSAT 3.1.4.5 to 3.1.4.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// LsarLookupSids and LsarLookupNames.
    First,
    /// LsarLookupSids2 and LsarLookupNames2: with flags.
    Second,
    /// LsarLookupNames3: with whole SIDs.
    Third,
}
