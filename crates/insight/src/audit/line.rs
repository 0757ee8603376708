//! A line of the audit log: JSON, with the names that Azure's resource log has (StorageFileLogs), and our own beside them.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::ser::CompactFormatter;
use server::admin::{AuditArming, AuditEvent, AuditMoved, AuditSource};

use super::lost::Lost;
use crate::shown::Escaped;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    time: String,
    resource_type: &'static str,
    category: &'static str,
    operation_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation_version: Option<Hex>,
    schema_version: &'static str,
    status_code: u32,
    status_text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller_ip_address: Option<&'a str>,
    identity: Identity<'a>,
    uri: String,
    protocol: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
    properties: Properties<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Identity<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    requester: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_hash: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<OfSource<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfSource<'a> {
    r#type: &'static str,
    requester: &'a str,
    token_hash: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Properties<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    account_name: Option<&'a str>,
    service_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_latency_ms: Option<f64>,
    #[serde(rename = "smbTreeConnectID", skip_serializing_if = "Option::is_none")]
    smb_tree_connect_id: Option<Hex>,
    #[serde(rename = "smbPersistentHandleID", skip_serializing_if = "Option::is_none")]
    smb_persistent_handle_id: Option<Hex>,
    #[serde(rename = "smbVolatileHandleID", skip_serializing_if = "Option::is_none")]
    smb_volatile_handle_id: Option<Hex>,
    #[serde(rename = "smbMessageID", skip_serializing_if = "Option::is_none")]
    smb_message_id: Option<Hex>,
    #[serde(skip_serializing_if = "Option::is_none")]
    smb_credits_consumed: Option<Hex>,
    #[serde(skip_serializing_if = "str::is_empty")]
    smb_command_detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    smb_file_id: Option<Hex>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced_file_id: Option<Hex>,
    #[serde(rename = "smbSessionID", skip_serializing_if = "Option::is_none")]
    smb_session_id: Option<Hex>,
    #[serde(skip_serializing_if = "Option::is_none")]
    smb_command_major: Option<Hex>,
    #[serde(skip_serializing_if = "str::is_empty")]
    smb_command_minor: &'a str,
    #[serde(rename = "smbPrimarySID", skip_serializing_if = "Option::is_none")]
    smb_primary_sid: Option<&'a str>,
    audit_class: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    share_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_file_path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_by: Option<&'static str>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    moved: Option<Moved>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deletion_requested_by: Vec<Arming<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Moved {
    read_count: u64,
    read_bytes: u64,
    write_count: u64,
    write_bytes: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Arming<'a> {
    time: String,
    requester: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_hash: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller_ip_address: Option<&'a str>,
    #[serde(rename = "smbPersistentHandleID")]
    smb_persistent_handle_id: Hex,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenLost<'a> {
    time: String,
    category: &'static str,
    operation_name: &'static str,
    schema_version: &'static str,
    properties: LostProperties<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LostProperties<'a> {
    lost_count: u64,
    lost_of_refused: u64,
    lost_of_strangers: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lost_by: Vec<LostBy<'a>>,
    from: String,
    to: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LostBy<'a> {
    requester: &'a str,
    lost_count: u64,
}

/// A number as Azure writes those of SMB: readers of JSON would round those that use all 64 bits.
struct Hex(u64);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#x}", self.0))
    }
}

/// The line of an event, with its newline.
pub(super) fn of_event(event: &AuditEvent) -> Vec<u8> {
    let AuditEvent { actor, place, ids, .. } = event;
    let open = |id: Option<u64>| id.map(Hex);
    let origin = actor.origin.as_deref();
    line(&Written {
        time: text_of(event.time),
        resource_type: "Microsoft.Storage/storageAccounts/fileServices",
        category: event.category.name(),
        operation_name: event.operation,
        operation_version: actor.dialect.map(|dialect| Hex(dialect.into())),
        schema_version: "1.0",
        status_code: event.status,
        status_text: &event.status_name,
        duration_ms: event.duration.map(milliseconds),
        caller_ip_address: actor.caller.as_deref(),
        identity: Identity {
            r#type: actor.proof.name(),
            requester: actor.user.as_deref(),
            token_hash: origin.map(|origin| origin.token.as_str()),
            source: origin.and_then(|origin| origin.source.as_ref()).map(OfSource::from),
        },
        uri: uri(event),
        protocol: origin.map_or("SMB", |origin| origin.protocol),
        correlation_id: origin.map(|origin| origin.request.as_str()),
        properties: Properties {
            account_name: actor.account.as_deref(),
            service_type: "file",
            server_latency_ms: event.duration.map(milliseconds),
            smb_tree_connect_id: ids.tree.map(|id| Hex(id.into())),
            smb_persistent_handle_id: open(ids.open),
            smb_volatile_handle_id: open(ids.open),
            smb_message_id: ids.message.map(Hex),
            smb_credits_consumed: ids.credits.map(|credits| Hex(credits.into())),
            smb_command_detail: &event.detail,
            smb_file_id: ids.file.map(Hex),
            replaced_file_id: ids.replaced.map(Hex),
            smb_session_id: ids.session.map(Hex),
            smb_command_major: event.command.map(|command| Hex(command.into())),
            smb_command_minor: &event.minor,
            smb_primary_sid: actor.sid.as_deref(),
            audit_class: event.class.name(),
            share_name: place.share.as_deref(),
            file_path: place.path.as_deref(),
            new_file_path: place.new_path.as_deref(),
            ended_by: event.end.map(|end| end.name()),
            moved: event.moved.map(Moved::from),
            deletion_requested_by: event.armed_by.iter().map(Arming::from).collect(),
        },
    })
}

/// The line that says what was lost.
pub(super) fn of_lost(lost: &Lost) -> Vec<u8> {
    line(&WrittenLost {
        time: text_of(SystemTime::now()),
        category: "AuditLoss",
        operation_name: "LinesLost",
        schema_version: "1.0",
        properties: LostProperties {
            lost_count: lost.lines,
            lost_of_refused: lost.refused,
            lost_of_strangers: lost.of_strangers,
            lost_by: lost.by.iter().map(|(requester, count)| LostBy { requester, lost_count: *count }).collect(),
            from: text_of(lost.from),
            to: text_of(lost.to),
        },
    })
}

impl From<AuditMoved> for Moved {
    fn from(moved: AuditMoved) -> Self {
        let AuditMoved { reads, read_bytes, writes, written_bytes } = moved;
        Moved { read_count: reads, read_bytes, write_count: writes, write_bytes: written_bytes }
    }
}

impl<'a> From<&'a AuditSource> for OfSource<'a> {
    fn from(source: &'a AuditSource) -> Self {
        OfSource { r#type: source.proof.name(), requester: &source.requester, token_hash: &source.token }
    }
}

impl<'a> From<&'a AuditArming> for Arming<'a> {
    fn from(arming: &'a AuditArming) -> Self {
        let origin = arming.origin.as_deref();
        Arming {
            time: text_of(arming.time),
            requester: &arming.user,
            r#type: origin.map(|origin| origin.proof.name()),
            token_hash: origin.map(|origin| origin.token.as_str()),
            correlation_id: origin.map(|origin| origin.request.as_str()),
            caller_ip_address: arming.caller.as_deref(),
            smb_persistent_handle_id: Hex(arming.open),
        }
    }
}

/// Where it is, as a client of Windows names that.
fn uri(event: &AuditEvent) -> String {
    let place = &event.place;
    let mut uri = format!(r"\\{}", place.server);
    for part in [place.share.as_deref(), place.path.as_deref()].into_iter().flatten().filter(|part| !part.is_empty()) {
        uri.push('\\');
        uri.push_str(part);
    }
    uri
}

fn text_of(time: SystemTime) -> String {
    Timestamp::try_from(time).map(|time| format!("{time:.6}")).unwrap_or_default()
}

/// Milliseconds, to the microsecond.
fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1000.0
}

fn line(value: &impl Serialize) -> Vec<u8> {
    let mut line = Vec::with_capacity(1024);
    // What has texts and numbers alone is written to memory without fail.
    let _ = value.serialize(&mut serde_json::Serializer::with_formatter(&mut line, Escaped(CompactFormatter)));
    line.push(b'\n');
    line
}
