//! The lsarpc and samr pipes, and what srvsvc tells administrators: bytes that clients send, and what a small town's server answers.

use proptest::prelude::*;
use wire::Utf16;
use wire::rpc::client::{self, Answer, Failure};
use wire::rpc::fake::Fake;
use wire::rpc::names::{Account, AccountKind, Found, SidUse, find_name, find_sid};
use wire::rpc::pdu::{FRAGMENT_BYTES_MAX, FaultStatus};
use wire::rpc::server::{Conversation, Taken};
use wire::rpc::srvsvc::{OpenFile, Session, Share, Unreadable, Wanted};
use wire::rpc::{Syntax, SyntaxId, lsarpc, samr, srvsvc};
use wire::security::Sid;
use wire::status::Status;

/// LsarOpenPolicy2 for POLICY_LOOKUP_NAMES, as impacket sends it in NDR and NDR64.
const OPEN: [&str; 2] = [
    "0000000000000000000000000000000000000000000000000000000000080000",
    "000000000000000000000000bfbfbfbf0000000000000000000000000000000000000000bfbfbfbf0000000000000000000000000000\
     000000080000",
];
/// LsarLookupSids2 of S-1-5-21-1-2-3-1000 and S-1-1-0 with the first handle.
const SIDS: [&str; 2] = [
    "000000000100000000000000000000000000000002000000046f000002000000e31100009d3d00000500000001050000000000051500\
     0000010000000200000003000000e80300000100000001010000000000010000000000000000000000000100bfbf0000000000000000\
     02000000",
    "0000000001000000000000000000000000000000abababab02000000aaaaaaaa128d0000000000000200000000000000220f00000000\
     0000add30000000000000500000000000000010500000000000515000000010000000200000003000000e8030000eeeeeeee01000000\
     00000000010100000000000100000000abababab00000000bfbfbfbf000000000000000001000000000000000000000002000000",
];
/// LsarLookupNames3 of `zoe` and `SERVER\adam`.
const NAMES: [&str; 2] = [
    "00000000010000000000000000000000000000000200000002000000060006008df20000160016002739000003000000000000000300\
     00007a006f006500abab0b000000000000000b0000005300450052005600450052005c006100640061006d00abab0000000000000000\
     0100bfbf000000000000000002000000",
    "000000000100000000000000000000000000000002000000020000000000000006000600aaaaaaaa409500000000000016001600aaaa\
     aaaa9ef20000000000000300000000000000000000000000000003000000000000007a006f006500abab0b0000000000000000000000\
     000000000b000000000000005300450052005600450052005c006100640061006d00abab00000000bfbfbfbf00000000000000000100\
     0000000000000000000002000000",
];
/// SamrConnect5 of SERVER.
const CONNECT5: &str = "\
    be9300000700000000000000070000005300450052005600450052000000bfbf0000000201000000010000000000000000000000";
/// SamrLookupNamesInDomain of `zoe`.
const LOOKUP_NAMES: [&str; 2] = [
    "000000000100000000000000000000000000000001000000e80300000000000001000000060006008d65000003000000000000000300\
     00007a006f006500",
    "000000000100000000000000000000000000000001000000e8030000000000000000000000000000010000000000000006000600aaaa\
     aaaaecf90000000000000300000000000000000000000000000003000000000000007a006f006500",
];
/// NetrSessionEnum at level 502 for the user `zoe`.
const SESSIONS: [&str; 2] = [
    "0000000000000000c5db00000400000000000000040000007a006f0065000000f6010000f60100004d6b000000000000244a00000000\
     0000ffffffff00000000",
    "00000000000000000000000000000000eed00000000000000400000000000000000000000000000004000000000000007a006f006500\
     0000f6010000bcbcbcbcf6010000bdbdbdbd621a00000000000000000000aaaaaaaa452e0000000000000000000000000000ffffffff\
     bfbfbfbf0000000000000000",
];
const SYNTAXES: [Syntax; 2] = [Syntax::Ndr32, Syntax::Ndr64];
const MAXIMUM_ALLOWED: u32 = 0x0200_0000;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// A server with some users and a local group, and ten sessions.
fn town() -> Fake {
    let session = |number: usize| Session {
        client: format!("10.0.0.{}", number % 3),
        user: if number.is_multiple_of(2) { "zoe" } else { "adam" }.into(),
        opens: number as u32,
        seconds: 60,
        idle_seconds: 5,
    };
    let sessions = (0..10).map(session).collect();
    let shares = vec![Share { name: "a".into(), ..Share::default() }];
    Fake { shares, sessions, ..Fake::town() }
}

/// Open files of one user, in two directories.
fn open_files(count: usize) -> Vec<OpenFile> {
    let file = |number: usize| OpenFile {
        id: number as u32,
        permissions: 3,
        locks: 1,
        path: format!(r"data\{}\file{number}", if number < 5 { "old" } else { "older" }),
        user: "zoe".into(),
    };
    (0..count).map(file).collect()
}

fn of_many(count: u32) -> Fake {
    let account = |relative_id| Account {
        name: format!("user{relative_id}"),
        relative_id,
        kind: AccountKind::User,
        is_disabled: false,
        is_administrator: false,
    };
    Fake { accounts: (1000..1000 + count).map(account).collect(), ..town() }
}

fn read(pipe: &mut Conversation) -> Vec<u8> {
    let Taken { bytes, more } = pipe.take(usize::MAX).expect("something to read");
    assert!(!more);
    bytes
}

/// A pipe that is bound to one interface.
struct Pipe<'a> {
    pipe: Conversation,
    town: &'a Fake,
}

impl<'a> Pipe<'a> {
    fn of(interface: SyntaxId, town: &'a Fake) -> Self {
        let mut pipe = Conversation::new("lsarpc");
        pipe.feed(&client::bind(&interface), town).unwrap();
        assert_eq!(client::bound(&read(&mut pipe)), Ok(FRAGMENT_BYTES_MAX));
        Pipe { pipe, town }
    }

    fn call(&mut self, operation: u16, stub: &[u8]) -> Result<Vec<u8>, Failure> {
        for fragment in client::request(7, operation, stub, FRAGMENT_BYTES_MAX) {
            self.pipe.feed(&fragment, self.town).unwrap();
            while self.pipe.is_working() {
                self.pipe.proceed(self.town).unwrap();
            }
        }
        let mut answer = Answer::new(7);
        loop {
            if let Some(stub) = answer.fragment(&read(&mut self.pipe))? {
                return Ok(stub);
            }
            self.pipe.proceed(self.town).unwrap();
        }
    }

    /// Opens something, and gives the handle.
    fn open(&mut self, operation: u16, stub: &[u8]) -> [u8; 20] {
        let answer = self.call(operation, stub).unwrap();
        assert_eq!(status(&answer), Status::SUCCESS);
        answer[answer.len() - 24..answer.len() - 4].try_into().unwrap()
    }
}

fn status(answer: &[u8]) -> Status {
    Status(u32::from_le_bytes(*answer.last_chunk().unwrap()))
}

fn long(value: u32) -> [u8; 4] {
    value.to_le_bytes()
}

fn longs(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| long(*value)).collect()
}

fn ndr_sid(sid: &str) -> Vec<u8> {
    let sid: Sid = sid.parse().unwrap();
    let mut out = long(sid.sub_authorities().len() as u32).to_vec();
    sid.encode(&mut out);
    out
}

/// LsarLookupSids in NDR.
fn lookup_sids(handle: &[u8], sids: &[&str]) -> Vec<u8> {
    let count = sids.len() as u32;
    let mut stub = [handle, &longs(&[count, 1, count])].concat();
    sids.iter().for_each(|_| stub.extend(long(2)));
    sids.iter().for_each(|sid| stub.extend(ndr_sid(sid)));
    stub.extend(longs(&[0, 0, 1, 0]));
    stub
}

fn text(units: &str) -> Vec<u8> {
    let encoded = wire::codec::utf16_bytes(units);
    let count = encoded.len() as u32 / 2;
    [longs(&[count, 0, count]), encoded].concat()
}

/// True where the answer has `name` as a counted string's text.
fn tells(answer: &[u8], name: &str) -> bool {
    let wanted = text(name);
    answer.windows(wanted.len()).any(|window| window == wanted)
}

#[test]
fn sids_and_names_lead_to_each_other() {
    let town = town();
    for (sid, name, kind) in [
        ("S-1-5-21-1-2-3-1000", r"SERVER\zoe", SidUse::USER),
        ("S-1-5-21-1-2-3-1002", r"SERVER\Änne", SidUse::USER),
        ("S-1-5-21-1-2-3-1010", r"SERVER\staff", SidUse::ALIAS),
        ("S-1-5-21-1-2-3-513", r"SERVER\Domain Users", SidUse::GROUP),
        ("S-1-5-32-544", r"BUILTIN\Administrators", SidUse::ALIAS),
        ("S-1-5-18", r"NT AUTHORITY\SYSTEM", SidUse::WELL_KNOWN_GROUP),
        ("S-1-1-0", "Everyone", SidUse::WELL_KNOWN_GROUP),
        ("S-1-3-0", "CREATOR OWNER", SidUse::WELL_KNOWN_GROUP),
        ("S-1-5-21-1-2-3", "SERVER", SidUse::DOMAIN),
    ] {
        let by_sid = find_sid(&town, &sid.parse().unwrap());
        for name in [name.to_owned(), name.to_uppercase(), name.rsplit('\\').next().unwrap().to_lowercase()] {
            assert_eq!(find_name(&town, &name), by_sid, "{name}");
        }
        let Found::Principal(found) = by_sid else { panic!("{sid}") };
        assert_eq!((found.sid.to_string().as_str(), found.sid_use), (sid, kind));
    }
    let domain = |found| match found {
        Found::Domain(domain) => domain.name.into_owned(),
        Found::Principal(_) | Found::Nothing => String::new(),
    };
    assert_eq!(domain(find_sid(&town, &"S-1-5-21-1-2-3-7".parse().unwrap())), "SERVER");
    assert_eq!(domain(find_name(&town, r"server\nobody")), "SERVER");
    assert_eq!(domain(find_name(&town, r"builtin\nobody")), "BUILTIN");
    assert_eq!(domain(find_name(&town, r"SERVER\SERVER\zoe")), "SERVER");
    for name in ["nobody", r"ELSEWHERE\zoe", r"\zoe", "", "zoe@SERVER"] {
        assert_eq!(find_name(&town, name), Found::Nothing, "{name}");
    }
    assert_eq!(find_sid(&town, &"S-1-5-21-9-9-9-1000".parse().unwrap()), Found::Nothing);
}

#[test]
fn requests_of_other_clients_are_understood() {
    for (index, syntax) in SYNTAXES.into_iter().enumerate() {
        let stub = bytes(OPEN[index]);
        let call = lsarpc::Call::decode(lsarpc::Operation::OPEN_POLICY2, &stub, syntax);
        assert_eq!(call, Ok(lsarpc::Call::OpenPolicy { access: 0x800 }));
        let stub = bytes(SIDS[index]);
        match lsarpc::Call::decode(lsarpc::Operation::LOOKUP_SIDS2, &stub, syntax) {
            Ok(lsarpc::Call::LookupSids { sids, level: lsarpc::LookupLevel::WORKSTATION, .. }) => {
                assert_eq!(sids, ["S-1-5-21-1-2-3-1000", "S-1-1-0"].map(|sid| sid.parse().unwrap()));
            }
            other => panic!("{other:?}"),
        }
        let stub = bytes(NAMES[index]);
        match lsarpc::Call::decode(lsarpc::Operation::LOOKUP_NAMES3, &stub, syntax) {
            Ok(lsarpc::Call::LookupNames { names, is_valid: true, .. }) => {
                let names: Vec<_> = names.iter().filter_map(Utf16::decode).collect();
                assert_eq!(names, ["zoe", r"SERVER\adam"]);
            }
            other => panic!("{other:?}"),
        }
        let stub = bytes(LOOKUP_NAMES[index]);
        match samr::Call::decode(samr::Operation::LOOKUP_NAMES, &stub, syntax) {
            Ok(samr::Call::LookupNames { names, .. }) => assert_eq!(names[0].decode().as_deref(), Some("zoe")),
            other => panic!("{other:?}"),
        }
        let stub = bytes(SESSIONS[index]);
        match srvsvc::Call::decode(srvsvc::Operation::SESSION_ENUM, &stub, syntax) {
            Ok(srvsvc::Call::SessionEnum { client: None, user: Some(user), wanted }) => {
                assert_eq!(user.decode().as_deref(), Some("zoe"));
                assert_eq!(wanted, Wanted { level: 502, preferred_bytes: u32::MAX, resume: None });
            }
            other => panic!("{other:?}"),
        }
    }
    let stub = bytes(CONNECT5);
    let call = samr::Call::decode(samr::Operation::CONNECT5, &stub, Syntax::Ndr32);
    assert_eq!(call, Ok(samr::Call::Connect5 { access: MAXIMUM_ALLOWED, version: 1 }));
}

#[test]
fn requests_that_are_cut_short_are_refused() {
    let short = |stub: &[u8]| (0..stub.len()).map(|length| stub[..length].to_vec()).collect::<Vec<_>>();
    for (index, syntax) in SYNTAXES.into_iter().enumerate() {
        for (operation, stub, options) in [
            (lsarpc::Operation::OPEN_POLICY2, OPEN[index], 0),
            // The options of a lookup of SIDs are not read.
            (lsarpc::Operation::LOOKUP_SIDS2, SIDS[index], [14, 12][index]),
            (lsarpc::Operation::LOOKUP_NAMES3, NAMES[index], 4),
        ] {
            let stub = bytes(stub);
            for cut in short(&stub[..stub.len() - options]) {
                assert!(lsarpc::Call::decode(operation, &cut, syntax).is_err(), "{operation:?} {}", cut.len());
            }
        }
        for cut in short(&bytes(LOOKUP_NAMES[index])) {
            assert!(samr::Call::decode(samr::Operation::LOOKUP_NAMES, &cut, syntax).is_err(), "{}", cut.len());
        }
        for cut in short(&bytes(SESSIONS[index])) {
            assert!(srvsvc::Call::decode(srvsvc::Operation::SESSION_ENUM, &cut, syntax).is_err(), "{}", cut.len());
        }
    }
}

#[test]
fn requests_that_lie_are_refused() {
    let good = lookup_sids(&[0; 20], &["S-1-1-0"; 2]);
    // How many SIDs there are, that they are there, how many the array has, that the first is there, and how long it is.
    for (at, value) in [(20, 3), (24, 0), (28, 3), (28, 0x2000_0000), (32, 0), (40, 2)] {
        let mut stub = good.clone();
        stub[at..at + 4].copy_from_slice(&long(value));
        let call = lsarpc::Call::decode(lsarpc::Operation::LOOKUP_SIDS, &stub, Syntax::Ndr32);
        assert!(matches!(call, Err(Unreadable::Stub(_))), "{at}: {call:?}");
    }
    assert!(lsarpc::Call::decode(lsarpc::Operation::LOOKUP_SIDS, &good, Syntax::Ndr32).is_ok());
    let many = lookup_sids(&[0; 20], &vec!["S-1-1-0"; lsarpc::SIDS_MAX as usize + 1]);
    assert!(lsarpc::Call::decode(lsarpc::Operation::LOOKUP_SIDS, &many, Syntax::Ndr32).is_err());
    let good = bytes(LOOKUP_NAMES[0]);
    // How many names there are, where they begin, how long the first is, and where its text begins.
    for (at, value) in [(20, 2), (20, 1001), (28, 1), (36, 0x0006_0007), (36, 0x0008_0006), (48, 1), (52, 4)] {
        let mut stub = good.clone();
        stub[at..at + 4].copy_from_slice(&long(value));
        let call = samr::Call::decode(samr::Operation::LOOKUP_NAMES, &stub, Syntax::Ndr32);
        assert!(matches!(call, Err(Unreadable::Stub(_))), "{at}: {call:?}");
    }
}

#[test]
fn a_lookup_tells_domains_names_and_how_much_it_found() {
    let town = town();
    let mut pipe = Pipe::of(SyntaxId::LSARPC, &town);
    let policy = pipe.open(lsarpc::Operation::OPEN_POLICY2.0, &bytes(OPEN[0]));
    let mut look = |sids: &[&str]| pipe.call(lsarpc::Operation::LOOKUP_SIDS.0, &lookup_sids(&policy, sids)).unwrap();
    let answer = look(&["S-1-5-21-1-2-3-1000"]);
    let expected = "\
        0000020001000000040002000100000001000000\
        0c000c00080002000c000200\
        060000000000000006000000530045005200560045005200\
        04000000010400000000000515000000010000000200000003000000\
        01000000100002000100000001000000060006001400020000000000\
        0300000000000000030000007a006f006500\
        00000100000000000000";
    assert_eq!(answer, bytes(expected));
    let answer = look(&["S-1-5-21-1-2-3-1000", "S-1-5-21-1-2-3-1", "S-1-5-21-9-9-9-9"]);
    assert_eq!(status(&answer), Status::SOME_NOT_MAPPED);
    assert!(tells(&answer, "zoe") && tells(&answer, "00000001") && tells(&answer, "S-1-5-21-9-9-9-9"));
    assert_eq!(status(&look(&["S-1-5-21-9-9-9-9"])), Status::NONE_MAPPED);
    assert_eq!(status(&look(&[])), Status::SUCCESS);
    let names = pipe.call(lsarpc::Operation::LOOKUP_NAMES3.0, &[&policy[..], &bytes(NAMES[0])[20..]].concat()).unwrap();
    assert_eq!(status(&names), Status::SUCCESS);
    let sid = ndr_sid("S-1-5-21-1-2-3-1001");
    assert!(names.windows(sid.len()).any(|window| window == sid));
}

#[test]
fn a_thousand_sids_are_looked_up_in_one_call() {
    let town = of_many(700);
    let mut pipe = Pipe::of(SyntaxId::LSARPC, &town);
    let policy = pipe.open(lsarpc::Operation::OPEN_POLICY2.0, &bytes(OPEN[0]));
    let sids: Vec<_> = (1000..2000).map(|id| format!("S-1-5-21-1-2-3-{id}")).collect();
    let sids: Vec<_> = sids.iter().map(String::as_str).collect();
    let answer = pipe.call(lsarpc::Operation::LOOKUP_SIDS.0, &lookup_sids(&policy, &sids)).unwrap();
    assert_eq!(status(&answer), Status::SOME_NOT_MAPPED);
    assert_eq!(answer[answer.len() - 8..answer.len() - 4], long(700));
    assert!(tells(&answer, "user1699") && tells(&answer, "000006a4"));
    let longest = format!("S-1-5{}", "-4294967295".repeat(15));
    let longest = vec![longest.as_str(); lsarpc::SIDS_MAX as usize];
    let answer = pipe.call(lsarpc::Operation::LOOKUP_SIDS.0, &lookup_sids(&policy, &longest)).unwrap();
    assert_eq!(status(&answer), Status::NONE_MAPPED);
}

#[test]
fn handles_do_what_was_granted_until_they_are_closed() {
    let town = town();
    let mut pipe = Pipe::of(SyntaxId::LSARPC, &town);
    let open = |access: u32| [longs(&[0, 0, 0, 0, 0, 0, 0]), long(access).to_vec()].concat();
    let lookup = lsarpc::Operation::LOOKUP_SIDS.0;
    // POLICY_VIEW_LOCAL_INFORMATION alone looks nothing up; POLICY_CREATE_SECRET, and all, are for nobody.
    let narrow = pipe.open(lsarpc::Operation::OPEN_POLICY.0, &open(0x1));
    assert_eq!(status(&pipe.call(lookup, &lookup_sids(&narrow, &["S-1-1-0"])).unwrap()), Status::ACCESS_DENIED);
    for access in [0x20, 0x000F_0FFF, 0x1000_0000, 0x8000_0000] {
        let answer = pipe.call(lsarpc::Operation::OPEN_POLICY2.0, &open(access)).unwrap();
        assert_eq!((status(&answer), &answer[..20]), (Status::ACCESS_DENIED, &[0; 20][..]), "{access:#x}");
    }
    let policy = pipe.open(lsarpc::Operation::OPEN_POLICY2.0, &open(MAXIMUM_ALLOWED));
    assert_eq!(status(&pipe.call(lookup, &lookup_sids(&policy, &["S-1-1-0"])).unwrap()), Status::SUCCESS);
    assert_eq!(pipe.call(lsarpc::Operation::CLOSE.0, &policy), Ok(vec![0; 24]));
    let closed = Err(Failure::Fault(FaultStatus::CONTEXT_MISMATCH));
    assert_eq!(pipe.call(lookup, &lookup_sids(&policy, &["S-1-1-0"])), closed);
    assert_eq!(pipe.call(lsarpc::Operation::CLOSE.0, &policy), closed);
    // A handle of one interface is none of the other's.
    let policy = pipe.open(lsarpc::Operation::OPEN_POLICY2.0, &open(MAXIMUM_ALLOWED));
    let mut accounts = Pipe::of(SyntaxId::SAMR, &town);
    assert_eq!(accounts.call(samr::Operation::ENUMERATE_DOMAINS.0, &[&policy[..], &[0; 8]].concat()), closed);
    let server = accounts.open(samr::Operation::CONNECT5.0, &bytes(CONNECT5));
    assert_eq!(pipe.call(lookup, &lookup_sids(&server, &["S-1-1-0"])), closed);
    // Who becomes nobody has no use of what is open.
    town.may_ask.set(false);
    assert_eq!(status(&pipe.call(lookup, &lookup_sids(&policy, &["S-1-1-0"])).unwrap()), Status::ACCESS_DENIED);
    assert_eq!(status(&pipe.call(lsarpc::Operation::OPEN_POLICY2.0, &open(0x800)).unwrap()), Status::ACCESS_DENIED);
    let connected = accounts.call(samr::Operation::CONNECT5.0, &bytes(CONNECT5)).unwrap();
    assert_eq!(status(&connected), Status::ACCESS_DENIED);
}

#[test]
fn what_is_for_domain_controllers_is_not_for_us() {
    let town = town();
    let mut pipe = Pipe::of(SyntaxId::LSARPC, &town);
    for operation in [lsarpc::Operation::LOOKUP_SIDS3, lsarpc::Operation::LOOKUP_NAMES4] {
        let answer = pipe.call(operation.0, &[]).unwrap();
        assert_eq!((answer.len(), status(&answer)), (20, Status::INVALID_SERVER_STATE), "{operation:?}");
    }
    let policy = pipe.open(lsarpc::Operation::OPEN_POLICY2.0, &bytes(OPEN[0]));
    let mut stub = lookup_sids(&policy, &["S-1-1-0"]);
    let level = stub.len() - 8;
    for (value, expected) in
        [(0, Status::INVALID_PARAMETER), (2, Status::INVALID_SERVER_STATE), (9, Status::INVALID_PARAMETER)]
    {
        stub[level] = value;
        assert_eq!(status(&pipe.call(lsarpc::Operation::LOOKUP_SIDS.0, &stub).unwrap()), expected, "{value}");
    }
}

#[test]
fn the_policy_tells_the_servers_domains() {
    let town = town();
    let mut pipe = Pipe::of(SyntaxId::LSARPC, &town);
    let stub = [longs(&[0, 0, 0, 0, 0, 0, 0]), long(MAXIMUM_ALLOWED).to_vec()].concat();
    let policy = pipe.open(lsarpc::Operation::OPEN_POLICY2.0, &stub);
    for (class, name) in [(3, "WORKGROUP"), (5, "SERVER"), (12, "WORKGROUP"), (14, "SERVER")] {
        let query = [&policy[..], &[class, 0]].concat();
        let answer = pipe.call(lsarpc::Operation::QUERY_INFORMATION_POLICY2.0, &query).unwrap();
        assert_eq!(status(&answer), Status::SUCCESS, "{class}");
        assert!(tells(&answer, name), "{class}");
    }
    let query = [&policy[..], &[2, 0]].concat();
    let answer = pipe.call(lsarpc::Operation::QUERY_INFORMATION_POLICY.0, &query).unwrap();
    assert_eq!((answer.len(), status(&answer)), (8, Status::INVALID_PARAMETER));
    let answer = pipe.call(lsarpc::Operation::GET_USER_NAME.0, &longs(&[0, 0, 1, 0])).unwrap();
    assert!(tells(&answer, "zoe") && tells(&answer, "SERVER") && status(&answer) == Status::SUCCESS);
}

/// A samr pipe with the account domain open, and its handle.
fn account_domain(town: &Fake, domain: &str) -> (Pipe<'static>, [u8; 20]) {
    // Tests leave it behind.
    let town: &'static Fake = Box::leak(Box::new(Fake { accounts: town.accounts.clone(), ..self::town() }));
    let mut pipe = Pipe::of(SyntaxId::SAMR, town);
    let server = pipe.open(samr::Operation::CONNECT5.0, &bytes(CONNECT5));
    let stub = [&server[..], &long(MAXIMUM_ALLOWED), &ndr_sid(domain)].concat();
    let domain = pipe.open(samr::Operation::OPEN_DOMAIN.0, &stub);
    (pipe, domain)
}

const ACCOUNTS: &str = "S-1-5-21-1-2-3";
const BUILTIN: &str = "S-1-5-32";

#[test]
fn domains_are_listed_and_found_by_name() {
    let town = town();
    let mut pipe = Pipe::of(SyntaxId::SAMR, &town);
    let server = pipe.open(samr::Operation::CONNECT5.0, &bytes(CONNECT5));
    let answer = pipe.call(samr::Operation::ENUMERATE_DOMAINS.0, &[&server[..], &longs(&[0, 1000])].concat()).unwrap();
    assert!(tells(&answer, "SERVER") && tells(&answer, "BUILTIN") && status(&answer) == Status::SUCCESS);
    let mut find = |name: &str| {
        let length = 2 * name.len() as u32;
        let stub = [&server[..], &longs(&[length << 16 | length, 1]), &text(name)].concat();
        pipe.call(samr::Operation::LOOKUP_DOMAIN.0, &stub).unwrap()
    };
    assert_eq!(find("builtin")[4..20], ndr_sid(BUILTIN)[..16]);
    assert_eq!(find("Server")[4..32], ndr_sid(ACCOUNTS)[..]);
    assert_eq!(find("elsewhere"), [long(0), long(Status::NO_SUCH_DOMAIN.0)].concat());
    let stub = [&server[..], &long(MAXIMUM_ALLOWED), &ndr_sid("S-1-5-21-9-9-9")].concat();
    assert_eq!(status(&pipe.call(samr::Operation::OPEN_DOMAIN.0, &stub).unwrap()), Status::NO_SUCH_DOMAIN);
}

#[test]
fn users_are_listed_in_pages_that_end() {
    let (mut pipe, domain) = account_domain(&of_many(1000), ACCOUNTS);
    let (mut after, mut told, mut calls) = (0, 0, 0);
    loop {
        let stub = [&domain[..], &longs(&[after, 0, 0x4000])].concat();
        let answer = pipe.call(samr::Operation::ENUMERATE_USERS.0, &stub).unwrap();
        after = u32::from_le_bytes(*answer.first_chunk().unwrap());
        told += u32::from_le_bytes(answer[answer.len() - 8..answer.len() - 4].try_into().unwrap());
        calls += 1;
        match status(&answer) {
            Status::MORE_ENTRIES => continue,
            status => break assert_eq!(status, Status::SUCCESS),
        }
    }
    assert_eq!((told, after), (1000, 1999));
    assert!((5..20).contains(&calls), "{calls}");
    // Machines are no users.
    let answer = pipe.call(samr::Operation::ENUMERATE_USERS.0, &[&domain[..], &longs(&[0, 0x80, 0x4000])].concat());
    assert_eq!(answer.unwrap()[answer_count()..], [0; 8]);
}

/// Where the count stands in an answer without entries.
fn answer_count() -> usize {
    16
}

#[test]
fn groups_and_local_groups_are_listed_where_they_are() {
    for (domain, operation, names) in [
        (ACCOUNTS, samr::Operation::ENUMERATE_GROUPS, &["Domain Users"][..]),
        (ACCOUNTS, samr::Operation::ENUMERATE_ALIASES, &["staff"]),
        (BUILTIN, samr::Operation::ENUMERATE_GROUPS, &[]),
        (BUILTIN, samr::Operation::ENUMERATE_ALIASES, &["Administrators", "Users", "Backup Operators"]),
    ] {
        let (mut pipe, domain) = account_domain(&town(), domain);
        let answer = pipe.call(operation.0, &[&domain[..], &longs(&[0, 0x10000])].concat()).unwrap();
        assert_eq!(status(&answer), Status::SUCCESS);
        assert!(names.iter().all(|name| tells(&answer, name)), "{operation:?} {names:?}");
        assert_eq!(answer.len() == 24, names.is_empty(), "{operation:?}");
    }
}

#[test]
fn accounts_are_opened_and_told_about() {
    let (mut pipe, domain) = account_domain(&town(), ACCOUNTS);
    let open = |id: u32| [&domain[..], &longs(&[MAXIMUM_ALLOWED, id])].concat();
    let user = pipe.open(samr::Operation::OPEN_USER.0, &open(1001));
    for class in (1..=14).chain([16, 17, 20, 21]) {
        let answer = pipe.call(samr::Operation::QUERY_USER.0, &[&user[..], &[class, 0]].concat()).unwrap();
        assert_eq!(status(&answer), Status::SUCCESS, "{class}");
        assert_eq!(tells(&answer, "adam"), matches!(class, 1 | 3 | 5..=7 | 21), "{class}");
    }
    // What has passwords in it is told to nobody.
    for class in [0, 15, 18, 23, 24, 25, 26, 31, 32, 255] {
        let answer = pipe.call(samr::Operation::QUERY_USER2.0, &[&user[..], &[class, 0]].concat()).unwrap();
        assert_eq!((answer.len(), status(&answer)), (8, Status::INVALID_INFO_CLASS), "{class}");
    }
    let groups = pipe.call(samr::Operation::GET_GROUPS_FOR_USER.0, &user).unwrap();
    assert_eq!(groups, [longs(&[0x20000, 1, 0x20004, 1, 513, 7]), long(0).to_vec()].concat());
    let sids = [longs(&[1, 1, 1, 1]), ndr_sid("S-1-5-21-1-2-3-1001")].concat();
    let aliases = pipe.call(samr::Operation::GET_ALIAS_MEMBERSHIP.0, &[&domain[..], &sids].concat()).unwrap();
    assert_eq!(aliases, longs(&[1, 0x20000, 1, 1010, 0]));
    let group = pipe.open(samr::Operation::OPEN_GROUP.0, &open(513));
    let answer = pipe.call(samr::Operation::QUERY_GROUP.0, &[&group[..], &[1, 0]].concat()).unwrap();
    assert!(tells(&answer, "Domain Users"));
    let members = pipe.call(samr::Operation::GET_MEMBERS_IN_GROUP.0, &group).unwrap();
    assert_eq!(members[4..8], long(3));
    let alias = pipe.open(samr::Operation::OPEN_ALIAS.0, &open(1010));
    let answer = pipe.call(samr::Operation::QUERY_ALIAS.0, &[&alias[..], &[1, 0]].concat()).unwrap();
    assert!(tells(&answer, "staff"));
    let members = pipe.call(samr::Operation::GET_MEMBERS_IN_ALIAS.0, &alias).unwrap();
    assert_eq!(members, [longs(&[1, 0x20000, 1, 0x20004]), ndr_sid("S-1-5-21-1-2-3-1001"), long(0).to_vec()].concat());
    for (operation, id, expected) in [
        (samr::Operation::OPEN_USER, 1010, Status::NO_SUCH_USER),
        (samr::Operation::OPEN_GROUP, 1001, Status::NO_SUCH_GROUP),
        (samr::Operation::OPEN_ALIAS, 513, Status::NO_SUCH_ALIAS),
    ] {
        assert_eq!(status(&pipe.call(operation.0, &open(id)).unwrap()), expected, "{operation:?}");
    }
    // A user's handle is no domain's.
    let answer = pipe.call(samr::Operation::ENUMERATE_GROUPS.0, &[&user[..], &[0; 8]].concat()).unwrap();
    assert_eq!(status(&answer), Status::OBJECT_TYPE_MISMATCH);
}

#[test]
fn names_and_relative_ids_are_looked_up_in_a_domain() {
    let (mut pipe, domain) = account_domain(&town(), ACCOUNTS);
    let stub = [&domain[..], &bytes(LOOKUP_NAMES[0])[20..]].concat();
    let answer = pipe.call(samr::Operation::LOOKUP_NAMES.0, &stub).unwrap();
    assert_eq!(answer, longs(&[1, 0x20000, 1, 1000, 1, 0x20004, 1, 1, 0]));
    let stub = [&domain[..], &longs(&[2, 1000, 0, 2, 1001, 7])].concat();
    let answer = pipe.call(samr::Operation::LOOKUP_IDS.0, &stub).unwrap();
    assert!(tells(&answer, "adam") && status(&answer) == Status::SOME_NOT_MAPPED);
    assert_eq!(answer[answer.len() - 12..answer.len() - 4], longs(&[1, 8])[..]);
    let (mut pipe, domain) = account_domain(&town(), BUILTIN);
    let stub = [&domain[..], &longs(&[1, 1000, 0, 1, 544])].concat();
    assert!(tells(&pipe.call(samr::Operation::LOOKUP_IDS.0, &stub).unwrap(), "Administrators"));
    let stub = [&domain[..], &longs(&[1, 1000, 0, 1, 1000])].concat();
    assert_eq!(status(&pipe.call(samr::Operation::LOOKUP_IDS.0, &stub).unwrap()), Status::NONE_MAPPED);
}

#[test]
fn what_is_shown_comes_by_name_from_any_place() {
    let (mut pipe, domain) = account_domain(&of_many(100), ACCOUNTS);
    let mut show = |class: u16, from: u32, count: u32| {
        let mut stub = [&domain[..], &class.to_le_bytes(), &[0; 2]].concat();
        stub.extend(longs(&[from, count, 0x8000]));
        pipe.call(samr::Operation::QUERY_DISPLAY3.0, &stub).unwrap()
    };
    let answer = show(1, 0, 10);
    assert!(tells(&answer, "user1000") && tells(&answer, "user1009") && !tells(&answer, "user1010"));
    assert_eq!((status(&answer), &answer[8..16]), (Status::MORE_ENTRIES, &longs(&[1, 10])[..]));
    let answer = show(1, 90, 1000);
    assert!(tells(&answer, "user1099") && status(&answer) == Status::SUCCESS);
    assert_eq!(status(&show(2, 0, 10)), Status::SUCCESS);
    assert_eq!(status(&show(4, 0, 10)), Status::NOT_SUPPORTED);
    assert_eq!(status(&show(9, 0, 10)), Status::INVALID_PARAMETER);
    assert_eq!(status(&show(1, u32::MAX, 10)), Status::SUCCESS);
}

#[test]
fn nothing_can_be_changed() {
    let (mut pipe, _) = account_domain(&town(), ACCOUNTS);
    for operation in (0..80).filter(|operation| samr::Operation(*operation).is_change()) {
        assert_eq!(pipe.call(operation, &[]), Err(Failure::Fault(FaultStatus::ACCESS_DENIED)), "{operation}");
    }
    for operation in [4, 59, 60, 61, 67, 200] {
        assert_eq!(pipe.call(operation, &[]), Err(Failure::Fault(FaultStatus::OP_RANGE_ERROR)), "{operation}");
    }
}

/// The stub of NetrSessionEnum or NetrFileEnum in NDR.
fn enumerate(first: Option<&str>, user: Option<&str>, level: u32, bytes: u32, resume: u32) -> Vec<u8> {
    let qualifier = |text: Option<&str>| match text {
        Some(text) => {
            let encoded = wire::codec::utf16_bytes(&format!("{text}\0"));
            let count = encoded.len() as u32 / 2;
            let mut out = [longs(&[1, count, 0, count]), encoded].concat();
            out.resize(out.len().next_multiple_of(4), 0);
            out
        }
        None => long(0).to_vec(),
    };
    let tail = longs(&[level, level, 1, 0, 0, bytes, 1, resume]);
    [long(0).to_vec(), qualifier(first), qualifier(user), tail].concat()
}

/// How many entries an answer with a resume handle tells, how many there are, where to go on, and how it ended.
fn listed(answer: &[u8]) -> (u32, u32, u32, u32) {
    let from_end = |back: usize| {
        let at = answer.len() - back;
        u32::from_le_bytes(answer[at..at + 4].try_into().unwrap())
    };
    (u32::from_le_bytes(answer[12..16].try_into().unwrap()), from_end(16), from_end(8), from_end(4))
}

#[test]
fn administrators_see_sessions_and_files_and_others_see_none() {
    let town = Fake { files: open_files(100_000), ..town() };
    let mut pipe = Pipe::of(SyntaxId::SRVSVC, &town);
    let sessions = srvsvc::Operation::SESSION_ENUM.0;
    for level in [0, 1, 2, 10, 502] {
        let answer = pipe.call(sessions, &enumerate(None, None, level, u32::MAX, 0)).unwrap();
        assert_eq!(listed(&answer), (10, 10, 0, 0), "{level}");
    }
    let answer = pipe.call(sessions, &enumerate(None, Some("ZOE"), 10, u32::MAX, 0)).unwrap();
    assert_eq!(listed(&answer), (5, 5, 0, 0));
    let answer = pipe.call(sessions, &enumerate(Some(r"\\10.0.0.1"), Some("zoe"), 10, u32::MAX, 0)).unwrap();
    assert_eq!(listed(&answer), (1, 1, 0, 0));
    for (client, user, expected) in
        [(Some("10.0.0.1"), None, 2351), (Some(r"\\nowhere"), None, 2312), (None, Some("nobody"), 2221)]
    {
        let answer = pipe.call(sessions, &enumerate(client, user, 10, u32::MAX, 0)).unwrap();
        assert_eq!(listed(&answer), (0, 0, 0, expected), "{client:?} {user:?}");
    }
    let long_name = "x".repeat(1024);
    let answer = pipe.call(sessions, &enumerate(None, Some(&long_name), 10, u32::MAX, 0)).unwrap();
    assert_eq!(listed(&answer).3, 87);
    // One entry at a time.
    let answer = pipe.call(sessions, &enumerate(None, None, 0, 1, 8)).unwrap();
    assert_eq!(listed(&answer), (1, 2, 9, 234));
    let answer = pipe.call(sessions, &enumerate(None, None, 0, 1, 77)).unwrap();
    assert_eq!(listed(&answer), (0, 0, 0, 0));

    let files = srvsvc::Operation::FILE_ENUM.0;
    let (told, total, next, status) = listed(&pipe.call(files, &enumerate(None, None, 3, u32::MAX, 0)).unwrap());
    assert!(told > 500 && next == told && total == 100_000 && status == 234);
    let answer = pipe.call(files, &enumerate(Some(r"DATA\Old"), None, 3, u32::MAX, 0)).unwrap();
    assert_eq!((listed(&answer).0, listed(&answer).2), (5, 20_000), "no more is looked at in one call");
    let answer = pipe.call(files, &enumerate(None, None, 2, u32::MAX, 99_990)).unwrap();
    assert_eq!(listed(&answer), (10, 10, 0, 0));
    assert!(pipe.call(files, &enumerate(None, None, 4, u32::MAX, 0)).is_err());

    let town = Fake { may_administer: false, ..self::town() };
    let mut pipe = Pipe::of(SyntaxId::SRVSVC, &town);
    for operation in [sessions, files] {
        let answer = pipe.call(operation, &enumerate(None, None, 2, u32::MAX, 0)).unwrap();
        assert_eq!(listed(&answer), (0, 0, 0, 5));
    }
    let share = |level: u32| [&long(0)[..], &longs(&[2, 0, 2]), b"a\0\0\0", &long(level)].concat();
    for (level, expected) in [(1, 0), (2, 5), (502, 5), (1005, 0)] {
        let answer = pipe.call(srvsvc::Operation::SHARE_INFO.0, &share(level)).unwrap();
        assert_eq!(*answer.last_chunk::<4>().unwrap(), long(expected), "{level}");
    }
    for (level, expected) in [(100, 0), (101, 0), (102, 5)] {
        let answer = pipe.call(srvsvc::Operation::SERVER_INFO.0, &longs(&[0, level])).unwrap();
        assert_eq!(*answer.last_chunk::<4>().unwrap(), long(expected), "{level}");
    }
}

/// LsarLookupNames.
fn lookup_names(policy: &[u8], names: &[String]) -> Vec<u8> {
    let count = names.len() as u32;
    let mut stub = [policy, &longs(&[count, count])].concat();
    for name in names {
        let length = 2 * name.encode_utf16().count() as u32;
        stub.extend(longs(&[length | length << 16, 1]));
    }
    for name in names {
        let units: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let count = units.len() as u32 / 2;
        stub.extend(longs(&[count, 0, count]));
        stub.extend(&units);
        stub.resize(stub.len().next_multiple_of(4), 0);
    }
    stub.extend(longs(&[0, 0, 1, 0]));
    stub
}

#[test]
fn names_longer_than_any_are_not_looked_at() {
    let town = town();
    let mut pipe = Pipe::of(SyntaxId::LSARPC, &town);
    let policy = pipe.open(lsarpc::Operation::OPEN_POLICY2.0, &bytes(OPEN[0]));
    let mut call = |name: String| {
        let stub = lookup_names(&policy, &["zoe".to_owned(), name]);
        pipe.call(lsarpc::Operation::LOOKUP_NAMES.0, &stub).unwrap()
    };
    let answer = call(r"BUILTIN\nobody".to_owned());
    assert!(status(&answer) == Status::SOME_NOT_MAPPED && tells(&answer, "BUILTIN"));
    let answer = call(format!(r"BUILTIN\{}", "\u{390}".repeat(32_000)));
    assert!(status(&answer) == Status::SOME_NOT_MAPPED && !tells(&answer, "BUILTIN"));
}

#[test]
fn many_sids_are_looked_up_in_steps() {
    let town = town();
    let mut pipe = Pipe::of(SyntaxId::LSARPC, &town);
    let policy = pipe.open(lsarpc::Operation::OPEN_POLICY2.0, &bytes(OPEN[0]));
    let longest = format!("S-1-99{}", "-4294967295".repeat(15));
    let stub = lookup_sids(&policy, &vec![longest.as_str(); 1000]);
    for fragment in client::request(7, lsarpc::Operation::LOOKUP_SIDS.0, &stub, FRAGMENT_BYTES_MAX) {
        pipe.pipe.feed(&fragment, &town).unwrap();
    }
    let (mut steps, mut held) = (1, 0);
    while pipe.pipe.is_working() {
        assert!(pipe.pipe.readable_bytes() == 0 && pipe.pipe.held_bytes() > held);
        held = pipe.pipe.held_bytes();
        pipe.pipe.proceed(&town).unwrap();
        steps += 1;
    }
    assert!((10..50).contains(&steps) && pipe.pipe.readable_bytes() > 1000, "{steps}");
    assert!(held > 1000 * longest.len() / 2, "{held}");
}

#[test]
fn what_is_in_use_is_looked_through_in_steps() {
    let file = |number: u32| OpenFile {
        id: number,
        permissions: 3,
        locks: 1,
        path: format!(r"data\older\file{number}"),
        user: "zoe".into(),
    };
    let town = Fake { files: (0..100_000).map(file).collect(), ..town() };
    let mut pipe = Pipe::of(SyntaxId::SRVSVC, &town);
    // Each of its letters is three in upper case.
    let longest = "\u{390}".repeat(1023);
    let stub = enumerate(None, Some(&longest), 3, u32::MAX, 0);
    for fragment in client::request(7, srvsvc::Operation::FILE_ENUM.0, &stub, FRAGMENT_BYTES_MAX) {
        pipe.pipe.feed(&fragment, &town).unwrap();
    }
    let mut steps = 1;
    while pipe.pipe.is_working() {
        assert!(pipe.pipe.readable_bytes() == 0 && pipe.pipe.held_bytes() < 64 * 1024);
        pipe.pipe.proceed(&town).unwrap();
        steps += 1;
    }
    assert!((50..200).contains(&steps), "{steps}");
    let answer = Answer::new(7).fragment(&read(&mut pipe.pipe)).unwrap().unwrap();
    assert_eq!(listed(&answer), (0, 80_000, 20_000, 234));
}

proptest! {
    #[test]
    fn any_stub_is_answered_or_refused(
        operation in 0u16..80,
        handle in 0u8..4,
        stub in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let town = town();
        for interface in [SyntaxId::LSARPC, SyntaxId::SAMR, SyntaxId::SRVSVC] {
            let mut pipe = Pipe::of(interface, &town);
            let mut with_handle = vec![0; 20];
            with_handle[4] = handle;
            with_handle.extend(&stub);
            for stub in [&stub, &with_handle] {
                let _ = pipe.call(operation, stub);
            }
        }
    }
}
