//! Signing in: a service principal shows its secret and gets a token (OAuth 2.0 client credentials, RFC 6749 4.4), by version 1 and 2 of Microsoft Entra's endpoint.

use control::{KnownCatalog, ServicePrincipal};
use hyper::StatusCode;
use jiff::Timestamp;
use serde_json::json;
use tracing::info;

use super::answer::json as answered;
use crate::answer::{Answer, set};
use crate::tokens::{self, Audience, TENANT};

/// A form (application/x-www-form-urlencoded), of which the first value of a name counts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Form(Vec<(String, String)>);

/// Why there is no token, by the names of RFC 6749 5.2 and Microsoft Entra's numbers.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    status: StatusCode,
    error: &'static str,
    number: u32,
    description: String,
}

/// Answers a request for a token. `origin` is this server's own address as the client named it.
pub(super) fn answer(catalog: &KnownCatalog, body: &[u8], origin: &str) -> Answer {
    let given = token(catalog, body, origin);
    let mut answer = match given {
        Ok((token, resource)) => {
            let now = Timestamp::now().as_second();
            answered(
                StatusCode::OK,
                &json!({
                    "token_type": "Bearer",
                    "expires_in": tokens::LASTS_SECONDS,
                    "ext_expires_in": tokens::LASTS_SECONDS,
                    "expires_on": (now + tokens::LASTS_SECONDS).to_string(),
                    "not_before": now.to_string(),
                    "resource": resource,
                    "access_token": token,
                }),
            )
        }
        Err(refusal) => refusal.answer(),
    };
    set(&mut answer, "pragma", "no-cache");
    answer
}

/// The token, and whom it is for.
fn token(catalog: &KnownCatalog, body: &[u8], origin: &str) -> Result<(String, String), Refusal> {
    let form = Form::parse(body).ok_or_else(|| Refusal::request(900_023, "The body is no form in UTF-8."))?;
    let needed = |name: &str| {
        let missing = || format!("The request body must contain the following parameter: '{name}'.");
        form.get(name).ok_or_else(|| Refusal::request(900_144, missing()))
    };
    let grant = needed("grant_type")?;
    if grant != "client_credentials" {
        let what = format!("The grant type '{grant}' is not served; there is client_credentials.");
        return Err(Refusal { error: "unsupported_grant_type", ..Refusal::request(70_003, what) });
    }
    let (id, audience) = (needed("client_id")?, audience(&form, origin)?);
    let Some(secret) = form.get("client_secret") else {
        let what = "There is no 'client_secret'; assertions and certificates are not served.";
        return Err(Refusal::client(7_000_218, what));
    };
    let principal = prove(catalog, id, secret)?;
    // It may have been deleted in this moment.
    let of = catalog.service_principal_and_key(&principal.application_id).ok_or_else(Refusal::wrong_secret)?;
    info!(name: "service_principal_signed_in", principal = of.0.name, audience, "a service principal has signed in");
    let issuer = format!("{origin}/{TENANT}/v2.0");
    Ok((tokens::issue(&of, &audience, &issuer, Timestamp::now()), audience))
}

/// The service principal whose secret this is.
fn prove(catalog: &KnownCatalog, id: &str, secret: &str) -> Result<ServicePrincipal, Refusal> {
    let id = id.to_ascii_lowercase();
    let found = catalog.prove_service_principal(&id, secret);
    if found.is_none() {
        info!(name: "service_principal_refused", application = id.get(..36).unwrap_or_default(), "nobody was signed in: there is no such service principal, or the secret is wrong");
    }
    found.ok_or_else(Refusal::wrong_secret)
}

/// Whom the token is for: `scope` of version 2, `resource` of version 1.
fn audience(form: &Form, origin: &str) -> Result<String, Refusal> {
    let asked = match (form.get("scope"), form.get("resource")) {
        (Some(scope), _) => {
            // Libraries that sign people in name these, too.
            let mut scopes =
                scope.split(' ').filter(|one| !matches!(*one, "" | "openid" | "profile" | "offline_access"));
            scopes.next().and_then(|one| one.strip_suffix("/.default")).ok_or_else(|| {
                let what = format!("The scope '{scope}' is not a resource with /.default behind it.");
                Refusal { error: "invalid_scope", ..Refusal::request(1_002_012, what) }
            })?
        }
        (None, Some(resource)) => resource,
        (None, None) => {
            let what = "The request body must contain the following parameter: 'scope'.";
            return Err(Refusal::request(900_144, what));
        }
    };
    let own = origin.split_once("://").map_or(origin, |(_, host)| host);
    if Audience::of(asked, |host| host.eq_ignore_ascii_case(own)).is_some() {
        return Ok(asked.to_owned());
    }
    let what = format!(
        "The resource principal named {asked} was not found in the tenant; there are https://storage.azure.com, an account's own address, https://management.azure.com and {origin}."
    );
    Err(Refusal { error: "invalid_resource", ..Refusal::request(500_011, what) })
}

impl Refusal {
    fn request(number: u32, description: impl Into<String>) -> Self {
        Refusal { status: StatusCode::BAD_REQUEST, error: "invalid_request", number, description: description.into() }
    }

    fn client(number: u32, description: impl Into<String>) -> Self {
        Refusal { status: StatusCode::UNAUTHORIZED, error: "invalid_client", ..Refusal::request(number, description) }
    }

    /// The same for a principal that is not there and for a secret that is wrong.
    fn wrong_secret() -> Self {
        Refusal::client(7_000_215, "Invalid client secret provided, or there is no such application in the tenant.")
    }

    fn answer(&self) -> Answer {
        answered(
            self.status,
            &json!({
                "error": self.error,
                "error_description": format!("AADSTS{}: {}", self.number, self.description),
                "error_codes": [self.number],
                "timestamp": Timestamp::now().strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
            }),
        )
    }
}

impl Form {
    /// Reads a form; `None` where that is no UTF-8.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(body).ok()?;
        let decoded = |part: &str| {
            let spaced = part.replace('+', " ");
            percent_encoding::percent_decode_str(&spaced).decode_utf8().ok().map(std::borrow::Cow::into_owned)
        };
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(name)?, decoded(value)?))
        });
        pairs.collect::<Option<_>>().map(Form)
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_read_as_browsers_write_them() {
        let form = Form::parse(b"scope=a%2Fb+c&x&y=1&y=2&=").unwrap();
        assert_eq!((form.get("scope"), form.get("x"), form.get("y")), (Some("a/b c"), Some(""), Some("1")));
        assert_eq!(Form::parse(b"a=%ff"), None);
        assert_eq!(Form::parse(b"\xff"), None);
        assert_eq!(Form::parse(b"").unwrap().get("a"), None);
    }

    #[test]
    fn a_token_is_for_a_resource_of_this_server_alone() {
        let of = |text: &str| {
            let form = Form::parse(text.as_bytes()).unwrap();
            audience(&form, "https://127.0.0.1:10004").map_err(|refusal| (refusal.error, refusal.number))
        };
        assert_eq!(of("scope=https://storage.azure.com/.default"), Ok("https://storage.azure.com".to_owned()));
        assert_eq!(of("scope=https://127.0.0.1:10004//.default+openid"), Ok("https://127.0.0.1:10004/".to_owned()));
        assert_eq!(
            of("resource=https://management.core.windows.net/"),
            Ok("https://management.core.windows.net/".to_owned())
        );
        assert_eq!(of("scope=https://127.0.0.1:10004/work/.default"), Ok("https://127.0.0.1:10004/work".to_owned()));
        assert_eq!(of("scope=https://graph.microsoft.com/.default"), Err(("invalid_resource", 500_011)));
        assert_eq!(of("scope=https://storage.azure.com/user_impersonation"), Err(("invalid_scope", 1_002_012)));
        assert_eq!(of("grant_type=x"), Err(("invalid_request", 900_144)));
    }
}
