//! `client configuration` and `client connections`: what Get-SmbClientConfiguration and Get-SmbMultichannelConnection print.

use ::client::{Channels, Connected, InterfaceCapability, Pair, Settings, Signing};
use control::Error;
use serde_json::{Map, Value, json};

use super::arguments::{ClientCommand, Login};
use super::place::Place;
use super::{failed, runtime, settings, sign_in};
use crate::output::Output;
use crate::table::{Table, printable};

pub(crate) fn run(command: &ClientCommand, output: Output) -> Result<(), Error> {
    match command {
        ClientCommand::Configuration { table, login } => {
            let shown = configuration(&settings(login)?);
            output.print(&shown, |shown| if *table { two_columns(shown) } else { list(std::slice::from_ref(shown)) })
        }
        ClientCommand::Connections { place, table, login } => {
            let shown = connections(place, login)?;
            output.print(&shown, |shown| if *table { connections_table(shown) } else { list(shown) })
        }
    }
}

fn configuration(settings: &Settings) -> Value {
    json!({
        "ConnectionCountPerNetworkInterface": settings.connection_count_per_network_interface,
        "ConnectionCountPerRssNetworkInterface": settings.connection_count_per_rss_network_interface,
        "EnableLargeMtu": true,
        "EnableMultiChannel": settings.channels != Channels::Exactly(1),
        "EncryptionCiphers": "AES_128_GCM, AES_128_CCM, AES_256_GCM, AES_256_CCM",
        "ExtendedSessionTimeout": settings.extended_session_timeout.as_secs(),
        "MaximumConnectionCountPerServer": settings.maximum_connection_count_per_server,
        "RequireEncryption": settings.seal,
        "RequireSecuritySignature": settings.signing == Signing::Required,
        "SessionTimeout": settings.session_timeout.as_secs(),
        "Smb2DialectMin": "SMB311",
        "Smb2DialectMax": "SMB311",
    })
}

/// Opens every channel that there may be, and tells of the pairs of interfaces they go over.
fn connections(place: &Place, login: &Login) -> Result<Vec<Value>, Error> {
    runtime()?.block_on(async {
        let session = sign_in(place, login).await?;
        let tree = session.tree(&place.share).await.map_err(failed)?;
        let widened = session.widen().await;
        let connected = session.connected();
        drop(tree);
        let _ = session.close().await;
        if let Err(error) = widened {
            eprintln!("note: not every channel could be opened: {}", printable(&error.to_string()));
        }
        Ok(shown(&connected))
    })
}

fn shown(connected: &Connected) -> Vec<Value> {
    let mut shown: Vec<Value> = connected.pairs.iter().map(|pair| of_pair(connected, pair)).collect();
    if shown.is_empty() {
        // One channel without multichannel: nobody has asked for interfaces.
        shown.extend(connected.channels.iter().map(|channel| {
            json!({
                "ServerName": connected.server,
                "Selected": true,
                "ClientIpAddress": channel.local.to_string(),
                "ServerIpAddress": channel.remote.ip().to_string(),
                "CurrentChannels": 1,
                "MaxChannels": 1,
                "Failed": false,
                "FailureCount": connected.failure_count,
            })
        }));
    }
    shown
}

fn of_pair(connected: &Connected, pair: &Pair) -> Value {
    let local = pair.local.as_ref();
    let goes = |channel: &&::client::Counters| {
        channel.remote.ip() == pair.address && local.is_none_or(|local| local.address == channel.local)
    };
    let current = connected.channels.iter().filter(goes).count();
    json!({
        "ServerName": connected.server,
        "Selected": current > 0,
        "ClientInterfaceFriendlyName": local.map(|local| local.name.clone()),
        "ClientInterfaceIndex": local.map(|local| local.index),
        "ClientIpAddress": local.map(|local| local.address.to_string()),
        "ClientLinkSpeed": local.map(|local| local.link_speed),
        "ClientRdmaCapable": false,
        "ClientRSSCapable": local.map(|local| local.has_rss),
        "CurrentChannels": current,
        "Failed": current == 0,
        "FailureCount": connected.failure_count,
        "MaxChannels": pair.connections,
        "ServerInterfaceIndex": pair.remote.index,
        "ServerIpAddress": pair.address.to_string(),
        "ServerLinkSpeed": pair.remote.link_speed,
        "ServerRdmaCapable": pair.remote.capability.contains(InterfaceCapability::RDMA_CAPABLE),
        "ServerRSSCapable": pair.remote.capability.contains(InterfaceCapability::RSS_CAPABLE),
    })
}

/// As Format-List prints it: a property a line, a blank line between objects.
fn list(objects: &[Value]) -> String {
    let each = objects.iter().filter_map(Value::as_object).map(|object| {
        let width = object.keys().map(String::len).max().unwrap_or(0);
        object.iter().map(|(name, value)| format!("{name:width$} : {}\n", text(value))).collect::<String>()
    });
    each.collect::<Vec<_>>().join("\n")
}

fn two_columns(object: &Value) -> String {
    let mut table = Table::new(["NAME", "VALUE"]);
    for (name, value) in object.as_object().unwrap_or(&Map::new()) {
        table.row([name.clone(), text(value)]);
    }
    table.text()
}

/// The columns that Windows shows by default.
fn connections_table(objects: &[Value]) -> String {
    const COLUMNS: [&str; 8] = [
        "ServerName",
        "Selected",
        "ClientIpAddress",
        "ServerIpAddress",
        "ClientInterfaceIndex",
        "ServerInterfaceIndex",
        "ClientRSSCapable",
        "ClientRdmaCapable",
    ];
    let mut table = Table::new([
        "Server Name",
        "Selected",
        "Client IP",
        "Server IP",
        "Client Interface Index",
        "Server Interface Index",
        "Client RSS Capable",
        "Client RDMA Capable",
    ]);
    for object in objects {
        table.row(COLUMNS.map(|column| text(&object[column])));
    }
    table.text()
}

/// A value as PowerShell shows it.
fn text(value: &Value) -> String {
    match value {
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(text) => printable(text),
        Value::Null => String::new(),
        Value::Number(number) => number.to_string(),
        Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}
