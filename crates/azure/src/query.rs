//! The part of a URL behind its question mark.

use control::{NoSnapshotTime, SnapshotTime};
use percent_encoding::percent_decode_str;

use crate::failure::{Code, Failure};

/// Parameters by their names in lower case, each with its decoded value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads it. A `+` is a plus sign, as the service's clients mean it.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?.to_lowercase(), decoded(value)?);
            // What is signed has line breaks between them: one signature would be that of two requests.
            if name.contains(char::is_control) || value.contains(char::is_control) {
                let message = "A parameter of the URL has a control character.";
                return Err(Failure::new(Code::InvalidQueryParameterValue, message));
            }
            Ok((name, value))
        });
        pairs.collect::<Result<_, _>>().map(Query)
    }

    /// The value of a parameter, the first where it is given twice.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The snapshot of a share that this parameter names. Fails where it names none that there can be, or more than one: what is asked of a snapshot
    /// is never done to the share itself.
    pub(crate) fn snapshot(&self, name: &str) -> Result<Option<SnapshotTime>, Failure> {
        let wrong = || {
            let message = format!("{name} is not one snapshot's time: {NoSnapshotTime}.");
            Failure::new(Code::InvalidQueryParameterValue, message)
        };
        let named = self.get(name).map(|text| text.parse().map_err(|_| wrong())).transpose()?;
        if self.count(name) > 1 { Err(wrong()) } else { Ok(named) }
    }

    /// How often a parameter is given.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.0.iter().filter(|(known, _)| known == name).count()
    }

    /// All parameters as a signature has them: by name, values of one name sorted and with commas between them.
    pub(crate) fn canonical(&self) -> Vec<(&str, String)> {
        let mut sorted: Vec<(&str, &str)> = self.0.iter().map(|(name, value)| (&**name, &**value)).collect();
        sorted.sort_unstable();
        let mut canonical: Vec<(&str, String)> = Vec::new();
        for (name, value) in sorted {
            match canonical.last_mut() {
                Some((last, values)) if *last == name => {
                    values.push(',');
                    values.push_str(value);
                }
                _ => canonical.push((name, value.to_owned())),
            }
        }
        canonical
    }
}

/// Decodes `%41`; fails where that is no UTF-8.
pub(crate) fn decoded(text: &str) -> Result<String, Failure> {
    let text = percent_decode_str(text).decode_utf8();
    text.map(Into::into).map_err(|_| Failure::new(Code::InvalidUri, "The URL has bytes that are no UTF-8."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_by_their_names_in_any_case() {
        let query = Query::parse("restype=share&COMP=list&prefix=a%2Fb+c&include=").unwrap();
        assert_eq!(query.get("restype"), Some("share"));
        assert_eq!(query.get("comp"), Some("list"));
        assert_eq!(query.get("prefix"), Some("a/b+c"));
        assert_eq!((query.get("include"), query.get("marker")), (Some(""), None));
    }

    #[test]
    fn nothing_that_is_signed_has_line_breaks_of_its_own() {
        for text in ["comp=list&prefix=x%0Arestype%3Adirectory", "a%0Ab=c", "a=%00", "a=%7F"] {
            assert_eq!(Query::parse(text).unwrap_err().code, Code::InvalidQueryParameterValue, "{text}");
        }
    }

    #[test]
    fn values_of_one_name_are_signed_together_and_in_order() {
        let query = Query::parse("b=2&a=x&B=1&c").unwrap();
        let wanted = [("a", "x"), ("b", "1,2"), ("c", "")].map(|(name, value)| (name, value.to_owned()));
        assert_eq!(query.canonical(), wanted);
    }

    #[test]
    fn a_snapshot_is_named_by_one_time_and_in_one_way() {
        let named = |text: &str| Query::parse(text).unwrap().snapshot("sharesnapshot").map_err(|failure| failure.code);
        assert_eq!(named("restype=share"), Ok(None));
        let time = "2026-11-30T20:14:15.1234567Z";
        assert_eq!(named(&format!("ShareSnapshot={time}")).unwrap().unwrap().to_string(), time);
        let twice = format!("sharesnapshot={time}&sharesnapshot={time}");
        for wrong in [
            "sharesnapshot=",
            "sharesnapshot",
            "sharesnapshot=2026-11-30T20:14:15Z",
            "sharesnapshot=2026-11-30T20:14:15.123456Z",
            "sharesnapshot=2026-11-30T20:14:15.12345678Z",
            "sharesnapshot=2026-11-30T21:14:15.1234567%2B01:00",
            "sharesnapshot=2026-11-30%2020:14:15.1234567Z",
            "sharesnapshot=2026-13-30T20:14:15.1234567Z",
            "sharesnapshot=..%2F..%2Fcatalog.db",
            "sharesnapshot=now",
            &twice,
        ] {
            assert_eq!(named(wrong), Err(Code::InvalidQueryParameterValue), "{wrong}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        assert_eq!(Query::parse("a=%ff").unwrap_err().code, Code::InvalidUri);
    }
}
