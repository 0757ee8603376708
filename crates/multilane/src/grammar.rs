//! The rules that the whole command line keeps: one verb for each deed, one spelling for a thing, a sentence for everything. Older spellings are
//! hidden aliases.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Arg, ArgAction, Command, CommandFactory};

use crate::arguments::Arguments;

/// What there is several of, each with its own commands.
const KINDS: [&str; 5] = ["account", "group", "operator", "share", "user"];
/// What other programs call these deeds, and we do not: `create`, `delete`, `show`, `list`, `update`, `passwd`.
const OTHER_VERBS: [&str; 15] = [
    "add", "change", "del", "destroy", "describe", "edit", "get", "info", "make", "modify", "new", "password",
    "remove", "rm", "view",
];
/// Where one of them is the right word: members of a group, and the commands that work as the shell's own.
const RIGHT_THERE: [&str; 4] = ["group add", "group remove", "get", "rm"];
/// The letters that the shell's own commands have.
const SHORT: [(&str, char); 3] = [("ls", 'l'), ("mkdir", 'p'), ("rm", 'r')];

/// Calls `look` with each command that is shown, and its whole name.
fn each_command(look: &mut dyn FnMut(&str, &Command)) {
    fn below(command: &Command, name: &str, look: &mut dyn FnMut(&str, &Command)) {
        for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
            let name = format!("{name} {}", one.get_name()).trim().to_owned();
            look(&name, one);
            below(one, &name, look);
        }
    }
    let mut whole = Arguments::command();
    whole.build();
    below(&whole, "", look);
}

/// Options and other arguments of a command that are shown, but for those that all have.
fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    let of_all = ["help", "version", "data"];
    command.get_arguments().filter(move |arg| !arg.is_hide_set() && !of_all.contains(&arg.get_id().as_str()))
}

/// The name that a value has in the help.
fn value_name(arg: &Arg) -> Option<String> {
    arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string)
}

fn takes_a_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

fn is_kebab(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

#[test]
fn each_kind_is_made_listed_and_deleted_by_the_same_verbs_and_no_other_word_is_used() {
    let mut verbs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    each_command(&mut |name, command| {
        assert!(is_kebab(command.get_name()), "{name}");
        let verb = name.rsplit(' ').next().unwrap_or_default();
        assert!(!OTHER_VERBS.contains(&verb) || RIGHT_THERE.contains(&name), "`{name}` has another word for its deed");
        if let Some((kind, verb)) = name.split_once(' ') {
            verbs.entry(kind.to_owned()).or_default().insert(verb.to_owned());
        }
    });
    for kind in KINDS {
        for verb in ["create", "delete", "list"] {
            assert!(verbs[kind].contains(verb), "there is no `{kind} {verb}`");
        }
    }
}

#[test]
fn everything_has_a_sentence() {
    let is_sentence = |text: &str| text.starts_with(|first: char| !first.is_lowercase()) && !text.ends_with(['.', ' ']);
    each_command(&mut |name, command| {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(about.len() > 3 && is_sentence(&about), "{name}: {about:?}");
        let is_value_of_a_setting = name.starts_with("server set ");
        for arg in arguments(command).filter(|_| !is_value_of_a_setting) {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.len() > 3 && is_sentence(&help), "{name}: {}: {help:?}", arg.get_id());
        }
    });
}

#[test]
fn an_option_is_spelled_in_one_way_and_switches_are_on_or_off() {
    each_command(&mut |name, command| {
        for arg in arguments(command) {
            if let Some(long) = arg.get_long() {
                assert!(is_kebab(long), "{name} --{long}");
            }
            if let Some(short) = arg.get_short() {
                assert!(SHORT.contains(&(name, short)), "{name} -{short}: only what the shell's own commands have");
            }
            let values: Vec<String> =
                arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
            let is_switch =
                ["on", "off", "true", "false", "yes", "no"].iter().any(|word| values.contains(&(*word).to_owned()));
            if is_switch && takes_a_value(arg) {
                assert_eq!(values, ["on", "off"], "{name} {}", arg.get_id());
                assert_eq!(value_name(arg).as_deref(), Some("on|off"), "{name} {}", arg.get_id());
            }
        }
    });
}

#[test]
fn one_name_of_an_option_takes_one_kind_of_value() {
    // What a table or a list of the same name is about differs, and so does what is measured.
    let differ = [
        "json",
        "metrics",
        "filter",
        "server",
        "channels",
        "op",
        "table",
        "set",
        "write",
        "seconds",
        "time-machine",
        "unix-owner",
    ];
    let mut seen: BTreeMap<String, BTreeMap<Option<String>, String>> = BTreeMap::new();
    each_command(&mut |name, command| {
        for arg in arguments(command).filter(|arg| arg.get_long().is_some_and(|long| !differ.contains(&long))) {
            let long = arg.get_long().unwrap_or_default().to_owned();
            // A switch may be a flag where a thing is made, and have a value where it is changed.
            let value = takes_a_value(arg).then(|| value_name(arg)).flatten().filter(|value| value != "on|off");
            seen.entry(long).or_default().insert(value, name.to_owned());
        }
    });
    for (option, values) in seen {
        assert_eq!(values.len(), 1, "--{option} is several things: {values:?}");
    }
}

#[test]
fn sizes_are_written_in_one_way() {
    each_command(&mut |name, command| {
        for arg in arguments(command) {
            let samples: &[&str] = match value_name(arg).as_deref() {
                Some("SIZE") => &["64K", "64KiB", "1M", "64M", "4G", "500G", "500g", "500GiB"],
                Some("GIB") => &["1024", "1024G", "1T", "1024GiB"],
                Some(_) | None => continue,
            };
            let long = arg.get_long().unwrap_or_default();
            let takes = |text: &&&str| {
                let parser = Command::new("one").no_binary_name(true).arg(bare(arg));
                parser.try_get_matches_from([format!("--{long}={text}")]).is_ok()
            };
            let taken: Vec<&&str> = samples.iter().filter(takes).collect();
            // Bounds differ; the letters do not.
            let is_of_gib = value_name(arg).as_deref() == Some("GIB");
            assert!(
                if is_of_gib { taken.len() == samples.len() } else { taken.len() >= 3 },
                "{name} --{long}: {taken:?}"
            );
        }
    });
}

/// An option without what it says of others.
fn bare(arg: &Arg) -> Arg {
    let parser = arg.get_value_parser().clone();
    Arg::new("one").long(arg.get_long().unwrap_or_default().to_owned()).value_parser(parser)
}

#[test]
fn older_spellings_go_on_working_and_are_not_shown() {
    for words in [
        &["user", "add", "alice"][..],
        &["user", "password", "alice"],
        &["user", "remove", "alice"],
        &["share", "update", "media", "--read-only", "false"],
        &["account", "update", "abc", "--multichannel", "true"],
        &["advise", "--provisioned-gib", "1024"],
        &["compare", "--depth", "4"],
    ] {
        let words = ["multilane"].iter().chain(words);
        assert!(Arguments::command().try_get_matches_from(words.clone()).is_ok(), "{words:?}");
    }
    each_command(&mut |name, command| {
        assert_eq!(command.get_visible_aliases().count(), 0, "{name}");
        assert!(arguments(command).all(|arg| arg.get_visible_aliases().is_none_or(|all| all.is_empty())), "{name}");
    });
}
