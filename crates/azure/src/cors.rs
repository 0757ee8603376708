//! Pages of other origins: which of them a browser lets ask, as the account's rules say ("CORS support for Azure Storage").

use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderName, ORIGIN, VARY,
};
use hyper::{Method, StatusCode};

use crate::answer::{Answer, empty, set};
use crate::failure::{Code, Failure};

/// A rule of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Origins, with one `*` at most in each.
    pub(crate) origins: Vec<String>,
    pub(crate) methods: Vec<String>,
    /// Headers that a request may have, with a `*` at the end where any more may follow.
    pub(crate) allowed_headers: Vec<String>,
    /// Headers of an answer that the page may read.
    pub(crate) exposed_headers: Vec<String>,
    pub(crate) max_age_seconds: u32,
}

/// Answers what a browser asks before it asks for something ("Preflight File Request"). It needs no proof, and nothing but the rules is told.
pub(crate) fn preflight(rules: &[Rule], headers: &HeaderMap) -> Result<Answer, Failure> {
    let origin = value(headers, ORIGIN).ok_or_else(|| Failure::missing("Origin"))?;
    let method = value(headers, ACCESS_CONTROL_REQUEST_METHOD)
        .ok_or_else(|| Failure::missing("Access-Control-Request-Method"))?;
    let wanted = value(headers, ACCESS_CONTROL_REQUEST_HEADERS).unwrap_or_default();
    let names = || wanted.split(',').map(str::trim).filter(|name| !name.is_empty());
    let rule = rules.iter().find(|rule| rule.is_for(origin, method) && names().all(|name| rule.allows_header(name)));
    let rule = rule.ok_or_else(|| {
        Failure::new(Code::CorsPreflightFailure, "CORS is not enabled, or no matching rule was found for this request.")
    })?;
    let mut answer = empty(StatusCode::OK);
    rule.allow(&mut answer, origin);
    set(&mut answer, ACCESS_CONTROL_ALLOW_METHODS.as_str(), method);
    set(&mut answer, ACCESS_CONTROL_MAX_AGE.as_str(), &rule.max_age_seconds.to_string());
    if !wanted.is_empty() {
        set(&mut answer, ACCESS_CONTROL_ALLOW_HEADERS.as_str(), wanted);
    }
    Ok(answer)
}

/// Has a page read this answer, where a rule lets its origin ask so.
pub(crate) fn allow(rules: &[Rule], method: &Method, headers: &HeaderMap, answer: &mut Answer) {
    let Some(origin) = value(headers, ORIGIN) else { return };
    // Also where there are no rules, or no such account: who may not ask is not told which.
    set(answer, VARY.as_str(), ORIGIN.as_str());
    let Some(rule) = rules.iter().find(|rule| rule.is_for(origin, method.as_str())) else { return };
    rule.allow(answer, origin);
    if !rule.exposed_headers.is_empty() {
        // What begins so is named one by one: browsers take no part of a name.
        let has = |name: &&HeaderName| rule.exposed_headers.iter().any(|known| matches(known, name.as_str()));
        let names: Vec<String> = answer.headers().keys().filter(has).map(ToString::to_string).collect();
        set(answer, ACCESS_CONTROL_EXPOSE_HEADERS.as_str(), &names.join(","));
    }
}

fn value(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

impl Rule {
    fn is_for(&self, origin: &str, method: &str) -> bool {
        self.origins.iter().any(|known| matches(known, origin))
            && self.methods.iter().any(|known| known.eq_ignore_ascii_case(method))
    }

    fn allows_header(&self, name: &str) -> bool {
        self.allowed_headers.iter().any(|known| matches(known, name))
    }

    fn allow(&self, answer: &mut Answer, origin: &str) {
        // Whoever allows all names none, and so lets no browser send what it keeps for this host.
        if self.origins.iter().any(|known| known == "*") {
            set(answer, ACCESS_CONTROL_ALLOW_ORIGIN.as_str(), "*");
            return;
        }
        set(answer, ACCESS_CONTROL_ALLOW_ORIGIN.as_str(), origin);
        set(answer, ACCESS_CONTROL_ALLOW_CREDENTIALS.as_str(), "true");
    }
}

/// Whether a text is this one, in any case; a `*` of the pattern stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_ascii_lowercase(), text.to_ascii_lowercase());
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, behind)) => {
            text.len() >= before.len() + behind.len() && text.starts_with(before) && text.ends_with(behind)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(origins: &[&str], methods: &[&str], allowed: &[&str], exposed: &[&str]) -> Rule {
        let [origins, methods, allowed_headers, exposed_headers] =
            [origins, methods, allowed, exposed].map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        Rule { origins, methods, allowed_headers, exposed_headers, max_age_seconds: 60 }
    }

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        given.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn asked(rules: &[Rule], origin: &str, method: &str, wanted: &str) -> Result<Vec<(String, String)>, Code> {
        let headers = headers(&[
            ("origin", origin),
            ("access-control-request-method", method),
            ("access-control-request-headers", wanted),
        ]);
        let answer = preflight(rules, &headers).map_err(|failure| failure.code)?;
        let text = |value: &hyper::header::HeaderValue| value.to_str().unwrap().to_owned();
        Ok(answer.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect())
    }

    #[test]
    fn a_browser_is_told_what_a_rule_allows_and_nothing_else() {
        let rules = [rule(&["https://app.example", "https://*.other.example"], &["GET", "PUT"], &["x-ms-*"], &[])];
        let told = asked(&rules, "https://app.example", "PUT", "x-ms-version, x-ms-date").unwrap();
        for (name, value) in [
            ("access-control-allow-origin", "https://app.example"),
            ("access-control-allow-methods", "PUT"),
            ("access-control-allow-headers", "x-ms-version, x-ms-date"),
            ("access-control-max-age", "60"),
            ("access-control-allow-credentials", "true"),
        ] {
            assert!(told.contains(&(name.to_owned(), value.to_owned())), "{name} {told:?}");
        }
        assert!(asked(&rules, "https://a.other.example", "GET", "").is_ok());
        for (origin, method, wanted) in [
            ("https://evil.example", "GET", ""),
            ("https://app.example.evil", "GET", ""),
            ("https://app.example", "DELETE", ""),
            ("https://app.example", "GET", "authorization"),
            ("https://.other.example.evil", "GET", ""),
        ] {
            assert_eq!(asked(&rules, origin, method, wanted), Err(Code::CorsPreflightFailure), "{origin} {method}");
        }
        assert_eq!(asked(&[], "https://app.example", "GET", ""), Err(Code::CorsPreflightFailure));
        assert_eq!(preflight(&rules, &HeaderMap::new()).err().unwrap().code, Code::MissingRequiredHeader);
    }

    #[test]
    fn an_answer_may_be_read_by_pages_of_origins_that_may_ask() {
        let rules = [rule(&["*"], &["GET"], &[], &["x-ms-meta-*", "etag"])];
        let answered = |rules: &[Rule], method: Method, given: &[(&'static str, &str)]| {
            let mut answer = empty(StatusCode::OK);
            for (name, value) in [("x-ms-meta-a", "1"), ("etag", "2"), ("x-ms-other", "3")] {
                set(&mut answer, name, value);
            }
            allow(rules, &method, &headers(given), &mut answer);
            let told = |name: HeaderName| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            (told(ACCESS_CONTROL_ALLOW_ORIGIN), told(ACCESS_CONTROL_EXPOSE_HEADERS), told(VARY))
        };
        let page = [("origin", "https://app.example")];
        let (origin, exposed, vary) = answered(&rules, Method::GET, &page);
        assert_eq!((origin.as_deref(), vary.as_deref()), (Some("*"), Some("origin")));
        assert_eq!(exposed.as_deref(), Some("x-ms-meta-a,etag"));
        assert_eq!(answered(&rules, Method::PUT, &page).0, None);
        assert_eq!(answered(&rules, Method::GET, &[]), (None, None, None));
        assert_eq!(answered(&[], Method::GET, &page), (None, None, Some("origin".to_owned())));
    }
}
