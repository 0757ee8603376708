//! The commands that are a client, against the built server on a loopback port.

mod served;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::served::Served;

/// A server, and who asks for something there.
struct Place(Served);

impl Place {
    fn new() -> Self {
        Place(Served::new())
    }

    fn at(&self, path: &str) -> String {
        format!("smb://local@127.0.0.1:{}/share/{path}", self.0.port)
    }

    fn local(&self, path: &str) -> PathBuf {
        self.0.folder.path().join(path)
    }

    /// A file of the share, as it lies on this machine.
    fn served(&self, path: &str) -> PathBuf {
        self.local("data/share").join(path)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.0.program(arguments);
        command.env("MULTILANE_PASSWORD", &self.0.password).env_remove("MULTILANE_USER");
        command.current_dir(self.0.folder.path()).output().unwrap()
    }

    fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.done(&[arguments, &["--json"]].concat())).unwrap()
    }

    fn refused(&self, arguments: &[&str], code: i32) -> String {
        let output = self.run(arguments);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {complaint}");
        assert!(complaint.contains("\nhelp: ") || complaint.contains("; use "), "it says what to do: {complaint}");
        complaint
    }
}

fn content(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| (at / 251) as u8 ^ at as u8 ^ seed).collect()
}

fn tree(root: &Path) {
    fs::create_dir_all(root.join("deep/er")).unwrap();
    fs::create_dir_all(root.join("empty")).unwrap();
    for (number, path) in ["a", "deep/b", "deep/er/c", "größe"].iter().enumerate() {
        fs::write(root.join(path), content(number * 1_500_000 + 1, number as u8)).unwrap();
    }
}

fn same(a: &Path, b: &Path) {
    for path in ["a", "deep/b", "deep/er/c", "größe"] {
        assert!(fs::read(a.join(path)).unwrap() == fs::read(b.join(path)).unwrap(), "{path}");
    }
    assert!(b.join("empty").is_dir());
}

#[test]
fn trees_are_copied_both_ways_and_only_once() {
    let place = Place::new();
    let (there, back) = (place.local("there"), place.local("back"));
    tree(&there);
    let target = place.at("some/where");
    let up = place.json(&["cp", there.to_str().unwrap(), &target, "--verify", "--threads", "4"]);
    assert_eq!((&up["files"], &up["failed"], &up["verified"]), (&4.into(), &0.into(), &true.into()));
    let down = place.json(&["cp", &target, back.to_str().unwrap(), "--verify", "--channels", "4"]);
    assert_eq!(down["files"], 4);
    same(&there, &back);
    let listed = place.json(&["ls", &target]);
    assert_eq!(listed.as_array().unwrap().len(), 4, "no temporary name stays: {listed}");

    for (source, target) in [(there.to_str().unwrap(), &target[..]), (&target, back.to_str().unwrap())] {
        let again = place.json(&["cp", source, target]);
        assert_eq!((&again["files"], &again["passed_over"], &again["bytes"]), (&0.into(), &4.into(), &0.into()));
    }
    fs::write(there.join("a"), b"new").unwrap();
    assert_eq!(place.json(&["cp", there.to_str().unwrap(), &target])["files"], 1);
}

/// Nobody may take a copy for whole that is not, nor lose all of it for one name.
#[test]
fn what_cannot_be_copied_is_told_and_all_else_is_copied() {
    let place = Place::new();
    let there = place.local("there");
    let names: [&[u8]; 8] =
        [b"README", b"readme", b"Dir/a", b"dir/A", b"12:30 notes", b"q?q", b"no \xff text", b".multilane/of another"];
    for name in names {
        let path = there.join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    let target = place.at("mig");
    let said = place.run(&["put", there.to_str().unwrap(), &target, "--verify", "--json"]);
    let told = String::from_utf8(said.stderr).unwrap();
    assert!(!said.status.success() && told.contains("2 files and directories were not copied"), "{told}");
    assert!(told.contains("not copied: readme: ") && told.contains("not copied: dir: "), "{told}");
    assert!(told.contains("left out: .multilane is what a server keeps for itself"), "{told}");
    let copied: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!((&copied["files"], &copied["failed"], &copied["left_out"]), (&5.into(), &2.into(), &1.into()));
    let copied: [&[u8]; 5] = [b"README", b"Dir/a", b"12:30 notes", b"q?q", b"no \xff text"];
    for name in copied {
        assert_eq!(
            fs::read(place.served("mig").join(OsStr::from_bytes(name))).unwrap(),
            name,
            "it lies so on the server"
        );
    }
    place.done(&["get", &target, "back"]);
    for name in copied {
        assert_eq!(fs::read(place.local("back").join(OsStr::from_bytes(name))).unwrap(), name, "it comes back so");
    }

    // A file where a directory is to be.
    fs::remove_dir_all(place.served("mig/Dir")).unwrap();
    fs::write(place.served("mig/Dir"), b"in the way").unwrap();
    fs::remove_dir_all(there.join("dir")).unwrap();
    fs::remove_file(there.join("readme")).unwrap();
    fs::write(there.join("last"), b"last").unwrap();
    let said = place.run(&["put", there.to_str().unwrap(), &target]);
    let told = String::from_utf8(said.stderr).unwrap();
    assert!(told.contains("not copied: Dir: ") && told.contains("2 files and directories were not copied"), "{told}");
    assert_eq!(fs::read(place.served("mig/last")).unwrap(), b"last");
}

/// Changes bytes of a file, and neither its length nor its times.
fn damage(path: &Path, places: &[usize]) {
    let mut bytes = fs::read(path).unwrap();
    places.iter().for_each(|at| bytes[*at] ^= 1);
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    fs::write(path, bytes).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
}

#[test]
fn what_differs_is_copied_again_and_counted() {
    let place = Place::new();
    let there = place.local("there");
    tree(&there);
    let target = place.at("copy");
    place.done(&["cp", there.to_str().unwrap(), &target]);
    place.done(&["cp", &target, "back"]);
    let served = place.served("copy");
    for (source, target, damaged) in
        [(there.to_str().unwrap(), &target[..], served.clone()), (&target[..], "back", place.local("back"))]
    {
        damage(&damaged.join("deep/er/c"), &[0, 70_000, 2_999_999]);
        damage(&damaged.join("größe"), &[4_500_000]);
        assert_eq!(place.json(&["cp", source, target])["passed_over"], 4, "nobody looks without being told to");
        let mended = place.json(&["cp", source, target, "--verify"]);
        assert_eq!((&mended["repaired"], &mended["files"], &mended["failed"]), (&2.into(), &0.into(), &0.into()));
        // Three blocks of 64 KiB, the first two of which are neighbours, and one that ends with its file.
        let bytes = mended["repaired_bytes"].as_u64().unwrap();
        assert!(bytes > 0 && bytes <= 4 << 16, "{bytes}");
        same(&there, &damaged);
        assert_eq!(place.json(&["cp", source, target, "--verify"])["repaired"], 0);
    }
    let said = place.run(&["cp", there.to_str().unwrap(), &target, "--verify"]);
    assert!(String::from_utf8(said.stdout).unwrap().contains("verified\n"));
    damage(&served.join("a"), &[0]);
    let said = place.run(&["cp", there.to_str().unwrap(), &target, "--verify"]);
    assert!(String::from_utf8(said.stderr).unwrap().contains("mended: a: 1 pieces differed"));
    assert!(String::from_utf8(said.stdout).unwrap().contains("verified, 1 mended"));
}

#[test]
fn a_newer_target_is_replaced_by_force_alone_which_copies_everything() {
    let place = Place::new();
    let there = place.local("there");
    tree(&there);
    let target = place.at("copy");
    let source = there.to_str().unwrap();
    place.done(&["cp", source, &target]);
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(3600);
    let newer = |path: &Path| {
        fs::write(path, "somebody's work").unwrap();
        fs::File::options().write(true).open(path).unwrap().set_modified(later).unwrap();
    };
    newer(&place.served("copy/a"));
    let refused = place.refused(&["cp", source, &target], 1);
    assert!(refused.contains("not copied: a: the target of a is newer") && refused.contains("--force"), "{refused}");
    assert_eq!(fs::read(place.served("copy/a")).unwrap(), b"somebody's work");
    assert_eq!(place.json(&["cp", source, &target, "--force"])["files"], 4);
    same(&there, &place.served("copy"));

    place.done(&["cp", &target, "back"]);
    newer(&place.local("back/a"));
    assert!(place.refused(&["cp", &target, "back"], 1).contains("is newer"));
    assert_eq!(place.json(&["cp", &target, "back", "--force", "--verify"])["files"], 4);
    same(&there, &place.local("back"));
}

#[test]
fn a_server_without_a_share_lists_its_shares() {
    let place = Place::new();
    let server = format!("smb://local@127.0.0.1:{}", place.0.port);
    for number in 0..60 {
        let (name, comment) = (format!("disk{number:02}"), format!("the {number}th"));
        let share = ["share", "create", &name, "--ram", "1M", "--comment", &comment];
        assert!(place.0.program(&share).output().unwrap().status.success());
    }
    let names = place.done(&["ls", &server]);
    let names: Vec<&str> = names.lines().collect();
    assert_eq!((names.len(), names[0], names[60]), (61, "disk00", "share"));
    let long = place.done(&["ls", "--long", &format!("{server}/")]);
    assert!(long.contains("pipes") && long.contains("IPC$") && long.contains("the 59th"), "{long}");
    let listed = place.json(&["ls", &server]);
    let of = |name: &str| listed.as_array().unwrap().iter().find(|one| one["name"] == name).cloned().unwrap();
    assert_eq!(of("disk07"), serde_json::json!({"name": "disk07", "kind": "files", "comment": "the 7th"}));
    assert_eq!(of("IPC$")["kind"], "pipes");
}

#[test]
fn a_copy_goes_on_where_it_was_interrupted() {
    let place = Place::new();
    let there = place.local("there");
    tree(&there);
    let target = place.at("half");
    place.done(&["mkdir", &target]);
    place.done(&["put", there.join("a").to_str().unwrap(), &format!("{target}/")]);
    place.done(&["put", there.join("a").to_str().unwrap(), &format!("{target}/.größe.multilane-part")]);
    let rest = place.json(&["cp", there.to_str().unwrap(), &target]);
    assert_eq!((&rest["files"], &rest["passed_over"]), (&3.into(), &1.into()));
    place.done(&["cp", &target, "back"]);
    same(&there, &place.local("back"));
    assert!(!place.local("back/.größe.multilane-part").exists());
}

#[test]
fn single_files_are_put_shown_listed_got_and_removed() {
    let place = Place::new();
    fs::write(place.local("one"), b"12345").unwrap();
    place.done(&["mkdir", "--parents", &place.at("x/y")]);
    place.done(&["put", "one", &place.at("x/y/")]);
    let stat = place.json(&["stat", &place.at("x/y/one")]);
    assert_eq!((&stat["kind"], &stat["size"]), (&"file".into(), &5.into()));
    assert_eq!(place.done(&["ls", &place.at("x")]), "y/\n");
    assert!(place.done(&["ls", "--long", &place.at("x/y")]).contains("one"));
    place.done(&["get", &place.at("x/y/one"), "copy"]);
    assert_eq!(fs::read(place.local("copy")).unwrap(), b"12345");
    assert!(place.refused(&["rm", &place.at("x")], 1).contains("--recursive"));
    place.done(&["rm", "--recursive", &place.at("x")]);
    assert_eq!(place.done(&["ls", &place.at("")]), "");
}

#[test]
fn refusals_say_what_to_do() {
    let place = Place::new();
    assert!(place.refused(&["ls", &place.at("nowhere")], 1).contains("multilane ls"));
    assert!(place.refused(&["ls", "nas"], 2).contains("smb://"));
    assert!(place.refused(&["cp", "a", "b"], 2).contains("server"));
    let no_share = format!("smb://local@127.0.0.1:{}/other/", place.0.port);
    assert!(place.refused(&["ls", &no_share], 1).contains("name of the share"));
    let nobody = format!("smb://nobody@127.0.0.1:{}/share/", place.0.port);
    assert!(place.refused(&["ls", &nobody], 1).contains("password"));
    assert!(place.refused(&["ls", "smb://local@127.0.0.1:1/share"], 1).contains("port"));
    assert!(place.refused(&["ls", &place.at(""), "--set", "Colour=red"], 2).contains("Colour"));
}

#[test]
fn the_client_shows_what_powershell_shows() {
    let place = Place::new();
    let configuration = place.json(&["client", "configuration"]);
    assert_eq!(configuration["ConnectionCountPerRssNetworkInterface"], 4);
    assert_eq!(configuration["MaximumConnectionCountPerServer"], 32);
    assert_eq!(configuration["EnableMultiChannel"], true);
    let changed = place.json(&["client", "configuration", "--set", "ConnectionCountPerRssNetworkInterface=2"]);
    assert_eq!(changed["ConnectionCountPerRssNetworkInterface"], 2);
    assert_eq!(configuration["RequireSecuritySignature"], true);
    let unsigned = ["--set", "RequireSecuritySignature=false"];
    assert_eq!(place.json(&[&["client", "configuration"], &unsigned[..]].concat())["RequireSecuritySignature"], false);
    place.done(&[&["ls", &place.at("")], &unsigned[..]].concat());
    assert!(place.done(&["client", "configuration"]).contains("EnableMultiChannel                    : True\n"));
    let connections = place.json(&["client", "connections", &place.at(""), "--channels", "3"]);
    let shown = &connections[0];
    assert_eq!(
        (&shown["MaxChannels"], &shown["CurrentChannels"], &shown["Failed"]),
        (&3.into(), &3.into(), &false.into())
    );
    assert!(place.done(&["client", "connections", &place.at(""), "--table"]).starts_with("Server Name"));
}

#[test]
fn a_file_that_is_not_copied_is_named() {
    let place = Place::new();
    let file = place.local("report.txt");
    fs::write(&file, "text").unwrap();
    let refused = place.refused(&["cp", file.to_str().unwrap(), &place.at("nowhere/report.txt")], 1);
    assert!(refused.contains(&format!("not copied: {}: ", file.display())), "{refused}");
}

#[test]
fn stat_tells_where_a_link_leads() {
    let place = Place::new();
    fs::write(place.served("file"), "here").unwrap();
    std::os::unix::fs::symlink("file", place.served("link")).unwrap();
    let said = place.done(&["stat", &place.at("link")]);
    assert!(said.contains("Leads to    file\n"), "{said}");
    assert_eq!(place.json(&["stat", &place.at("link")])["link"], "file");
    assert!(place.json(&["stat", &place.at("file")])["link"].is_null());
}
