//! The body of a request: read for who may ask, bounded, and charged as it arrives.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Body;
use hyper::header::{CONTENT_LENGTH, HeaderMap};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use crate::failure::{Code, Failure};

/// Bodies that are held at a time, in bytes.
const BYTES_MAX: usize = 64 << 20;
/// How long a body may take, and a piece of it.
const WITHIN: Duration = Duration::from_secs(60);
const PIECE_WITHIN: Duration = Duration::from_secs(10);
/// How long a piece may wait for room.
const ROOM_WITHIN: Duration = Duration::from_secs(2);

/// What all bodies may hold.
#[derive(Clone)]
pub(super) struct Bodies(Arc<Semaphore>);

/// What one holds, as long as somebody works with it.
pub(crate) type Held = Option<OwnedSemaphorePermit>;

impl Default for Bodies {
    fn default() -> Self {
        Bodies(Arc::new(Semaphore::new(BYTES_MAX)))
    }
}

impl Bodies {
    /// Reads a body to its end; `gets_on` is called for each piece.
    pub(super) async fn read<B: Body<Data = Bytes> + Unpin>(
        &self,
        (method, headers, most): (&Method, &HeaderMap, u64),
        mut body: B,
        gets_on: impl Fn(),
    ) -> Result<(Bytes, Held), Failure> {
        let length = length_of(method, headers, most)?;
        if length == 0 {
            return Ok((Bytes::new(), None));
        }
        let late = || Failure::new(Code::OperationTimedOut, "The body took too long.");
        let wrong = || Failure::new(Code::InvalidHeaderValue, "The body is not as long as Content-Length says.");
        let until = Instant::now() + WITHIN;
        // Memory that nothing was written to is none yet.
        let (mut read, mut held): (_, Held) = (BytesMut::with_capacity(length), None);
        while let Some(piece) =
            timeout_at(until.min(Instant::now() + PIECE_WITHIN), body.frame()).await.map_err(|_| late())?
        {
            let Ok(piece) = piece.map_err(|_| wrong())?.into_data() else { continue };
            if read.len() + piece.len() > length {
                return Err(wrong());
            }
            let more = self.room_for(piece.len()).await?;
            match &mut held {
                Some(held) => held.merge(more),
                None => held = Some(more),
            }
            read.extend_from_slice(&piece);
            gets_on();
        }
        if read.len() < length {
            return Err(wrong());
        }
        Ok((read.freeze(), held))
    }

    async fn room_for(&self, length: usize) -> Result<OwnedSemaphorePermit, Failure> {
        let busy = || Failure::new(Code::ServerBusy, "The server holds as much as it may; try again.");
        let room = Arc::clone(&self.0).acquire_many_owned(length as u32);
        timeout(ROOM_WITHIN, room).await.ok().and_then(Result::ok).ok_or_else(busy)
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

    async fn read(bodies: &Bodies, length: &str, body: &'static [u8]) -> Result<Bytes, Code> {
        let read =
            bodies.read((&Method::PUT, &announced(length), PUT_MAX), Full::new(Bytes::from_static(body)), || ()).await;
        read.map(|(bytes, _)| bytes).map_err(|failure| failure.code)
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
        let none = bodies.read((&Method::PUT, &HeaderMap::new(), PUT_MAX), Full::new(Bytes::new()), || ()).await;
        assert_eq!(none.unwrap_err().code, Code::MissingContentLengthHeader);
    }

    #[tokio::test(start_paused = true)]
    async fn who_announces_much_and_sends_little_holds_little() {
        let bodies = Bodies(Arc::new(Semaphore::new(10)));
        let headers = announced("4194304");
        let (mut sender, slow) = Channel::<Bytes, Infallible>::new(1);
        let reading = {
            let bodies = bodies.clone();
            tokio::spawn(async move { bodies.read((&Method::PUT, &headers, PUT_MAX), slow, || ()).await.map(|_| ()) })
        };
        sender.send_data(Bytes::from_static(b"abc")).await.unwrap();
        while bodies.0.available_permits() == 10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(bodies.0.available_permits(), 7);
        assert!(read(&bodies, "7", b"whole..").await.is_ok());
        assert_eq!(read(&bodies, "8", b"too much").await, Err(Code::ServerBusy));
        assert_eq!(reading.await.unwrap().unwrap_err().code, Code::OperationTimedOut);
        assert_eq!(bodies.0.available_permits(), 10);
    }
}
