//! The page over real sockets, of a server that is not there.

mod asking;
mod fake;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use control::{
    AccountKind, Catalog, Control, DataFolder, Error, Explain, LogFilter, NewShare, Operations, Overrides, Provision,
    Source, first_start,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use web::{Page, PageAt, PageSource};

use crate::asking::{Answer, ask};
use crate::fake::Fake;

const PASSWORD: &str = "correct horse battery";

/// A page of a server, and what it was made of.
struct Served {
    page: Page,
    fake: Arc<Fake>,
    catalog: Mutex<Catalog>,
    control: Arc<Mutex<Control>>,
    place: TempDir,
}

/// Logs what everybody logs, and knows no cause of anything.
struct Nothing;

impl LogFilter for Nothing {
    fn now(&self) -> String {
        "info".to_owned()
    }

    fn set(&self, _: &str) -> Result<(), Error> {
        Ok(())
    }
}

impl Explain for Nothing {
    fn why(&self, about: Option<&str>) -> Result<Value, Error> {
        Ok(json!({ "about": about, "causes": [] }))
    }
}

fn page() -> Page {
    Page::listen(PageAt::Address("127.0.0.1:0".parse().unwrap())).unwrap()
}

/// A page of which the operators ann and bob may see everything.
fn served(fake: Fake) -> Served {
    let served = without_operators(fake);
    for name in ["ann", "bob"] {
        served.catalog.lock().create_operator(&name.parse().unwrap(), PASSWORD).unwrap();
    }
    served.read_catalog();
    served
}

fn without_operators(fake: Fake) -> Served {
    let (page, fake, place) = (page(), Arc::new(fake), tempfile::tempdir().unwrap());
    let folder = DataFolder::create(place.path()).unwrap();
    let mut catalog = Catalog::open(&folder).unwrap();
    first_start(&mut catalog, &folder).unwrap();
    let mut control = Control::new(&folder, Catalog::open(&folder).unwrap(), Overrides::default());
    control.first_estate().unwrap();
    let (shares, known) = (control.gauges(), control.catalog());
    let control = Arc::new(Mutex::new(control));
    let source = PageSource {
        admin: Arc::clone(&fake) as Arc<_>,
        shares,
        catalog: known,
        operations: Operations::new(&folder, &control, Arc::clone(&fake) as Arc<_>),
        explain: Arc::new(Nothing),
        log_filter: Arc::new(Nothing),
        events: Box::new(|| vec![json!({ "event": "signed_in", "user": "<script>" })]),
        path: Box::new(|_, _| None),
        archive: place.path().join("metrics.db"),
        audit_log: "/audit.log".to_owned(),
        version: "1.2.3",
        since: "2026-11-29T13:14:50Z".to_owned(),
        of_data: " --data /d".to_owned(),
    };
    page.serve(source).unwrap();
    Served { page, fake, catalog: Mutex::new(catalog), control, place }
}

impl Served {
    fn address(&self) -> SocketAddr {
        self.page.addresses()[0]
    }

    fn read_catalog(&self) {
        self.control.lock().configuration().unwrap();
    }

    fn host(&self) -> String {
        format!("localhost:{}", self.address().port())
    }

    /// A request of the page itself, with these headers besides.
    fn get(&self, path: &str, headers: &[&str]) -> Answer {
        let (line, host) = (format!("GET {path} HTTP/1.1"), format!("Host: {}", self.host()));
        ask(self.address(), &[&[line.as_str(), host.as_str()], headers].concat()).unwrap()
    }

    /// The same that says something, with these headers and no others but those of its length.
    fn post(&self, path: &str, body: &str, headers: &[&str]) -> Answer {
        let (line, length) = (format!("POST {path} HTTP/1.1"), format!("Content-Length: {}", body.len()));
        let end = format!("Connection: close\r\n\r\n{body}");
        ask(self.address(), &[&[line.as_str(), length.as_str()], headers, &[end.as_str()]].concat()).unwrap()
    }

    fn sign_in(&self, name: &str, password: &str) -> Answer {
        let body = json!({ "name": name, "password": password }).to_string();
        let headers = self.of_page();
        self.post("/api/sign-in", &body, &headers.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// What a browser says of a request of the page.
    fn of_page(&self) -> Vec<String> {
        let host = self.host();
        vec![format!("Host: {host}"), format!("Origin: http://{host}"), "Content-Type: application/json".to_owned()]
    }

    fn signed_in(&self, name: &str) -> Operator<'_> {
        let answer = self.sign_in(name, PASSWORD);
        assert_eq!(answer.status, 200, "{answer:?}");
        let set = answer.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        assert!(set.ends_with("; path=/; httponly; samesite=strict"), "{set}");
        let said: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(said["operator"], name.to_lowercase());
        Operator {
            served: self,
            cookie: format!("Cookie: {}", set.split(';').next().unwrap()),
            secret: format!("X-Page-Secret: {}", said["secret"].as_str().unwrap()),
        }
    }
}

/// Somebody who has signed in.
struct Operator<'a> {
    served: &'a Served,
    cookie: String,
    secret: String,
}

impl Operator<'_> {
    fn get(&self, path: &str) -> Answer {
        self.served.get(path, &[&self.cookie, &self.secret])
    }

    fn read(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        serde_json::from_str(&answer.body).unwrap()
    }

    fn operate(&self, operation: &Value) -> Answer {
        self.post("/api/operation", &operation.to_string())
    }

    fn post(&self, path: &str, body: &str) -> Answer {
        let mut headers = self.served.of_page();
        headers.extend([self.cookie.clone(), self.secret.clone()]);
        self.served.post(path, body, &headers.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

fn close(id: &str) -> Value {
    json!({ "do": "close-session", "id": id })
}

#[test]
fn who_has_not_signed_in_is_told_nothing() {
    let served = served(Fake { sessions: 1, ..Fake::default() });
    let shell = served.get("/", &[]);
    assert!(shell.status == 200 && shell.body.starts_with("<!doctype html>"), "{shell:?}");
    for what in ["overview", "shares", "sessions", "opens", "counted", "events", "accounts", "nothing"] {
        let answer = served.get(&format!("/api/read/{what}"), &[]);
        assert!(answer.status == 401 && answer.body.contains("Sign in."), "{what}: {answer:?}");
    }
    for path in ["/api/session", "/api/why", "/api/metrics"] {
        assert_eq!(served.get(path, &[]).status, 401, "{path}");
    }
    let forged = format!("Cookie: multilane-{}={}", served.address().port(), "0".repeat(64));
    assert_eq!(served.get("/api/session", &[&forged]).status, 401);
    assert_eq!(served.get("/api/read/overview", &["Host: example.org"]).status, 403);
}

#[test]
fn browsers_are_told_to_keep_to_this_page() {
    let served = served(Fake::default());
    let version = served.get("/", &[]).body.split("/assets/").nth(1).unwrap().split('/').next().unwrap().to_owned();
    let paths =
        ["/".to_owned(), "/nothing".to_owned(), "/api/session".to_owned(), format!("/assets/{version}/main.js")];
    for path in &paths {
        let answer = served.get(path, &[]);
        let has = |line: &str| assert!(answer.head.contains(line), "{path}: {line}: {answer:?}");
        has(
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';",
        );
        ["frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"].into_iter().for_each(has);
        ["x-content-type-options: nosniff", "referrer-policy: no-referrer"].into_iter().for_each(has);
        has(if path.starts_with("/assets/") { "immutable" } else { "cache-control: no-store" });
        assert!(!answer.head.contains("access-control"), "{answer:?}");
    }
    assert_eq!(served.get("/", &["Host: example.org"]).status, 403);
    assert_eq!(served.get("/assets/0/main.js", &[]).status, 404);
}

#[test]
fn what_changes_something_comes_from_the_page_with_cookie_and_secret() {
    let served = served(Fake { sessions: 9, ..Fake::default() });
    let (ann, bob) = (served.signed_in("ann"), served.signed_in("bob"));
    let (host, [of_host, origin, kind]) = (served.host(), <[String; 3]>::try_from(served.of_page()).unwrap());
    let body = close("7").to_string();
    let post = |headers: &[&str]| served.post("/api/operation", &body, headers).status;
    let [of_host, origin, kind, cookie, secret] =
        [&of_host, &origin, &kind, &ann.cookie, &ann.secret].map(String::as_str);
    let elsewhere = format!("Origin: http://{host}.example.org");
    assert_eq!(post(&[of_host, origin, kind, cookie]), 401, "no secret");
    assert_eq!(post(&[of_host, origin, kind, cookie, &bob.secret]), 401, "another's secret");
    assert_eq!(post(&[of_host, origin, kind, secret]), 401, "no cookie");
    assert_eq!(post(&[of_host, kind, cookie, secret]), 403, "no origin");
    assert_eq!(post(&[of_host, &elsewhere, kind, cookie, secret]), 403, "another origin");
    assert_eq!(post(&[of_host, origin, kind, cookie, secret, "Sec-Fetch-Site: same-site"]), 403, "another port");
    assert_eq!(post(&["Host: example.org", "Origin: http://example.org", kind, cookie, secret]), 403, "another host");
    assert_eq!(post(&[of_host, origin, "Content-Type: text/plain", cookie, secret]), 415, "what a form can send");
    assert_eq!(served.get("/api/operation", &[cookie, secret, origin]).status, 405, "a GET");
    assert!(served.fake.closed.lock().is_empty(), "something was done all the same");
    assert_eq!(post(&[of_host, origin, kind, cookie, secret]), 200);
    assert_eq!(
        post(&[of_host, "Sec-Fetch-Site: same-origin", kind, cookie, secret]),
        200,
        "no origin, but the browser's word"
    );
    assert_eq!(*served.fake.closed.lock(), [7, 7]);
}

/// A browser sends its cookies to every port of this machine: whoever listens at one of them has this page's.
#[test]
fn a_cookie_that_another_port_was_sent_opens_nothing() {
    let served = served(Fake { sessions: 1, ..Fake::default() });
    let (ann, bob) = (served.signed_in("ann"), served.signed_in("bob"));
    for path in ["/api/session", "/api/read/overview", "/api/why", "/api/metrics"] {
        assert_eq!(served.get(path, &[&ann.cookie]).status, 401, "{path}");
        assert_eq!(served.get(path, &[&ann.cookie, &bob.secret]).status, 401, "{path}");
        let answer = ann.get(path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(!answer.body.contains(ann.secret.split(": ").nth(1).unwrap()), "{path} tells the secret");
    }
}

/// A page of another port can set cookies for this one, with a path by which a browser puts them before ours.
#[test]
fn cookies_that_another_port_has_set_neither_lock_out_nor_let_in() {
    let served = served(Fake::default());
    let (ann, bob) = (served.signed_in("ann"), served.signed_in("bob"));
    let (of_bob, of_ann) = (&bob.cookie, ann.cookie.split(": ").nth(1).unwrap());
    let name = of_ann.split('=').next().unwrap();
    let tossed = format!("{of_bob}; {name}=short; {name}={}; {of_ann}", "0".repeat(64));
    let who = |headers: &[&str]| served.get("/api/session", headers).body;
    assert!(who(&[&tossed, &ann.secret]).contains("\"ann\""), "{}", who(&[&tossed, &ann.secret]));
    assert!(who(&[of_bob, &ann.secret]).contains("Sign in."), "ann's page would act as bob");
    let body = json!({ "name": "ann", "password": PASSWORD }).to_string();
    let headers = [served.of_page(), vec![format!("Cookie: {name}={}", "0".repeat(64))]].concat();
    let answer = served.post("/api/sign-in", &body, &headers.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(answer.status == 200 && !answer.head.contains(&"0".repeat(64)), "a cookie of others is kept: {answer:?}");
}

#[test]
fn what_is_to_be_done_is_whole_and_what_is_refused_says_why() {
    let served = served(Fake { sessions: 9, ..Fake::default() });
    let share = || served.catalog.lock().shares().unwrap().remove(0);
    assert!(share().limits.iops_max.is_none());
    let ann = served.signed_in("ann");
    let gone = ann.operate(&close("10"));
    assert!(gone.status == 404 && gone.body.contains("There is no session 10."), "{gone:?}");
    assert_eq!(ann.operate(&json!({ "do": "close-session" })).status, 400);
    assert_eq!(ann.operate(&json!({ "do": "stop" })).status, 400);
    assert_eq!(ann.operate(&json!({ "do": "change-limits", "share": "share" })).status, 400, "no limit");
    assert_eq!(ann.operate(&json!({ "do": "close-session", "id": "+7" })).status, 400);
    let long = ann.post("/api/operation", &"x".repeat(17 << 10));
    assert!(long.status == 413 && long.body.contains("too long"), "{long:?}");
    let limits = |iops| json!({ "do": "change-limits", "share": "share", "iops_max": iops, "user_mibps_max": 5 });
    assert_eq!(ann.operate(&limits(1_000)).status, 200);
    let refused = ann.operate(&limits(9));
    assert!(refused.status == 400 && refused.body.contains("IOPS of the share cannot be 9."), "{refused:?}");
    assert_eq!(ann.operate(&json!({ "do": "change-limits", "share": "share", "mibps_max": 7 })).status, 200);
    assert_eq!(ann.operate(&json!({ "do": "change-limits", "share": "share", "mibps_max": null })).status, 200);
    let kept = share().limits;
    assert!(kept.mibps_max.is_none());
    assert_eq!([kept.iops_max, kept.user_mibps_max].map(|limit| limit.map(u32::from)), [Some(1_000), Some(5)]);
    let switched = ann.operate(&json!({ "do": "switch-multichannel", "account": "local", "on": true }));
    assert_eq!(
        (switched.status, ann.read("/api/read/accounts")["items"][0]["multichannel"].as_bool()),
        (200, Some(true))
    );
}

#[test]
fn accounts_and_shares_are_offered_what_they_can_have() {
    let served = served(Fake::default());
    let provisioned = NewShare {
        name: "fast".parse().unwrap(),
        account: None,
        source: Source::Ram { bytes: 1.try_into().unwrap() },
        read_only: false,
        seal_required: false,
        continuous: false,
        access_based: false,
        hosts: Default::default(),
        time_machine: false,
        audit: Default::default(),
        belief: Default::default(),
        modes: Default::default(),
        comment: String::new(),
        limits: Default::default(),
        provision: Some(Provision { gib: 500, iops: None, mibps: None }),
    };
    served.catalog.lock().create_account(&"general".parse().unwrap(), AccountKind::StorageV2).unwrap();
    served.catalog.lock().create_share(&provisioned).unwrap();
    served.read_catalog();
    let ann = served.signed_in("ann");
    let accounts = ann.read("/api/read/accounts");
    let can = |name: &str| {
        let all = accounts["items"].as_array().unwrap();
        all.iter().find(|one| one["name"] == name).unwrap()["can_multichannel"].as_bool().unwrap()
    };
    assert_eq!((can("local"), can("general")), (true, false));
    let limits = |name: &str| ann.operate(&json!({ "do": "change-limits", "share": "fast", name: 1_000 }));
    let refused = limits("iops_max");
    assert!(refused.status == 409 && refused.body.contains("Leave IOPS and MiB/s of the share empty"), "{refused:?}");
    assert!(!refused.body.contains("--iops-max") && !refused.body.contains("none"), "{refused:?}");
    assert_eq!(limits("user_iops_max").status, 200);
}

#[test]
fn a_disk_that_does_not_answer_is_a_problem_of_its_share() {
    for (seconds, problems) in [(1, 0), (75, 1)] {
        let served = served(Fake { waits: Some(Duration::from_secs(seconds)), ..Fake::default() });
        let ann = served.signed_in("ann");
        let overview = ann.read("/api/read/overview");
        let told = overview["problems"].as_array().unwrap();
        assert_eq!(told.len(), problems, "{overview}");
        let share = ann.read("/api/read/share?name=share");
        assert_eq!(share["problem"].is_string(), problems == 1, "{share}");
        assert!(told.iter().all(|one| one["problem"].as_str().unwrap().contains("the first for 75 s now")));
    }
}

/// The lock that programs have while they open the catalog.
fn hold_catalog(served: &Served) -> std::fs::File {
    let lock = std::fs::File::options().write(true).open(served.place.path().join("catalog.lock")).unwrap();
    lock.lock().unwrap();
    lock
}

#[test]
fn a_change_that_is_refused_for_a_catalog_that_others_hold_is_not_done_later_and_closing_waits_for_none() {
    let served = served(Fake { sessions: 9, ..Fake::default() });
    let ann = served.signed_in("ann");
    let held = hold_catalog(&served);
    let change = json!({ "do": "change-limits", "share": "share", "iops_max": 1_000 });
    std::thread::scope(|scope| {
        let began = Instant::now();
        let changing = scope.spawn(|| ann.operate(&change));
        assert_eq!(ann.operate(&close("7")).status, 200);
        assert!(!changing.is_finished(), "closing has waited for the catalog");
        let refused = changing.join().unwrap();
        assert_eq!(refused.status, 500, "{refused:?}");
        assert!(began.elapsed().as_secs() < 8, "who asks is answered before the connection ends");
    });
    drop(held);
    assert_eq!(ann.operate(&json!({ "do": "change-limits", "share": "share", "mibps_max": 7 })).status, 200);
    assert!(served.catalog.lock().shares().unwrap().remove(0).limits.iops_max.is_none(), "it was done later");
}

#[test]
fn what_waits_for_its_turn_is_not_done_for_who_has_signed_out_since() {
    let served = served(Fake::default());
    let (ann, bob) = (served.signed_in("ann"), served.signed_in("bob"));
    let held = hold_catalog(&served);
    let change = |name: &str| json!({ "do": "change-limits", "share": "share", name: 100 });
    std::thread::scope(|scope| {
        let first = scope.spawn(|| bob.operate(&change("iops_max")));
        // Until that one has its turn, and the other waits for it.
        std::thread::sleep(Duration::from_millis(300));
        let second = scope.spawn(|| ann.operate(&change("mibps_max")));
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(ann.post("/api/sign-out", "{}").status, 200);
        drop(held);
        assert_eq!((first.join().unwrap().status, second.join().unwrap().status), (200, 401));
    });
    let limits = served.catalog.lock().shares().unwrap().remove(0).limits;
    assert!(limits.iops_max.is_some() && limits.mibps_max.is_none());
}

#[test]
fn sessions_end_with_their_operator_or_password_and_by_signing_out() {
    let served = served(Fake::default());
    let cookies: Vec<(String, String)> = ["ann", "ann", "bob"]
        .map(|name| served.signed_in(name))
        .map(|one| (one.cookie.clone(), one.secret.clone()))
        .into();
    let is_in = |served: &Served, number: usize| {
        served.get("/api/session", &[&cookies[number].0, &cookies[number].1]).status == 200
    };
    assert!((0..3).all(|number| is_in(&served, number)));
    let out = Operator { served: &served, cookie: cookies[0].0.clone(), secret: cookies[0].1.clone() };
    let answer = out.post("/api/sign-out", "{}");
    assert!(answer.status == 200 && answer.head.contains("max-age=0"), "{answer:?}");
    assert!(!is_in(&served, 0) && is_in(&served, 1), "of two sessions of one operator one is ended");
    served.catalog.lock().set_operator_password(&"ann".parse().unwrap(), PASSWORD).unwrap();
    served.read_catalog();
    assert!(!is_in(&served, 1) && is_in(&served, 2));
    served.catalog.lock().delete_operator(&"bob".parse().unwrap()).unwrap();
    served.read_catalog();
    assert!(!is_in(&served, 2));
}

#[test]
fn wrong_passwords_are_refused_alike_and_many_of_them_wait() {
    let served = served(Fake::default());
    let (wrong, unknown) = (served.sign_in("ann", "wrong"), served.sign_in("nobody", PASSWORD));
    assert_eq!((wrong.status, &wrong.body), (401, &unknown.body));
    assert!(!wrong.head.contains("set-cookie"));
    assert_eq!([served.sign_in("ann", "wrong").status, served.sign_in("ANN", "wrong").status], [401, 401]);
    let waits = served.sign_in("ann", PASSWORD);
    assert!(waits.status == 429 && waits.head.contains("retry-after: "), "{waits:?}");
    assert_eq!(served.sign_in("bob", PASSWORD).status, 200, "another operator does not wait");
    let headers = ["Host: localhost:1", "Content-Type: application/json"];
    assert_eq!(served.post("/api/sign-in", "{}", &headers).status, 403, "it has no origin");
}

#[test]
fn without_an_operator_nobody_is_let_in_and_told_how_to_make_one() {
    let served = without_operators(Fake::default());
    for answer in
        [served.get("/api/session", &[]), served.sign_in("ann", PASSWORD), served.get("/api/read/shares", &[])]
    {
        assert!(answer.status == 403 && answer.body.contains("multilane operator create NAME --data /d"), "{answer:?}");
    }
}

#[test]
fn lists_come_in_parts_and_are_searched() {
    let served = served(Fake { sessions: 450, ..Fake::default() });
    let ann = served.signed_in("ann");
    for list in ["sessions", "opens"] {
        let first = ann.read(&format!("/api/read/{list}"));
        assert_eq!((first["items"].as_array().unwrap().len(), &first["total"]), (200, &json!(450)), "{list}");
        let last = ann.read(&format!("/api/read/{list}?after=400"));
        assert_eq!((last["items"].as_array().unwrap().len(), &last["next"]), (50, &Value::Null), "{list}");
        let found = ann.read(&format!("/api/read/{list}?text=USER-450"));
        assert_eq!((&found["total"], &found["items"][0]["id"]), (&json!(1), &json!("450")), "{list}");
    }
    assert_eq!(ann.read("/api/read/opens?session=3")["total"], 1);
    assert_eq!(ann.read("/api/read/session?id=3")["session"]["user"], "user-3");
    assert_eq!(ann.get("/api/read/session?id=451").status, 404);
    for wrong in [
        "sessions?after=x",
        "session",
        "session?id=-1",
        "session?id=%2b1",
        "%ff",
        &format!("opens?text={}", "x".repeat(300)),
    ] {
        let answer = ann.get(&format!("/api/read/{wrong}"));
        assert_eq!(answer.status, 400, "{wrong}");
        assert!(serde_json::from_str::<Value>(&answer.body).unwrap()["what"].is_string(), "{answer:?}");
    }
}

#[test]
fn everything_that_is_read_is_json_and_says_texts_as_they_are() {
    let served = served(Fake { shares: 2, sessions: 1, ..Fake::default() });
    let ann = served.signed_in("ann");
    for what in [
        "overview",
        "overview?after=1",
        "shares",
        "share?name=share",
        "share?name=SHARE",
        "counted",
        "counted?share=share-0",
        "accounts",
    ] {
        ann.read(&format!("/api/read/{what}"));
    }
    assert_eq!(ann.read("/api/read/opens")["items"][0]["path"], "<b>a</b>");
    assert_eq!(ann.read("/api/read/events")["events"][0]["user"], "<script>");
    assert_eq!(ann.read("/api/why?about=share")["about"], "share");
    assert!(ann.read("/api/metrics").as_array().unwrap().len() > 5);
    let numbers = ann.read("/api/metrics?name=Transactions&by=ApiName&span=hour&share=it's");
    assert_eq!((&numbers["name"], &numbers["total"]), (&json!("Transactions"), &json!(0)));
    assert_eq!(ann.get("/api/metrics?name=Transactions&span=year").status, 400);
    assert!(ann.get("/api/read/overview").head.contains("content-type: application/json"));
}

#[test]
fn however_many_look_the_counters_are_read_by_the_clock() {
    let served = served(Fake { shares: 20, ..Fake::default() });
    let ann = served.signed_in("ann");
    let (began, before) = (Instant::now(), served.fake.reads.load(Ordering::Relaxed));
    for what in ["overview", "shares", "counted", "overview?after=1"].repeat(25) {
        ann.read(&format!("/api/read/{what}"));
    }
    let reads = served.fake.reads.load(Ordering::Relaxed) - before;
    let looks = began.elapsed().as_secs() as usize / 2 + 2;
    assert!(reads <= looks, "{reads} readings for 100 questions, in the time of {looks}");
}

#[test]
fn who_takes_no_answer_keeps_nobody_else_waiting() {
    let served = served(Fake { shares: 1, ..Fake::default() });
    // Fewer than there are places, by some for who is let in.
    let silent: Vec<TcpStream> = (0..5).map(|_| TcpStream::connect(served.address()).unwrap()).collect();
    assert_eq!(served.get("/", &[]).status, 200);
    served.signed_in("ann").read("/api/read/overview");
    drop(silent);
}

#[test]
fn who_says_half_of_what_it_wants_leaves_its_place_to_others_and_who_has_none_is_told_safely() {
    let served = served(Fake { shares: 1, ..Fake::default() });
    let half = format!(
        "POST /api/sign-in HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{{",
        host = served.host()
    );
    let halves: Vec<TcpStream> = (0..80)
        .map(|_| {
            let mut stream = TcpStream::connect(served.address()).unwrap();
            std::io::Write::write_all(&mut stream, half.as_bytes()).unwrap();
            stream
        })
        .collect();
    let until = Instant::now() + Duration::from_secs(4);
    loop {
        let answer = served.get("/", &[]);
        if answer.status == 200 {
            break;
        }
        assert_eq!(answer.status, 503, "{answer:?}");
        for line in
            ["content-security-policy: default-src 'none'", "nosniff", "refresh: 1", "retry-after: 1", "no-store"]
        {
            assert!(answer.head.contains(line), "{line}: {answer:?}");
        }
        assert!(answer.body.contains("Too many ask at once."), "{answer:?}");
        assert!(Instant::now() < until, "who says half keeps others out");
    }
    drop(halves);
}

#[test]
fn the_page_is_there_before_the_server_and_for_this_machine_alone() {
    let page = page();
    let [address] = page.addresses() else { panic!("{:?}", page.addresses()) };
    let answer = ask(*address, &["GET /api/session HTTP/1.1", "Host: localhost"]).unwrap();
    assert!(answer.status == 503 && answer.body.contains("The server starts."), "{answer:?}");
    let again = Page::listen(PageAt::Address(*address)).err().unwrap();
    assert_eq!(again.cause.kind(), std::io::ErrorKind::AddrInUse);
    assert!(Page::listen(PageAt::Address("0.0.0.0:0".parse().unwrap())).is_err());
}

/// Browsers try ::1 first where they are told `localhost`: whoever listens there would be told the password.
#[test]
fn a_port_alone_is_that_of_both_loopback_addresses_or_of_none() {
    let page = Page::listen(PageAt::Loopback(0)).unwrap();
    let port = page.addresses()[0].port();
    let Some(other) = page.addresses().get(1) else {
        let no_ipv6 = TcpListener::bind("[::1]:0").is_err();
        assert!(no_ipv6, "the machine has ::1, and the page is not there");
        return;
    };
    assert_eq!(*other, SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, port)));
    for address in page.addresses() {
        assert_eq!(ask(*address, &["GET / HTTP/1.1", "Host: localhost"]).unwrap().status, 200, "{address}");
    }
    drop(page);
    for taken in ["[::1]:0", "127.0.0.1:0"] {
        let taken = TcpListener::bind(taken).unwrap();
        let address = taken.local_addr().unwrap();
        let refused = Page::listen(PageAt::Loopback(address.port())).err().unwrap();
        assert_eq!((refused.address, refused.cause.kind()), (address, std::io::ErrorKind::AddrInUse));
    }
}
