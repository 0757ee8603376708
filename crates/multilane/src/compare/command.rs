//! The command that repeats a comparison, as its document shows it.

use std::ffi::OsString;

/// What says where results go, and where in a network that was built this runs: it changes nothing of what is measured.
const LEFT_OUT: [&str; 4] = ["--json", "--html", "--markdown", "--inside"];

/// A line for a shell, from the program's arguments.
pub(super) fn line(arguments: impl Iterator<Item = OsString>) -> String {
    let mut line = "multilane".to_owned();
    let mut arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    while let Some(argument) = arguments.next() {
        let (name, value) =
            argument.split_once('=').map_or((argument.as_str(), None), |(name, value)| (name, Some(value)));
        if LEFT_OUT.contains(&name) {
            if value.is_none() {
                arguments.next();
            }
            continue;
        }
        line.push(' ');
        line.push_str(&quoted(&argument));
    }
    line
}

/// So that a shell takes it as one word.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> String {
        line(words.iter().map(OsString::from))
    }

    #[test]
    fn where_results_go_is_left_out() {
        let words =
            ["compare", "--quick", "--json", "a.json", "--html=-", "--block", "4K", "--markdown", "b.md", "--inside=x"];
        assert_eq!(of(&words), "multilane compare --quick --block 4K");
    }

    #[test]
    fn words_that_a_shell_would_take_apart_are_quoted() {
        let words = ["compare", "--server", r"\\nas\it's", "--against", "smb://alice@nas/media"];
        assert_eq!(of(&words), r"multilane compare --server '\\nas\it'\''s' --against smb://alice@nas/media");
    }
}
