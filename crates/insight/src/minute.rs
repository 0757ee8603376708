//! From what was seen of the last minute to the evidence on a share or session.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use server::admin::{Counts, Delayed, InterfaceView, SessionView, ShareView};

use crate::history::{ChannelName, ShardTime, Slice};
use crate::why::{
    About, ChannelFacts, Cores, Evidence, Holder, Neighbour, Path, Plan, SessionFacts, Shard, ShareFacts, TimeOfDay,
};

/// Sessions, and others, that are looked at: those that do most.
const SESSIONS_MAX: usize = 256;
const NEIGHBOURS_MAX: usize = 256;
/// A slice counts as one in which requests came where it has at least this part of what the busiest one has.
const ACTIVE_PART: u64 = 10;
/// What happened within this time, or in the slice in which it begins, happens now.
const LATELY: Duration = Duration::from_secs(10);

/// The server as it is just now.
#[derive(Clone, Debug, Default)]
pub struct Now {
    /// The shares that are served.
    pub shares: Vec<ShareView>,
    /// The sessions.
    pub sessions: Vec<SessionView>,
    /// What clients are told of its addresses.
    pub interfaces: Vec<InterfaceView>,
    /// The connections of channels, as far as they are known.
    pub paths: HashMap<ChannelName, Path>,
    /// For how long requests of shares have had to wait without a pause, of those that do.
    pub throttled_for: HashMap<String, Duration>,
    /// What shares have by the catalog.
    pub plans: HashMap<String, Plan>,
    /// Nanoseconds that signing or sealing a byte takes, by the algorithm's name.
    pub protection: BTreeMap<String, f64>,
    /// The time of the day.
    pub time: Option<TimeOfDay>,
}

/// The last minute, and the server as it is at its end.
#[derive(Clone, Debug)]
pub struct Minute {
    slices: Vec<Slice>,
    now: Now,
    /// All slices together.
    rows: HashMap<About, Counts>,
}

impl Minute {
    /// Of what was seen.
    pub fn of(slices: Vec<Slice>, now: Now) -> Self {
        let mut rows: HashMap<About, Counts> = HashMap::new();
        for (who, counts) in slices.iter().flat_map(|slice| &slice.rows) {
            rows.entry(who.clone()).or_default().add(counts);
        }
        Minute { slices, now, rows }
    }

    /// How long it is.
    pub fn covers(&self) -> Duration {
        self.slices.iter().map(|slice| slice.passed).sum()
    }

    /// The shares that are served.
    pub fn shares(&self) -> impl Iterator<Item = &str> {
        self.now.shares.iter().map(|share| share.name.as_str())
    }

    /// The shares to which there were requests, or whose stores have not answered yet.
    pub fn busy_shares(&self) -> Vec<&str> {
        let is_busy =
            |share: &&ShareView| share.waits.is_some() || self.rows.contains_key(&About::Share(share.name.clone()));
        self.now.shares.iter().filter(is_busy).map(|share| share.name.as_str()).collect()
    }

    /// The share or session of this name or number: a share where there is one, whatever case it is written in.
    pub fn find(&self, name: &str) -> Option<About> {
        if let Some(share) = self.now.shares.iter().find(|share| share.name.eq_ignore_ascii_case(name)) {
            return Some(About::Share(share.name.clone()));
        }
        let id = match name.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok()?,
            None => name.parse().ok()?,
        };
        let session = self.now.sessions.iter().find(|session| session.id == id)?;
        Some(About::Session { id, user: session.user.clone() })
    }

    /// What is known of it.
    pub fn evidence(&self, about: &About) -> Evidence {
        let covers = self.covers();
        let is_meant = |share: &&ShareView| match about {
            About::Share(name) => share.name == *name,
            About::Session { id, .. } => self.shares_of(*id).contains(&share.name),
        };
        let shares: Vec<ShareFacts> = self.now.shares.iter().filter(is_meant).map(|share| self.share(share)).collect();
        let is_of = |one: &Holder| shares.iter().any(|share| share.view.name == one.view.share);
        Evidence {
            about: about.clone(),
            covers,
            active: self.active(about),
            ends: self.now.time.unwrap_or(TimeOfDay(0)),
            counts: self.counts_of(about),
            neighbours: self.neighbours(about),
            breaks: self.breaks().into_iter().filter(is_of).collect(),
            sessions: self.sessions(about),
            interfaces: self.now.interfaces.clone(),
            shards: self.shards(about),
            cores: self.cores(about),
            protection: self.now.protection.clone(),
            shares,
        }
    }

    fn shares_of(&self, id: u64) -> &[String] {
        self.now.sessions.iter().find(|session| session.id == id).map_or(&[], |session| &session.shares)
    }

    fn counts_of(&self, about: &About) -> Counts {
        let mut counts = Counts::default();
        self.rows.iter().filter(|(who, _)| is_same(who, about)).for_each(|(_, more)| counts.add(more));
        counts
    }

    /// How long requests of somebody came: the slices that have many.
    fn active(&self, about: &About) -> Duration {
        let requests = |slice: &Slice| -> u64 {
            slice.rows.iter().filter(|(who, _)| is_same(who, about)).map(|(_, counts)| counts.all_requests()).sum()
        };
        let a_second = |slice: &Slice| requests(slice) as f64 / slice.passed.as_secs_f64().max(1e-3);
        let most = self.slices.iter().map(a_second).fold(0.0, f64::max);
        let is_active = |slice: &&Slice| most > 0.0 && a_second(slice) * ACTIVE_PART as f64 >= most;
        self.slices.iter().filter(is_active).map(|slice| slice.passed).sum()
    }

    fn share(&self, view: &ShareView) -> ShareFacts {
        let delayed = delayed(&self.slices, &view.name);
        let delayed_lately = self::delayed(self.latest(), &view.name);
        let throttled_for = self.now.throttled_for.get(&view.name).copied();
        let plan = self.now.plans.get(&view.name).copied().unwrap_or_default();
        ShareFacts { view: view.clone(), delayed, delayed_lately, throttled_for, plan }
    }

    /// The slices of the last moments.
    fn latest(&self) -> &[Slice] {
        let mut covers = Duration::ZERO;
        let is_earlier = |slice: &Slice| {
            let is_earlier = covers >= LATELY;
            covers += slice.passed;
            is_earlier
        };
        let begin = self.slices.iter().rev().position(is_earlier).map_or(0, |count| self.slices.len() - count);
        &self.slices[begin..]
    }

    /// Each holder once, as it was seen last.
    fn breaks(&self) -> Vec<Holder> {
        let (mut seen, mut ago, mut holders) = (HashSet::new(), Duration::ZERO, Vec::new());
        for slice in self.slices.iter().rev() {
            let seen_ago = (!ago.is_zero()).then_some(ago);
            let new = slice.breaks.iter().filter(|one| seen.insert(one.open));
            holders.extend(new.map(|view| Holder { view: view.clone(), seen_ago }));
            ago += slice.passed;
        }
        holders
    }

    fn neighbours(&self, about: &About) -> Vec<Neighbour> {
        let is_alike = |who: &About| std::mem::discriminant(who) == std::mem::discriminant(about);
        let others = self.rows.iter().filter(|(who, _)| is_alike(who) && !is_same(who, about));
        let each = others.map(|(who, counts)| Neighbour { who: who.clone(), counts: counts.clone() });
        let mut neighbours: Vec<Neighbour> = each.collect();
        neighbours.sort_by_key(|one| std::cmp::Reverse(one.counts.all_requests()));
        neighbours.truncate(NEIGHBOURS_MAX);
        neighbours
    }

    fn sessions(&self, about: &About) -> Vec<SessionFacts> {
        let is_meant = |session: &&SessionView| match about {
            About::Share(name) => session.shares.contains(name),
            About::Session { id, .. } => session.id == *id,
        };
        let mut sessions: Vec<SessionFacts> =
            self.now.sessions.iter().filter(is_meant).filter_map(|session| self.session(session)).collect();
        sessions.sort_by_key(|session| std::cmp::Reverse(session.counts.all_requests()));
        sessions.truncate(SESSIONS_MAX);
        sessions
    }

    /// `None` where nothing was done in it.
    fn session(&self, view: &SessionView) -> Option<SessionFacts> {
        let about = About::Session { id: view.id, user: view.user.clone() };
        let counts = self.counts_of(&about);
        if counts.all_requests() == 0 {
            return None;
        }
        let active = self.active(&about);
        let channels = view.channels.iter().map(|channel| {
            let name = (view.id, channel.peer.clone());
            let path = self.now.paths.get(&name).map(|path| Path { busy: self.busy(&name), ..*path });
            ChannelFacts { view: channel.clone(), path }
        });
        let most = self.slices.iter().filter_map(|slice| slice.channels.get(&view.id)).max().copied().unwrap_or(0);
        let channels: Vec<ChannelFacts> = channels.collect();
        Some(SessionFacts { view: view.clone(), counts, active, channels_most: most.max(channels.len()), channels })
    }

    /// Which part of the time a channel had something on its way, of the slices that know.
    fn busy(&self, name: &ChannelName) -> f64 {
        let known = self.slices.iter().filter_map(|slice| Some((slice.busy.get(name)?, slice.passed)));
        let (busy, passed) =
            known.fold((0.0, 0.0), |(busy, passed), one| (busy + one.0.as_secs_f64(), passed + one.1.as_secs_f64()));
        if passed > 0.0 { busy / passed } else { 0.0 }
    }

    /// What the other threads had of the cores while requests came.
    fn cores(&self, about: &About) -> Cores {
        let active = self.with_requests(about);
        let sum = |of: fn(&Slice) -> Duration| active.iter().map(|slice| of(slice).as_secs_f64()).sum::<f64>();
        Cores {
            passed: sum(|slice| slice.passed),
            pool_ran: sum(|slice| slice.pool.ran),
            pool_waited: sum(|slice| slice.pool.waited),
            pool_threads: active.iter().map(|slice| slice.pool_threads).max().unwrap_or(0),
            throttled_times: active.iter().map(|slice| slice.throttled.times).sum(),
            throttled: sum(|slice| slice.throttled.time),
        }
    }

    /// The slices in which requests of somebody came.
    fn with_requests(&self, about: &About) -> Vec<&Slice> {
        self.slices.iter().filter(|slice| slice.rows.keys().any(|who| is_same(who, about))).collect()
    }

    /// What each shard did while requests came.
    fn shards(&self, about: &About) -> Vec<Shard> {
        let active = self.with_requests(about);
        let passed: f64 = active.iter().map(|slice| slice.passed.as_secs_f64()).sum();
        let count = active.iter().map(|slice| slice.shards.len()).max().unwrap_or(0);
        let of = |shard: usize, part: fn(&ShardTime) -> Duration| -> f64 {
            let times = active.iter().filter_map(|slice| slice.shards.get(shard));
            let time: f64 = times.map(|time| part(time).as_secs_f64()).sum();
            if passed > 0.0 { time / passed } else { 0.0 }
        };
        let shards =
            (0..count).map(|number| Shard { ran: of(number, |time| time.ran), waited: of(number, |time| time.waited) });
        shards.collect()
    }
}

/// Requests of a share that had to wait in these slices, by which limit.
fn delayed(slices: &[Slice], share: &str) -> Vec<Delayed> {
    let mut delayed: Vec<Delayed> = Vec::new();
    for more in slices.iter().filter_map(|slice| slice.delayed.get(share)).flatten() {
        match delayed.iter_mut().find(|known| known.by == more.by && known.used_up == more.used_up) {
            Some(known) => known.requests += more.requests,
            None => delayed.push(*more),
        }
    }
    delayed
}

/// A session is the same whoever it was signed in as.
fn is_same(one: &About, other: &About) -> bool {
    match (one, other) {
        (About::Session { id, .. }, About::Session { id: other, .. }) => id == other,
        (one, other) => one == other,
    }
}
