//! The files of a comparison: where they lie, how they are made, and how they go.

use ::client::{Access, Disposition, Error, OpenOptions, Status, Tree};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::plan::Plan;
use crate::engine::Stop;

/// Bytes of each file.
pub(super) const FILE_BYTES: usize = 4 << 10;
/// Files on their way at once while they are made and removed.
const AT_ONCE: usize = 32;

/// Where the files lie in a server's share.
#[derive(Clone, Debug)]
pub(super) struct Files {
    /// The folder that has all of it.
    root: String,
    folders: usize,
    pub(super) count: usize,
}

impl Files {
    /// Below `folder` of a share, with a name that no other comparison has at the same time.
    pub(super) fn new(plan: &Plan, folder: &str) -> Self {
        let name = format!("multilane-compare-{}", std::process::id());
        let root = if folder.is_empty() { name } else { format!("{folder}\\{name}") };
        Files { root, folders: plan.folders(), count: plan.files }
    }

    /// The path of a file. One after the other they go through all folders in turn.
    pub(super) fn path(&self, number: usize) -> String {
        format!("{}\\file-{number}", self.folder(number))
    }

    /// The path of a file that a client makes.
    pub(super) fn new_path(&self, client: usize, number: usize) -> String {
        format!("{}\\new-{client}-{number}", self.folder(number))
    }

    fn folder(&self, number: usize) -> String {
        format!("{}\\folder-{}", self.root, number % self.folders)
    }

    /// Makes all folders and files.
    pub(super) async fn make(&self, tree: &Tree, stop: &Stop) -> Result<(), Error> {
        tree.make_directory(&self.root).await?;
        for number in 0..self.folders {
            tree.make_directory(&self.folder(number)).await?;
        }
        let content = vec![0x5a; FILE_BYTES];
        let make = async |number| {
            if stop.is_asked() {
                return Ok(());
            }
            let file = tree.open(&self.path(number), making()).await?;
            let written = file.write(0, content.clone()).await;
            written.and(file.close().await)
        };
        stream::iter(0..self.count).map(make).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Removes whatever is there of it, files that clients made included.
    pub(super) async fn remove(&self, tree: &Tree) -> Result<(), Error> {
        for number in 0..self.folders {
            let folder = self.folder(number);
            let entries = match tree.entries(&folder).await {
                Ok(entries) => entries,
                Err(error) if is_missing(&error) => continue,
                Err(error) => return Err(error),
            };
            let remove = async |name: String| tree.remove(&format!("{folder}\\{name}")).await;
            let names = entries.into_iter().map(|entry| entry.name);
            stream::iter(names).map(remove).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
            tree.remove(&folder).await?;
        }
        match tree.remove(&self.root).await {
            Err(error) if !is_missing(&error) => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// How a file is made.
pub(super) fn making() -> OpenOptions {
    OpenOptions {
        access: Access::Write,
        disposition: Disposition::Create,
        directory: Some(false),
        ..OpenOptions::default()
    }
}

fn is_missing(error: &Error) -> bool {
    matches!(error.status(), Some(Status::OBJECT_NAME_NOT_FOUND | Status::OBJECT_PATH_NOT_FOUND))
}

#[cfg(test)]
mod tests {
    use super::super::plan::Choice;
    use super::*;

    #[test]
    fn files_go_through_all_folders_in_turn() {
        let plan = Plan::of(&Choice { files: Some(250), ..Choice::default() }).unwrap();
        let root = format!("multilane-compare-{}", std::process::id());
        let files = Files::new(&plan, "");
        assert_eq!(files.path(4), format!("{root}\\folder-1\\file-4"));
        assert_eq!(Files::new(&plan, "a\\b").new_path(7, 2), format!("a\\b\\{root}\\folder-2\\new-7-2"));
    }
}
