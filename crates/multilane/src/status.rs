//! `multilane status`: one look at the server of a data folder, with an exit code for scripts.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use control::{AuditLines, DataFolder, Error, Fault, Seen, Status, see};
use serde::Serialize;

use crate::output::Output;
use crate::table::{printable, span};

/// How the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// It serves clients.
    Ready,
    /// It runs, and some of its shards do not answer: their clients wait.
    ShardsHang,
    /// It runs, and does not answer.
    Silent,
    Starting,
    Stopping,
    NotRunning,
    NoDataFolder,
}

impl State {
    fn exit_code(self) -> u8 {
        match self {
            State::Ready => 0,
            State::NotRunning => 3,
            State::ShardsHang | State::Silent | State::Starting | State::Stopping => 4,
            State::NoDataFolder => 5,
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            State::Ready => "the server is ready",
            State::ShardsHang => "the server runs, and some of its shards do not answer",
            State::Silent => "the server runs, and does not answer",
            State::Starting => "the server starts, or cannot be reached yet",
            State::Stopping => "the server was told to end",
            State::NotRunning => "no server runs here",
            State::NoDataFolder => "there is no catalog here",
        }
    }
}

/// What was seen, as `--json` prints it.
#[derive(Serialize)]
struct Look {
    state: State,
    data: PathBuf,
    process: Option<u32>,
    #[serde(flatten)]
    advice: Option<Advice>,
    #[serde(flatten)]
    status: Option<Said>,
}

/// Why there is nothing to look at, and what to do, as other commands say it.
#[derive(Serialize)]
struct Advice {
    problem: String,
    remedy: String,
}

impl Advice {
    fn of(error: &Error) -> Self {
        Advice { problem: error.what().to_owned(), remedy: error.remedy().to_owned() }
    }
}

/// What the server says of itself, but for its process.
#[derive(Serialize)]
struct Said {
    version: String,
    since: String,
    up_seconds: u64,
    listen: Vec<String>,
    metrics: Option<String>,
    page: Option<String>,
    rest: Option<String>,
    sessions: usize,
    opens: usize,
    locked_users: usize,
    connections: usize,
    shards: usize,
    silent_shards: Vec<usize>,
    catalog_damage: Option<String>,
    problems: Vec<control::Problem>,
    audit: AuditLines,
}

pub(crate) fn run(path: &Path, output: Output) -> Result<ExitCode, Error> {
    let look = match DataFolder::open(path) {
        Ok(folder) => Look::of(folder.path(), see(&folder)?),
        Err(error) if error.fault() == Fault::Missing => {
            Look { advice: Some(Advice::of(&error)), ..Look::without(State::NoDataFolder, path, None) }
        }
        Err(error) => return Err(error),
    };
    output.print(&look, Look::text)?;
    Ok(ExitCode::from(look.state.exit_code()))
}

impl Look {
    fn of(path: &Path, seen: Seen) -> Self {
        match seen {
            Seen::Answers(status) => {
                let state = if status.silent_shards.is_empty() { State::Ready } else { State::ShardsHang };
                let process = Some(status.process);
                Look { status: Some(Said::of(*status)), ..Look::without(state, path, process) }
            }
            Seen::Silent(process) => Look::without(State::Silent, path, process),
            Seen::Begins(process) => Look::without(State::Starting, path, process),
            Seen::Ends(process) => Look::without(State::Stopping, path, process),
            Seen::Nowhere => Look::without(State::NotRunning, path, None),
        }
    }

    fn without(state: State, path: &Path, process: Option<u32>) -> Self {
        Look { state, data: path.to_owned(), process, advice: None, status: None }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        // It writes to memory.
        let mut line = |name: &str, value: &str| _ = writeln!(text, "{name:<12}{}", printable(value));
        line("state", self.state.sentence());
        line("data", &self.data.to_string_lossy());
        if let Some(process) = self.process {
            line("process", &process.to_string());
        }
        if let Some(advice) = &self.advice {
            line("problem", &advice.problem);
            line("help", &advice.remedy);
        }
        if let Some(said) = &self.status {
            line("version", &said.version);
            line("since", &format!("{}, for {}", said.since, span(said.up_seconds)));
            line("listens on", &said.listen.join(" and "));
            if let Some(address) = &said.metrics {
                line("metrics", &format!("http://{address}/metrics"));
            }
            if let Some(address) = &said.page {
                line("page", &format!("http://{address}/"));
            }
            if let Some(url) = &said.rest {
                line("REST", url);
            }
            line("connections", &said.connections.to_string());
            line("sessions", &said.sessions.to_string());
            line("opens", &said.opens.to_string());
            if said.locked_users > 0 {
                line("locked", &format!("{} users: `multilane user list` shows them", said.locked_users));
            }
            let AuditLines { written, lost } = said.audit;
            if written + lost > 0 {
                line("audit", &format!("{written} events written, {lost} lost"));
            }
            for shard in &said.silent_shards {
                line("hangs", &format!("shard {shard} of {}", said.shards));
            }
            if let Some(damage) = &said.catalog_damage {
                line("catalog", &format!("damaged: {damage}; restore a backup with `multilane restore FILE`"));
            }
            for problem in &said.problems {
                let name = if problem.served { "faulty" } else { "not served" };
                line(name, &format!("{}: {}", problem.share, problem.problem));
            }
        }
        text
    }
}

impl Said {
    fn of(status: Status) -> Self {
        Said {
            version: status.version,
            since: status.since,
            up_seconds: status.up_seconds,
            listen: status.listen,
            metrics: status.metrics,
            page: status.page,
            rest: status.rest,
            sessions: status.sessions,
            opens: status.opens,
            locked_users: status.locked_users,
            connections: status.connections.iter().sum(),
            shards: status.connections.len(),
            silent_shards: status.silent_shards,
            catalog_damage: status.catalog_damage,
            problems: status.problems,
            audit: status.audit,
        }
    }
}
