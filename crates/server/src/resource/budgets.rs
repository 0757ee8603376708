//! The budgets of everybody: one of the server, below it one of all strangers and one of each user.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use wire::security::Sid;
use wire::status::Status;

use crate::resource::budget::{Budget, Charge};
use crate::resource::capacity::Capacity;
use crate::resource::hunger::Hunger;
use crate::resource::kept_buffers::KeptBuffers;
use crate::resource::usage::Usage;

/// Bytes that all who have not signed in make the server hold, their connections among them; at most a quarter of what all may.
const STRANGERS_BYTES: u64 = 40 << 20;
/// Bytes that one user makes the server hold, whatever sessions and connections it has; at most half of what all may.
const USER_BYTES: u64 = 144 << 20;
/// Bytes of that which are there for each user, whatever the others hold, also for what lasts: enough to sign in, to open some files, to go on with
/// small requests and to give back.
const USER_BYTES_PREPAID: u64 = 1 << 20;
/// What is there so for all users together, as a part of what all may hold; of what is left of it who comes gets one part in so many at the most. So
/// thousands who do nothing leave the rest to those who do something.
const PREPAID_PART_OF_ALL: (u64, u64) = (1, 4);
const PREPAID_PART_OF_REST: u64 = 8;
/// The part of one user's bytes for what may last for as long as a client wants (opens, locks, watches, sessions), and of all users': the
/// rest is for what comes and goes.
const LASTING_PART: (u64, u64) = (2, 3);
const LASTING_PART_OF_ALL: (u64, u64) = (3, 4);
/// What those may have who have waited long for what others hold: as a part of one user's bytes, at most so many, and as a part of all users'. It
/// comes on top of them, and has room for a largest frame beside as much that is left to others.
const BEYOND_PART: (u64, u64) = (1, 3);
const BEYOND_BYTES_MAX: u64 = 32 << 20;
const BEYOND_PART_OF_ALL: (u64, u64) = (1, 4);
/// The part of one user's bytes for connections whose clients are slow, with what they leave to small things.
const SLOW_PART: (u64, u64) = (1, 2);
/// What is on top for the slow that have waited long, for the rest of a frame or for an answer: two of the largest, with little memory one.
const FINISHING_BYTES: u64 = 18 << 20;
const FINISHING_PART: (u64, u64) = (1, 6);
/// What is on top for those that sign in while nothing else is left, and for small batches of those that hold nothing much; together at most so
/// much of what all may.
const ARRIVING_BYTES: u64 = 2 << 20;
/// The same for those that open something.
const OPENING_BYTES: u64 = 2 << 20;
/// What is on top for the answers of a whole frame that has waited long: what any frame needs, and as a part of all users', which is no less.
pub(crate) const ANSWERS_BYTES: u64 = 42 << 20;
const ANSWERS_PART_OF_ALL: (u64, u64) = (1, 4);
const LITTLE_BYTES: u64 = 6 << 20;
const SPARE_PART_OF_ALL: (u64, u64) = (1, 16);
/// The most that one user makes the server hold, with all that comes on top.
const USER_BYTES_IN_ALL: u64 =
    USER_BYTES + BEYOND_BYTES_MAX + FINISHING_BYTES + ANSWERS_BYTES + LITTLE_BYTES + ARRIVING_BYTES + OPENING_BYTES;
/// What `docs/BOUNDS.md` promises.
const _: () = assert!(USER_BYTES_IN_ALL <= 256 << 20);
/// The part of one user's bytes for names of listings: those that find no room go on without.
const LISTINGS_PART: (u64, u64) = (1, 6);
/// The part of one user's bytes for what is said on pipes and not read, and for handles: it may last, and leaves most of what may to the rest.
const PIPES_PART: (u64, u64) = (1, 8);

/// Bytes that an open is taken to cost: its own, its file's and its node's, its places in tables, a lease or record, and names of an ordinary length.
/// Measured: 2.6 KiB without a lease, 4.6 KiB for a persistent one with a lease.
const OPEN_BYTES: u64 = 4 << 10;
/// Bytes of names among them.
const NAMES_OF_OPEN: u64 = 512;
/// Bytes that an open of a stream is taken to cost besides: the longest name that a stream may have (255 units), which the open, the table of
/// files and what is cached keep one each. It is charged whatever the name is, so that a stream can be renamed at no cost.
const STREAM_BYTES: u64 = 3 * 255 * 3;
/// Bytes that a connection is taken to cost that is silent: its task, what it knows of its client, its socket's registration.
const CONNECTION_BYTES: u64 = 7 << 10;
/// Bytes that a session is taken to cost.
const SESSION_BYTES: u64 = 4 << 10;
/// Bytes that a tree connect is taken to cost.
const TREE_BYTES: u64 = 512;
/// The most directories that one user watches, who may be an account that many clients sign in with.
pub(crate) const WATCHES_OF_USER_MAX: u64 = 8_192;
/// Bytes that a watch is taken to cost, besides what changes.
const WATCH_BYTES: u64 = 2 << 10;

/// The server's budgets.
pub(crate) struct Budgets {
    server: Arc<Budget>,
    lasting: Arc<Budget>,
    beyond: Arc<Budget>,
    spare: Arc<Budget>,
    /// What is prepaid for users.
    prepaid: Arc<Budget>,
    opens: Arc<Budget>,
    connections: Arc<Budget>,
    hunger: Arc<Hunger>,
    capacity: Capacity,
    strangers: Arc<Budget>,
    /// What is on top for answers that have waited long.
    answers: Arc<Budget>,
    /// Makes room for what is on top.
    pub(crate) kept_buffers: Arc<KeptBuffers>,
    users: Arc<Users>,
}

type Users = Mutex<HashMap<Sid, Arc<UserBudgets>>>;

/// What one user may make the server hold: in all of its sessions, and in what waits for its clients after those.
pub(crate) struct UserBudgets {
    /// Bytes of all: what waits to be executed or to be sent, and what may last.
    pub(crate) bytes: Arc<Budget>,
    /// The part of them for what may last: opens and what is kept for them, locks, watches, sessions.
    pub(crate) lasting: Arc<Budget>,
    /// For who has waited long, on top of them.
    pub(crate) beyond: Arc<Budget>,
    /// The part of them that connections whose clients are slow may have. It is charged beside them.
    pub(crate) slow: Arc<Budget>,
    /// For the slow that have waited long, on top of them.
    pub(crate) finishing: Arc<Budget>,
    /// For small batches while nothing else is left, on top of them.
    pub(crate) little: Arc<Budget>,
    /// For those that sign in while nothing else is left, on top of them, and for those that open something.
    arriving: Arc<Budget>,
    opening: Arc<Budget>,
    /// For the answers of whole frames that have waited long, on top of them: of those that hold all there is one at a time is answered.
    pub(crate) answers: Arc<Budget>,
    kept_buffers: Arc<KeptBuffers>,
    /// The part of what may last that pipes may have.
    pub(crate) pipes: Arc<Budget>,
    /// The part of them that names of listings may take.
    pub(crate) listings: Arc<Budget>,
    opens: Arc<Budget>,
    sessions: Arc<Budget>,
    connections: Arc<Budget>,
    watches: Arc<Budget>,
    /// What is there for the user whatever others hold.
    _prepaid: Charge,
    /// What each network of its clients has had of them lately.
    pub(crate) usage: Usage,
    hunger: Hunger,
    hunger_of_all: Arc<Hunger>,
    users: Weak<Users>,
}

/// What is opened, as far as it makes a difference to what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// A file, directory or pipe.
    Whole,
    /// A named stream, which is open beside its file.
    Stream,
}

impl Opened {
    /// Descriptors, and bytes.
    fn cost(self) -> (u64, u64) {
        match self {
            Opened::Whole => (1, OPEN_BYTES),
            Opened::Stream => (2, OPEN_BYTES + STREAM_BYTES),
        }
    }
}

/// Something that a user has, and the bytes it costs.
pub(crate) struct Held {
    _counted: Option<Charge>,
    _bytes: Charge,
}

impl UserBudgets {
    /// Holds an open. TOO_MANY_OPENED_FILES or INSUFFICIENT_RESOURCES where there are too few descriptors or bytes left.
    pub(crate) fn open(&self, what: Opened) -> Result<Held, Status> {
        let (descriptors, bytes) = what.cost();
        let counted = self.opens.charge(descriptors).ok_or(Status::TOO_MANY_OPENED_FILES)?;
        let bytes = self.charge_lasting(bytes, &self.opening).ok_or(Status::INSUFFICIENT_RESOURCES)?;
        Ok(Held { _counted: Some(counted), _bytes: bytes })
    }

    /// Holds an open that is there already, whatever is left.
    pub(crate) fn open_anyway(&self, what: Opened) -> Held {
        let (descriptors, bytes) = what.cost();
        Held { _counted: Some(self.opens.overdraw(descriptors)), _bytes: self.lasting.overdraw(bytes) }
    }

    /// Holds the names of an open, as far as they are longer than what each open has room for.
    pub(crate) fn names(&self, bytes: u64) -> Option<Charge> {
        self.lasting.charge(bytes.saturating_sub(NAMES_OF_OPEN))
    }

    /// Holds names that are there already, whatever is left.
    pub(crate) fn names_anyway(&self, bytes: u64) -> Charge {
        self.lasting.overdraw(bytes.saturating_sub(NAMES_OF_OPEN))
    }

    /// How many descriptors its opens hold.
    #[cfg(test)]
    pub(crate) fn opens(&self) -> u64 {
        self.opens.used()
    }

    /// Holds a session.
    pub(crate) fn session(&self) -> Option<Held> {
        self.arrive(&self.sessions, SESSION_BYTES)
    }

    /// Holds a tree connect.
    pub(crate) fn tree(&self) -> Option<Held> {
        Some(Held { _counted: None, _bytes: self.charge_lasting(TREE_BYTES, &self.arriving)? })
    }

    /// Holds what counts the requests of a channel.
    pub(crate) fn counters(&self, bytes: u64) -> Option<Charge> {
        self.lasting.charge(bytes)
    }

    /// Holds a watch on a directory.
    pub(crate) fn watch(&self) -> Option<Held> {
        Held::of(&self.watches, 1, &self.lasting, WATCH_BYTES)
    }

    /// Holds a connection.
    pub(crate) fn connection(&self) -> Option<Held> {
        self.arrive(&self.connections, CONNECTION_BYTES)
    }

    fn arrive(&self, count: &Arc<Budget>, cost: u64) -> Option<Held> {
        Some(Held { _counted: Some(count.charge(1)?), _bytes: self.charge_lasting(cost, &self.arriving)? })
    }

    /// Holds what may last, or where others of the user hold what it needs, `spare` for it: who signs in does not wait, and has those move what they
    /// hold. What lasts does not move: where that is what lacks, nobody is asked to.
    fn charge_lasting(&self, bytes: u64, spare: &Arc<Budget>) -> Option<Charge> {
        self.lasting.charge(bytes).or_else(|| {
            if self.bytes.has_left(bytes) {
                return None;
            }
            self.note_hunger(self.bytes.lacks_above(bytes, 0));
            spare.charge_leaving(bytes, bytes)
        })
    }

    /// Somebody has waited long for memory, of which there is none left for the user, or for all. In that case those users are meant who hold at
    /// least half as much as the one who holds most.
    pub(crate) fn note_hunger(&self, of_all: bool) {
        if !of_all {
            return self.hunger.note(0);
        }
        let users = self.users.upgrade();
        let most = users.and_then(|users| users.lock().values().map(|user| user.bytes.used()).max());
        self.hunger_of_all.note(most.unwrap_or(0) / 2);
    }

    /// Holds `charge` on top of what there is, in the place of what the process keeps and nobody uses.
    pub(crate) fn on_top(&self, charge: Option<Charge>) -> Option<Charge> {
        charge.inspect(|_| self.kept_buffers.make_room())
    }

    /// True where somebody waits for memory that the user's connections may hold.
    pub(crate) fn is_hungry(&self) -> bool {
        self.hunger.is_felt() || self.hunger_of_all.is_felt_with(self.bytes.used())
    }

    /// True where nothing is held for the user. An open may be paid for by what is on top alone.
    fn is_idle(&self) -> bool {
        [&self.bytes, &self.opens, &self.opening].iter().all(|budget| budget.used() == 0)
    }
}

impl Held {
    fn of(count: &Arc<Budget>, units: u64, bytes: &Arc<Budget>, cost: u64) -> Option<Held> {
        Some(Held { _counted: Some(count.charge(units)?), _bytes: bytes.charge(cost)? })
    }
}

impl Budgets {
    pub(crate) fn new(capacity: Capacity) -> Self {
        let server = Budget::new(capacity.bytes);
        let beyond = Budget::new(part(capacity.bytes, BEYOND_PART_OF_ALL));
        let answers = Budget::new(part(capacity.bytes, ANSWERS_PART_OF_ALL).max(ANSWERS_BYTES));
        let on_top = vec![Arc::clone(&beyond), Arc::clone(&answers)];
        Budgets {
            strangers: server.below(STRANGERS_BYTES.min(capacity.bytes / 4)),
            server,
            lasting: Budget::new(part(capacity.bytes, LASTING_PART_OF_ALL)),
            beyond,
            spare: Budget::new(part(capacity.bytes, SPARE_PART_OF_ALL)),
            answers,
            kept_buffers: KeptBuffers::new(capacity.kept_buffers, on_top),
            prepaid: Budget::new(part(capacity.bytes, PREPAID_PART_OF_ALL)),
            opens: Budget::new(capacity.opens),
            connections: Budget::new(capacity.connections),
            hunger: Arc::default(),
            capacity,
            users: Arc::default(),
        }
    }

    /// How many things there may be.
    pub(crate) fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    /// Bytes held for everybody.
    pub(crate) fn of_all(&self) -> &Budget {
        &self.server
    }

    /// Bytes held for those who have not signed in.
    pub(crate) fn strangers(&self) -> &Arc<Budget> {
        &self.strangers
    }

    /// The budgets of a user, the same for all of its sessions.
    pub(crate) fn of_user(&self, user: &Sid) -> Arc<UserBudgets> {
        let mut users = self.users.lock();
        if let Some(known) = users.get(user) {
            return Arc::clone(known);
        }
        // Opens that wait for their clients may be all that there is of a user.
        users.retain(|_, budgets| Arc::strong_count(budgets) > 1 || !budgets.is_idle());
        let limit = USER_BYTES.min(self.capacity.bytes / 2);
        let rest = self.prepaid.limit().saturating_sub(self.prepaid.used());
        let prepaid = USER_BYTES_PREPAID.min(rest / PREPAID_PART_OF_REST);
        let bytes = self.server.share(limit, prepaid);
        let lasting = bytes.below_both(&self.lasting.share(limit, prepaid), part(limit, LASTING_PART));
        let made = Arc::new(UserBudgets {
            listings: bytes.below(part(limit, LISTINGS_PART)),
            pipes: lasting.below(part(limit, PIPES_PART)),
            lasting,
            beyond: self.beyond.share(part(limit, BEYOND_PART).min(BEYOND_BYTES_MAX), 0),
            slow: Budget::new(part(limit, SLOW_PART)),
            finishing: self.beyond.below(part(limit, FINISHING_PART).min(FINISHING_BYTES)),
            arriving: self.spare.share(ARRIVING_BYTES, 0),
            opening: self.spare.share(OPENING_BYTES, 0),
            answers: self.answers.below(ANSWERS_BYTES),
            kept_buffers: Arc::clone(&self.kept_buffers),
            little: self.spare.share(LITTLE_BYTES, 0),
            bytes,
            opens: self.opens.even_share(self.capacity.opens_of_user),
            sessions: Budget::new(self.capacity.sessions_of_user),
            connections: self.connections.even_share(self.capacity.connections_of_user),
            _prepaid: self.prepaid.overdraw(prepaid),
            watches: Budget::new(WATCHES_OF_USER_MAX),
            usage: Usage::default(),
            hunger: Hunger::default(),
            hunger_of_all: Arc::clone(&self.hunger),
            users: Arc::downgrade(&self.users),
        });
        users.insert(*user, Arc::clone(&made));
        made
    }
}

fn part(of: u64, (numerator, denominator): (u64, u64)) -> u64 {
    of / denominator * numerator
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_little_memory_gives_everybody_less_of_it() {
        for (memory, of_user, strangers) in [(u64::MAX, USER_BYTES, STRANGERS_BYTES), (256 << 20, 64 << 20, 32 << 20)] {
            let budgets = Budgets::new(Capacity::of(1_024, memory));
            let user = budgets.of_user(&Sid::SYSTEM);
            assert_eq!((user.bytes.limit(), budgets.strangers().limit()), (of_user, strangers));
            assert!(user.lasting.limit() < of_user && user.listings.limit() < of_user / 4);
            let _held = user.bytes.charge(of_user).unwrap();
            assert!(budgets.of_user(&Sid::EVERYONE).bytes.charge(of_user / 2).is_some());
        }
    }

    #[test]
    fn a_connection_counts_for_the_bytes_that_it_takes() {
        let budgets = Budgets::new(Capacity::default());
        let user = budgets.of_user(&Sid::SYSTEM);
        let held = user.connection().unwrap();
        assert_eq!((user.lasting.used(), user.bytes.used()), (CONNECTION_BYTES, CONNECTION_BYTES));
        drop(held);
        assert_eq!(user.bytes.used(), 0);
    }

    #[test]
    fn who_signs_in_or_opens_something_does_so_though_others_of_its_user_hold_all_there_is() {
        let budgets = Budgets::new(Capacity::default());
        let user = budgets.of_user(&Sid::SYSTEM);
        let held = user.bytes.charge(USER_BYTES).unwrap();
        let others: Vec<_> = (0..60)
            .map(|_| (user.connection().unwrap(), user.session().unwrap(), user.open(Opened::Whole).unwrap()))
            .collect();
        assert!(user.is_hungry() && !budgets.of_user(&Sid::EVERYONE).is_hungry());
        drop((held, others));
        assert_eq!((user.bytes.used(), budgets.spare.used()), (0, 0));
    }

    #[test]
    fn nobody_has_to_move_what_lasts() {
        let budgets = Budgets::new(Capacity::default());
        let user = budgets.of_user(&Sid::SYSTEM);
        let _lasting = user.lasting.charge(user.lasting.limit()).unwrap();
        assert!(user.session().is_none() && user.open(Opened::Whole).is_err());
        assert!(!user.is_hungry() && !budgets.of_user(&Sid::EVERYONE).is_hungry());
    }

    #[test]
    fn what_others_hold_for_long_leaves_everybody_enough_to_sign_in_and_open_files() {
        let budgets = Budgets::new(Capacity::of(1_024, 384 << 20));
        let known = budgets.of_user(&Sid::NETWORK);
        let many = [Sid::SYSTEM, Sid::EVERYONE, Sid::ANONYMOUS, Sid::CREATOR_OWNER].map(|user| budgets.of_user(&user));
        let held: Vec<_> = many.iter().flat_map(|user| std::iter::from_fn(|| user.lasting.charge(64 << 10))).collect();
        assert!(budgets.lasting.used() >= budgets.lasting.limit() - (64 << 10), "all is held that may last");
        for user in [known, budgets.of_user(&Sid::AUTHENTICATED_USERS)] {
            let opens: Vec<_> = (0..200).map(|_| user.open(Opened::Whole).unwrap()).collect();
            assert!(user.connection().is_some() && user.session().is_some() && user.tree().is_some());
            assert!(user.watch().is_some() && user.lasting.charge(64 << 10).is_some());
            drop(opens);
        }
        drop((held, many));
        assert!(budgets.users.lock().values().all(|user| user.is_idle()));
    }

    #[test]
    fn who_opens_many_files_leaves_as_many_to_others() {
        let budgets = Budgets::new(Capacity::of(1_024, u64::MAX));
        let [greedy, second, modest] = [&Sid::SYSTEM, &Sid::EVERYONE, &Sid::NETWORK].map(|user| budgets.of_user(user));
        let all = |user: &Arc<UserBudgets>| std::iter::from_fn(|| user.open(Opened::Whole).ok()).collect::<Vec<_>>();
        let held = [all(&greedy), all(&second)];
        assert_eq!(held.each_ref().map(Vec::len), [320, 160]);
        assert_eq!(all(&modest).len(), 80);
        drop(held);
        assert_eq!(budgets.opens.used(), 0);
    }

    #[test]
    fn thousands_who_do_nothing_leave_the_rest_to_those_who_do_something() {
        let budgets = Budgets::new(Capacity::default());
        let sid = |number: u32| Sid::new(5, &[21, 1, 2, 3, number]).unwrap();
        let idle: Vec<_> = (0..5_000).map(|number| budgets.of_user(&sid(number))).collect();
        assert!(budgets.server.used() <= budgets.server.limit() / 4);
        let busy = budgets.of_user(&Sid::SYSTEM);
        assert!(busy.bytes.charge_leaving(8 << 20, 24 << 20).is_some());
        assert!(busy.lasting.charge(64 << 20).is_some());
        drop(idle);
        drop(busy);
        let next = budgets.of_user(&Sid::EVERYONE);
        assert_eq!(budgets.users.lock().len(), 1, "those are forgotten of whom nothing is there");
        let prepaid = USER_BYTES_PREPAID;
        assert_eq!(
            (budgets.server.used(), budgets.lasting.used(), budgets.prepaid.used()),
            (prepaid, prepaid, prepaid)
        );
        drop(next);
    }

    #[test]
    fn what_waits_for_a_client_counts_when_its_user_comes_back() {
        let budgets = Budgets::new(Capacity::of(1_024, 384 << 20));
        let all = |user: &Arc<UserBudgets>| std::iter::from_fn(|| user.open(Opened::Whole).ok()).collect::<Vec<_>>();
        let user = budgets.of_user(&Sid::SYSTEM);
        let (opens, locks) = (all(&user), user.lasting.charge(20 << 20).unwrap());
        let (descriptors, bytes) = (user.opens.used(), user.lasting.used());
        drop(user);
        drop(budgets.of_user(&Sid::EVERYONE));
        let back = budgets.of_user(&Sid::SYSTEM);
        assert_eq!((back.opens.used(), back.lasting.used()), (descriptors, bytes));
        assert!(back.open(Opened::Whole).is_err());
        drop((back, opens, locks));
        drop(budgets.of_user(&Sid::NETWORK));
        assert_eq!(budgets.users.lock().len(), 1);
    }

    #[test]
    fn who_has_many_connections_leaves_as_many_to_others() {
        let budgets = Budgets::new(Capacity::of(1_024, u64::MAX));
        let [greedy, second, modest] = [&Sid::SYSTEM, &Sid::EVERYONE, &Sid::NETWORK].map(|user| budgets.of_user(user));
        let all = |user: &Arc<UserBudgets>| std::iter::from_fn(|| user.connection()).collect::<Vec<_>>();
        assert_eq!([all(&greedy), all(&second), all(&modest)].each_ref().map(Vec::len), [160, 80, 40]);
    }

    #[test]
    fn where_memory_lacks_to_all_those_have_to_move_it_who_hold_most() {
        let budgets = Budgets::new(Capacity::of(1_024, 512 << 20));
        let [much, little] = [&Sid::SYSTEM, &Sid::EVERYONE].map(|user| budgets.of_user(user));
        let _held = [much.bytes.charge(90 << 20).unwrap(), little.bytes.charge(8 << 20).unwrap()];
        little.note_hunger(true);
        assert!(much.is_hungry() && !little.is_hungry());
    }

    #[test]
    fn sessions_of_a_user_share_what_it_may_hold() {
        let budgets = Budgets::new(Capacity::default());
        let (first, second) = (budgets.of_user(&Sid::SYSTEM), budgets.of_user(&Sid::SYSTEM));
        let held = first.bytes.charge(USER_BYTES).unwrap();
        assert!(second.bytes.charge(1).is_none());
        assert!(budgets.of_user(&Sid::EVERYONE).bytes.charge(USER_BYTES).is_some());
        assert!(budgets.strangers().charge(STRANGERS_BYTES).is_some());
        drop(held);
        drop((first, second));
        budgets.of_user(&Sid::NETWORK);
        assert_eq!(budgets.users.lock().len(), 1, "who holds nothing is forgotten");
    }
}
