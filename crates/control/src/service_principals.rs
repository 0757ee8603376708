//! Which program has signed in to Azure's interfaces, and the key of what it shows afterwards.

use secure::{PasswordHash, hmac_sha256};

use crate::catalog::{ServicePrincipal, sense};
use crate::development::development_principal;
use crate::{DEVELOPMENT_APPLICATION, DEVELOPMENT_SECRET, KnownCatalog};

/// What makes the key of tokens another one than everything else that is made of a secret.
const OF_TOKENS: &[u8] = b"multilane bearer tokens";

impl KnownCatalog {
    /// The service principal that has this id and this secret.
    pub fn prove_service_principal(&self, application_id: &str, secret: &str) -> Option<ServicePrincipal> {
        if self.is_of_development(application_id) {
            return (secret == DEVELOPMENT_SECRET).then(development_principal);
        }
        let Some((principal, kept)) = self.service_principal(application_id) else {
            PasswordHash::of_no_secret().matches(secret);
            return None;
        };
        kept.matches(secret).then_some(principal)
    }

    /// A service principal as it is now, with the key that its tokens are signed with. That is another one once it was deleted, or made anew: so no token
    /// outlives who has it.
    pub fn service_principal_and_key(&self, application_id: &str) -> Option<(ServicePrincipal, [u8; 32])> {
        if self.is_of_development(application_id) {
            return Some((development_principal(), hmac_sha256(DEVELOPMENT_SECRET.as_bytes(), OF_TOKENS)));
        }
        let (principal, kept) = self.service_principal(application_id)?;
        Some((principal, hmac_sha256(&kept.hash, OF_TOKENS)))
    }

    fn is_of_development(&self, application_id: &str) -> bool {
        self.has_development_principal() && application_id == DEVELOPMENT_APPLICATION
    }

    fn service_principal(&self, application_id: &str) -> Option<(ServicePrincipal, PasswordHash)> {
        let known = self.snapshot()?;
        let mut principals = known.service_principals.iter();
        // A row that makes no sense is nobody's.
        let found = principals.find(|(principal, kept)| {
            principal.application_id == application_id && sense::of_service_principal(principal, kept).is_none()
        });
        found.cloned()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Catalog, Control, DataFolder, Overrides, Role, UserName};

    #[test]
    fn a_server_for_development_has_a_service_principal_that_everybody_knows_and_others_have_not() {
        let known = crate::KnownCatalog::default();
        let proved = |secret| known.prove_service_principal(crate::DEVELOPMENT_APPLICATION, secret).is_some();
        assert!(!proved(crate::DEVELOPMENT_SECRET));
        assert!(known.service_principal_and_key(crate::DEVELOPMENT_APPLICATION).is_none());
        known.add_development_principal();
        assert!(proved(crate::DEVELOPMENT_SECRET) && !proved("another"));
        assert!(known.service_principal_and_key(crate::DEVELOPMENT_APPLICATION).is_some());
    }

    #[test]
    fn a_service_principal_proves_itself_until_it_is_deleted() {
        let place = tempfile::tempdir().unwrap();
        let folder = DataFolder::create(place.path()).unwrap();
        let mut catalog = Catalog::open(&folder).unwrap();
        let mut control = Control::new(&folder, Catalog::open(&folder).unwrap(), Overrides::default());
        let known = control.catalog();
        let name: UserName = "ci".parse().unwrap();
        let (made, secret) = catalog.create_service_principal(&name, &[Role::Contributor]).unwrap();
        control.configuration().unwrap();
        let id = made.application_id.as_str();
        assert_eq!(known.prove_service_principal(id, secret.as_str()).as_ref(), Some(&made));
        assert!(known.prove_service_principal(id, "another").is_none());
        assert!(known.prove_service_principal("another", secret.as_str()).is_none());
        let (_, key) = known.service_principal_and_key(id).unwrap();

        // The same id and secret again is another one.
        catalog.delete_service_principal(&name).unwrap();
        catalog.add_service_principal(&name, id, secret.as_str(), &[]).unwrap();
        control.configuration().unwrap();
        assert_ne!(known.service_principal_and_key(id).unwrap().1, key);
        catalog.delete_service_principal(&name).unwrap();
        control.configuration().unwrap();
        assert!(known.service_principal_and_key(id).is_none());
    }
}
