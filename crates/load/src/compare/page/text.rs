//! Text and numbers as the page shows them.

use jiff::Timestamp;

/// Three digits or more, with commas between thousands.
pub(in crate::compare) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        below if below < 10.0 => trimmed(format!("{value:.2}")),
        below if below < 100.0 => trimmed(format!("{value:.1}")),
        _ => thousands(&format!("{value:.0}")),
    }
}

/// The number, or a dash where there is none.
pub(super) fn perhaps(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), number)
}

fn trimmed(text: String) -> String {
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn thousands(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let mut grouped = sign.to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A moment as `2026-11-22 01:02 UTC`, from seconds since 1970.
pub(super) fn moment(seconds: u64) -> String {
    let moment = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    moment.unwrap_or_default().strftime("%Y-%m-%d %H:%M UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_commas() {
        let shown = [0.0, 0.5, 9.876, 10.0, 12.34, 100.4, 1234.0, 1_234_567.8, -1234.0].map(number);
        assert_eq!(shown, ["0", "0.5", "9.88", "10", "12.3", "100", "1,234", "1,234,568", "-1,234"]);
    }

    #[test]
    fn moments_are_dates() {
        assert_eq!(moment(0), "1970-01-01 00:00 UTC");
        assert_eq!(moment(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(moment(1_772_323_199), "2026-02-28 23:59 UTC");
        assert_eq!(moment(1_772_323_200), "2026-03-01 00:00 UTC");
    }
}
