//! What clients may do with a share in a second: the share's limits, and those of each user, each file and the account.
//!
//! A request takes of all that apply to it before it begins, that of the file or of metadata first and the account's last, and waits where one
//! of them is used up ([`RateLimit`]). It is shared evenly among users, and what
//! one has among that one's sessions.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;
use wire::ids::{Command, SessionId};

use crate::resource::rate_limit::{MadeOnUse, Member, Over, Rate, RateLimit, Rates};
use crate::state::counters::Throttle;
use crate::state::user::UserId;

/// The limits of a share; nothing is limited where nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareRates {
    /// All that is done with it.
    pub share: Rate,
    /// What is done beside reading and writing: requests alone count.
    pub metadata: Rate,
    /// Reads and writes of each of its files.
    pub file: Rate,
    /// All that each of its users does.
    pub user: Rate,
    /// How many opens there may be.
    pub opens: OpenLimits,
}

/// How many opens a file or directory may have, whoever has them. One more is refused with STATUS_QUOTA_EXCEEDED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenLimits {
    /// Of each file and each directory.
    pub each: usize,
    /// Of the share's root.
    pub root: usize,
}

impl Default for OpenLimits {
    /// No bound of the share's own.
    fn default() -> Self {
        OpenLimits { each: usize::MAX, root: usize::MAX }
    }
}

/// A limit that several shares have together.
#[derive(Default)]
pub struct AccountLimit {
    limit: Limit,
    rate: Mutex<Rate>,
}

/// The limits of one share, and what has been taken of them. It stays the same from one configuration to the next.
#[derive(Default)]
pub struct ShareLimit {
    /// Something is limited.
    is_limited: AtomicBool,
    share: Limit,
    metadata: Limit,
    account: Arc<AccountLimit>,
    file: Arc<Rates>,
    user: Arc<Rates>,
    /// What was said last.
    said: Mutex<ShareRates>,
    /// Of the users who have the share connected, or have not paid for what they did.
    users: Mutex<HashMap<UserId, Arc<RateLimit>>>,
    delays: Delays,
}

/// How many requests have begun to wait, and for what; one that waits for two limits counts twice.
#[derive(Default)]
struct Delays([[AtomicU64; UsedUp::ALL.len()]; LimitOf::ALL.len()]);

/// Whose limit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitOf {
    /// Of the share, for all that neither reads nor writes.
    Metadata,
    /// Of each file.
    File,
    /// Of each user.
    User,
    /// Of the share.
    Share,
    /// Of the account's shares together.
    Account,
}

impl LimitOf {
    /// All of them, each at the place of its number.
    pub const ALL: [LimitOf; 5] = [LimitOf::Metadata, LimitOf::File, LimitOf::User, LimitOf::Share, LimitOf::Account];
}

/// What of a limit is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UsedUp {
    /// Requests a second.
    Requests,
    /// Bytes a second, by who reads.
    Reads,
    /// Bytes a second, by who writes.
    Writes,
}

impl UsedUp {
    /// All of them, each at the place of its number.
    pub const ALL: [UsedUp; 3] = [UsedUp::Requests, UsedUp::Reads, UsedUp::Writes];
}

/// Requests that have begun to wait for a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delayed {
    /// Whose limit it is.
    pub by: LimitOf,
    /// What of it was used up.
    pub used_up: UsedUp,
    /// How many they are.
    pub requests: u64,
}

/// What is allowed, and what of it has been taken.
#[derive(Default)]
struct Limit {
    rates: Arc<Rates>,
    taken: Arc<RateLimit>,
}

/// How the requests of a share have met its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitUse {
    /// Credits for bursts that are left.
    pub credits: u64,
    /// Requests that had to wait for requests a second, those that still do among them: of the share, its account, a file or a user.
    pub delayed_by_requests: u64,
    /// Reads that had to wait for bytes a second.
    pub delayed_reads: u64,
    /// Writes that had to wait for bytes a second.
    pub delayed_writes: u64,
    /// Requests that had to wait for the share's requests a second beside reads and writes.
    pub delayed_by_metadata: u64,
}

impl AccountLimit {
    /// Allows so much from now on.
    pub fn change(&self, rate: Rate) {
        self.limit.rates.change(rate);
        *self.rate.lock() = rate;
    }
}

impl ShareLimit {
    /// No limits yet, of a share of an account with this one.
    pub fn of(account: Arc<AccountLimit>) -> Self {
        ShareLimit { account, ..ShareLimit::default() }
    }

    /// Allows so much from now on.
    pub fn change(&self, rates: &ShareRates) {
        self.share.rates.change(rates.share);
        self.metadata.rates.change(rates.metadata);
        self.file.change(rates.file);
        self.user.change(rates.user);
        *self.said.lock() = *rates;
        let is_limited = *rates != ShareRates::default() || !self.account.limit.rates.are_none();
        self.is_limited.store(is_limited, Ordering::Relaxed);
    }

    /// What is left, and how many had to wait.
    pub fn usage(&self) -> LimitUse {
        let delayed = self.delayed();
        let count = |is_meant: fn(&Delayed) -> bool| -> u64 {
            delayed.iter().filter(|delayed| is_meant(delayed)).map(|delayed| delayed.requests).sum()
        };
        let is_by_metadata = |delayed: &Delayed| delayed.by == LimitOf::Metadata;
        LimitUse {
            credits: self.share.taken.credits(&self.share.rates),
            delayed_by_requests: count(|delayed| {
                delayed.used_up == UsedUp::Requests && delayed.by != LimitOf::Metadata
            }),
            delayed_reads: count(|delayed| delayed.used_up == UsedUp::Reads),
            delayed_writes: count(|delayed| delayed.used_up == UsedUp::Writes),
            delayed_by_metadata: count(is_by_metadata),
        }
    }

    /// How many have had to wait for each of the limits, without those for which none had to.
    pub fn delayed(&self) -> Vec<Delayed> {
        let each = LimitOf::ALL.into_iter().flat_map(|by| UsedUp::ALL.map(|used_up| (by, used_up)));
        let delayed = each.map(|(by, used_up)| Delayed { by, used_up, requests: self.delays.read(by, used_up) });
        delayed.filter(|delayed| delayed.requests > 0).collect()
    }

    /// What it allows now, and its account.
    pub fn rates(&self) -> (ShareRates, Rate) {
        (*self.said.lock(), *self.account.rate.lock())
    }

    /// What a user has taken of its limit.
    fn taken_by(&self, user: UserId) -> Arc<RateLimit> {
        let mut users = self.users.lock();
        if !users.contains_key(&user) {
            users.retain(|_, taken| Arc::strong_count(taken) > 1 || !taken.is_paid());
        }
        Arc::clone(users.entry(user).or_default())
    }
}

impl Delays {
    /// Counts a request that begins to wait.
    fn count(&self, by: LimitOf, used_up: UsedUp) {
        self.0[by as usize][used_up as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self, by: LimitOf, used_up: UsedUp) -> u64 {
        self.0[by as usize][used_up as usize].load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for ShareLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShareLimit").field("is_limited", &self.is_limited).finish_non_exhaustive()
    }
}

/// What a request does, as limits count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Reads so many bytes.
    Read(u64),
    /// Writes so many bytes.
    Write(u64),
    /// Anything else.
    Metadata,
}

impl Work {
    /// Of a request that reads or writes `bytes`, if it does. `None` where it does nothing with a share.
    pub(crate) fn of(command: Command, bytes: u64) -> Option<Self> {
        match command {
            Command::READ => Some(Work::Read(bytes)),
            Command::WRITE => Some(Work::Write(bytes)),
            // A copy that the server makes.
            Command::IOCTL if bytes > 0 => Some(Work::Write(bytes)),
            Command::CLOSE
            | Command::LOCK
            | Command::CREATE
            | Command::FLUSH
            | Command::IOCTL
            | Command::QUERY_DIRECTORY
            | Command::QUERY_INFO
            | Command::SET_INFO
            | Command::CHANGE_NOTIFY => Some(Work::Metadata),
            _ => None,
        }
    }

    fn bytes(self) -> u64 {
        match self {
            Work::Read(bytes) | Work::Write(bytes) => bytes,
            Work::Metadata => 0,
        }
    }
}

/// The limits as one tree connect has them.
pub(crate) struct TreeLimit {
    share: Arc<ShareLimit>,
    user: Arc<RateLimit>,
    user_id: UserId,
}

/// The limits that may apply to one request, in the order in which they are taken of.
const LIMITS: [Which; 4] = [Which::Kind, Which::User, Which::Share, Which::Account];

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    /// Of the file that is read or written, or of what is no data.
    Kind,
    User,
    Share,
    Account,
}

impl TreeLimit {
    pub(crate) fn of(share: &Arc<ShareLimit>, user: UserId) -> Self {
        TreeLimit { share: Arc::clone(share), user: share.taken_by(user), user_id: user }
    }

    /// True where something may have to wait.
    pub(crate) fn is_limited(&self) -> bool {
        self.share.is_limited.load(Ordering::Relaxed)
    }

    /// How many opens the share's root may have, or each other file and directory.
    pub(crate) fn opens_max(&self, is_root: bool) -> usize {
        let opens = self.share.said.lock().opens;
        if is_root { opens.root } else { opens.each }
    }

    /// The limit and its rates, where it applies. `file` has what was taken of the file that is read or written.
    fn applying<'a>(
        &'a self,
        which: Which,
        work: Work,
        file: Option<&'a MadeOnUse>,
    ) -> Option<(&'a Arc<RateLimit>, &'a Arc<Rates>)> {
        let share = &*self.share;
        let (rates, limit) = match (which, work) {
            (Which::Kind, Work::Read(_) | Work::Write(_)) => (&share.file, None),
            (Which::Kind, Work::Metadata) => (&share.metadata.rates, Some(&share.metadata.taken)),
            (Which::User, _) => (&share.user, Some(&self.user)),
            (Which::Share, _) => (&share.share.rates, Some(&share.share.taken)),
            (Which::Account, _) => (&share.account.limit.rates, Some(&share.account.limit.taken)),
        };
        if rates.are_none() {
            return None;
        }
        limit.or_else(|| file.map(MadeOnUse::get)).map(|limit| (limit, rates))
    }

    /// Takes a READ or WRITE of so many bytes of all of them, or of none.
    pub(crate) fn try_take<'a>(&'a self, bytes: u64, file: Option<&'a MadeOnUse>, now: Instant) -> Option<Taken<'a>> {
        let work = Work::Read(bytes);
        let mut taken = Taken { limits: self, work, file, member: None, of: 0 };
        for which in LIMITS {
            let Some((limit, rates)) = self.applying(which, work, file) else { continue };
            if !limit.try_take(rates, bytes, now) {
                return None;
            }
            taken.note(which);
        }
        Some(taken)
    }

    /// Takes of all, one after the other, and tells `waits` of each that it has to wait for. Who stops waiting has taken nothing.
    pub(crate) async fn take<'a>(
        &'a self,
        work: Work,
        file: Option<&'a MadeOnUse>,
        session: SessionId,
        waits: impl Fn(Throttle),
    ) -> Taken<'a> {
        let member = Member { user: self.user_id.0.into(), session: session.0 };
        let mut taken = Taken { limits: self, work, file, member: Some(member), of: 0 };
        for which in LIMITS {
            let Some((limit, rates)) = self.applying(which, work, file) else { continue };
            let count = |over| {
                let (by, used_up) = (which.limit_of(work), used_up(over, work));
                self.share.delays.count(by, used_up);
                waits(throttle(by, used_up));
            };
            limit.take(rates, work.bytes(), member, count).await;
            taken.note(which);
        }
        taken
    }
}

impl Which {
    fn limit_of(self, work: Work) -> LimitOf {
        match (self, work) {
            (Which::Kind, Work::Metadata) => LimitOf::Metadata,
            (Which::Kind, Work::Read(_) | Work::Write(_)) => LimitOf::File,
            (Which::User, _) => LimitOf::User,
            (Which::Share, _) => LimitOf::Share,
            (Which::Account, _) => LimitOf::Account,
        }
    }
}

fn used_up(over: Over, work: Work) -> UsedUp {
    match (over, work) {
        (Over::Requests, _) => UsedUp::Requests,
        (Over::Bytes, Work::Read(_)) => UsedUp::Reads,
        (Over::Bytes, Work::Write(_) | Work::Metadata) => UsedUp::Writes,
    }
}

/// What a request waits for where one of the limits is used up.
fn throttle(by: LimitOf, used_up: UsedUp) -> Throttle {
    match (by, used_up) {
        (_, UsedUp::Reads) => Throttle::Egress,
        (_, UsedUp::Writes) => Throttle::Ingress,
        (LimitOf::Metadata, UsedUp::Requests) => Throttle::Metadata,
        (_, UsedUp::Requests) => Throttle::Iops,
    }
}

/// What a request has taken, and gives back where it is not made.
pub(crate) struct Taken<'a> {
    limits: &'a TreeLimit,
    work: Work,
    file: Option<&'a MadeOnUse>,
    /// Who may have waited for it.
    member: Option<Member>,
    /// A bit for each of the limits that it was taken of.
    of: u8,
}

impl Taken<'_> {
    fn note(&mut self, which: Which) {
        self.of |= 1 << which as u8;
    }

    /// The request is made, with so many of its bytes.
    pub(crate) fn keep(mut self, bytes: u64) {
        let taken = self.work.bytes();
        if bytes < taken {
            self.give_back(|limit, rates| limit.settle(rates, taken, bytes, self.member));
        }
        self.of = 0;
    }

    fn give_back(&self, one: impl Fn(&RateLimit, &Rates)) {
        for which in LIMITS.into_iter().filter(|which| self.of & (1 << *which as u8) != 0) {
            if let Some((limit, rates)) = self.limits.applying(which, self.work, self.file) {
                one(limit, rates);
            }
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if self.of != 0 {
            self.give_back(|limit, rates| limit.give_back(rates, self.work.bytes()));
        }
    }
}
