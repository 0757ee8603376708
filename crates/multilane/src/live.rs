//! `multilane sessions`, `open-files`, `log` and `close`: what the running server knows.

use std::collections::HashMap;
use std::path::Path;

use control::{
    DataFolder, Error, Fault, Interface, OpenFile, Request, Session, UserName, ask, ask_for_all, folded_name,
};
use load::figures::bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::arguments::{CloseCommand, LogCommand};
use crate::output::Output;
use crate::table::{Table, span};

/// What was closed, as `--json` prints it.
#[derive(Serialize)]
struct Closed {
    closed: &'static str,
    id: String,
}

/// The sessions of a user that were closed, as `--json` prints them.
#[derive(Serialize)]
struct ClosedAll<'a> {
    closed: &'static str,
    user: &'a str,
    ids: Vec<String>,
}

/// What is logged, as `--json` prints it.
#[derive(Serialize)]
struct Logged {
    filter: String,
}

/// Access rights by the words operators use (MS-SMB2 2.2.13.1.1): the bits that give one, and the word.
const RIGHTS: [(u32, &str); 3] = [(0x8000_0001, "read"), (0x4000_0006, "write"), (0x0001_0000, "delete")];

pub(crate) fn sessions(path: &Path, output: Output) -> Result<(), Error> {
    let sessions: Vec<Session> = all(path, &Request::Sessions)?;
    output.print(&sessions, |sessions| session_table(sessions))
}

/// What is open, as `--json` prints it.
#[derive(Serialize)]
struct ShownFile {
    #[serde(flatten)]
    file: OpenFile,
    /// The client's address and port; null where it is not connected.
    peer: Option<String>,
}

pub(crate) fn open_files(path: &Path, place: Option<&str>, output: Output) -> Result<(), Error> {
    let files: Vec<OpenFile> = all(path, &Request::OpenFiles)?;
    let sessions: Vec<Session> = all(path, &Request::Sessions)?;
    let peers: HashMap<u64, String> = sessions.into_iter().map(|session| (session.id, session.peer)).collect();
    let wanted = files.into_iter().filter(|file| place.is_none_or(|place| lies_in(file, place)));
    let files: Vec<ShownFile> =
        wanted.map(|file| ShownFile { peer: peers.get(&file.session).cloned(), file }).collect();
    output.print(&files, |files| file_table(files))
}

/// Whether a file is `SHARE/PATH` or below it, whatever the case, with either kind of slash.
fn lies_in(file: &OpenFile, place: &str) -> bool {
    let parts = |text: &str| -> Vec<String> {
        text.split(['/', '\\']).filter(|part| !part.is_empty()).map(folded_name).collect()
    };
    let of_file = parts(&format!("{}/{}", file.share, file.path));
    of_file.starts_with(&parts(place))
}

pub(crate) fn log(path: &Path, command: &LogCommand, output: Output) -> Result<(), Error> {
    let LogCommand::Level { filter } = command;
    let request = match filter {
        Some(filter) => Request::SetLogFilter { filter: filter.to_string() },
        None => Request::LogFilter,
    };
    output.print(&Logged { filter: answer(path, &request)? }, |logged| format!("{}\n", logged.filter))
}

pub(crate) fn close(path: &Path, command: &CloseCommand, output: Output) -> Result<(), Error> {
    let (request, closed, id) = match command {
        CloseCommand::Session { id } => (Request::CloseSession { id: *id }, "session", id),
        CloseCommand::Open { id } => (Request::CloseOpen { id: *id }, "open", id),
        CloseCommand::Sessions { user } => return close_sessions_of(path, user, output),
    };
    answer::<()>(path, &request)?;
    output.print(&Closed { closed, id: id.to_string() }, |closed| format!("closed {} {}\n", closed.closed, closed.id))
}

/// Ends all sessions of a user.
fn close_sessions_of(path: &Path, user: &UserName, output: Output) -> Result<(), Error> {
    let sessions: Vec<Session> = all(path, &Request::Sessions)?;
    let mut ids = Vec::new();
    for session in of_user(&sessions, user) {
        match answer::<()>(path, &Request::CloseSession { id: session.id }) {
            Ok(()) => ids.push(session.id.to_string()),
            // It has ended by itself.
            Err(error) if error.fault() == Fault::Missing => {}
            Err(error) => return Err(error),
        }
    }
    if ids.is_empty() {
        let remedy = "`multilane sessions` shows those there are";
        return Err(Error::missing(format!("{:?} has no session", user.as_str()), remedy));
    }
    output.print(&ClosedAll { closed: "sessions", user: user.as_str(), ids }, |closed| {
        let ended =
            if closed.ids.len() == 1 { "1 session".to_owned() } else { format!("{} sessions", closed.ids.len()) };
        format!("closed {ended} of {}\n", closed.user)
    })
}

/// The sessions that a user has, whatever the case of the name.
fn of_user<'a>(sessions: &'a [Session], user: &UserName) -> impl Iterator<Item = &'a Session> {
    let wanted = folded_name(user.as_str());
    sessions.iter().filter(move |session| folded_name(&session.user) == wanted)
}

/// The numbers of a user's sessions; `None` where no server runs, or it does not say.
pub(crate) fn sessions_of(folder: &DataFolder, user: &UserName) -> Option<Vec<u64>> {
    let sessions: Vec<Session> = ask_for_all(folder, &Request::Sessions).ok()??;
    Some(of_user(&sessions, user).map(|session| session.id).collect())
}

/// Asks the server on the data folder, which must run.
pub(crate) fn answer<T: DeserializeOwned>(path: &Path, request: &Request) -> Result<T, Error> {
    let folder = DataFolder::open(path)?;
    ask(&folder, request)?.ok_or_else(|| runs_nowhere(&folder))
}

/// Asks it for a list.
fn all<T: DeserializeOwned>(path: &Path, request: &Request) -> Result<Vec<T>, Error> {
    let folder = DataFolder::open(path)?;
    ask_for_all(&folder, request)?.ok_or_else(|| runs_nowhere(&folder))
}

pub(crate) fn runs_nowhere(folder: &DataFolder) -> Error {
    Error::missing(
        format!("no server runs on {}", folder.path().display()),
        "start one with `multilane serve`, or name its data folder with --data",
    )
}

/// Sessions, then their channels.
fn session_table(sessions: &[Session]) -> String {
    let mut table =
        Table::new(["ID", "USER", "ACCOUNT", "DIALECT", "SIGNING", "CIPHER", "PEER", "OPENS", "AGE", "IDLE"]);
    let mut channels = Table::new([
        "SESSION",
        "PEER",
        "LOCAL",
        "SHARD",
        "SIGNING",
        "RECEIVED",
        "SENT",
        "REQUESTS",
        "OUTSTANDING",
        "AGE",
        "STATE",
    ]);
    for session in sessions {
        table.row([
            session.id.to_string(),
            session.user.clone(),
            session.account.clone(),
            session.dialect.clone(),
            session.signing.clone(),
            session.cipher.clone().unwrap_or_default(),
            from(&session.peer).to_owned(),
            session.opens.to_string(),
            span(session.connected_seconds),
            span(session.idle_seconds),
        ]);
        for channel in &session.channels {
            channels.row([
                session.id.to_string(),
                from(&channel.peer).to_owned(),
                channel.local.clone(),
                channel.shard.to_string(),
                channel.signing.clone(),
                bytes(channel.bytes_received),
                bytes(channel.bytes_sent),
                channel.requests.to_string(),
                channel.outstanding.to_string(),
                span(channel.connected_seconds),
                if channel.dead { "dead" } else { "ok" }.to_owned(),
            ]);
        }
    }
    if sessions.is_empty() { table.text() } else { format!("{}\n{}", table.text(), channels.text()) }
}

/// Where a connection comes from. That of the server's own REST interface has no port, and no other connection is without one.
fn from(peer: &str) -> &str {
    if peer.ends_with(":0") { "REST" } else { peer }
}

pub(crate) fn interface_table(interfaces: &[Interface]) -> String {
    let mut table = Table::new(["INDEX", "ADDRESS", "SPEED", "RSS"]);
    for interface in interfaces {
        let megabits = format!("{} Mbit/s", interface.bits_per_second / 1_000_000);
        let rss = if interface.rss { "yes" } else { "no" };
        table.row([interface.index.to_string(), interface.address.to_string(), megabits, rss.to_owned()]);
    }
    table.text()
}

fn file_table(files: &[ShownFile]) -> String {
    let mut table = Table::new(["ID", "SESSION", "USER", "PEER", "SHARE", "PATH", "ACCESS", "AGE"]);
    for ShownFile { file, peer } in files {
        table.row([
            file.id.to_string(),
            file.session.to_string(),
            file.user.clone(),
            peer.as_deref().map(from).unwrap_or_default().to_owned(),
            file.share.clone(),
            format!("\\{}", file.path),
            rights(file.access),
            span(file.open_seconds),
        ]);
    }
    table.text()
}

/// The words for an access mask; the mask itself where it gives none of them.
fn rights(access: u32) -> String {
    let words: Vec<&str> = RIGHTS.iter().filter(|(bits, _)| access & bits != 0).map(|(_, word)| *word).collect();
    if words.is_empty() { format!("{access:#010x}") } else { words.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_masks_become_words() {
        assert_eq!(rights(0x0012_0089), "read");
        assert_eq!(rights(0x001f_01ff), "read,write,delete");
        assert_eq!(rights(0x0010_0080), "0x00100080");
    }

    #[test]
    fn a_file_lies_in_its_share_and_in_each_directory_above_it() {
        let file = OpenFile {
            id: 1,
            session: 2,
            user: "alice".to_owned(),
            share: "Media".to_owned(),
            path: r"Films\Größe\one.mkv".to_owned(),
            access: 1,
            open_seconds: 0,
        };
        for place in [
            "media",
            "media/films",
            r"MEDIA\films\GRÖSSE".replace("SS", "ß").as_str(),
            "/media/films/größe/one.mkv",
            "",
        ] {
            assert!(lies_in(&file, place), "{place}");
        }
        for place in ["med", "media/film", "films", "media/films/größe/one.mkv/x"] {
            assert!(!lies_in(&file, place), "{place}");
        }
        let shown = ShownFile { file, peer: Some("192.0.2.7:50000".to_owned()) };
        assert!(file_table(&[shown]).contains("192.0.2.7:50000"));
    }

    #[test]
    fn a_connection_without_a_port_is_that_of_the_rest_interface() {
        assert_eq!(["127.0.0.1:0", "[::1]:0"].map(from), ["REST", "REST"]);
        assert_eq!(["127.0.0.1:50000", "[::1]:10"].map(from), ["127.0.0.1:50000", "[::1]:10"]);
    }

    #[test]
    fn no_sessions_is_a_heading() {
        assert_eq!(session_table(&[]).lines().count(), 1);
    }
}
