//! Shared access signatures that are made for somebody (`ListAccountSas`, `ListServiceSas`): what a client with a key makes by itself.

use control::{By, Keys};
use hyper::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::json;

use super::answer::json as answered;
use super::{Ask, Failure, Management};
use crate::answer::Answer;
use crate::auth;
use crate::query::Query;
use crate::target::{Dots, Target};

/// The version that they are made by.
const VERSION: &str = "2026-02-06";

/// What one is to be for.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wanted {
    signed_services: Option<String>,
    signed_resource_types: Option<String>,
    signed_resource: Option<String>,
    signed_permission: Option<String>,
    signed_start: Option<String>,
    signed_expiry: Option<String>,
    #[serde(rename = "signedIp", alias = "signedIP")]
    signed_ip: Option<String>,
    signed_protocol: Option<String>,
    signed_identifier: Option<String>,
    canonicalized_resource: Option<String>,
    key_to_sign: Option<String>,
    rscc: Option<String>,
    rscd: Option<String>,
    rsce: Option<String>,
    rscl: Option<String>,
    rsct: Option<String>,
}

/// One of the account.
pub(super) fn of_account(management: &Management, ask: &Ask, account: &str) -> Result<Answer, Failure> {
    let wanted: Wanted = ask.json()?;
    let parameters = [
        ("ss", needed("signedServices", &wanted.signed_services)?),
        ("srt", needed("signedResourceTypes", &wanted.signed_resource_types)?),
        ("se", needed("signedExpiry", &wanted.signed_expiry)?),
    ];
    let target = target(account, "");
    Ok(answered(
        StatusCode::OK,
        &json!({ "accountSasToken": signed(management, ask, &wanted, &target?, &parameters)? }),
    ))
}

/// One of a share or a file, which is named as `/file/ACCOUNT/SHARE/PATH`.
pub(super) fn of_service(management: &Management, ask: &Ask, account: &str) -> Result<Answer, Failure> {
    let wanted: Wanted = ask.json()?;
    let resource = needed("canonicalizedResource", &wanted.canonicalized_resource)?;
    let path = path_of(resource, account).ok_or_else(|| {
        Failure::bad("InvalidRequestPropertyValue", format!("The canonicalizedResource is not /file/{account}/SHARE."))
    })?;
    let optional = [
        ("si", &wanted.signed_identifier),
        ("se", &wanted.signed_expiry),
        ("rscc", &wanted.rscc),
        ("rscd", &wanted.rscd),
        ("rsce", &wanted.rsce),
        ("rscl", &wanted.rscl),
        ("rsct", &wanted.rsct),
    ];
    let optional = optional.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
    let kind = needed("signedResource", &wanted.signed_resource)?;
    let parameters: Vec<(&str, &str)> = std::iter::once(("sr", kind)).chain(optional).collect();
    let token = signed(management, ask, &wanted, &target(account, path)?, &parameters)?;
    Ok(answered(StatusCode::OK, &json!({ "serviceSasToken": token })))
}

/// The path of a share or a file of this account, with a `/` before it: another account's name may begin as this one's does.
fn path_of<'a>(resource: &'a str, account: &str) -> Option<&'a str> {
    resource.strip_prefix("/file/")?.strip_prefix(account).filter(|path| path.starts_with('/'))
}

fn target(account: &str, path: &str) -> Result<Target, Failure> {
    let path = utf8_percent_encode(path, NON_ALPHANUMERIC).to_string().replace("%2F", "/");
    Target::parse("", &format!("/{account}{path}"), Dots::LeftOut)
        .map_err(|failure| Failure::bad("InvalidRequestPropertyValue", failure.message))
}

fn needed<'a>(name: &str, value: &'a Option<String>) -> Result<&'a str, Failure> {
    let missing = || Failure::bad("InvalidRequestPropertyValue", format!("The property '{name}' is missing."));
    value.as_deref().filter(|value| !value.is_empty()).ok_or_else(missing)
}

/// The part of a URL behind its question mark.
fn signed(
    management: &Management,
    ask: &Ask,
    wanted: &Wanted,
    target: &Target,
    parameters: &[(&str, &str)],
) -> Result<String, Failure> {
    let account = management.account(&target.account)?.name;
    let keys = management.catalog.keys(&account).ok_or_else(|| Failure::no_resource("storageAccounts", &account))?;
    let key = key_of(&keys, wanted.key_to_sign.as_deref().unwrap_or("key1"))?;
    let common = [
        ("sp", &wanted.signed_permission),
        ("st", &wanted.signed_start),
        ("sip", &wanted.signed_ip),
        ("spr", &wanted.signed_protocol),
    ];
    let common = common.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
    let all: Vec<(&str, &str)> =
        std::iter::once(("sv", VERSION)).chain(parameters.iter().copied()).chain(common).collect();
    let text = |(name, value): &(&str, &str)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC));
    let text = all.iter().map(text).collect::<Vec<_>>().join("&");
    let wrong = |failure: crate::failure::Failure| Failure::bad("InvalidRequestPropertyValue", failure.message);
    let signature = auth::signature(&Query::parse(&text).map_err(wrong)?, target, key).map_err(wrong)?;
    management.operations.note_secret_told(By::Requester(&ask.requester()?), "shared access signature", &account);
    Ok(format!("{text}&sig={}", utf8_percent_encode(&signature, NON_ALPHANUMERIC)))
}

fn key_of<'a>(keys: &'a Keys, name: &str) -> Result<&'a str, Failure> {
    match name.to_ascii_lowercase().as_str() {
        "key1" => Ok(&keys.key1),
        "key2" => Ok(&keys.key2),
        _ => Err(Failure::bad(
            "InvalidRequestPropertyValue",
            format!("There is no key '{name}'; there are key1 and key2."),
        )),
    }
}

/// Reads a body as what is wanted, for who tests what reads it.
pub(super) fn read(body: &[u8]) {
    let resource = serde_json::from_slice(body).ok().and_then(|wanted: Wanted| wanted.canonicalized_resource);
    let _ = resource.and_then(|resource| Some(target("account", path_of(&resource, "account")?)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_for_what_this_account_has_and_no_other() {
        assert_eq!(path_of("/file/work/docs/a b", "work"), Some("/docs/a b"));
        for other in ["/file/work2/docs", "/file/other/docs", "/blob/work/docs", "/file/work", ""] {
            assert_eq!(path_of(other, "work"), None, "{other}");
        }
    }
}
