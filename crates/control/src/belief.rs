//! How long is believed what is known of a share's files where nobody tells that others have changed them.

use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use store::Belief;

use crate::Error;
use crate::catalog::Source;

/// Who wants to believe longer promises that nobody else changes the folder.
const TIME_MAX: Duration = Duration::from_secs(60);

/// For how long something is believed: whole milliseconds, from none to a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BelievedFor(Duration);

impl FromStr for BelievedFor {
    type Err = Error;

    /// Reads a time with its unit, such as `1s` or `500ms`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let time = text.parse::<SignedDuration>().ok().and_then(|time| Duration::try_from(time).ok());
        let time = time.filter(|time| *time <= TIME_MAX && time.subsec_nanos().is_multiple_of(1_000_000));
        time.map(BelievedFor).ok_or_else(|| {
            Error::argument(
                format!("{text:?} is no time for which something can be believed"),
                "use 0s to 60s in whole milliseconds, such as 1s or 500ms; with 0s the file system is asked each time",
            )
        })
    }
}

/// What to change about how long a share's files are believed to be as they are known; `None` leaves a thing as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BeliefChanges {
    /// Nobody but this server changes the folder, or others may.
    pub exclusive: Option<bool>,
    /// What others may change is believed for so long.
    pub believed: Option<BelievedFor>,
}

impl BeliefChanges {
    /// What holds of a new share.
    pub(crate) fn of_new(self, source: &Source) -> Result<Belief, Error> {
        self.over(source, Belief::default())
    }

    /// What holds of a share of which `before` did.
    pub(crate) fn over(self, source: &Source, before: Belief) -> Result<Belief, Error> {
        match (source, self.exclusive, self.believed) {
            (Source::Ram { .. }, None, None) => Ok(Belief::Lasting),
            (Source::Ram { .. }, _, _) => Err(ram_is_exclusive()),
            (Source::Folder { .. }, None, None) => Ok(before),
            (Source::Folder { .. }, Some(true), None) => Ok(Belief::Lasting),
            (Source::Folder { .. }, Some(true), Some(_)) => Err(both_said()),
            (Source::Folder { .. }, Some(false), None) => {
                Ok(if before == Belief::Lasting { Belief::default() } else { before })
            }
            (Source::Folder { .. }, None, Some(_)) if before == Belief::Lasting => Err(is_exclusive()),
            (Source::Folder { .. }, Some(false) | None, Some(time)) => Ok(Belief::For(time.0)),
        }
    }
}

/// A belief as the catalog keeps it.
pub(crate) fn to_milliseconds(belief: Belief) -> Option<u32> {
    match belief {
        Belief::Lasting => None,
        Belief::For(time) => Some(u32::try_from(time.as_millis()).unwrap_or(u32::MAX)),
    }
}

/// The same the other way.
pub(crate) fn of_milliseconds(milliseconds: Option<u32>) -> Belief {
    milliseconds.map_or(Belief::Lasting, |milliseconds| Belief::For(Duration::from_millis(milliseconds.into())))
}

fn ram_is_exclusive() -> Error {
    Error::argument(
        "nobody but the server can change a RAM disk, so what is known of it holds anyway",
        "leave out --exclusive and --believed",
    )
}

fn both_said() -> Error {
    Error::argument(
        "what is known of an exclusive share is believed until the server changes it, and not for a time",
        "leave out --exclusive or --believed",
    )
}

fn is_exclusive() -> Error {
    Error::conflict(
        "the share is exclusive: what is known of it is believed until the server changes it, and not for a time",
        "give --exclusive false, too",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fault;

    #[test]
    fn times_are_read_with_their_unit() {
        for (text, milliseconds) in
            [("0s", 0), ("1s", 1_000), ("500ms", 500), ("1.5s", 1_500), ("60s", 60_000), ("1m", 60_000)]
        {
            assert_eq!(text.parse(), Ok(BelievedFor(Duration::from_millis(milliseconds))), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_or_too_long_or_too_fine_is_refused_with_what_is_allowed() {
        for text in
            ["", "1", "s", "soon", "-1s", "1s ago", "61s", "60001ms", "1h", "1us", "1.5ms", "99999999999999999999s"]
        {
            let error = text.parse::<BelievedFor>().unwrap_err();
            assert!(error.fault() == Fault::Argument && error.remedy().contains("0s to 60s"), "{error}");
        }
    }

    #[test]
    fn each_belief_follows_from_what_was_and_what_is_said() {
        let folder = Source::Folder { path: "/files".into(), quota_gib: None };
        let five = Belief::For(Duration::from_secs(5));
        let over = |before, exclusive, believed: Option<&str>| {
            let believed = believed.map(|text| text.parse().unwrap());
            BeliefChanges { exclusive, believed }.over(&folder, before).map_err(|error| error.fault())
        };
        for (before, exclusive, believed, after) in [
            (five, None, None, Ok(five)),
            (five, Some(false), None, Ok(five)),
            (five, Some(true), None, Ok(Belief::Lasting)),
            (five, None, Some("0s"), Ok(Belief::For(Duration::ZERO))),
            (five, Some(true), Some("1s"), Err(Fault::Argument)),
            (Belief::Lasting, None, None, Ok(Belief::Lasting)),
            (Belief::Lasting, Some(false), None, Ok(Belief::default())),
            (Belief::Lasting, Some(false), Some("5s"), Ok(five)),
            (Belief::Lasting, None, Some("5s"), Err(Fault::Conflict)),
        ] {
            assert_eq!(over(before, exclusive, believed), after, "{before:?} {exclusive:?} {believed:?}");
        }
    }
}
