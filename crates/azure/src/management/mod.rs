//! The management interface: what Azure Resource Manager serves of storage accounts (Microsoft.Storage), beside the data plane on the same address, and the
//! tokens that its clients show.

mod accounts;
mod answer;
mod call;
mod failure;
mod features;
mod file_services;
mod metrics;
mod resources;
mod share_snapshots;
mod shares;
mod sign_in;
mod signatures;
mod subscriptions;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use control::{Error, KnownCatalog, Operations, Requester, Role, ServicePrincipal, SnapshotTime, Who};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use hyper::{Request, StatusCode};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio::time::timeout;

pub(crate) use self::call::Call;
pub(crate) use self::call::SUBSCRIPTION;
use self::call::{Needs, STORAGE, check_version};
use self::failure::Failure;
use crate::answer::{Answer, empty};
use crate::failure::Code;
use crate::listener::Caller;
use crate::query::Query;
use crate::tokens::{self, Audience, TENANT};

pub(crate) use self::resources::Filter;
pub(crate) use self::sign_in::Form;

/// Bytes of a body: more than any of these calls needs, and as many connections as there may be hold 16 MiB of them.
const BODY_MAX: usize = 64 << 10;
/// How long a body may take.
const BODY_WITHIN: Duration = Duration::from_secs(30);

/// The resource group where none is named.
pub const GROUP: &str = "multilane";

/// The management interface of a server.
pub(crate) struct Management {
    pub(crate) catalog: KnownCatalog,
    pub(crate) operations: Operations,
    /// Where what the server has done is kept.
    pub(crate) archive: PathBuf,
    /// The resource group that all accounts are in.
    pub(crate) group: String,
    metrics_turn: Arc<Mutex<()>>,
}

/// A call that somebody has proved to be allowed.
struct Ask {
    query: Query,
    /// The snapshot of the share that is meant, where one is named.
    snapshot: Option<SnapshotTime>,
    body: Bytes,
    /// The server's own address as the client named it, such as `https://127.0.0.1:10004`.
    origin: String,
    /// The service principal; nobody where a call needs none.
    by: Option<Requester>,
    /// Whether it is a contributor.
    is_contributor: bool,
}

/// True of a request that is for the management interface, whatever it asks for: its path begins there, or it is for a token.
pub(crate) fn is_for(host: &str, path: &str, query: Option<&str>) -> bool {
    // There the account is in the host's name, and these are shares of it.
    if host.split('.').nth(1) == Some("file") {
        return false;
    }
    let mut names = path.split('/').filter(|name| !name.is_empty());
    let (first, second) = (names.next().unwrap_or_default(), names.next());
    let has_version = query.is_some_and(|query| query.to_ascii_lowercase().contains("api-version="));
    match first.to_ascii_lowercase().as_str() {
        "subscriptions" | "metadata" => true,
        // Accounts may be called so, and their requests name their version in a header.
        "tenants" | "providers" => has_version,
        // No share is called so, in an account of this name.
        call::ADFS => second == Some(".well-known"),
        tenant => is_uuid(tenant) && second.is_some_and(|second| matches!(second, "oauth2" | "v2.0" | ".well-known")),
    }
}

fn is_uuid(text: &str) -> bool {
    let parts = text.split('-').map(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(part.len()));
    parts.eq([8, 4, 4, 4, 12].map(Some))
}

impl Management {
    pub(crate) fn new(catalog: KnownCatalog, operations: Operations, archive: PathBuf, group: String) -> Self {
        Management { catalog, operations, archive, group, metrics_turn: Arc::default() }
    }

    /// Answers a request. `id` names it, and `origin` is this server's own address as the client named it.
    pub(crate) async fn answer(&self, request: Request<Incoming>, caller: &Caller, id: &str, origin: &str) -> Answer {
        let client_id = request.headers().get("x-ms-client-request-id").cloned();
        let client_id = client_id.as_ref().and_then(|id| HeaderValue::to_str(id).ok());
        let answer = self.carried_out(request, caller, origin).await;
        let mut answer = answer.unwrap_or_else(|failure| failure.answer(origin));
        answer::finish(&mut answer, id, client_id);
        answer
    }

    /// What is answered where the answer cannot be held.
    pub(crate) fn refused(&self, failure: crate::failure::Failure, id: &str, origin: &str) -> Answer {
        let mut answer = Failure::of_data_plane(failure).answer(origin);
        answer::finish(&mut answer, id, None);
        answer
    }

    async fn carried_out(&self, request: Request<Incoming>, caller: &Caller, origin: &str) -> Result<Answer, Failure> {
        let (parts, body) = request.into_parts();
        let query = Query::parse(parts.uri.query().unwrap_or_default())
            .map_err(|failure| Failure::bad("InvalidUri", failure.message))?;
        let called = Call::of(&parts.method, parts.uri.path(), &self.group);
        // Whoever has shown nothing is told of no resource, not even that there is none.
        let needs = called.as_ref().map_or(Needs::Contributor, Call::needs);
        let is_for_tokens = matches!(called, Ok(Call::GetOpenIdConfiguration | Call::SignIn));
        let is_tenants = matches!(&called, Err(failure) if failure.code == "invalid_request");
        let needs = if is_tenants { Needs::Nothing } else { needs };
        if self.proved(needs, &parts.headers)?.is_some() {
            caller.proves();
        }
        let call = called?;
        if !is_for_tokens {
            check_version(query.get("api-version"))?;
        }
        let snapshot = if call.is_of_share() { share_snapshots::named(&call, &parts.headers, &query)? } else { None };
        let body = read(body).await?;
        // Who needs nothing is answered at once.
        let _turn = match needs {
            Needs::Nothing => {
                caller.waits();
                None
            }
            Needs::Principal | Needs::Contributor => Some(caller.turn().await.ok_or_else(busy)?),
        };
        if call == Call::SignIn {
            return Ok(sign_in::answer(&self.catalog, &body, origin));
        }
        // Its body, or its turn, may have come slowly: keys of principals are replaced, and roles taken away, meanwhile.
        let proved = self.proved(needs, &parts.headers)?;
        let is_contributor = proved.as_ref().is_some_and(is_contributor);
        let by = proved.map(|principal| Requester { who: Who::Principal(principal.name), from: caller.peer });
        let ask = Ask { query, snapshot, body, origin: origin.to_owned(), by, is_contributor };
        self.perform(call, ask).await
    }

    /// Who asks, if anybody has to be proved, and may.
    fn proved(&self, needs: Needs, headers: &HeaderMap) -> Result<Option<ServicePrincipal>, Failure> {
        match needs {
            Needs::Nothing => Ok(None),
            Needs::Principal => self.principal(headers).map(Some),
            Needs::Contributor => match self.principal(headers)? {
                principal if is_contributor(&principal) => Ok(Some(principal)),
                principal => Err(not_allowed(&principal.name)),
            },
        }
    }

    /// Who asks, by the token that is shown.
    fn principal(&self, headers: &HeaderMap) -> Result<ServicePrincipal, Failure> {
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token =
            given.and_then(|given| given.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let Some((_, token)) = token else {
            return Err(Failure::unauthenticated(
                "AuthenticationFailed",
                "Authentication failed. The 'Authorization' header is missing, or is not Bearer TOKEN.",
            ));
        };
        let principal = tokens::verify(token.trim(), (Audience::Management, None), &self.catalog, Timestamp::now());
        principal.map_err(|wrong| {
            let code = match wrong {
                tokens::Wrong::Unknown => "InvalidAuthenticationToken",
                tokens::Wrong::Expired => "ExpiredAuthenticationToken",
                tokens::Wrong::Audience => "InvalidAuthenticationTokenAudience",
            };
            Failure::unauthenticated(code, format!("Authentication failed: {wrong}."))
        })
    }

    async fn perform(&self, call: Call, ask: Ask) -> Result<Answer, Failure> {
        match call {
            Call::SignIn => Err(Failure::bad("invalid_request", "A token is asked for by POST.")),
            Call::ListEndpoints => Ok(subscriptions::endpoints(&ask)),
            Call::GetOpenIdConfiguration => Ok(subscriptions::open_id_configuration(&ask)),
            Call::ListTenants => Ok(subscriptions::tenants()),
            Call::ListSubscriptions => Ok(subscriptions::list(&ask)),
            Call::GetSubscription => Ok(subscriptions::get()),
            Call::ListLocations => Ok(subscriptions::locations()),
            Call::ListGroups => Ok(subscriptions::groups(self)),
            Call::CheckGroup => Ok(empty(StatusCode::NO_CONTENT)),
            Call::GetGroup | Call::PutGroup => Ok(subscriptions::group(self)),
            Call::ListResources => resources::list(self, &ask),
            Call::ListProviders => Ok(subscriptions::providers()),
            Call::GetProvider(name) => subscriptions::provider(&name),
            Call::ListSkus => Ok(accounts::skus()),
            Call::ListLocationUsages => Ok(accounts::location_usages(self)),
            Call::CheckName => accounts::check_name(self, &ask),
            Call::ListAccounts => Ok(accounts::list(self, &ask)),
            Call::GetAccount(name) => accounts::get(self, &ask, &name),
            Call::PutAccount(name) => accounts::put(self, &ask, &name).await,
            Call::PatchAccount(name) => accounts::patch(self, &ask, &name),
            Call::DeleteAccount(name) => accounts::delete(self, &ask, &name).await,
            Call::ListKeys(name) => accounts::keys(self, &ask, &name),
            Call::RegenerateKey(name) => accounts::regenerate_key(self, &ask, &name).await,
            Call::SignForAccount(name) => signatures::of_account(self, &ask, &name),
            Call::SignForService(name) => signatures::of_service(self, &ask, &name),
            Call::ListFileServices(account) => file_services::list(self, &account).await,
            Call::GetFileService(account) => file_services::get(self, &account).await,
            Call::PutFileService(account) => file_services::put(self, &ask, &account).await,
            Call::ListUsages(account) => file_services::usages(self, &account),
            Call::GetUsage(account) => file_services::usage(self, &account),
            Call::ListShares(account) => shares::list(self, &ask, &account).await,
            Call::GetShare(share) => shares::get(self, &ask, &share).await,
            Call::PutShare(share) => shares::put(self, &ask, &share).await,
            Call::PatchShare(share) => shares::patch(self, &ask, &share).await,
            Call::DeleteShare(share) => shares::delete(self, &ask, &share).await,
            Call::RestoreShare(share) => shares::restore(self, &ask, &share).await,
            Call::LeaseShare(share) => shares::lease(self, &ask, &share).await,
            Call::ListFeatures => Ok(features::list(self)),
            Call::GetFeature(name) => features::get(self, &name),
            Call::RegisterFeature(name) => features::register(self, &ask, &name).await,
            Call::UnregisterFeature(name) => features::unregister(self, &ask, &name).await,
            Call::ListMetrics(account) => metrics::list(self, &ask, &account).await,
            Call::ListMetricDefinitions(account) => metrics::definitions(self, &account),
            Call::ListMetricNamespaces(account) => metrics::namespaces(self, &account),
        }
    }

    /// Has `change` done by a thread that may wait for the catalog's disk.
    async fn changed<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Operations) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Failure> {
        let operations = self.operations.clone();
        let done = tokio::task::spawn_blocking(move || change(&operations)).await;
        let done = done.map_err(|_| {
            Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", "The request failed in the server.")
        })?;
        Ok(done?)
    }

    /// The id of a resource below the resource group.
    fn id(&self, rest: &str) -> String {
        format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/{}/providers/{STORAGE}/{rest}", self.group)
    }
}

impl Ask {
    /// Who wants something changed. Whoever has proved nothing changes nothing.
    fn requester(&self) -> Result<Requester, Failure> {
        let nobody = || Failure::unauthenticated("AuthenticationFailed", "Authentication failed. Nobody was proved.");
        self.by.clone().ok_or_else(nobody)
    }

    /// Whether the answer is to tell this, too.
    fn expands(&self, what: &str) -> bool {
        let asked = self.query.get("$expand").unwrap_or_default();
        asked.split(',').any(|one| one.trim().eq_ignore_ascii_case(what))
    }

    /// The body, as JSON of a form.
    fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body).map_err(|cause| {
            Failure::bad("InvalidRequestContent", format!("The request content was invalid: {cause}."))
        })
    }
}

/// Reads a body as what each operation wants, for who tests what reads it.
pub(crate) fn read_body(body: &[u8]) {
    accounts::read(body);
    file_services::read(body);
    shares::read(body);
    signatures::read(body);
}

fn is_contributor(principal: &ServicePrincipal) -> bool {
    principal.roles.contains(&Role::Contributor)
}

fn not_allowed(principal: &str) -> Failure {
    let message = format!(
        "The client 'principal:{principal}' has no role that allows this; it needs {}.",
        Role::Contributor.azure_name()
    );
    Failure::new(StatusCode::FORBIDDEN, "AuthorizationFailed", message)
}

fn busy() -> Failure {
    let message = "The server works for as many calls as it may for who calls from there; try again.";
    Failure::of_data_plane(crate::failure::Failure::new(Code::ServerBusy, message))
}

async fn read(body: Incoming) -> Result<Bytes, Failure> {
    let gone = || Failure::bad("InvalidRequestContent", "The body took too long, or broke off.");
    timeout(BODY_WITHIN, copied(body)).await.map_err(|_| gone())?
}

/// A body, of which each piece is copied: it is a part of all that the connection read with it, and would hold that.
async fn copied<B: Body<Data = Bytes> + Unpin>(mut body: B) -> Result<Bytes, Failure> {
    let mut read = Vec::new();
    while let Some(piece) = body.frame().await {
        let broken = |_| Failure::bad("InvalidRequestContent", "The body broke off.");
        let Ok(piece) = piece.map_err(broken)?.into_data() else { continue };
        if read.len() + piece.len() > BODY_MAX {
            let message = format!("The request content has more than {BODY_MAX} bytes.");
            return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestContentTooLarge", message));
        }
        read.extend_from_slice(&piece);
    }
    Ok(read.into())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::channel::Channel;

    use super::*;

    #[tokio::test]
    async fn a_body_in_small_pieces_holds_no_more_than_its_bytes() {
        // As a connection gives them: each is one byte of a buffer.
        let buffer = Bytes::from(vec![b'x'; 8 << 10]);
        let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
        let reading = tokio::spawn(copied(body));
        for _ in 0..10 {
            sender.send_data(buffer.slice(7..8)).await.unwrap();
        }
        drop(sender);
        assert_eq!(reading.await.unwrap().unwrap(), Bytes::from_static(&[b'x'; 10]));
        assert!(buffer.is_unique(), "nothing holds what the pieces were cut from");
    }

    #[tokio::test]
    async fn a_body_that_is_too_long_is_refused() {
        let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
        let reading = tokio::spawn(copied(body));
        sender.send_data(Bytes::from(vec![0; BODY_MAX])).await.unwrap();
        sender.send_data(Bytes::from_static(b"x")).await.unwrap();
        assert_eq!(reading.await.unwrap().unwrap_err().code, "RequestContentTooLarge");
    }

    #[test]
    fn requests_for_accounts_are_not_for_the_management_interface() {
        let version = Some("api-version=2022-12-01");
        for path in [
            "/subscriptions",
            "/Subscriptions/x/resourcegroups",
            "/metadata/endpoints",
            "/00000000-0000-0000-0000-000000000002/oauth2/token",
            "/11111111-0000-0000-0000-000000000002/v2.0/.well-known/openid-configuration",
            "/tenants",
            "/adfs/.well-known/openid-configuration",
        ] {
            assert!(is_for("127.0.0.1:10004", path, version), "{path}");
            assert!(!is_for("work.file.core.localhost:10004", path, version), "{path}");
        }
        for path in [
            "/",
            "/work/docs",
            "/subscription/x",
            "/tenants/share",
            "/common/oauth2/token",
            "/0-0-0-0-0/oauth2/token",
            "/adfs/oauth2/token",
        ] {
            assert!(!is_for("127.0.0.1:10004", path, Some("restype=share")), "{path}");
        }
        assert!(!is_for("h", &format!("/{TENANT}/share"), version));
    }
}
