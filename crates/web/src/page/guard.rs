//! Who is let in, and what browsers are told to keep to.

use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use secure::Token;

use crate::page::answer::Refusal;
use crate::page::sessions::{Activity, Shown};

/// Nothing comes from elsewhere, nothing stands in the document, nobody frames it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// Where the page shows its session's secret, which no other page and no other port can know.
const SECRET: &str = "x-page-secret";
/// Cookies of one name that are looked at. Pages of other ports can set some for each folder of what is asked.
const COOKIES_MAX: usize = 8;
/// The port that a browser does not name.
const HTTP_PORT: u16 = 80;
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

/// The cookie's name. Cookies do not tell ports apart: each server that a browser knows has one of its own. Its port is that which the browser asks, since
/// two servers behind two tunnels may have the same one.
pub(crate) fn cookie_name(headers: &HeaderMap, port: u16) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    let asked = host.map_or(port, |host| host.port_u16().unwrap_or(HTTP_PORT));
    format!("multilane-{asked}")
}

/// What a browser is told to keep.
pub(crate) fn set_cookie(name: &str, cookie: &Token) -> String {
    format!("{name}={}; Path=/; HttpOnly; SameSite=Strict", cookie.as_str())
}

/// What has it forget that.
pub(crate) fn forget_cookie(name: &str) -> String {
    format!("{name}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0")
}

/// What a request shows of its session.
pub(crate) fn shown(headers: &HeaderMap, port: u16) -> Shown {
    let name = cookie_name(headers, port);
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let ours = pairs.filter(|(found, _)| *found == name).take(COOKIES_MAX);
    let mut secrets = headers.get_all(SECRET).iter();
    let secret = secrets.next().filter(|_| secrets.next().is_none());
    Shown {
        cookies: ours.filter_map(|(_, value)| Token::parse(value)).collect(),
        secret: secret.and_then(|secret| Token::parse(secret.to_str().ok()?)),
    }
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
    Err(Refusal::new(StatusCode::FORBIDDEN, what, "Ask for it at 127.0.0.1."))
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
    fn the_cookie_is_that_of_the_port_that_is_asked_and_each_of_some_is_looked_at() {
        let token = Token::new().unwrap();
        let found = |text: &str| shown(&headers(&[("cookie", text)]), 9446).cookies;
        let ours = format!("multilane-9446={}", token.as_str());
        assert_eq!(found(&format!("a=b; {ours}; c=d")), std::slice::from_ref(&token));
        assert_eq!(found(&format!("multilane-9447={}", token.as_str())), []);
        let other = format!("multilane-9446={}; multilane-9446=short; ", Token::new().unwrap().as_str());
        assert_eq!(&found(&format!("{other}{ours}"))[1..], std::slice::from_ref(&token));
        assert_eq!(found(&format!("{}{ours}", other.repeat(4))).len(), 4, "more than eight are not looked at");
        let set = set_cookie("multilane-9446", &token);
        assert!(set.ends_with("; Path=/; HttpOnly; SameSite=Strict") && set.starts_with(&ours), "{set}");
        for (host, name) in
            [("localhost:19446", "multilane-19446"), ("127.0.0.1", "multilane-80"), ("[::1]:1", "multilane-1")]
        {
            assert_eq!(cookie_name(&headers(&[("host", host)]), 9446), name);
        }
    }

    #[test]
    fn the_secret_is_one() {
        let (one, other) = (Token::new().unwrap(), Token::new().unwrap());
        let found = |lines: &[(&'static str, &str)]| shown(&headers(lines), 9446).secret;
        assert_eq!(found(&[(SECRET, one.as_str())]), Some(one.clone()));
        assert!(found(&[]).is_none() && found(&[(SECRET, "")]).is_none());
        let mut two = headers(&[(SECRET, one.as_str())]);
        two.append(SECRET, other.as_str().parse().unwrap());
        assert!(shown(&two, 9446).secret.is_none());
    }
}
