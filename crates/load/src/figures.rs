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
pub(crate) fn rate(bytes_per_second: f64) -> String {
    match bytes_per_second / f64::from(1 << 20) {
        mib if mib >= 1024.0 => format!("{} GiB/s", short(mib / 1024.0)),
        mib => format!("{} MiB/s", short(mib)),
    }
}

/// Bytes: `64 KiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes {
        0x10_0000.. => format!("{} MiB", short(bytes as f64 / f64::from(1 << 20))),
        0x400.. => format!("{} KiB", short(bytes as f64 / 1024.0)),
        _ => format!("{bytes} bytes"),
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
        assert_eq!(
            (bytes(512), bytes(65_536), bytes(6_291_456)),
            ("512 bytes".into(), "64 KiB".into(), "6 MiB".into())
        );
        assert_eq!(milliseconds(Duration::from_micros(312)), "0.31 ms");
    }
}
