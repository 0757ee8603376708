//! The resources there are, whatever their type: accounts.

use control::{Account, Region};
use hyper::StatusCode;
use serde_json::{Value, json};

use super::answer::json as answered;
use super::subscriptions::LOCAL;
use super::{Ask, Failure, Management, accounts};
use crate::answer::Answer;

/// Properties that one filter names, at most: as many as there are.
const TERMS_MAX: usize = 6;

/// What a resource that is asked for has: each of these properties with this value.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter(Vec<(Property, String)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Property {
    Type,
    Group,
    Name,
    Location,
    /// No resource here has one.
    Tag,
}

/// The resources of which a filter, if there is one, is true.
pub(super) fn list(management: &Management, ask: &Ask) -> Result<Answer, Failure> {
    let filter = match ask.query.get("$filter").filter(|text| !text.trim().is_empty()) {
        None => Filter::default(),
        Some(text) => Filter::parse(text).ok_or_else(|| {
            Failure::bad(
                "InvalidFilterInQueryString",
                format!("Invalid $filter '{text}': it is PROPERTY eq 'VALUE', and more of these with 'and' between them; properties are resourceType, resourceGroup, name, location, tagName and tagValue."),
            )
        })?,
    };
    let accounts = management.catalog.accounts();
    let found = accounts.iter().filter(|account| filter.is_true_of(account, &management.group));
    let found: Vec<Value> = found.map(|account| told(management, account)).collect();
    Ok(answered(StatusCode::OK, &json!({ "value": found })))
}

fn told(management: &Management, account: &Account) -> Value {
    json!({
        "id": management.id(&format!("storageAccounts/{}", account.name)),
        "name": account.name,
        "type": accounts::TYPE,
        "location": location(account),
        "kind": account.kind.as_str(),
        "sku": accounts::sku(account),
        "tags": {},
        "provisioningState": "Succeeded",
    })
}

fn location(account: &Account) -> &str {
    account.location.as_ref().map_or(LOCAL, Region::as_str)
}

impl Filter {
    /// Reads one; `None` where it is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut terms = Vec::new();
        let mut rest = text.trim();
        loop {
            let (property, after) = rest.split_once(char::is_whitespace)?;
            let (equals, after) = after.trim_start().split_once(char::is_whitespace)?;
            let (value, after) = quoted(after.trim_start())?;
            if !equals.eq_ignore_ascii_case("eq") || terms.len() == TERMS_MAX {
                return None;
            }
            terms.push((Property::of(property)?, value));
            if after.trim().is_empty() {
                return Some(Filter(terms));
            }
            let (and, after) = after.strip_prefix(char::is_whitespace)?.trim_start().split_once(char::is_whitespace)?;
            if !and.eq_ignore_ascii_case("and") {
                return None;
            }
            rest = after.trim_start();
        }
    }

    fn is_true_of(&self, account: &Account, group: &str) -> bool {
        self.0.iter().all(|(property, value)| {
            let has = match property {
                Property::Type => accounts::TYPE,
                Property::Group => group,
                Property::Name => &account.name,
                Property::Location => location(account),
                Property::Tag => return false,
            };
            has.eq_ignore_ascii_case(value)
        })
    }
}

/// The text of a literal, in which a quote is doubled, and what stands behind it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('\'')?;
    let mut value = String::new();
    loop {
        let (part, after) = rest.split_once('\'')?;
        value.push_str(part);
        let Some(more) = after.strip_prefix('\'') else { return Some((value, after)) };
        value.push('\'');
        rest = more;
    }
}

impl Property {
    fn of(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "resourcetype" => Property::Type,
            "resourcegroup" => Property::Group,
            "name" => Property::Name,
            "location" => Property::Location,
            "tagname" | "tagvalue" => Property::Tag,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_what_properties_are() {
        let of = |text: &str| Filter::parse(text).map(|filter| filter.0);
        let term = |property, value: &str| (property, value.to_owned());
        assert_eq!(of("name eq 'it''s'"), Some(vec![term(Property::Name, "it's")]));
        assert_eq!(
            of(" NAME  EQ  ''  and Location eq 'a and b' "),
            Some(vec![term(Property::Name, ""), term(Property::Location, "a and b")])
        );
        let many = ["resourceType eq 'Microsoft.Storage/storageAccounts'"; TERMS_MAX];
        assert_eq!(of(&many.join(" and ")).map(|terms| terms.len()), Some(TERMS_MAX));
        assert_eq!(of(&format!("{} and name eq 'a'", many.join(" and "))), None);
        for wrong in [
            "",
            "name",
            "name eq",
            "name eq a",
            "name eq 'a",
            "name ne 'a'",
            "colour eq 'a'",
            "name eq 'a' or name eq 'b'",
            "name eq 'a' and",
            "name eq 'a'and name eq 'b'",
            "startswith(name, 'a')",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
