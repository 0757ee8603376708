//! Few descriptors, and strangers who take what they can: others still get in, and so do operators.

#[allow(dead_code)]
mod served;

use std::net::TcpStream;

use crate::served::Served;

#[test]
fn silent_connections_leave_room_for_who_signs_in_and_for_operators() {
    let served = Served::with_descriptors(256);
    let connect = |_| TcpStream::connect(("127.0.0.1", served.port)).unwrap();
    let silent: Vec<TcpStream> = (0..600).map(connect).collect();
    let at = format!("smb://local@127.0.0.1:{}/share", served.port);
    let listed = served.program(&["ls", &at]).env("MULTILANE_PASSWORD", &served.password).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    assert!(served.program(&["sessions"]).output().unwrap().status.success());
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", served.child.id())).unwrap().count();
    assert!(descriptors < 200, "{descriptors}");
    drop(silent);
}
