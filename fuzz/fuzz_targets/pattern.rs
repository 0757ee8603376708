//! Search patterns: pattern and name, parted by a zero byte, against the definition written as a recursion.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::fscc::pattern::Pattern;

/// Beyond this the recursion takes too long.
const UNITS_MAX: usize = 10;

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    let Some((pattern, name)) = text.split_once('\0') else { return };
    let upper = |c: char| c.to_uppercase().next().unwrap_or(c);
    let Some(compiled) = Pattern::new(pattern, upper) else { return };
    let matched = compiled.matches(name, upper);
    let folded = |text: &str| text.chars().map(upper).collect::<String>().encode_utf16().collect::<Vec<_>>();
    let (pattern_units, name_units) = (folded(pattern), folded(name));
    if pattern_units.len() > UNITS_MAX || name_units.len() > UNITS_MAX {
        return;
    }
    let expected = match (pattern_units.is_empty(), name_units.is_empty()) {
        _ if pattern == "*.*" || (pattern.starts_with('*') && pattern.trim_matches('*').is_empty()) => true,
        (false, false) => reference(&pattern_units, &name_units),
        (pattern_is_empty, name_is_empty) => pattern_is_empty && name_is_empty,
    };
    assert_eq!(matched, expected, "{pattern:?} {name:?}");
});

fn reference(pattern: &[u16], name: &[u16]) -> bool {
    const DOT: u16 = b'.' as u16;
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
