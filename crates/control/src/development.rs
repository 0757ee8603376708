//! The account that every developer's tools know, with its published key: for a server that this machine alone reaches.

use crate::published_key::{DEVELOPMENT_KEY, is_published};
use crate::{Catalog, DataFolder, Error, Role, ServicePrincipal};

/// Its name, as emulators of Azure's storage have it.
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";

/// The name of the data folder of such a server, beside the default one.
pub const DEVELOPMENT_FOLDER: &str = "multilane-dev";

/// The id and the secret of the service principal that a server for development has. Everybody knows them, too.
pub const DEVELOPMENT_APPLICATION: &str = "00000000-0000-0000-0000-000000000003";
/// Its secret.
pub const DEVELOPMENT_SECRET: &str = "multilane-development";

/// The service principal that a server for development has. It is in no catalog.
pub(crate) fn development_principal() -> ServicePrincipal {
    ServicePrincipal {
        name: "development".to_owned(),
        application_id: DEVELOPMENT_APPLICATION.to_owned(),
        roles: vec![Role::Contributor, Role::FileContributor],
    }
}

/// Makes the account and a first share in a new data folder. Refuses one that has other accounts alone. What keys the account has since is no matter: it may
/// have been given others.
pub fn development_start(catalog: &mut Catalog, folder: &DataFolder) -> Result<(), Error> {
    if catalog.is_new()? {
        return crate::control::make_first(catalog, folder, DEVELOPMENT_ACCOUNT, Some(DEVELOPMENT_KEY));
    }
    if !catalog.accounts()?.iter().any(|account| account.name == DEVELOPMENT_ACCOUNT) {
        return Err(Error::argument(
            format!(
                "{} is the data folder of a server that was not started with --dev: it has no account {DEVELOPMENT_ACCOUNT}",
                folder.path().display()
            ),
            "name another one with --data, or leave --data out",
        ));
    }
    Ok(())
}

/// An account that has the published key, if there is one.
pub fn account_with_published_key(catalog: &Catalog) -> Result<Option<String>, Error> {
    for account in catalog.accounts()? {
        let keys = catalog.keys(&account.name.parse()?)?;
        if is_published(&keys.key1) || is_published(&keys.key2) {
            return Ok(Some(account.name));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;

    use super::*;
    use crate::{Fault, Key, first_start};

    #[test]
    fn a_new_folder_has_the_account_that_tools_know_and_a_share() {
        let place = tempfile::tempdir().unwrap();
        let folder = DataFolder::create(place.path()).unwrap();
        let mut catalog = Catalog::open(&folder).unwrap();
        development_start(&mut catalog, &folder).unwrap();
        let account = DEVELOPMENT_ACCOUNT.parse().unwrap();
        let keys = catalog.keys(&account).unwrap();
        assert_eq!(keys.key1, DEVELOPMENT_KEY);
        assert!(keys.key2 != DEVELOPMENT_KEY && BASE64_STANDARD.decode(DEVELOPMENT_KEY).unwrap().len() == 64);
        assert_eq!(catalog.shares().unwrap()[0].name, "share");
        development_start(&mut catalog, &folder).unwrap();
        assert_eq!(catalog.accounts().unwrap().len(), 1);
        assert_eq!(account_with_published_key(&catalog).unwrap().as_deref(), Some(DEVELOPMENT_ACCOUNT));
        catalog.regenerate_key(&account, Key::One, None).unwrap();
        assert_eq!(account_with_published_key(&catalog).unwrap(), None);

        // It is what it was, and keeps the key it has now.
        let renewed = catalog.keys(&account).unwrap().key1.clone();
        development_start(&mut catalog, &folder).unwrap();
        assert_eq!(catalog.keys(&account).unwrap().key1, renewed);
    }

    #[test]
    fn a_folder_of_somebody_else_is_left_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        let folder = DataFolder::create(place.path()).unwrap();
        let mut catalog = Catalog::open(&folder).unwrap();
        first_start(&mut catalog, &folder).unwrap();
        assert_eq!(development_start(&mut catalog, &folder).unwrap_err().fault(), Fault::Argument);
        assert_eq!(catalog.accounts().unwrap().len(), 1);
    }
}
