//! The files of the page, built into the program.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

macro_rules! files {
    ($(($name:literal, $kind:expr)),* $(,)?) => {
        [$(($name, $kind, include_bytes!(concat!("../../assets/", $name)) as &[u8])),*]
    };
}

/// Each file with its name, its kind and what it has.
static FILES: [(&str, &str, &[u8]); 21] = files![
    ("accounts.js", SCRIPT),
    ("again.js", SCRIPT),
    ("api.js", SCRIPT),
    ("chart.js", SCRIPT),
    ("dialog.js", SCRIPT),
    ("dom.js", SCRIPT),
    ("events.js", SCRIPT),
    ("files.js", SCRIPT),
    ("format.js", SCRIPT),
    ("icon.svg", "image/svg+xml"),
    ("lanes.js", SCRIPT),
    ("list.js", SCRIPT),
    ("main.js", SCRIPT),
    ("metrics.js", SCRIPT),
    ("overview.js", SCRIPT),
    ("page.css", STYLE),
    ("sessions.js", SCRIPT),
    ("shares.js", SCRIPT),
    ("sign_in.js", SCRIPT),
    ("uplot/uPlot.iife.min.js", SCRIPT),
    ("uplot/uPlot.min.css", STYLE),
];
const SHELL: &str = include_str!("../../assets/page.html");

/// Another one for other files, so that browsers keep those of one program for as long as they like.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = DefaultHasher::new();
    FILES.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
});
static SHELL_OF_VERSION: LazyLock<String> =
    LazyLock::new(|| SHELL.replace("{assets}", &format!("/assets/{}", *VERSION)));

/// The document that has the others loaded.
pub(crate) fn shell() -> &'static str {
    &SHELL_OF_VERSION
}

/// A file of this program, and its kind.
pub(crate) fn find(version: &str, name: &str) -> Option<(&'static str, &'static [u8])> {
    let (_, kind, bytes) = FILES.iter().find(|(known, _, _)| *known == name && version == *VERSION)?;
    Some((kind, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a Content-Security-Policy without 'unsafe-inline' refuses, and what would make markup of a text.
    const FORBIDDEN: [&str; 9] = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "style=",
        "onclick=",
        "http://",
    ];

    #[test]
    fn what_is_written_here_makes_no_markup_of_texts_and_asks_nobody_else() {
        let ours = FILES.iter().filter(|(name, _, _)| !name.starts_with("uplot/") && *name != "icon.svg");
        for (name, text) in
            ours.map(|(name, _, bytes)| (*name, String::from_utf8_lossy(bytes))).chain([("page.html", SHELL.into())])
        {
            let text = text.replace("http://www.w3.org/2000/svg", "");
            let found: Vec<&str> = FORBIDDEN.into_iter().filter(|word| text.contains(word)).collect();
            assert!(found.is_empty() && !text.contains("https://"), "{name}: {found:?}");
        }
    }

    /// The scripts cannot ask for the rule, and have it written down.
    #[test]
    fn what_commands_write_out_of_a_text_the_page_writes_out_too() {
        let obeyed: Vec<char> = ('\0'..=char::MAX).filter(|one| insight::shown::is_obeyed(*one)).collect();
        let written = |one: char| match u32::from(one) {
            code @ 0..=0xffff => format!("\\u{code:04x}"),
            code => format!("\\u{{{code:x}}}"),
        };
        let ranges = obeyed.chunk_by(|one, next| u32::from(*one) + 1 == u32::from(*next)).map(|range| match range {
            [one] => written(*one),
            [first, .., last] => format!("{}-{}", written(*first), written(*last)),
            [] => String::new(),
        });
        let rule = format!("/[{}]/gu", ranges.collect::<String>());
        assert!(include_str!("../../assets/dom.js").contains(&rule), "{rule}");
    }

    #[test]
    fn all_that_the_shell_and_the_scripts_load_is_there() {
        let scripts = FILES.iter().filter(|(_, kind, _)| *kind == SCRIPT);
        for (name, _, bytes) in scripts.filter(|(name, _, _)| !name.contains('/')) {
            let text = String::from_utf8_lossy(bytes);
            for import in text.lines().filter(|line| line.starts_with("import ")) {
                let file = import.rsplit('"').nth(1).and_then(|path| path.strip_prefix("./")).unwrap();
                assert!(find(&VERSION, file).is_some(), "{name} imports {file}");
            }
        }
        for part in shell().split("/assets/").skip(1) {
            let (version, rest) = part.split_once('/').unwrap();
            assert!(find(version, rest.split('"').next().unwrap()).is_some(), "{part}");
        }
        assert!(find("0", "main.js").is_none() && find(&VERSION, "../Cargo.toml").is_none());
    }
}
