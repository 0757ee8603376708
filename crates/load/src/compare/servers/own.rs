//! Our own server: a private data folder, an account with multichannel, and a RAM disk.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ::client::{Settings, Target};
use serde::Deserialize;

use super::process::{Process, folder};
use super::{Server, Wanted, first_address};
use crate::engine::{Failure, Mount};

/// The account that the first start makes.
const ACCOUNT: &str = "local";
const SHARE: &str = "compare";
/// Room on the RAM disk beside the files, in bytes.
const SPARE_BYTES: u64 = 64 << 20;

/// The line that `serve --json` prints.
#[derive(Deserialize)]
struct Ready {
    listen: Vec<SocketAddr>,
}

/// What `account keys --json` prints.
#[derive(Deserialize)]
struct Keys {
    key1: String,
}

/// Who changes the account of a server that runs, by the commands that an operator has.
#[derive(Debug)]
pub(super) struct Operator {
    program: PathBuf,
    data: PathBuf,
}

impl Operator {
    /// Switches the account's metadata caching. It counts for the server when this returns.
    pub(super) fn cache_metadata(&self, switch: &str) -> Result<(), Failure> {
        admin(&self.program, &self.data, &["account", "update", ACCOUNT, "--metadata-caching", switch]).map(drop)
    }
}

/// Starts it on a free port of its host.
pub(super) fn start(program: &Path, wanted: Wanted) -> Result<Server, Failure> {
    let folder = folder("multilane-compare-")?;
    let data = folder.path().join("data");
    let mut serve = wanted.sides.on_server(program);
    let listen = SocketAddr::new(wanted.sides.listen(), 0).to_string();
    serve.arg("--data").arg(&data).args(["--json", "serve", "--listen", &listen, "--signing", "enabled"]);
    serve.args(["--channels-max", &wanted.channels.to_string()]).stdout(Stdio::piped()).env("MULTILANE_LOG", "warn");
    if let Some(latency) = wanted.store_latency {
        serve.args(["--store-latency", &(latency.as_secs_f64() * 1e3).to_string()]);
    }
    let mut process = Process::start("our server", serve, folder)?;
    let ready: Ready = parsed(&process.first_line()?)?;
    let address = ready.listen.first().ok_or_else(|| unexpected("it listens nowhere"))?;

    let ask = |words: &[&str]| admin(program, &data, words);
    ask(&["account", "update", ACCOUNT, "--multichannel", "on"])?;
    let room = (wanted.bytes + SPARE_BYTES).div_ceil(1 << 20);
    ask(&["share", "create", SHARE, "--ram", &format!("{room}M")])?;
    let keys: Keys = parsed(&ask(&["account", "keys", ACCOUNT])?)?;
    let server = Target {
        host: first_address(wanted.sides).to_string(),
        port: address.port(),
        user: ACCOUNT.to_owned(),
        password: keys.key1,
    };
    Ok(Server {
        name: "multilane".to_owned(),
        about: format!("multilane {}, started for this; files on {}", env!("CARGO_PKG_VERSION"), place(wanted)),
        mount: Mount { server, settings: Settings::default(), share: SHARE.to_owned() },
        folder: String::new(),
        process: Some(process),
        operator: Some(Operator { program: program.to_owned(), data }),
    })
}

/// Where its files are, in words.
fn place(wanted: Wanted) -> String {
    match wanted.store_latency {
        None => "its RAM disk".to_owned(),
        Some(latency) => format!(
            "its RAM disk, behind a simulated latency of {} ms for each call that a remote store would be asked",
            latency.as_secs_f64() * 1e3
        ),
    }
}

/// Has the server's own program change something; gives what it prints as JSON.
fn admin(program: &Path, data: &Path, words: &[&str]) -> Result<String, Failure> {
    let mut command = Command::new(program);
    command.arg("--data").arg(data).arg("--json").args(words).stdin(Stdio::null());
    let output = command.output().map_err(|cause| unexpected(&cause.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(unexpected(&format!("`{}` says {}", words.join(" "), said.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn parsed<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|cause| unexpected(&cause.to_string()))
}

fn unexpected(cause: &str) -> Failure {
    Failure {
        what: format!("our server could not be set up: {cause}"),
        remedy: "measure one that runs, with --server smb://USER@HOST/SHARE".to_owned(),
    }
}
