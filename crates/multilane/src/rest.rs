//! Azure Files' REST interface of a server, as `serve --rest` has it, and `multilane rest`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use azure::{Certificate, Listening, NoCertificate, Rest, Source};
use clap::Subcommand;
use control::{
    AccountName, Catalog, DEVELOPMENT_KEY, DataFolder, Error, KnownCatalog, Operations, REST_CERTIFICATE, Seen,
    is_for_machine, see,
};
use insight::monitor::Tally;
use serde::Serialize;
use server::Server;
use tracing::{info, warn};

use crate::arguments::Serve;
use crate::exposition::place_of;
use crate::listening::not_listening;
use crate::output::Output;

/// The port where none is named. The service's JavaScript client takes any host at it for one with accounts in its paths.
pub(crate) const PORT: &str = "10004";
/// The same, as a number.
const PORT_NUMBER: u16 = 10_004;
/// Where records of files that are being made are, in the data folder.
const UNFINISHED: &str = "rest-unfinished";

/// Where to have it: a port of this machine, or an address with a port.
pub(crate) fn place(text: &str) -> Result<SocketAddr, Error> {
    place_of(text, "for the REST interface", "10004, or an address of this machine and a port, such as [::1]:10004")
}

/// Characters of a resource group's name.
const GROUP_MAX: usize = 90;

/// The name of a resource group: letters, digits and some signs, no dot at its end.
pub(crate) fn group(text: &str) -> Result<String, Error> {
    let is_part = |c: char| c.is_alphanumeric() || "-_.()".contains(c);
    if (1..=GROUP_MAX).contains(&text.chars().count()) && text.chars().all(is_part) && !text.ends_with('.') {
        return Ok(text.to_owned());
    }
    Err(Error::argument(
        format!("{text:?} cannot be the name of a resource group"),
        format!("use 1 to {GROUP_MAX} letters, digits, and - _ . ( ), and no dot at the end"),
    ))
}

/// The interface before anybody is answered.
pub(crate) struct Endpoint {
    listening: Listening,
    certificate: Option<Certificate>,
    /// The file of the authority that clients have to trust, where it was made here.
    authority: Option<PathBuf>,
}

impl Endpoint {
    /// The URL of it, as this machine reaches it.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", from_here(self.listening.address()))
    }

    /// True where no other machine reaches it.
    pub(crate) fn is_for_machine(&self) -> bool {
        is_for_machine(self.listening.address())
    }

    /// What is told of it. `published` is an account whose key everybody knows, if there is one.
    pub(crate) fn told(&self, published: Option<&str>) -> Told {
        let url = self.url();
        let connection = published.map(|account| Connection::of(&url, account, DEVELOPMENT_KEY).connection_string);
        Told { url, authority: self.authority.clone(), connection_string: connection }
    }
}

/// What is told of an interface.
#[derive(Serialize)]
pub(crate) struct Told {
    pub(crate) url: String,
    /// The file of the authority that clients have to trust, where it was made here.
    pub(crate) authority: Option<PathBuf>,
    /// That of the account whose key everybody knows, if there is one.
    pub(crate) connection_string: Option<String>,
}

/// Listens, where that is wanted. `published` is an account whose key everybody knows, if there is one.
pub(crate) fn listen(
    arguments: &Serve,
    folder: &DataFolder,
    published: Option<&str>,
) -> Result<Option<Endpoint>, Error> {
    let Some(address) = address(arguments) else { return Ok(None) };
    if let Some(account) = published {
        keep_to_this_machine(address, account)?;
    }
    let (certificate, authority) = certificate(arguments, folder, address)?;
    check_place(address, certificate.is_some())?;
    let what = format!("the REST interface cannot be had at {address}");
    let listening = Listening::on(address).map_err(|cause| not_listening(&what, "--rest [ADDRESS:]PORT", &cause))?;
    Ok(Some(Endpoint { listening, certificate, authority }))
}

/// Where it is wanted. A server for development has it in any case.
pub(crate) fn address(arguments: &Serve) -> Option<SocketAddr> {
    arguments.rest.or_else(|| arguments.dev.then(|| SocketAddr::from((Ipv4Addr::LOCALHOST, PORT_NUMBER))))
}

/// Refuses a place where others than this machine could use the key of an account that everybody knows.
pub(crate) fn keep_to_this_machine(address: SocketAddr, account: &str) -> Result<(), Error> {
    if is_for_machine(address) {
        return Ok(());
    }
    Err(Error::argument(
        format!("the REST interface cannot be had at {address}: everybody knows the key of the account {account}"),
        "use a port of this machine, such as --rest 10004",
    ))
}

/// Refuses a place that other machines reach where nothing is encrypted.
pub(crate) fn check_place(address: SocketAddr, encrypts: bool) -> Result<(), Error> {
    if encrypts || is_for_machine(address) {
        return Ok(());
    }
    Err(Error::argument(
        format!(
            "the REST interface cannot be had at {address}: it speaks HTTP, and what it moves would cross the network in the clear"
        ),
        "have it speak HTTPS, with --rest-tls or --rest-certificate and --rest-key, or use a port of this machine, such as --rest 10004",
    ))
}

/// What it proves itself with, and the authority of that where it was made here.
fn certificate(
    arguments: &Serve,
    folder: &DataFolder,
    address: SocketAddr,
) -> Result<(Option<Certificate>, Option<PathBuf>), Error> {
    if let (Some(chain), Some(key)) = (&arguments.rest_certificate, &arguments.rest_key) {
        let read = Certificate::read(chain, key);
        return Ok((Some(read.map_err(|cause| unusable(&cause))?), None));
    }
    if !arguments.rest_tls {
        return Ok((None, None));
    }
    let made = Certificate::kept(&folder.path().join(REST_CERTIFICATE), &names(address));
    let made = made.map_err(|cause| {
        Error::machine(
            format!("there is no certificate for the REST interface: {cause}"),
            "look at the folder rest-tls of the data folder, or give one with --rest-certificate and --rest-key",
        )
    })?;
    if made.is_new {
        warn!(name: "rest_certificate_made", authority = %made.authority.display(), "a certificate for the REST interface was made: clients have to trust its authority, and none that was made before");
    }
    Ok((Some(made.certificate), Some(made.authority)))
}

fn unusable(cause: &NoCertificate) -> Error {
    Error::argument(
        format!("the REST interface has no certificate: {cause}"),
        "name a certificate with --rest-certificate, and its key with --rest-key, both in PEM",
    )
}

/// What a server at this address is called by who connects.
fn names(address: SocketAddr) -> Vec<String> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut names = ["localhost", "*.file.core.localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    let is_name = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    if is_name && host != "localhost" {
        names.push(host);
    }
    let ip = address.ip().to_canonical();
    if !ip.is_unspecified() && !names.contains(&ip.to_string()) {
        names.push(ip.to_string());
    }
    names
}

/// Where records of files that are being made are kept.
pub(crate) fn unfinished(folder: &DataFolder) -> PathBuf {
    folder.path().join(UNFINISHED)
}

/// Serves, where somebody listens, the files of this server.
pub(crate) fn start(
    endpoint: Option<Endpoint>,
    server: &Server,
    catalog: KnownCatalog,
    operations: Operations,
    (archive, unfinished): (PathBuf, PathBuf),
    tally: Arc<Tally>,
    group: &str,
) -> Result<Option<Rest>, Error> {
    let (Some(endpoint), Some(smb)) = (endpoint, server.addresses().first()) else { return Ok(None) };
    let url = endpoint.url();
    let (smb, certificate) = (server.connector(from_here(*smb)), endpoint.certificate);
    let group = group.to_owned();
    let source = Source { catalog, operations, smb, archive, tally, unfinished, group, certificate };
    let rest = Rest::start(endpoint.listening, source).map_err(|cause| {
        Error::machine(format!("the REST interface cannot be served: {cause}"), "try again, or leave --rest out")
    })?;
    info!(name: "rest_served", listen = %rest.address(), url, "Azure Files' REST interface is served");
    Ok(Some(rest))
}

/// The address by which this machine reaches who listens there.
fn from_here(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// What the service's clients are told an account by.
#[derive(Serialize)]
pub(crate) struct Connection {
    account: String,
    /// The URL of the account's service.
    endpoint: String,
    connection_string: String,
}

impl Connection {
    /// That of an account at this URL, with this key.
    pub(crate) fn of(url: &str, account: &str, key: &str) -> Self {
        let scheme = if url.starts_with("https:") { "https" } else { "http" };
        let endpoint = format!("{url}/{account}");
        let connection_string = format!(
            "DefaultEndpointsProtocol={scheme};AccountName={account};AccountKey={key};FileEndpoint={endpoint};"
        );
        Connection { account: account.to_owned(), endpoint, connection_string }
    }
}

/// What `multilane rest` does.
#[derive(Debug, Subcommand)]
pub(crate) enum RestCommand {
    /// Print what the service's clients are told an account by, with its first key
    #[command(
        after_help = "Examples:\n  multilane rest connection-string\n  az storage share list --connection-string \"$(multilane rest connection-string local)\""
    )]
    ConnectionString {
        /// The account [default: the one there is]
        account: Option<AccountName>,
    },
}

/// `multilane rest`.
pub(crate) fn run(path: &Path, command: &RestCommand, output: Output) -> Result<(), Error> {
    let RestCommand::ConnectionString { account } = command;
    let folder = DataFolder::open(path)?;
    let catalog = Catalog::open(&folder)?;
    let account = match (account, &catalog.accounts()?[..]) {
        (Some(account), _) => account.clone(),
        (None, [one]) => one.name.parse()?,
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|account| account.name.as_str()).collect();
            return Err(Error::argument(
                format!("there are {} accounts, and none is named", several.len()),
                format!("name one: {}", if names.is_empty() { "make it first".to_owned() } else { names.join(", ") }),
            ));
        }
    };
    let keys = catalog.keys(&account)?;
    let url = match see(&folder)? {
        Seen::Answers(status) => status.rest,
        _ => None,
    };
    let url = url.ok_or_else(|| {
        Error::machine("no server with a REST interface runs here", "start it with `multilane serve --rest`")
    })?;
    let connection = Connection::of(&url, account.as_str(), &keys.key1);
    output.print(&connection, |connection| format!("{}\n", connection.connection_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_at_every_address_is_reached_by_loopback() {
        for (listens, reached) in
            [("0.0.0.0:445", "127.0.0.1:445"), ("[::]:4450", "[::1]:4450"), ("192.0.2.1:445", "192.0.2.1:445")]
        {
            assert_eq!(from_here(listens.parse().unwrap()), reached.parse().unwrap());
        }
    }

    #[test]
    fn a_connection_string_is_the_services() {
        assert_eq!(
            Connection::of("https://127.0.0.1:10004", "work", "S0VZ").connection_string,
            "DefaultEndpointsProtocol=https;AccountName=work;AccountKey=S0VZ;FileEndpoint=https://127.0.0.1:10004/work;"
        );
    }

    #[test]
    fn a_certificate_has_the_names_by_which_the_server_is_reached() {
        let names = |address: &str| names(address.parse().unwrap());
        assert!(names("0.0.0.0:1").contains(&"*.file.core.localhost".to_owned()));
        assert!(names("192.0.2.1:1").contains(&"192.0.2.1".to_owned()));
        assert_eq!(names("127.0.0.1:1").iter().filter(|name| *name == "127.0.0.1").count(), 1);
    }
}
