//! Keys that are replaced while a request that they signed is under way.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use control::{AccountKind, AccountName, Catalog, Control, DataFolder, Key, NewShare, Overrides, ShareLimits};
use parking_lot::{Mutex, MutexGuard};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secure::hmac_sha256;
use server::{Config, Server};

use super::*;

pub(super) const PATIENCE: Duration = Duration::from_secs(60);
const LENGTH: usize = 256 << 10;

/// A server with the account `work`, whose share `docs` is a RAM disk, and its REST interface.
pub(super) struct Kit {
    pub(super) rest: Rest,
    pub(super) front: Arc<Front>,
    server: Server,
    control: Arc<Mutex<Control>>,
    folder: DataFolder,
    _place: tempfile::TempDir,
}

impl Kit {
    fn new() -> Self {
        Kit::with(&[("work", None)], Places::of_this_process())
    }

    /// One with these accounts, each with a share `docs`, or for the others one of their name, that may be limited to so many operations a second.
    pub(super) fn with(accounts: &[(&str, Option<u32>)], places: Places) -> Self {
        let place = tempfile::tempdir().unwrap();
        let folder = DataFolder::create(place.path()).unwrap();
        let mut catalog = Catalog::open(&folder).unwrap();
        for (account, iops_max) in accounts {
            let name: AccountName = account.parse().unwrap();
            catalog.create_account(&name, AccountKind::FileStorage).unwrap();
            let source = control::Source::Ram { bytes: NonZeroU64::new(16 << 20).unwrap() };
            let limits = ShareLimits { iops_max: iops_max.and_then(NonZeroU32::new), ..ShareLimits::default() };
            let new = NewShare::new(Kit::share(account).parse().unwrap(), source);
            catalog.create_share(&NewShare { account: Some(name), limits, ..new }).unwrap();
        }
        let mut control = Control::new(&folder, catalog, Overrides::default());
        let config =
            Config { listen: vec!["127.0.0.1:0".parse().unwrap()], shards: 1, opens: None, metadata_cache_bytes: None };
        let server = Server::start(&config, control.configuration().unwrap()).unwrap();
        let (known, control) = (control.catalog(), Arc::new(Mutex::new(control)));
        let source = Source {
            catalog: known,
            operations: Operations::new(&folder, &control, server.admin()),
            smb: server.connector(server.addresses()[0]),
            archive: folder.path().join("archive"),
            tally: Arc::default(),
            unfinished: folder.path().join("unfinished"),
            group: crate::GROUP.to_owned(),
            certificate: None,
        };
        let Listening { socket, pacing, address } = Listening::on("127.0.0.1:0".parse().unwrap()).unwrap();
        let front = Arc::new(Front { places, ..Front::new(source, pacing) });
        let rest = Rest::serve((socket, address), Arc::clone(&front)).unwrap();
        Kit { rest, front, server, control, folder, _place: place }
    }

    /// The share of an account.
    pub(super) fn share(account: &str) -> &str {
        if account == "work" { "docs" } else { account }
    }

    fn keys(&self) -> Keys {
        self.keys_of("work")
    }

    pub(super) fn keys_of(&self, account: &str) -> Keys {
        self.control.lock().catalog().keys(account).unwrap()
    }

    fn replace(&self, key: Key) {
        Catalog::open(&self.folder).unwrap().regenerate_key(&"work".parse().unwrap(), key, None).unwrap();
        let configuration = self.control.lock().configuration().unwrap();
        self.server.admin().replace(configuration);
    }

    /// The query of a URL that may read, make and write what is in the share, signed with this key.
    fn signed(key: &str) -> String {
        Kit::signed_for("work", key)
    }

    /// The same for the share of an account, whose directories it may list, too.
    pub(super) fn signed_for(account: &str, key: &str) -> String {
        Kit::signed_for_share(account, Kit::share(account), key)
    }

    /// The same for a share of this name, whether or not there is one.
    pub(super) fn signed_for_share(account: &str, share: &str, key: &str) -> String {
        let (version, letters, end) = ("2025-05-05", "rcwl", "2099-01-01T00:00:00Z");
        let of = format!("/file/{account}/{share}");
        let text = [letters, "", end, &of, "", "", "", version, "", "", "", "", ""].join("\n");
        let signature = hmac_sha256(&BASE64_STANDARD.decode(key).unwrap(), text.as_bytes());
        let signature = BASE64_STANDARD.encode(signature);
        let signature = utf8_percent_encode(&signature, NON_ALPHANUMERIC);
        format!("sv={version}&sr=s&sp={letters}&se={end}&sig={signature}")
    }

    fn send(&self, method: &str, query: &str, headers: &str) -> Talk {
        self.ask(method, &format!("/work/docs/file?{query}"), headers)
    }

    pub(super) fn ask(&self, method: &str, target: &str, headers: &str) -> Talk {
        let mut stream = TcpStream::connect(self.rest.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let address = self.rest.address();
        write!(stream, "{method} {target} HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n").unwrap();
        Talk(BufReader::new(stream))
    }

    /// A call of the management interface for the share `docs`, by a contributor of this name, without its body.
    pub(super) fn manage(&self, method: &str, contributor: &str, length: usize) -> Talk {
        let (name, mut catalog) = (contributor.parse().unwrap(), Catalog::open(&self.folder).unwrap());
        let of = catalog.create_service_principal(&name, &[Role::Contributor]).unwrap().0;
        let configuration = self.control.lock().configuration().unwrap();
        self.server.admin().replace(configuration);
        let known = self.front.management.catalog.service_principal_and_key(&of.application_id).unwrap();
        let token = tokens::issue(&known, "https://management.azure.com", "", Timestamp::now());
        let shares = "Microsoft.Storage/storageAccounts/work/fileServices/default/shares";
        let of = format!("/subscriptions/{}/resourceGroups/{}/providers", management::SUBSCRIPTION, crate::GROUP);
        let headers = format!("Authorization: Bearer {token}\r\nContent-Length: {length}\r\n");
        self.ask(method, &format!("{of}/{shares}/docs?api-version=2023-01-01"), &headers)
    }

    /// Ends the interface; tells how long that took.
    pub(super) fn end(self) -> Duration {
        let began = Instant::now();
        drop(self.rest);
        began.elapsed()
    }

    /// Nothing is changed in the catalog until this is dropped.
    pub(super) fn hold_catalog(&self) -> MutexGuard<'_, Control> {
        self.control.lock()
    }

    /// Makes the file, full of this.
    fn make(&self, byte: u8) {
        let query = Kit::signed(&self.keys().key1);
        let made = format!("x-ms-type: file\r\nx-ms-content-length: {LENGTH}\r\nContent-Length: 0\r\n");
        assert_eq!(self.send("PUT", &query, &made).answer().0, 201);
        let mut put = self.send("PUT", &format!("comp=range&{query}"), &range(LENGTH));
        put.0.get_mut().write_all(&vec![byte; LENGTH]).unwrap();
        assert_eq!(put.answer().0, 201);
    }
}

pub(super) fn range(length: usize) -> String {
    format!("x-ms-write: update\r\nx-ms-range: bytes=0-{}\r\nContent-Length: {length}\r\n", length - 1)
}

pub(super) struct Talk(BufReader<TcpStream>);

impl Talk {
    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The status, the service's code, and the body.
    pub(super) fn answer(mut self) -> (u16, String, Vec<u8>) {
        let status = self.line().split(' ').nth(1).unwrap().parse().unwrap();
        let (mut code, mut length) = (String::new(), 0);
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else { break };
            match name {
                "x-ms-error-code" => code = value.to_owned(),
                "content-length" => length = value.parse().unwrap(),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        (status, code, body)
    }
}

#[test]
fn what_is_whole_after_its_key_was_replaced_is_not_done() {
    let kit = Kit::new();
    kit.make(b'a');
    let query = format!("comp=range&{}", Kit::signed(&kit.keys().key1));
    let mut put = kit.send("PUT", &query, &format!("{}Expect: 100-continue\r\n", range(8)));
    // Its body is wanted: until then it may be done.
    assert_eq!(put.line(), "HTTP/1.1 100 Continue");
    assert_eq!(put.line(), "");
    put.0.get_mut().write_all(b"new").unwrap();
    kit.replace(Key::One);
    put.0.get_mut().write_all(b"-new-").unwrap();
    let (status, code, _) = put.answer();
    assert_eq!((status, &*code), (403, "AuthenticationFailed"));
    let (status, _, body) = kit.send("GET", &Kit::signed(&kit.keys().key2), "").answer();
    assert!(status == 200 && body == [b'a'; LENGTH], "{status}");
}

#[test]
fn strangers_and_half_heads_keep_nobody_from_ending() {
    let kit = Kit::new();
    kit.make(b'a');
    let query = Kit::signed(&kit.keys().key1);
    let tenant = format!("/{}/oauth2/v2.0/token", tokens::TENANT);
    let mut stranger = kit.ask("POST", &tenant, "Content-Length: 100\r\n");
    stranger.send(b"abc");
    let mut half = TcpStream::connect(kit.rest.address()).unwrap();
    half.write_all(b"GET /work/docs/file HTTP/1.1\r\n").unwrap();
    let mut put = kit.send("PUT", &format!("comp=range&{query}"), &range(8));
    put.send(b"new");
    let began = Instant::now();
    while kit.front.places.those().iter().filter(|doing| **doing == Doing::Sending).count() < 2 {
        assert!(began.elapsed() < PATIENCE);
        thread::yield_now();
    }
    let sending = thread::spawn(move || {
        // The end has begun by then.
        assert_eq!(half.read(&mut [0]).unwrap(), 0);
        put.send(b"-new-");
        put.answer().0
    });
    let took = kit.end();
    assert_eq!(sending.join().unwrap(), 201, "who has proved who it is, is answered");
    assert!(took < ENDS_WITHIN / 2, "{took:?}");
}

#[test]
fn what_waited_for_its_turn_while_its_key_was_replaced_is_not_sent() {
    let kit = Kit::new();
    kit.make(b'a');
    let keys = kit.keys();
    for (key, of) in [(Key::One, &keys.key1), (Key::Two, &keys.key2)] {
        let turns = kit.front.places.turns_of(&Taker::of("work", kit.rest.address().ip()));
        let get = kit.send("GET", &Kit::signed(of), "");
        let began = Instant::now();
        while !kit.front.places.somebody_waits() {
            assert!(began.elapsed() < PATIENCE);
            thread::yield_now();
        }
        kit.replace(key);
        drop(turns);
        let (status, code, _) = get.answer();
        assert_eq!((status, &*code), (403, "AuthenticationFailed"));
    }
    let (status, _, body) = kit.send("GET", &Kit::signed(&kit.keys().key2), "").answer();
    assert!(status == 200 && body == [b'a'; LENGTH], "{status}");
}
