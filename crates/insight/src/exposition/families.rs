//! Every metric, with its unit and what it means. `docs/METRICS.md` has the same, and a test compares.

/// In front of every name.
pub const PREFIX: &str = "multilane";

/// A metric: what its values are, and what they mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// Without prefix, unit and what its kind adds.
    pub(super) stem: &'static str,
    /// What the values are.
    pub kind: Kind,
    /// In what they are, where that is part of the name.
    pub unit: Option<Unit>,
    /// What tells its values apart.
    pub labels: &'static [&'static str],
    /// What it means, in a sentence.
    pub help: &'static str,
}

/// What values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// They grow as long as the server runs.
    Counter,
    /// They come and go.
    Gauge,
    /// How many of something were no larger than each bound.
    Histogram,
    /// Labels alone, with the value 1.
    Info,
}

/// In what values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

impl Family {
    /// Its whole name, as queries have it.
    pub fn name(&self) -> String {
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        self.base() + suffix
    }

    /// The same without what its kind adds.
    pub(super) fn base(&self) -> String {
        let unit = match self.unit {
            Some(Unit::Seconds) => "_seconds",
            Some(Unit::Bytes) => "_bytes",
            None => "",
        };
        format!("{PREFIX}_{}{unit}", self.stem)
    }
}

/// All of them, in the order in which they are told.
pub const FAMILIES: &[Family] = &[
    BUILD,
    START_TIME,
    SESSIONS,
    OPEN_FILES,
    CONNECTIONS,
    SILENT_SHARDS,
    MEMORY_USED,
    MEMORY_ALLOWED,
    DATA_AVAILABLE,
    CATALOG_DAMAGED,
    LOCKED_USERS,
    LOG_LINES_LEFT_OUT,
    LOG_LINES_LOST,
    AUDIT_WRITTEN,
    AUDIT_LOST,
    SIGN_INS,
    SIGN_INS_REFUSED,
    BREAKS,
    CHANNELS_BOUND,
    CHANNELS_LOST,
    ERRORS,
    REQUESTS,
    REST_REQUESTS,
    SERVER_ERRORS,
    DURATION,
    WAITED,
    READ,
    WRITTEN,
    RECEIVED,
    SENT,
    THROTTLED,
    SERVED,
    FAULTY,
    STORE_WAITING,
    STORE_WAIT,
    LIMIT_IOPS,
    BURST_IOPS,
    LIMIT_BYTES,
    USER_LIMIT_IOPS,
    USER_LIMIT_BYTES,
    BURST_CREDITS,
    BURST_CREDITS_MAX,
    PROVISIONED,
    CAPACITY,
    USED,
    AVAILABLE,
];

const SHARE: &[&str] = &["share"];

pub(super) const BUILD: Family =
    Family { stem: "build", kind: Kind::Info, unit: None, labels: &["version"], help: "The program that runs." };
pub(super) const START_TIME: Family =
    gauge("start_time", &[], "When the server started, in seconds since 1970-01-01 UTC.").in_unit(Unit::Seconds);
pub(super) const SESSIONS: Family = gauge("sessions", &[], "Sessions there are.");
pub(super) const OPEN_FILES: Family = gauge("open_files", &[], "Opens of files, directories and pipes there are.");
pub(super) const CONNECTIONS: Family = gauge("connections", &["shard"], "Connections of each shard.");
pub(super) const SILENT_SHARDS: Family =
    gauge("silent_shards", &[], "Shards that do not answer within a second: their clients wait.");
pub(super) const MEMORY_USED: Family =
    gauge("memory_used", &[], "Memory that clients make the server hold, as it is charged.").in_unit(Unit::Bytes);
pub(super) const MEMORY_ALLOWED: Family =
    gauge("memory_allowed", &[], "Memory that clients may make the server hold.").in_unit(Unit::Bytes);
pub(super) const DATA_AVAILABLE: Family =
    gauge("data_available", &[], "What may still be written to the file system of the data folder.")
        .in_unit(Unit::Bytes);
pub(super) const CATALOG_DAMAGED: Family =
    gauge("catalog_damaged", &[], "Whether the catalog's file is damaged: 1 where the last look found that.");
pub(super) const LOCKED_USERS: Family = gauge("locked_users", &[], "Users that wrong passwords have locked.");
pub(super) const LOG_LINES_LEFT_OUT: Family =
    counter("log_lines_left_out", &[], "Lines that the log left out because there were too many of one kind.");
pub(super) const LOG_LINES_LOST: Family =
    counter("log_lines_lost", &[], "Lines of the log that were lost because nobody took them.");
pub(super) const AUDIT_WRITTEN: Family = counter("audit_events_written", &[], "Events that are in the audit log.");
pub(super) const AUDIT_LOST: Family = counter(
    "audit_events_lost",
    &["kind"],
    "Events that are not in the audit log and never will be, by whether something was done or refused.",
);
pub(super) const SIGN_INS: Family = counter("sign_ins", &[], "Sessions that were set up.");
pub(super) const SIGN_INS_REFUSED: Family = counter("sign_ins_refused", &[], "Attempts to sign in that were refused.");
pub(super) const BREAKS: Family = counter("breaks", &[], "Breaks of oplocks and leases that were sent.");
pub(super) const CHANNELS_BOUND: Family =
    counter("channels_bound", &[], "Connections that became a further channel of a session.");
pub(super) const CHANNELS_LOST: Family =
    counter("channels_lost", &[], "Channels that were lost with their connections.");
pub(super) const ERRORS: Family =
    counter("errors", &["status"], "Requests that were answered with an error, by its NT status.");

pub(super) const REQUESTS: Family = counter(
    "requests",
    &["share", "api", "response"],
    "Requests that were answered, by what was asked for and how that ended.",
);
pub(super) const REST_REQUESTS: Family = counter(
    "rest_requests",
    &["share", "api", "response"],
    "Requests to the REST interface that were answered, by what was asked for and how that ended.",
);
pub(super) const SERVER_ERRORS: Family = counter(
    "server_errors",
    &["share", "response"],
    "Requests that the server or its store failed, or had no room for; they are among the requests.",
);
pub(super) const DURATION: Family = Family {
    stem: "request_duration",
    kind: Kind::Histogram,
    unit: Some(Unit::Seconds),
    labels: &["share", "kind"],
    help: "How long requests were in the server.",
};
pub(super) const WAITED: Family = counter(
    "waited",
    &["share", "reason"],
    "How long requests waited, all added up, for a limit, the store or another client.",
)
.in_unit(Unit::Seconds);
pub(super) const READ: Family =
    counter("read", SHARE, "Bytes of files that requests to read were answered with.").in_unit(Unit::Bytes);
pub(super) const WRITTEN: Family =
    counter("written", SHARE, "Bytes of files that requests to write have written.").in_unit(Unit::Bytes);
pub(super) const RECEIVED: Family =
    counter("received", SHARE, "Bytes of requests, from their SMB2 headers on.").in_unit(Unit::Bytes);
pub(super) const SENT: Family =
    counter("sent", SHARE, "Bytes of responses, from their SMB2 headers on.").in_unit(Unit::Bytes);
pub(super) const THROTTLED: Family = counter(
    "share_throttled_requests",
    &["share", "limit"],
    "Requests that had to wait for a limit of their share, account, file or user, by what was used up.",
);

pub(super) const STORE_WAITING: Family = gauge(
    "share_store_waiting",
    SHARE,
    "Requests, or parts of them, that wait for the share's disk, where one has for a second.",
);
pub(super) const STORE_WAIT: Family =
    gauge("share_store_longest_wait", SHARE, "How long the first of them has waited.").in_unit(Unit::Seconds);
pub(super) const SERVED: Family =
    gauge("share_served", SHARE, "Whether clients can connect to the share: 1 where they can.");
pub(super) const FAULTY: Family = gauge(
    "share_faulty",
    SHARE,
    "Whether something is wrong with the share, though clients can connect to it: 1 where it is.",
);
pub(super) const LIMIT_IOPS: Family =
    gauge("share_limit_iops", SHARE, "Requests a second that the share is provisioned with or limited to.");
pub(super) const BURST_IOPS: Family =
    gauge("share_limit_burst_iops", SHARE, "Requests a second that the share may have while it has credits.");
pub(super) const LIMIT_BYTES: Family = gauge(
    "share_limit_bytes_per_second",
    SHARE,
    "Bytes a second, read and written, that the share is provisioned with or limited to.",
);
pub(super) const USER_LIMIT_IOPS: Family =
    gauge("share_user_limit_iops", SHARE, "Requests a second that each user of the share is limited to.");
pub(super) const USER_LIMIT_BYTES: Family = gauge(
    "share_user_limit_bytes_per_second",
    SHARE,
    "Bytes a second, read and written, that each user of the share is limited to.",
);
pub(super) const BURST_CREDITS: Family =
    gauge("share_burst_credits", SHARE, "Credits for bursts that are left, each for one request.");
pub(super) const BURST_CREDITS_MAX: Family =
    gauge("share_burst_credits_max", SHARE, "The most credits for bursts that the share can have.");
pub(super) const PROVISIONED: Family =
    gauge("share_provisioned", SHARE, "The size that the share is provisioned with.").in_unit(Unit::Bytes);
pub(super) const CAPACITY: Family = gauge(
    "share_capacity",
    SHARE,
    "What the share can hold: its quota or size, or where it has none what its file system can.",
)
.in_unit(Unit::Bytes);
pub(super) const USED: Family = gauge(
    "share_used",
    SHARE,
    "What the share's own files take, where that is counted: of RAM disks and of folders with a quota.",
)
.in_unit(Unit::Bytes);
pub(super) const AVAILABLE: Family = gauge(
    "share_available",
    SHARE,
    "What may still be written to the share: what its quota or size leaves, or its disk where that has less.",
)
.in_unit(Unit::Bytes);

const fn counter(stem: &'static str, labels: &'static [&'static str], help: &'static str) -> Family {
    Family { stem, kind: Kind::Counter, unit: None, labels, help }
}

const fn gauge(stem: &'static str, labels: &'static [&'static str], help: &'static str) -> Family {
    Family { stem, kind: Kind::Gauge, unit: None, labels, help }
}

impl Family {
    const fn in_unit(self, unit: Unit) -> Family {
        Family { unit: Some(unit), ..self }
    }
}
