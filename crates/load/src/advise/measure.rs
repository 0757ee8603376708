//! Tries a workload with one channel and with as many as there are, in turns, for ten seconds in all.

use std::sync::Arc;
use std::time::Duration;

use client::{Channels, Error, Session, Settings, Tcp};

use super::{Measured, Workload};
use crate::compare::statistics::{median, ratios};
use crate::engine::{self, Failure, Mount, Phase, Place, Places, Stop, Watch};
use crate::profile::{Pattern, Profile, Target, TimeSpan};
use crate::results::{Results, TimeSpanResults};

/// Rounds of two runs each. The first warms up and does not count.
const ROUNDS: usize = 6;
/// How long each run is measured.
const RUN: Duration = Duration::from_millis(800);
/// Before that, of each run: the client tries meanwhile whether several channels move more.
const WARM_UP: Duration = Duration::from_millis(400);
/// Bytes of all test files together, and of one at most.
const ALL_BYTES: u64 = 1 << 30;
const FILE_BYTES_MAX: u64 = 16 << 20;
/// The test files' names, with a number behind.
const NAME: &str = "multilane-advise-test";

/// One run: what it reached, and over how many channels.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Run {
    iops: f64,
    channels: usize,
}

/// Tries it on a share, in test files that are removed afterwards, and takes about ten seconds beside the time to make the files. Must
/// not be called within a runtime.
///
/// # Errors
///
/// What [`engine::run`] says, or that it was stopped. Files that were made are removed then, too, where the server lets them be.
pub fn measure(workload: &Workload, mount: &Mount, folder: &str, stop: &Stop) -> Result<Measured, Failure> {
    let folder = folder.replace('/', r"\");
    let at = |number| if folder.is_empty() { format!("{NAME}{number}") } else { format!(r"{folder}\{NAME}{number}") };
    let names: Vec<String> = (0..workload.files).map(at).collect();
    let tried = rounds(workload, mount, &names, stop);
    let removed = remove(mount, &names);
    let measured = tried?;
    removed.map_err(|error| failure(&error))?;
    Ok(measured)
}

fn rounds(workload: &Workload, mount: &Mount, names: &[String], stop: &Stop) -> Result<Measured, Failure> {
    let place =
        |channels| OnePlace(Arc::new(Mount { settings: Settings { channels, ..mount.settings }, ..mount.clone() }));
    let several = match mount.settings.channels {
        Channels::Exactly(0..=1) => Channels::Automatic,
        chosen => chosen,
    };
    let (one, several) = (place(Channels::Exactly(1)), place(several));
    let mut pairs = Vec::new();
    for round in 0..ROUNDS {
        let try_with = |places: &OnePlace, makes_files| run(&profile(workload, names, makes_files), places, stop);
        // What comes second in one round comes first in the next: what drifts meets both alike.
        pairs.push(match round % 2 {
            0 => {
                let one = try_with(&one, round == 0)?;
                (one, try_with(&several, false)?)
            }
            _ => {
                let several = try_with(&several, false)?;
                (try_with(&one, false)?, several)
            }
        });
    }
    summary(pairs.get(1..).unwrap_or_default())
}

fn run(profile: &Profile, places: &OnePlace, stop: &Stop) -> Result<Run, Failure> {
    let results = engine::run(profile, places, &Silent, stop)?;
    if stop.is_asked() {
        return Err(Failure { what: "the measurement was stopped".into(), remedy: "run it again".into() });
    }
    of(&results).ok_or_else(|| Failure {
        what: "no request was answered while it was measured".into(),
        remedy: "use smaller blocks, or see what keeps the server busy".into(),
    })
}

fn of(results: &Results) -> Option<Run> {
    let span: &TimeSpanResults = results.time_spans.first()?;
    let targets = span.threads.iter().flat_map(|thread| &thread.targets);
    let requests: u64 = targets.map(|target| target.read.requests + target.write.requests).sum();
    let seconds = span.test_time.as_secs_f64();
    (requests > 0 && seconds > 0.0).then(|| Run { iops: requests as f64 / seconds, channels: span.channels.len() })
}

fn summary(pairs: &[(Run, Run)]) -> Result<Measured, Failure> {
    let spread = ratios(pairs.iter().map(|(one, several)| (several.iops, one.iops)));
    let one = median(pairs.iter().map(|(one, _)| one.iops));
    let several = median(pairs.iter().map(|(_, several)| several.iops));
    let (Some(spread), Some(one), Some(several), Some((_, last))) = (spread, one, several, pairs.last()) else {
        return Err(Failure { what: "nothing was measured".into(), remedy: "run it again".into() });
    };
    Ok(Measured {
        one_channel_iops: one,
        several_channels_iops: several,
        channels: last.channels,
        ratio: spread.median,
        ratio_low: spread.low,
        ratio_high: spread.high,
        rounds: pairs.len(),
        run: RUN,
    })
}

/// The workload, at random places of the files.
fn profile(workload: &Workload, names: &[String], makes_files: bool) -> Profile {
    let block = u64::from(workload.block_bytes);
    let file_bytes = (ALL_BYTES / names.len().max(1) as u64).min(FILE_BYTES_MAX).max(block);
    let target = |name: &String| Target {
        block_bytes: workload.block_bytes,
        pattern: Pattern::Random { align_bytes: block, random_percent: 100 },
        file_bytes: makes_files.then_some(file_bytes),
        write_percent: workload.write_percent,
        ..Target::new(name)
    };
    Profile {
        time_spans: vec![TimeSpan {
            duration: RUN,
            warmup: WARM_UP,
            thread_count: Some(workload.threads),
            request_count: Some(workload.outstanding),
            targets: names.iter().map(target).collect(),
            ..TimeSpan::default()
        }],
        ..Profile::default()
    }
}

/// Removes the test files, those that are there.
fn remove(mount: &Mount, names: &[String]) -> Result<(), Error> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = built.map_err(|cause| Error::Machine(format!("cannot start threads: {cause}")))?;
    runtime.block_on(async {
        let session = Session::connect(&mount.server, mount.settings, Arc::new(Tcp)).await?;
        let tree = session.tree(&mount.share).await?;
        let mut removed = Ok(());
        for name in names {
            match tree.remove(name).await {
                Err(error) if error.status() != Some(client::Status::OBJECT_NAME_NOT_FOUND) => removed = Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        drop(tree);
        session.close().await.and(removed)
    })
}

fn failure(error: &Error) -> Failure {
    let what = format!("the test files ({NAME}...) could not be removed: {error}");
    Failure { what, remedy: error.remedy().to_owned() }
}

/// Every target is a file of one share.
struct OnePlace(Arc<Mount>);

impl Places for OnePlace {
    fn place(&self, path: &str) -> Result<Place, Failure> {
        Ok(Place { mount: Arc::clone(&self.0), name: path.to_owned() })
    }
}

/// Nobody watches.
struct Silent;

impl Watch for Silent {
    fn phase(&self, _: usize, _: Phase) {}
    fn note(&self, _: &str) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: Workload = Workload { threads: 3, files: 2, block_bytes: 8192, write_percent: 30, outstanding: 5 };

    #[test]
    fn the_ratio_is_the_median_of_the_rounds_with_its_spread() {
        let run = |iops, channels| Run { iops, channels };
        let pairs = [(100.0, 300.0), (100.0, 100.0), (50.0, 200.0)];
        let pairs = pairs.map(|(one, several)| (run(one, 1), run(several, 4)));
        let measured = summary(&pairs).unwrap();
        assert_eq!((measured.ratio, measured.ratio_low, measured.ratio_high), (3.0, 1.0, 4.0));
        assert_eq!((measured.one_channel_iops, measured.several_channels_iops), (100.0, 200.0));
        assert_eq!((measured.channels, measured.rounds), (4, 3));
        assert!(summary(&[]).is_err());
    }

    #[test]
    fn a_profile_is_the_workload() {
        let names = ["a".to_owned(), "b".to_owned()];
        let profile = profile(&WORK, &names, true);
        let span = &profile.time_spans[0];
        assert_eq!((span.thread_count, span.request_count, span.targets.len()), (Some(3), Some(5), 2));
        let target = &span.targets[1];
        assert_eq!((target.path.as_str(), target.block_bytes, target.write_percent), ("b", 8192, 30));
        assert_eq!(target.file_bytes, Some(16 << 20));
        let many: Vec<String> = (0..1024).map(|number| number.to_string()).collect();
        let bytes: u64 = super::profile(&WORK, &many, true).time_spans[0]
            .targets
            .iter()
            .filter_map(|target| target.file_bytes)
            .sum();
        assert!(bytes <= ALL_BYTES);
        assert_eq!(super::profile(&WORK, &names, false).time_spans[0].targets[0].file_bytes, None);
    }
}
