//! Addresses that cannot be listened at, told as what the command line can do about that.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use control::Error;

/// `what` could not be done for want of the address; `option` names another one, as in `--listen ADDRESS:PORT`.
pub(crate) fn not_listening(what: &str, option: &str, cause: &io::Error) -> Error {
    let remedy = match cause.kind() {
        ErrorKind::AddrInUse => format!("end what listens there, or choose another port with {option}"),
        ErrorKind::PermissionDenied => format!("choose a port of 1024 or more with {option}, or run as root"),
        ErrorKind::AddrNotAvailable => format!("name an address of this machine with {option}"),
        _ => format!("see what the system says above, or choose another address with {option}"),
    };
    Error::machine(format!("{what}: {cause}"), remedy)
}

/// Addresses as people read them.
pub(crate) fn joined(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_is_told_with_the_option_that_names_another() {
        let error = not_listening("the server did not start", "--listen ADDRESS:PORT", &ErrorKind::AddrInUse.into());
        assert!(error.what().starts_with("the server did not start: "), "{error}");
        assert_eq!(error.remedy(), "end what listens there, or choose another port with --listen ADDRESS:PORT");
    }
}
