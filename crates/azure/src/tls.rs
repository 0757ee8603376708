//! HTTPS: a certificate that somebody gives, or one that is made once and kept.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// Years that a certificate is made for. Its authority signs nothing else, so that there is nothing to renew it with.
const YEARS: i32 = 10;
/// The files of a certificate that was made, in a folder of their own.
const AUTHORITY: &str = "ca.pem";
const CHAIN: &str = "server.pem";
const KEY: &str = "server.key";
const NAMES: &str = "names";

/// What a server proves itself with to who connects.
#[derive(Clone)]
pub struct Certificate(Arc<ServerConfig>);

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum NoCertificate {
    /// A file cannot be read or written.
    #[error("{}: {cause}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// A file has no certificate, or no key, in PEM.
    #[error("{}: {cause}", path.display())]
    Pem {
        /// Which one.
        path: PathBuf,
        /// Why.
        #[source]
        cause: pem::Error,
    },
    /// A certificate and a key that do not belong together, or are of no use here.
    #[error("{0}")]
    Unusable(#[from] rustls::Error),
    /// One cannot be made.
    #[error("a certificate cannot be made: {0}")]
    NotMade(#[from] rcgen::Error),
}

/// A certificate that was made for a server.
pub struct Made {
    /// The certificate.
    pub certificate: Certificate,
    /// The file of the authority that clients have to trust.
    pub authority: PathBuf,
    /// Whether it was made now: clients that trusted another one do not trust it.
    pub is_new: bool,
}

impl Certificate {
    /// One whose chain and key are in these files, in PEM.
    pub fn read(chain: &Path, key: &Path) -> Result<Self, NoCertificate> {
        let of = |path: &Path| {
            let path = path.to_owned();
            move |cause| match cause {
                pem::Error::Io(cause) => NoCertificate::File { path, cause },
                cause => NoCertificate::Pem { path, cause },
            }
        };
        let certificates = CertificateDer::pem_file_iter(chain)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .and_then(|all| if all.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(all) });
        let certificates = certificates.map_err(of(chain))?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(of(key))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(certificates, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Certificate(Arc::new(config)))
    }

    /// The one that is kept in this folder, or a new one where there is none, or none for all of these names and addresses.
    pub fn kept(folder: &Path, names: &[String]) -> Result<Made, NoCertificate> {
        let known = fs::read_to_string(folder.join(NAMES)).unwrap_or_default();
        let is_new = !names.iter().all(|name| known.lines().any(|known| known == name));
        if is_new {
            make(folder, names)?;
        }
        let certificate = Certificate::read(&folder.join(CHAIN), &folder.join(KEY))?;
        Ok(Made { certificate, authority: folder.join(AUTHORITY), is_new })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.0))
    }
}

/// Makes an authority and a certificate that it signs. The authority's key is kept nowhere: who trusts it trusts this certificate alone.
fn make(folder: &Path, names: &[String]) -> Result<(), NoCertificate> {
    let year = jiff::tz::Offset::UTC.to_datetime(jiff::Timestamp::now()).year();
    let params = |name: &str, names: &[String]| {
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        // A clock that is somewhat behind takes it, too.
        params.not_before = date_time_ymd(i32::from(year) - 1, 1, 1);
        params.not_after = date_time_ymd(i32::from(year) + YEARS, 1, 1);
        Ok::<_, rcgen::Error>(params)
    };
    let mut authority = params("Multilane, for one certificate alone", &[])?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority_key = KeyPair::generate()?;
    let authority_pem = authority.self_signed(&authority_key)?.pem();

    let mut server = params("Multilane", names)?;
    server.use_authority_key_identifier_extension = true;
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let signed = server.signed_by(&key, &Issuer::from_params(&authority, &authority_key))?;

    let of = |path: &Path| {
        let path = path.to_owned();
        move |cause| NoCertificate::File { path, cause }
    };
    fs::create_dir_all(folder).map_err(of(folder))?;
    // Certificates are for everybody, and so is the way to them; whether others come into the data folder is that folder's to say.
    fs::set_permissions(folder, Permissions::from_mode(0o755)).map_err(of(folder))?;
    // The names come last: without them it is made again.
    for (name, text, mode) in [
        (KEY, key.serialize_pem(), 0o600),
        (CHAIN, signed.pem(), 0o644),
        (AUTHORITY, authority_pem, 0o644),
        (NAMES, names.join("\n") + "\n", 0o644),
    ] {
        let path = folder.join(name);
        write(&path, &text, mode).map_err(of(&path))?;
    }
    Ok(())
}

/// Writes a file whole, or leaves what was there.
fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let beside = path.with_extension("new");
    match fs::remove_file(&beside) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_certificate_is_made_once_and_again_where_it_lacks_a_name() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("rest-tls");
        let made = |wanted: &[&str]| {
            let made = Certificate::kept(&folder, &names(wanted)).unwrap();
            (made.is_new, fs::read(made.authority).unwrap())
        };
        let (is_new, first) = made(&["localhost", "127.0.0.1", "*.file.core.localhost"]);
        assert!(is_new);
        assert_eq!(made(&["localhost", "127.0.0.1", "*.file.core.localhost"]), (false, first.clone()));
        assert_eq!(made(&["localhost"]), (false, first.clone()));
        let (is_new, second) = made(&["localhost", "nas"]);
        assert!(is_new && second != first);
    }

    #[test]
    fn its_key_is_its_owners_alone_and_that_of_its_authority_is_nowhere() {
        let place = tempfile::tempdir().unwrap();
        Certificate::kept(place.path(), &names(&["localhost"])).unwrap();
        assert_eq!(fs::metadata(place.path().join(KEY)).unwrap().permissions().mode() & 0o777, 0o600);
        let mut files: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        files.sort();
        assert_eq!(files, ["ca.pem", "names", "server.key", "server.pem"]);
        for file in ["ca.pem", "server.pem"] {
            assert!(!fs::read_to_string(place.path().join(file)).unwrap().contains("PRIVATE"));
        }
    }

    #[test]
    fn files_that_are_no_certificate_are_named() {
        let place = tempfile::tempdir().unwrap();
        Certificate::kept(place.path(), &names(&["localhost"])).unwrap();
        let [chain, key] = [CHAIN, KEY].map(|name| place.path().join(name));
        assert!(Certificate::read(&chain, &key).is_ok());
        let told = |chain: &Path, key: &Path| Certificate::read(chain, key).err().unwrap().to_string();
        assert!(told(&place.path().join("nowhere"), &key).contains("nowhere"));
        assert!(told(&chain, &chain).contains(CHAIN), "no key");
        assert!(told(&key, &key).contains(KEY), "no certificate");
        let other = tempfile::tempdir().unwrap();
        Certificate::kept(other.path(), &names(&["localhost"])).unwrap();
        assert!(Certificate::read(&chain, &other.path().join(KEY)).is_err(), "they do not belong together");
    }
}
