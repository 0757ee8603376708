//! What a change is called by each of those who watch directories above it: the end of its path, which is longer the higher they are.
//! Their names share one text, so that a change far down costs its path once and not once for each of them.

use std::ops::Deref;
use std::sync::Arc;

use store::SharePath;

/// A name that may be the end of a longer text. The text is less than twice as long, so that a name which is kept alone does not hold much
/// more than itself.
#[derive(Clone, Debug)]
pub(super) struct SharedName {
    text: Arc<str>,
    from: usize,
    /// As it is sent.
    units: usize,
}

/// The names of one change, from the root down.
pub(super) struct Names<'a> {
    /// The way from the directory reached to the one that changed.
    way: &'a str,
    /// What is at its end.
    end: [&'a str; 3],
    level: usize,
    /// As seen from the directory reached, where it was asked for here or above.
    last: Option<SharedName>,
}

impl SharedName {
    pub(super) fn new(text: &str) -> Self {
        SharedName { units: text.encode_utf16().count(), text: text.into(), from: 0 }
    }

    /// How many UTF-16 code units it has.
    pub(super) fn units(&self) -> usize {
        self.units
    }

    /// How many bytes stay for its sake.
    pub(super) fn held_bytes(&self) -> usize {
        self.text.len()
    }

    /// The same without its first bytes.
    fn without(mut self, bytes: usize) -> Self {
        let rest = self.from + bytes;
        self.units -= self.text[self.from..rest].encode_utf16().count();
        self.from = rest;
        self
    }

    fn is_most_of_its_text(&self) -> bool {
        2 * self.len() > self.text.len()
    }
}

impl Deref for SharedName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text[self.from..]
    }
}

impl<'a> Names<'a> {
    /// For `name` in the directory `parent`, or a stream of it.
    pub(super) fn new(parent: &'a SharePath, name: &'a str, stream: Option<&'a str>) -> Self {
        let end = match stream {
            Some(stream) => [name, ":", stream],
            None => [name, "", ""],
        };
        Names { way: parent.as_str(), end, level: 0, last: None }
    }

    /// As who watches the directory `level` steps below the root sees it. Levels only grow.
    pub(super) fn seen_from(&mut self, level: usize) -> SharedName {
        let mut passed = 0;
        while self.level < level {
            let (first, rest) = self.way.split_once('\\').unwrap_or((self.way, ""));
            passed += first.len() + 1;
            self.way = rest;
            self.level += 1;
        }
        let shared = self.last.take().map(|name| name.without(passed)).filter(SharedName::is_most_of_its_text);
        let name = shared.unwrap_or_else(|| SharedName::new(&self.text()));
        self.last = Some(name.clone());
        name
    }

    fn text(&self) -> String {
        let separator = if self.way.is_empty() { "" } else { "\\" };
        let [name, colon, stream] = self.end;
        [self.way, separator, name, colon, stream].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_seen_from_each_directory_on_its_way() {
        let parent = SharePath::parse("Ünter\\𝄞\\c").unwrap();
        let seen = |stream, levels: &[usize]| {
            let mut names = Names::new(&parent, "file", stream);
            let seen: Vec<_> = levels.iter().map(|level| names.seen_from(*level)).collect();
            seen.iter().for_each(|name| assert_eq!(name.units(), name.encode_utf16().count()));
            seen.iter().map(|name| name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(seen(None, &[0, 1, 2, 3]), ["Ünter\\𝄞\\c\\file", "𝄞\\c\\file", "c\\file", "file"]);
        assert_eq!(seen(Some("s"), &[1, 3, 3]), ["𝄞\\c\\file:s", "file:s", "file:s"]);
        assert_eq!(&*Names::new(&SharePath::root(), "file", None).seen_from(0), "file");
    }

    #[test]
    fn the_names_of_a_change_far_down_are_built_from_a_few_texts() {
        let (levels, parent) = (2_040, SharePath::parse(&["a"; 2_040].join("\\")).unwrap());
        let mut names = Names::new(&parent, "file", None);
        let seen: Vec<_> = (0..=levels).map(|level| names.seen_from(level)).collect();
        let (mut built, mut last) = (0, None);
        for name in &seen {
            if last.is_none_or(|last| !Arc::ptr_eq(last, &name.text)) {
                built += name.text.len();
            }
            last = Some(&name.text);
            assert!(name.held_bytes() < 2 * name.len(), "who keeps it holds not much more");
        }
        assert!(built < 3 * seen[0].len(), "{built}");
        assert_eq!(&*seen[levels], "file");
    }
}
