//! What is logged: a level, and other levels for parts of the program.

use std::fmt;
use std::str::FromStr;

use control::Error;
use tracing_subscriber::filter::{LevelFilter, Targets};

/// The crates that log. Behind one of them a filter may name a module: `server::net`.
const PARTS: [&str; 13] = [
    "azure",
    "busy_poll",
    "client",
    "control",
    "insight",
    "load",
    "multilane",
    "netif",
    "secure",
    "server",
    "store",
    "web",
    "wire",
];
const LEVELS: [(&str, LevelFilter); 6] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];
/// Bytes in a filter, which crosses the admin socket.
const BYTES_MAX: usize = 1024;

/// A filter: a text that was read, and what it lets pass.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Filter {
    text: String,
    targets: Targets,
}

impl Filter {
    pub(super) fn targets(&self) -> Targets {
        self.targets.clone()
    }
}

impl Default for Filter {
    fn default() -> Self {
        Filter { text: "info".to_owned(), targets: Targets::new().with_default(LevelFilter::INFO) }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl FromStr for Filter {
    type Err = Error;

    /// Reads `LEVEL` and `PART=LEVEL`, separated by commas. What no word is about is not logged.
    fn from_str(text: &str) -> Result<Self, Error> {
        if text.len() > BYTES_MAX {
            return Err(not_a_filter(&format!("it has more than {BYTES_MAX} bytes")));
        }
        let mut targets = Targets::new();
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        for word in &words {
            targets = match word.split_once('=') {
                Some((part, name)) => targets.with_target(part_of(part.trim())?, level(name.trim())?),
                None => targets.with_default(level(word)?),
            };
        }
        Ok(Filter { text: words.join(","), targets })
    }
}

fn level(name: &str) -> Result<LevelFilter, Error> {
    let found = LEVELS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, level)| *level).ok_or_else(|| not_a_filter(&format!("{name:?} is no level")))
}

fn part_of(name: &str) -> Result<&str, Error> {
    let part = name.split_once("::").map_or(name, |(part, _)| part);
    if PARTS.contains(&part) { Ok(name) } else { Err(not_a_filter(&format!("{name:?} is no part of the program"))) }
}

fn not_a_filter(why: &str) -> Error {
    let levels = LEVELS.map(|(name, _)| name).join(", ");
    Error::argument(
        format!("the filter of the log is not understood: {why}"),
        format!(
            "use a level ({levels}), or levels of parts ({}) separated by commas, such as `info` or `server=debug,warn`",
            PARTS.join(", ")
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use control::Fault;
    use tracing::Level;

    use super::*;

    #[test]
    fn levels_and_parts_let_pass_what_they_name() {
        let filter: Filter = "server=debug, WARN,store::directory=off".parse().unwrap();
        assert_eq!(filter.to_string(), "server=debug,WARN,store::directory=off");
        let passes = |target, level| filter.targets.would_enable(target, &level);
        assert!(passes("server::net::shard", Level::DEBUG) && !passes("server::net::shard", Level::TRACE));
        assert!(passes("control::reload", Level::WARN) && !passes("control::reload", Level::INFO));
        assert!(passes("store::ram", Level::WARN) && !passes("store::directory::file", Level::ERROR));
        let server: Filter = "server=info".parse().unwrap();
        assert!(!server.targets.would_enable("control", &Level::ERROR));
    }

    #[test]
    fn what_means_nothing_is_refused_with_what_is_allowed() {
        let long = "a".repeat(BYTES_MAX + 1);
        for text in ["", ",", "bogus", "verbose", "info,", "servr=debug", "server=", "server=5", "=info", "a b", &long]
        {
            let error = text.parse::<Filter>().expect_err(text);
            assert_eq!(error.fault(), Fault::Argument);
            assert!(error.remedy().contains("off, error, warn, info, debug, trace"), "{}", error.remedy());
            assert!(error.remedy().contains("server=debug,warn"), "{}", error.remedy());
        }
    }

    #[test]
    fn every_crate_may_be_named() {
        let crates = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
        let crates: BTreeSet<String> = crates.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(crates, PARTS.map(str::to_owned).into());
    }
}
