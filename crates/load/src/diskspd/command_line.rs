//! DiskSpd's command line: options in one word each, then targets.
//!
//! Where DiskSpd reads a number up to the first other character, and takes nothing for 0, this reader wants a number: `-d60s` is an error
//! rather than a minute.

use super::options::{Draft, Flag, Overrides};
use super::{profile_xml, validate, wrong};
use crate::engine::Failure;
use crate::profile::Profile;

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// `-?`: the help.
    Help,
    /// A run, or only its profile ([`Profile::profile_only`]).
    Run {
        /// What to do.
        profile: Box<Profile>,
        /// Sentences on what has no effect or is probably not meant.
        warnings: Vec<String>,
    },
}

/// What a command line leads to outside of itself.
pub struct Surroundings<'a> {
    /// Reads the file of `-X`.
    pub file: &'a dyn Fn(&str) -> Result<Vec<u8>, Failure>,
    /// The seed of `-z` without a number.
    pub clock_seed: u32,
}

/// Reads the words after the program's name.
///
/// # Errors
///
/// Everything that is wrong, each with what to write instead.
pub fn read(words: &[&str], surroundings: &Surroundings<'_>) -> Result<Asked, Vec<Failure>> {
    let (flags, targets) = split(words).map_err(|failure| vec![failure])?;
    if flags.iter().any(|flag| flag.letter == '?') {
        return Ok(Asked::Help);
    }
    let profile = profile(&flags, &targets, surroundings)?;
    let warnings = validate::check(&profile)?;
    Ok(Asked::Run { profile: Box::new(profile), warnings })
}

/// Parts options from targets, which follow them.
fn split<'a>(words: &[&'a str]) -> Result<(Vec<Flag<'a>>, Vec<&'a str>), Failure> {
    if words.is_empty() {
        return Err(wrong("neither options nor targets are given", "name a file; -? shows how"));
    }
    let mut flags = Vec::new();
    let mut targets = Vec::new();
    for word in words {
        match Flag::of(word) {
            _ if word.starts_with("//") => {
                let remedy = r"write \\server\share\path or smb://server/share/path";
                return Err(wrong(format!("{word:?} begins like an option"), remedy));
            }
            Some(_) if !targets.is_empty() => {
                return Err(wrong(
                    format!("the option {word} comes after a target"),
                    "give all options before the targets",
                ));
            }
            Some(flag) => flags.push(flag?),
            None if word.is_empty() => return Err(wrong("a target has no name", "name a file")),
            None => targets.push(*word),
        }
    }
    Ok((flags, targets))
}

fn profile(flags: &[Flag<'_>], targets: &[&str], surroundings: &Surroundings<'_>) -> Result<Profile, Vec<Failure>> {
    let mut overrides = Overrides::default();
    let mut others = Vec::new();
    for flag in flags {
        if !overrides.take(flag, surroundings.clock_seed).map_err(|failure| vec![failure])? {
            others.push(*flag);
        }
    }
    let is_file = |flag: &&Flag<'_>| flag.letter == 'X';
    let mut profile = match others.iter().find(is_file) {
        Some(file) => from_file(file, &others, targets, surroundings).map_err(|failure| vec![failure])?,
        None if targets.is_empty() => return Err(vec![wrong("no target is given", "name a file after the options")]),
        None => Draft::read(&others).map_err(|failure| vec![failure])?.profile(targets),
    };
    overrides.apply(&mut profile);
    Ok(profile)
}

/// Reads the profile of `-X`, and puts the targets of the command line in place of its `*1`, `*2` and so on.
fn from_file(
    file: &Flag<'_>,
    others: &[Flag<'_>],
    targets: &[&str],
    surroundings: &Surroundings<'_>,
) -> Result<Profile, Failure> {
    match others.iter().find(|flag| flag.text != file.text) {
        Some(flag) if flag.letter == 'X' => {
            return Err(wrong(format!("{} and {} are two profiles", file.text, flag.text), "give one -X"));
        }
        Some(flag) => {
            let what = format!("{} cannot go with -X", flag.text);
            return Err(wrong(what, "say it in the profile; only -C, -d, -R, -v, -W and -z go with -X"));
        }
        None => {}
    }
    if file.value.is_empty() {
        return Err(wrong("-X names no file", "use -X<file>, such as -Xprofile.xml"));
    }
    let document = (surroundings.file)(file.value)?;
    let mut profile = profile_xml::read(&document)
        .map_err(|Failure { what, remedy }| wrong(format!("{}: {what}", file.value), remedy))?;
    substitute(&mut profile, targets)?;
    Ok(profile)
}

fn substitute(profile: &mut Profile, paths: &[&str]) -> Result<(), Failure> {
    let mut is_used = vec![false; paths.len()];
    for target in profile.time_spans.iter_mut().flat_map(|span| &mut span.targets) {
        let Some(number) = target.path.strip_prefix('*') else { continue };
        let index = number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse::<usize>().ok()).flatten();
        let index = index.and_then(|number| number.checked_sub(1)).ok_or_else(|| {
            wrong(format!("the profile's target {:?} has no number", target.path), "use *1, *2 and so on")
        })?;
        match (paths.get(index), is_used.get_mut(index)) {
            (Some(path), Some(is_used)) => {
                target.path = (*path).to_owned();
                *is_used = true;
            }
            // A profile may be printed without the files it will be for.
            _ if paths.is_empty() => {}
            _ => {
                let what = format!("nothing stands for the target {} of the profile", target.path);
                return Err(wrong(what, format!("name {} files on the command line", index.saturating_add(1))));
            }
        }
    }
    match is_used.iter().position(|is_used| !is_used).and_then(|index| paths.get(index).zip(Some(index))) {
        Some((path, index)) => {
            let what = format!("the profile has no target *{} that {path} could stand for", index + 1);
            Err(wrong(what, "leave the name out, or check the profile"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::profile::{
        Burst, Caching, DistributionKind, Hints, Pattern, ResultFormat, SoftwareCache, Target, Throughput, TimeSpan,
        WriteContent,
    };

    fn asked(line: &str) -> Result<Asked, Vec<Failure>> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let file = |path: &str| Err(wrong(format!("cannot read {path}"), "check the name of the profile"));
        read(&words, &Surroundings { file: &file, clock_seed: 77 })
    }

    fn run(line: &str) -> (Profile, Vec<String>) {
        match asked(line) {
            Ok(Asked::Run { profile, warnings }) => (*profile, warnings),
            other => panic!("{line}: {other:?}"),
        }
    }

    fn span(line: &str) -> TimeSpan {
        run(line).0.time_spans.remove(0)
    }

    fn target(line: &str) -> Target {
        span(line).targets.remove(0)
    }

    fn refused(line: &str) -> String {
        let failures = asked(line).expect_err(line);
        assert!(failures.iter().all(|failure| !failure.remedy.is_empty()), "it says what to do: {failures:?}");
        failures.into_iter().map(|failure| failure.what + "\n").collect()
    }

    #[test]
    fn a_file_alone_is_read_with_the_defaults() {
        let (profile, warnings) = run("x.dat");
        assert_eq!((profile.time_spans[0].targets.as_slice(), warnings), (&[Target::new("x.dat")][..], Vec::new()));
        assert_eq!(TimeSpan { targets: Vec::new(), ..profile.time_spans[0].clone() }, TimeSpan::default());
        assert_eq!(
            Profile { time_spans: Vec::new(), ..profile },
            Profile { time_spans: Vec::new(), ..Profile::default() }
        );
    }

    #[test]
    fn the_line_of_the_documentation_is_understood() {
        let line = r"-W300 -C5 -r -w100 -b4k -t8 -o8 -Sh -d60 -L -c2G -Z1G z:\write0.dat z:\write1.dat";
        let span = span(line);
        let seconds = Duration::from_secs;
        assert_eq!((span.warmup, span.cooldown, span.duration), (seconds(300), seconds(5), seconds(60)));
        assert!(span.measure_latency);
        let expected = Target {
            pattern: Pattern::Random { align_bytes: 4096, random_percent: 100 },
            write_percent: 100,
            block_bytes: 4096,
            threads_per_file: 8,
            outstanding: 8,
            caching: Caching { software: SoftwareCache::Off, write_through: true },
            file_bytes: Some(2 << 30),
            write_content: WriteContent::Source { bytes: 1 << 30, file: None },
            ..Target::new(r"z:\write0.dat")
        };
        assert_eq!(span.targets, [expected.clone(), Target { path: r"z:\write1.dat".into(), ..expected }]);
    }

    #[test]
    fn each_option_sets_what_it_is_for() {
        assert_eq!(target("-B3b -b8K x").base_offset, 24576);
        assert_eq!(target("/b8K /B3b x").base_offset, 24576);
        assert_eq!(target("-b2b x").block_bytes, 131_072);
        assert_eq!(target("-f1G x").max_file_bytes, Some(1 << 30));
        assert_eq!(target("-frst x").hints, Hints { sequential: true, random: true, temporary: true });
        assert_eq!(target("-t2 -T1M x").thread_stride_bytes, Some(1 << 20));
        assert_eq!(target("-g80 x").throughput, Some(Throughput::BytesPerMillisecond(80)));
        assert_eq!(target("-g80i x").throughput, Some(Throughput::Iops(80)));
        let burst = Burst { requests: 3, think_time: Duration::from_millis(20) };
        assert_eq!(target("-i3 -j20 x").burst, Some(burst));
        assert_eq!(target("-I1 x").io_priority, 1);
        assert_eq!(target("-h x").caching, Caching { software: SoftwareCache::Off, write_through: true });
        assert!(target("-p x").parallel_async);
        assert_eq!(target("-Z x").write_content, WriteContent::Zeros);
        let source = WriteContent::Source { bytes: 1 << 20, file: Some("a,b.bin".into()) };
        assert_eq!(target("-Z1M,a,b.bin x").write_content, source);
        assert_eq!(target("-r -rdpct90/10 x").distribution_kind, DistributionKind::Percent);
        assert_eq!(target("-rs40 -rdabs90/1M x").distribution.len(), 2);
        assert_eq!(span("-F3 -O9 x").thread_count.zip(span("-F3 -O9 x").request_count), Some((3, 9)));
        assert_eq!(span("-D x").iops_interval, Some(Duration::from_secs(1)));
        assert_eq!(span("-D0 x").iops_interval, Some(Duration::from_secs(1)));
        assert_eq!(span("-D250 x").iops_interval, Some(Duration::from_millis(250)));
        assert_eq!((span("-z x").random_seed, span("-z5 x").random_seed, span("x").random_seed), (77, 5, 0));
        assert!(span("-Zr x").random_write_data && span("-n x").disable_affinity && span("-x x").completion_routines);
        assert_eq!((run("-P x").0.progress, run("-P9 x").0.progress), (65536, 9));
        assert_eq!(run("-Rxml x").0.result_format, ResultFormat::Xml);
        assert!(run("-Rp x").0.profile_only && run("-Rpxml x").0.profile_only && !run("-Rtext x").0.profile_only);
        assert!(run("-v x").0.verbose && !run("-v x").0.verbose_stats && run("-vs x").0.verbose_stats);
        assert_eq!(asked("-t8 -?"), Ok(Asked::Help));
        assert_eq!(asked("/?"), Ok(Asked::Help));
    }

    #[test]
    fn options_with_wrong_values_are_refused() {
        for line in [
            "-b0 x",
            "-b x",
            "-b4X x",
            "-b4G x",
            "-b18446744073709551615K x",
            "-B x",
            "-Bx x",
            "-c x",
            "-c1Y x",
            "-C x",
            "-C-1 x",
            "-d0 x",
            "-d x",
            "-d60s x",
            "-Dx x",
            "-f x",
            "-fq x",
            "-f1Q x",
            "-F0 x",
            "-F x",
            "-g0 x",
            "-g x",
            "-gi x",
            "-g5k x",
            "-i0 -j1 x",
            "-i1 -j0 x",
            "-I0 x",
            "-I4 x",
            "-I x",
            "-L1 x",
            "-n1 x",
            "-o0 x",
            "-o x",
            "-o4294967296 x",
            "-O0 x",
            "-p1 x",
            "-Px x",
            "-R x",
            "-Rjson x",
            "-RXML x",
            "-Rpx x",
            "-rdx x",
            "-rx x",
            "-sx x",
            "-t0 x",
            "-t x",
            "-tx x",
            "-T x",
            "-T0 -t2 x",
            "-vx x",
            "-w x",
            "-w101 x",
            "-w-1 x",
            "-wx x",
            "-W x",
            "-W-1 x",
            "-xx x",
            "-zx x",
            "-z4294967296 x",
            "-Z0 x",
            "-ZX x",
            "-Zrr x",
            "-hx x",
            "-q x",
            "- x",
            "/ x",
            "-:1 x",
            "-:x x",
            "-ü x",
        ] {
            refused(line);
        }
    }

    #[test]
    fn what_needs_windows_is_refused_by_name() {
        for (line, name) in [
            ("-a x", "-a "),
            ("-ag x", "-ag "),
            ("-a0,1 x", "-a0,1 "),
            ("-ag0,0,1 x", "-ag0,0,1 "),
            ("-l x", "-l "),
            ("-ePROCESS x", "-ePROCESS "),
            ("-Sm x", "-Sm "),
            ("-Nv x", "-Nv "),
            ("-ysstart x", "-ysstart "),
            ("-:4 x", "-:4 "),
        ] {
            assert!(refused(line).starts_with(name), "{line}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        for line in [
            "-F2 -t2 x",
            "-g5 -x x",
            "-i3 x",
            "-j3 x",
            "-F2 -O2 -g5 x",
            "-F2 -O2 -i1 -j1 x",
            "-F2 -O2 -p x",
            "-t2 -T1M -r x",
            "-si -r x",
            "-p -r x",
            "-rdpct90/10 x",
            "-si -T1M -t2 x",
            "-si -p -t2 x",
            "-T1M x",
            "-F1 -T1M x",
            "-r -rdpct60/50:60/50 x",
            "-Z4K x",
            "-Sh -Sw x",
            "-Sb -h x",
            "-f1M -B1M x",
            "-f1M -B2M x",
            "-c4K x",
            "-c1M -B1000K x",
            "-Su -b1000 x",
            "-Su -r100 x",
            "-Sh -B1 x",
            "-t4097 x",
            "-t4000 -o400 x",
            "-F4000000000 x",
            "*1",
        ] {
            refused(line);
        }
        assert_eq!(refused("-F2 -t2 -g5 -x x").lines().count(), 2, "all that is wrong is told at once");
    }

    #[test]
    fn what_fits_together_is_taken() {
        for line in [
            "-F2 -O2 x y",
            "-t2 -si x",
            "-t2 -T1M x",
            "-r -rs50 x",
            "-i3 -j1 x",
            "-b1000 x",
            "-Sb -b1000 x",
            "-c64K x",
            "-f128K -B64K x",
            "-Z64K x",
            "-Rptext *1",
            "-:0 x",
        ] {
            run(line);
        }
    }

    #[test]
    fn what_has_no_effect_is_told() {
        for (line, count) in [
            ("-p -o1 x", 1),
            ("-si x", 1),
            ("-t2 x", 1),
            ("-t2 -r x", 0),
            ("-t2 -si x", 0),
            ("-O4 x", 1),
            ("-x x", 1),
            ("-vs x", 1),
            ("-t2 x y z", 1),
        ] {
            assert_eq!(run(line).1.len(), count, "{line}: {:?}", run(line).1);
        }
    }

    #[test]
    fn targets_come_last() {
        for line in ["", "-t8", "x -t8", "-t8 x -o2 y", "//server/share/x"] {
            refused(line);
        }
        let file = |_: &str| Ok(Vec::new());
        assert!(read(&[""], &Surroundings { file: &file, clock_seed: 0 }).is_err());
        assert_eq!(span("-t2 -si x y").targets.len(), 2);
    }
}
