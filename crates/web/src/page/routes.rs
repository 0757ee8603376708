//! What can be asked of the page. What changes something is a POST; everything else changes nothing.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, Query, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, REFRESH, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::json;
use tracing::info;
use zeroize::Zeroizing;

use crate::flight::Unanswered;
use crate::page::answer::{Refusal, answered, told};
use crate::page::operations::{Operation, digits, refusal};
use crate::page::readings::Question;
use crate::page::sessions::{Activity, Shown};
use crate::page::sign_in::Outcome;
use crate::page::slow::{self, Span};
use crate::page::{Served, assets, body, guard};

/// Characters of what is searched for, or named.
const TEXT_MAX: usize = 256;
/// How long what is to be done waits for its turn. With what it may wait for then, it is less than who asks waits for an answer.
const BEGINS_WITHIN: Duration = Duration::from_secs(3);
/// How long an answer may take: less than the time after which the connection ends without one. A password takes a moment.
const ANSWERED_WITHIN: Duration = Duration::from_secs(9);
const SIGN_IN_WITHIN: Duration = Duration::from_secs(8);
/// Seconds after which who has no answer may try again.
const AGAIN_AFTER: u64 = 2;
const FOR_A_YEAR: &str = "private, max-age=31536000, immutable";

/// The page of a server, which may not serve yet.
#[derive(Clone)]
struct Site {
    served: Arc<OnceLock<Served>>,
    port: u16,
}

/// What stands behind the question mark.
type Words = Query<HashMap<String, String>>;

pub(super) fn all(served: &Arc<OnceLock<Served>>, port: u16) -> Router {
    let site = Site { served: Arc::clone(served), port };
    Router::new()
        .route("/", get(shell))
        .route("/assets/{version}/{*name}", get(asset))
        .route("/api/session", get(session))
        .route("/api/sign-in", post(sign_in))
        .route("/api/sign-out", post(sign_out))
        .route("/api/operation", post(operation))
        .route("/api/why", get(why))
        .route("/api/metrics", get(metrics))
        .route("/api/read/{what}", get(read))
        .fallback(nothing_here)
        .method_not_allowed_fallback(not_so)
        .layer(middleware::from_fn(guarded))
        .with_state(site)
}

/// For those there is no place for: browsers come again by themselves.
pub(super) fn come_again() -> Router {
    let busy = async || {
        let mut response = guard::secured(Refusal::from(Unanswered::Busy).into_response());
        response.headers_mut().insert(REFRESH, HeaderValue::from_static("1"));
        response
    };
    Router::new().fallback(busy)
}

/// Keeps out who does not mean this machine, and has browsers keep to what the page may do.
async fn guarded(request: Request, next: Next) -> Response {
    let response = match guard::check_host(&request) {
        Ok(()) => in_time(ANSWERED_WITHIN, "The machine is busy: there is no answer yet.", next.run(request))
            .await
            .unwrap_or_else(IntoResponse::into_response),
        Err(refusal) => refusal.into_response(),
    };
    guard::secured(in_json(response))
}

/// What comes in this time, or a refusal that says `what`.
async fn in_time<T>(time: Duration, what: &str, answer: impl Future<Output = T>) -> Result<T, Refusal> {
    tokio::time::timeout(time, answer).await.map_err(|_| {
        let remedy = format!("Try again in {AGAIN_AFTER} seconds.");
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, what, remedy).again_after(AGAIN_AFTER)
    })
}

/// What is refused before anything of ours looks at it says so in JSON, too.
fn in_json(response: Response) -> Response {
    let status = response.status();
    let is_json = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if is_json || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    Refusal::new(status, "The request is not understood.", "Load the page anew.").into_response()
}

async fn shell() -> Response {
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], assets::shell()).into_response()
}

async fn asset(Path((version, name)): Path<(String, String)>) -> Response {
    match assets::find(&version, &name) {
        Some((kind, bytes)) => ([(CONTENT_TYPE, kind), (CACHE_CONTROL, FOR_A_YEAR)], bytes).into_response(),
        None => nothing_here().await,
    }
}

/// Who has signed in.
async fn session(State(site): State<Site>, headers: HeaderMap) -> Result<Response, Refusal> {
    let (operator, _) = site.signed_in(&headers)?;
    Ok(answered(StatusCode::OK, told(&json!({ "operator": operator }))?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Credentials {
    name: String,
    password: String,
}

async fn sign_in(State(site): State<Site>, request: Request) -> Result<Response, Refusal> {
    let (Parts { headers, .. }, body) = request.into_parts();
    guard::check_origin(&headers)?;
    guard::check_kind(&headers)?;
    let served = site.served()?;
    if !served.catalog().has_operators() {
        return Err(no_operators(served));
    }
    let Credentials { name, password } = parsed(&body::read(body).await?)?;
    let password = Zeroizing::new(password);
    let cookies = guard::shown(&headers, site.port).cookies;
    let attempt = served.sign_in.attempt(name, password, cookies);
    let outcome =
        in_time(SIGN_IN_WITHIN, "The machine is busy: the password was not looked at in time.", attempt).await?;
    match outcome.map_err(not_looked_at)? {
        Outcome::SignedIn(operator, keys) => {
            // The secret is told here and never again.
            let body = told(&json!({ "operator": operator, "secret": keys.secret.as_str() }))?;
            let set = guard::set_cookie(&guard::cookie_name(&headers, site.port), &keys.cookie);
            Ok(with_cookie(answered(StatusCode::OK, body), &set))
        }
        Outcome::Wrong => {
            let what = "The name or the password is wrong.";
            Err(Refusal::new(StatusCode::UNAUTHORIZED, what, "Try again."))
        }
        Outcome::Wait(time) => {
            let seconds = time.as_secs() + 1;
            let what = "Too many have failed to sign in.";
            let unit = if seconds == 1 { "second" } else { "seconds" };
            let remedy = format!("Try again in {seconds} {unit}.");
            Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, what, remedy).again_after(seconds))
        }
        Outcome::Failed => {
            let what = "The machine gives no random numbers.";
            Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, what, "See the server's log."))
        }
    }
}

fn not_looked_at(cause: Unanswered) -> Refusal {
    let refusal = Refusal::from(cause);
    match cause {
        Unanswered::Busy => Refusal { what: "Too many sign in at once.".to_owned(), ..refusal },
        Unanswered::Ended => refusal,
    }
}

async fn sign_out(State(site): State<Site>, headers: HeaderMap) -> Result<Response, Refusal> {
    let (operator, shown) = site.may_change(&headers)?;
    site.served()?.sessions.lock().end(&shown);
    info!(name: "operator_signed_out", operator, "an operator has signed out of the page");
    let forget = guard::forget_cookie(&guard::cookie_name(&headers, site.port));
    Ok(with_cookie(answered(StatusCode::OK, "{}".into()), &forget))
}

async fn operation(State(site): State<Site>, request: Request) -> Result<Response, Refusal> {
    let (Parts { headers, .. }, body) = request.into_parts();
    let (_, shown) = site.may_change(&headers)?;
    let (served, operation) = (site.served()?, parsed::<Operation>(&body::read(body).await?)?);
    let (source, sessions, asked) = (Arc::clone(&served.source), Arc::clone(&served.sessions), Instant::now());
    let worker = if operation.is_closing() { &served.closing } else { &served.changes };
    let done = worker.run(move || {
        if asked.elapsed() > BEGINS_WITHIN {
            return Err(Refusal::from(Unanswered::Busy));
        }
        // The session may have ended since.
        let operator = sessions.lock().find(&shown, &source.catalog, Activity::PageAlone, Instant::now());
        operation.run(&source, &operator.ok_or_else(not_signed_in)?).map_err(refusal)
    });
    done.await??;
    Ok(answered(StatusCode::OK, "{}".into()))
}

async fn why(State(site): State<Site>, headers: HeaderMap, Query(words): Words) -> Result<Response, Refusal> {
    site.signed_in(&headers)?;
    let about = text(&words, "about")?;
    let answer = site.served()?.slow.ask(slow::Question::Why { about }).await?;
    Ok(answered(StatusCode::OK, answer?))
}

async fn metrics(State(site): State<Site>, headers: HeaderMap, Query(words): Words) -> Result<Response, Refusal> {
    site.signed_in(&headers)?;
    let question = match text(&words, "name")? {
        None => slow::Question::Metrics,
        Some(name) => {
            let span = words.get("span").and_then(|span| Span::of(span)).ok_or_else(|| not_understood("span"))?;
            slow::Question::Metric { name, by: text(&words, "by")?, share: text(&words, "share")?, span }
        }
    };
    let answer = site.served()?.slow.ask(question).await?;
    Ok(answered(StatusCode::OK, answer?))
}

async fn read(
    State(site): State<Site>,
    Path(what): Path<String>,
    headers: HeaderMap,
    Query(words): Words,
) -> Result<Response, Refusal> {
    site.signed_in(&headers)?;
    let search = || Ok::<_, Refusal>(text(&words, "text")?.unwrap_or_default().to_lowercase());
    let question = match what.as_str() {
        "overview" => Question::Overview { after: number(&words, "after")?.unwrap_or(0) },
        "shares" => Question::Shares { text: search()?, after: text(&words, "after")? },
        "share" => Question::Share { name: text(&words, "name")?.ok_or_else(|| not_understood("name"))? },
        "sessions" => Question::Sessions { text: search()?, after: number(&words, "after")? },
        "session" => Question::Session { id: number(&words, "id")?.ok_or_else(|| not_understood("id"))? },
        "opens" => {
            let (session, after) = (number(&words, "session")?, number(&words, "after")?);
            Question::Opens { text: search()?, session, after }
        }
        "counted" => Question::Counted { share: text(&words, "share")? },
        "events" => Question::Events,
        "accounts" => Question::Accounts,
        _ => return Err(nowhere()),
    };
    let answer = site.served()?.readings.ask(question).await?;
    Ok(answered(StatusCode::OK, answer?))
}

async fn nothing_here() -> Response {
    nowhere().into_response()
}

async fn not_so() -> Response {
    let what = "That is not how this is asked.";
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, what, "Read with GET, and change with POST.").into_response()
}

impl Site {
    fn served(&self) -> Result<&Served, Refusal> {
        self.served.get().ok_or_else(|| {
            let what = "The server starts.";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, what, "Try again in a second.").again_after(1)
        })
    }

    /// Who asks, where that is an operator who has signed in, with what shows it.
    fn signed_in(&self, headers: &HeaderMap) -> Result<(String, Shown), Refusal> {
        guard::check_site(headers)?;
        let served = self.served()?;
        if !served.catalog().has_operators() {
            return Err(no_operators(served));
        }
        let (shown, activity) = (guard::shown(headers, self.port), guard::activity(headers));
        let operator = served.sessions.lock().find(&shown, served.catalog(), activity, Instant::now());
        Ok((operator.ok_or_else(not_signed_in)?, shown))
    }

    /// The same, where the page itself wants something changed.
    fn may_change(&self, headers: &HeaderMap) -> Result<(String, Shown), Refusal> {
        guard::check_origin(headers)?;
        guard::check_kind(headers)?;
        self.signed_in(headers)
    }
}

fn with_cookie(mut response: Response, set: &str) -> Response {
    // A name and hexadecimal digits.
    if let Ok(value) = HeaderValue::from_str(set) {
        response.headers_mut().insert(SET_COOKIE, value);
    }
    response
}

fn parsed<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|_| not_understood("body"))
}

/// A word of the question; an empty one is none.
fn text(words: &HashMap<String, String>, name: &str) -> Result<Option<String>, Refusal> {
    let word = words.get(name).filter(|word| !word.is_empty());
    match word {
        Some(word) if word.chars().count() > TEXT_MAX => Err(not_understood(name)),
        word => Ok(word.cloned()),
    }
}

fn number(words: &HashMap<String, String>, name: &str) -> Result<Option<u64>, Refusal> {
    text(words, name)?.map(|word| digits(&word).ok_or_else(|| not_understood(name))).transpose()
}

fn not_understood(what: &str) -> Refusal {
    let what = format!("The request's {what} is not understood.");
    Refusal::new(StatusCode::BAD_REQUEST, what, "Load the page anew.")
}

fn not_signed_in() -> Refusal {
    Refusal::new(StatusCode::UNAUTHORIZED, "Nobody has signed in.", "Sign in.")
}

fn no_operators(served: &Served) -> Refusal {
    let remedy = format!("Make one on this machine: multilane operator create NAME{}", served.source.of_data);
    Refusal::new(StatusCode::FORBIDDEN, "There is no operator yet who could sign in.", remedy)
}

fn nowhere() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "There is nothing here.", "Look at /.")
}

#[cfg(test)]
mod tests {
    use axum::http::header::RETRY_AFTER;

    use super::*;

    #[test]
    fn who_waits_too_long_is_told_when_to_come_again() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let never = std::future::pending::<()>();
            let response = in_time(Duration::ZERO, "It is busy.", never).await.unwrap_err().into_response();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(response.headers()[RETRY_AFTER], "2");
            assert_eq!(in_time(ANSWERED_WITHIN, "", async { 7 }).await, Ok(7));
        });
        assert_eq!(not_looked_at(Unanswered::Busy).what, "Too many sign in at once.");
        assert!(SIGN_IN_WITHIN < ANSWERED_WITHIN && ANSWERED_WITHIN < Duration::from_secs(10));
    }
}
