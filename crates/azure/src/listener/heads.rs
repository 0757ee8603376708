//! The heads of requests, which are kept until a request is done: who it is has to be proved again when its turn has come. A short one is paid for by the
//! place that its connection has, and of room for long ones an account, and an address that asks for it, have a part.

use hyper::Uri;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use crate::failure::{Code, Failure};
use crate::turns::{Taker, Turn, Turns};

/// Bytes of long heads that are held at a time.
const HEADS_BYTES: usize = 16 << 20;
/// Bytes of a short one.
const SHORT_BYTES: usize = 8 << 10;
/// Bytes that a header takes besides its name and its value.
const HEADER_BYTES: usize = 128;
/// How often the URL is held: as it came, as what it names, and as its parameters.
const URL_COPIES: usize = 3;

/// The room for long heads.
pub(super) struct Heads(Turns);

impl Default for Heads {
    fn default() -> Self {
        Heads(Turns::new(HEADS_BYTES))
    }
}

impl Heads {
    /// Room for a head of this taker's, where it is a long one. Nobody waits for that: until then the head is held, and not paid for.
    pub(super) fn hold(&self, taker: &Taker, url: &Uri, headers: &HeaderMap) -> Result<Option<Turn>, Failure> {
        let bytes = bytes_of(url, headers);
        if bytes <= SHORT_BYTES {
            return Ok(None);
        }
        let busy = "The server holds as many requests with so many headers as it may for who asks; try again.";
        self.0.some_now(taker, bytes).map(Some).ok_or_else(|| Failure::new(Code::ServerBusy, busy))
    }
}

fn bytes_of(url: &Uri, headers: &HeaderMap) -> usize {
    let url = url.path_and_query().map_or(0, |url| url.as_str().len());
    let header = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + HEADER_BYTES;
    url * URL_COPIES + headers.iter().map(header).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn hold(heads: &Heads, taker: &Taker, bytes: usize) -> Result<Option<Turn>, Failure> {
        let head = Request::get("/").header("x-ms-meta-a", "a".repeat(bytes)).body(()).unwrap();
        heads.hold(taker, head.uri(), head.headers())
    }

    #[test]
    fn who_sends_long_heads_leaves_room_for_those_of_others() {
        let heads = Heads::default();
        let [first, same, other] =
            [("one", 1), ("one", 2), ("two", 1)].map(|(account, host)| Taker::of(account, [192, 0, 2, host].into()));
        let long = 60 << 10;
        let held: Vec<_> = std::iter::from_fn(|| hold(&heads, &first, long).ok()).collect();
        assert!((50..100).contains(&held.len()) && held.iter().all(Option::is_some), "{}", held.len());
        assert_eq!(hold(&heads, &first, long).err().map(|failure| failure.code), Some(Code::ServerBusy));
        assert!(hold(&heads, &same, long).is_ok_and(|held| held.is_some()));
        assert!(hold(&heads, &other, long).is_ok_and(|held| held.is_some()));
        assert!(hold(&heads, &first, 4 << 10).is_ok_and(|held| held.is_none()), "a short one needs none");
        drop(held);
        assert!(hold(&heads, &first, long).is_ok());
    }

    #[test]
    fn many_small_headers_and_a_long_url_make_a_long_head() {
        let small = (0..60).fold(Request::get("/"), |request, at| request.header(format!("x-ms-meta-{at}"), "a"));
        let url = Request::get(format!("/?{}", "a".repeat(SHORT_BYTES / 2)));
        for request in [small, url] {
            let head = request.body(()).unwrap();
            assert!(bytes_of(head.uri(), head.headers()) > SHORT_BYTES);
        }
    }
}
