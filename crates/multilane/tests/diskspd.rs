//! `multilane diskspd` as its users see it, against the built server on a loopback port.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A server with a RAM disk `ram`, one `readonly` and the account `local`.
struct Place {
    folder: TempDir,
    child: Child,
    port: String,
    password: String,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = |arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_multilane"));
            command.args(arguments).env("MULTILANE_DATA", folder.path().join("data")).stdin(Stdio::null());
            command.stdout(Stdio::piped()).stderr(Stdio::null());
            command
        };
        let mut child = program(&["serve", "--json", "--listen", "127.0.0.1:0"]).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        let port = ready["listen"][0].as_str().unwrap().rsplit_once(':').unwrap().1.to_owned();
        for share in [&["ram", "--ram", "16M"][..], &["readonly", "--ram", "1M", "--read-only"]] {
            assert!(program(&[&["share", "create"], share].concat()).status().unwrap().success());
        }
        let keys = program(&["account", "keys", "local", "--json"]).output().unwrap().stdout;
        let keys: Value = serde_json::from_slice(&keys).unwrap();
        Place { child, port, password: keys["key1"].as_str().unwrap().to_owned(), folder }
    }

    fn map(&self) -> String {
        format!("z:=smb://local@127.0.0.1:{}/ram", self.port)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_multilane"));
        command.arg("diskspd").args(words).env("MULTILANE_PASSWORD", &self.password).env_remove("MULTILANE_USER");
        command.current_dir(self.folder.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn done(&self, words: &[&str]) -> String {
        let output = self.run(&[&["--map", &self.map()], words].concat());
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What is complained of, with DiskSpd's exit code for it, a remedy, and no report.
    fn refused(&self, words: &[&str], code: i32) -> String {
        let output = self.run(words);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {complaint}");
        assert!(output.stdout.is_empty(), "{words:?}");
        assert!(complaint.contains("error: ") && complaint.contains("\nhelp: "), "{words:?}: {complaint}");
        complaint
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The number in a column of the line that begins so, in the section with this title.
fn number(report: &str, section: &str, line: &str, column: usize) -> f64 {
    let section = report.split(&format!("\n{section}\n")).nth(1).unwrap();
    let line = section.lines().find_map(|text| text.strip_prefix(line)).unwrap();
    line.split('|').nth(column).unwrap().trim().parse().unwrap()
}

#[test]
fn ten_files_are_written_by_eighty_threads() {
    let place = Place::new();
    let targets: Vec<String> = (0..10).map(|index| format!(r"z:\write{index}.dat")).collect();
    let options = ["-W0", "-C0", "-r", "-w100", "-b4k", "-t8", "-o8", "-Sh", "-d1", "-L", "-c1M", "-Z1M"];
    let words: Vec<&str> = options.into_iter().chain(targets.iter().map(String::as_str)).collect();
    let report = place.done(&words);
    assert!(report.contains("\nthread count:\t\t80\n"), "{report}");
    let writes = number(&report, "Write IO", "total:", 1);
    assert!(writes > 0.0 && number(&report, "Read IO", "total:", 1) == 0.0, "{report}");
    assert_eq!(number(&report, "Total IO", "total:", 0), writes * 4096.0);
    assert!(number(&report, "Total IO", "total:", 4) > 0.0, "latency is measured: {report}");
    assert_eq!(report.matches("\nLatency distribution: z:\\write").count(), 10);
    assert!(report.contains("(1MiB)\n") && report.contains("\nTotal latency distribution:\n"), "{report}");
}

#[test]
fn names_of_each_kind_lead_to_the_same_file() {
    let place = Place::new();
    place.done(&["-c1M", "-W0", "-d1", r"z:\a.dat"]);
    let server = format!("127.0.0.1:{}", place.port);
    for target in [format!(r"\\{server}\ram\a.dat"), format!("smb://local@{server}/ram/a.dat"), "Z:a.dat".to_owned()] {
        let report = place.done(&["--user", "local", "--signing=as-server-wants", "-W0", "-d1", "-r", &target]);
        assert!(number(&report, "Read IO", "total:", 1) > 0.0, "{target}: {report}");
    }
}

#[test]
fn profiles_run_and_xml_reports_hold_the_profile() {
    let place = Place::new();
    let profile = place.done(&["-Rpxml", "-c1M", "-W0", "-d1", "-w50", "-r", "-D", "-F2", "*1"]);
    let file = place.file("p.xml", &profile);
    let report = place.done(&[&format!("-X{}", file.display()), "-Rxml", "-z7", r"z:\a.dat"]);
    assert!(report.starts_with("<Results>\n  <System>\n") && report.ends_with("</Results>\n"), "{report}");
    for element in ["<Path>z:\\a.dat</Path>", "<RandSeed>7</RandSeed>", "<ThreadCount>2</ThreadCount>", "<IopsStdDev>"]
    {
        assert!(report.contains(element), "{element}: {report}");
    }
    assert!(place.refused(&["-Xnowhere.xml", "x"], 3).contains("nowhere.xml"));
}

/// Starts a run that takes ten minutes, and waits until it measures.
fn measuring(place: &Place) -> (Child, BufReader<ChildStderr>) {
    let words = ["--map", &place.map(), "-v", "-c1M", "-W0", "-d600", r"z:\a.dat"];
    let mut child = place.command(&words).spawn().unwrap();
    let mut notes = BufReader::new(child.stderr.take().unwrap());
    let mut note = String::new();
    while !note.contains("measuring") {
        note.clear();
        assert!(notes.read_line(&mut note).unwrap() > 0, "the run ended before it measured");
    }
    (child, notes)
}

#[test]
fn a_server_that_stops_in_the_middle_ends_the_run() {
    let mut place = Place::new();
    let (child, mut notes) = measuring(&place);
    place.child.kill().unwrap();
    let mut complaint = String::new();
    notes.read_to_string(&mut complaint).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("refused every connection") && complaint.contains("\nhelp: "), "{complaint}");
}

#[test]
fn an_interrupt_ends_a_run_in_order() {
    let place = Place::new();
    let (child, mut notes) = measuring(&place);
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let mut rest = String::new();
    notes.read_to_string(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{rest}");
    assert!(report.contains("\nactual test time:") || report.contains("ended before measuring"), "{report}");
}

#[test]
fn a_wrong_command_line_ends_with_code_3() {
    let place = Place::new();
    let map = place.map();
    for words in [
        &[][..],
        &["-w", r"z:\a"],
        &["-t8", "-F8", r"z:\a"],
        &["-ag0,1", r"z:\a"],
        &["-ys", r"z:\a"],
        &["-Sm", r"z:\a"],
        &[r"z:\a", "-t8"],
        &[r"z:\a"],
        &["--map", &map, r"y:\a"],
        &["--map", &map, "z:"],
        &["--map", &map, r"z:\..\a"],
        &["--map", "zz:=smb://a/b", r"z:\a"],
        &["--map", "z:", r"z:\a"],
        &["--map"],
        &["--channels", "65", r"z:\a"],
        &["--frob", r"z:\a"],
        &["--json", r"z:\a"],
        &["#1"],
        &["local.dat"],
        &["//server/share/x"],
    ] {
        place.refused(words, 3);
    }
    let help = place.run(&["-?"]);
    assert!(help.status.success() && help.stderr.is_empty());
    assert!(String::from_utf8(help.stdout).unwrap().contains("Usage: multilane diskspd"));
}

#[test]
fn a_run_that_fails_ends_with_code_1() {
    let place = Place::new();
    let at = |path: &str| format!("smb://local@127.0.0.1:{}/{path}", place.port);
    for (target, options) in [
        (at("ram/missing.dat"), &["-d1"][..]),
        (at("nowhere/a.dat"), &["-d1"]),
        (at("readonly/a.dat"), &["-d1", "-c64K"]),
        (at("ram/big.dat"), &["-d1", "-c1G"]),
        ("smb://local@127.0.0.1:1/ram/a.dat".to_owned(), &["-d1"]),
    ] {
        let words: Vec<&str> = options.iter().copied().chain([target.as_str()]).collect();
        place.refused(&words, 1);
    }
    let both = [at("ram/big.dat"), at("ram/small.dat")];
    place.refused(&["-d1", "-c20M", &both[0], &both[1]], 1);
    for target in &both {
        assert!(place.refused(&["-d1", target], 1).contains("there is no such file"), "no half file is left: {target}");
    }
    let target = at("ram/a.dat");
    let output = place.command(&["-c64K", &target]).env("MULTILANE_PASSWORD", "wrong").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(!String::from_utf8(output.stderr).unwrap().contains("wrong"), "no password is ever shown");
}
