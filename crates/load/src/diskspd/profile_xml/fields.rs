//! The fields of an element: each of them once at most, and none that the schema does not have.

use std::ops::RangeInclusive;

use crate::diskspd::wrong;
use crate::diskspd::xml::Element;
use crate::engine::Failure;

/// An element whose children are fields.
pub(super) struct Fields<'a> {
    element: &'a Element,
}

impl<'a> Fields<'a> {
    /// The fields of an element that may have these.
    pub(super) fn of(element: &'a Element, known: &[&str]) -> Result<Self, Failure> {
        let mut seen: Vec<&str> = Vec::with_capacity(element.children.len());
        for child in &element.children {
            let name = child.name.as_str();
            if !known.contains(&name) {
                return Err(misplaced(child, element, known));
            }
            if seen.contains(&name) {
                return Err(at(child, format!("<{name}> is there a second time in <{}>", element.name), "keep one"));
            }
            seen.push(name);
        }
        attributes(element, &[])?;
        Ok(Fields { element })
    }

    /// A field that holds others.
    pub(super) fn child(&self, name: &str) -> Option<&'a Element> {
        self.element.children.iter().find(|child| child.name == name)
    }

    /// A field that holds others, or a complaint.
    pub(super) fn needed(&self, name: &str) -> Result<&'a Element, Failure> {
        let missing = || at(self.element, format!("<{}> has no <{name}>", self.element.name), "add it");
        self.child(name).ok_or_else(missing)
    }

    /// The text of a field.
    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, Failure> {
        self.child(name).map(text).transpose()
    }

    /// A field that is a number.
    pub(super) fn number(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, Failure> {
        self.child(name).map(|child| number(child, range)).transpose()
    }

    /// A field that is a number of 32 bits.
    pub(super) fn number32(&self, name: &str) -> Result<Option<u32>, Failure> {
        Ok(self.number(name, 0..=u64::from(u32::MAX))?.and_then(|number| u32::try_from(number).ok()))
    }

    /// A field that is true or false; false where it is missing.
    pub(super) fn boolean(&self, name: &str) -> Result<bool, Failure> {
        let Some(child) = self.child(name) else { return Ok(false) };
        match text(child)? {
            "true" | "True" | "TRUE" | "1" => Ok(true),
            "false" | "False" | "FALSE" | "0" => Ok(false),
            other => Err(at(child, format!("<{name}> is {other:?}"), "write true or false")),
        }
    }

    /// A complaint about a field.
    pub(super) fn wrong(&self, name: &str, what: impl Into<String>, remedy: impl Into<String>) -> Failure {
        at(self.child(name).unwrap_or(self.element), what, remedy)
    }
}

/// The elements of a list, all of this name.
pub(super) fn list<'a>(element: &'a Element, name: &str) -> Result<&'a [Element], Failure> {
    attributes(element, &[])?;
    match element.children.iter().find(|child| child.name != name) {
        Some(child) => Err(misplaced(child, element, &[name])),
        None => Ok(&element.children),
    }
}

/// The text of an element that holds no others.
pub(super) fn text(element: &Element) -> Result<&str, Failure> {
    match element.children.first() {
        Some(child) => Err(misplaced(child, element, &[])),
        None => Ok(&element.text),
    }
}

/// The number that an element holds.
pub(super) fn number(element: &Element, range: RangeInclusive<u64>) -> Result<u64, Failure> {
    number_of(element, &format!("<{}>", element.name), text(element)?, range)
}

/// The number that an attribute of an element is.
pub(super) fn attribute_number(element: &Element, name: &str, range: RangeInclusive<u64>) -> Result<u64, Failure> {
    let label = format!("{name} of <{}>", element.name);
    let missing = || at(element, format!("{label} is missing"), "add it");
    number_of(element, &label, attribute(element, name).ok_or_else(missing)?, range)
}

/// An attribute of an element.
pub(super) fn attribute<'a>(element: &'a Element, name: &str) -> Option<&'a str> {
    element.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// Checks that an element has no other attributes than these and the declarations of namespaces.
pub(super) fn attributes(element: &Element, known: &[&str]) -> Result<(), Failure> {
    let is_known = |name: &str| known.contains(&name) || name.starts_with("xmlns") || name.starts_with("xsi:");
    match element.attributes.iter().find(|(name, _)| !is_known(name)) {
        Some((name, _)) => {
            Err(at(element, format!("<{}> has no attribute {name}", element.name), "leave the attribute out"))
        }
        None => Ok(()),
    }
}

/// A complaint with its place.
pub(super) fn at(element: &Element, what: impl Into<String>, remedy: impl Into<String>) -> Failure {
    wrong(format!("line {}: {}", element.line, what.into()), remedy)
}

fn number_of(element: &Element, label: &str, text: &str, range: RangeInclusive<u64>) -> Result<u64, Failure> {
    let number = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    number.filter(|number| range.contains(number)).ok_or_else(|| {
        at(element, format!("{label} is {text:?}"), format!("write a number from {} to {}", range.start(), range.end()))
    })
}

fn misplaced(child: &Element, parent: &Element, known: &[&str]) -> Failure {
    let remedy = match known {
        [] => "leave it out; only text belongs there".to_owned(),
        known => format!("leave it out; what belongs there is {}", known.join(", ")),
    };
    at(child, format!("<{}> is no part of <{}>", child.name, parent.name), remedy)
}
