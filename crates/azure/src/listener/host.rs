//! Whom a request names. By plain HTTP this machine alone is served, and a browser here must not be made to ask it for somebody else: a page from
//! elsewhere may have its own name lead to a loopback address (DNS rebinding), and knows the key of an account for development.

use control::LoopbackName;
use hyper::header::{AUTHORIZATION, HOST, TRANSFER_ENCODING};
use hyper::{Request, Version};

use crate::failure::{Code, Failure};

/// The host that a request names, where it is one that others who pass it on read as this does.
pub(super) fn of<B>(request: &Request<B>, is_secure: bool) -> Result<String, Failure> {
    let headers = request.headers();
    // The service has no bodies in chunks, and whoever passes them on might see another end of one.
    if headers.contains_key(TRANSFER_ENCODING) {
        return Err(Failure::new(
            Code::MissingContentLengthHeader,
            "A body has a Content-Length, and no Transfer-Encoding.",
        ));
    }
    if headers.get_all(AUTHORIZATION).iter().count() > 1 {
        return Err(Failure::unauthenticated("it has two Authorization headers"));
    }
    let hosts: Vec<_> = headers.get_all(HOST).iter().collect();
    match hosts[..] {
        [host] => {
            let host = host.to_str().map_err(|_| Failure::header("Host", "a name or an address"))?;
            if is_secure || LoopbackName::of(host).is_some() {
                return Ok(host.to_owned());
            }
            Err(Failure::header("Host", "localhost, a name below it, or a loopback address"))
        }
        [] if request.version() == Version::HTTP_10 => Ok(String::new()),
        _ => Err(Failure::header("Host", "one name or address")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(hosts: &[&str], is_secure: bool) -> Result<String, Code> {
        let request = hosts.iter().fold(Request::builder(), |builder, host| builder.header(HOST, *host));
        of(&request.body(()).unwrap(), is_secure).map_err(|failure| failure.code)
    }

    #[test]
    fn by_http_a_request_names_this_machine() {
        for host in ["localhost:10004", "127.0.0.1", "[::1]:10004", "work.file.core.localhost:1", "LOCALHOST"] {
            assert_eq!(named(&[host], false), Ok(host.to_owned()));
        }
        for host in [
            "evil.example:10004",
            "localhost.evil.example",
            "notlocalhost",
            "192.0.2.1",
            "localhost@evil.example",
            "evil.example@localhost",
            "evil.example@127.0.0.1",
            "localhost:evil",
            "",
        ] {
            assert_eq!(named(&[host], false), Err(Code::InvalidHeaderValue), "{host}");
        }
        assert_eq!(named(&["files.example"], true), Ok("files.example".to_owned()));
    }

    #[test]
    fn a_request_names_one_host() {
        assert_eq!(named(&["localhost", "localhost"], true), Err(Code::InvalidHeaderValue));
        assert_eq!(named(&[], true), Err(Code::InvalidHeaderValue));
    }
}
