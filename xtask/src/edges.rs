//! Which of our crates may depend on which: docs/ARCHITECTURE.md draws the map, this holds the code to it. Folders are looked at in [`layers`].

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::layers;
use crate::run::{self, Tally, root};

/// Each crate with those it may import; what is not here may not be.
const ALLOWED: [(&str, &[&str]); 13] = [
    ("wire", &[]),
    ("secure", &["wire"]),
    ("store", &[]),
    ("busy-poll", &[]),
    ("netif", &[]),
    ("server", &["wire", "secure", "store", "busy-poll", "netif"]),
    ("client", &["wire", "secure", "netif"]),
    ("load", &["client", "busy-poll", "netif"]),
    ("control", &["secure", "server", "store"]),
    ("insight", &["server"]),
    ("web", &["secure", "server", "control", "insight"]),
    ("azure", &["client", "control", "insight", "netif", "secure", "server"]),
    (
        "multilane",
        &["azure", "wire", "secure", "store", "netif", "server", "client", "load", "control", "insight", "web"],
    ),
];

/// Crates and folders import what they may, and nothing else of ours.
pub(crate) fn check() -> Tally {
    let mut total = crates();
    total += layers::check();
    total
}

/// One check per crate of ours: it depends on no other of ours than it may.
fn crates() -> Tally {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["metadata", "--format-version", "1", "--no-deps", "--locked"]).current_dir(root());
    let Some(metadata) = run::output(command).and_then(|text| serde_json::from_str(&text).ok()) else {
        return Tally::failure();
    };
    let mut total = Tally::default();
    for (name, imports) in imports(&metadata) {
        let wrong = forbidden(&name, &imports);
        for other in &wrong {
            println!("{name} must not depend on {other}: see docs/ARCHITECTURE.md");
        }
        total += Tally::of(wrong.is_empty());
    }
    total
}

/// Each crate below crates/ with the ones it depends on, for tests and builds too.
fn imports(metadata: &Value) -> BTreeMap<String, Vec<String>> {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ours = packages.iter().filter(|package| in_crates(package["manifest_path"].as_str()));
    ours.map(|package| {
        let listed = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
        let imports = listed.iter().filter(|dependency| in_crates(dependency["path"].as_str()));
        (short(&package["name"]), imports.map(|dependency| short(&dependency["name"])).collect())
    })
    .collect()
}

/// Those of the imports that the map does not allow; all of them for a crate that is not on it. A crate's tests may turn its own features on.
fn forbidden<'a>(name: &str, imports: &'a [String]) -> Vec<&'a String> {
    let allowed = ALLOWED.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, allowed)| allowed);
    imports.iter().filter(|import| *import != name && !allowed.contains(&import.as_str())).collect()
}

fn in_crates(path: Option<&str>) -> bool {
    path.is_some_and(|path| std::path::Path::new(path).starts_with(root().join("crates")))
}

/// A package's name without the project's in front.
fn short(name: &Value) -> String {
    let name = name.as_str().unwrap_or_default();
    name.strip_prefix("multilane-").unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn crate_path(name: &str) -> String {
        root().join("crates").join(name).display().to_string()
    }

    fn metadata(name: &str, import: &str) -> Value {
        json!({"packages": [{
            "name": format!("multilane-{name}"),
            "manifest_path": format!("{}/Cargo.toml", crate_path(name)),
            "dependencies": [
                {"name": format!("multilane-{import}"), "path": crate_path(import)},
                {"name": "tokio"},
            ],
        }]})
    }

    fn wrong(name: &str, import: &str) -> usize {
        imports(&metadata(name, import)).iter().map(|(name, imports)| forbidden(name, imports).len()).sum()
    }

    #[test]
    fn an_edge_on_the_map_is_allowed() {
        assert_eq!(wrong("server", "store"), 0);
    }

    #[test]
    fn an_edge_against_the_map_is_found() {
        assert_eq!(wrong("wire", "secure"), 1);
        assert_eq!(wrong("load", "wire"), 1);
    }

    #[test]
    fn a_crate_that_is_not_on_the_map_may_import_nothing() {
        assert_eq!(wrong("common", "wire"), 1);
    }
}
