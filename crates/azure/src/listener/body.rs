//! The body of a request: read for who may ask, bounded, and charged as it arrives.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::{Either, select};
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Body;
use hyper::header::{CONTENT_LENGTH, HeaderMap};
use tokio::time::{Instant, timeout, timeout_at};

use crate::failure::{Code, Failure};
use crate::operations::Running;
use crate::turns::{Taker, Turn, Turns};

/// Bodies that are held at a time, in bytes: as they arrive, and those whose rest has room that is kept for it. Where all have begun and none finds room to go
/// on, one after the other comes to its end by that.
const ARRIVING_BYTES: usize = 32 << 20;
const RESTS_BYTES: usize = 32 << 20;
/// How long a body may take, and a piece of it.
const WITHIN: Duration = Duration::from_secs(60);
const PIECE_WITHIN: Duration = Duration::from_secs(10);
/// How long all its pieces together may wait for room.
const ROOM_WITHIN: Duration = Duration::from_secs(10);

/// What all bodies may hold.
#[derive(Clone)]
pub(super) struct Bodies {
    pub(super) arriving: Turns,
    rests: Turns,
}

/// What a request holds, as long as somebody works with it.
#[derive(Default)]
pub(crate) struct Held {
    pub(super) head: Option<Turn>,
    pub(super) body: Room,
    pub(super) running: Option<Arc<Running>>,
}

impl Held {
    /// That it is worked for, once it is.
    pub(crate) fn running(&self) -> Option<Arc<Running>> {
        self.running.clone()
    }
}

/// Room for a body: for what has arrived, or from some piece on for all the rest.
#[derive(Default)]
pub(super) struct Room {
    arrived: Option<Turn>,
    rest: Option<Turn>,
}

impl Default for Bodies {
    fn default() -> Self {
        Bodies { arriving: Turns::new(ARRIVING_BYTES), rests: Turns::new(RESTS_BYTES) }
    }
}

impl Bodies {
    /// Reads a body of this taker's to its end; `gets_on` is called for each piece.
    pub(super) async fn read<B: Body<Data = Bytes> + Unpin>(
        &self,
        taker: &Taker,
        (method, headers, most): (&Method, &HeaderMap, u64),
        mut body: B,
        gets_on: impl Fn(),
    ) -> Result<(Bytes, Room), Failure> {
        let length = length_of(method, headers, most)?;
        if length == 0 {
            return Ok((Bytes::new(), Room::default()));
        }
        let late = || Failure::new(Code::OperationTimedOut, "The body took too long.");
        let wrong = || Failure::new(Code::InvalidHeaderValue, "The body is not as long as Content-Length says.");
        let (until, mut patience) = (Instant::now() + WITHIN, ROOM_WITHIN);
        // Memory that nothing was written to is none yet.
        let (mut read, mut room) = (BytesMut::with_capacity(length), Room::default());
        while let Some(piece) =
            timeout_at(until.min(Instant::now() + PIECE_WITHIN), body.frame()).await.map_err(|_| late())?
        {
            let Ok(piece) = piece.map_err(|_| wrong())?.into_data() else { continue };
            if read.len() + piece.len() > length {
                return Err(wrong());
            }
            let began = Instant::now();
            self.extend(&mut room, taker, (piece.len(), length - read.len()), patience).await?;
            patience = patience.saturating_sub(began.elapsed());
            read.extend_from_slice(&piece);
            gets_on();
        }
        if read.len() < length {
            return Err(wrong());
        }
        Ok((read.freeze(), room))
    }

    /// Room for a piece of this length, or for all that is left, within that time.
    async fn extend(
        &self,
        room: &mut Room,
        taker: &Taker,
        (piece, left): (usize, usize),
        within: Duration,
    ) -> Result<(), Failure> {
        if room.rest.is_some() || piece == 0 {
            return Ok(());
        }
        if let Some(more) = self.arriving.some_now(taker, piece) {
            room.add(more);
            return Ok(());
        }
        let found = select(self.arriving.some_soon(taker, piece), self.rests.some_soon(taker, left));
        match timeout(within, found).await {
            Ok(Either::Left((Ok(more), _))) => room.add(more),
            Ok(Either::Right((Ok(rest), _))) => room.rest = Some(rest),
            Ok(Either::Left((Err(_), _)) | Either::Right((Err(_), _))) | Err(_) => {
                let message = "The server holds as much for the share as it may; try again.";
                return Err(Failure::new(Code::ServerBusy, message));
            }
        }
        Ok(())
    }
}

impl Room {
    fn add(&mut self, more: Turn) {
        match &mut self.arrived {
            Some(arrived) => arrived.add(more),
            None => self.arrived = Some(more),
        }
    }
}

/// How long the body is, as its header says.
fn length_of(method: &Method, headers: &HeaderMap, most: u64) -> Result<usize, Failure> {
    let length = headers.get(CONTENT_LENGTH).map(|value| value.to_str().ok().and_then(|text| text.parse::<u64>().ok()));
    match length {
        Some(Some(length)) if length > most => {
            Err(Failure::new(Code::RequestBodyTooLarge, format!("The body may have {most} bytes at most.")))
        }
        Some(Some(length)) => Ok(length as usize),
        Some(None) => Err(Failure::header("Content-Length", "a number")),
        None if method == Method::PUT || method == Method::POST => {
            Err(Failure::new(Code::MissingContentLengthHeader, "The header Content-Length is missing."))
        }
        None => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::Full;
    use http_body_util::channel::Channel;

    use super::*;
    use crate::operations::PUT_MAX;

    fn announced(length: &str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_LENGTH, length.parse().unwrap())])
    }

    fn taker(account: &str) -> Taker {
        Taker::of_share(account, "docs")
    }

    fn bodies(arriving: usize, rests: usize) -> Bodies {
        Bodies { arriving: Turns::new(arriving), rests: Turns::new(rests) }
    }

    async fn read(bodies: &Bodies, length: &str, body: &'static [u8]) -> Result<Bytes, Code> {
        held(bodies, "work", (length, body)).await.map(|(bytes, _)| bytes)
    }

    async fn held(
        bodies: &Bodies,
        account: &str,
        (length, body): (&str, &'static [u8]),
    ) -> Result<(Bytes, Room), Code> {
        let (headers, body) = (announced(length), Full::new(Bytes::from_static(body)));
        let read = bodies.read(&taker(account), (&Method::PUT, &headers, PUT_MAX), body, || ()).await;
        read.map_err(|failure| failure.code)
    }

    #[tokio::test]
    async fn a_body_is_as_long_as_its_header_says() {
        let bodies = Bodies::default();
        assert_eq!(read(&bodies, "4", b"text").await, Ok(Bytes::from_static(b"text")));
        for (length, code) in [
            ("3", Code::InvalidHeaderValue),
            ("5", Code::InvalidHeaderValue),
            ("-1", Code::InvalidHeaderValue),
            ("4194305", Code::RequestBodyTooLarge),
        ] {
            assert_eq!(read(&bodies, length, b"text").await, Err(code), "{length}");
        }
        let (headers, body) = (HeaderMap::new(), Full::new(Bytes::new()));
        let none = bodies.read(&taker("work"), (&Method::PUT, &headers, PUT_MAX), body, || ()).await;
        assert_eq!(none.map(drop).unwrap_err().code, Code::MissingContentLengthHeader);
    }

    #[tokio::test(start_paused = true)]
    async fn who_announces_much_and_sends_little_holds_little() {
        let bodies = bodies(24, 0);
        let headers = announced("4194304");
        let (mut sender, slow) = Channel::<Bytes, Infallible>::new(1);
        let reading = {
            let bodies = bodies.clone();
            tokio::spawn(async move {
                bodies.read(&taker("work"), (&Method::PUT, &headers, PUT_MAX), slow, || ()).await.map(|_| ())
            })
        };
        sender.send_data(Bytes::from_static(b"abc")).await.unwrap();
        while bodies.arriving.free() == 24 {
            tokio::task::yield_now().await;
        }
        assert_eq!(bodies.arriving.free(), 21);
        assert!(read(&bodies, "6", b"whole.").await.is_ok());
        assert_eq!(read(&bodies, "7", b"too big").await, Err(Code::ServerBusy));
        assert_eq!(reading.await.unwrap().unwrap_err().code, Code::OperationTimedOut);
        assert_eq!(bodies.arriving.free(), 24);
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_wait_for_their_share_leave_room_for_those_of_other_accounts() {
        let bodies = Bodies::default();
        let body: &'static [u8] = vec![0; 4 << 20].leak();
        let of = async |account: &str| held(&bodies, account, ("4194304", body)).await.map(|(_, room)| room);
        let mut slow = Vec::new();
        while let Ok(room) = of("slow").await {
            slow.push(room);
        }
        assert_eq!(slow.len(), 4, "a quarter of all");
        let began = Instant::now();
        let quick = (of("quick").await, of("quick").await);
        assert!(quick.0.is_ok() && quick.1.is_ok() && began.elapsed() == Duration::ZERO, "nobody waits");
    }

    #[tokio::test(start_paused = true)]
    async fn of_bodies_that_all_have_begun_one_comes_to_its_end_after_the_other() {
        let bodies = bodies(64, 64);
        let mut reading = Vec::new();
        let mut senders = Vec::new();
        for _ in 0..8 {
            let (bodies, (sender, body)) = (bodies.clone(), Channel::<Bytes, Infallible>::new(1));
            senders.push(sender);
            reading.push(tokio::spawn(async move {
                let headers = announced("10");
                bodies.read(&taker("work"), (&Method::PUT, &headers, PUT_MAX), body, || ()).await.map(|_| ())
            }));
        }
        for sender in &mut senders {
            sender.send_data(Bytes::from_static(b"ab")).await.unwrap();
        }
        while bodies.arriving.free() > 48 {
            tokio::task::yield_now().await;
        }
        for sender in &mut senders {
            sender.send_data(Bytes::from_static(b"cdefghij")).await.unwrap();
        }
        drop(senders);
        for one in reading {
            assert!(one.await.unwrap().is_ok());
        }
        assert_eq!((bodies.arriving.free(), bodies.rests.free()), (64, 64));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_waits_for_room_no_longer_for_all_its_pieces_than_for_one() {
        let bodies = bodies(64, 0);
        let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
        let mut held = Vec::new();
        while let Some(turn) = bodies.arriving.some_now(&taker("work"), 1) {
            held.push(turn);
        }
        let began = Instant::now();
        let reading = {
            let bodies = bodies.clone();
            tokio::spawn(async move {
                let read = bodies.read(&taker("work"), (&Method::PUT, &announced("8"), PUT_MAX), body, || ()).await;
                read.map(drop).map_err(|failure| failure.code)
            })
        };
        for _ in 0..8 {
            // Its other end has gone once it is answered.
            let _ = sender.send_data(Bytes::from_static(b"x")).await;
            tokio::time::sleep(ROOM_WITHIN / 2 + Duration::from_secs(1)).await;
            held.pop();
        }
        assert_eq!(reading.await.unwrap(), Err(Code::ServerBusy));
        assert!(began.elapsed() < 8 * ROOM_WITHIN);
        assert_eq!(bodies.arriving.free(), 64 - held.len());
    }
}
