//! Whose turn it is: work queues by device, for each device by user, and for each user by session, and each queue has its turn.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// The queue of what others wait for, in place of a session's: no session has this number.
const FIRST: u64 = u64::MAX;

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A piece of work, and what was heard of others' changes by who gave it.
pub(super) struct Work {
    pub(super) job: Job,
    pub(super) heard: store::Heard,
}

/// How many threads there are for what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Pieces of work that wait on one device at a time.
    pub(super) device: usize,
    /// Of these, the pieces of one user: others of the same folder go on beside one whose work hangs.
    user: usize,
    /// Of these, the pieces of one session: others of the same user go on beside one that hangs on a single file.
    session: usize,
    /// Threads that wait for devices in all. Past it each device has one still.
    all: usize,
}

/// What a piece of work waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Device {
    /// The server's own folder: records of opens.
    Own,
    /// The drivers of the machine's network interfaces.
    Interfaces,
    /// None: it only computes.
    Processor,
    /// The volume of a share (`store::Facts::volume`), or what is mounted below one.
    Volume(u64),
    /// Two of them, the smaller number first. Work that needs both hangs where either does, so it takes no thread of those that wait for
    /// one alone.
    Volumes(u64, u64),
}

impl Device {
    /// True where work may hang. What only computes ends, and leaves its threads to others.
    fn is_waited_for(self) -> bool {
        self != Device::Processor
    }

    /// What work waits for that needs both volumes, which may be one.
    pub(crate) fn of_both(one: u64, other: u64) -> Self {
        if one == other { Device::Volume(one) } else { Device::Volumes(one.min(other), one.max(other)) }
    }
}

/// The queue in which a piece of work takes its turn at a device. The server's own work is that of user 0, and what is done for a user without a session
/// that of session 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueKey {
    pub(crate) device: Device,
    /// The number of who is signed in.
    pub(crate) user: u64,
    pub(crate) session: u64,
}

impl QueueKey {
    /// What the server does in its own folder.
    pub(crate) const OWN: QueueKey = QueueKey { device: Device::Own, user: 0, session: 0 };

    /// What the server does of itself with the files of a share.
    pub(crate) fn of_server(volume: u64) -> Self {
        QueueKey { device: Device::Volume(volume), user: 0, session: 0 }
    }

    /// The same for what others wait for until it is done, in whose way the user's backlog would stand otherwise.
    pub(crate) fn first(self) -> Self {
        QueueKey { session: FIRST, ..self }
    }

    /// What the server does with the files of a share for a user whose session has them no more. It keeps nobody else's waiting.
    pub(crate) fn of_user(volume: u64, user: u64) -> Self {
        QueueKey { device: Device::Volume(volume), user, session: 0 }
    }
}

/// What a piece of work that has begun goes by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    queue_key: QueueKey,
    at: Instant,
}

/// What waits at a device, and has begun there longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) device: Device,
    /// Pieces of work that have begun, and that stand in line behind them.
    pub(crate) count: usize,
    pub(crate) longest: Duration,
}

/// Work that has not begun.
pub(super) struct Queues {
    limits: Limits,
    devices: HashMap<Device, DeviceQueue>,
    /// Devices that have work which may begin, in the order of their turns.
    turns: VecDeque<Device>,
    /// Pieces of work that wait for a device.
    running: usize,
}

#[derive(Default)]
struct DeviceQueue {
    users: HashMap<u64, UserQueue>,
    /// Users that have work which may begin, in the order of their turns.
    turns: VecDeque<u64>,
    waiting: usize,
    /// When each piece that runs has begun, in no order.
    running: Vec<Instant>,
    has_turn: bool,
}

#[derive(Default)]
struct UserQueue {
    sessions: HashMap<u64, SessionQueue>,
    /// Sessions that have work which may begin, in the order of their turns.
    turns: VecDeque<u64>,
    running: usize,
    has_turn: bool,
}

#[derive(Default)]
struct SessionQueue {
    jobs: VecDeque<Work>,
    running: usize,
    has_turn: bool,
}

impl Limits {
    /// Threads where there is memory enough.
    #[cfg(any(test, feature = "in-memory"))]
    pub(super) const THREADS: usize = 512;

    /// Where work waits more than it computes. Ten devices that hang leave some threads.
    pub(super) fn of_short_work(all: usize) -> Limits {
        let device = (all / 10).clamp(4, 48);
        Limits { device, user: (device * 5 / 6).max(3), session: (device * 2 / 3).max(2), all }
    }

    /// How many threads wait for a device: a quarter for two volumes, of which there are many pairs.
    fn at(self, device: Device) -> Self {
        match device {
            Device::Own | Device::Interfaces | Device::Processor | Device::Volume(_) => self,
            Device::Volumes(..) => {
                let [device, user, session] =
                    [self.device, self.user, self.session].map(|threads| (threads / 4).max(1));
                Limits { device, user, session, ..self }
            }
        }
    }

    /// For long work: a few for each core, which are a part of what it can do, and enough for disks that are slow.
    pub(super) fn of_long_work(cores: usize) -> Self {
        Limits { device: 4 * cores, user: 3 * cores, session: 2 * cores, all: 16 * cores }
    }
}

impl Queues {
    pub(super) fn new(limits: Limits) -> Self {
        Queues { limits, devices: HashMap::new(), turns: VecDeque::new(), running: 0 }
    }

    /// How much a session has waiting at a device.
    pub(super) fn waiting(&self, queue_key: QueueKey) -> usize {
        let user = self.devices.get(&queue_key.device).and_then(|device| device.users.get(&queue_key.user));
        user.and_then(|user| user.sessions.get(&queue_key.session)).map_or(0, |session| session.jobs.len())
    }

    /// Pieces of work that could begin now if there were threads, at most.
    pub(super) fn may_begin(&self) -> usize {
        let devices = self.turns.iter().filter_map(|id| Some((self.limits.at(*id), self.devices.get(id)?)));
        devices.map(|(limits, device)| device.waiting.min(limits.device - device.running.len())).sum()
    }

    /// How many threads all that has work may have.
    pub(super) fn threads_max(&self) -> usize {
        self.limits.all + self.limits.at(Device::Processor).device + self.devices.len()
    }

    /// True where there is work that may begin.
    pub(super) fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// True where nothing waits and nothing runs: nothing is remembered of who has no work.
    #[cfg(test)]
    pub(super) fn are_empty(&self) -> bool {
        self.devices.is_empty()
    }

    pub(super) fn push(&mut self, queue_key: QueueKey, work: Work) {
        let device = self.devices.entry(queue_key.device).or_default();
        device.waiting += 1;
        let user = device.users.entry(queue_key.user).or_default();
        user.sessions.entry(queue_key.session).or_default().jobs.push_back(work);
        self.give_turn(queue_key);
    }

    /// The next piece of work, which begins now, and whose it is. [`Queues::done`] has to be told when it has ended.
    pub(super) fn take(&mut self) -> Option<(Begun, Work)> {
        for _ in 0..self.turns.len() {
            let device_id = self.turns.pop_front()?;
            let device = self.devices.get_mut(&device_id)?;
            if device_id.is_waited_for() && self.running >= self.limits.all && !device.running.is_empty() {
                self.turns.push_back(device_id);
                continue;
            }
            device.has_turn = false;
            let user_id = device.turns.pop_front()?;
            let user = device.users.get_mut(&user_id)?;
            user.has_turn = false;
            let session_id = user.turns.pop_front()?;
            let session = user.sessions.get_mut(&session_id)?;
            session.has_turn = false;
            let work = session.jobs.pop_front()?;
            session.running += 1;
            user.running += 1;
            device.waiting -= 1;
            let at = Instant::now();
            device.running.push(at);
            self.running += usize::from(device_id.is_waited_for());
            let queue_key = QueueKey { device: device_id, user: user_id, session: session_id };
            self.give_turn(queue_key);
            return Some((Begun { queue_key, at }, work));
        }
        None
    }

    /// A piece of work has ended.
    pub(super) fn done(&mut self, Begun { queue_key, at }: Begun) {
        self.running -= usize::from(queue_key.device.is_waited_for());
        let Some(device) = self.devices.get_mut(&queue_key.device) else { return };
        if let Some(position) = device.running.iter().position(|began| *began == at) {
            device.running.swap_remove(position);
        }
        if let Some(user) = device.users.get_mut(&queue_key.user) {
            user.running -= 1;
            if let Some(session) = user.sessions.get_mut(&queue_key.session) {
                session.running -= 1;
                if session.running == 0 && session.jobs.is_empty() {
                    user.sessions.remove(&queue_key.session);
                }
            }
            if user.sessions.is_empty() {
                device.users.remove(&queue_key.user);
            }
        }
        if device.users.is_empty() {
            self.devices.remove(&queue_key.device);
        } else {
            self.give_turn(queue_key);
        }
    }

    /// Where work has waited for a device for so long, how much there does.
    pub(super) fn waiting_longer(&self, than: Duration) -> Vec<Waiting> {
        let now = Instant::now();
        let each = self.devices.iter().filter(|(device, _)| device.is_waited_for());
        let each = each.filter_map(|(device, queue)| {
            let longest = queue.running.iter().map(|began| now.saturating_duration_since(*began)).max()?;
            let count = queue.running.len() + queue.waiting;
            Some(Waiting { device: *device, count, longest })
        });
        each.filter(|waiting| waiting.longest >= than).collect()
    }

    /// Puts a session, its user and its device at the end of the turns where they have work that may begin, and stand there not yet.
    fn give_turn(&mut self, queue_key: QueueKey) {
        let limits = self.limits.at(queue_key.device);
        let Some(device) = self.devices.get_mut(&queue_key.device) else { return };
        if let Some(user) = device.users.get_mut(&queue_key.user) {
            if let Some(session) = user.sessions.get_mut(&queue_key.session)
                && !session.has_turn
                && !session.jobs.is_empty()
                && session.running < limits.session
            {
                session.has_turn = true;
                match queue_key.session {
                    FIRST => user.turns.push_front(FIRST),
                    session => user.turns.push_back(session),
                }
            }
            if !user.has_turn && !user.turns.is_empty() && user.running < limits.user {
                user.has_turn = true;
                device.turns.push_back(queue_key.user);
            }
        }
        if !device.has_turn && !device.turns.is_empty() && device.running.len() < limits.device {
            device.has_turn = true;
            self.turns.push_back(queue_key.device);
        }
    }
}
