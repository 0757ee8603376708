//! Advertised addresses as operators write them.

use server::admin::AdvertisedAddress;

use crate::Error;

/// The slowest and the fastest link that is believed: ten times what there is.
const SPEED_MAX: u64 = 16_000_000_000_000;
const SPEED_MIN: u64 = 1_000_000;

/// Reads `ADDRESS[,speed=SPEED][,rss]`, the speed in bits per second with K, M, G or T for powers of 1000, such as
/// `203.0.113.7,speed=25G,rss`.
pub fn parse_advertised(text: &str) -> Result<AdvertisedAddress, Error> {
    let mut parts = text.split(',');
    let address = parts.next().unwrap_or_default();
    let address = address.parse().map_err(|_| wrong(format!("{address:?} is no address")))?;
    let mut advertised = AdvertisedAddress { address, bits_per_second: None, rss: false };
    for part in parts {
        match part.split_once('=') {
            Some(("speed", speed)) => advertised.bits_per_second = Some(bits_per_second(speed)?),
            None if part == "rss" => advertised.rss = true,
            Some(_) | None => return Err(wrong(format!("{part:?} says nothing of an address"))),
        }
    }
    if advertised.address.is_unspecified() || advertised.address.is_multicast() {
        return Err(wrong(format!("{} is no address to connect to", advertised.address)));
    }
    Ok(advertised)
}

/// An address as [`parse_advertised`] reads it.
pub(crate) fn advertised_text(advertised: &AdvertisedAddress) -> String {
    let mut text = advertised.address.to_string();
    if let Some(speed) = advertised.bits_per_second {
        text.push_str(&format!(",speed={speed}"));
    }
    if advertised.rss {
        text.push_str(",rss");
    }
    text
}

fn bits_per_second(text: &str) -> Result<u64, Error> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: Option<u64> = match text.get(digits.len()..) {
        Some("") => Some(1),
        Some("K" | "k") => Some(1_000),
        Some("M") => Some(1_000_000),
        Some("G") => Some(1_000_000_000),
        Some("T") => Some(1_000_000_000_000),
        Some(_) | None => None,
    };
    let speed = unit.and_then(|unit| digits.parse::<u64>().ok()?.checked_mul(unit));
    speed
        .filter(|speed| (SPEED_MIN..=SPEED_MAX).contains(speed))
        .ok_or_else(|| wrong(format!("{text:?} is no speed from 1M to 16T")))
}

fn wrong(what: String) -> Error {
    Error::argument(
        what,
        "write an address, and after commas what is known of its link, such as 203.0.113.7,speed=25G,rss",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_what_is_known_of_it() {
        let read = |text| parse_advertised(text).unwrap();
        assert_eq!(read("2001:db8::7").address.to_string(), "2001:db8::7");
        let full = read("203.0.113.7,speed=25G,rss");
        assert_eq!((full.bits_per_second, full.rss), (Some(25_000_000_000), true));
        assert_eq!(read("203.0.113.7,rss,speed=2500M").bits_per_second, Some(2_500_000_000));
        for text in ["2001:db8::7", "203.0.113.7,speed=25000000000,rss", "203.0.113.7,rss"] {
            assert_eq!(advertised_text(&read(text)), text);
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            "",
            "here",
            "203.0.113.7:445",
            "203.0.113.7,",
            "203.0.113.7,fast",
            "203.0.113.7,speed=",
            "203.0.113.7,speed=G",
            "203.0.113.7,speed=0",
            "203.0.113.7,speed=1X",
            "203.0.113.7,speed=99999999999T",
            "0.0.0.0",
            "ff02::1",
        ] {
            assert!(parse_advertised(text).is_err(), "{text:?}");
        }
    }
}
