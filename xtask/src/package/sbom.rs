//! What is built into the program, in CycloneDX's words: a file beside the packages, for who has to know whether a crate with a hole is in it.

use std::fs;
use std::path::PathBuf;

use crate::package::build::Made;
use crate::package::{Broken, folder, tools};
use crate::run::root;

/// What the tool calls the file that it writes beside each manifest, without `.json`.
const NAME: &str = "package-sbom";

pub(super) fn write(made: &Made) -> Result<PathBuf, Broken> {
    let mut command = tools::CYCLONEDX.command()?;
    command.args(["cyclonedx", "--quiet", "--format", "json", "--spec-version", "1.5", "--no-build-deps"]);
    command.args(["--override-filename", NAME, "--manifest-path", "crates/multilane/Cargo.toml"]);
    let outcome = made.run(&mut command);
    let text = fs::read_to_string(beside("crates/multilane")).map_err(Broken::at(&beside("crates/multilane")));
    // It writes one for each crate of the workspace.
    let crates = fs::read_dir(root().join("crates")).map_err(Broken::at(&root()))?.flatten();
    let folders = crates.map(|folder| format!("crates/{}", folder.file_name().to_string_lossy()));
    for folder in folders.chain(["xtask".to_owned()]) {
        // Where that fails there was none.
        let _ = fs::remove_file(beside(&folder));
    }
    outcome?;
    let path = folder().join(format!("multilane-{}.cdx.json", made.version));
    let whole = anywhere(&text?, &root().to_string_lossy());
    fs::write(&path, whole).map_err(Broken::at(&path))?;
    Ok(path)
}

/// The file that the tool writes into this folder.
fn beside(folder: &str) -> PathBuf {
    root().join(folder).join(NAME).with_extension("json")
}

/// The same of a checkout that may be anywhere.
fn anywhere(text: &str, root: &str) -> String {
    text.replace(root, "/build/multilane")
}
