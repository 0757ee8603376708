//! What operators do on the page. All of it is one request of JSON, with the session's secret; closing is done by one thread, and what may wait for the catalog by another.

use std::num::NonZeroU32;
use std::sync::Arc;

use control::{AccountName, By, Error, LimitChanges, ShareName};
use serde::{Deserialize, Deserializer};
use server::admin::Multichannel;

use crate::page::answer::Refusal;
use crate::page::source::PageSource;

/// What is to be done.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Operation {
    CloseSession {
        /// Its number as text: JavaScript rounds those that use all 64 bits.
        id: String,
    },
    CloseOpen {
        id: String,
    },
    /// Limits of a share: those that are named, of which null is none.
    ChangeLimits {
        share: String,
        #[serde(default, deserialize_with = "named")]
        iops_max: Option<Option<NonZeroU32>>,
        #[serde(default, deserialize_with = "named")]
        mibps_max: Option<Option<NonZeroU32>>,
        #[serde(default, deserialize_with = "named")]
        user_iops_max: Option<Option<NonZeroU32>>,
        #[serde(default, deserialize_with = "named")]
        user_mibps_max: Option<Option<NonZeroU32>>,
    },
    SwitchMultichannel {
        account: String,
        on: bool,
    },
}

impl Operation {
    /// Whether it closes something, for which nothing has to be waited.
    pub(crate) fn is_closing(&self) -> bool {
        match self {
            Operation::CloseSession { .. } | Operation::CloseOpen { .. } => true,
            Operation::ChangeLimits { .. } | Operation::SwitchMultichannel { .. } => false,
        }
    }

    /// Does it, as what `operator` wanted.
    pub(crate) fn run(self, source: &Arc<PageSource>, operator: &str) -> Result<(), Error> {
        let (operations, by) = (&source.operations, By::Operator(operator));
        match self {
            Operation::CloseSession { id } => operations.close_session(by, number(&id)?),
            Operation::CloseOpen { id } => operations.close_open(by, number(&id)?),
            Operation::ChangeLimits { share, iops_max, mibps_max, user_iops_max, user_mibps_max } => {
                let limits = LimitChanges { iops_max, mibps_max, user_iops_max, user_mibps_max };
                let share = share.parse::<ShareName>()?;
                let is_of_share = [iops_max, mibps_max].into_iter().flatten().any(|limit| limit.is_some());
                if is_of_share && is_provisioned(source, &share) {
                    return Err(limits_of_provisioned(&share, &source.of_data));
                }
                operations.change_limits(by, &share, limits)
            }
            Operation::SwitchMultichannel { account, on } => {
                let to = if on { Multichannel::On } else { Multichannel::Off };
                operations.switch_multichannel(by, &account.parse::<AccountName>()?, to)
            }
        }
    }
}

fn is_provisioned(source: &PageSource, share: &ShareName) -> bool {
    source.shares.read().iter().any(|one| one.share == share.as_str() && one.provisioned.is_some())
}

/// `of_data` are the arguments that lead a command to the server's data folder.
fn limits_of_provisioned(share: &ShareName, of_data: &str) -> Error {
    Error::conflict(
        format!("share {share} is provisioned: that is the limit of the share as a whole"),
        format!(
            "leave IOPS and MiB/s of the share empty here; those of each user may be set. What it is provisioned with is changed in a \
             terminal, by `multilane{of_data} share update {share} --provisioned GIB`, where its account is of v2 also by --iops and --mibps"
        ),
    )
}

/// What is named, null or not.
fn named<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<NonZeroU32>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

fn number(text: &str) -> Result<u64, Error> {
    digits(text).ok_or_else(|| Error::argument(format!("{text:?} is no number"), "use one from the list"))
}

/// A number of digits and nothing else.
pub(crate) fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// What options of commands are called on the page.
const FIELDS: [(&str, &str); 4] = [
    ("--user-iops-max", "IOPS of each user"),
    ("--user-mibps-max", "MiB/s of each user"),
    ("--iops-max", "IOPS of the share"),
    ("--mibps-max", "MiB/s of the share"),
];

/// Why something was not done, in words and sentences of the page.
pub(crate) fn refusal(error: Error) -> Refusal {
    let refusal = Refusal::from(error);
    let [what, remedy] = [refusal.what, refusal.remedy].map(|text| sentence(&text));
    Refusal { what, remedy, ..Refusal::new(refusal.status, "", "") }
}

fn sentence(text: &str) -> String {
    let text = FIELDS.into_iter().fold(text.to_owned(), |text, (option, field)| text.replace(option, field));
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_understood_is_one_of_four_things_and_whole() {
        let parsed = |text: &str| serde_json::from_str::<Operation>(text).ok();
        let close = parsed(r#"{"do":"close-session","id":"18446744073709551615"}"#);
        assert_eq!(close, Some(Operation::CloseSession { id: u64::MAX.to_string() }));
        let limits = parsed(r#"{"do":"change-limits","share":"a","iops_max":10,"mibps_max":null}"#);
        let (iops_max, mibps_max) = (Some(NonZeroU32::new(10)), Some(None));
        let share = "a".to_owned();
        let wanted = Operation::ChangeLimits { share, iops_max, mibps_max, user_iops_max: None, user_mibps_max: None };
        assert_eq!(limits, Some(wanted), "what is not named stays as it is");
        for wrong in [
            "{}",
            r#"{"do":"close-session"}"#,
            r#"{"do":"close-session","id":7}"#,
            r#"{"do":"close-session","id":"7","and":1}"#,
            r#"{"do":"change-limits","share":"a","iops_max":0}"#,
            r#"{"do":"change-limits","share":"a","iops_max":-1}"#,
            r#"{"do":"stop"}"#,
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_number_is_digits_alone() {
        assert_eq!([digits("7"), digits("007"), digits("18446744073709551615")], [Some(7), Some(7), Some(u64::MAX)]);
        assert!(
            ["", "+7", "-7", " 7", "7 ", "7.0", "0x7", "18446744073709551616"]
                .iter()
                .all(|wrong| digits(wrong).is_none())
        );
    }

    #[test]
    fn refusals_speak_of_the_page() {
        let told = refusal(Error::argument("--user-iops-max cannot be 9", "use 10 to 10000000 IOPS"));
        assert_eq!(
            (told.what.as_str(), told.remedy.as_str()),
            ("IOPS of each user cannot be 9.", "Use 10 to 10000000 IOPS.")
        );
    }
}
