//! Every request is counted once, wherever it belongs and however it ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use wire::command::close::CloseRequest;
use wire::command::create::CreateDisposition;
use wire::command::logoff::LogoffRequest;
use wire::command::read::ReadRequest;
use wire::command::tree_disconnect::TreeDisconnectRequest;
use wire::header::{Flags, Header};
use wire::ids::{Command, FileId};
use wire::status::Status;

use crate::Capacity;
use crate::admin::Api::{
    Close, Create, Echo, Logoff, Negotiate, Read, SessionSetup, TreeConnect, TreeDisconnect, Write,
};
use crate::admin::ResponseType::{AuthorizationError, ClientOtherError, Success};
use crate::admin::{Admin, Api, CountersView, Counts, LatencyKind, ResponseType, Scope, Signing, Sum};
use crate::state::counters::Answered;
use crate::state::shared::Shared;
use crate::tests::testing::{OTHER_USER, Peer, Terms, USER, chained, server, server_of};

/// Requests by what they asked and how they ended.
type Expected = BTreeMap<(Api, ResponseType), u64>;

pub(crate) fn view(server: &Arc<Shared>) -> CountersView {
    Admin::counters(server)
}

fn of(view: &CountersView, is_meant: impl Fn(&Scope) -> bool) -> Counts {
    let mut sum = Counts::default();
    view.rows.iter().filter(|row| is_meant(&row.scope)).for_each(|row| sum.add(&row.counts));
    sum
}

fn of_server(view: &CountersView) -> Counts {
    of(view, |scope| *scope == Scope::Server)
}

pub(crate) fn of_share(view: &CountersView, name: &str) -> Counts {
    of(view, |scope| matches!(scope, Scope::Share { name: Some(of), .. } if of == name))
}

pub(crate) fn of_user(view: &CountersView, user: &str) -> Counts {
    of(view, |scope| matches!(scope, Scope::User { name, .. } if name == user))
}

fn of_session(view: &CountersView, of_id: u64) -> Counts {
    of(view, |scope| matches!(scope, Scope::Session { id, .. } if *id == of_id))
}

fn of_channel(view: &CountersView, of_peer: &str) -> Counts {
    of(view, |scope| matches!(scope, Scope::Channel { peer, .. } if peer == of_peer))
}

fn table(counts: &Counts) -> Expected {
    let pairs = Api::ALL.iter().flat_map(|api| ResponseType::ALL.iter().map(|response| (*api, *response)));
    let counted = pairs.map(|(api, response)| ((api, response), counts.requests(api, response)));
    counted.filter(|(_, count)| *count > 0).collect()
}

pub(crate) fn assert_counted(counts: &Counts, expected: &[(Api, ResponseType, u64)]) {
    let expected: Expected = expected.iter().map(|(api, response, count)| ((*api, *response), *count)).collect();
    assert_eq!(table(counts), expected);
    let latencies: u64 = LatencyKind::ALL.iter().flat_map(|kind| counts.latencies(*kind)).map(|(_, count)| count).sum();
    assert_eq!(latencies, counts.all_requests(), "each has a latency");
}

/// The rows of shares add up to the server's, and those of users and of clients to all that was done in sessions.
fn assert_adds_up(view: &CountersView) {
    let server = of_server(view);
    let shares = of(view, |scope| matches!(scope, Scope::Share { .. } | Scope::OtherShares { .. }));
    assert_eq!(shares, server);
    let users = of(view, |scope| matches!(scope, Scope::User { .. } | Scope::OtherUsers));
    let clients = of(view, |scope| matches!(scope, Scope::Client(_) | Scope::OtherClients));
    assert_eq!(users, clients);
    let sessions = of(view, |scope| matches!(scope, Scope::Session { .. }));
    let in_no_session = server.since(&users);
    let mut sum = users.clone();
    sum.add(&in_no_session);
    assert_eq!(sum, server);
    assert_eq!(sessions.since(&users), Counts::default());
}

fn names(view: &CountersView) -> usize {
    view.rows.len()
}

#[tokio::test]
async fn a_known_workload_is_counted_exactly() {
    let server = server(Signing::Required);
    let mut peer = Peer::sign_in(&server).await;
    let file = peer.open("file").await;
    for number in 0..5 {
        assert_eq!(peer.write(file, number * 4_096, &[7; 4_096]).await, Status::SUCCESS);
    }
    for number in 0..7 {
        assert_eq!(peer.read(file, number % 5 * 4_096, 4_096).await.status(), Status::SUCCESS);
    }
    // What the fast path leaves to the slow path: a short READ, and one behind the end.
    assert_eq!(peer.read(file, 5 * 4_096 - 100, 4_096).await.status(), Status::SUCCESS);
    assert_eq!(peer.read(file, 1 << 20, 4_096).await.status(), Status::END_OF_FILE);
    assert_eq!(
        peer.create("none", |request| request.disposition = CreateDisposition::OPEN).await.status(),
        Status::OBJECT_NAME_NOT_FOUND
    );
    peer.close(file).await;
    assert_eq!(peer.try_close(file).await, Status::FILE_CLOSED);
    peer.ask_for_credits().await;
    assert_eq!(peer.connect("missing").await, Status::BAD_NETWORK_NAME);

    let view = view(&server);
    let in_share = [
        (TreeConnect, Success, 1),
        (Create, Success, 1),
        (Create, ClientOtherError, 1),
        (Write, Success, 5),
        (Read, Success, 8),
        (Read, ClientOtherError, 1),
        (Close, Success, 1),
        (Close, ClientOtherError, 1),
    ];
    let share = of_share(&view, "ram");
    assert_counted(&share, &in_share);
    assert_eq!(share.sum(Read, Sum::ReadBytes), 7 * 4_096 + 100);
    assert_eq!(share.sum(Write, Sum::WrittenBytes), 5 * 4_096);
    assert_eq!(share.sum(Write, Sum::ReceivedBytes), 5 * (64 + 48 + 4_096));
    assert_eq!(share.sum(Write, Sum::SentBytes), 5 * (64 + 16));
    assert_eq!(share.sum(Read, Sum::SentBytes), 8 * (64 + 16) + 7 * 4_096 + 100 + 64 + 9);
    let errors = [(Status::END_OF_FILE.0, 1), (Status::OBJECT_NAME_NOT_FOUND.0, 1), (Status::FILE_CLOSED.0, 1)];
    assert_eq!(share.errors(), errors);

    let elsewhere = [(Echo, Success, 1), (TreeConnect, ClientOtherError, 1)];
    let in_session: Vec<_> = in_share.into_iter().chain(elsewhere).collect();
    for counts in [of_user(&view, USER), of_session(&view, peer.session_id.0), of_channel(&view, peer.terms.peer)] {
        assert_counted(&counts, &in_session);
    }
    let set_up = [(Negotiate, Success, 1), (SessionSetup, Success, 2)];
    assert_counted(&of_server(&view), &in_session.into_iter().chain(set_up).collect::<Vec<_>>());
    assert_adds_up(&view);
    assert_eq!((view.events.sign_ins, view.events.sign_ins_refused), (1, 0));
}

#[tokio::test]
async fn who_is_refused_to_sign_in_counts_for_nobody_but_the_server() {
    let server = server(Signing::Required);
    let mut peer = Peer::connect_as(&server, Terms { password: "wrong", ..Terms::default() });
    peer.negotiate().await;
    assert_eq!(peer.authenticate(Default::default()).await.0.status(), Status::LOGON_FAILURE);
    let view = view(&server);
    let expected = [(Negotiate, Success, 1), (SessionSetup, Success, 1), (SessionSetup, AuthorizationError, 1)];
    assert_counted(&of_server(&view), &expected);
    assert_counted(&of(&view, |scope| matches!(scope, Scope::Share { name: None, .. })), &expected);
    assert_eq!(of_server(&view).errors(), [(Status::LOGON_FAILURE.0, 1)]);
    assert_adds_up(&view);
    assert_eq!((view.events.sign_ins, view.events.sign_ins_refused), (0, 1));
}

#[tokio::test]
async fn each_request_of_a_compound_is_counted() {
    let server = server(Signing::Enabled);
    let mut peer = Peer::sign_in(&server).await;
    let before = view(&server);
    peer.signing_key = None;
    let create = peer.create_message("file", &[], |_| ());
    let related = |peer: &mut Peer, command| {
        let header = peer.header(command);
        Header { flags: header.flags | Flags::RELATED_OPERATIONS, ..header }
    };
    let read = ReadRequest { file_id: FileId::ANY, length: 10, ..ReadRequest::default() };
    let header = related(&mut peer, Command::READ);
    let read = peer.complete(header, |body| read.encode(body));
    let close = CloseRequest { file_id: FileId::ANY, ..CloseRequest::default() };
    let header = related(&mut peer, Command::CLOSE);
    let close = peer.complete(header, |body| close.encode(body));
    peer.process(&mut chained(vec![create, read, close], |_, _| ())).unwrap();
    peer.receive().await;
    let passed = of_share(&view(&server), "ram").since(&of_share(&before, "ram"));
    assert_counted(&passed, &[(Create, Success, 1), (Read, ClientOtherError, 1), (Close, Success, 1)]);
}

#[tokio::test]
async fn two_users_two_shares_and_channels_are_told_apart() {
    let server = server(Signing::Required);
    let mut first = Peer::sign_in(&server).await;
    let file = first.open("file").await;
    let mut second = Peer::connect_as(&server, Terms { peer: "192.0.2.1:50001", ..Terms::default() });
    second.negotiate().await;
    assert_eq!(second.bind(&first).await, Status::SUCCESS);
    let mut other =
        Peer::sign_in_as(&server, Terms { user: OTHER_USER, peer: "192.0.2.9:1", ..Terms::default() }).await;
    assert_eq!(first.write(file, 0, &[1; 100]).await, Status::SUCCESS);
    assert_eq!(second.write(file, 0, &[1; 1_000]).await, Status::SUCCESS);
    assert_eq!(second.read(file, 0, 500).await.status(), Status::SUCCESS);
    assert_eq!(other.connect("IPC$").await, Status::SUCCESS);
    other.ask_for_credits().await;

    let now = view(&server);
    let written = |counts: &Counts| counts.sum(Write, Sum::WrittenBytes);
    assert_eq!(written(&of_channel(&now, "192.0.2.1:50000")), 100);
    assert_counted(&of_channel(&now, "192.0.2.1:50001"), &[(Write, Success, 1), (Read, Success, 1)]);
    assert_eq!(written(&of_session(&now, first.session_id.0)), 1_100);
    assert_eq!((written(&of_user(&now, USER)), written(&of_user(&now, OTHER_USER))), (1_100, 0));
    assert_counted(&of_share(&now, "IPC$"), &[(TreeConnect, Success, 1)]);
    assert_counted(&of_user(&now, OTHER_USER), &[(TreeConnect, Success, 2), (Echo, Success, 1)]);
    assert_eq!(of(&now, |scope| *scope == Scope::Client("192.0.2.9".parse().ok())), of_user(&now, OTHER_USER));
    assert_eq!(now.events.channels_bound, 1);
    assert_adds_up(&now);

    // A channel that is lost leaves its numbers to its session, one that was the last to its user.
    second.connection.ended();
    drop(second);
    let lost = view(&server);
    assert_eq!(of_session(&lost, first.session_id.0), of_session(&now, first.session_id.0));
    assert_counted(&of_channel(&lost, "192.0.2.1:50001"), &[]);
    assert_eq!(lost.events.channels_lost, 1);
    first.connection.ended();
    drop(first);
    let ended = view(&server);
    assert_eq!(of_user(&ended, USER), of_user(&now, USER));
    assert_eq!(of_share(&ended, "ram"), of_share(&now, "ram"));
    assert_eq!(of_server(&ended), of_server(&now));
    assert_adds_up(&ended);
}

#[tokio::test]
async fn nothing_is_lost_over_many_reconnects() {
    const RECONNECTS: u64 = 10_000;
    let server = server(Signing::Enabled);
    let mut first = Peer::sign_in(&server).await;
    let file = first.open("file").await;
    let rows = names(&view(&server));
    for number in 0..RECONNECTS {
        // To sign in takes long where nothing is optimised: the channel is what begins and ends here.
        let session = server.sessions.find(first.session_id).unwrap();
        let connection = Peer::connect_as(&server, Terms { peer: "192.0.2.2:1", ..Terms::default() }).connection;
        let channel = connection.binding_channel(&session);
        connection.add_channel(channel);
        let mut message = first.message(Command::READ, |body| {
            ReadRequest { file_id: file, length: 1, ..ReadRequest::default() }.encode(body);
        });
        if number % 2 == 0 {
            first.process(&mut message).unwrap();
            first.receive().await;
        }
        connection.connection.channel(first.session_id).unwrap().count(None, &Answered::one(Echo));
        connection.lose_channels();
    }
    let view = view(&server);
    let of_session = of_session(&view, first.session_id.0);
    assert_eq!(of_session.requests(Echo, Success), RECONNECTS);
    assert_eq!(of_session.requests(Read, ClientOtherError), RECONNECTS / 2);
    assert_eq!(of_user(&view, USER), of_session);
    // One more client, what somebody who has signed in asks of no share, and no channel that has ended.
    assert_eq!(names(&view), rows + 2);
    assert_eq!(view.events.channels_lost, RECONNECTS);
    assert_adds_up(&view);
}

#[tokio::test]
async fn a_channel_that_is_used_for_many_shares_holds_few_cells_and_loses_nothing() {
    const SHARES: usize = 100;
    let mut configuration = crate::tests::kit::configuration::configuration(Arc::new(store::RamStore::new(1 << 20)));
    let share = configuration.shares.remove(0);
    configuration.shares =
        (0..SHARES).map(|number| crate::admin::Share { name: format!("share{number}"), ..share.clone() }).collect();
    let capacity = crate::resource::capacity::Capacity::default();
    let server = Arc::new(Shared::new(configuration, Vec::new(), 1, capacity));
    let mut peer = Peer::connect_as(&server, Terms::default());
    peer.negotiate().await;
    peer.set_up_session().await;
    let held = server.sessions.find(peer.session_id).unwrap().budgets.lasting.used();
    for round in 0..3 {
        for number in 0..SHARES {
            assert_eq!(peer.connect(&format!("share{number}")).await, Status::SUCCESS, "{round}");
            let status = peer.ask(Command::TREE_DISCONNECT, |body| TreeDisconnectRequest.encode(body)).await.status();
            assert_eq!(status, Status::SUCCESS);
        }
    }
    let now = view(&server);
    let expected = [(TreeConnect, Success, 3), (TreeDisconnect, Success, 3)];
    (0..SHARES).for_each(|number| assert_counted(&of_share(&now, &format!("share{number}")), &expected));
    assert_eq!(of_session(&now, peer.session_id.0).all_requests(), 600);
    assert_adds_up(&now);
    let more = server.sessions.find(peer.session_id).unwrap().budgets.lasting.used() - held;
    assert!(more <= 33 * (7 << 10), "{more}");
    assert_eq!(peer.ask(Command::LOGOFF, |body| LogoffRequest.encode(body)).await.status(), Status::SUCCESS);
    peer.connection.ended();
    drop(peer);
    let ended = view(&server);
    assert_eq!(of_user(&ended, USER).requests(Logoff, Success), 1);
    assert_eq!(of_user(&ended, USER).all_requests(), 601);
    assert_adds_up(&ended);
}

#[tokio::test]
async fn counting_takes_no_memory_that_a_user_may_not_hold() {
    let capacity = Capacity { bytes: 24 << 20, ..Capacity::default() };
    let server = server_of(Signing::Enabled, Arc::new(store::RamStore::new(1 << 20)), capacity);
    let peer = Peer::sign_in(&server).await;
    let budgets = Arc::clone(&server.sessions.find(peer.session_id).unwrap().budgets);
    // Whatever lasts of the user's takes all of it.
    let held: Vec<_> = std::iter::from_fn(|| budgets.lasting.charge(1 << 10)).collect();
    let used = budgets.lasting.used();
    let channel = peer.connection.connection.channel(peer.session_id).unwrap();
    let echoes = || of_server(&view(&server)).requests(Echo, Success);
    let before = echoes();
    channel.count(None, &Answered::one(Echo));
    assert_eq!((budgets.lasting.used(), echoes() - before), (used, 1));
    drop(held);
    channel.count(None, &Answered::one(Echo));
    assert_eq!(echoes() - before, 2);
}
