//! What TCP itself has learnt of the way: the size of its segments, which `ss` shows. Where the other end takes smaller packets than
//! this one no router complains: only TCP is told, when it connects.

use std::net::{IpAddr, SocketAddr};

use super::tool::ask;

/// What IP and TCP take of a packet, and what TCP's timestamps take where they are on.
const HEADERS_V4: u32 = 40;
const HEADERS_V6: u32 = 60;
const TIMESTAMPS: u32 = 12;

/// The largest packet that this machine's connections from one address to another send; `None` where there are none, or no `ss`.
pub(crate) async fn packet_bytes(from: IpAddr, to: SocketAddr) -> Option<u32> {
    let from = match from {
        IpAddr::V4(from) => from.to_string(),
        IpAddr::V6(from) => format!("[{from}]"),
    };
    let shown = ask("ss", &["-Htin", "src", &from, "and", "dst", &to.to_string()]).await.ok()??;
    smallest(&shown, if to.is_ipv4() { HEADERS_V4 } else { HEADERS_V6 })
}

/// Each connection has a line of facts: words, some with a value behind a colon.
fn smallest(shown: &str, headers: u32) -> Option<u32> {
    let of = |line: &str| {
        let fact = |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name)?.parse::<u32>().ok());
        let (segment, path) = (fact("mss:")?, fact("pmtu:")?);
        // Whether timestamps are on is not always shown, but they make this end's own segments smaller, too.
        let is_bare = |segment: u32| segment.checked_add(headers) == Some(path);
        let has_timestamps = !is_bare(segment) && !fact("advmss:").is_some_and(is_bare);
        let all = segment.checked_add(headers)?.checked_add(if has_timestamps { TIMESTAMPS } else { 0 })?;
        Some(all.min(path))
    };
    shown.lines().filter_map(of).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_segments_with_their_headers() {
        for (name, line, headers, bytes) in [
            ("as large as ours", "\t bbr wscale:7,7 mss:1448 pmtu:1500 rcvmss:536 advmss:1448", HEADERS_V4, Some(1500)),
            (
                "the other end's are smaller",
                "\t bbr mss:1348 pmtu:1500 rcvmss:1348 advmss:1448",
                HEADERS_V4,
                Some(1400),
            ),
            ("a router's are smaller", "\t ts sack mss:1348 pmtu:1400 advmss:1448", HEADERS_V4, Some(1400)),
            ("no timestamps", "\t sack mss:1460 pmtu:1500 advmss:1460", HEADERS_V4, Some(1500)),
            ("no timestamps, smaller", "\t sack mss:1360 pmtu:1500 advmss:1460", HEADERS_V4, Some(1400)),
            ("IPv6", "\t ts sack mss:1428 pmtu:1500 advmss:1428", HEADERS_V6, Some(1500)),
            ("no facts", "ESTAB 0 0 10.0.1.2:40002 10.0.1.1:445", HEADERS_V4, None),
        ] {
            assert_eq!(smallest(line, headers), bytes, "{name}");
        }
        let two = "\t mss:8948 pmtu:9000 advmss:8948\nESTAB\n\t mss:1448 pmtu:9000 advmss:8948\n";
        assert_eq!(smallest(two, HEADERS_V4), Some(1500), "the smallest counts");
    }
}
