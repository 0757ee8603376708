//! The account database, as far as clients ask it for names (MS-SAMR): which domains there are, who is in them, and what they are called.
//! Nothing of it can be changed.

mod fields;
mod request;
mod response;
mod shown;

pub use request::{Call, Target};
pub use response::answer;

numbers! {
    /// Operations (MS-SAMR 3.1.5).
    Operation(u16) {
        /// Opens the database.
        CONNECT = 0,
        /// Closes a handle.
        CLOSE = 1,
        /// A domain's SID.
        LOOKUP_DOMAIN = 5,
        /// Lists domains.
        ENUMERATE_DOMAINS = 6,
        /// Opens a domain.
        OPEN_DOMAIN = 7,
        /// Tells about a domain.
        QUERY_DOMAIN = 8,
        /// Lists groups.
        ENUMERATE_GROUPS = 11,
        /// Lists users.
        ENUMERATE_USERS = 13,
        /// Lists local groups.
        ENUMERATE_ALIASES = 15,
        /// The local groups that SIDs are in.
        GET_ALIAS_MEMBERSHIP = 16,
        /// Names to relative ids.
        LOOKUP_NAMES = 17,
        /// Relative ids to names.
        LOOKUP_IDS = 18,
        /// Opens a group.
        OPEN_GROUP = 19,
        /// Tells about a group.
        QUERY_GROUP = 20,
        /// Who is in a group.
        GET_MEMBERS_IN_GROUP = 25,
        /// Opens a local group.
        OPEN_ALIAS = 27,
        /// Tells about a local group.
        QUERY_ALIAS = 28,
        /// Who is in a local group.
        GET_MEMBERS_IN_ALIAS = 33,
        /// Opens a user.
        OPEN_USER = 34,
        /// Tells about a user.
        QUERY_USER = 36,
        /// The groups that a user is in.
        GET_GROUPS_FOR_USER = 39,
        /// Lists what is to be shown.
        QUERY_DISPLAY = 40,
        /// Tells about a domain.
        QUERY_DOMAIN2 = 46,
        /// Tells about a user.
        QUERY_USER2 = 47,
        /// Lists what is to be shown.
        QUERY_DISPLAY2 = 48,
        /// Lists what is to be shown.
        QUERY_DISPLAY3 = 51,
        /// Opens the database.
        CONNECT2 = 57,
        /// Opens the database.
        CONNECT4 = 62,
        /// Opens the database.
        CONNECT5 = 64,
        /// A relative id's SID.
        RID_TO_SID = 65,
    }
}

/// Operations that would change something: creating, setting and deleting, memberships, passwords (MS-SAMR 3.1.5.4, 3.1.5.6 to 3.1.5.8,
/// 3.1.5.10, 3.1.5.12.1). Whoever asks for them is denied.
const CHANGES: [u16; 26] =
    [2, 9, 10, 12, 14, 21, 22, 23, 24, 26, 29, 30, 31, 32, 35, 37, 38, 45, 50, 52, 53, 54, 55, 58, 66, 73];

impl Operation {
    /// True for one that would change something.
    pub fn is_change(self) -> bool {
        CHANGES.contains(&self.0)
    }
}

numbers! {
    /// What is listed to be shown (MS-SAMR 2.2.8.12, DOMAIN_DISPLAY_INFORMATION).
    DisplayClass(u32) {
        /// Users.
        USER = 1,
        /// Machines that have accounts.
        MACHINE = 2,
        /// Groups.
        GROUP = 3,
        /// Names of users, in the client's code page.
        OEM_USER = 4,
        /// Names of groups, in the client's code page.
        OEM_GROUP = 5,
    }
}
