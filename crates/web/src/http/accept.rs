//! Taking connections, each within the bounds.

use std::future::poll_fn;
use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use hyper::Request;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::http::Pages;
use crate::http::limits::Limits;
use crate::http::visitors::{Visit, Visitors};

/// The pause after an accept that failed, so that a full table of descriptors does not spin the thread.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers who connects to one of these, for ever.
pub(super) async fn serve(sockets: Vec<TcpListener>, pages: Pages, limits: Limits, not_accepted: fn(&io::Error)) {
    let Pages { pages, come_again } = pages;
    let listeners = sockets.into_iter().map(tokio::net::TcpListener::from_std).collect::<io::Result<Vec<_>>>();
    let mut listeners = match listeners {
        Ok(listeners) => listeners,
        Err(cause) => return not_accepted(&cause),
    };
    let [served, refused] = [limits.served, limits.refused].map(|count| Arc::new(Semaphore::new(count)));
    let visitors = Arc::<Visitors>::default();
    loop {
        let stream = match accept(&mut listeners).await {
            Ok(stream) => stream,
            Err(cause) => {
                not_accepted(&cause);
                sleep(PAUSE).await;
                continue;
            }
        };
        if let Some(place) = place(&served, &visitors, limits).await {
            let (pages, visitors) = (pages.clone(), Arc::clone(&visitors));
            visitors
                .enter(|visit| tokio::spawn(attend(stream, pages, limits, limits.done_within, (place, Some(visit)))));
        } else if let Ok(place) = Arc::clone(&refused).acquire_owned().await {
            tokio::spawn(attend(stream, come_again.clone(), limits, limits.refused_within, (place, None)));
        }
    }
}

/// The next who connects. They take turns, so that many at one keep nobody from the other.
async fn accept(listeners: &mut [tokio::net::TcpListener]) -> io::Result<TcpStream> {
    listeners.rotate_left(1);
    poll_fn(|context| {
        let mut polls = listeners.iter().map(|listener| listener.poll_accept(context));
        polls.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
    .map(|(stream, _)| stream)
}

/// A place to be served at: where there is none free, that of who keeps others from it.
async fn place(served: &Arc<Semaphore>, visitors: &Visitors, limits: Limits) -> Option<OwnedSemaphorePermit> {
    if let Ok(place) = Arc::clone(served).try_acquire_owned() {
        return Some(place);
    }
    if !visitors.send_one_away(limits) {
        return None;
    }
    Arc::clone(served).acquire_owned().await.ok()
}

/// Answers one request. Whoever takes longer over it is disconnected.
async fn attend(
    stream: TcpStream,
    pages: Router,
    limits: Limits,
    within: Duration,
    (_place, visit): (OwnedSemaphorePermit, Option<Visit>),
) {
    let visit = visit.map(Arc::new);
    let pages = service_fn(move |request: Request<Incoming>| {
        let request = request.map(|body| Asked::of(body, visit.clone()));
        TowerToHyperService::new(pages.clone()).call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_within)
        .max_buf_size(limits.head_bytes)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), pages);
    // What went wrong is the other side's to know: it has an answer, or has gone.
    let _ = timeout(within, connection).await;
}

/// What a request brings; all of it belongs to asking.
struct Asked {
    body: Incoming,
    visit: Option<Arc<Visit>>,
}

impl Asked {
    fn of(body: Incoming, visit: Option<Arc<Visit>>) -> Self {
        let asked = Asked { body, visit };
        asked.look();
        asked
    }

    /// Whether that is all.
    fn look(&self) {
        if let Some(visit) = self.visit.as_ref().filter(|_| self.body.is_end_stream()) {
            visit.has_asked();
        }
    }
}

impl Body for Asked {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.look();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream as StdStream};
    use std::thread;
    use std::time::Instant;

    use axum::routing::get;

    use super::*;

    /// Longer than anything takes that a test waits for.
    const AN_AGE: Duration = Duration::from_secs(60);
    const ASKS: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

    /// A server with one place and one more to be refused at, whose answer is longer than what sockets hold.
    fn serving(limits: Limits) -> SocketAddr {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let address = socket.local_addr().unwrap();
        let long = async || vec![b'x'; 64 << 20];
        let pages = Pages::of(Router::new().route("/", get(long).post(async |_: Bytes| "done")));
        let limits = Limits { served: 1, refused: 1, ..limits };
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(serve(vec![socket], pages, limits, |_| ()));
        });
        address
    }

    fn limits() -> Limits {
        Limits {
            served: 1,
            refused: 1,
            head_within: AN_AGE,
            done_within: AN_AGE,
            refused_within: AN_AGE,
            silent_at_least: AN_AGE,
            taking_at_least: AN_AGE,
            head_bytes: 16 << 10,
        }
    }

    fn connect(address: SocketAddr, says: &[u8]) -> StdStream {
        let mut stream = StdStream::connect(address).unwrap();
        stream.set_read_timeout(Some(AN_AGE)).unwrap();
        stream.write_all(says).unwrap();
        stream
    }

    fn status(mut stream: &StdStream) -> String {
        let mut line = [0; 12];
        stream.read_exact(&mut line).unwrap();
        String::from_utf8_lossy(&line[9..]).into_owned()
    }

    /// Asks until somebody else's place is free.
    fn is_served_in_the_end(address: SocketAddr) {
        let until = Instant::now() + AN_AGE;
        while status(&connect(address, ASKS)) != "200" {
            assert!(Instant::now() < until, "the place is not given back");
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn who_has_no_place_is_told_to_come_again() {
        let address = serving(limits());
        let first = connect(address, ASKS);
        assert_eq!(status(&first), "200");
        let mut told = String::new();
        connect(address, ASKS).read_to_string(&mut told).unwrap();
        assert!(told.starts_with("HTTP/1.1 503 ") && told.to_lowercase().contains("retry-after: 1"), "{told}");
        drop(first);
        is_served_in_the_end(address);
    }

    #[test]
    fn who_takes_no_answer_gives_its_place_back() {
        let address = serving(Limits { done_within: Duration::from_millis(200), ..limits() });
        let takes_nothing = connect(address, ASKS);
        is_served_in_the_end(address);
        drop(takes_nothing);
    }

    #[test]
    fn who_says_nothing_or_not_all_gives_its_place_back() {
        for says in [&b""[..], b"GET / HTTP/1.1\r\nHost: loc"] {
            let address = serving(Limits { head_within: Duration::from_millis(200), ..limits() });
            let silent = connect(address, says);
            is_served_in_the_end(address);
            drop(silent);
        }
    }

    /// A probe must get its answer, whoever holds the places.
    #[test]
    fn who_asks_has_the_place_of_who_says_nothing_or_takes_nothing() {
        for (says, limits) in [
            (&b"GET / HTTP/1.1\r\nHost: loc"[..], Limits { silent_at_least: Duration::ZERO, ..limits() }),
            (
                &b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"[..],
                Limits { silent_at_least: Duration::ZERO, ..limits() },
            ),
            (ASKS, Limits { taking_at_least: Duration::ZERO, ..limits() }),
        ] {
            let address = serving(limits);
            let first = connect(address, says);
            // Until it has the place, and has asked where it does.
            thread::sleep(Duration::from_millis(100));
            assert_eq!(status(&connect(address, ASKS)), "200");
            drop(first);
        }
    }

    #[test]
    fn who_asks_with_a_body_has_asked_when_it_is_there() {
        let address = serving(Limits { silent_at_least: Duration::ZERO, ..limits() });
        let whole = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(status(&connect(address, whole)), "200");
        is_served_in_the_end(address);
    }

    #[test]
    fn who_is_to_come_again_and_says_nothing_keeps_nobody_from_being_told() {
        let address = serving(Limits { refused_within: Duration::from_millis(200), ..limits() });
        let first = connect(address, ASKS);
        assert_eq!(status(&first), "200");
        let silent: Vec<_> = (0..3).map(|_| connect(address, b"")).collect();
        assert_eq!(status(&connect(address, ASKS)), "503");
        drop(silent);
    }
}
