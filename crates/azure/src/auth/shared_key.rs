//! Shared Key: a request is signed with one of the account's keys ("Authorize with Shared Key", the scheme of 2009-09-19 and later).

use std::cmp::Ordering;

use control::Keys;
use hyper::header::{AUTHORIZATION, DATE};
use hyper::http::request::Parts;
use jiff::{SignedDuration, Timestamp};

use super::signed_with;
use crate::failure::Failure;
use crate::query::Query;

/// How far the clock of who asks may be from ours.
const SKEW_MAX: SignedDuration = SignedDuration::from_mins(15);
/// The headers that are signed by their values alone, in this order; the date is the next one.
const BEFORE_DATE: [&str; 5] =
    ["content-encoding", "content-language", "content-length", "content-md5", "content-type"];
/// Those behind it.
const AFTER_DATE: [&str; 5] = ["if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"];
const PREFIX: &str = "x-ms-";
/// The characters of names as the service sorts them, which has the order of a language and not of bytes; others, `-` among them, are passed over.
const SORTED: &[u8] = b"!#$%&*.^_`|~+0123456789abcdefghijklmnopqrstuvwxyz";
/// Where each byte stands among them, from 1 on.
const WEIGHTS: [u8; 256] = {
    let (mut weights, mut at) = ([0; 256], 0);
    while at < SORTED.len() {
        weights[SORTED[at] as usize] = at as u8 + 1;
        at += 1;
    }
    weights
};

/// Verifies that the request was signed with a key of `account`, and lately. Gives the key's name. `keys` are those of the account, if it exists.
pub(super) fn verify(
    parts: &Parts,
    query: &Query,
    account: &str,
    keys: Option<&Keys>,
    now: Timestamp,
) -> Result<&'static str, Failure> {
    let given = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.ok_or_else(|| Failure::unauthenticated("it has no Authorization header"))?;
    let (named, signature) = given
        .strip_prefix("SharedKey ")
        .and_then(|rest| rest.split_once(':'))
        .ok_or_else(|| Failure::unauthenticated("its Authorization header is not SharedKey ACCOUNT:SIGNATURE"))?;
    // What cannot be signed would count all the same.
    let is_signed = |name: &str| name.starts_with(PREFIX) || BEFORE_DATE.contains(&name) || AFTER_DATE.contains(&name);
    if parts.headers.iter().any(|(name, value)| is_signed(name.as_str()) && value.to_str().is_err()) {
        return Err(Failure::unauthenticated("a header that is signed has bytes that are no ASCII"));
    }
    let text = string_to_sign(parts, query, account);
    // An account that does not exist is told from a wrong key by nobody.
    let key = signed_with(keys.filter(|_| named == account), &text, signature)?;
    if !is_recent(parts, now) {
        return Err(Failure::unauthenticated("the date in x-ms-date, or Date, is missing or more than 15 minutes off"));
    }
    Ok(key)
}

/// What is signed.
fn string_to_sign(parts: &Parts, query: &Query, account: &str) -> String {
    let value = |name: &str| {
        let value = parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        // An empty body has no length here.
        if name == "content-length" && value == "0" { "" } else { value }
    };
    let mut text = parts.method.to_string();
    let mut line = |value: &str| {
        text.push('\n');
        text.push_str(value);
    };
    BEFORE_DATE.iter().for_each(|name| line(value(name)));
    line(if parts.headers.contains_key("x-ms-date") { "" } else { value("date") });
    AFTER_DATE.iter().for_each(|name| line(value(name)));
    let mut ours: Vec<(&str, &str)> = parts
        .headers
        .iter()
        .filter(|(name, _)| name.as_str().starts_with(PREFIX))
        .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?.trim())))
        .collect();
    ours.sort_unstable_by(|(one, _), (other, _)| by_name(one, other));
    for (name, value) in ours {
        line(&format!("{name}:{value}"));
    }
    line(&format!("/{account}{}", parts.uri.path()));
    for (name, values) in query.canonical() {
        line(&format!("{name}:{values}"));
    }
    text
}

/// The order of headers' names that all of the service's clients sign in.
fn by_name(one: &str, other: &str) -> Ordering {
    fn weights(name: &str) -> impl Iterator<Item = u8> {
        name.bytes().map(|byte| WEIGHTS[usize::from(byte)]).filter(|weight| *weight > 0)
    }
    fn hyphens(name: &str) -> impl Iterator<Item = bool> {
        name.bytes().map(|byte| byte == b'-')
    }
    weights(one).cmp(weights(other)).then_with(|| hyphens(one).cmp(hyphens(other)))
}

fn is_recent(parts: &Parts, now: Timestamp) -> bool {
    let given = parts.headers.get("x-ms-date").or_else(|| parts.headers.get(DATE));
    let given = given.and_then(|value| value.to_str().ok()).and_then(|text| jiff::fmt::rfc2822::parse(text).ok());
    given.is_some_and(|given| now.duration_since(given.timestamp()).abs() <= SKEW_MAX)
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use hyper::Request;
    use secure::hmac_sha256;

    use super::*;

    const ACCOUNT: &str = "devstoreaccount1";
    const NOW: &str = "2026-11-30T05:00:00Z";

    fn keys() -> Keys {
        Keys { key1: BASE64_STANDARD.encode([7; 64]), key2: BASE64_STANDARD.encode([8; 64]) }
    }

    fn request(uri: &str) -> Parts {
        let request = Request::put(uri)
            .header("content-length", "0")
            .header("content-type", "application/octet-stream")
            .header("x-ms-version", "2026-10-06")
            .header("x-ms-date", "Mon, 30 Nov 2026 05:01:00 GMT")
            .header("x-ms-content-length", "5");
        request.body(()).unwrap().into_parts().0
    }

    fn signed(mut parts: Parts, key: &[u8]) -> Parts {
        let query = Query::parse(parts.uri.query().unwrap_or_default()).unwrap();
        let mac = hmac_sha256(key, string_to_sign(&parts, &query, ACCOUNT).as_bytes());
        let value = format!("SharedKey {ACCOUNT}:{}", BASE64_STANDARD.encode(mac));
        parts.headers.insert(AUTHORIZATION, value.parse().unwrap());
        parts
    }

    fn is_proven(parts: &Parts, now: &str) -> bool {
        let query = Query::parse(parts.uri.query().unwrap_or_default()).unwrap();
        verify(parts, &query, ACCOUNT, Some(&keys()), now.parse().unwrap()).is_ok()
    }

    #[test]
    fn the_text_is_that_of_the_services_clients() {
        let parts = request("/devstoreaccount1/docs/a%20b?restype=directory&COMP=list");
        let query = Query::parse(parts.uri.query().unwrap()).unwrap();
        assert_eq!(
            string_to_sign(&parts, &query, ACCOUNT),
            "PUT\n\n\n\n\napplication/octet-stream\n\n\n\n\n\n\
             \nx-ms-content-length:5\nx-ms-date:Mon, 30 Nov 2026 05:01:00 GMT\nx-ms-version:2026-10-06\
             \n/devstoreaccount1/devstoreaccount1/docs/a%20b\ncomp:list\nrestype:directory"
        );
    }

    #[test]
    fn names_are_signed_in_the_order_of_the_services_clients() {
        let mut names =
            ["x-ms-meta-a1", "x-ms-meta-a_1", "x-ms-meta-ab", "x-ms-meta-a_b", "x-ms-meta-a-c", "x-ms-meta-a"];
        names.sort_unstable_by(|one, other| by_name(one, other));
        assert_eq!(
            names,
            ["x-ms-meta-a", "x-ms-meta-a_1", "x-ms-meta-a_b", "x-ms-meta-a1", "x-ms-meta-ab", "x-ms-meta-a-c"]
        );
        // Where nothing else differs, what has its `-` later comes first.
        assert_eq!(by_name("x-ms-ab", "x-ms-a-b"), Ordering::Less);
        assert_eq!(by_name("x-ms-ab-c", "x-ms-a-bc"), Ordering::Less);
    }

    #[test]
    fn either_key_signs_and_nothing_else_does() {
        let uri = "/devstoreaccount1/docs?restype=share";
        assert!(is_proven(&signed(request(uri), &[7; 64]), NOW));
        assert!(is_proven(&signed(request(uri), &[8; 64]), NOW));
        assert!(!is_proven(&signed(request(uri), &[9; 64]), NOW));
        assert!(!is_proven(&request(uri), NOW));
    }

    #[test]
    fn a_signature_is_for_one_request_alone() {
        let uri = "/devstoreaccount1/docs?restype=share";
        let other = |change: &dyn Fn(&mut Parts)| {
            let mut parts = signed(request(uri), &[7; 64]);
            change(&mut parts);
            is_proven(&parts, NOW)
        };
        assert!(other(&|_| ()));
        assert!(!other(&|parts| parts.method = hyper::Method::DELETE));
        assert!(!other(&|parts| parts.uri = "/devstoreaccount1/other?restype=share".parse().unwrap()));
        assert!(!other(&|parts| parts.uri = "/devstoreaccount1/docs?restype=directory".parse().unwrap()));
        assert!(!other(&|parts| drop(parts.headers.insert("x-ms-content-length", "6".parse().unwrap()))));
        assert!(!other(&|parts| drop(parts.headers.insert("range", "bytes=0-1".parse().unwrap()))));
        // What is left out of what is signed says nothing.
        for name in ["x-ms-copy-source", "x-ms-lease-action", "range"] {
            let unsigned = hyper::header::HeaderValue::from_bytes(b"\xE4").unwrap();
            assert!(!other(&|parts| drop(parts.headers.insert(name, unsigned.clone()))), "{name}");
        }
    }

    #[test]
    fn an_old_signature_is_worth_nothing() {
        let parts = signed(request("/devstoreaccount1?comp=list"), &[7; 64]);
        assert!(is_proven(&parts, "2026-11-30T05:15:59Z"));
        assert!(!is_proven(&parts, "2026-11-30T05:16:01Z"));
        assert!(!is_proven(&parts, "2026-11-30T04:45:59Z"));
    }

    #[test]
    fn an_account_that_is_not_there_is_answered_as_a_wrong_key_is() {
        let parts = signed(request("/devstoreaccount1?comp=list"), &[9; 64]);
        let query = Query::parse("comp=list").unwrap();
        let now = NOW.parse().unwrap();
        let wrong = verify(&parts, &query, ACCOUNT, Some(&keys()), now).unwrap_err();
        assert_eq!(verify(&parts, &query, ACCOUNT, None, now).unwrap_err(), wrong);
        // Nor does who knows what it is looked at with get in.
        let parts = signed(request("/devstoreaccount1?comp=list"), &[0; 64]);
        assert!(verify(&parts, &query, ACCOUNT, None, now).is_err());
    }
}
