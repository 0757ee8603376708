//! Users that are locked after too many wrong passwords, seen from the connections these are said on.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use wire::command::session_setup::SessionSetupFlags;
use wire::status::Status;

use crate::admin::{Admin, LockRule, LockedView, PrincipalKind};
use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::testing::{Peer, Terms, server};

const LASTING: Duration = Duration::from_secs(600);

/// A server that locks after three, or never.
fn locking(after: Option<u32>) -> Arc<Shared> {
    let server = server(Signing::Required);
    set_lock(&server, after);
    server
}

fn set_lock(server: &Arc<Shared>, after: Option<u32>) {
    let mut configuration = (**server.configuration.load()).clone();
    configuration.settings.lock = after.and_then(NonZeroU32::new).map(|after| LockRule { after, lasting: LASTING });
    server.replace(configuration);
}

/// What comes of signing in from an address that nobody has failed from.
async fn try_in(server: &Arc<Shared>, user: &'static str, password: &'static str, host: &'static str) -> Status {
    let mut peer = Peer::connect_as(server, Terms { user, password, peer: host, ..Terms::default() });
    peer.negotiate().await;
    peer.sign_in_again(SessionSetupFlags::NONE).await
}

const HOSTS: [&str; 4] = ["192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1", "192.0.2.4:1"];

/// Says three wrong passwords of a user, each from another address.
async fn guess(server: &Arc<Shared>, user: &'static str) {
    for host in &HOSTS[..3] {
        assert_eq!(try_in(server, user, "wrong", host).await, Status::LOGON_FAILURE);
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_locked_is_refused_with_the_right_password_too_until_the_time_is_over() {
    let server = locking(Some(3));
    let mut there = Peer::sign_in(&server).await;
    guess(&server, "tester").await;
    assert_eq!(server.locked_users(), [LockedView { relative_id: 1001, left: LASTING }]);
    for password in ["secret", "wrong"] {
        assert_eq!(try_in(&server, "TESTER", password, HOSTS[3]).await, Status::ACCOUNT_LOCKED_OUT);
    }
    assert_eq!(there.connect("ram").await, Status::SUCCESS, "who is in stays");
    assert_eq!(there.sign_in_again(SessionSetupFlags::NONE).await, Status::ACCOUNT_LOCKED_OUT);
    assert_eq!(there.connect("ram").await, Status::SUCCESS, "nothing was judged");
    assert_eq!(try_in(&server, "other", "secret", HOSTS[3]).await, Status::SUCCESS);
    sleep(LASTING).await;
    assert_eq!(try_in(&server, "tester", "secret", HOSTS[3]).await, Status::SUCCESS);
}

#[tokio::test(start_paused = true)]
async fn an_operator_unlocks_a_user_and_switches_locking_off() {
    let server = locking(Some(3));
    guess(&server, "tester").await;
    assert!(server.unlock_user(1001) && !server.unlock_user(1001));
    assert_eq!(try_in(&server, "tester", "secret", HOSTS[3]).await, Status::SUCCESS);
    guess(&server, "other").await;
    set_lock(&server, None);
    assert_eq!(try_in(&server, "other", "secret", HOSTS[3]).await, Status::SUCCESS);
    guess(&server, "third").await;
    assert!(server.locked_users().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lock_tells_nobody_which_names_there_are_and_never_keeps_an_account_out() {
    let server = locking(Some(3));
    guess(&server, "nobody").await;
    assert_eq!(try_in(&server, "nobody", "wrong", HOSTS[3]).await, Status::ACCOUNT_LOCKED_OUT);
    let mut configuration = (**server.configuration.load()).clone();
    configuration.principals[0].kind = PrincipalKind::Account;
    server.replace(configuration);
    guess(&server, "tester").await;
    assert_eq!(try_in(&server, "tester", "secret", HOSTS[3]).await, Status::SUCCESS);
    assert_eq!(try_in(&server, "tester", "wrong", HOSTS[3]).await, Status::ACCOUNT_LOCKED_OUT, "as for any other name");
    assert_eq!(try_in(&server, "tester", "secret", HOSTS[3]).await, Status::SUCCESS);
}
