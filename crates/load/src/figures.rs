//! Figures as people read them.

use std::time::Duration;

/// A number with a comma between thousands: `102,400`.
pub(crate) fn count(number: f64) -> String {
    let digits = format!("{:.0}", number.max(0.0));
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// So many of something: `1 channel`, `4 channels`.
pub(crate) fn so_many(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// Bits per second of a link: `10 Gbit/s`.
pub(crate) fn link(bits_per_second: u64) -> String {
    match bits_per_second {
        1_000_000_000.. => format!("{} Gbit/s", short(bits_per_second as f64 / 1e9)),
        _ => format!("{} Mbit/s", short(bits_per_second as f64 / 1e6)),
    }
}

/// Bytes per second: `1.2 GiB/s`.
pub fn rate(bytes_per_second: f64) -> String {
    match bytes_per_second / f64::from(1 << 20) {
        mib if mib >= 1024.0 => format!("{} GiB/s", short(mib / 1024.0)),
        mib => format!("{} MiB/s", short(mib)),
    }
}

/// Bytes, with the largest unit that they reach: `512 B`, `64 KiB`, `1.5 MiB`.
pub fn bytes(bytes: impl Into<u64>) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let bytes = bytes.into();
    match UNITS.into_iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{} {unit}", short(bytes as f64 / (1_u64 << shift) as f64)),
        None => format!("{bytes} B"),
    }
}

/// A short time: `0.31 ms`.
pub(crate) fn milliseconds(time: Duration) -> String {
    format!("{} ms", short(time.as_secs_f64() * 1e3))
}

/// Two places below ten, one below a hundred, none where there is nothing behind the point.
fn short(number: f64) -> String {
    let text = match number {
        ..10.0 => format!("{number:.2}"),
        ..100.0 => format!("{number:.1}"),
        _ => return count(number),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!(
            (count(999.4), count(1000.0), count(1_234_567.0)),
            ("999".into(), "1,000".into(), "1,234,567".into())
        );
        assert_eq!(
            (link(10_000_000_000), link(2_500_000_000), link(100_000_000)),
            ("10 Gbit/s".into(), "2.5 Gbit/s".into(), "100 Mbit/s".into())
        );
        assert_eq!((rate(1_258_291_200.0), rate(314_572.8)), ("1.17 GiB/s".into(), "0.3 MiB/s".into()));
        assert_eq!(milliseconds(Duration::from_micros(312)), "0.31 ms");
    }

    #[test]
    fn bytes_have_the_unit_that_they_reach() {
        for (number, text) in [
            (0_u64, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (65_536, "64 KiB"),
            (6 << 20, "6 MiB"),
            (3 << 29, "1.5 GiB"),
            (u64::MAX, "16,777,216 TiB"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }
}
