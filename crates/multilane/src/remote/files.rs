//! `ls`, `stat`, `mkdir` and `rm`.

use ::client::{Entry, FileAttributes, FileTime, Status, Tree};
use control::Error;
use jiff::Timestamp;
use load::figures::bytes;
use serde::Serialize;

use super::arguments::{List, Login, Make, Remove, Stat};
use super::place::Place;
use super::{failed, runtime, shares, sign_in};
use crate::output::{Deleted, Output};
use crate::table::{Table, printable};

/// A file or directory as `--json` prints it.
#[derive(Serialize)]
struct Shown {
    name: String,
    kind: &'static str,
    size: u64,
    allocated: u64,
    created: String,
    written: String,
    changed: String,
    attributes: Vec<&'static str>,
}

/// One by itself, as `--json` prints it.
#[derive(Serialize)]
struct Looked {
    #[serde(flatten)]
    one: Shown,
    /// Where it leads, where it is a symbolic link.
    link: Option<String>,
}

/// What was made, as `--json` prints it.
#[derive(Serialize)]
struct Made {
    made: String,
}

pub(crate) fn list(arguments: &List, output: Output) -> Result<(), Error> {
    let Some(place) = arguments.place.clone().place() else {
        return shares::list(&arguments.place, arguments, output);
    };
    let mut entries = with_tree(&place, &arguments.login, async |tree: Tree| {
        let path = &place.path;
        match tree.entries(path).await {
            Err(error) if error.status() == Some(Status::NOT_A_DIRECTORY) => {
                Ok(vec![Entry { name: place.name().to_owned(), facts: tree.facts(path).await?, id: 0 }])
            }
            listed => listed,
        }
    })?;
    entries.sort_by_cached_key(|entry| entry.name.to_lowercase());
    let entries: Vec<Shown> = entries.into_iter().map(shown).collect();
    output.print(&entries, |entries| if arguments.long { long(entries) } else { short(entries) })
}

pub(crate) fn stat(arguments: &Stat, output: Output) -> Result<(), Error> {
    let (facts, link) = with_tree(&arguments.place, &arguments.login, async |tree: Tree| {
        let facts = tree.facts(&arguments.place.path).await?;
        let is_link = facts.attributes.contains(FileAttributes::REPARSE_POINT);
        let link = if is_link { tree.link(&arguments.place.path).await? } else { None };
        Ok((facts, link))
    })?;
    let one = shown(Entry { name: arguments.place.to_string(), facts, id: 0 });
    output.print(&Looked { one, link }, |Looked { one, link }| {
        let link = link.as_ref().map(|to| format!("Leads to    {}\n", printable(to))).unwrap_or_default();
        format!(
            "Name        {}\nKind        {}\n{link}Size        {} ({} bytes)\nAllocated   {}\nCreated     {}\nWritten     {}\nChanged     {}\nAttributes  {}\n",
            printable(&one.name),
            one.kind,
            bytes(one.size),
            one.size,
            bytes(one.allocated),
            one.created,
            one.written,
            one.changed,
            one.attributes.join(" "),
        )
    })
}

pub(crate) fn make(arguments: &Make, output: Output) -> Result<(), Error> {
    let path = &arguments.place.path;
    with_tree(&arguments.place, &arguments.login, async |tree: Tree| match arguments.parents {
        true => make_with_parents(&tree, path).await,
        false => tree.make_directory(path).await,
    })?;
    output.print(&Made { made: arguments.place.to_string() }, |made| format!("made {}\n", printable(&made.made)))
}

pub(crate) fn remove(arguments: &Remove, output: Output) -> Result<(), Error> {
    let place = &arguments.place;
    if place.path.is_empty() {
        return Err(Error::argument("a share's root cannot be removed", "name what is in it"));
    }
    with_tree(place, &arguments.login, async |tree: Tree| {
        let is_tree = arguments.recursive && is_directory(&tree, &place.path).await?;
        if is_tree { remove_tree(&tree, &place.path).await } else { tree.remove(&place.path).await }
    })?;
    output
        .print(&Deleted { deleted: &place.to_string() }, |deleted| format!("removed {}\n", printable(deleted.deleted)))
}

/// Makes a directory and those above it, as far as they are missing.
pub(crate) async fn make_with_parents(tree: &Tree, path: &str) -> Result<(), ::client::Error> {
    let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
    for end in ends.filter(|end| *end > 0) {
        match tree.make_directory(&path[..end]).await {
            Err(error) if error.status() == Some(Status::OBJECT_NAME_COLLISION) => {}
            made => made?,
        }
    }
    Ok(())
}

/// True for a directory that is no link: what a link leads to stays.
async fn is_directory(tree: &Tree, path: &str) -> Result<bool, ::client::Error> {
    let facts = tree.facts(path).await?;
    Ok(facts.is_directory() && !facts.attributes.contains(FileAttributes::REPARSE_POINT))
}

async fn remove_tree(tree: &Tree, path: &str) -> Result<(), ::client::Error> {
    // Directories in the order they were found: each after those that it is in.
    let mut directories = vec![path.to_owned()];
    let mut next = 0;
    while let Some(directory) = directories.get(next).cloned() {
        next += 1;
        for entry in tree.entries(&directory).await? {
            let path = format!("{directory}/{}", entry.name);
            if entry.facts.is_directory() && !entry.facts.attributes.contains(FileAttributes::REPARSE_POINT) {
                directories.push(path);
            } else {
                tree.remove(&path).await?;
            }
        }
    }
    for directory in directories.iter().rev() {
        tree.remove(directory).await?;
    }
    Ok(())
}

/// Signs in, connects to the share, does the work and signs out.
fn with_tree<T>(
    place: &Place,
    login: &Login,
    work: impl AsyncFnOnce(Tree) -> Result<T, ::client::Error>,
) -> Result<T, Error> {
    runtime()?.block_on(async {
        let session = sign_in(place, login).await?;
        let tree = session.tree(&place.share).await.map_err(failed)?;
        let done = work(tree).await.map_err(failed);
        // What was done is done, whether the server says goodbye or not.
        let _ = session.close().await;
        done
    })
}

fn shown(entry: Entry) -> Shown {
    let facts = entry.facts;
    let kind = match (facts.attributes.contains(FileAttributes::REPARSE_POINT), facts.is_directory()) {
        (true, _) => "link",
        (false, true) => "directory",
        (false, false) => "file",
    };
    Shown {
        name: entry.name,
        kind,
        size: facts.end_of_file,
        allocated: facts.allocation,
        created: time(facts.created),
        written: time(facts.written),
        changed: time(facts.changed),
        attributes: attributes(facts.attributes),
    }
}

fn attributes(set: FileAttributes) -> Vec<&'static str> {
    const NAMES: [(FileAttributes, &str); 8] = [
        (FileAttributes::READONLY, "ReadOnly"),
        (FileAttributes::HIDDEN, "Hidden"),
        (FileAttributes::SYSTEM, "System"),
        (FileAttributes::DIRECTORY, "Directory"),
        (FileAttributes::ARCHIVE, "Archive"),
        (FileAttributes::TEMPORARY, "Temporary"),
        (FileAttributes::SPARSE_FILE, "SparseFile"),
        (FileAttributes::REPARSE_POINT, "ReparsePoint"),
    ];
    NAMES.into_iter().filter(|(attribute, _)| set.contains(*attribute)).map(|(_, name)| name).collect()
}

fn short(entries: &[Shown]) -> String {
    let line =
        |entry: &Shown| format!("{}{}\n", printable(&entry.name), if entry.kind == "directory" { "/" } else { "" });
    entries.iter().map(line).collect()
}

fn long(entries: &[Shown]) -> String {
    let mut table = Table::new(["KIND", "SIZE", "WRITTEN", "NAME"]);
    for entry in entries {
        table.row([entry.kind.to_owned(), bytes(entry.size), entry.written.clone(), entry.name.clone()]);
    }
    table.text()
}

/// As RFC 3339 has it, in UTC and whole seconds; empty where there is none, or one after the year 9999, which it cannot say.
fn time(time: FileTime) -> String {
    let second = Timestamp::from_second(time.to_unix().0).ok().filter(|_| time != FileTime(0));
    second.map_or_else(String::new, |second| second.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_219_199, "2026-11-20T23:59:59Z"),
            (-1, "1969-12-31T23:59:59Z"),
        ] {
            assert_eq!(time(FileTime::from_unix(seconds, 0)), text);
        }
        for none in [FileTime(0), FileTime(i64::MAX as u64), FileTime(u64::MAX)] {
            assert_eq!(time(none), "");
        }
    }
}
