//! What the head of a request says, and what of it the answer takes.

use hyper::header::{HeaderMap, HeaderName, HeaderValue, ORIGIN};

/// What an answer takes from its request's head, besides what makes it.
const ANSWERED: [HeaderName; 3] =
    [ORIGIN, HeaderName::from_static("x-ms-client-request-id"), HeaderName::from_static("x-ms-version")];
/// Bytes of one of these: a client's own id for a request has 1 KiB at most with the service.
const ANSWERED_BYTES_MAX: usize = 1 << 10;

/// Whether what is asked of a directory is asked of all below it. Rights are looked at by it, and what is done.
pub(crate) const RECURSIVE: &str = "x-ms-recursive";

/// Whether a header says `true`.
pub(crate) fn is_true(headers: &HeaderMap, name: &str) -> bool {
    headers.get(name).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true"))
}

/// The headers that an answer takes from its request's, as copies: what the head was read into goes when the request is done. Long ones are left out.
pub(crate) fn answered(headers: &HeaderMap) -> HeaderMap {
    let value = |name: &HeaderName| headers.get(name).filter(|value| value.len() <= ANSWERED_BYTES_MAX);
    let copied = |name: HeaderName| Some((HeaderValue::from_bytes(value(&name)?.as_bytes()).ok()?, name));
    ANSWERED.into_iter().filter_map(copied).map(|(value, name)| (name, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        given.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn what_is_no_true_is_not_true() {
        for (text, is_it) in [("true", true), ("TRUE", true), ("1", false), ("true ", false), ("", false)] {
            let given = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_bytes(text.as_bytes()).unwrap())]);
            assert_eq!(is_true(&given, "origin"), is_it, "{text:?}");
        }
        assert!(!is_true(&HeaderMap::new(), "origin"));
    }

    #[test]
    fn an_answer_keeps_nothing_of_what_the_head_was_read_into() {
        let long = "x".repeat(ANSWERED_BYTES_MAX + 1);
        let given = headers(&[("origin", "http://a"), ("x-ms-client-request-id", "1"), ("authorization", "secret")]);
        let kept = answered(&given);
        assert_eq!(
            (kept.len(), &kept["origin"], &kept["x-ms-client-request-id"]),
            (2, &given["origin"], &given["x-ms-client-request-id"])
        );
        assert!(kept.iter().all(|(name, value)| value.as_bytes().as_ptr() != given[name].as_bytes().as_ptr()));
        assert!(answered(&headers(&[("x-ms-client-request-id", &long)])).is_empty());
    }
}
