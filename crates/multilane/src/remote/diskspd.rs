//! `multilane diskspd`: DiskSpd's command line and report over the client.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io, thread};

use ::client::{Settings, Signing, Target};
use clap::{CommandFactory, Parser, ValueEnum};
use control::{Error, Fault};
use load::diskspd::command_line::{self, Asked, Surroundings};
use load::diskspd::machine::Machine;
use load::diskspd::{HELP, profile_xml, report_text, report_xml};
use load::engine::{self, Failure, Mount, Phase, Places, Stop, Watch};
use load::profile::{Profile, ResultFormat};

use super::arguments::Login;
use super::place::{Either, Place};
use super::{password, settings};
use crate::output::{self, Output};
use crate::signals::Wishes;
use crate::table::printable_lines;

/// DiskSpd's exit code for a run that failed.
const FAILED: u8 = 1;
/// DiskSpd's exit code for a command line that is wrong.
const WRONG: u8 = 3;
/// Bytes of a profile in XML: many times what a thousand targets take.
const PROFILE_BYTES_MAX: u64 = 16 << 20;

/// What we have beside DiskSpd's options, all of it in words that begin with `--`.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Additions {
    #[arg(long = "map", value_name = "z:=PLACE", value_parser = map)]
    maps: Vec<Map>,
    #[arg(long)]
    signing: Option<WhenSigned>,
    #[command(flatten)]
    login: Login,
}

/// Whether what is not encrypted is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WhenSigned {
    Required,
    AsServerWants,
}

/// What a drive letter stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Map {
    /// In lower case.
    letter: char,
    place: Place,
}

/// Why there is no report.
enum Ending {
    Wrong(Vec<Failure>),
    Failed(Failure),
}

/// Runs, reports, and gives DiskSpd's exit code.
pub(crate) fn run(words: &[String], output: Output) -> ExitCode {
    let (failures, code) = match prepare_and_run(words, output) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Ending::Wrong(failures)) => (failures, WRONG),
        Err(Ending::Failed(failure)) => (vec![failure], FAILED),
    };
    for Failure { what, remedy } in failures {
        eprintln!("{}", printable_lines(&format!("error: {what}\nhelp: {remedy}")));
    }
    ExitCode::from(code)
}

fn prepare_and_run(words: &[String], output: Output) -> Result<(), Ending> {
    if output == Output::Json {
        return Err(Error::argument("--json: DiskSpd's reports are text or XML", "use -Rxml").into());
    }
    let (ours, theirs) = parted(words);
    if ours.contains(&"--help") {
        return Ok(output::write_all(HELP.as_bytes())?);
    }
    let additions = additions(&ours)?;
    let asked = command_line::read(&theirs, &Surroundings { file: &profile_file, clock_seed: clock_seed() });
    let (profile, warnings) = match asked.map_err(Ending::Wrong)? {
        Asked::Help => return Ok(output::write_all(HELP.as_bytes())?),
        Asked::Run { profile, warnings } => (profile, warnings),
    };
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    let line = format!("multilane diskspd {}", words.join(" "));
    if profile.profile_only {
        let text = match profile.result_format {
            ResultFormat::Text => report_text::profile_text(&line, &profile),
            ResultFormat::Xml => profile_xml::write(&profile),
        };
        return Ok(output::write_all(text.as_bytes())?);
    }
    let drives = Drives::new(additions)?;
    let stop = Stop::default();
    heed_signals(&stop)?;
    drives.check(&profile)?;
    let watch = Notes { is_verbose: profile.verbose };
    let results = engine::run(&profile, &drives, &watch, &stop).map_err(Ending::Failed)?;
    let machine = Machine::this();
    let report = match profile.result_format {
        ResultFormat::Text => report_text::report(&line, &profile, &machine, &results),
        ResultFormat::Xml => report_xml::report(&profile, &machine, &results),
    };
    Ok(output::write_all(report.as_bytes())?)
}

/// Parts our words from DiskSpd's. Of ours, those that take a value and have no `=` are followed by it.
fn parted(words: &[String]) -> (Vec<&str>, Vec<&str>) {
    let known = Additions::command();
    let takes_value = |name: &str| {
        let mut arguments = known.get_arguments();
        arguments.any(|argument| argument.get_long() == Some(name) && argument.get_action().takes_values())
    };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word.strip_prefix("--") {
            Some(name) => {
                ours.push(word);
                ours.extend(takes_value(name).then(|| words.next()).flatten());
            }
            None => theirs.push(word),
        }
    }
    (ours, theirs)
}

fn additions(words: &[&str]) -> Result<Additions, Ending> {
    Additions::try_parse_from(words).map_err(|error| {
        let text = error.render().to_string();
        let what = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        Ending::Wrong(vec![Failure { what, remedy: "`multilane diskspd -?` lists the additions".to_owned() }])
    })
}

/// Ends the run in order at the first SIGINT, SIGTERM or SIGHUP, and at once at the second.
pub(super) fn heed_signals(stop: &Stop) -> Result<(), Error> {
    let caught = Wishes::new();
    let mut wishes = caught
        .map_err(|cause| Error::machine(format!("cannot catch signals: {cause}"), "see what this machine lacks"))?;
    let stop = stop.clone();
    thread::spawn(move || {
        loop {
            wishes.next();
            eprintln!("note: the run ends; the report tells what was measured by now");
            stop.now();
        }
    });
    Ok(())
}

fn profile_file(path: &str) -> Result<Vec<u8>, Failure> {
    let read = || {
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(fs::File::open(path)?, PROFILE_BYTES_MAX + 1), &mut bytes)?;
        Ok::<_, io::Error>(bytes)
    };
    let unread = |what: String| Failure { what, remedy: "check the name of the profile".to_owned() };
    match read() {
        Ok(bytes) if bytes.len() as u64 > PROFILE_BYTES_MAX => Err(unread(format!("{path} is longer than a profile"))),
        Ok(bytes) => Ok(bytes),
        Err(cause) => Err(unread(format!("cannot read {path}: {cause}"))),
    }
}

fn clock_seed() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u32)
}

fn map(text: &str) -> Result<Map, Error> {
    let wrong = |what: String| Error::argument(what, "use --map z:=smb://server/share");
    let (drive, place) = text.split_once('=').ok_or_else(|| wrong(format!("{text:?} maps nothing")))?;
    let mut letters = drive.chars();
    match (letters.next(), letters.as_str()) {
        (Some(letter), ":" | "") if letter.is_ascii_alphabetic() => {
            Ok(Map { letter: letter.to_ascii_lowercase(), place: place.parse()? })
        }
        _ => Err(wrong(format!("{drive:?} is no drive letter"))),
    }
}

/// Finds what targets stand for, and who signs in there.
struct Drives {
    maps: Vec<Map>,
    user: Option<String>,
    password: String,
    settings: Settings,
    /// One for each share and user, so that their targets have one session.
    mounts: Mutex<Vec<Arc<Mount>>>,
}

impl Drives {
    fn new(additions: Additions) -> Result<Self, Error> {
        let Additions { maps, signing, login } = additions;
        let settings = settings(&login)?;
        let signing = match signing {
            None => settings.signing,
            Some(WhenSigned::Required) => Signing::Required,
            Some(WhenSigned::AsServerWants) => Signing::AsServerWants,
        };
        Ok(Drives {
            maps,
            settings: Settings { signing, ..settings },
            password: password(&login.who)?,
            user: login.who.user,
            mounts: Mutex::default(),
        })
    }

    /// Checks that each target of a profile names a file on a share.
    fn check(&self, profile: &Profile) -> Result<(), Error> {
        let mut targets = profile.time_spans.iter().flat_map(|span| &span.targets);
        targets.try_for_each(|target| self.find(&target.path).map(drop))
    }

    fn find(&self, path: &str) -> Result<engine::Place, Error> {
        let place = self.remote(path)?;
        if place.is_directory {
            return Err(Error::argument(format!("{path} names no file"), "add a file's name"));
        }
        let user = self.user.clone().or_else(|| place.user.clone());
        let user = user
            .ok_or_else(|| Error::argument("nobody is named to sign in as", "use --user NAME, or smb://NAME@SERVER"))?;
        Ok(engine::Place { name: place.path.replace('/', r"\"), mount: self.mount(&place, user) })
    }

    fn remote(&self, path: &str) -> Result<Place, Error> {
        let mut letters = path.chars();
        if let (Some(letter), Some(':')) = (letters.next(), letters.next())
            && letter.is_ascii_alphabetic()
        {
            let letter = letter.to_ascii_lowercase();
            let map = self.maps.iter().rfind(|map| map.letter == letter).ok_or_else(|| {
                let remedy = format!("add --map {letter}:=smb://server/share before the targets");
                Error::argument(format!("{path}: nothing says what {letter}: stands for"), remedy)
            })?;
            let below = map.place.below(&letters.as_str().replace('\\', "/"));
            return below.ok_or_else(|| Error::argument(format!("{path} is no path"), "leave out . and .."));
        }
        let remedy = r"use \\server\share\file, smb://server/share/file, or z:\file with --map";
        match path.parse()? {
            Either::Remote(place) => Ok(place),
            Either::Local(_) if path.starts_with('#') => {
                Err(Error::argument(format!("{path} is a disk of this machine"), remedy))
            }
            Either::Local(_) => Err(Error::argument(format!("{path} is a file of this machine"), remedy)),
        }
    }

    fn mount(&self, place: &Place, user: String) -> Arc<Mount> {
        let mut mounts = self.mounts.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |mount: &&Arc<Mount>| {
            let Target { host, port, user: theirs, .. } = &mount.server;
            (host, *port, &mount.share, theirs) == (&place.host, place.port, &place.share, &user)
        };
        if let Some(mount) = mounts.iter().find(is_same) {
            return Arc::clone(mount);
        }
        let server =
            Target { host: place.host.clone(), port: place.port, user: user.clone(), password: self.password.clone() };
        let mount = Arc::new(Mount { server, settings: self.settings, share: place.share.clone() });
        mounts.push(Arc::clone(&mount));
        mount
    }
}

impl Places for Drives {
    fn place(&self, path: &str) -> Result<engine::Place, Failure> {
        let failure = |error: Error| Failure { what: error.what().to_owned(), remedy: error.remedy().to_owned() };
        self.find(path).map_err(failure)
    }
}

/// What `-v` shows.
struct Notes {
    is_verbose: bool,
}

impl Watch for Notes {
    fn phase(&self, time_span: usize, phase: Phase) {
        if self.is_verbose {
            let phase = match phase {
                Phase::Preparing => "preparing files",
                Phase::WarmingUp => "warming up",
                Phase::Measuring => "measuring",
                Phase::CoolingDown => "cooling down",
            };
            eprintln!("time span {}: {phase}", time_span + 1);
        }
    }

    fn note(&self, line: &str) {
        if self.is_verbose {
            eprintln!("{line}");
        }
    }
}

impl From<Error> for Ending {
    fn from(error: Error) -> Self {
        let failure = Failure { what: error.what().to_owned(), remedy: error.remedy().to_owned() };
        match error.fault() {
            Fault::Argument => Ending::Wrong(vec![failure]),
            Fault::Missing | Fault::Conflict | Fault::Machine => Ending::Failed(failure),
        }
    }
}
