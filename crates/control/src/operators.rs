//! Who may sign in to the page of a running server.

use secure::PasswordHash;

use crate::KnownCatalog;
use crate::catalog::{Operator, sense};

/// An operator who has proved to be one. It is another one once the operator is deleted, or has another password.
#[derive(Clone, PartialEq, Eq)]
pub struct ProvedOperator {
    name: String,
    password: PasswordHash,
}

/// What all spellings of a name have in common, of operators as of shares.
pub fn folded_name(name: &str) -> String {
    store::fold(name)
}

impl KnownCatalog {
    /// True where somebody can sign in to the page.
    pub fn has_operators(&self) -> bool {
        self.snapshot().is_some_and(|known| !known.operators.is_empty())
    }

    /// The operator's name as the catalog has it, where there is one of this name, whatever its case.
    pub fn operator_named(&self, name: &str) -> Option<String> {
        let (known, folded) = (self.snapshot()?, folded_name(name));
        let mut operators = known.operators.iter().map(|(operator, _)| &operator.name);
        operators.find(|operator| folded_name(operator) == folded).cloned()
    }

    /// The operator who has this name, whatever its case, and this password. Takes some tenths of a second, whether there is one or not.
    pub fn prove(&self, name: &str, password: &str) -> Option<ProvedOperator> {
        let (known, folded) = (self.snapshot()?, folded_name(name));
        let mut operators = known.operators.iter();
        let is_asked = |operator: &Operator| folded_name(&operator.name) == folded;
        // A row that makes no sense is nobody's.
        let Some((operator, kept)) =
            operators.find(|(operator, kept)| is_asked(operator) && sense::of_operator(operator, kept).is_none())
        else {
            PasswordHash::of_nobody().matches(password);
            return None;
        };
        kept.matches(password).then(|| ProvedOperator { name: operator.name.clone(), password: kept.clone() })
    }

    /// Whether an operator is there still, with the password that was proved.
    pub fn has(&self, proved: &ProvedOperator) -> bool {
        let snapshot = self.snapshot();
        let mut operators = snapshot.iter().flat_map(|known| &known.operators);
        operators.any(|(operator, kept)| operator.name == proved.name && *kept == proved.password)
    }
}

impl ProvedOperator {
    /// The operator's name, as the catalog has it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use crate::{Catalog, Control, DataFolder, Fault, Overrides, UserName};

    const PASSWORD: &str = "correct horse battery";

    #[test]
    fn operators_prove_themselves_until_they_are_deleted_or_have_another_password() {
        let place = tempfile::tempdir().unwrap();
        let folder = DataFolder::create(place.path()).unwrap();
        let mut catalog = Catalog::open(&folder).unwrap();
        let mut control = Control::new(&folder, Catalog::open(&folder).unwrap(), Overrides::default());
        let operators = control.catalog();
        control.configuration().unwrap();
        assert!(!operators.has_operators() && operators.prove("Ann", PASSWORD).is_none());

        let name: UserName = "Ann".parse().unwrap();
        catalog.create_operator(&name, PASSWORD).unwrap();
        control.configuration().unwrap();
        assert!(operators.prove("Ann", "correct horse batter").is_none());
        assert!(operators.prove("Bob", PASSWORD).is_none());
        assert_eq!((operators.operator_named("aNN").as_deref(), operators.operator_named("Bob")), (Some("Ann"), None));
        let proved = operators.prove("ANN", PASSWORD).unwrap();
        assert_eq!((proved.name(), operators.has(&proved)), ("Ann", true));

        catalog.set_operator_password(&name, PASSWORD).unwrap();
        control.configuration().unwrap();
        assert!(!operators.has(&proved), "the same password was set anew");
        let again = operators.prove("Ann", PASSWORD).unwrap();
        catalog.delete_operator(&"ann".parse().unwrap()).unwrap();
        control.configuration().unwrap();
        assert!(!operators.has(&again) && !operators.has_operators());
    }

    #[test]
    fn an_operator_has_one_name_and_a_password_of_twelve_characters() {
        let place = tempfile::tempdir().unwrap();
        let mut catalog = Catalog::open(&DataFolder::create(place.path()).unwrap()).unwrap();
        let name: UserName = "ann".parse().unwrap();
        for password in ["", "elevenchars", &"xy".repeat(513), &"x".repeat(12), &" ".repeat(20), &" \t\u{a0}".repeat(5)]
        {
            assert_eq!(catalog.create_operator(&name, password).unwrap_err().fault(), Fault::Argument, "{password}");
        }
        catalog.create_operator(&name, "twelve chars").unwrap();
        assert_eq!(catalog.create_operator(&"ANN".parse().unwrap(), PASSWORD).unwrap_err().fault(), Fault::Conflict);
        assert_eq!(catalog.operators().unwrap().len(), 1);
        let nobody: UserName = "bob".parse().unwrap();
        assert_eq!(catalog.delete_operator(&nobody).unwrap_err().fault(), Fault::Missing);
        assert_eq!(catalog.set_operator_password(&nobody, PASSWORD).unwrap_err().fault(), Fault::Missing);
    }
}
