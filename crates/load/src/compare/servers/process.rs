//! A server's processes: started in a folder of their own, asked for their CPU time, and ended with all they started.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::engine::{Failure, Stop};

/// How long a server may take until it answers.
pub(super) const START_MAX: Duration = Duration::from_secs(20);
/// How long it may take to end by itself.
const END_MAX: Duration = Duration::from_secs(10);
/// How often it is looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Bytes of a line that a server announces itself with.
const LINE_MAX: u64 = 64 << 10;
/// Bytes of a server's log that a failure shows.
const LOG_SHOWN: usize = 1000;

/// A server that runs, and the folder it has to itself. Both go when this does.
#[derive(Debug)]
pub(in crate::compare) struct Process {
    child: Child,
    folder: TempDir,
    /// Its kind, for messages.
    name: &'static str,
}

/// A folder for a server's files: where TMPDIR says, else in memory where this machine has such a file system.
pub(in crate::compare) fn folder(name: &str) -> Result<TempDir, Failure> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(name);
    let memory = Path::new("/dev/shm");
    let made =
        if env::var_os("TMPDIR").is_none() && memory.is_dir() { builder.tempdir_in(memory) } else { builder.tempdir() };
    made.map_err(|cause| Failure {
        what: format!("cannot make a folder for a server: {cause}"),
        remedy: "make room in /dev/shm or the folder for temporary files".to_owned(),
    })
}

impl Process {
    /// Starts a server. It is in a process group of its own: Ctrl-C at a terminal is for us to act on, not for it.
    pub(in crate::compare) fn start(
        name: &'static str,
        mut command: Command,
        folder: TempDir,
    ) -> Result<Self, Failure> {
        use std::os::unix::process::CommandExt;
        let log = fs::File::create(log(folder.path()));
        let started = log.and_then(|log| {
            command.stdin(Stdio::null()).stderr(log).process_group(0);
            command.spawn()
        });
        let child = started.map_err(|cause| Failure {
            what: format!("cannot start {name} ({}): {cause}", command.get_program().display()),
            remedy: "check that the program is there and may be run".to_owned(),
        })?;
        Ok(Process { child, folder, name })
    }

    /// The folder it has to itself.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The first line that it prints on its standard output, which must have been piped.
    pub(in crate::compare) fn first_line(&mut self) -> Result<String, Failure> {
        let (said, line) = channel();
        if let Some(out) = self.child.stdout.take() {
            thread::spawn(move || {
                let mut text = String::new();
                let mut out = BufReader::new(out);
                let read = (&mut out).take(LINE_MAX).read_line(&mut text);
                let _ = said.send(read.map(|_| text));
                // Whoever writes to a pipe without a reader ends.
                let _ = std::io::copy(&mut out, &mut std::io::sink());
            });
        }
        match line.recv_timeout(START_MAX) {
            Ok(Ok(line)) if line.ends_with('\n') => Ok(line),
            Ok(_) | Err(_) => Err(self.not_started()),
        }
    }

    /// Looks every now and then until it is `ready`, unless it ends before or takes too long.
    pub(super) fn wait(&mut self, stop: &Stop, mut ready: impl FnMut() -> bool) -> Result<(), Failure> {
        let deadline = Instant::now() + START_MAX;
        while !ready() {
            let has_ended = !matches!(self.child.try_wait(), Ok(None));
            if has_ended || stop.is_asked() || Instant::now() > deadline {
                return Err(self.not_started());
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn not_started(&self) -> Failure {
        let log = fs::read(log(self.folder.path())).unwrap_or_default();
        let end = String::from_utf8_lossy(log.get(log.len().saturating_sub(LOG_SHOWN)..).unwrap_or_default());
        let said = if end.trim().is_empty() { String::new() } else { format!("; it said: {}", end.trim()) };
        Failure { what: format!("{} did not start{said}", self.name), remedy: "see what it lacks".to_owned() }
    }

    /// CPU time (user and system) of all its processes so far, those included that have ended.
    pub(super) fn cpu(&self) -> Duration {
        family(self.child.id()).into_iter().map(cpu_of).sum()
    }

    /// Memory of all its processes: their proportional set sizes (proc(5), smaps_rollup).
    pub(super) fn memory_bytes(&self) -> u64 {
        family(self.child.id()).into_iter().map(memory_of).sum()
    }

    /// Processes that serve for it and are no descendants of it: they have its folder on their command lines.
    fn strays(&self) -> Vec<u32> {
        let Some(mark) = self.folder.path().to_str() else { return Vec::new() };
        let names_it = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.windows(mark.len()).any(|part| part == mark.as_bytes())
        };
        processes().filter(|pid| *pid != self.child.id() && *pid != std::process::id()).filter(names_it).collect()
    }

    fn end(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        let deadline = Instant::now() + END_MAX;
        signal(self.child.id(), Signal::TERM);
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let family: Vec<u32> = family(self.child.id()).into_iter().skip(1).collect();
        self.end();
        let left: Vec<u32> = family.into_iter().filter(|pid| is_running(*pid)).chain(self.strays()).collect();
        left.iter().for_each(|pid| signal(*pid, Signal::KILL));
        // The folder goes next, and who dies may still write to it.
        let deadline = Instant::now() + END_MAX;
        while left.iter().any(|pid| is_running(*pid)) && Instant::now() < deadline {
            thread::sleep(LOOK_EVERY);
        }
    }
}

/// True until it has ended, whether or not anybody has asked how.
fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| !matches!(fields.trim_start().chars().next(), Some('Z' | 'X')))
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // One that has ended since needs none.
        let _ = kill_process(pid, signal);
    }
}

fn log(folder: &Path) -> PathBuf {
    folder.join("server.log")
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A process, and those that it and they started.
fn family(pid: u32) -> Vec<u32> {
    let mut family = vec![pid];
    let mut at = 0;
    while let Some(pid) = family.get(at).copied() {
        at += 1;
        for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            family.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    family
}

/// What its threads and its ended children used (proc(5), fields 14 to 17 of `stat`). Those count in hundredths of a second, so that
/// little work seems none: the scheduler's own count, in nanoseconds, is taken where it is ahead. It lacks the threads that have ended.
fn cpu_of(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let Some((_, fields)) = stat.rsplit_once(')') else { return Duration::ZERO };
    let mut fields = fields.split_whitespace().skip(11).map_while(|field| field.parse::<u64>().ok());
    let mut both = || {
        let ticks = fields.by_ref().take(2).sum::<u64>();
        Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    };
    let (own, of_children) = (both(), both());
    own.max(scheduled(pid)) + of_children
}

/// The time that all threads of a process have run; nothing where the kernel does not tell.
fn scheduled(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let times = threads.filter_map(|thread| {
        let stat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(times.sum())
}

fn memory_of(pid: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let pss = rollup
        .lines()
        .find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    pss.unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        let folder = folder("multilane-test-").unwrap();
        let mut command = Command::new("sh");
        // Its folder stands on its command line as a server's does.
        command.args(["-c", script, "sh"]).arg(folder.path()).stdout(Stdio::piped());
        Process::start("a shell", command, folder).unwrap()
    }

    #[test]
    fn it_goes_with_its_children_and_its_folder() {
        let mut process = shell("sleep 1000 & echo $!; wait");
        let child: u32 = process.first_line().unwrap().trim().parse().unwrap();
        let folder = process.folder().to_owned();
        assert!(folder.exists() && is_running(child));
        drop(process);
        assert!(!folder.exists());
        assert!(!is_running(child));
    }

    #[test]
    fn one_that_ends_at_once_is_told_of_in_its_own_words() {
        let mut process = shell("echo no room >&2; exit 3");
        let failure = process.first_line().unwrap_err();
        assert!(failure.what.contains("did not start") && failure.what.contains("no room"), "{}", failure.what);
    }

    #[test]
    fn cpu_time_of_children_counts() {
        let mut process = shell("(i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done); echo done; read x");
        process.first_line().unwrap();
        assert!(process.cpu() > Duration::ZERO);
    }

    #[test]
    fn less_than_a_tick_counts() {
        if !Path::new("/proc/self/schedstat").exists() {
            eprintln!("this kernel does not tell");
            return;
        }
        let mut process = shell("echo ready; read x");
        process.first_line().unwrap();
        assert!(process.cpu() > Duration::ZERO, "it has started");
    }
}
