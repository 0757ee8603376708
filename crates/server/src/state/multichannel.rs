//! Who may use several connections at once: off by default, on per storage account, in 3.1.1 only. NEGOTIATE comes before the user is
//! known, so that it offers to all what some account has; what counts is the account of the session.

use wire::command::negotiate::Capabilities;
use wire::ids::Dialect;

use crate::state::configuration::{Account, Configuration, Multichannel};
use crate::state::session::Session;

/// IsMultiChannelCapable (MS-SMB2 3.3.1.5): some account has it on.
pub(crate) fn is_anywhere(configuration: &Configuration) -> bool {
    configuration.accounts.iter().any(is_on)
}

/// True where NEGOTIATE offers it to a client with these capabilities (3.3.5.4). It is the same whatever name the client calls the server by,
/// or strangers could find out which accounts there are.
pub(crate) fn is_offered(configuration: &Configuration, dialect: Dialect, client: Capabilities) -> bool {
    dialect == Dialect::SMB_3_1_1 && client.contains(Capabilities::MULTI_CHANNEL) && is_anywhere(configuration)
}

/// True where the session may have more than one channel.
pub(crate) fn is_for(configuration: &Configuration, session: &Session) -> bool {
    let user = session.user.load();
    let account = configuration.accounts.iter().find(|account| account.name == user.account);
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
    use crate::state::configuration::Signing;
    use crate::tests::testing::server;

    fn configuration(accounts: &[(&str, Multichannel)]) -> Configuration {
        let accounts =
            accounts.iter().map(|(name, multichannel)| Account { name: (*name).into(), multichannel: *multichannel });
        Configuration { accounts: accounts.collect(), ..(**server(Signing::Enabled).configuration.load()).clone() }
    }

    #[test]
    fn who_asks_is_offered_what_some_account_has() {
        let mixed = configuration(&[("fast", Multichannel::On), ("slow", Multichannel::Off)]);
        assert!(is_offered(&mixed, Dialect::SMB_3_1_1, Capabilities::MULTI_CHANNEL | Capabilities::LEASING));
        assert!(!is_offered(&mixed, Dialect::SMB_3_1_1, Capabilities::LEASING));
        assert!(!is_offered(&mixed, Dialect::SMB_3_0_2, Capabilities::MULTI_CHANNEL));
    }

    #[test]
    fn nobody_is_offered_what_no_account_has() {
        let off = configuration(&[("slow", Multichannel::Off)]);
        assert!(!is_anywhere(&off) && !is_offered(&off, Dialect::SMB_3_1_1, Capabilities::MULTI_CHANNEL));
        assert!(!is_anywhere(&configuration(&[])));
    }
}
