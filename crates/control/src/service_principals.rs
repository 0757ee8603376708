//! Which program has signed in to Azure's interfaces, and the key of what it shows afterwards.

use secure::{PasswordHash, hmac_sha256};

use crate::KnownCatalog;
use crate::catalog::{ServicePrincipal, sense};

/// What makes the key of tokens another one than everything else that is made of a secret.
const OF_TOKENS: &[u8] = b"multilane bearer tokens";

impl KnownCatalog {
    /// The service principal that has this id and this secret. Takes some tenths of a second, whether there is one or not.
    pub fn prove_service_principal(&self, application_id: &str, secret: &str) -> Option<ServicePrincipal> {
        let Some((principal, kept)) = self.service_principal(application_id) else {
            PasswordHash::of_nobody().matches(secret);
            return None;
        };
        kept.matches(secret).then_some(principal)
    }

    /// A service principal as it is now, with the key that its tokens are signed with. That is another one once it was deleted, or made anew: so no token
    /// outlives who has it.
    pub fn service_principal_and_key(&self, application_id: &str) -> Option<(ServicePrincipal, [u8; 32])> {
        let (principal, kept) = self.service_principal(application_id)?;
        Some((principal, hmac_sha256(&kept.hash, OF_TOKENS)))
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
