//! Which names a search pattern means (MS-FSA 2.1.4.4).
//!
//! A pattern is followed as a set of positions, a bit each, once for each unit of the name: a word of 64 positions at a time.

use std::collections::HashMap;

/// The most UTF-16 units in a pattern. A name has 255 at most; the rest leaves room for wildcards between them.
pub const PATTERN_UNITS_MAX: usize = 511;
/// Words that hold one bit for every position in a pattern, the end included.
const WORDS: usize = (PATTERN_UNITS_MAX + 1) / u64::BITS as usize;
const DOT: u16 = b'.' as u16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// `*`: any number of characters.
    Star,
    /// `<`, DOS_STAR: any number of characters, the last `.` of the name not among them.
    DosStar,
    /// `>`, DOS_QM: one character, or none before a `.` and at the end.
    DosQuestion,
    /// `"`, DOS_DOT: a `.`, or none at the end.
    DosDot,
    /// `?`: one character.
    Question,
    /// Itself.
    Literal(u16),
}

/// A search pattern, ready to be matched against many names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    units: Vec<Unit>,
    everything: bool,
}

/// A pattern at work: what it takes to match names quickly, which is up to 40 KiB of a long one.
pub struct Matcher<'a> {
    pattern: &'a Pattern,
    masks: Masks,
    /// How many words have a bit for a position in it.
    words: usize,
}

impl Pattern {
    /// Makes a pattern of `text`. `fold` gives a character the form in which names compare: upper case, or the
    /// character itself where case matters. `None` for a text of more than [`PATTERN_UNITS_MAX`] units.
    pub fn new(text: &str, fold: impl Fn(char) -> char) -> Option<Pattern> {
        let mut units = Vec::new();
        for unit in folded_units(text, &fold).map(|(_, unit)| Unit::of(unit)) {
            if unit == Unit::Star && units.last() == Some(&Unit::Star) {
                continue;
            }
            if units.len() == PATTERN_UNITS_MAX {
                return None;
            }
            units.push(unit);
        }
        let everything = units == [Unit::Star] || text == "*.*";
        Some(Pattern { units, everything })
    }

    /// True where every name matches.
    pub fn matches_everything(&self) -> bool {
        self.everything
    }

    /// True where the pattern can mean one name only.
    pub fn is_literal(&self) -> bool {
        self.units.iter().all(|unit| matches!(unit, Unit::Literal(_)))
    }

    /// What matches names. It is made for many of them, and costs as much as a few.
    pub fn matcher(&self) -> Matcher<'_> {
        let masks = if self.everything { Masks::default() } else { Masks::of(&self.units) };
        Matcher { pattern: self, masks, words: self.units.len() / u64::BITS as usize + 1 }
    }

    /// True where `name` is one that the pattern means. `fold` is that of [`Pattern::new`].
    pub fn matches(&self, name: &str, fold: impl Fn(char) -> char) -> bool {
        self.matcher().matches(name, fold)
    }
}

impl Matcher<'_> {
    /// What it costs to match a name of `bytes`, where 1 is what most names and patterns cost.
    pub fn cost(&self, bytes: usize) -> usize {
        if self.pattern.everything { 1 } else { 1 + self.words * bytes / 256 }
    }

    /// True where `name` is one that the pattern means. `fold` is that of [`Pattern::new`].
    pub fn matches(&self, name: &str, fold: impl Fn(char) -> char) -> bool {
        if self.pattern.everything {
            return true;
        }
        if name.is_empty() || self.pattern.units.is_empty() {
            return name.is_empty() && self.pattern.units.is_empty();
        }
        let last_dot = name.rfind('.');
        let mut positions = Positions::default();
        positions.insert(0);
        for (offset, unit) in folded_units(name, &fold) {
            positions = self.step(positions, unit, Some(offset) == last_dot);
            if positions.is_empty() {
                return false;
            }
        }
        self.ends(positions)
    }

    /// The positions after one more unit of the name.
    fn step(&self, mut from: Positions, unit: u16, is_last_dot: bool) -> Positions {
        let masks = &self.masks;
        let (skipped, taken) = match unit {
            DOT => (&masks.optional_at_dot, &masks.taken_by_dot),
            _ => (&masks.stars, masks.literals.get(&unit).unwrap_or(&masks.taken_by_any)),
        };
        from.skip(skipped, self.words);
        let mut to = Positions::default();
        let mut carry = 0;
        for word in 0..self.words {
            let stays = if is_last_dot { masks.plain_stars.0[word] } else { masks.stars.0[word] };
            let moves = from.0[word] & taken.0[word];
            to.0[word] = from.0[word] & stays | moves << 1 | carry;
            carry = moves >> (u64::BITS - 1);
        }
        to
    }

    /// True where one of the positions reaches the pattern's end without another unit of the name.
    fn ends(&self, mut positions: Positions) -> bool {
        positions.skip(&self.masks.optional_at_end, self.words);
        positions.contains(self.pattern.units.len())
    }
}

/// Where in a pattern there is what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Masks {
    /// `*`.
    plain_stars: Positions,
    /// `*` and `<`.
    stars: Positions,
    /// What a `.` may come behind without taking it.
    optional_at_dot: Positions,
    /// What the end may come behind.
    optional_at_end: Positions,
    /// What takes a `.`.
    taken_by_dot: Positions,
    /// What takes a unit that stands nowhere in the pattern.
    taken_by_any: Positions,
    /// What takes a unit that does.
    literals: HashMap<u16, Positions>,
}

impl Masks {
    fn of(units: &[Unit]) -> Masks {
        let mut masks = Masks::default();
        for (position, unit) in units.iter().enumerate() {
            let in_all: &mut [&mut Positions] = match unit {
                Unit::Star => &mut [
                    &mut masks.plain_stars,
                    &mut masks.stars,
                    &mut masks.optional_at_dot,
                    &mut masks.optional_at_end,
                ],
                Unit::DosStar => &mut [&mut masks.stars, &mut masks.optional_at_dot, &mut masks.optional_at_end],
                Unit::DosQuestion => {
                    &mut [&mut masks.optional_at_dot, &mut masks.optional_at_end, &mut masks.taken_by_any]
                }
                Unit::DosDot => &mut [&mut masks.optional_at_end, &mut masks.taken_by_dot],
                Unit::Question => &mut [&mut masks.taken_by_dot, &mut masks.taken_by_any],
                Unit::Literal(DOT) => &mut [&mut masks.taken_by_dot],
                Unit::Literal(literal) => &mut [masks.literals.entry(*literal).or_default()],
            };
            in_all.iter_mut().for_each(|mask| mask.insert(position));
        }
        // A unit of the pattern is taken by what takes any, too.
        let any = masks.taken_by_any;
        masks.literals.values_mut().for_each(|mask| mask.add(&any));
        masks
    }
}

impl Unit {
    fn of(unit: u16) -> Unit {
        match u8::try_from(unit) {
            Ok(b'*') => Unit::Star,
            Ok(b'<') => Unit::DosStar,
            Ok(b'>') => Unit::DosQuestion,
            Ok(b'"') => Unit::DosDot,
            Ok(b'?') => Unit::Question,
            _ => Unit::Literal(unit),
        }
    }
}

/// Characters that stand for others (MS-FSA 2.1.4.3).
pub const WILDCARDS: [char; 5] = ['*', '?', '<', '>', '"'];

/// True where `text` has one of [`WILDCARDS`].
pub fn has_wildcards(text: &str) -> bool {
    text.contains(WILDCARDS)
}

/// The units of the folded text, each with its character's byte offset in `text`.
fn folded_units(text: &str, fold: &impl Fn(char) -> char) -> impl Iterator<Item = (usize, u16)> {
    text.char_indices().flat_map(move |(offset, c)| {
        let mut room = [0; 2];
        let count = fold(c).encode_utf16(&mut room).len();
        room.into_iter().take(count).map(move |unit| (offset, unit))
    })
}

/// A set of positions in a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Positions([u64; WORDS]);

impl Positions {
    fn insert(&mut self, position: usize) {
        self.0[position / 64] |= 1 << (position % 64);
    }

    fn contains(&self, position: usize) -> bool {
        self.0[position / 64] & (1 << (position % 64)) != 0
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    fn add(&mut self, others: &Positions) {
        self.0.iter_mut().zip(others.0).for_each(|(word, other)| *word |= other);
    }

    /// Adds what is reached from these by passing over `skipped`, in the first `words`. Added to a row of ones, a bit is carried to the
    /// row's end: what differs then is what it passed.
    fn skip(&mut self, skipped: &Positions, words: usize) {
        let mut carry = false;
        for (word, row) in self.0.iter_mut().zip(skipped.0).take(words) {
            let (sum, over) = row.overflowing_add(*word & row);
            let (sum, over_by_carry) = sum.overflowing_add(carry.into());
            *word |= row ^ sum;
            carry = over || over_by_carry;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upper(c: char) -> char {
        c.to_ascii_uppercase()
    }

    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::new(pattern, upper).unwrap().matches(name, upper)
    }

    #[test]
    fn stars_and_question_marks() {
        assert!(matches("*", "anything") && matches("*.*", "no dot") && matches("**", "x"));
        assert!(matches("a*c", "abbbc") && matches("a*c", "ac") && !matches("a*c", "abcd"));
        assert!(matches("?", "x") && !matches("?", "xy") && !matches("x?", "x"));
        assert!(matches("*.txt", "a.b.TXT") && !matches("*.txt", "a.txt.b"));
        assert!(matches("*a*b*", "xxaxxbxx") && !matches("*a*b*", "xxbxxaxx"));
    }

    #[test]
    fn case_is_as_the_fold_says() {
        assert!(matches("README.md", "readme.MD"));
        assert!(!Pattern::new("README", |c| c).unwrap().matches("readme", |c| c));
    }

    #[test]
    fn dos_star_stops_at_the_last_dot() {
        assert!(matches("<.txt", "a.txt") && matches("<.txt", "a.b.txt"));
        assert!(matches("<", "nodot") && !matches("<", "with.dot"));
        assert!(matches("<.", "a.") && !matches("<.b", "a.b.c"));
        assert!(matches("<\"*", "a") && matches("<\"*", "a.b.c"));
    }

    #[test]
    fn dos_question_marks_may_match_nothing_before_a_dot_and_at_the_end() {
        assert!(matches(">>>.txt", "a.txt") && matches(">>>.txt", "abc.txt") && !matches(">>>.txt", "abcd.txt"));
        assert!(matches("a>>", "a") && matches("a>>", "abc") && !matches("a>>", "abcd"));
        assert!(matches(">>>>>>>>\">>>", "FILE") && matches(">>>>>>>>\">>>", "FILE.TXT"));
        assert!(!matches(">>>>>>>>\">>>", "FILE.TEXT"));
    }

    #[test]
    fn dos_dot_is_a_dot_or_the_end() {
        assert!(matches("a\"", "a") && matches("a\"", "a.") && !matches("a\"", "ab"));
        assert!(matches("a\"b", "a.b") && !matches("a\"b", "ab"));
    }

    #[test]
    fn empty_matches_only_empty() {
        assert!(matches("", "") && !matches("", "a") && !matches("a", ""));
    }

    #[test]
    fn question_marks_count_utf16_units() {
        assert!(matches("??", "\u{1f600}") && !matches("?", "\u{1f600}"));
    }

    #[test]
    fn patterns_that_are_too_long_are_refused() {
        assert!(Pattern::new(&"a".repeat(PATTERN_UNITS_MAX), upper).is_some());
        assert!(Pattern::new(&"a".repeat(PATTERN_UNITS_MAX + 1), upper).is_none());
        assert!(Pattern::new(&"*".repeat(10_000), upper).unwrap().matches_everything());
    }

    #[test]
    fn a_pattern_made_to_loop_ends() {
        let name = "a".repeat(255);
        for star in ["*a", "<a", ">a", "*?"] {
            let pattern = star.repeat(PATTERN_UNITS_MAX / 2) + "b";
            assert!(!matches(&pattern, &name));
        }
    }

    #[test]
    fn literals_and_wildcards_are_told_apart() {
        assert!(Pattern::new("a.b", upper).unwrap().is_literal());
        assert!(has_wildcards("a\"b") && !has_wildcards("a.b"));
    }

    /// The definition, written as a recursion that may be slow.
    fn reference(pattern: &[u16], name: &[u16]) -> bool {
        let Some((&first, rest)) = pattern.split_first() else { return name.is_empty() };
        let next = name.first().copied();
        let last_dot = next == Some(DOT) && !name[1..].contains(&DOT);
        match u8::try_from(first).unwrap_or(0) {
            b'*' => reference(rest, name) || (next.is_some() && reference(pattern, &name[1..])),
            b'<' => reference(rest, name) || (next.is_some() && !last_dot && reference(pattern, &name[1..])),
            b'>' if next.is_none() || next == Some(DOT) => reference(rest, name),
            b'"' if next.is_none() => reference(rest, name),
            b'"' => next == Some(DOT) && reference(rest, &name[1..]),
            b'?' | b'>' => next.is_some() && reference(rest, &name[1..]),
            _ => next == Some(first) && reference(rest, &name[1..]),
        }
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_the_definition(pattern in "[ab.*?<>\"]{1,7}", name in "[ab.]{1,7}") {
            let units = |text: &str| text.encode_utf16().collect::<Vec<_>>();
            let expected = pattern == "*.*" || reference(&units(&pattern), &units(&name));
            let matched = Pattern::new(&pattern, |c| c).unwrap().matches(&name, |c| c);
            proptest::prop_assert_eq!(matched, expected);
        }

        #[test]
        fn agrees_with_the_definition_behind_many_positions(
            before in 50..140_usize,
            pattern in "[ab.*?<>\"]{1,7}",
            name in "[ab.]{1,7}",
        ) {
            let units = |text: &str| text.encode_utf16().collect::<Vec<_>>();
            let long = |text: &str| "x".repeat(before) + text;
            let matched = Pattern::new(&long(&pattern), |c| c).unwrap().matches(&long(&name), |c| c);
            proptest::prop_assert_eq!(matched, reference(&units(&pattern), &units(&name)));
            let stars = "*a".repeat(before);
            let matched = Pattern::new(&(stars + &pattern), |c| c).unwrap().matches(&("a".repeat(before) + &name), |c| c);
            proptest::prop_assert!(matched || !reference(&units(&pattern), &units(&name)));
        }
    }
}
