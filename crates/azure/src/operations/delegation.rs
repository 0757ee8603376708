//! User delegation keys.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use control::By;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Ask, Service};
use crate::answer::{Answer, VERSION, xml};
use crate::auth::{DELEGATION_SERVICE, Delegation, lasts};
use crate::failure::{Code, Failure};
use crate::tokens::TENANT;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct KeyInfo {
    start: Option<String>,
    expiry: String,
    delegated_user_tid: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Key<'a> {
    signed_oid: &'a str,
    signed_tid: &'a str,
    signed_start: &'a str,
    signed_expiry: &'a str,
    signed_service: &'a str,
    signed_version: &'a str,
    value: String,
}

/// Get User Delegation Key, which is for service principals.
pub(super) fn key(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let Some(principal) = ask.by.principal() else {
        return Err(Failure::unauthenticated("only who asks with a token has user delegation keys"));
    };
    let asked = parsed(&ask.body)?;
    match asked.delegated_user_tid.as_deref().filter(|tenant| !tenant.is_empty()) {
        None => {}
        Some(TENANT) => {
            return Err(Failure::new(Code::InvalidXmlNodeValue, "Keys for one user alone are not served here."));
        }
        Some(_) => return Err(Failure::unauthenticated("there is no such tenant")),
    }
    let (start, expiry) = asked.lasts(Timestamp::now())?;
    let told = |time: Timestamp| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let delegation = Delegation {
        principal: principal.to_owned(),
        tenant: TENANT.to_owned(),
        start: told(start),
        expiry: told(expiry),
        version: ask.header("x-ms-version").unwrap_or(VERSION).to_owned(),
    };
    let keys = service.catalog.keys(ask.by.account()).ok_or_else(|| Failure::unauthenticated("the account is gone"))?;
    let by = ask.requester(&service.catalog);
    service.operations.note_secret_told(By::Requester(&by), "user delegation key", ask.by.account());
    xml(
        "UserDelegationKey",
        &Key {
            signed_oid: &delegation.principal,
            signed_tid: &delegation.tenant,
            signed_start: &delegation.start,
            signed_expiry: &delegation.expiry,
            signed_service: DELEGATION_SERVICE,
            signed_version: &delegation.version,
            value: BASE64_STANDARD.encode(delegation.key(&keys)),
        },
    )
}

fn parsed(body: &[u8]) -> Result<KeyInfo, Failure> {
    let wrong = || Failure::new(Code::InvalidXmlDocument, "The body is not a KeyInfo in XML.");
    let text = std::str::from_utf8(body).map_err(|_| wrong())?;
    quick_xml::de::from_str(text).map_err(|_| wrong())
}

impl KeyInfo {
    /// When the key begins and ends that is asked for now.
    fn lasts(&self, now: Timestamp) -> Result<(Timestamp, Timestamp), Failure> {
        let given = self.start.as_deref().filter(|start| !start.is_empty());
        lasts(given, &self.expiry, now).ok_or_else(|| {
            Failure::new(
                Code::InvalidXmlNodeValue,
                "Start and Expiry are times in UTC, Expiry is to come, and 7 days are between them at most.",
            )
        })
    }
}

/// Reads a body that asks for a key, for who tests what reads it.
pub(super) fn read_body(body: &[u8]) -> Result<(), Failure> {
    parsed(body)?.lasts(Timestamp::UNIX_EPOCH).map(drop)
}
