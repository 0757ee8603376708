//! What the running server tells operators, in the form it crosses the admin socket and `--json` prints.
//!
//! The numbers that name sessions and opens use all 64 bits, which many readers of JSON round: they are written as text.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use server::admin::{AuditCounts, ChannelView, FileView, InterfaceView, LockedView, OpenView, SessionView};

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The number to close it by.
    #[serde(with = "number_as_text")]
    pub id: u64,
    /// Who signed in.
    pub user: String,
    /// The storage account of that principal.
    pub account: String,
    /// The dialect, such as `3.1.1`.
    pub dialect: String,
    /// The cipher that seals it, if one does.
    pub cipher: Option<String>,
    /// The algorithm that signs it, or `none`.
    pub signing: String,
    /// The client's address and port on the first channel.
    pub peer: String,
    /// Seconds since it was set up.
    pub connected_seconds: u64,
    /// Seconds since its last request.
    pub idle_seconds: u64,
    /// Opens it has.
    pub opens: usize,
    /// Its channels.
    pub channels: Vec<Channel>,
}

/// One channel of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    /// The client's address and port.
    pub peer: String,
    /// The server's address and port.
    pub local: String,
    /// The shard that serves it.
    pub shard: usize,
    /// Bytes that came in.
    pub bytes_received: u64,
    /// Bytes that went out.
    pub bytes_sent: u64,
    /// Requests answered.
    pub requests: u64,
    /// The algorithm that signs on it.
    pub signing: String,
    /// Requests that wait for something.
    pub outstanding: usize,
    /// Seconds since it became a channel of the session.
    pub connected_seconds: u64,
    /// True where the client's machine does not answer any more: it is gone, or its network is.
    pub dead: bool,
}

/// An address that clients are told of, to open more channels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// The interface's number; its addresses share it.
    pub index: u32,
    /// The address.
    pub address: IpAddr,
    /// The speed of its link.
    pub bits_per_second: u64,
    /// Whether it has receive-side scaling.
    pub rss: bool,
}

/// A user that wrong passwords have locked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockedUser {
    /// The last number of its SID.
    pub relative_id: u32,
    /// Seconds until it is not locked any more.
    pub seconds: u64,
}

impl From<LockedView> for LockedUser {
    fn from(user: LockedView) -> Self {
        LockedUser { relative_id: user.relative_id, seconds: user.left.as_millis().div_ceil(1_000) as u64 }
    }
}

/// An open file or directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFile {
    /// The number to close it by.
    #[serde(with = "number_as_text")]
    pub id: u64,
    /// Its session's number.
    #[serde(with = "number_as_text")]
    pub session: u64,
    /// Who opened it.
    pub user: String,
    /// The share.
    pub share: String,
    /// The path in the share, empty for its root.
    pub path: String,
    /// The granted access mask (MS-SMB2 2.2.13.1).
    pub access: u32,
    /// Seconds since it was opened.
    pub open_seconds: u64,
}

/// A file that is read or written, and about how much.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BusyFile {
    /// The share.
    pub share: String,
    /// The path in the share.
    pub path: String,
    /// READs and WRITEs a second,
    pub iops: f64,
    /// bytes a second that READs were answered with,
    pub read_bytes: f64,
    /// and bytes a second that WRITEs brought.
    pub written_bytes: f64,
}

impl From<FileView> for BusyFile {
    fn from(file: FileView) -> Self {
        let FileView { share, path, iops, read_bytes, written_bytes } = file;
        BusyFile { share, path, iops, read_bytes, written_bytes }
    }
}

/// A share that is in the catalog and not served, or whose folder is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The share's name.
    pub share: String,
    /// Why, in a sentence.
    pub problem: String,
    /// Whether it is served all the same.
    #[serde(default)]
    pub served: bool,
}

/// The running server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The program's version.
    pub version: String,
    /// Its process id.
    pub process: u32,
    /// When it started, as `2026-11-29T13:14:50Z`.
    pub since: String,
    /// Seconds since then.
    pub up_seconds: u64,
    /// The addresses it listens on.
    pub listen: Vec<String>,
    /// The address at which it tells its metrics, if it does.
    #[serde(default)]
    pub metrics: Option<String>,
    /// The address of its page, if it has one.
    #[serde(default)]
    pub page: Option<String>,
    /// The URL of its REST interface, without an account, if it has one.
    #[serde(default)]
    pub rest: Option<String>,
    /// Sessions there are.
    pub sessions: usize,
    /// Opens there are.
    pub opens: usize,
    /// Users that wrong passwords have locked.
    #[serde(default)]
    pub locked_users: usize,
    /// Connections of each shard.
    pub connections: Vec<usize>,
    /// Shards that do not answer.
    pub silent_shards: Vec<usize>,
    /// What is wrong with the file of its catalog, as far as it was looked at: its next start would fail.
    #[serde(default)]
    pub catalog_damage: Option<String>,
    /// Shares that it does not serve.
    pub problems: Vec<Problem>,
    /// How the requests of each share that it serves have met the share's limits.
    pub limits: Vec<ShareUse>,
    /// What has become of what was to be audited.
    pub audit: AuditLines,
}

/// Events of the audit log since the server started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditLines {
    /// Those that are in the log.
    pub written: u64,
    /// Those that were lost.
    pub lost: u64,
}

impl From<AuditCounts> for AuditLines {
    fn from(AuditCounts { written, lost, .. }: AuditCounts) -> Self {
        AuditLines { written, lost }
    }
}

/// How the requests of a share have met its limits since the server started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareUse {
    /// The share's name.
    pub share: String,
    /// Credits for bursts that are left.
    pub burst_credits: u64,
    /// Requests that have waited.
    pub waited: Waited,
    /// Bytes that its files take, where they are counted: on a RAM disk, and in a folder with a quota.
    #[serde(default)]
    pub used_bytes: Option<u64>,
}

/// Requests that have waited for a limit, by what was used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waited {
    /// Requests a second.
    pub for_iops: u64,
    /// Bytes a second, to read.
    pub to_read: u64,
    /// Bytes a second, to write.
    pub to_write: u64,
    /// Requests a second that are no reads and writes.
    pub for_metadata_iops: u64,
}

impl From<SessionView> for Session {
    fn from(view: SessionView) -> Self {
        Session {
            id: view.id,
            user: view.user,
            account: view.account,
            dialect: dialect_name(view.dialect),
            cipher: view.cipher,
            signing: view.signing,
            peer: view.peer,
            connected_seconds: view.connected_seconds,
            idle_seconds: view.idle_seconds,
            opens: view.opens,
            channels: view.channels.into_iter().map(Channel::from).collect(),
        }
    }
}

impl From<ChannelView> for Channel {
    fn from(view: ChannelView) -> Self {
        Channel {
            peer: view.peer,
            local: view.local,
            shard: view.shard,
            bytes_received: view.bytes_received,
            bytes_sent: view.bytes_sent,
            requests: view.requests,
            signing: view.signing,
            outstanding: view.outstanding,
            connected_seconds: view.connected_seconds,
            dead: false,
        }
    }
}

impl From<InterfaceView> for Interface {
    fn from(view: InterfaceView) -> Self {
        Interface { index: view.index, address: view.address, bits_per_second: view.bits_per_second, rss: view.rss }
    }
}

impl From<OpenView> for OpenFile {
    fn from(view: OpenView) -> Self {
        OpenFile {
            id: view.id,
            session: view.session,
            user: view.user,
            share: view.share,
            path: view.path,
            access: view.access,
            open_seconds: view.open_seconds,
        }
    }
}

/// A number as decimal digits in a string.
mod number_as_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// `3.1.1` for 0x0311; revisions ending in zero lose it, as in `2.1`.
fn dialect_name(revision: u16) -> String {
    let [major, rest] = revision.to_be_bytes();
    match (rest >> 4, rest & 15) {
        (minor, 0) => format!("{major}.{minor}"),
        (minor, patch) => format!("{major}.{minor}.{patch}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dialect;

    #[test]
    fn dialects_are_shown_as_people_write_them() {
        for text in ["2.0.2", "2.1", "3.0", "3.0.2", "3.1.1"] {
            assert_eq!(dialect_name(text.parse::<Dialect>().unwrap().revision()), text);
        }
    }
}
