//! Settings files as operators write them, and wrong ones.

use std::fs;

use clap::CommandFactory;
use control::Fault;

use super::*;

fn parsed(text: &str) -> Result<SettingsFile, Error> {
    SettingsFile::parse("multilane.toml".into(), text, &options_of(&Arguments::command()))
}

/// What is wrong with a file, which names the line, and what is allowed.
fn refused(text: &str) -> String {
    let Err(error) = parsed(text) else { panic!("{text:?} was taken") };
    assert_eq!(error.fault(), Fault::Argument);
    format!("{}; {}", error.what(), error.remedy())
}

#[test]
fn each_option_may_stand_in_the_file_by_its_own_name() {
    let text = "\
# a comment
listen = [\"127.0.0.1:4450\", \"localhost:4451\"]
signing = \"required\"
sealing = 'enabled'
dialect-min = \"3.1.1\"
channels-max = 8
busy-poll = \"200us\"
advertise = \"203.0.113.7,speed=25G,rss\"
advertise-only = true
announce = true
anonymous = \"refused\"
lock-after = 10
lock-for = \"1h\"
metadata-cache = \"1M\"
metrics = 9445
otlp = \"http://127.0.0.1:4318\"
otlp-every = 30
page = 9446
rest = 10004
rest-tls = true
rest-certificate = \"chain.pem\"
rest-key = \"key.pem\"
rest-group = \"tests\"
dev = true
log = \"server=debug,warn\"
log-format = \"json\"
audit-log = \"journald\"
audit-log-max = 0
threads = 0x2
";
    let file = parsed(text).unwrap();
    let known: Vec<String> = options_of(&Arguments::command())
        .iter()
        .filter(|option| !option.is_hide_set())
        .map(|option| option.get_id().to_string())
        .collect();
    let mut named: Vec<String> = file.entries.iter().map(|entry| entry.id.clone()).collect();
    let lines: Vec<usize> = file.entries.iter().map(|entry| entry.line).collect();
    assert_eq!(lines, (2..=29).collect::<Vec<_>>());
    named.sort();
    let mut all = known.clone();
    all.sort();
    assert_eq!(named, all, "an option is missing here");
    assert_eq!(file.entries[0].values, ["127.0.0.1:4450", "localhost:4451"]);
    assert_eq!(file.entries.last().unwrap().values, ["2"]);
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_what_is_allowed() {
    for (text, parts) in [
        ("signing = \"required\"\n\nsealing = \"on\"\n", &["line 3: sealing: ", "required or enabled"][..]),
        ("thread = 4", &["line 1: there is no option thread", "threads"]),
        ("\ndialect_min = \"3.0\"", &["line 2: there is no option dialect_min", "it is spelled dialect-min"]),
        ("channels-max = 33", &["line 1: channels-max: ", "1..=32"]),
        ("channels-max = true", &["line 1: channels-max: true is no value"]),
        ("threads = 1.5", &["line 1: threads: 1.5 is no value"]),
        ("threads = [1]", &["line 1: threads: ", "is no value"]),
        ("listen = []", &["line 1: listen: ", "is no value"]),
        ("listen = [\"127.0.0.1:4450\",\n\"here\"]", &["line 1: listen: \"here\" is no place to listen"]),
        ("advertise-only = \"true\"", &["line 1: advertise-only: ", "use true or false"]),
        ("busy-poll = \"1s\"", &["line 1: busy-poll: \"1s\" is no time to poll", "off, auto"]),
        ("log = \"loud\"", &["line 1: log: ", "\"loud\" is no level", "off, error, warn"]),
        ("[serve]\nthreads = 1", &["line 1: there is no option serve"]),
        ("[threads]\nn = 1", &["line 1: threads: options stand in no section"]),
        ("signing = required", &["line 1: this is no TOML", "quotation marks"]),
        ("threads = 1\nthreads = 2", &["line 2: this is no TOML"]),
        ("config = \"/etc/x\"", &["line 1: there is no option config"]),
        ("data = \"/var/lib/x\"", &["line 1: there is no option data"]),
        ("json = true", &["line 1: there is no option json"]),
    ] {
        let complaint = refused(text);
        for part in parts {
            assert!(complaint.contains(part), "{part} in {complaint}");
        }
    }
}

#[test]
fn the_file_of_the_packages_may_have_each_of_its_comments_taken_away() {
    let text = include_str!("../../../../packaging/multilane.toml");
    assert_eq!(parsed(text).unwrap().entries.len(), 1);
    let is_example = |line: &str| line.starts_with('#') && line.contains(" = ");
    let all: String =
        text.lines().map(|line| format!("{}\n", if is_example(line) { &line[1..] } else { line })).collect();
    assert!(parsed(&all).unwrap().entries.len() > 10, "{all}");
}

#[test]
fn the_documentation_has_each_option_and_whether_it_needs_a_restart() {
    let text = include_str!("../../../../docs/OPTIONS.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let documented: Vec<(&str, bool)> = rows
        .map(|row| {
            let (name, rest) = row.split_once("` | ").unwrap();
            (name, rest.starts_with("yes |"))
        })
        .collect();
    let command = Arguments::command();
    let options = command.find_subcommand(SERVE).unwrap().get_arguments().filter(|option| !option.is_hide_set());
    let live = |name: &str| {
        let option = ServeOption { name: name.to_owned(), value: None, from: None };
        option.view(Some(&settings())).live
    };
    let known: Vec<(&str, bool)> =
        options.filter_map(|option| option.get_long()).map(|name| (name, live(name))).collect();
    assert_eq!(documented, known);
    // What `server set` keeps is named before the table.
    let (before, _) = text.split_once("## The options").unwrap();
    let (_, kept) = before.split_once("`server set` keeps these:").unwrap();
    for view in settings().views() {
        assert!(kept.contains(&format!("`{}`", view.name)), "{}", view.name);
    }
}

/// Those of a new catalog.
fn settings() -> control::StoredSettings {
    let place = tempfile::tempdir().unwrap();
    let folder = control::DataFolder::create(place.path()).unwrap();
    control::Catalog::open(&folder).unwrap().settings().unwrap()
}

#[test]
fn a_file_that_cannot_be_looked_at_is_not_taken_for_none() {
    let place = tempfile::tempdir().unwrap();
    assert_eq!(file::default_place(place.path()), None);
    assert_eq!(file::default_place(&place.path().join("missing")), None);
    std::os::unix::fs::symlink("multilane.toml", place.path().join("multilane.toml")).unwrap();
    let found = file::default_place(place.path());
    assert!(SettingsFile::read(found, &[]).is_err_and(|error| error.what().contains("cannot be read")));
    fs::write(place.path().join("file"), "").unwrap();
    assert!(file::default_place(&place.path().join("file")).is_some());
    // Nobody writes to it, and nobody waits for that.
    let pipe = place.path().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert!(SettingsFile::read(Some(pipe), &[]).unwrap().unwrap().entries.is_empty());
}

#[test]
fn a_file_of_somebody_else_or_that_everybody_may_write_to_or_that_is_no_text_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("multilane.toml");
    let options = options_of(&Arguments::command());
    let read = || SettingsFile::read(Some(path.clone()), &options);
    assert!(read().is_err_and(|error| error.what().contains("cannot be read")));
    fs::write(&path, "threads = 2\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(read().unwrap().unwrap().entries.len(), 1);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o646)).unwrap();
    assert!(read().is_err_and(|error| error.remedy().contains("chmod o-w")));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    // Who is not root gives no files away.
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
        assert!(read().is_err_and(|error| error.what().contains("belongs to user 12345")));
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
    }
    fs::write(&path, b"\xff\xfe").unwrap();
    assert!(read().is_err_and(|error| error.what().contains("no settings file")));
    fs::write(&path, "#".repeat(300 << 10)).unwrap();
    assert!(read().is_err_and(|error| error.what().contains("no settings file")));
}
