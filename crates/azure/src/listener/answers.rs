//! Room for long answers, held for who takes them. Who has more of it than who waits, and takes nothing, gives it to that one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use super::stays::{Stay, Staying, Stays, meanwhile};
use crate::turns::{Taker, Turn, Turns};

/// Bytes of answers that are held at a time. Short ones are paid for by the place.
const ANSWERS_BYTES: usize = 32 << 20;
/// Bytes of a short one.
const SHORT_BYTES: usize = 16 << 10;
/// What one takes at most: as much as one address of an account may have, so that any answer has room by and by.
const ANSWER_BYTES_MAX: usize = ANSWERS_BYTES / 4;
/// How long an answer waits for room, and how many do at a time.
const ROOM_WITHIN: Duration = Duration::from_secs(20);
const WAITING_MAX: usize = 16;

/// All the room.
#[derive(Clone)]
pub(super) struct Answers {
    room: Turns,
    waiting: Turns,
}

impl Default for Answers {
    fn default() -> Self {
        Answers { room: Turns::new(ANSWERS_BYTES), waiting: Turns::new(WAITING_MAX) }
    }
}

impl Answers {
    /// Has an answer hold what it takes, until that is sent. `None` where there is no room: it is held by nobody then.
    pub(super) async fn charge(
        &self,
        body: Bytes,
        taker: &Taker,
        (stay, stays): (&Arc<Stay>, &Stays),
    ) -> Option<Bytes> {
        if body.len() <= SHORT_BYTES {
            return Some(body);
        }
        let room = self.room(body.len(), taker, stays).await?;
        stay.holds(Some(taker));
        Some(Bytes::from_owner(Charged { body, stay: Arc::clone(stay), _room: room }))
    }

    async fn room(&self, length: usize, taker: &Taker, stays: &Stays) -> Option<Turn> {
        let count = length.min(ANSWER_BYTES_MAX);
        if let Some(room) = self.room.some_now(taker, count) {
            return Some(room);
        }
        // Who waits holds its answer, and has not paid for it.
        let _waits = self.waiting.now(taker)?;
        let look = || {
            let held = self.room.held();
            let yields = |one: &Staying| one.holds.as_ref().is_some_and(|has| held.yields(&has.taker, taker));
            stays.send_one_away(yields, Staying::late_since);
        };
        timeout(ROOM_WITHIN, meanwhile(self.room.some_soon(taker, count), look)).await.ok()?.ok()
    }
}

/// An answer with the room that it takes, which others have once it is sent.
struct Charged {
    body: Bytes,
    stay: Arc<Stay>,
    _room: Turn,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Drop for Charged {
    fn drop(&mut self) {
        self.stay.holds(None);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::super::places::Places;
    use super::super::stays::Doing;
    use super::*;

    fn taker(account: &str, last: u8) -> Taker {
        Taker::of(account, [192, 0, 2, last].into())
    }

    /// Somebody who has asked for a long answer, and has it by now, or not.
    async fn enter_for_answer(places: &Places, taker: Taker, length: usize) -> bool {
        let (place, asks) = (places.take().await.unwrap(), places.clone());
        let (told, tells) = tokio::sync::oneshot::channel();
        places.enter(place, |stay| {
            tokio::spawn(async move {
                stay.proves();
                stay.does(Doing::Waiting);
                let answer = asks.charge(Bytes::from(vec![0; length]), &taker, &stay).await;
                // What is handed over whole is taken, as far as its connection knows.
                stay.does(Doing::Silent);
                let _ = told.send(answer.is_some());
                pending::<()>().await;
                drop(answer);
            })
        });
        tells.await.unwrap()
    }

    #[tokio::test]
    async fn who_takes_no_answer_gives_its_room_to_who_comes_and_keeps_no_other_account_or_address_waiting() {
        let places = Places::new(16);
        let silent = places.take().await.unwrap();
        places.enter(silent, |stay| {
            tokio::spawn(async move {
                let _stay = stay;
                pending::<()>().await;
            })
        });
        for _ in 0..4 {
            assert!(enter_for_answer(&places, taker("first", 1), ANSWER_BYTES_MAX / 4).await);
        }
        let room = |taker: &Taker| places.answers.room.some_now(taker, ANSWER_BYTES_MAX / 4);
        assert!(room(&taker("first", 1)).is_none());
        assert!(room(&taker("first", 2)).is_some() && room(&taker("second", 1)).is_some());
        assert!(enter_for_answer(&places, taker("first", 1), SHORT_BYTES).await, "a short one needs no room");
        assert!(enter_for_answer(&places, taker("first", 1), SHORT_BYTES + 1).await);
        assert_eq!(places.those().len(), 6, "one of those who take none has gone, and nobody else");
    }

    #[tokio::test]
    async fn few_answers_wait_for_room() {
        let places = Places::new(16);
        let (first, second) = (taker("first", 1), taker("second", 1));
        let room = places.answers.room.some_now(&first, ANSWER_BYTES_MAX).unwrap();
        let waits: Vec<_> = std::iter::from_fn(|| places.answers.waiting.now(&first)).collect();
        assert_eq!(waits.len(), WAITING_MAX / 4);
        assert!(!enter_for_answer(&places, first.clone(), ANSWER_BYTES_MAX).await, "it is not waited for");
        assert!(enter_for_answer(&places, second, SHORT_BYTES + 1).await);
        drop((waits, room));
        assert!(enter_for_answer(&places, first, 2 * ANSWERS_BYTES).await, "one that is longer than all room");
    }

    #[tokio::test]
    async fn an_answer_has_its_room_until_it_is_sent() {
        let places = Places::new(16);
        let stay = places.visitor().await;
        let answer = places.charge(Bytes::from(vec![7; 1 << 20]), &taker("first", 1), &stay).await.unwrap();
        assert_eq!((answer.len(), places.answers.room.free()), (1 << 20, ANSWERS_BYTES - (1 << 20)));
        let rest = answer.slice(5..);
        drop(answer);
        assert_eq!(places.answers.room.free(), ANSWERS_BYTES - (1 << 20));
        drop(rest);
        assert!(places.answers.room.is_free());
    }
}
