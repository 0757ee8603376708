//! The folders of a crate, one above the other: imports between them go down only, and circles of files inside one folder stay small.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree};

use crate::run::{Tally, root};

/// The server's folders, from the top. Each may import itself and those below it; what is in none of them may import all.
const LAYERS: [&str; 6] = ["admin", "net", "request", "command", "state", "resource"];

/// The crates whose circles are looked at: all that have more than a few files.
const CRATES: [&str; 9] = ["wire", "secure", "store", "server", "client", "load", "control", "insight", "web"];

/// Files of one circle at most.
const CIRCLE_FILES_MAX: usize = 5;

/// What each module of a crate imports from its own crate, tests left out. A module is named by its path below the root, such as `state::files::entry`.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Prints the layers of the server. Fails where one imports what is above it, and where a circle of files is too large in any crate.
pub(crate) fn check() -> Tally {
    let mut total = Tally::default();
    for name in CRATES {
        match imports(&root().join("crates").join(name).join("src")) {
            Ok(imports) => {
                if name == "server" {
                    print(&imports);
                    total += upward(&imports);
                }
                total += circles(name, &imports);
            }
            Err(error) => {
                println!("the modules of {name} cannot be read: {error}");
                total += Tally::failure();
            }
        }
    }
    total
}

/// Each layer with those that it imports.
fn print(imports: &Imports) {
    for layer in LAYERS {
        let within = edges(imports).filter(|(from, _)| layer_of(from) == Some(layer));
        let imported: BTreeSet<&str> = within.filter_map(|(_, to)| layer_of(to)).collect();
        let others: Vec<&str> =
            LAYERS.into_iter().filter(|other| *other != layer && imported.contains(other)).collect();
        println!("{layer:<8} -> {}", others.join(", "));
    }
}

fn upward(imports: &Imports) -> Tally {
    let mut total = Tally::default();
    for layer in LAYERS {
        let wrong: Vec<_> =
            edges(imports).filter(|(from, to)| layer_of(from) == Some(layer) && is_upward(from, to)).collect();
        for (from, to) in &wrong {
            println!("{from} must not import {to}: imports go down only, see docs/ARCHITECTURE.md");
        }
        total += Tally::of(wrong.is_empty());
    }
    total
}

/// In each folder of a crate: the files, and folders as a whole, that are directly in it.
fn circles(name: &str, imports: &Imports) -> Tally {
    let mut total = Tally::default();
    let folders: BTreeSet<&str> = imports.keys().map(|module| folder_of(module)).collect();
    for folder in folders {
        let within = edges(imports).filter_map(|(from, to)| Some((child_of(folder, from)?, child_of(folder, to)?)));
        let graph: DiGraphMap<&str, ()> = within.filter(|(from, to)| from != to).collect();
        for circle in tarjan_scc(&graph).into_iter().filter(|circle| circle.len() > 1) {
            let fits = circle.len() <= CIRCLE_FILES_MAX;
            if !fits {
                println!("{} import each other in a circle in {name}::{folder}: {}", circle.len(), circle.join(", "));
            }
            total += Tally::of(fits);
        }
    }
    total
}

/// What of `folder` a module is, or is in; `None` where it is the folder's own file, or elsewhere.
fn child_of<'a>(folder: &str, module: &'a str) -> Option<&'a str> {
    let below = if folder.is_empty() { module } else { module.strip_prefix(folder)?.strip_prefix("::")? };
    below.split("::").next().filter(|name| !name.is_empty())
}

fn edges(imports: &Imports) -> impl Iterator<Item = (&str, &str)> {
    imports.iter().flat_map(|(from, all)| all.iter().map(move |to| (from.as_str(), to.as_str())))
}

fn is_upward(from: &str, to: &str) -> bool {
    let height = |module| LAYERS.iter().position(|layer| layer_of(module) == Some(layer));
    height(from).zip(height(to)).is_some_and(|(from, to)| to < from)
}

/// The layer that a module is in; `None` above all layers.
fn layer_of(module: &str) -> Option<&str> {
    let first = module.split("::").next()?;
    LAYERS.contains(&first).then_some(first)
}

fn folder_of(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(folder, _)| folder)
}

/// Why a module is not known.
#[derive(Debug, thiserror::Error)]
enum Unread {
    #[error("{}: {cause}", file.display())]
    NoFile { file: PathBuf, cause: io::Error },
    #[error("{}: {cause}", file.display())]
    NoRust { file: PathBuf, cause: syn::Error },
}

/// Reads the crate whose root is in `source`, module by module.
fn imports(source: &Path) -> Result<Imports, Unread> {
    let mut files = BTreeMap::new();
    read_module(source, &[], &source.join("lib.rs"), &mut files)?;
    let modules: BTreeSet<String> = files.keys().cloned().collect();
    let resolve = |path: &Vec<String>| {
        let named = (1..=path.len()).rev().map(|length| path[..length].join("::"));
        named.into_iter().find(|module| modules.contains(module))
    };
    let imported = |(module, paths): (String, Vec<Vec<String>>)| {
        let others = paths.iter().filter_map(resolve).filter(|other| *other != module).collect();
        (module, others)
    };
    Ok(files.into_iter().map(imported).collect())
}

/// Reads one file and those of its modules that are not for tests.
fn read_module(
    source: &Path,
    module: &[String],
    file: &Path,
    files: &mut BTreeMap<String, Vec<Vec<String>>>,
) -> Result<(), Unread> {
    let text = std::fs::read_to_string(file).map_err(|cause| Unread::NoFile { file: file.to_owned(), cause })?;
    let parsed = syn::parse_file(&text).map_err(|cause| Unread::NoRust { file: file.to_owned(), cause })?;
    let mut found = Found { module, paths: Vec::new(), modules: Vec::new() };
    found.visit_file(&parsed);
    let Found { paths, modules, .. } = found;
    files.insert(module.join("::"), paths);
    for name in modules {
        let below: Vec<String> = module.iter().cloned().chain([name]).collect();
        read_module(source, &below, &file_of(source, &below), files)?;
    }
    Ok(())
}

fn file_of(source: &Path, module: &[String]) -> PathBuf {
    let path = source.join(module.join("/"));
    let (alone, with_others) = (path.with_extension("rs"), path.join("mod.rs"));
    if alone.exists() { alone } else { with_others }
}

/// What one file names of its own crate.
struct Found<'a> {
    module: &'a [String],
    paths: Vec<Vec<String>>,
    modules: Vec<String>,
}

impl Found<'_> {
    fn note(&mut self, path: &[String]) {
        match path.split_first() {
            Some((first, rest)) if first == "crate" => self.paths.push(rest.to_vec()),
            Some((first, rest)) if first == "self" => {
                self.paths.push(self.module.iter().chain(rest).cloned().collect())
            }
            Some((first, rest)) if first == "super" => {
                let above = self.module.split_last().map_or(&[][..], |(_, above)| above);
                self.paths.push(above.iter().chain(rest).cloned().collect());
            }
            _ => {}
        }
    }

    fn note_tree(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: &syn::Ident| -> Vec<String> { before.iter().cloned().chain([name.to_string()]).collect() };
        match tree {
            UseTree::Path(path) => self.note_tree(&with(&path.ident), &path.tree),
            UseTree::Name(name) => self.note(&with(&name.ident)),
            UseTree::Rename(name) => self.note(&with(&name.ident)),
            UseTree::Glob(_) => self.note(before),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.note_tree(before, tree)),
        }
    }
}

impl<'ast> Visit<'ast> for Found<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        match &item.content {
            Some(_) => visit::visit_item_mod(self, item),
            None => self.modules.push(item.ident.to_string()),
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.note_tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.note(&names);
        visit::visit_path(self, path);
    }
}

/// True for `#[cfg(test)]`, and for what tests of other crates have by a feature.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    let condition = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    condition.filter_map(|attribute| attribute.meta.require_list().ok()).any(|list| {
        let text = list.tokens.to_string();
        !text.starts_with("not") && (text.contains("test") || text.contains("in-memory"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate of these files.
    fn of(files: &[(&str, &str)]) -> Imports {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        imports(folder.path()).unwrap()
    }

    const ROOT: (&str, &str) = ("lib.rs", "mod net; mod state;");

    #[test]
    fn an_import_downward_is_allowed() {
        let imports = of(&[ROOT, ("net.rs", "use crate::state::Session;"), ("state.rs", "")]);
        assert_eq!(upward(&imports), Tally::new(LAYERS.len() as u64, 0));
    }

    #[test]
    fn an_import_upward_is_found_however_it_is_written() {
        for upwards in [
            "use crate::net::Socket;",
            "use crate::{net::Socket, state};",
            "fn f(_: crate::net::Socket) {}",
            "use super::net;",
        ] {
            let imports = of(&[ROOT, ("net.rs", ""), ("state.rs", upwards)]);
            assert_eq!(upward(&imports).failed, 1, "{upwards}");
        }
    }

    #[test]
    fn what_tests_import_counts_for_nothing() {
        let text = "#[cfg(test)] use crate::net::Socket; #[cfg(test)] mod tests { use crate::net::Socket; }";
        let imports = of(&[ROOT, ("net.rs", ""), ("state.rs", text)]);
        assert_eq!(upward(&imports).failed, 0);
    }

    #[test]
    fn a_circle_is_found_where_it_is_large() {
        let circle = |length: usize| {
            let names: Vec<String> = (0..length).map(|number| format!("m{number}")).collect();
            let list: String = names.iter().map(|name| format!("mod {name};")).collect();
            let mut files = vec![("lib.rs".to_owned(), "mod state;".to_owned()), ("state.rs".to_owned(), list)];
            files.extend(
                (0..length).map(|at| (format!("state/m{at}.rs"), format!("use crate::state::m{};", (at + 1) % length))),
            );
            let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
            circles("server", &of(&files))
        };
        assert_eq!(circle(CIRCLE_FILES_MAX), Tally::new(1, 0));
        assert_eq!(circle(CIRCLE_FILES_MAX + 1), Tally::new(0, 1));
    }
}
