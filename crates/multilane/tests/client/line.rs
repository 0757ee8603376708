//! One link of the simulated network, and how it carries a connection: in segments cut anywhere, each a little late, none at all while the
//! link is down.

use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, split};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::chance::Chance;
use crate::witness::{Tap, Way};

/// What a segment carries at most.
const SEGMENT_BYTES: usize = 64 << 10;
/// After so long the server's TCP finds that a client is no longer there.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(20);

/// What a link does with what is sent over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// It arrives, as the weather is.
    Up(Weather),
    /// It arrives, so many bytes a second and connection.
    Slow { bytes_per_second: u64 },
    /// It arrives, so many bytes a second; what the client sends over all links in that state, together. Each change from one link to
    /// another takes time, as a processor's does that has several to serve.
    Shared { bytes_per_second: u64 },
    /// It is held back until the link is up again.
    Held,
    /// Connections break.
    Broken,
}

/// How late segments are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weather {
    /// Milliseconds that a segment takes at most.
    pub(crate) delay_max: u64,
    /// How many of a hundred segments stand still for up to `stall_max` milliseconds.
    pub(crate) stall_percent: u64,
    pub(crate) stall_max: u64,
}

impl Weather {
    pub(crate) const FAIR: Weather = Weather { delay_max: 1, stall_percent: 0, stall_max: 0 };

    fn delay(self, chance: &Chance) -> Duration {
        let stall = if chance.percent(self.stall_percent) { chance.below(self.stall_max) } else { 0 };
        Duration::from_millis(chance.below(self.delay_max + 1) + stall)
    }
}

/// A link.
pub(crate) struct Line {
    state: Mutex<State>,
    changed: Notify,
    number: usize,
    turn: Arc<Turn>,
}

/// Shared links have one, which lets one segment pass at a time; it knows the number of the link that had the last.
pub(crate) type Turn = tokio::sync::Mutex<usize>;

/// What a change from one shared link to another takes.
const CHANGE: Duration = Duration::from_millis(1);

#[derive(Clone, Copy)]
struct State {
    link: Link,
    /// Counts what has happened to the link; a connection knows the count that it was born with.
    disturbances: u64,
    /// Connections born before this carry nothing any more, and nobody is told.
    forgotten: u64,
}

impl Line {
    pub(crate) fn new(number: usize, turn: &Arc<Turn>) -> Self {
        let state = State { link: Link::Up(Weather::FAIR), disturbances: 0, forgotten: 0 };
        Line { state: Mutex::new(state), changed: Notify::new(), number, turn: Arc::clone(turn) }
    }

    pub(crate) fn set(&self, link: Link) {
        let mut state = self.state.lock().unwrap();
        state.disturbances += u64::from(matches!(link, Link::Held | Link::Broken));
        state.link = link;
        drop(state);
        self.changed.notify_waiters();
    }

    /// The connections over the link go dead without a word; new ones work.
    pub(crate) fn forget(&self) {
        let mut state = self.state.lock().unwrap();
        state.disturbances += 1;
        state.forgotten = state.disturbances;
        drop(state);
        self.changed.notify_waiters();
    }

    fn state(&self) -> State {
        *self.state.lock().unwrap()
    }

    /// Ends with the link's state once `is_it` is true of it.
    pub(crate) async fn wait<T>(&self, is_it: impl Fn(Link) -> Option<T>) -> T {
        self.until(|state| is_it(state.link)).await
    }

    async fn until<T>(&self, is_it: impl Fn(State) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            if let Some(found) = is_it(self.state()) {
                return found;
            }
            changed.await;
        }
    }

    /// Ends when a segment of a connection that was born then may go.
    async fn may_go(&self, born: u64) -> Link {
        let is_free = |state: State| match state.link {
            Link::Held | Link::Broken => None,
            link @ (Link::Up(_) | Link::Slow { .. } | Link::Shared { .. }) => (born >= state.forgotten).then_some(link),
        };
        self.until(is_free).await
    }
}

/// How long the server lets what it sends stay undelivered.
type Patience = watch::Receiver<Option<Duration>>;

/// Why a direction carries nothing more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// An end was closed.
    Closed,
    /// The server has waited long enough.
    OutOfPatience,
}

/// One direction of a connection.
struct Lane {
    line: Arc<Line>,
    born: u64,
    chance: Chance,
    tap: Tap,
    way: Way,
}

impl Lane {
    /// Moves bytes until an end closes, or the sender has no more patience; what is on its way stands in `under_way`.
    async fn carry(
        &self,
        from: &mut ReadHalf<DuplexStream>,
        to: &mut WriteHalf<DuplexStream>,
        under_way: &Mutex<Vec<u8>>,
        mut patience: Option<&mut Patience>,
    ) -> Stop {
        let mut segment = vec![0; SEGMENT_BYTES];
        loop {
            let most = if self.chance.percent(20) { 1 + self.chance.below(2000) as usize } else { SEGMENT_BYTES };
            let Ok(count @ 1..) = from.read(&mut segment[..most]).await else { return Stop::Closed };
            self.tap.sent(self.way, &segment[..count]);
            *under_way.lock().unwrap() = segment[..count].to_vec();
            let link = match &mut patience {
                None => self.line.may_go(self.born).await,
                Some(patience) => tokio::select! {
                    biased;
                    link = self.line.may_go(self.born) => link,
                    () = is_over(patience) => return Stop::OutOfPatience,
                },
            };
            self.pass(link, count).await;
            if self.deliver(&segment[..count], to).await.is_err() {
                return Stop::Closed;
            }
            under_way.lock().unwrap().clear();
        }
    }

    /// Waits as long as so many bytes take.
    async fn pass(&self, link: Link, count: usize) {
        let delay = delay(link, count, &self.chance);
        if !matches!(link, Link::Shared { .. }) || self.way == Way::ToClient {
            return sleep(delay).await;
        }
        let mut last = self.line.turn.lock().await;
        let change = if *last == self.line.number { Duration::ZERO } else { CHANGE };
        *last = self.line.number;
        sleep(change + delay).await;
    }

    async fn deliver(&self, bytes: &[u8], to: &mut WriteHalf<DuplexStream>) -> io::Result<()> {
        self.tap.arrived(self.way, bytes);
        to.write_all(bytes).await
    }
}

fn delay(link: Link, count: usize, chance: &Chance) -> Duration {
    match link {
        Link::Up(weather) => weather.delay(chance),
        Link::Slow { bytes_per_second } | Link::Shared { bytes_per_second } => {
            Duration::from_micros(count as u64 * 1_000_000 / bytes_per_second)
        }
        Link::Held | Link::Broken => Duration::ZERO,
    }
}

/// Ends when the server has had enough of waiting for what it sent to be taken.
async fn is_over(patience: &mut Patience) {
    let began = Instant::now();
    loop {
        let until = patience.borrow_and_update().map(|patience| began + patience);
        let over = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = over => return,
            changed = patience.changed() => if changed.is_err() { return },
        }
    }
}

/// Ends when the server has had enough of waiting for an answer to what it sends to nobody.
async fn goes_unheard(from: &mut ReadHalf<DuplexStream>, has_sent: bool, patience: &mut Patience) {
    if has_sent || from.read(&mut [0; 1]).await.is_ok() {
        is_over(patience).await;
    }
}

/// A connection over a link: both directions, until one end closes, the link breaks, or the server is tired of waiting.
pub(crate) struct Relay {
    pub(crate) line: Arc<Line>,
    pub(crate) chance: Chance,
    pub(crate) tap: Tap,
    /// Ends when the client has given the connection up.
    pub(crate) given_up: oneshot::Receiver<()>,
    /// The server's.
    pub(crate) patience: Patience,
}

impl Relay {
    pub(crate) async fn run(mut self, near: DuplexStream, far: DuplexStream) {
        let born = self.line.state().disturbances;
        let (mut near_reader, mut near_writer) = split(near);
        let (mut far_reader, mut far_writer) = split(far);
        let lane =
            |way| Lane { line: Arc::clone(&self.line), born, chance: self.chance.branch(), tap: self.tap.clone(), way };
        let (there, back) = (lane(Way::ToServer), lane(Way::ToClient));
        let (under_way, returning) = (Mutex::default(), Mutex::default());
        let (mut is_broken, mut is_over) = (false, false);
        {
            let mut going = pin!(there.carry(&mut near_reader, &mut far_writer, &under_way, None));
            let mut coming = pin!(back.carry(&mut far_reader, &mut near_writer, &returning, Some(&mut self.patience)));
            tokio::select! {
                biased;
                () = self.line.wait(|link| (link == Link::Broken).then_some(())) => is_broken = true,
                _ = self.given_up => {}
                _ = &mut going => {}
                stop = &mut coming => {
                    is_over = stop == Stop::OutOfPatience;
                    if self.line.state().disturbances == born {
                        self.tap.hung_up();
                    }
                }
            }
        }
        self.tap.ended();
        if is_broken {
            return;
        }
        if is_over {
            // The server knows at once.
            drop((far_reader, far_writer));
            let _ = timeout(KEEPALIVE, self.line.may_go(born)).await;
            return;
        }
        // The other end learns of it over the same link, or from its own TCP.
        tokio::select! {
            biased;
            _ = self.line.may_go(born) => {}
            () = sleep(KEEPALIVE) => return,
            () = goes_unheard(&mut far_reader, !returning.into_inner().unwrap().is_empty(), &mut self.patience) => return,
        }
        let under_way = under_way.into_inner().unwrap();
        let late = self.tap.may_come_late(&under_way);
        if late > 0 {
            sleep(Duration::from_millis(self.chance.below(400))).await;
            let _ = there.deliver(&under_way[..late], &mut far_writer).await;
        }
    }
}
