//! Who asks for a file that is sent in a turn.

use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::time::timeout;

use super::places::{Places, TURN_WITHIN};
use super::stays::{Stay, Turn};
use crate::turns::Taker;

/// How long somebody whose turn has come may take to have something to send.
const READY_WITHIN: Duration = Duration::from_secs(1);

/// One request in the line of those who are sent files. It has its turn when there is something to send: whatever has to be opened first, and waits for others
/// then, keeps nobody else waiting.
pub(crate) struct InLine {
    places: Places,
    taker: Taker,
    /// Gone where nobody waits for the answer.
    stay: Weak<Stay>,
    until: Instant,
    /// Its turn, which has come.
    come: Mutex<Option<Turn>>,
}

impl InLine {
    pub(super) fn of(places: &Places, taker: Taker, stay: &Arc<Stay>) -> Self {
        let (places, stay, until) = (places.clone(), Arc::downgrade(stay), Instant::now() + TURN_WITHIN);
        InLine { places, taker, stay, until, come: Mutex::default() }
    }

    /// Who asks.
    pub(super) fn taker(&self) -> &Taker {
        &self.taker
    }

    /// Its turn, where that has come, or comes at once.
    pub(crate) fn turn(&self) -> Option<Turn> {
        let come = self.come.lock().take();
        come.or_else(|| self.places.turn_now(&self.taker, &self.stay.upgrade()?))
    }

    /// Waits for its turn. False where that does not come.
    pub(super) async fn wait(&self) -> bool {
        let Some(stay) = self.stay.upgrade() else { return false };
        let turn = self.places.turn(&self.taker, &stay, self.until).await;
        let has_come = turn.is_some();
        *self.come.lock() = turn;
        has_come
    }

    /// Others have its turn: it has nothing to send yet.
    fn pass(&self) {
        drop(self.come.lock().take());
    }

    /// Does what its turn has come for, and keeps that for as long as nobody minds.
    pub(super) async fn with_turn<T>(&self, what: impl Future<Output = T>) -> T {
        let mut what = pin!(what);
        match timeout(READY_WITHIN, what.as_mut()).await {
            Ok(done) => done,
            Err(_) => {
                self.pass();
                what.await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_turn_is_anothers_where_there_is_nothing_to_send_yet() {
        let (places, late) = Places::with_one(16).await;
        let first = Taker::of("first", [192, 0, 2, 1].into());
        let mut held = places.turns_of(&first);
        let other = places.visitor().await;
        let [line, next] = [&late, &other].map(|stay| InLine::of(&places, first.clone(), stay));
        assert!(line.turn().is_none());
        held.pop();
        assert!(line.wait().await && next.turn().is_none());
        // It opens something that an SMB client has cached.
        let (tell, told) = tokio::sync::oneshot::channel();
        let opens = line.with_turn(async { told.await.unwrap() });
        let sends = async {
            assert!(next.wait().await);
            let turn = next.turn();
            tell.send(turn.is_some()).unwrap();
            turn
        };
        let (opened, turn) = tokio::join!(opens, sends);
        assert!(opened && turn.is_some() && line.turn().is_none());
        drop(turn);
        assert!(line.turn().is_some());
    }
}
