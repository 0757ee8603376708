//! Times as operators write them: a number and a unit, such as `30m`.

use std::time::Duration;

/// Units and their seconds, the longest first.
const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];

/// Reads a time of whole seconds, minutes, hours or days: digits and a letter.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let (_, seconds) = UNITS.into_iter().find(|(letter, _)| *letter == unit)?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = is_number.then(|| number.parse().ok()).flatten()?;
    number.checked_mul(seconds).map(Duration::from_secs)
}

/// The shortest that [`parse`] reads as this many whole seconds.
pub(crate) fn to_text(time: Duration) -> String {
    let seconds = time.as_secs();
    let whole = |(_, of_unit): &(&str, u64)| seconds >= *of_unit && seconds.is_multiple_of(*of_unit);
    let (unit, of_unit) = UNITS.into_iter().find(whole).unwrap_or(("s", 1));
    format!("{}{unit}", seconds / of_unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_numbers_of_one_unit() {
        let times =
            [("0s", 0, "0s"), ("90s", 90, "90s"), ("60s", 60, "1m"), ("30m", 1_800, "30m"), ("48h", 172_800, "2d")];
        for (text, seconds, shortest) in times {
            let time = Duration::from_secs(seconds);
            assert_eq!((parse(text), to_text(time).as_str()), (Some(time), shortest), "{text}");
        }
        for wrong in
            ["", "1", "h", "+1h", "-1h", "1.5h", "1 h", "1H", "1w", "1é", "99999999999999999999s", "9999999999999999d"]
        {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
