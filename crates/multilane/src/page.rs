//! The page of a server, as `serve --page` has it.

use std::net::SocketAddr;

use control::{DataFolder, Error, is_for_machine};
use jiff::Timestamp;
use tracing::info;
use web::{Page, PageAt, PageSource};

use crate::exposition;
use crate::listening::{joined, not_listening};

/// Listens, where that is wanted.
pub(crate) fn listen(place: Option<PageAt>) -> Result<Option<Page>, Error> {
    let Some(place) = place else { return Ok(None) };
    let page = Page::listen(place).map_err(|failed| {
        let what = format!("the page cannot be had at {}", failed.address);
        not_listening(&what, "--page [ADDRESS:]PORT", &failed.cause)
    })?;
    info!(name: "page_served", listen = joined(page.addresses()), "the page is there, for operators of this machine");
    Ok(Some(page))
}

/// The address that people are told.
pub(crate) fn address(page: &Page) -> SocketAddr {
    page.addresses()[0]
}

/// The server that it is of serves.
pub(crate) fn serve(page: &Page, source: PageSource) -> Result<(), Error> {
    page.serve(source).map_err(|cause| Error::machine(format!("no threads for the page: {cause}"), "try again"))
}

/// Reads `[ADDRESS:]PORT` of this machine.
pub(crate) fn place(text: &str) -> Result<PageAt, Error> {
    let examples = "9446, or a loopback address and a port, such as 127.0.0.1:9446 or [::1]:9446";
    if let Ok(port) = text.parse() {
        return Ok(PageAt::Loopback(port));
    }
    let place = exposition::place_of(text, "for the page", examples)?;
    if is_for_machine(place) {
        return Ok(PageAt::Address(place));
    }
    Err(Error::argument(
        format!(
            "the page is for this machine alone, and {place} is for others: passwords would cross the network in the clear"
        ),
        "use a port, such as 9446, and reach it from elsewhere through an SSH tunnel: ssh -L 9446:127.0.0.1:9446 SERVER",
    ))
}

/// Where the audit log is, as people read it.
pub(crate) fn audit_place(folder: &DataFolder, wanted: Option<&std::path::Path>) -> String {
    wanted.map_or_else(|| folder.audit_log().display().to_string(), |place| place.display().to_string())
}

/// When the server started, as people read it.
pub(crate) fn since(time: Timestamp) -> String {
    format!("{time:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_for_this_machine_alone() {
        assert_eq!(place("9446").unwrap(), PageAt::Loopback(9446));
        for alone in ["127.0.0.1:9446", "[::1]:9446"] {
            assert_eq!(place(alone).unwrap(), PageAt::Address(alone.parse().unwrap()));
        }
        for other in ["0.0.0.0:9446", "192.0.2.7:9446", "[::]:9446", "[::ffff:192.0.2.7]:9446"] {
            let error = place(other).unwrap_err();
            assert!(error.what().contains("in the clear") && error.remedy().contains("ssh -L"), "{other}: {error}");
        }
        assert!(place("localhost:9446").unwrap_err().what().contains("the page"));
    }
}
