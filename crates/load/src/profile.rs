//! What to do: DiskSpd's profile (diskspd.xsd), from its command line or an XML file.

use std::time::Duration;

/// Bytes of a block where nothing else is said.
pub const BLOCK_BYTES: u32 = 64 << 10;

/// One run: its time spans one after the other, and how to report them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// `-v`: say what is going on, on standard error.
    pub verbose: bool,
    /// `-vs`: wait statistics in the report, of which there are none.
    pub verbose_stats: bool,
    /// `-P`: a mark after so many requests of a thread; 0 is none. Kept for the profile's sake: no marks are made.
    pub progress: u32,
    /// `-R`.
    pub result_format: ResultFormat,
    /// `-Rp`: print the profile and run nothing.
    pub profile_only: bool,
    /// `PrecreateFiles`.
    pub precreate_files: PrecreateFiles,
    /// One or more.
    pub time_spans: Vec<TimeSpan>,
}

/// `-R`: what the report looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResultFormat {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Xml,
}

/// Whether files are made before the first time span rather than by the one that uses them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrecreateFiles {
    /// No.
    #[default]
    None,
    /// Those that all time spans want with the same length.
    OnlyFilesWithConstantSizes,
    /// Those that are wanted with one length throughout, or with none.
    OnlyFilesWithConstantOrZeroSizes,
    /// All, each with the greatest length wanted.
    UseMaxSize,
}

/// One time span: targets that are worked on together, for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeSpan {
    /// `-d`: how long is measured.
    pub duration: Duration,
    /// `-W`: before that.
    pub warmup: Duration,
    /// `-C`: after that.
    pub cooldown: Duration,
    /// `-z`: seed of all random choices. `-z` alone takes one from the clock, before it gets here.
    pub random_seed: u64,
    /// `-Zr`: the bytes of each write are made anew.
    pub random_write_data: bool,
    /// `-F`: threads in all, which share all targets; `None` where each target has its own.
    pub thread_count: Option<u32>,
    /// `-O` with `-F`: requests in flight of each thread over all targets.
    pub request_count: Option<u32>,
    /// `-x`.
    pub completion_routines: bool,
    /// `-n`: threads are not tied to cores.
    pub disable_affinity: bool,
    /// `-L`: latency is measured.
    pub measure_latency: bool,
    /// `-D`: the deviation of I/O per second over intervals of so long.
    pub iops_interval: Option<Duration>,
    /// One or more.
    pub targets: Vec<Target>,
}

/// One file and what is done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// As the user wrote it: `z:\write0.dat`, `\\server\share\write0.dat`, `smb://server/share/write0.dat`, or `*N` of a profile that
    /// the command line has to replace.
    pub path: String,
    /// `-b`.
    pub block_bytes: u32,
    /// `-s`, `-r`, `-rs`.
    pub pattern: Pattern,
    /// `-rd`: where random requests go; empty is everywhere alike.
    pub distribution: Vec<DistributionRange>,
    /// `-rd` in percent of the target, or absolute.
    pub distribution_kind: DistributionKind,
    /// `-B`: where the target begins, in bytes.
    pub base_offset: u64,
    /// `-f`: where it ends, in bytes; `None` is its end.
    pub max_file_bytes: Option<u64>,
    /// `-c`: makes the file of this length.
    pub file_bytes: Option<u64>,
    /// `-T`: bytes between the first offsets of two threads; `None` where not given.
    pub thread_stride_bytes: Option<u64>,
    /// `-t`, or the profile's ThreadsPerFile. Ignored with `-F`.
    pub threads_per_file: u32,
    /// `-o`: requests in flight of each thread for this target.
    pub outstanding: u32,
    /// `-p`: begin each request where the one before it began, not waiting for it.
    pub parallel_async: bool,
    /// `-w`: percent of writes.
    pub write_percent: u8,
    /// `-S`: how writes and reads are cached.
    pub caching: Caching,
    /// `-Z`.
    pub write_content: WriteContent,
    /// `-j` and `-i`: after so many requests, a pause.
    pub burst: Option<Burst>,
    /// `-g`: at most so much.
    pub throughput: Option<Throughput>,
    /// `-I`: 1 very low, 2 low, 3 normal.
    pub io_priority: u8,
    /// `-fs`, `-fr` hints: sequential or random scan, temporary file.
    pub hints: Hints,
    /// Relative share of the requests where threads choose between targets; 1 unless a profile says otherwise.
    pub weight: u32,
    /// The threads (of `-F`) that use this target, with their weights; empty is all of them.
    pub thread_targets: Vec<ThreadTarget>,
}

/// In which order a target's blocks are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// `-s`: each thread goes on from where it was, so many bytes further.
    Sequential {
        /// Bytes from one request to the next.
        stride_bytes: u64,
    },
    /// `-si`: all threads of a target share one position.
    Interlocked {
        /// Bytes from one request to the next.
        stride_bytes: u64,
    },
    /// `-r`, `-rs`: random offsets, `random_percent` of the time, sequential else.
    Random {
        /// Offsets are multiples of this many bytes from the base offset.
        align_bytes: u64,
        /// 1 to 100.
        random_percent: u8,
    },
}

/// What the ranges of `-rd` are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DistributionKind {
    /// `-rdpct`: of the target, whatever its length.
    #[default]
    Percent,
    /// `-rdabs`: bytes.
    Absolute,
}

/// One part of `-rd`: so many percent of requests go to the next so much of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DistributionRange {
    /// Percent of requests.
    pub io_percent: u8,
    /// Where the range begins: percent or bytes.
    pub start: u64,
    /// How far it goes: percent or bytes; 0 of an absolute one is all that is left.
    pub length: u64,
}

/// `-S`: what may be kept where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caching {
    /// `-Su`, `-Sr`, `-Sb`.
    pub software: SoftwareCache,
    /// `-Sw`: each write reaches the disk before it is answered. `-Sh` is this and [`SoftwareCache::Off`].
    pub write_through: bool,
}

/// What the client and the server may keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SoftwareCache {
    /// `-Sb`, the default: anything.
    #[default]
    On,
    /// `-Sr`: nothing at the client.
    LocalOff,
    /// `-Su`: nothing anywhere.
    Off,
}

/// What is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum WriteContent {
    /// The bytes 0 to 255 over and over.
    #[default]
    Sequence,
    /// `-Z`: zeros.
    Zeros,
    /// `-Z<size>[,file]`: a source of so many bytes, random or from a file, from which each write takes a piece.
    Source {
        /// Length of the source in bytes.
        bytes: u64,
        /// A file of this machine that fills it; random where there is none.
        file: Option<String>,
    },
}

/// `-j`, `-i`: a pause after each burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Requests of a burst.
    pub requests: u32,
    /// The pause.
    pub think_time: Duration,
}

/// `-g`: the most that one thread asks of one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throughput {
    /// `-g<n>`: bytes a millisecond.
    BytesPerMillisecond(u32),
    /// `-g<n>i`: requests a second.
    Iops(u32),
}

/// `-f` with letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// `s`.
    pub sequential: bool,
    /// `r`.
    pub random: bool,
    /// `t`.
    pub temporary: bool,
}

/// A thread that uses a target (`ThreadTargets`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadTarget {
    /// The thread, from 0.
    pub thread: u32,
    /// Its relative share.
    pub weight: u32,
}

impl Default for Profile {
    fn default() -> Self {
        Profile {
            verbose: false,
            verbose_stats: false,
            progress: 0,
            result_format: ResultFormat::Text,
            profile_only: false,
            precreate_files: PrecreateFiles::None,
            time_spans: vec![TimeSpan::default()],
        }
    }
}

impl Default for TimeSpan {
    fn default() -> Self {
        TimeSpan {
            duration: Duration::from_secs(10),
            warmup: Duration::from_secs(5),
            cooldown: Duration::ZERO,
            random_seed: 0,
            random_write_data: false,
            thread_count: None,
            request_count: None,
            completion_routines: false,
            disable_affinity: false,
            measure_latency: false,
            iops_interval: None,
            targets: Vec::new(),
        }
    }
}

impl Target {
    /// A target with DiskSpd's defaults: sequential reads of 64 KiB, two in flight, one thread.
    pub fn new(path: impl Into<String>) -> Self {
        Target {
            path: path.into(),
            block_bytes: BLOCK_BYTES,
            pattern: Pattern::Sequential { stride_bytes: u64::from(BLOCK_BYTES) },
            distribution: Vec::new(),
            distribution_kind: DistributionKind::Percent,
            base_offset: 0,
            max_file_bytes: None,
            file_bytes: None,
            thread_stride_bytes: None,
            threads_per_file: 1,
            outstanding: 2,
            parallel_async: false,
            write_percent: 0,
            caching: Caching::default(),
            write_content: WriteContent::Sequence,
            burst: None,
            throughput: None,
            io_priority: 3,
            hints: Hints::default(),
            weight: 1,
            thread_targets: Vec::new(),
        }
    }
}
