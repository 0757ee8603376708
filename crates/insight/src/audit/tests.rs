//! The audit log from an event to a file, also where the file is moved away, or its disk is full.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde_json::Value;
use server::admin::{
    AuditActor, AuditArming, AuditClass, AuditCounts, AuditEvent, AuditIds, AuditOrigin, AuditPlace, AuditProof,
    AuditSink, AuditSource,
};

use super::cut::{CUT, NAME_MAX};
use super::queue::{DONE_BYTES_MAX, REFUSED_BYTES_MAX, STRANGERS_BURST_BYTES};
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
            origin: None,
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
            replaced: Some(8),
            credits: Some(1),
        },
        moved: None,
        end: None,
        armed_by: Vec::new(),
    }
}

/// The same, but it was done.
fn done(path: &str) -> AuditEvent {
    AuditEvent { status: 0, status_name: "STATUS_SUCCESS".into(), ..event(path) }
}

/// The same by another.
fn of_user(name: &str, event: AuditEvent) -> AuditEvent {
    let actor = AuditActor { user: Some(name.into()), sid: Some(format!("S-1-5-21-9-{name}")), ..event.actor };
    AuditEvent { actor, ..event }
}

/// The same, asked for by REST.
fn by_rest(event: AuditEvent) -> AuditEvent {
    let origin = Arc::new(AuditOrigin {
        protocol: "HTTPS",
        caller: "198.51.100.9:4711".into(),
        proof: AuditProof::SharedAccess,
        requester: "studio".into(),
        token: "key1,SasSignature(AB)".into(),
        request: "0000000000000017".into(),
        source: None,
    });
    let actor = AuditActor {
        caller: Some(Arc::clone(&origin.caller)),
        user: Some(origin.requester.clone()),
        proof: origin.proof,
        origin: Some(Arc::clone(&origin)),
        ..event.actor
    };
    let arming = AuditArming {
        time: event.time,
        user: origin.requester.clone(),
        caller: actor.caller.clone(),
        open: 7,
        origin: Some(origin),
    };
    AuditEvent { actor, armed_by: vec![arming], ..event }
}

fn stranger(claims: &str) -> AuditEvent {
    let mut event = event("");
    event.class = AuditClass::SignIn;
    event.actor = AuditActor { user: Some(claims.into()), ..AuditActor::default() };
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

fn in_file(path: &Path) -> Arc<AuditLog> {
    bounded(path, FileBounds::default())
}

fn bounded(path: &Path, bounds: FileBounds) -> Arc<AuditLog> {
    AuditLog::start(Destination::File { path: path.to_owned(), bounds }).unwrap()
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
fn what_was_asked_for_by_rest_is_told_of_who_asked() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("audit.log");
    let log = in_file(&path);
    log.record(by_rest(done("file")));
    until_written(&log, 1);
    let line = &told(&path)[0];
    let known = serde_json::json!({ "type": "SAS", "requester": "studio", "tokenHash": "key1,SasSignature(AB)" });
    assert_eq!((&line["identity"], &line["protocol"]), (&known, &"HTTPS".into()));
    assert_eq!(
        (&line["callerIpAddress"], &line["correlationId"]),
        (&"198.51.100.9:4711".into(), &"0000000000000017".into())
    );
    let by = &line["properties"]["deletionRequestedBy"][0];
    assert_eq!((&by["type"], &by["tokenHash"]), (&known["type"], &known["tokenHash"]));
    assert_eq!((&by["correlationId"], &by["callerIpAddress"]), (&line["correlationId"], &line["callerIpAddress"]));
}

#[test]
fn what_is_read_for_a_copy_is_told_of_who_asked_and_of_the_proof_of_its_own() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("audit.log");
    let log = in_file(&path);
    let mut event = by_rest(done("file"));
    let source = AuditSource { proof: AuditProof::Token, requester: "principal".into(), token: "CD".repeat(4_000) };
    let (asked, length) = (event.actor.origin.take().unwrap(), event.held_bytes());
    let origin = AuditOrigin { source: Some(source), ..AuditOrigin::clone(&asked) };
    event.actor.origin = Some(Arc::new(origin));
    assert!(event.held_bytes() > length + 8_000, "it is paid for");
    log.record(event);
    until_written(&log, 1);
    let identity = &told(&path)[0]["identity"];
    assert_eq!((&identity["type"], &identity["tokenHash"]), (&"SAS".into(), &"key1,SasSignature(AB)".into()));
    let source = serde_json::json!({ "type": "OAuth", "requester": "principal", "tokenHash": "CD".repeat(4_000) });
    assert_eq!(identity["source"], source);
}

#[test]
fn a_line_has_azures_names_whatever_strangers_put_in() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("audit.log");
    let log = in_file(&path);
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
        ("replacedFileId", "0x8"),
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
    let log = in_file(&path);
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
    let log = in_file(&path);
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
    let log = in_file(&path);
    log.record(event("file"));
    log.finish(Duration::from_millis(200));
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "");
    assert_eq!(log.counts(), AuditCounts { written: 0, lost: 1, lost_refused: 1 });

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

#[test]
fn a_file_that_others_could_open_is_closed_to_them() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("audit.log");
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    check(&path).unwrap();
    assert_eq!(mode(), 0o600);
    fs::set_permissions(&path, Permissions::from_mode(0o660)).unwrap();
    let log = in_file(&path);
    log.record(event("file"));
    log.finish(PATIENCE);
    assert_eq!((mode(), told(&path).len()), (0o600, 1));
}

#[test]
fn a_link_that_somebody_makes_ends_no_audit() {
    let place = tempfile::tempdir().unwrap();
    let (path, link) = (place.path().join("audit.log"), place.path().join("link"));
    let log = in_file(&path);
    log.record(event("first"));
    until_written(&log, 1);
    fs::hard_link(&path, &link).unwrap();
    log.reopen();
    log.record(event("second"));
    log.finish(PATIENCE);
    assert_eq!((log.counts().lost, told(&path).len()), (0, 2));
    assert!(check(&path).unwrap_err().what.contains("several names"));
}

#[test]
fn a_full_file_gets_another_name_and_the_oldest_goes() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("audit.log");
    let bounds = FileBounds { bytes_max: NonZeroU64::new(64 << 10), leaves_room: false };
    let log = bounded(&path, bounds);
    for count in 0..700 {
        log.record(event(&format!("{count}")));
        until_written(&log, count + 1);
    }
    log.finish(PATIENCE);
    let numbers = |path: &Path| -> Vec<u64> {
        told(path).iter().map(|line| line["properties"]["filePath"].as_str().unwrap().parse().unwrap()).collect()
    };
    let files = (1..=FULL_FILES_KEPT).rev().map(|number| place.path().join(format!("audit.log.{number}")));
    let files: Vec<PathBuf> = files.chain([path]).collect();
    let kept: Vec<u64> = files.iter().flat_map(|file| numbers(file)).collect();
    assert!(kept.len() > 100 && kept[0] > 0, "{}", kept.len());
    assert_eq!(kept, (700 - kept.len() as u64..700).collect::<Vec<_>>(), "the last ones, without a gap");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), files.len());
    for file in files {
        let found = fs::metadata(&file).unwrap();
        assert!(found.len() <= 64 << 10 && found.permissions().mode() & 0o777 == 0o600, "{file:?}");
    }
}

#[test]
fn a_full_file_that_cannot_be_moved_takes_no_more() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("audit.log");
    // No file takes the place of a directory.
    fs::create_dir(place.path().join("audit.log.1")).unwrap();
    fs::write(place.path().join("audit.log.2"), "").unwrap();
    let log = bounded(&path, FileBounds { bytes_max: NonZeroU64::new(1 << 10), leaves_room: false });
    for _ in 0..10 {
        log.record(event("file"));
    }
    log.finish(Duration::from_millis(300));
    assert!(fs::metadata(&path).unwrap().len() < 16 << 10 && log.counts().written + log.counts().lost == 10);
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

fn losses(messages: &[Value]) -> Vec<&Value> {
    messages.iter().filter(|line| line["category"] == "AuditLoss").collect()
}

fn count_of(losses: &[&Value], name: &str) -> u64 {
    losses.iter().map(|line| line["properties"][name].as_u64().unwrap()).sum()
}

/// How many lines have a path.
fn with_path(messages: &[Value], path: &str) -> usize {
    messages.iter().filter(|line| line["properties"]["filePath"] == path).count()
}

#[test]
fn what_happens_is_written_or_counted_as_lost() {
    let (log, tell, entries) = slow();
    let happened = 3 * (DONE_BYTES_MAX + REFUSED_BYTES_MAX) as u64 / event("").held_bytes() as u64;
    for count in 0..happened {
        log.record(if count % 3 == 0 { event("file") } else { done("file") });
    }
    let dropped = log.counts();
    assert!(dropped.lost > dropped.lost_refused && dropped.lost_refused > 0 && dropped.lost < happened, "{dropped:?}");
    drop(tell);
    log.finish(PATIENCE);
    let AuditCounts { written, lost, lost_refused } = log.counts();
    assert_eq!((written + lost, lost, lost_refused), (happened, dropped.lost, dropped.lost_refused));
    let messages = messages(&entries);
    let losses = losses(&messages);
    assert_eq!(messages.len() as u64 - losses.len() as u64, written);
    assert_eq!((count_of(&losses, "lostCount"), count_of(&losses, "lostOfRefused")), (lost, lost_refused));
    assert_eq!(losses[0]["properties"]["from"], "2026-11-18T11:06:40.123000Z");
    let by = &losses.last().unwrap()["properties"]["lostBy"];
    assert_eq!((by[0]["requester"].as_str(), by[1].is_null()), (Some("alice"), true));
}

#[test]
fn refused_requests_keep_nothing_that_was_done_from_the_log() {
    let (log, tell, entries) = slow();
    for odd in ["\u{1}", "\u{e0001}", "x"] {
        let name = odd.repeat(4096);
        for _ in 0..(DONE_BYTES_MAX + REFUSED_BYTES_MAX) / 700 {
            let mut refused = event(&name);
            refused.place.new_path = Some(name.clone());
            refused.place.share = Some(name.as_str().into());
            log.record(refused);
        }
    }
    log.record(done("gone"));
    let AuditCounts { lost, lost_refused, .. } = log.counts();
    assert!(lost == lost_refused && lost > 0, "{lost}, {lost_refused}");
    drop(tell);
    log.finish(PATIENCE);
    let longest = entries.lock().iter().map(Vec::len).max().unwrap();
    assert!(longest < 8 << 10, "{longest}");
    let messages = messages(&entries);
    assert_eq!(with_path(&messages, "gone"), 1);
    for line in messages.iter().filter(|line| line["statusText"] == "STATUS_ACCESS_DENIED") {
        for (name, most) in [("filePath", NAME_MAX), ("newFilePath", NAME_MAX), ("shareName", 80)] {
            let told = line["properties"][name].as_str().unwrap();
            assert!(told.ends_with(CUT) && told.chars().count() <= most + CUT.len(), "{name}");
        }
    }
}

#[test]
fn who_does_much_keeps_nobody_elses_line_from_the_log() {
    for of_one in [done as fn(&str) -> AuditEvent, event] {
        let (log, tell, entries) = slow();
        for _ in 0..(DONE_BYTES_MAX + REFUSED_BYTES_MAX) / 500 {
            log.record(of_one("flood"));
        }
        for count in 0..500 {
            log.record(of_user(&format!("user{}", count % 5), of_one("file")));
        }
        let lost = log.counts().lost;
        drop(tell);
        log.finish(PATIENCE);
        let messages = messages(&entries);
        assert_eq!(with_path(&messages, "file"), 500);
        // It had half of its room.
        assert!(with_path(&messages, "flood") > REFUSED_BYTES_MAX / 2 / 1000);
        let losses = losses(&messages);
        let by = |line: &Value| line["properties"]["lostBy"][0]["lostCount"].as_u64().unwrap();
        assert_eq!(losses.iter().map(|line| by(line)).sum::<u64>(), lost);
    }
}

#[test]
fn who_has_proved_nothing_keeps_nobody_from_the_log_and_fills_no_disk() {
    for name in ["\u{1}".repeat(12_000), "mallory".to_owned(), "\u{e0001}".repeat(300)] {
        let (log, tell, entries) = slow();
        for _ in 0..3000 {
            log.record(stranger(&name));
        }
        for _ in 0..200 {
            log.record(event("file"));
            log.record(done("file"));
        }
        drop(tell);
        log.finish(PATIENCE);
        let messages = messages(&entries);
        assert_eq!(with_path(&messages, "file"), 400);
        let of_strangers = |line: &&Value| line["identity"]["type"] == "Claimed";
        let lines: Vec<&Value> = messages.iter().filter(of_strangers).collect();
        let bytes: usize = lines.iter().map(|line| line.to_string().len()).sum();
        // Some seconds may have passed.
        assert!((100..=STRANGERS_BURST_BYTES / 1024 + 100).contains(&lines.len()), "{}", lines.len());
        assert!(bytes <= STRANGERS_BURST_BYTES + (100 << 10), "{bytes}");
        let AuditCounts { written, lost, lost_refused } = log.counts();
        assert_eq!((written, lost, lost_refused), (lines.len() as u64 + 400, 3000 - lines.len() as u64, lost));
        assert_eq!(count_of(&losses(&messages), "lostOfStrangers"), lost);
        let claimed = lines[0]["identity"]["requester"].as_str().unwrap();
        assert!(claimed.chars().count() <= NAME_MAX + CUT.len(), "{claimed}");
    }
}

#[test]
fn losses_are_told_where_the_writer_hangs() {
    let (log, tell, _) = slow();
    while log.counts().lost < 10 {
        log.record(done("file"));
    }
    // What was lost before the writer took its first lines it has in hand to tell.
    let is_told = AtomicBool::new(false);
    let untold = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_told.load(Ordering::Relaxed) {
                log.record(done("file"));
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let untold = log.queue.untold(Duration::from_millis(1), Duration::ZERO);
        is_told.store(true, Ordering::Relaxed);
        untold.unwrap()
    });
    assert!(untold.lines >= 1 && untold.users().starts_with("alice ("), "{untold:?}");
    drop(tell);
    log.finish(PATIENCE);
    assert_eq!(log.queue.untold(Duration::from_millis(1), Duration::ZERO), None);
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
    assert_eq!(log.counts(), AuditCounts { written: 3, ..AuditCounts::default() });
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

#[test]
fn a_name_that_was_not_proved_has_a_field_of_its_own() {
    let (log, tell, entries) = slow();
    log.record(stranger("alice"));
    drop(tell);
    log.finish(PATIENCE);
    let entry = String::from_utf8(entries.lock()[0].clone()).unwrap();
    let has = |field: &str| entry.lines().any(|line| line == field);
    assert!(has("MULTILANE_CLAIMED_USER=alice") && !has("MULTILANE_USER=alice"), "{entry}");
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
    let log = in_file(&path);
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
    assert_eq!(log.counts(), AuditCounts { written: 60, ..AuditCounts::default() });
}

#[test]
fn a_log_that_is_to_leave_room_does_where_others_need_it() {
    let Some(disk) = SmallDisk::new(2 << 10) else { return };
    let (path, filling) = (disk.0.path().join("audit.log"), disk.0.path().join("filling"));
    // A hundredth is 20 KiB.
    fs::write(&filling, vec![1; (2 << 20) - (16 << 10)]).unwrap();
    let log = bounded(&path, FileBounds { bytes_max: None, leaves_room: true });
    log.record(event("file"));
    let until = std::time::Instant::now() + Duration::from_millis(100);
    while std::time::Instant::now() < until {
        assert_eq!((log.counts().written, fs::metadata(&path).map_or(0, |file| file.len())), (0, 0));
    }
    fs::remove_file(&filling).unwrap();
    log.reopen();
    until_written(&log, 1);
    assert_eq!(told(&path).len(), 1);
}

#[test]
fn a_disk_that_stays_full_ends_in_time_and_is_told() {
    let Some(disk) = SmallDisk::new(16) else { return };
    let path = disk.0.path().join("audit.log");
    let log = in_file(&path);
    for _ in 0..100 {
        log.record(event("file"));
    }
    log.finish(Duration::from_millis(300));
    let AuditCounts { written, lost, .. } = log.counts();
    assert_eq!((written + lost, told(&path).len() as u64), (100, written));
    assert!(lost > 0);
}

#[test]
fn what_a_disk_that_hangs_has_in_hand_at_the_end_is_lost_and_counted() {
    let (log, tell, taken) = slow();
    (0..100).for_each(|_| log.record(event("file")));
    log.finish(Duration::from_millis(200));
    assert_eq!(log.counts(), AuditCounts { written: 0, lost: 100, lost_refused: 100 });
    // It goes on when nobody waits any more.
    drop(tell);
    let until = std::time::Instant::now() + PATIENCE;
    while taken.lock().is_empty() {
        assert!(std::time::Instant::now() < until, "it hangs");
        std::thread::yield_now();
    }
    assert_eq!(log.counts().lost, 100, "what was told stays so");
}

#[test]
fn an_error_at_the_end_that_passes_loses_nothing() {
    let (log, tell, taken) = slow();
    (0..3).for_each(|_| tell.send(Err(ErrorKind::Other)).unwrap());
    drop(tell);
    (0..10).for_each(|_| log.record(event("file")));
    log.finish(PATIENCE);
    assert_eq!((log.counts().written, log.counts().lost, taken.lock().len()), (10, 0, 10));
}

/// A file that may only grow keeps what was written of some lines when its disk is full.
#[test]
fn lines_that_cannot_be_taken_back_are_written() {
    let Some(disk) = SmallDisk::new(64) else { return };
    let path = disk.0.path().join("audit.log");
    fs::write(&path, []).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let only_grows = |sign: &str| {
        let done = std::process::Command::new("chattr").arg(format!("{sign}a")).arg(&path).status();
        done.is_ok_and(|status| status.success())
    };
    // Where the file system has no such files there is nothing to see.
    if !only_grows("+") {
        return;
    }
    let log = in_file(&path);
    (0..100).for_each(|_| log.record(event("file")));
    log.finish(Duration::from_millis(300));
    assert!(only_grows("-"));
    let text = fs::read_to_string(&path).unwrap();
    let whole = text.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count() as u64;
    let AuditCounts { written, lost, .. } = log.counts();
    assert_eq!((written, written + lost), (whole, 100));
    assert!(written > 0 && lost > 0);
}
