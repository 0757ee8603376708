//! Filters as Azure Monitor has them: `ApiName eq '*' and FileShare eq 'media'`.

use std::collections::BTreeMap;

use crate::monitor::metric::Dimension;

/// Bytes in a filter.
const LENGTH_MAX: usize = 4096;

/// What is asked of one dimension.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    /// Each value gets a series of its own.
    splits: bool,
    /// One of these, where there are some,
    one_of: Vec<String>,
    /// and none of these.
    none_of: Vec<String>,
}

/// Which numbers are asked for, and what they are told apart by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter(BTreeMap<Dimension, Wanted>);

/// Why a text is no filter: a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoFilter(String);

impl Filter {
    /// Reads conditions `NAME eq 'VALUE'` or `NAME ne 'VALUE'`, with `and` between them, and `or` between those of one dimension. The value `*` stands for each
    /// by itself; a quotation mark in a value is written twice.
    pub fn parse(text: &str) -> Result<Self, NoFilter> {
        if text.len() > LENGTH_MAX {
            return Err(NoFilter(format!("a filter has at most {LENGTH_MAX} bytes")));
        }
        let mut words = Words(text);
        let mut filter = Filter::default();
        let mut before: Option<(Dimension, String)> = None;
        loop {
            let name = words.next()?.ok_or_else(|| NoFilter(expected("the name of a dimension", None)))?;
            let Word::Plain(name) = name else {
                return Err(NoFilter(expected("the name of a dimension", Some(&name))));
            };
            let dimension = Dimension::of(&name).ok_or_else(|| NoFilter(unknown(&name)))?;
            match &before {
                Some((other, word)) if word == "or" && *other != dimension => {
                    return Err(NoFilter(
                        "`or` stands between conditions of one dimension, `and` between others".to_owned(),
                    ));
                }
                _ => {}
            }
            let is_equal = match words.next()? {
                Some(Word::Plain(word)) if word.eq_ignore_ascii_case("eq") => true,
                Some(Word::Plain(word)) if word.eq_ignore_ascii_case("ne") => false,
                other => return Err(NoFilter(expected("`eq` or `ne`", other.as_ref()))),
            };
            let value = match words.next()? {
                Some(Word::Quoted(value)) => value,
                other => return Err(NoFilter(expected("a value in single quotation marks", other.as_ref()))),
            };
            let wanted = filter.0.entry(dimension).or_default();
            match (is_equal, value.as_str()) {
                (true, "*") => wanted.splits = true,
                (false, "*") => return Err(NoFilter("`ne '*'` would leave nothing".to_owned())),
                (true, _) => wanted.one_of.push(value),
                (false, _) => wanted.none_of.push(value),
            }
            match words.next()? {
                None => return Ok(filter),
                Some(Word::Plain(word)) if ["and", "or"].iter().any(|one| word.eq_ignore_ascii_case(one)) => {
                    before = Some((dimension, word.to_ascii_lowercase()));
                }
                Some(other) => return Err(NoFilter(expected("`and`, `or` or the end", Some(&other)))),
            }
        }
    }

    /// The dimensions that are named.
    pub fn dimensions(&self) -> impl Iterator<Item = Dimension> {
        self.0.keys().copied()
    }

    /// The values of a dimension of which one is asked for; none where that does not matter.
    pub fn values(&self, dimension: Dimension) -> &[String] {
        self.0.get(&dimension).map_or(&[], |wanted| &wanted.one_of)
    }

    /// The dimensions whose values have series of their own: those of which more than one value is asked for.
    pub(crate) fn split_by(&self) -> Vec<Dimension> {
        let is_split = |wanted: &Wanted| wanted.splits || wanted.one_of.len() != 1;
        self.0.iter().filter(|(_, wanted)| is_split(wanted)).map(|(dimension, _)| *dimension).collect()
    }

    /// Whether a value of a dimension is asked for.
    pub(crate) fn takes(&self, dimension: Dimension, value: &str) -> bool {
        self.0.get(&dimension).is_none_or(|wanted| {
            let is_in = |list: &[String]| list.iter().any(|one| one.eq_ignore_ascii_case(value));
            (wanted.splits || wanted.one_of.is_empty() || is_in(&wanted.one_of)) && !is_in(&wanted.none_of)
        })
    }
}

fn expected(what: &str, found: Option<&Word>) -> String {
    let found = match found {
        None => "its end".to_owned(),
        Some(Word::Plain(word)) => format!("`{word}`"),
        Some(Word::Quoted(value)) => format!("'{value}'"),
    };
    format!("a filter has {what} where this one has {found}; such as ApiName eq '*' and FileShare eq 'media'")
}

fn unknown(name: &str) -> String {
    let known: Vec<_> = Dimension::ALL.iter().map(|one| one.name()).collect();
    format!("{name} is no dimension; there are {}", known.join(", "))
}

enum Word {
    Plain(String),
    Quoted(String),
}

/// What is left of a filter.
struct Words<'a>(&'a str);

impl Words<'_> {
    fn next(&mut self) -> Result<Option<Word>, NoFilter> {
        self.0 = self.0.trim_start();
        let Some(quoted) = self.0.strip_prefix('\'') else {
            let end = self.0.find(|c: char| c.is_whitespace() || c == '\'').unwrap_or(self.0.len());
            let (word, rest) = self.0.split_at(end);
            self.0 = rest;
            return Ok((!word.is_empty()).then(|| Word::Plain(word.to_owned())));
        };
        let mut value = String::new();
        let mut rest = quoted;
        loop {
            let (before, after) =
                rest.split_once('\'').ok_or_else(|| NoFilter("a value has no quotation mark at its end".to_owned()))?;
            value.push_str(before);
            match after.strip_prefix('\'') {
                Some(after) => {
                    value.push('\'');
                    rest = after;
                }
                None => {
                    self.0 = after;
                    return Ok(Some(Word::Quoted(value)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_choose_and_split() {
        let filter =
            Filter::parse("ApiName eq '*' and fileshare EQ 'media' and Authentication ne 'Anonymous'").unwrap();
        assert_eq!(filter.split_by(), [Dimension::ApiName, Dimension::Authentication]);
        assert!(filter.takes(Dimension::ApiName, "Read") && filter.takes(Dimension::FileShare, "MEDIA"));
        assert!(!filter.takes(Dimension::FileShare, "other") && !filter.takes(Dimension::Authentication, "Anonymous"));
        assert!(filter.takes(Dimension::ResponseType, "Success"));
        let either = Filter::parse("ApiName eq 'Read' or ApiName eq 'it''s'").unwrap();
        assert!(either.takes(Dimension::ApiName, "it's") && !either.takes(Dimension::ApiName, "Write"));
        assert_eq!(either.split_by(), [Dimension::ApiName]);
    }

    #[test]
    fn what_is_no_filter_is_refused_with_a_sentence() {
        let texts = [
            ("", "the name of a dimension"),
            ("Color eq 'red'", "Color is no dimension; there are ResponseType"),
            ("ApiName", "`eq` or `ne` where this one has its end"),
            ("ApiName = 'x'", "where this one has `=`"),
            ("ApiName eq Read", "where this one has `Read`"),
            ("ApiName eq 'Read", "no quotation mark at its end"),
            ("ApiName eq 'Read' and", "the name of a dimension"),
            ("ApiName eq 'Read' FileShare eq 'x'", "`and`, `or` or the end"),
            ("ApiName eq 'Read' or FileShare eq 'x'", "`or` stands between"),
            ("ApiName ne '*'", "would leave nothing"),
        ];
        for (text, why) in texts {
            let refused = Filter::parse(text).unwrap_err().to_string();
            assert!(refused.contains(why), "{text}: {refused}");
        }
        assert!(Filter::parse(&"x".repeat(5000)).is_err());
    }
}
