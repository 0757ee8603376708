//! The options one by one: what each sets.

use std::fmt::Display;
use std::time::Duration;

use super::caching::CachingSaid;
use super::order::OrderSaid;
use super::refused::Refused;
use super::size::{digits, number, size};
use super::{distribution, wrong};
use crate::engine::Failure;
use crate::profile::{BLOCK_BYTES, Burst, Hints, Profile, ResultFormat, Target, Throughput, TimeSpan, WriteContent};

/// Requests between two marks of `-P`.
const PROGRESS: u32 = 65536;
/// Milliseconds of an interval of `-D`.
const INTERVAL_MS: u64 = 1000;

/// One option: `-b4K` or `/b4K`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flag<'a> {
    /// As it was written.
    pub(super) text: &'a str,
    /// What it is: `b`.
    pub(super) letter: char,
    /// The rest: `4K`.
    pub(super) value: &'a str,
}

impl<'a> Flag<'a> {
    /// The option that a word is; `None` for a target.
    pub(super) fn of(text: &'a str) -> Option<Result<Self, Failure>> {
        let rest = text.strip_prefix(['-', '/'])?;
        let mut letters = rest.chars();
        Some(match letters.next() {
            Some(letter) => Ok(Flag { text, letter, value: letters.as_str() }),
            None => Err(wrong(format!("{text:?} is no option"), "give a letter after it; -? lists the options")),
        })
    }

    fn wrong(&self, why: impl Display) -> Failure {
        let form = super::help::form(self.letter);
        wrong(format!("{}: {}", self.text, why), format!("use {form}"))
    }

    fn number(&self) -> Result<u64, Failure> {
        number(self.value).map_err(|why| self.wrong(why))
    }

    /// A number of seconds, requests or threads that is at least so much.
    fn count(&self, min: u32) -> Result<u32, Failure> {
        let count = self.number()?;
        let most = u64::from(u32::MAX);
        let fits = u32::try_from(count).ok().filter(|count| *count >= min);
        fits.ok_or_else(|| self.wrong(format!("{count} is not in {min} to {most}")))
    }

    fn seconds(&self, min: u32) -> Result<Duration, Failure> {
        self.count(min).map(|seconds| Duration::from_secs(u64::from(seconds)))
    }

    fn size(&self, block_bytes: u32) -> Result<u64, Failure> {
        size(self.value, block_bytes).map_err(|why| self.wrong(why))
    }

    fn size_of_some(&self, block_bytes: u32) -> Result<u64, Failure> {
        match self.size(block_bytes)? {
            0 => Err(self.wrong("0 is too little")),
            bytes => Ok(bytes),
        }
    }

    fn nothing(&self) -> Result<(), Failure> {
        match self.value {
            "" => Ok(()),
            rest => Err(self.wrong(format!("{rest:?} after the option is not understood"))),
        }
    }
}

/// The options that may stand beside `-X`, too: what they say goes for all time spans.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Overrides {
    duration: Option<Duration>,
    warmup: Option<Duration>,
    cooldown: Option<Duration>,
    random_seed: Option<u32>,
    result_format: Option<ResultFormat>,
    profile_only: bool,
    verbose: bool,
    verbose_stats: bool,
}

impl Overrides {
    /// Takes an option if it is one of these; `clock_seed` is the seed of a `-z` without a number.
    pub(super) fn take(&mut self, flag: &Flag<'_>, clock_seed: u32) -> Result<bool, Failure> {
        match flag.letter {
            'C' => self.cooldown = Some(flag.seconds(0)?),
            'd' => self.duration = Some(flag.seconds(1)?),
            'W' => self.warmup = Some(flag.seconds(0)?),
            'R' => self.result(flag)?,
            'v' => match flag.value {
                "" => self.verbose = true,
                "s" => (self.verbose, self.verbose_stats) = (true, true),
                _ => return Err(flag.wrong("only s may follow -v")),
            },
            'z' if flag.value.is_empty() => self.random_seed = Some(clock_seed),
            'z' => self.random_seed = Some(flag.count(0)?),
            ':' => match flag.number()? {
                0 => {}
                _ => return Err(Refused::Experiments.failure(flag.text)),
            },
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Changes a profile accordingly.
    pub(super) fn apply(self, profile: &mut Profile) {
        profile.result_format = self.result_format.unwrap_or(profile.result_format);
        profile.profile_only |= self.profile_only;
        profile.verbose |= self.verbose;
        profile.verbose_stats |= self.verbose_stats;
        for span in &mut profile.time_spans {
            span.duration = self.duration.unwrap_or(span.duration);
            span.warmup = self.warmup.unwrap_or(span.warmup);
            span.cooldown = self.cooldown.unwrap_or(span.cooldown);
            span.random_seed = self.random_seed.map_or(span.random_seed, u64::from);
        }
    }

    fn result(&mut self, flag: &Flag<'_>) -> Result<(), Failure> {
        let format = flag.value.strip_prefix('p');
        self.profile_only |= format.is_some();
        self.result_format = match (format.unwrap_or(flag.value), format.is_some()) {
            ("text", _) => Some(ResultFormat::Text),
            ("xml", _) => Some(ResultFormat::Xml),
            ("", true) => self.result_format,
            _ => return Err(flag.wrong("a report is text or xml")),
        };
        Ok(())
    }
}

/// The time span and the target that options describe; all targets of a command line are alike.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    progress: u32,
    span: TimeSpan,
    target: Target,
    caching: CachingSaid,
    order: OrderSaid,
    burst_requests: Option<u32>,
    think_time: Option<Duration>,
}

impl Draft {
    /// Reads the options. The block size comes first, wherever it stands: others may be given in blocks.
    pub(super) fn read(flags: &[Flag<'_>]) -> Result<Self, Failure> {
        let mut draft = Draft {
            progress: 0,
            span: TimeSpan::default(),
            target: Target::new(""),
            caching: CachingSaid::default(),
            order: OrderSaid::default(),
            burst_requests: None,
            think_time: None,
        };
        flags.iter().filter(|flag| flag.letter == 'b').try_for_each(|flag| draft.block(flag))?;
        flags.iter().try_for_each(|flag| draft.take(flag))?;
        draft.finish()?;
        Ok(draft)
    }

    /// The profile for these targets.
    pub(super) fn profile(self, paths: &[&str]) -> Profile {
        let targets = paths.iter().map(|path| Target { path: (*path).to_owned(), ..self.target.clone() }).collect();
        let span = TimeSpan { targets, ..self.span };
        Profile { progress: self.progress, time_spans: vec![span], ..Profile::default() }
    }

    fn block(&mut self, flag: &Flag<'_>) -> Result<(), Failure> {
        let bytes = flag.size_of_some(BLOCK_BYTES)?;
        let fits = u32::try_from(bytes).ok().filter(|bytes| *bytes < u32::MAX);
        self.target.block_bytes = fits.ok_or_else(|| flag.wrong("a block is smaller than 4G"))?;
        Ok(())
    }

    fn take(&mut self, flag: &Flag<'_>) -> Result<(), Failure> {
        if matches!(flag.letter, 'h' | 'L' | 'n' | 'p' | 'x') {
            flag.nothing()?;
        }
        match flag.letter {
            'a' | 'e' | 'l' | 'N' | 'y' => Err(refusal(flag)),
            'D' | 'F' | 'L' | 'n' | 'O' | 'P' | 'x' => self.take_for_span(flag),
            'B' | 'c' | 'f' | 'T' => self.take_for_file(flag),
            'h' | 'r' | 's' | 'S' | 'w' | 'Z' => self.take_for_pattern(flag),
            'b' => Ok(()),
            'g' | 'i' | 'I' | 'j' | 'o' | 'p' | 't' => self.take_for_pace(flag),
            _ => {
                Err(wrong(format!("there is no option {}", flag.text), "-? lists the options; targets come after them"))
            }
        }
    }

    /// Threads, and what is measured.
    fn take_for_span(&mut self, flag: &Flag<'_>) -> Result<(), Failure> {
        let or_default = |default: u64| match flag.value {
            "" => Ok(default),
            _ => flag.count(0).map(|count| if count == 0 { default } else { u64::from(count) }),
        };
        match flag.letter {
            'D' => self.span.iops_interval = Some(Duration::from_millis(or_default(INTERVAL_MS)?)),
            'P' => self.progress = or_default(u64::from(PROGRESS))? as u32,
            'F' => self.span.thread_count = Some(flag.count(1)?),
            'O' => self.span.request_count = Some(flag.count(1)?),
            'L' => self.span.measure_latency = true,
            'n' => self.span.disable_affinity = true,
            _ => self.span.completion_routines = true,
        }
        Ok(())
    }

    /// The file, and which part of it is used.
    fn take_for_file(&mut self, flag: &Flag<'_>) -> Result<(), Failure> {
        let block_bytes = self.target.block_bytes;
        match flag.letter {
            'B' => self.target.base_offset = flag.size(block_bytes)?,
            'c' => self.target.file_bytes = Some(flag.size(block_bytes)?),
            'T' => self.target.thread_stride_bytes = Some(flag.size_of_some(block_bytes)?),
            _ if flag.value.starts_with(|c: char| c.is_ascii_digit()) => {
                self.target.max_file_bytes = Some(flag.size(block_bytes)?).filter(|bytes| *bytes > 0);
            }
            _ => self.hints(flag)?,
        }
        Ok(())
    }

    fn hints(&mut self, flag: &Flag<'_>) -> Result<(), Failure> {
        let Hints { sequential, random, temporary } = &mut self.target.hints;
        if flag.value.is_empty() {
            return Err(flag.wrong("a size or hints are missing"));
        }
        for letter in flag.value.chars() {
            match letter {
                's' => *sequential = true,
                'r' => *random = true,
                't' => *temporary = true,
                _ => return Err(flag.wrong(format!("there is no hint {letter:?}"))),
            }
        }
        Ok(())
    }

    /// Which blocks are read and written, and with what.
    fn take_for_pattern(&mut self, flag: &Flag<'_>) -> Result<(), Failure> {
        let block_bytes = self.target.block_bytes;
        match flag.letter {
            'h' => self.caching.neither("-h"),
            'S' => self.caching.take(flag.value),
            's' => self.order.sequential(flag.value, block_bytes),
            'r' => match (flag.value.strip_prefix('s'), flag.value.strip_prefix('d')) {
                (Some(percent), _) => self.order.mixed(percent),
                (None, Some(text)) => {
                    (self.target.distribution_kind, self.target.distribution) = distribution::read(text, block_bytes)?;
                    Ok(())
                }
                (None, None) => self.order.random(flag.value, block_bytes),
            },
            'w' => match flag.number()? {
                percent @ 0..=100 => {
                    self.target.write_percent = percent as u8;
                    Ok(())
                }
                percent => Err(flag.wrong(format!("{percent} is no percentage"))),
            },
            _ => self.write_content(flag),
        }
    }

    fn write_content(&mut self, flag: &Flag<'_>) -> Result<(), Failure> {
        match flag.value {
            "" => self.target.write_content = WriteContent::Zeros,
            "r" => self.span.random_write_data = true,
            value => {
                let (length, file) = value.split_once(',').map_or((value, None), |(length, file)| (length, Some(file)));
                let length = Flag { value: length, ..*flag };
                let file = file.filter(|file| !file.is_empty()).map(str::to_owned);
                let bytes = length.size_of_some(self.target.block_bytes)?;
                self.target.write_content = WriteContent::Source { bytes, file };
            }
        }
        Ok(())
    }

    /// How many at once, and how fast.
    fn take_for_pace(&mut self, flag: &Flag<'_>) -> Result<(), Failure> {
        match flag.letter {
            'g' => self.target.throughput = Some(throughput(flag)?),
            'i' => self.burst_requests = Some(flag.count(1)?),
            'j' => self.think_time = Some(Duration::from_millis(u64::from(flag.count(1)?))),
            'I' => match flag.number()? {
                priority @ 1..=3 => self.target.io_priority = priority as u8,
                _ => return Err(flag.wrong("a priority is 1, 2 or 3")),
            },
            'o' => self.target.outstanding = flag.count(1)?,
            'p' => self.target.parallel_async = true,
            _ => self.target.threads_per_file = flag.count(1)?,
        }
        Ok(())
    }

    /// Puts together what several options say.
    fn finish(&mut self) -> Result<(), Failure> {
        self.target.caching = self.caching.caching();
        self.target.pattern = self.order.pattern(self.target.block_bytes);
        self.target.burst = burst(self.burst_requests, self.think_time)?;
        Ok(())
    }
}

/// A burst has a length and a pause, or there is none. (`-i` and `-j`; `<BurstSize>` and `<ThinkTime>`)
pub(super) fn burst(requests: Option<u32>, think_time: Option<Duration>) -> Result<Option<Burst>, Failure> {
    match (requests, think_time) {
        (Some(requests), Some(think_time)) => Ok(Some(Burst { requests, think_time })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(wrong("-i makes bursts without a pause between them", "add -j<milliseconds>")),
        (None, Some(_)) => Err(wrong("-j makes pauses without saying how many requests go before", "add -i<count>")),
    }
}

fn throughput(flag: &Flag<'_>) -> Result<Throughput, Failure> {
    let (count, unit) = digits(flag.value).map_err(|why| flag.wrong(why))?;
    let count = u32::try_from(count).ok().filter(|count| *count > 0);
    let count = count.ok_or_else(|| flag.wrong(format!("the rate is not in 1 to {}", u32::MAX)))?;
    match unit {
        "" => Ok(Throughput::BytesPerMillisecond(count)),
        "i" => Ok(Throughput::Iops(count)),
        _ => Err(flag.wrong(format!("{unit:?} is no unit of a rate"))),
    }
}

fn refusal(flag: &Flag<'_>) -> Failure {
    let refused = match flag.letter {
        'a' => Refused::Affinity,
        'e' => Refused::EventTracing,
        'l' => Refused::LargePages,
        'N' => Refused::Flushing,
        _ => Refused::Events,
    };
    refused.failure(flag.text)
}
