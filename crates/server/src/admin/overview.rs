//! The server as operators see it: the admin interface on what the shards share.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use secure::seal::Cipher;
use secure::sign::SigningAlgorithm;

use crate::admin::{
    Admin, BREAKS_MAX, BreakView, ChannelView, FileView, InterfaceView, LockedView, MemoryUse, OpenView, Protection,
    SessionView, ShareView, Views,
};
use crate::resource::pool::Waiting;
use crate::state::audit::{AuditCounts, AuditEnd, AuditOrigins, AuditRefusal};
use crate::state::auditing::of_request;
use crate::state::caching::{ACKNOWLEDGE_WITHIN, Unacknowledged};
use crate::state::configuration::{Configuration, Multichannel, Share};
use crate::state::counters::{Api, CountersView, Counts, Sum};
use crate::state::durable::Parting;
use crate::state::lockout::LockedUser;
use crate::state::multichannel;
use crate::state::open::{Open, Target};
use crate::state::open_id::OpenId;
use crate::state::principals::Principals;
use crate::state::session::{ChannelFacts, Session};
use crate::state::shared::Shared;
use crate::state::store_waits::{self, TOLD_AFTER};
use wire::fscc::ioctl::{Interface, InterfaceCapability};
use wire::ids::SessionId;

impl Admin for Arc<Shared> {
    fn replace(&self, configuration: Configuration) {
        self.give(configuration);
    }

    fn sessions(&self) -> Views<'_, SessionView> {
        let sessions: Vec<_> = self.sessions.all().iter().map(Arc::downgrade).collect();
        Box::new(sessions.into_iter().filter_map(|session| Some(view_session(self, &*session.upgrade()?))))
    }

    fn session_count(&self) -> usize {
        self.sessions.count()
    }

    fn counters(&self) -> CountersView {
        self.counters.read()
    }

    fn audit(&self) -> AuditCounts {
        self.audit.counts()
    }

    fn origins(&self) -> &Arc<AuditOrigins> {
        &self.origins
    }

    fn audit_refusal(&self, refusal: AuditRefusal) {
        of_request::refused(self, refusal);
    }

    fn memory(&self) -> MemoryUse {
        let all = self.budgets.of_all();
        MemoryUse { used_bytes: all.used(), allowed_bytes: all.limit() }
    }

    fn opens_of_user_max(&self) -> u64 {
        self.budgets.capacity().opens_of_user
    }

    fn interfaces(&self) -> Vec<InterfaceView> {
        let advertise = &self.configuration.load().settings.advertise;
        self.interfaces.to_tell(advertise, &self.listening).iter().filter_map(view_interface).collect()
    }

    fn shares(&self) -> Vec<ShareView> {
        let waits = self.pool.waiting_longer(TOLD_AFTER);
        self.configuration.load().shares.iter().map(|share| view_share(share, &waits)).collect()
    }

    fn busy_files(&self, within: Duration, most: usize) -> Vec<FileView> {
        self.busy_files.most_used(within, most)
    }

    fn awaited_breaks(&self) -> Vec<BreakView> {
        let awaited = self.files.awaited_breaks(BREAKS_MAX);
        let each = awaited.iter().flat_map(|file| file.holders.iter().map(|holder| (holder, file.waiting)));
        each.filter_map(|(holder, waiting)| self.view_break(holder, waiting)).collect()
    }

    fn connections(&self) -> Vec<usize> {
        self.placement.connections()
    }

    fn silent_shards(&self, patience: Duration) -> Vec<usize> {
        self.roll_call.silent(patience)
    }

    fn opens(&self) -> Views<'_, OpenView> {
        let mut opens = Vec::with_capacity(self.open_count());
        self.sessions.all().iter().for_each(|session| session.add_opens(&mut opens));
        opens.extend(self.durables.all().iter().map(Arc::downgrade));
        let open = opens.into_iter().filter_map(|open| open.upgrade().filter(|open| !open.is_closed()));
        Box::new(open.map(|open| view_open(&open)))
    }

    fn open_count(&self) -> usize {
        self.sessions.all().iter().map(|session| session.open_count()).sum::<usize>() + self.durables.count()
    }

    fn locked_users(&self) -> Vec<LockedView> {
        let view = |user: LockedUser| LockedView { relative_id: user.relative_id, left: user.left };
        let mut locked: Vec<_> = self.lockout.locked(now()).into_iter().map(view).collect();
        locked.sort_unstable_by_key(|user| user.relative_id);
        locked
    }

    fn unlock_user(&self, relative_id: u32) -> bool {
        self.lockout.unlock(relative_id, now())
    }

    fn close_session(&self, id: u64) -> bool {
        match self.sessions.find(SessionId(id)) {
            Some(session) => {
                self.end_session(&session, Parting::Expelled, AuditEnd::Operator);
                true
            }
            None => false,
        }
    }

    fn close_open(&self, id: u64) -> bool {
        let id = OpenId(id);
        let open = self.sessions.all().iter().find_map(|session| session.remove_open(id));
        let open = open.or_else(|| self.durables.take(id));
        let found = open.is_some();
        open.iter().for_each(|open| open.end.say(AuditEnd::Operator));
        self.close_on_pool(open.into_iter().collect());
        found
    }
}

impl Shared {
    /// `None` where the holder is gone by now.
    pub(crate) fn view_break(&self, unacknowledged: &Unacknowledged, waiting: usize) -> Option<BreakView> {
        let holder = &unacknowledged.holder;
        let open = self.open_of(holder.open, &holder.line)?;
        let session = self.sessions.of(&holder.line);
        let peer = session.as_ref().and_then(|session| Some(session.channels().first()?.peer.clone()));
        let left = unacknowledged.until.saturating_duration_since(tokio::time::Instant::now().into_std());
        let view = view_open(&open);
        Some(BreakView {
            open: view.id,
            session: view.session,
            user: view.user,
            peer: peer.unwrap_or_default(),
            share: view.share,
            path: view.path,
            kind: unacknowledged.kind,
            waiting,
            told_ago: ACKNOWLEDGE_WITHIN.saturating_sub(left),
        })
    }

    /// Has sessions and opens follow what is served now.
    pub(crate) fn follow_estate(self: &Arc<Self>) {
        let configuration = self.configuration.load_full();
        self.polling.set(configuration.settings.busy_poll);
        self.lockout.follow(&configuration);
        self.principals.store(Arc::new(Principals::of(&configuration)));
        for session in self.sessions.all() {
            match session.follow(&configuration) {
                Some(unserved) => {
                    if !multichannel::is_for(&configuration, &session) {
                        session.leave_other_channels();
                    }
                    self.close_unserved(unserved);
                }
                None => self.end_session(&session, Parting::Expelled, AuditEnd::Configuration),
            }
        }
        self.close_unserved(self.durables.follow(&configuration));
    }

    /// Closes opens of what is served no longer.
    pub(crate) fn close_unserved(self: &Arc<Self>, opens: Vec<Arc<Open>>) {
        opens.iter().for_each(|open| open.end.say(AuditEnd::Configuration));
        self.close_on_pool(opens);
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn view_session(server: &Shared, session: &Session) -> SessionView {
    let user = session.user.load();
    let channels = session.channels();
    let counts = |connection| server.counters.of_channel(session.id, connection);
    let idle = channels.iter().map(|channel| channel.idle_seconds()).min().unwrap_or(0);
    SessionView {
        id: session.id.0,
        user: user.name.clone(),
        account: user.account.clone(),
        dialect: session.dialect.0,
        cipher: session.cipher_in_use().map(|cipher| cipher_name(cipher).to_owned()),
        signing: channels.first().map_or_else(|| "none".to_owned(), |channel| signing_name(channel.signing).to_owned()),
        peer: channels.first().map_or_else(String::new, |channel| channel.peer.clone()),
        connected_seconds: session.created.elapsed().as_secs(),
        idle_seconds: idle,
        opens: session.open_count(),
        shares: session.share_names(),
        protection: protection(session),
        multichannel: match multichannel::is_for(&server.configuration.load(), session) {
            true => Multichannel::On,
            false => Multichannel::Off,
        },
        channels: channels.iter().map(|channel| view_channel(channel, &counts(channel.connection))).collect(),
    }
}

fn view_channel(channel: &ChannelFacts, counts: &Counts) -> ChannelView {
    let sum = |of| Api::ALL.iter().map(|api| counts.sum(*api, of)).sum();
    ChannelView {
        peer: channel.peer.clone(),
        local: channel.local.clone(),
        shard: channel.shard(),
        bytes_received: sum(Sum::ReceivedBytes),
        bytes_sent: sum(Sum::SentBytes),
        requests: counts.all_requests(),
        signing: signing_name(channel.signing).to_owned(),
        outstanding: channel.activity.outstanding.load(Ordering::Relaxed),
        together_most: channel.activity.together.most(channel.accepted.elapsed().as_secs()),
        connected_seconds: channel.since.elapsed().as_secs(),
    }
}

fn protection(session: &Session) -> Protection {
    match (session.seal_required, session.signing_required) {
        (true, _) => Protection::Sealed,
        (false, true) => Protection::Signed,
        (false, false) => Protection::Optional,
    }
}

fn view_share(share: &Share, waits: &[Waiting]) -> ShareView {
    let (rates, account_rate) = share.limit.rates();
    ShareView {
        name: share.name.clone(),
        account: share.account.clone(),
        seal_required: share.seal_required,
        rates,
        account_rate,
        credits: share.limit.usage().credits,
        delayed: share.limit.delayed(),
        waits: store_waits::of_share(share, waits),
    }
}

fn view_interface(interface: &Interface) -> Option<InterfaceView> {
    Some(InterfaceView {
        index: interface.index,
        address: interface.address?,
        bits_per_second: interface.link_speed,
        rss: interface.capability.contains(InterfaceCapability::RSS_CAPABLE),
    })
}

fn view_open(open: &Open) -> OpenView {
    let path = match &open.target {
        Target::File(file) => file.name(),
        Target::Pipe(_) => "(pipe)".to_owned(),
    };
    OpenView {
        id: open.id.0,
        session: open.line.session().map_or(0, |id| id.0),
        user: open.user.name.clone(),
        share: open.tree.place.to_string(),
        path,
        access: open.rights().bits(),
        open_seconds: open.opened.elapsed().as_secs(),
    }
}

/// Names as the specifications write them.
fn cipher_name(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Aes128Ccm => "AES-128-CCM",
        Cipher::Aes128Gcm => "AES-128-GCM",
        Cipher::Aes256Ccm => "AES-256-CCM",
        Cipher::Aes256Gcm => "AES-256-GCM",
    }
}

fn signing_name(algorithm: SigningAlgorithm) -> &'static str {
    match algorithm {
        SigningAlgorithm::HmacSha256 => "HMAC-SHA256",
        SigningAlgorithm::AesCmac => "AES-CMAC",
        SigningAlgorithm::AesGmac => "AES-GMAC",
    }
}
