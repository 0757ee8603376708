//! `/metrics`, `/healthz` and `/readyz`.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use insight::exposition::Format;

use crate::flight::{Flight, Unanswered};
use crate::health::{Doctor, Health};
use crate::http::is_local;
use crate::source::Stages;
use crate::text::{NoText, Texts};

/// For whom it is listened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Programs of this machine: requests must name it.
    Machine,
    /// Whoever the network lets in.
    Network,
}

struct Pages {
    texts: Flight<Texts>,
    doctor: Doctor,
    audience: Audience,
}

/// What is answered of a server, on threads that this starts.
pub(crate) fn pages(stages: &Stages, audience: Audience) -> io::Result<Router> {
    let pages = Arc::new(Pages {
        texts: Flight::start("metrics-text", Texts::of(stages.clone()))?,
        doctor: Doctor::start(stages.clone())?,
        audience,
    });
    Ok(Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .fallback(nothing_here)
        .method_not_allowed_fallback(get_alone)
        .layer(middleware::from_fn_with_state(Arc::clone(&pages), guarded))
        .with_state(pages))
}

async fn metrics(State(pages): State<Arc<Pages>>, headers: HeaderMap) -> Response {
    let format = wanted(&headers);
    match pages.texts.ask(format).await {
        Ok(Ok(text)) => ([(CONTENT_TYPE, format.content_type())], text).into_response(),
        Ok(Err(NoText::Starting)) => unavailable("the server starts"),
        Ok(Err(NoText::Full)) => unavailable("others have not taken their metrics yet"),
        Ok(Err(NoText::Failed)) => line(StatusCode::INTERNAL_SERVER_ERROR, "metrics could not be made: see the log"),
        Err(unanswered) => refused(unanswered),
    }
}

async fn alive(State(pages): State<Arc<Pages>>) -> Response {
    health(&pages, Health::is_alive).await
}

async fn ready(State(pages): State<Arc<Pages>>) -> Response {
    health(&pages, Health::is_ready).await
}

async fn health(pages: &Pages, is_well: fn(&Health) -> bool) -> Response {
    match pages.doctor.health().await {
        Ok(health) if is_well(&health) => line(StatusCode::OK, &health.sentence()),
        Ok(health) => unavailable(&health.sentence()),
        Err(unanswered) => refused(unanswered),
    }
}

async fn nothing_here() -> Response {
    line(StatusCode::NOT_FOUND, "there is nothing here; look at /metrics, /healthz or /readyz")
}

async fn get_alone() -> Response {
    line(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are understood here")
}

/// Keeps out who does not mean this machine, where it is for that alone; nobody keeps or guesses at what is answered.
async fn guarded(State(pages): State<Arc<Pages>>, request: Request, next: Next) -> Response {
    let mut response = if pages.audience == Audience::Machine && !is_local(&request) {
        line(StatusCode::FORBIDDEN, "this is for this machine alone: name localhost or a loopback address")
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The text that is asked for: OpenMetrics where it is named, and not refused.
fn wanted(headers: &HeaderMap) -> Format {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let is_open_metrics = |range: &str| {
        let mut parts = range.split(';').map(str::trim);
        let is_named = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/openmetrics-text"));
        let is_refused = |part: &str| part.strip_prefix("q=").is_some_and(|weight| weight.parse() == Ok(0.0));
        is_named && !parts.any(is_refused)
    };
    if values.flat_map(|value| value.split(',')).any(is_open_metrics) { Format::OpenMetrics } else { Format::Classic }
}

fn refused(unanswered: Unanswered) -> Response {
    match unanswered {
        Unanswered::Busy => unavailable("too many ask at once; come again in a second"),
        Unanswered::Ended => line(StatusCode::INTERNAL_SERVER_ERROR, "nobody can tell any more: see the log"),
    }
}

fn unavailable(sentence: &str) -> Response {
    let mut response = line(StatusCode::SERVICE_UNAVAILABLE, sentence);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn line(status: StatusCode, sentence: &str) -> Response {
    (status, [(CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{sentence}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_is_for_who_names_it() {
        let wanted = |accept: &[&str]| {
            let mut headers = HeaderMap::new();
            accept.iter().for_each(|value| _ = headers.append(ACCEPT, value.parse().unwrap()));
            super::wanted(&headers)
        };
        let prometheus = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(wanted(&[prometheus]), Format::OpenMetrics);
        assert_eq!(wanted(&["text/html", "Application/OpenMetrics-Text; q=0.2"]), Format::OpenMetrics);
        for classic in
            ["*/*", "", "text/plain", "application/openmetrics-text;q=0", "application/openmetrics-text; q=0.000"]
        {
            assert_eq!(wanted(&[classic]), Format::Classic, "{classic}");
        }
        assert_eq!(wanted(&[]), Format::Classic);
    }
}
