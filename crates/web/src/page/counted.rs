//! What was asked since the server started, by API and by how it ended.

use serde_json::{Value, json};
use server::admin::{Api, Counts, ResponseType, Scope, Sum};

use crate::page::recent::Seen;

/// Of a share, or of the whole server.
pub(crate) fn of(seen: &Seen, share: Option<&str>) -> Value {
    let mut counts = Counts::default();
    let rows = seen.counters.iter().flat_map(|view| &view.rows);
    rows.filter(|row| is_meant(&row.scope, share)).for_each(|row| counts.add(&row.counts));
    let apis = Api::ALL.iter().copied().filter(|api| counts.requests_of(*api) > 0);
    json!({ "apis": apis.map(|api| told(&counts, api)).collect::<Vec<_>>() })
}

fn is_meant(scope: &Scope, share: Option<&str>) -> bool {
    match (scope, share) {
        (Scope::Server, None) => true,
        (Scope::Share { name: Some(name), .. }, Some(share)) => name == share,
        _ => false,
    }
}

fn told(counts: &Counts, api: Api) -> Value {
    let requests = counts.requests_of(api);
    let response = |response: &ResponseType| {
        let requests = counts.requests(api, *response);
        (requests > 0).then(|| json!({ "name": response.name(), "requests": requests }))
    };
    json!({
        "name": api.name(),
        "requests": requests,
        "mean_ms": counts.sum(api, Sum::TotalNanos) as f64 / 1e6 / requests as f64,
        "received": counts.sum(api, Sum::ReceivedBytes),
        "sent": counts.sum(api, Sum::SentBytes),
        "responses": ResponseType::ALL.iter().filter_map(response).collect::<Vec<_>>(),
    })
}
