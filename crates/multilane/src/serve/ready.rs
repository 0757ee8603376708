//! What people and programs are told once the server answers clients.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use control::{DataFolder, Error};
use serde::Serialize;
use server::admin::{Account, Configuration, Multichannel};

use super::http::Places;
use crate::data;
use crate::hints::{self, Hints};
use crate::listening::joined;
use crate::output::{self, Output};
use crate::rest;

/// What runs, as `--json` prints it on one line once the server answers clients.
#[derive(Serialize)]
struct Ready {
    listen: Vec<SocketAddr>,
    metrics: Option<SocketAddr>,
    page: Option<SocketAddr>,
    rest: Option<rest::Told>,
    data: PathBuf,
    shares: Vec<String>,
    process: u32,
}

/// Says where the server listens and how clients reach it.
pub(super) fn announce(
    folder: &DataFolder,
    listen: &[SocketAddr],
    Places { metrics, page, rest }: Places,
    configuration: &Configuration,
    output: Output,
) -> Result<(), Error> {
    let shares = configuration.shares.iter().map(|share| share.name.clone()).collect();
    let (data, process) = (folder.path().to_owned(), std::process::id());
    let listen = listen.to_vec();
    let ready = Ready { listen, metrics, page, rest, data, shares, process };
    match output {
        Output::Json => output::line(&ready),
        Output::Text => output.print(&ready, |ready| text(ready, configuration)),
    }
}

/// The arguments that lead a command to this data folder, with a space before them, or nothing.
pub(super) fn of_data(path: &Path) -> String {
    if data::is_default(path) {
        return String::new();
    }
    format!(" --data {}", hints::quoted(&path.to_string_lossy()))
}

fn text(ready: &Ready, configuration: &Configuration) -> String {
    let mut text = format!(
        "Multilane {} serves {} on {}.\n",
        env!("CARGO_PKG_VERSION"),
        ready.data.display(),
        joined(&ready.listen)
    );
    let data = of_data(&ready.data);
    if let Some(page) = ready.page {
        text.push_str(&format!(
            "Its page is http://{page}/, for operators: `multilane operator create NAME{data}` makes one.\n"
        ));
    }
    text.push_str(&rest_text(ready, configuration, &data));
    let Some(address) = ready.listen.first() else {
        return text;
    };
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let share = configuration.shares.first().map(|share| (share.name.clone(), share.account.clone()));
    let hints = Hints {
        host: hints::host(*address, &name),
        port: address.port(),
        channels: channels(configuration),
        share,
        data,
    };
    text.push_str(&hints.text());
    text
}

/// How to reach the REST interface, where there is one.
fn rest_text(ready: &Ready, configuration: &Configuration, data: &str) -> String {
    let Some(rest) = &ready.rest else { return String::new() };
    let mut text = format!("Azure Files' REST interface is at {}.\n", rest.url);
    if let Some(authority) = &rest.authority {
        let authority = hints::quoted(&authority.to_string_lossy());
        text.push_str(&format!("Its clients have to trust {authority}:\n  export REQUESTS_CA_BUNDLE={authority}\n"));
    }
    match (&rest.connection_string, configuration.shares.first()) {
        (Some(connection), _) => text.push_str(&format!(
            "The key of its account is the one that everybody knows:\n  export AZURE_STORAGE_CONNECTION_STRING='{connection}'\n  az storage share list --output table\n"
        )),
        (None, Some(share)) => text.push_str(&format!(
            "What its clients are told:\n  multilane rest connection-string {}{data}\n",
            share.account
        )),
        (None, None) => {}
    }
    text
}

/// The connections that one session of the first share's account may use at once.
fn channels(configuration: &Configuration) -> usize {
    let account = configuration.shares.first().map(|share| &share.account);
    let has_several = |one: &&Account| Some(&one.name) == account && one.multichannel == Multichannel::On;
    match configuration.accounts.iter().find(has_several) {
        Some(_) => configuration.settings.channels_max,
        None => 1,
    }
}
