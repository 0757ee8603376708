//! Who is let in, and what browsers are told to keep to.

use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use secure::Token;

use crate::page::answer::Refusal;
use crate::page::sessions::{Activity, SignedIn};

/// Nothing comes from elsewhere, nothing stands in the document, nobody frames it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// Where the text is that pages from elsewhere cannot know.
pub(crate) const REQUEST_TOKEN: &str = "x-request-token";
/// What the page says where nobody has touched it since it last asked.
const UNTOUCHED: &str = "x-untouched";
const FETCH_SITE: &str = "sec-fetch-site";
const HEADERS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("x-frame-options"), "DENY"),
];

/// Adds what browsers have to keep to. What does not say for how long it may be kept is not kept.
pub(crate) fn secured(mut response: Response) -> Response {
    let headers = response.headers_mut();
    HEADERS.into_iter().for_each(|(name, value)| _ = headers.insert(name, HeaderValue::from_static(value)));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// The cookie's name. Cookies do not tell ports apart: each server of a machine has one of its own.
pub(crate) fn cookie_name(port: u16) -> String {
    format!("multilane-{port}")
}

/// What a browser is told to keep.
pub(crate) fn set_cookie(port: u16, cookie: &Token) -> String {
    format!("{}={}; Path=/; HttpOnly; SameSite=Strict", cookie_name(port), cookie.as_str())
}

/// What has it forget that.
pub(crate) fn forget_cookie(port: u16) -> String {
    format!("{}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0", cookie_name(port))
}

/// The session's cookie; `None` where there is none, or two.
pub(crate) fn cookie(headers: &HeaderMap, port: u16) -> Option<Token> {
    let name = cookie_name(port);
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut ours = pairs.filter(|(found, _)| *found == name).map(|(_, value)| value);
    let first = ours.next()?;
    if ours.next().is_some() { None } else { Token::parse(first) }
}

/// Whether an operator did something, or the page asked by itself.
pub(crate) fn activity(headers: &HeaderMap) -> Activity {
    if headers.contains_key(UNTOUCHED) { Activity::PageAlone } else { Activity::Operator }
}

/// What asks for data comes from the page, or from no browser: from nowhere else.
pub(crate) fn check_site(headers: &HeaderMap) -> Result<(), Refusal> {
    let sites = headers.get_all(FETCH_SITE).iter();
    let is_ours = |site: &HeaderValue| site == "same-origin" || site == "none";
    if sites.into_iter().all(is_ours) { Ok(()) } else { Err(from_elsewhere()) }
}

/// What changes something comes from the page: its origin is the address that was asked, or the browser says that it is the same.
pub(crate) fn check_origin(headers: &HeaderMap) -> Result<(), Refusal> {
    check_site(headers)?;
    let origins: Vec<&HeaderValue> = headers.get_all(ORIGIN).iter().collect();
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let is_ours = match origins.as_slice() {
        [] => headers.get(FETCH_SITE).is_some_and(|site| site == "same-origin"),
        [origin] => host.is_some_and(|host| origin.as_bytes() == format!("http://{host}").as_bytes()),
        _ => false,
    };
    if is_ours { Ok(()) } else { Err(from_elsewhere()) }
}

/// What changes something brings the text that its session's page alone knows.
pub(crate) fn check_token(headers: &HeaderMap, signed_in: &SignedIn) -> Result<(), Refusal> {
    let mut tokens = headers.get_all(REQUEST_TOKEN).iter().filter_map(|token| token.to_str().ok());
    let is_right = tokens.next().is_some_and(|token| signed_in.request_token.is(token)) && tokens.next().is_none();
    if is_right {
        return Ok(());
    }
    let what = "The request does not bring the token of its session.";
    Err(Refusal::new(StatusCode::FORBIDDEN, what, "Load the page anew."))
}

/// Bodies are JSON: what a form of another page could send is not looked at.
pub(crate) fn check_kind(headers: &HeaderMap) -> Result<(), Refusal> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_json = kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
    if is_json {
        return Ok(());
    }
    Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "The request is no JSON.", "Say application/json."))
}

/// The page is for this machine alone.
pub(crate) fn check_host(request: &Request) -> Result<(), Refusal> {
    if crate::http::is_local(request) {
        return Ok(());
    }
    let what = "This page is for this machine alone.";
    Err(Refusal::new(StatusCode::FORBIDDEN, what, "Name localhost or a loopback address."))
}

fn from_elsewhere() -> Refusal {
    Refusal::new(StatusCode::FORBIDDEN, "The request comes from another page.", "Use the page of this server.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn what_changes_something_comes_from_the_page_itself() {
        let allows = |lines: &[(&'static str, &str)]| check_origin(&headers(lines)).is_ok();
        assert!(allows(&[("host", "localhost:9446"), ("origin", "http://localhost:9446")]));
        assert!(allows(&[("host", "localhost:9446"), ("sec-fetch-site", "same-origin")]));
        for origin in [
            "http://localhost",
            "http://localhost:9447",
            "http://127.0.0.1:9446",
            "https://localhost:9446",
            "http://example.org",
            "http://localhost:9446.example.org",
            "null",
        ] {
            assert!(!allows(&[("host", "localhost:9446"), ("origin", origin)]), "{origin}");
            let both = [("host", "localhost:9446"), ("origin", origin), ("sec-fetch-site", "same-origin")];
            assert!(!allows(&both), "{origin}");
        }
        assert!(!allows(&[("host", "localhost:9446")]), "nobody says where it comes from");
        assert!(!allows(&[("origin", "http://localhost:9446")]));
        for site in ["same-site", "cross-site", "none"] {
            assert!(!allows(&[("host", "localhost:9446"), ("sec-fetch-site", site)]), "{site}");
        }
        let says_two = [("host", "localhost:1"), ("origin", "http://localhost:1"), ("sec-fetch-site", "cross-site")];
        assert!(!allows(&says_two));
    }

    #[test]
    fn data_is_for_the_page_and_for_programs() {
        assert!(check_site(&headers(&[])).is_ok());
        assert!(check_site(&headers(&[("sec-fetch-site", "same-origin")])).is_ok());
        assert!(check_site(&headers(&[("sec-fetch-site", "same-site")])).is_err(), "another port of this machine");
        assert!(check_site(&headers(&[("sec-fetch-site", "cross-site")])).is_err());
    }

    #[test]
    fn the_cookie_is_that_of_this_port_and_there_is_one() {
        let token = Token::new().unwrap();
        let found = |text: &str| cookie(&headers(&[("cookie", text)]), 9446);
        let ours = format!("multilane-9446={}", token.as_str());
        assert_eq!(found(&format!("a=b; {ours}; c=d")), Some(token.clone()));
        assert_eq!(found(&format!("multilane-9447={}", token.as_str())), None);
        assert_eq!(found(&format!("{ours}; {ours}")), None);
        assert_eq!(found("multilane-9446=short"), None);
        let set = set_cookie(9446, &token);
        assert!(set.ends_with("; Path=/; HttpOnly; SameSite=Strict") && set.starts_with(&ours), "{set}");
    }

    #[test]
    fn a_token_is_that_of_its_session() {
        let cookie = Token::new().unwrap();
        let request_token = crate::page::sessions::request_token(&cookie);
        let signed_in = SignedIn { operator: "ann".to_owned(), request_token: request_token.clone() };
        let allows = |lines: &[(&'static str, &str)]| check_token(&headers(lines), &signed_in).is_ok();
        assert!(allows(&[(REQUEST_TOKEN, request_token.as_str())]));
        assert!(!allows(&[]) && !allows(&[(REQUEST_TOKEN, "")]) && !allows(&[(REQUEST_TOKEN, cookie.as_str())]));
        let of_another = crate::page::sessions::request_token(&Token::new().unwrap());
        assert!(!allows(&[(REQUEST_TOKEN, of_another.as_str())]));
    }
}
