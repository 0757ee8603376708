//! Where a server listens for this machine alone, a browser here must not be made to ask it for somebody else: a page from elsewhere may have its own
//! name lead to a loopback address (DNS rebinding), and then names itself in what it asks.

use axum::extract::Request;
use axum::http::header::HOST;
use control::LoopbackName;

/// True where the request names this machine as a loopback address, or nobody, as old programs do and no browser does.
pub(crate) fn is_local(request: &Request) -> bool {
    let named = request.headers().get_all(HOST).iter().map(|host| host.to_str().ok());
    let target = request.uri().authority().map(|authority| Some(authority.as_str()));
    named
        .chain(target)
        .all(|host| matches!(host.and_then(LoopbackName::of), Some(LoopbackName::Address | LoopbackName::Localhost)))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn request(target: &str, hosts: &[&str]) -> Request {
        let builder = Request::builder().uri(target);
        hosts.iter().fold(builder, |builder, host| builder.header(HOST, *host)).body(Body::empty()).unwrap()
    }

    #[test]
    fn who_names_another_machine_is_not_local() {
        for host in ["localhost", "LocalHost:9445", "127.0.0.1", "127.8.9.1:9445", "[::1]:9445", "[::ffff:127.0.0.1]"] {
            assert!(is_local(&request("/metrics", &[host])), "{host}");
        }
        for host in [
            "example.org",
            "localhost.example.org",
            "192.0.2.1",
            "[2001:db8::1]:80",
            "127.0.0.1@example.org",
            "example.org@127.0.0.1",
            "[::1]example.org",
            "localhost.",
            "",
            "a b",
        ] {
            assert!(!is_local(&request("/metrics", &[host])), "{host}");
        }
        assert!(is_local(&request("/metrics", &[])));
        assert!(!is_local(&request("/metrics", &["localhost", "example.org"])));
        assert!(!is_local(&request("http://example.org/metrics", &["localhost"])));
        assert!(is_local(&request("http://localhost:9445/metrics", &["localhost"])));
    }

    #[test]
    fn whatever_is_let_in_is_the_name_or_an_address_of_this_machine_and_a_port() {
        const PARTS: [&str; 15] = [
            "",
            "localhost",
            "127.0.0.1",
            "127.",
            "[::1]",
            "::1",
            "example.org",
            ":80",
            ":",
            ".",
            "@",
            "/",
            "#",
            "%",
            " ",
        ];
        let mut let_in = 0;
        for number in 0..PARTS.len().pow(4) {
            let digits = (0..4).map(|digit| PARTS[number / PARTS.len().pow(digit) % PARTS.len()]);
            let host = digits.collect::<String>();
            let Ok(value) = axum::http::HeaderValue::from_str(&host) else { continue };
            let request = Request::builder().uri("/").header(HOST, value).body(Body::empty()).unwrap();
            if is_local(&request) {
                let_in += 1;
                let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
                let name = name.filter(|_| !host.ends_with(']')).map_or(host.as_str(), |(name, _)| name);
                assert!(["localhost", "[::1]"].contains(&name) || name.starts_with("127."), "{host}");
                assert!(!name.contains(['@', '/', '#', '%', ' ']), "{host}");
            }
        }
        assert!(let_in > 0);
    }
}
