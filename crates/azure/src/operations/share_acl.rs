//! Stored access policies of a share ("Get Share ACL", "Set Share ACL").

use control::StoredPolicy;
use hyper::StatusCode;
use serde::{Deserialize, Serialize};

use super::share_properties::set_version;
use super::{Ask, Service, share_lease};
use crate::answer::{Answer, empty, xml};
use crate::auth::time;
use crate::failure::{Code, Failure};

/// Policies that are read of a body: one more than there can be, so that it is said.
const POLICIES_READ_MAX: usize = 6;

#[derive(Default, Serialize, Deserialize)]
struct Identifiers {
    #[serde(rename = "SignedIdentifier", default)]
    each: Vec<Identifier>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Identifier {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    access_policy: Option<AccessPolicy>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AccessPolicy {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expiry: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    permission: Option<String>,
}

/// Get Share ACL.
pub(super) fn get(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let kept = service.catalog.azure_share(&service.record(ask)?);
    share_lease::check(ask, &kept)?;
    let told = |policy: &StoredPolicy| {
        let StoredPolicy { id, start, expiry, permission } = policy.clone();
        Identifier { id, access_policy: Some(AccessPolicy { start, expiry, permission }) }
    };
    let mut answer = xml("SignedIdentifiers", &Identifiers { each: kept.policies.iter().map(told).collect() })?;
    set_version(&mut answer, &kept);
    Ok(answer)
}

/// Set Share ACL: all of it.
pub(super) async fn set(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let policies = parsed(&ask.body)?;
    let (_, kept) = share_lease::change(service, ask, move |kept, now| {
        kept.policies = policies;
        kept.touch(now);
        Ok(())
    })
    .await?;
    let mut answer = empty(StatusCode::OK);
    set_version(&mut answer, &kept);
    Ok(answer)
}

/// The policies that a body sets; none where there is no body.
pub(crate) fn parsed(body: &[u8]) -> Result<Vec<StoredPolicy>, Failure> {
    let wrong =
        |why: &str| Failure::new(Code::InvalidXmlDocument, format!("The body is not SignedIdentifiers: {why}."));
    if body.is_empty() {
        return Ok(Vec::new());
    }
    let text = std::str::from_utf8(body).map_err(|_| wrong("it is no UTF-8"))?;
    let found: Identifiers =
        quick_xml::de::from_str(text.trim_start_matches('\u{feff}')).map_err(|_| wrong("it is no such XML"))?;
    let filled = |text: Option<String>| text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let policy = |Identifier { id, access_policy }: Identifier| -> Result<StoredPolicy, Failure> {
        let AccessPolicy { start, expiry, permission } = access_policy.unwrap_or_default();
        let (start, expiry) = (filled(start), filled(expiry));
        if [&start, &expiry].into_iter().flatten().any(|text| time(text).is_none()) {
            return Err(Failure::new(
                Code::InvalidXmlNodeValue,
                "Start or Expiry is no time such as 2026-11-30T08:00:00Z.",
            ));
        }
        let permission = filled(permission);
        if permission.as_deref().is_some_and(|letters| !letters.bytes().all(|letter| b"rcwdl".contains(&letter))) {
            return Err(Failure::new(Code::InvalidXmlNodeValue, "Permission has other letters than r, c, w, d and l."));
        }
        Ok(StoredPolicy { id: id.trim().to_owned(), start, expiry, permission })
    };
    let policies = found.each.into_iter().take(POLICIES_READ_MAX).map(policy).collect::<Result<Vec<_>, _>>()?;
    let mut checked = control::AzureShare::default();
    checked.policies = policies;
    // What there can be none of is a wrong document, and no wrong header.
    checked.check().map_err(|error| wrong(error.what()))?;
    Ok(checked.policies)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(identifiers: &str) -> String {
        format!("<?xml version='1.0' encoding='utf-8'?>\n<SignedIdentifiers>{identifiers}</SignedIdentifiers>")
    }

    #[test]
    fn policies_are_read_as_clients_write_them() {
        let text = body(
            "<SignedIdentifier><Id>one</Id><AccessPolicy><Start>2026-11-30T08:00:00.0000000Z</Start>\
             <Expiry>2026-12-01</Expiry><Permission>rwd</Permission></AccessPolicy></SignedIdentifier>\
             <SignedIdentifier><Id>two</Id><AccessPolicy><Start>2026-12-01T08:00Z</Start><Expiry>9999-12-31T23:59:59.9999999Z</Expiry><Permission /></AccessPolicy></SignedIdentifier>\
             <SignedIdentifier><Id>three</Id></SignedIdentifier>",
        );
        let policies = parsed(text.as_bytes()).unwrap();
        assert_eq!(policies.iter().map(|policy| policy.id.as_str()).collect::<Vec<_>>(), ["one", "two", "three"]);
        assert_eq!(policies[0].expiry.as_deref(), Some("2026-12-01"));
        assert_eq!((policies[0].permission.as_deref(), policies[1].permission.as_deref()), (Some("rwd"), None));
        assert_eq!(parsed(b"").unwrap(), []);
        assert_eq!(parsed(body("").as_bytes()).unwrap(), []);
    }

    #[test]
    fn what_are_no_policies_are_refused() {
        let one = |id: &str, more: &str| format!("<SignedIdentifier><Id>{id}</Id>{more}</SignedIdentifier>");
        for (identifiers, code) in [
            ((1..=6).map(|number| one(&number.to_string(), "")).collect(), Code::InvalidXmlDocument),
            (one("a", "") + &one("a", ""), Code::InvalidXmlDocument),
            (one(&"x".repeat(65), ""), Code::InvalidXmlDocument),
            (one("a", "<AccessPolicy><Start>soon</Start></AccessPolicy>"), Code::InvalidXmlNodeValue),
            (one("a", "<AccessPolicy><Permission>rx</Permission></AccessPolicy>"), Code::InvalidXmlNodeValue),
            ("<SignedIdentifier></SignedIdentifier>".to_owned(), Code::InvalidXmlDocument),
        ] {
            let found = parsed(body(&identifiers).as_bytes());
            assert_eq!(found.map_err(|failure| failure.code), Err(code), "{identifiers}");
        }
        for wrong in ["{}", "\u{0}", "<SignedIdentifiers>"] {
            assert!(parsed(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
    }
}
