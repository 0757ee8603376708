//! What stands above accounts: the cloud's endpoints, the tenant, the subscription, the resource group, and providers. There is one of each.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::answer::json as answered;
use super::{Ask, Failure, Management, STORAGE, SUBSCRIPTION, TENANT};
use crate::answer::Answer;

const NAME: &str = "Multilane";
/// Where an account is that was not made in a region.
pub(super) const LOCAL: &str = "local";
/// The types of resources there are, by provider.
const TYPES: [(&str, &[&str]); 3] = [
    (
        STORAGE,
        &[
            "storageAccounts",
            "storageAccounts/fileServices",
            "storageAccounts/fileServices/shares",
            "storageAccounts/fileServices/usages",
            "checkNameAvailability",
            "skus",
        ],
    ),
    ("Microsoft.Features", &["features", "providers"]),
    ("Microsoft.Insights", &["metrics", "metricDefinitions", "metricNamespaces"]),
];
/// A version that every client finds.
const NEWEST: [&str; 4] = ["2026-09-01", "2025-08-01", "2023-05-01", "2021-07-01"];

/// Where the interfaces of this cloud are: all at one address.
pub(super) fn endpoints(ask: &Ask) -> Answer {
    let (origin, host) = (&ask.origin, ask.origin.split_once("://").map_or("", |(_, host)| host));
    let port = host.rsplit_once(':').map_or(String::new(), |(_, port)| format!(":{port}"));
    let authentication = json!({
        "loginEndpoint": origin,
        "audiences": ["https://management.core.windows.net/", "https://management.azure.com/", origin],
        "tenant": TENANT,
        "identityProvider": "AAD",
    });
    let suffixes = json!({ "storage": format!("core.localhost{port}") });
    let version = ask.query.get("api-version").unwrap_or_default();
    let cloud = json!({
        "name": NAME,
        "portal": origin,
        "authentication": authentication,
        "media": origin,
        "graphAudience": origin,
        "graph": origin,
        "resourceManager": origin,
        "suffixes": suffixes,
        "gallery": origin,
    });
    // Versions from 2019 on tell a list of clouds.
    answered(StatusCode::OK, &if version < "2019" { cloud } else { json!([cloud]) })
}

/// Where tokens of the tenant are had (OpenID Connect Discovery 1.0, 3).
pub(super) fn open_id_configuration(ask: &Ask) -> Answer {
    let tenant = format!("{}/{TENANT}", ask.origin);
    let configuration = json!({
        "issuer": format!("{tenant}/v2.0"),
        "token_endpoint": format!("{tenant}/oauth2/v2.0/token"),
        "authorization_endpoint": format!("{tenant}/oauth2/v2.0/authorize"),
        "token_endpoint_auth_methods_supported": ["client_secret_post"],
        "response_types_supported": ["token"],
        "subject_types_supported": ["pairwise"],
        "scopes_supported": ["openid"],
        "claims_supported": ["aud", "iss", "iat", "exp", "appid", "oid", "tid"],
        "tenant_region_scope": Value::Null,
        "cloud_instance_name": ask.origin.split_once("://").map_or("", |(_, host)| host),
    });
    answered(StatusCode::OK, &configuration)
}

pub(super) fn tenants() -> Answer {
    let tenant = json!({
        "id": format!("/tenants/{TENANT}"),
        "tenantId": TENANT,
        "displayName": NAME,
        "tenantCategory": "Home",
    });
    answered(StatusCode::OK, &json!({ "value": [tenant] }))
}

fn subscription() -> Value {
    json!({
        "id": format!("/subscriptions/{SUBSCRIPTION}"),
        "subscriptionId": SUBSCRIPTION,
        "tenantId": TENANT,
        "displayName": NAME,
        "state": "Enabled",
        "authorizationSource": "RoleBased",
        "managedByTenants": [],
    })
}

/// The subscription, for who may see anything of it.
pub(super) fn list(ask: &Ask) -> Answer {
    let seen = ask.is_contributor.then(subscription);
    answered(StatusCode::OK, &json!({ "value": seen.as_slice() }))
}

pub(super) fn get() -> Answer {
    answered(StatusCode::OK, &subscription())
}

pub(super) fn locations() -> Answer {
    let location = json!({
        "id": format!("/subscriptions/{SUBSCRIPTION}/locations/{LOCAL}"),
        "name": LOCAL,
        "displayName": "This machine",
        "regionalDisplayName": "This machine",
        "type": "Region",
    });
    answered(StatusCode::OK, &json!({ "value": [location] }))
}

fn group_value(management: &Management) -> Value {
    json!({
        "id": format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/{}", management.group),
        "name": management.group,
        "type": "Microsoft.Resources/resourceGroups",
        "location": LOCAL,
        "tags": {},
        "properties": { "provisioningState": "Succeeded" },
    })
}

pub(super) fn groups(management: &Management) -> Answer {
    answered(StatusCode::OK, &json!({ "value": [group_value(management)] }))
}

/// The resource group, which is there whoever makes it.
pub(super) fn group(management: &Management) -> Answer {
    answered(StatusCode::OK, &group_value(management))
}

pub(super) fn providers() -> Answer {
    let all: Vec<Value> = TYPES.iter().map(|(name, types)| provider_value(name, types)).collect();
    answered(StatusCode::OK, &json!({ "value": all }))
}

/// A provider, which is registered.
pub(super) fn provider(name: &str) -> Result<Answer, Failure> {
    let found = TYPES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let (name, types) = found.ok_or_else(|| {
        Failure::missing("InvalidResourceNamespace", format!("The resource namespace '{name}' is invalid."))
    })?;
    Ok(answered(StatusCode::OK, &provider_value(name, types)))
}

fn provider_value(name: &str, types: &[&str]) -> Value {
    let each: Vec<Value> = types
        .iter()
        .map(
            |kind| json!({ "resourceType": kind, "locations": [LOCAL], "apiVersions": NEWEST, "capabilities": "None" }),
        )
        .collect();
    json!({
        "id": format!("/subscriptions/{SUBSCRIPTION}/providers/{name}"),
        "namespace": name,
        "registrationState": "Registered",
        "registrationPolicy": "RegistrationFree",
        "resourceTypes": each,
    })
}
