//! The audit log from an event to a file, also where the file is moved away, or its disk is full.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde_json::Value;
use server::admin::{AuditActor, AuditClass, AuditCounts, AuditEvent, AuditIds, AuditPlace, AuditProof, AuditSink};

use super::queue::{BYTES_MAX, STRANGERS_BURST};
use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

fn event(path: &str) -> AuditEvent {
    AuditEvent {
        time: SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_000_000_123),
        class: AuditClass::Delete,
        category: AuditClass::Delete.into(),
        operation: "SetInfo",
        command: Some(17),
        minor: "FileDispositionInformation".into(),
        detail: "to be deleted".into(),
        status: 0xC000_0022,
        status_name: "STATUS_ACCESS_DENIED".into(),
        duration: Some(Duration::from_micros(1234)),
        actor: AuditActor {
            caller: Some("192.0.2.7:50123".into()),
            user: Some("alice".into()),
            account: Some("studio".into()),
            sid: Some("S-1-5-21-1-2-3-1001".into()),
            proof: AuditProof::Ntlm,
            dialect: Some(0x311),
        },
        place: AuditPlace {
            server: "NAS".into(),
            share: Some("books".into()),
            path: Some(path.into()),
            new_path: None,
        },
        ids: AuditIds {
            session: Some(u64::MAX),
            tree: Some(3),
            message: Some(0x3b165),
            open: Some(7),
            file: Some(9),
            credits: Some(1),
        },
        moved: None,
        end: None,
        armed_by: Vec::new(),
    }
}

fn stranger() -> AuditEvent {
    let mut event = event("");
    event.class = AuditClass::SignIn;
    event.actor = AuditActor::default();
    event
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is whole");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// The events that the file has.
fn told(path: &Path) -> Vec<Value> {
    lines(path).into_iter().filter(|line| line["category"] != "AuditLoss").collect()
}

fn lost(path: &Path) -> u64 {
    lines(path).iter().filter_map(|line| line["properties"]["lostCount"].as_u64()).sum()
}

/// Waits until so many events are written.
fn until_written(log: &AuditLog, count: u64) {
    let until = std::time::Instant::now() + PATIENCE;
    while log.counts().written < count {
        assert!(std::time::Instant::now() < until, "{:?}", log.counts());
        std::thread::yield_now();
    }
}

#[test]
fn a_line_has_azures_names_whatever_strangers_put_in() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("audit.log");
    let log = AuditLog::start(Destination::File(path.clone())).unwrap();
    let odd = "a\nb\"c\\d\u{7f}\u{9b}2J\u{202e}\u{fffd}é\u{1f600}";
    log.record(event(odd));
    log.finish(PATIENCE);
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 1);
    assert!(!text.contains(['\u{7f}', '\u{9b}', '\u{202e}']) && text.contains("é\u{1f600}"));
    let line = &lines(&path)[0];
    assert_eq!(line["time"], "2026-11-18T11:06:40.123000Z");
    assert_eq!(line["category"], "StorageDelete");
    assert_eq!((&line["operationName"], &line["operationVersion"]), (&"SetInfo".into(), &"0x311".into()));
    assert_eq!((&line["statusCode"], &line["statusText"]), (&0xC000_0022_u32.into(), &"STATUS_ACCESS_DENIED".into()));
    assert_eq!((&line["durationMs"], &line["callerIpAddress"]), (&1.234.into(), &"192.0.2.7:50123".into()));
    assert_eq!(line["identity"], serde_json::json!({ "type": "NTLMv2", "requester": "alice" }));
    assert_eq!(line["uri"], format!(r"\\NAS\books\{odd}"));
    let properties = &line["properties"];
    assert_eq!(properties["filePath"], odd);
    for (name, value) in [
        ("smbSessionID", "0xffffffffffffffff"),
        ("smbTreeConnectID", "0x3"),
        ("smbMessageID", "0x3b165"),
        ("smbPersistentHandleID", "0x7"),
        ("smbVolatileHandleID", "0x7"),
        ("smbFileId", "0x9"),
        ("smbCreditsConsumed", "0x1"),
        ("smbCommandMajor", "0x11"),
        ("smbCommandMinor", "FileDispositionInformation"),
        ("smbCommandDetail", "to be deleted"),
        ("smbPrimarySID", "S-1-5-21-1-2-3-1001"),
        ("auditClass", "delete"),
    ] {
        assert_eq!(properties[name], value, "{name}");
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_file_that_is_moved_or_removed_is_made_again() {
    let place = tempfile::tempdir().unwrap();
    let (path, moved) = (place.path().join("audit.log"), place.path().join("audit.log.1"));
    let log = AuditLog::start(Destination::File(path.clone())).unwrap();
    log.record(event("first"));
    until_written(&log, 1);
    fs::rename(&path, &moved).unwrap();
    log.record(event("second"));
    until_written(&log, 2);
    fs::remove_file(&path).unwrap();
    log.record(event("third"));
    until_written(&log, 3);
    log.reopen();
    log.record(event("fourth"));
    log.finish(PATIENCE);
    let paths = |path: &Path| -> Vec<String> {
        told(path).iter().map(|line| line["properties"]["filePath"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((paths(&moved), paths(&path)), (vec!["first".to_owned()], vec!["third".into(), "fourth".into()]));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_line_that_was_cut_off_is_ended() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("audit.log");
    fs::write(&path, "{\"half\":").unwrap();
    let log = AuditLog::start(Destination::File(path.clone())).unwrap();
    log.record(event("whole"));
    log.finish(PATIENCE);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("{\"half\":\n{\"time\"") && text.ends_with("}\n"), "{text}");
}

#[test]
fn no_link_is_followed_and_no_unsafe_folder_taken() {
    let place = tempfile::tempdir().unwrap();
    let (elsewhere, path) = (place.path().join("elsewhere"), place.path().join("audit.log"));
    fs::write(&elsewhere, "").unwrap();
    symlink(&elsewhere, &path).unwrap();
    assert!(check(&path).unwrap_err().what.contains("cannot be opened"));
    let log = AuditLog::start(Destination::File(path.clone())).unwrap();
    log.record(event("file"));
    log.finish(Duration::from_millis(200));
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "");
    assert_eq!(log.counts(), AuditCounts { written: 0, lost: 1 });

    fs::remove_file(&path).unwrap();
    assert_eq!(check(&path).unwrap(), fs::canonicalize(place.path()).unwrap().join("audit.log"));
    fs::set_permissions(place.path(), Permissions::from_mode(0o777)).unwrap();
    assert!(check(&path).unwrap_err().what.contains("everybody may write"));
    fs::set_permissions(place.path(), Permissions::from_mode(0o1777)).unwrap();
    assert!(check(&path).unwrap_err().what.contains("everybody may write"), "others' files stay there, too");
    fs::set_permissions(place.path(), Permissions::from_mode(0o700)).unwrap();
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(
        check(&path).is_err() && check(&place.path().join("no/audit.log")).is_err() && check(Path::new("/")).is_err()
    );
}

/// A journal that takes an entry when it is told to, and fails before.
struct Slow {
    takes: Receiver<Result<(), ErrorKind>>,
    taken: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Write for Slow {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        // Nobody says any more: it takes everything.
        if let Ok(Err(kind)) = self.takes.recv() {
            return Err(kind.into());
        }
        self.taken.lock().push(entry.to_vec());
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

type Entries = Arc<Mutex<Vec<Vec<u8>>>>;

fn slow() -> (Arc<AuditLog>, Sender<Result<(), ErrorKind>>, Entries) {
    let ((tell, takes), taken) = (channel(), Entries::default());
    let out = Slow { takes, taken: Arc::clone(&taken) };
    (AuditLog::start(Destination::Journal(Box::new(out))).unwrap(), tell, taken)
}

fn messages(entries: &Entries) -> Vec<Value> {
    let message = |entry: &Vec<u8>| {
        let text = String::from_utf8(entry.clone()).unwrap();
        serde_json::from_str(text.lines().next().unwrap().strip_prefix("MESSAGE=").unwrap()).unwrap()
    };
    entries.lock().iter().map(message).collect()
}

#[test]
fn what_happens_is_written_or_counted_as_lost() {
    let (log, tell, entries) = slow();
    let happened = 3 * BYTES_MAX as u64 / event("").held_bytes() as u64;
    for _ in 0..happened {
        log.record(event("file"));
    }
    let dropped = log.counts().lost;
    assert!(dropped > 0 && dropped < happened, "{dropped} of {happened}");
    drop(tell);
    log.finish(PATIENCE);
    let AuditCounts { written, lost } = log.counts();
    assert_eq!((written + lost, lost), (happened, dropped));
    let messages = messages(&entries);
    let losses: Vec<&Value> = messages.iter().filter(|line| line["category"] == "AuditLoss").collect();
    assert_eq!(messages.len() as u64 - losses.len() as u64, written);
    let told: u64 = losses.iter().map(|line| line["properties"]["lostCount"].as_u64().unwrap()).sum();
    assert_eq!(told, lost);
    assert_eq!(losses[0]["properties"]["from"], "2026-11-18T11:06:40.123000Z");
}

#[test]
fn who_has_proved_nothing_keeps_nobody_from_the_log() {
    let (log, tell, entries) = slow();
    for _ in 0..3 * STRANGERS_BURST {
        log.record(stranger());
    }
    for _ in 0..1000 {
        log.record(event("file"));
    }
    let lost = log.counts().lost;
    assert!((1..=2 * u64::from(STRANGERS_BURST)).contains(&lost), "{lost}");
    drop(tell);
    log.finish(PATIENCE);
    let known = messages(&entries)
        .iter()
        .filter(|line| line["operationName"] == "SetInfo" && line["properties"]["filePath"] == "file")
        .count();
    assert_eq!(known, 1000);
    assert_eq!(log.counts(), AuditCounts { written: 3 * u64::from(STRANGERS_BURST) + 1000 - lost, lost });
}

#[test]
fn what_cannot_be_written_now_is_written_later_in_order() {
    let (log, tell, entries) = slow();
    for name in ["first", "second", "third"] {
        log.record(event(name));
    }
    for outcome in [Ok(()), Err(ErrorKind::StorageFull), Err(ErrorKind::NotFound), Ok(()), Ok(())] {
        tell.send(outcome).unwrap();
    }
    until_written(&log, 3);
    let names: Vec<Value> = messages(&entries).iter().map(|line| line["properties"]["filePath"].clone()).collect();
    assert_eq!(names, ["first", "second", "third"]);
    assert_eq!(log.counts(), AuditCounts { written: 3, lost: 0 });
}

#[test]
fn an_entry_has_fields_to_search_by() {
    let (log, tell, entries) = slow();
    log.record(event("file"));
    let mut odd = event("file");
    odd.actor.user = Some("mallory\nPRIORITY=0".into());
    log.record(odd);
    drop(tell);
    log.finish(PATIENCE);
    let text = |at: usize| String::from_utf8(entries.lock()[at].clone()).unwrap();
    for field in [
        "PRIORITY=5",
        "SYSLOG_IDENTIFIER=multilane-audit",
        "MULTILANE_AUDIT=delete",
        "MULTILANE_USER=alice",
        "MULTILANE_SHARE=books",
    ] {
        assert!(text(0).lines().any(|line| line == field), "{field} in {}", text(0));
    }
    assert!(!text(1).lines().any(|line| line == "PRIORITY=0"), "{}", text(1));
}

/// A disk in memory with room for so much; `None` where we may not mount.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(kib: usize) -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let options = format!("mode=700,size={kib}k");
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(place.path()).stderr(std::process::Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then(|| SmallDisk(place))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_delays_lines_and_tears_none() {
    let Some(disk) = SmallDisk::new(64) else { return };
    let (path, filling) = (disk.0.path().join("audit.log"), disk.0.path().join("filling"));
    fs::write(&filling, [1; 40 << 10]).unwrap();
    let log = AuditLog::start(Destination::File(path.clone())).unwrap();
    // More than the room that is left.
    for _ in 0..60 {
        log.record(event("file"));
    }
    std::thread::sleep(Duration::from_millis(50));
    assert!(log.counts().lost == 0 && told(&path).len() < 60);
    fs::remove_file(&filling).unwrap();
    log.reopen();
    until_written(&log, 60);
    assert_eq!((told(&path).len(), lost(&path)), (60, 0));
    assert_eq!(log.counts(), AuditCounts { written: 60, lost: 0 });
}

#[test]
fn a_disk_that_stays_full_ends_in_time_and_is_told() {
    let Some(disk) = SmallDisk::new(16) else { return };
    let path = disk.0.path().join("audit.log");
    let log = AuditLog::start(Destination::File(path.clone())).unwrap();
    for _ in 0..100 {
        log.record(event("file"));
    }
    log.finish(PATIENCE);
    let AuditCounts { written, lost } = log.counts();
    assert_eq!((written + lost, told(&path).len() as u64), (100, written));
    assert!(lost > 0);
}
