//! User delegation keys: with one, a service principal makes signatures that allow no more than it may do itself ("Create a user delegation SAS").
//!
//! A key is made of the account's first key and of all that is told of it, so that none is kept. It ends when it says, when that key is replaced, and with its
//! principal.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use control::Keys;
use jiff::{SignedDuration, Timestamp};
use secure::{hmac_sha256, is_hmac_sha256};

use super::rights::Permissions;
use super::sas::time;
use super::{Known, NOBODYS, Way};
use crate::failure::Failure;
use crate::query::Query;

/// How long a key may count.
pub(crate) const LASTS_MAX: SignedDuration = SignedDuration::from_hours(7 * 24);
/// What keys are for: files.
pub(crate) const SERVICE: &str = "f";

/// What is told of a key, in the words that its signatures repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delegation {
    pub(crate) principal: String,
    pub(crate) tenant: String,
    pub(crate) start: String,
    pub(crate) expiry: String,
    pub(crate) version: String,
}

impl Delegation {
    /// The one that a signature is made with, if it is made with one.
    pub(super) fn of(query: &Query) -> Option<Self> {
        let value = |name: &str| query.get(name).unwrap_or_default().to_owned();
        query.get("skoid").map(|principal| Delegation {
            principal: principal.to_owned(),
            tenant: value("sktid"),
            start: value("skt"),
            expiry: value("ske"),
            version: value("skv"),
        })
    }

    /// Its key, as it is for this account.
    pub(crate) fn key(&self, keys: &Keys) -> [u8; 32] {
        let Delegation { principal, tenant, start, expiry, version } = self;
        let text = format!("user delegation key\n{principal}\n{tenant}\n{start}\n{expiry}\n{SERVICE}\n{version}");
        hmac_sha256(&BASE64_STANDARD.decode(&keys.key1).unwrap_or_default(), text.as_bytes())
    }

    /// What may be allowed with it, where one of these texts is signed with it.
    pub(super) fn verify(
        &self,
        query: &Query,
        account: &str,
        (texts, way): (&[String], Way),
        known: &impl Known,
    ) -> Result<Permissions, Failure> {
        let signature = BASE64_STANDARD.decode(query.get("sig").unwrap_or_default()).unwrap_or_default();
        let keys = known.keys(account);
        let is_signed = |keys: &Keys| {
            let key = self.key(keys);
            texts.iter().fold(false, |is_signed, text| is_signed | is_hmac_sha256(&key, text.as_bytes(), &signature))
        };
        let is_signed = is_signed(keys.as_ref().unwrap_or(&NOBODYS)) & keys.is_some();
        if query.get("sks") != Some(SERVICE) || !is_signed {
            return Err(Failure::unauthenticated("the signature is not one of the user delegation key that it names"));
        }
        let counts = time(&self.start).zip(time(&self.expiry)).is_some_and(|(start, expiry)| {
            start <= way.at && way.at < expiry && expiry.duration_since(start) <= LASTS_MAX
        });
        if !counts {
            return Err(Failure::unauthenticated("the user delegation key is not valid yet, or any more"));
        }
        known
            .permissions_of(&self.principal)
            .ok_or_else(|| Failure::unauthenticated("the user delegation key's service principal is gone"))
    }
}

/// When a key begins and ends that is asked for now.
pub(crate) fn lasts(start: Option<&str>, expiry: &str, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let start = start.map_or(Some(now), time)?;
    let expiry = time(expiry)?;
    let is_right = start < expiry && now < expiry && expiry.duration_since(start) <= LASTS_MAX;
    is_right.then_some((start, expiry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_lasts_for_seven_days_at_most() {
        let now: Timestamp = "2026-11-30T05:00:00Z".parse().unwrap();
        let lasts = |start: Option<&str>, expiry: &str| lasts(start, expiry, now).is_some();
        assert!(lasts(None, "2026-12-07T05:00:00Z") && lasts(Some("2026-11-29"), "2026-12-06"));
        assert!(!lasts(None, "2026-12-07T05:00:01Z") && !lasts(Some("2026-11-29"), "2026-12-06T00:00:01Z"));
        assert!(!lasts(None, "2026-11-30T05:00:00Z") && !lasts(Some("2026-12-02"), "2026-12-01"));
        assert!(!lasts(Some("now"), "2026-12-01") && !lasts(None, ""));
    }
}
