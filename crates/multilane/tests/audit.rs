//! The audit log of the built server: what clients do becomes the lines that docs/AUDIT.md has.

#[allow(dead_code)]
mod served;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::served::Served;

const ALL: &str = "read,write,delete,security,sign-in";
const PATIENCE: Duration = Duration::from_secs(60);

/// A server whose share is audited, and a local file.
struct Audited {
    served: Served,
    local: TempDir,
}

impl Audited {
    fn new(arguments: &[&str]) -> Self {
        let (served, local) = (Served::with(arguments), tempfile::tempdir().unwrap());
        fs::write(local.path().join("file"), b"some data").unwrap();
        let audited = Audited { served, local };
        audited.audit(ALL);
        audited
    }

    fn audit(&self, classes: &str) {
        let update = self.served.program(&["share", "update", "share", "--audit", classes]).output().unwrap();
        assert!(update.status.success(), "{}", String::from_utf8_lossy(&update.stderr));
    }

    fn client(&self, words: &[&str], password: &str) -> Output {
        let at = format!("smb://local@127.0.0.1:{}/share/", self.served.port);
        let words: Vec<String> = words.iter().map(|word| word.replace("share:", &at)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.served.program(&words).env("MULTILANE_PASSWORD", password).output().unwrap()
    }

    /// Puts a file to the share and takes it away again.
    fn put_and_delete(&self, name: &str) {
        let local = self.local.path().join("file");
        let at = format!("share:{name}");
        for words in [&["cp", local.to_str().unwrap(), &at][..], &["ls", "share:"], &["rm", &at]] {
            let done = self.client(words, &self.served.password);
            assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
        }
    }

    fn log(&self) -> PathBuf {
        self.served.folder.path().join("data/audit.log")
    }

    fn status(&self) -> Value {
        let output = self.served.program(&["status", "--json"]).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["audit"].clone()
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.served.child.id().to_string()]).status().unwrap().success());
    }

    /// Ends the server; all lines are written then.
    fn end(mut self) -> (Served, TempDir) {
        self.signal("-TERM");
        assert!(self.served.child.wait().unwrap().success());
        (self.served, self.local)
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// Waits until the log at `path` has a line that is meant.
fn until(path: &Path, is_meant: impl Fn(&Value) -> bool) -> Vec<Value> {
    let until = Instant::now() + PATIENCE;
    loop {
        let lines = lines(path);
        if lines.iter().any(&is_meant) {
            return lines;
        }
        assert!(Instant::now() < until, "{lines:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_deletion_of(name: &str) -> impl Fn(&Value) -> bool {
    move |line| {
        let properties = &line["properties"];
        properties["smbCommandMinor"] == "FileCloseAndDelete" && properties["filePath"] == name
    }
}

/// The names of a line's fields, as docs/AUDIT.md has them.
fn fields(line: &Value) -> BTreeSet<String> {
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let own = names(line).into_iter().filter(|name| name != "properties");
    own.chain(names(&line["properties"]).into_iter().map(|name| format!("properties.{name}"))).collect()
}

fn document() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/AUDIT.md")).unwrap()
}

/// What stands in the first cell of each row of the table below this headline, or in the one with this number.
fn cells(headline: &str, number: usize) -> BTreeSet<String> {
    let document = document();
    let section = document.split("\n## ").find(|section| section.starts_with(headline)).unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.split('|').nth(number).unwrap().to_owned());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn what_clients_do_is_in_the_log_as_documented() {
    let audited = Audited::new(&[]);
    audited.put_and_delete("gone");
    assert!(!audited.client(&["ls", "share:"], "a wrong password").status.success());
    assert!(!audited.client(&["ls", "share:nowhere"], &audited.served.password).status.success());
    let log = audited.log();
    let key = audited.served.password.clone();
    let _served = audited.end();
    let lines = lines(&log);

    let deleted = lines.iter().find(|line| is_deletion_of("gone")(line)).unwrap();
    assert_eq!((&deleted["identity"]["requester"], &deleted["statusCode"]), (&"local".into(), &0.into()));
    assert!(deleted["callerIpAddress"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert!(deleted["uri"].as_str().unwrap().ends_with("\\share\\gone"), "{deleted}");
    assert_eq!(deleted["properties"]["deletionRequestedBy"][0]["requester"], "local");
    let written = lines.iter().find(|line| line["properties"]["writeBytes"] == 9).unwrap();
    assert_eq!((&written["operationName"], &written["properties"]["endedBy"]), (&"Close".into(), &"Close".into()));
    let refused = lines.iter().find(|line| line["statusText"] == "STATUS_LOGON_FAILURE").unwrap();
    assert_eq!(refused["identity"], serde_json::json!({ "type": "Claimed", "requester": "local" }));
    assert!(
        lines.iter().any(|line| line["operationName"] == "TreeConnect" && line["properties"]["shareName"] == "share")
    );
    assert!(lines.iter().any(|line| line["operationName"] == "Logoff"));

    let documented = cells("Fields", 1);
    let (operations, minor) = (cells("Operations", 1), cells("Operations", 2));
    for line in &lines {
        let undocumented: Vec<_> = fields(line).difference(&documented).cloned().collect();
        assert!(undocumented.is_empty(), "{undocumented:?} of {line} are not in docs/AUDIT.md");
        assert!(operations.contains(line["operationName"].as_str().unwrap()), "{line}");
        if let Some(name) = line["properties"]["smbCommandMinor"].as_str() {
            assert!(minor.contains(name), "{name} is not in docs/AUDIT.md");
        }
    }
    let text = fs::read_to_string(&log).unwrap();
    assert!(!text.contains(&key) && !text.contains("some data") && !text.contains("a wrong password"), "no secret");
}

#[test]
fn the_examples_of_the_document_have_the_fields_it_names() {
    let document = document();
    let documented = cells("Fields", 1);
    let examples: Vec<Value> =
        document.lines().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(examples.len() >= 3);
    for example in &examples {
        let unknown: Vec<_> = fields(example).difference(&documented).cloned().collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}

#[test]
fn a_log_that_is_moved_away_goes_on_in_a_new_file() {
    let audited = Audited::new(&[]);
    let (log, moved) = (audited.log(), audited.log().with_extension("log.1"));
    audited.put_and_delete("first");
    until(&log, is_deletion_of("first"));
    fs::rename(&log, &moved).unwrap();
    audited.signal("-HUP");
    audited.put_and_delete("second");
    until(&log, is_deletion_of("second"));
    assert!(lines(&moved).iter().any(is_deletion_of("first")) && !lines(&moved).iter().any(is_deletion_of("second")));
    assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_is_audited_changes_while_the_server_runs() {
    let audited = Audited::new(&[]);
    audited.put_and_delete("first");
    until(&audited.log(), is_deletion_of("first"));
    let shown = audited.served.program(&["share", "show", "share"]).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains(ALL));
    audited.audit("none");
    audited.put_and_delete("second");
    audited.audit("delete");
    audited.put_and_delete("third");
    let lines = until(&audited.log(), is_deletion_of("third"));
    assert!(!lines.iter().any(is_deletion_of("second")));
    let third: Vec<&Value> = lines.iter().filter(|line| line["properties"]["filePath"] == "third").collect();
    assert!(third.iter().all(|line| line["category"] == "StorageDelete"), "{third:#?}");
    let status = audited.status();
    assert_eq!((&status["written"], &status["lost"]), (&lines.len().into(), &0.into()));
}

#[test]
fn a_share_that_is_not_audited_has_no_log() {
    let audited = Audited::new(&[]);
    audited.audit("none");
    let log = audited.log();
    // That nothing is audited any more is the last line; the first has "from none".
    until(&log, |line| line["operationName"] == "SetAudit" && line.to_string().contains("to none"));
    fs::remove_file(&log).unwrap();
    audited.put_and_delete("file");
    let _served = audited.end();
    assert!(!log.exists());
}

#[test]
fn an_audit_log_that_is_not_safe_is_refused_with_what_to_do() {
    let place = tempfile::tempdir().unwrap();
    let open = place.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    for (file, why) in [
        (open.join("audit.log"), "everybody may write"),
        (place.path().join("nowhere/audit.log"), "cannot be looked at"),
    ] {
        let mut serve = Command::new(env!("CARGO_BIN_EXE_multilane"));
        serve.args(["serve", "--listen", "127.0.0.1:0", "--audit-log", file.to_str().unwrap()]);
        serve.env("MULTILANE_DATA", place.path().join("data")).stdin(Stdio::null());
        let refused = serve.output().unwrap();
        assert_eq!(refused.status.code(), Some(1));
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(told.contains(why), "{told}");
    }
    let wrong = Command::new(env!("CARGO_BIN_EXE_multilane"))
        .args(["share", "create", "x", "--ram", "1M", "--audit", "read,all"])
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("read, write, delete, security, sign-in"));
}

#[test]
fn no_share_holds_the_audit_log() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let program = |arguments: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_multilane"));
        program.args(arguments).env("MULTILANE_DATA", at("data")).stdin(Stdio::null());
        let output = program.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // The folder that is shared first.
    fs::create_dir_all(at("shared/logs")).unwrap();
    std::os::unix::fs::symlink(at("shared/logs"), at("link")).unwrap();
    let mut served = Served::with(&[]);
    let shared = at("shared");
    assert!(served.program(&["share", "create", "x", "--path", &shared]).status().unwrap().success());
    let data = served.folder.path().join("data");
    served.stop();
    for file in [at("shared/audit.log"), at("link/audit.log"), data.join("share/audit.log").display().to_string()] {
        let refused = served.program(&["serve", "--listen", "127.0.0.1:0", "--audit-log", &file]).output().unwrap();
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && told.contains("would be in the folder of share"), "{told}");
        assert!(!Path::new(&file).exists());
    }
    // The log that was there first.
    fs::create_dir(at("other")).unwrap();
    let _running = {
        let mut serve = Command::new(env!("CARGO_BIN_EXE_multilane"));
        serve.args(["serve", "--json", "--listen", "127.0.0.1:0", "--audit-log", &at("other/audit.log")]);
        let mut child = serve.env("MULTILANE_DATA", at("data")).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
        assert!(line.contains("listen"), "{line}");
        Running(child)
    };
    std::os::unix::fs::symlink(at("other"), at("another")).unwrap();
    for folder in ["other", "another", "."] {
        let (code, told) = program(&["share", "create", "y", "--path", &at(folder)]);
        assert!(code != Some(0) && (told.contains("holds the audit log") || folder == "."), "{told}");
    }
    assert_eq!(program(&["share", "create", "y", "--path", &at("shared")]).0, Some(0));
}

/// A server that ends with this.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_full_file_goes_on_in_a_new_one() {
    let refused = Command::new(env!("CARGO_BIN_EXE_multilane"))
        .args(["serve", "--audit-log-max", "5"])
        .env("MULTILANE_DATA", "/nowhere")
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(error.contains("from 1M") && error.contains("or 0"), "{error}");
    let audited = Audited::new(&["--audit-log-max", "1M"]);
    fs::write(audited.log(), vec![b'\n'; 1 << 20]).unwrap();
    audited.put_and_delete("file");
    until(&audited.log(), is_deletion_of("file"));
    let full = audited.log().with_extension("log.1");
    assert_eq!(fs::metadata(full).unwrap().len(), 1 << 20);
}

/// A folder with a disk of its own.
struct Mounted(TempDir);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_under_the_audit_log_disturbs_nobody() {
    let disk = tempfile::tempdir().unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "mode=700,size=256k", "tmpfs"]).arg(disk.path()).stderr(Stdio::null());
    if !mount.status().is_ok_and(|status| status.success()) {
        return;
    }
    let disk = Mounted(disk);
    let log = disk.0.path().join("audit.log");
    let audited = Audited::new(&["--audit-log", log.to_str().unwrap()]);
    let filling = disk.0.path().join("filling");
    let mut file = fs::File::create(&filling).unwrap();
    while std::io::Write::write_all(&mut file, &[1; 512]).is_ok() {}
    audited.put_and_delete("first");
    audited.put_and_delete("second");
    drop(file);
    fs::remove_file(&filling).unwrap();
    let found = until(&log, is_deletion_of("second"));
    assert!(found.iter().any(is_deletion_of("first")), "it had waited");
    assert_eq!(audited.status()["lost"], 0);
}
