//! What docs/SECURITY.md says is shown by a test must have that test.

use std::fs;
use std::path::PathBuf;

use crate::run::{self, root};

/// Folders that have tests.
const FOLDERS: [&str; 2] = ["crates", "xtask/src"];

/// The names in the last column of every row: tests, modules of tests, and files.
fn named(document: &str) -> Vec<&str> {
    let rows = document.lines().filter(|line| line.starts_with("| "));
    let cells = rows.filter_map(|row| row.trim_end_matches([' ', '|']).rsplit_once(" | "));
    cells.flat_map(|(_, cell)| cell.split('`').skip(1).step_by(2)).filter(|name| !name.contains(' ')).collect()
}

/// True where a file has this path's end, or some source has the function or the module.
fn is_there(name: &str, sources: &[(PathBuf, String)]) -> bool {
    if name.ends_with(".rs") {
        return sources.iter().any(|(path, _)| path.ends_with(name));
    }
    let last = name.rsplit("::").next().unwrap_or(name);
    let (function, module) = (format!("fn {last}("), format!("mod {last};"));
    sources.iter().any(|(_, text)| text.contains(&function) || text.contains(&module))
}

#[test]
fn every_test_that_docs_security_names_is_there() {
    let sources: Vec<_> = FOLDERS.iter().flat_map(|folder| run::sources(&root().join(folder), &["rs"])).collect();
    let document = fs::read_to_string(root().join("docs/SECURITY.md")).unwrap();
    let names = named(&document);
    assert!(names.len() > 50, "only {} names were found", names.len());
    let missing: Vec<_> = names.into_iter().filter(|name| !is_there(name, &sources)).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn a_name_that_is_nowhere_is_found_out() {
    let names =
        named("| tries | what happens | shown by |\n|---|---|---|\n| a | `b` | `c::d`, `e.rs`, `python3 -m f` |\n");
    assert_eq!(names, ["c::d", "e.rs"]);
    let sources = [(PathBuf::from("crates/e.rs"), "fn d() {}".to_owned())];
    assert!(is_there("c::d", &sources) && is_there("e.rs", &sources) && !is_there("g", &sources));
}
