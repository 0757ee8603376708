//! Who may use several connections at once: off by default, on per storage account, in 3.1.1 only. NEGOTIATE comes before the user is
//! known, so that what it offers is a guess; what counts is the account of the session.

use wire::ids::Dialect;

use crate::admin::{Account, Estate, Multichannel};
use crate::session::Session;

/// IsMultiChannelCapable (MS-SMB2 3.3.1.5): some account has it on.
pub(crate) fn is_anywhere(estate: &Estate) -> bool {
    estate.accounts.iter().any(is_on)
}

/// True where NEGOTIATE offers it to a client that calls the server by `name`: the account that the name's first label names has it on, or any
/// account where it names none.
pub(crate) fn is_offered(estate: &Estate, dialect: Dialect, name: Option<&str>) -> bool {
    let label = name.and_then(|name| name.split('.').next()).map(store::fold);
    let named = estate.accounts.iter().find(|account| Some(store::fold(&account.name)) == label);
    dialect == Dialect::SMB_3_1_1 && named.map_or_else(|| is_anywhere(estate), is_on)
}

/// True where the session may have more than one channel.
pub(crate) fn is_for(estate: &Estate, session: &Session) -> bool {
    let user = session.user.load();
    let account = estate.accounts.iter().find(|account| account.name == user.account);
    session.dialect == Dialect::SMB_3_1_1 && account.is_some_and(is_on)
}

fn is_on(account: &Account) -> bool {
    match account.multichannel {
        Multichannel::On => true,
        Multichannel::Off => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::Signing;
    use crate::testing::server;

    fn estate(accounts: &[(&str, Multichannel)]) -> Estate {
        let accounts =
            accounts.iter().map(|(name, multichannel)| Account { name: (*name).into(), multichannel: *multichannel });
        Estate { accounts: accounts.collect(), ..(**server(Signing::Enabled).estate.load()).clone() }
    }

    #[test]
    fn the_name_that_a_client_uses_says_which_account_is_meant() {
        let mixed = estate(&[("fast", Multichannel::On), ("slow", Multichannel::Off)]);
        let is_offered = |name| is_offered(&mixed, Dialect::SMB_3_1_1, name);
        assert!(is_offered(Some("fast")) && is_offered(Some("FAST.files.example.net")));
        assert!(!is_offered(Some("slow")) && !is_offered(Some("Slow.files.example.net")));
        assert!(is_offered(None) && is_offered(Some("192.0.2.7")) && is_offered(Some("")));
        assert!(!super::is_offered(&mixed, Dialect::SMB_3_0_2, Some("fast")));
    }

    #[test]
    fn nobody_is_offered_what_no_account_has() {
        let off = estate(&[("slow", Multichannel::Off)]);
        assert!(!is_anywhere(&off) && !is_offered(&off, Dialect::SMB_3_1_1, None));
        assert!(!is_anywhere(&estate(&[])));
    }
}
