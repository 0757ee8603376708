//! One session over two network links, in namespaces of their own. Needs root and iproute2, and passes without doing anything where they
//! are not to be had.

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::process::Command as Program;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use server::{Config, Server};
use wire::command::create::{CreateResponse, OplockLevel};
use wire::command::ioctl::{CtlCode, IoctlFlags, IoctlRequest, IoctlResponse};
use wire::command::negotiate::Capabilities;
use wire::command::oplock_break::{OplockBreak, OplockBreakRequest};
use wire::header::Header;
use wire::ids::{Command, FileId};
use wire::status::Status;

use crate::configuration;
use crate::peer::{Peer, create};

/// Two hosts joined by two links: the server is 10.98.N.1 and the client 10.98.N.2 on link N.
struct Links {
    name: String,
}

impl Links {
    /// Those of one test. `None` where this process may not make them.
    fn make(name: &str) -> Option<Links> {
        let links = Links { name: format!("multilane-{name}-{}", std::process::id()) };
        let (server, client) = (links.of("server"), links.of("client"));
        let mut made = ip(&["netns", "add", &server]) && ip(&["netns", "add", &client]);
        for link in ["1", "2"] {
            let (ours, theirs) = (format!("s{link}"), format!("c{link}"));
            let (our_address, their_address) = (format!("10.98.{link}.1/24"), format!("10.98.{link}.2/24"));
            made =
                made && ip(&[
                    "-n", &server, "link", "add", &ours, "type", "veth", "peer", "name", &theirs, "netns", &client,
                ]) && ip(&["-n", &server, "addr", "add", &our_address, "dev", &ours])
                    && ip(&["-n", &client, "addr", "add", &their_address, "dev", &theirs])
                    && ip(&["-n", &server, "link", "set", &ours, "up"])
                    && ip(&["-n", &client, "link", "set", &theirs, "up"]);
        }
        made.then_some(links)
    }

    fn of(&self, side: &str) -> String {
        format!("{}-{side}", self.name)
    }

    /// Runs `work` on one side. Threads that it starts stay there.
    fn on<T: Send>(&self, side: &str, work: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/{}", self.of(side))).unwrap();
        std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            there.join().unwrap()
        })
    }

    /// Pulls the cable of link 1: the server hears nothing of it, and its packets are lost.
    fn cut(&self) {
        let client = self.of("client");
        assert!(
            Program::new("ip")
                .args(["netns", "exec", &client, "ip", "addr", "flush", "dev", "c1"])
                .status()
                .unwrap()
                .success()
        );
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        for side in ["server", "client"] {
            ip(&["netns", "del", &self.of(side)]);
        }
    }
}

fn ip(words: &[&str]) -> bool {
    Program::new("ip").args(words).output().is_ok_and(|output| output.status.success())
}

fn channel(address: SocketAddr, first: &Peer) -> Peer {
    let mut peer = Peer::negotiated(address);
    assert_eq!(peer.bind(first), Status::SUCCESS);
    peer
}

fn addresses(peer: &mut Peer) -> Vec<IpAddr> {
    let request = IoctlRequest {
        ctl_code: CtlCode::QUERY_NETWORK_INTERFACE_INFO,
        flags: IoctlFlags::IS_FSCTL,
        file_id: FileId::ANY,
        max_output_response: 65_536,
        ..IoctlRequest::default()
    };
    let answer = peer.ask(Command::IOCTL, |body| request.encode(body));
    assert_eq!(answer.status(), Status::SUCCESS);
    let output = IoctlResponse::decode(&answer.message).unwrap().output;
    wire::fscc::ioctl::interfaces(output).filter_map(|told| told.unwrap().address).collect()
}

#[test]
fn a_session_goes_on_over_the_links_that_are_left() {
    let Some(links) = Links::make("two") else {
        eprintln!("passed over: no network namespaces can be made here, which takes root and iproute2");
        return;
    };
    let config = Config { listen: vec![([0, 0, 0, 0], 0).into()], shards: 2, opens: None, metadata_cache_bytes: None };
    let server = links.on("server", || Server::start(&config, configuration()).unwrap());
    let port = server.addresses()[0].port();
    links.on("client", || go_on_over_the_other_link(&links, port));
    server.stop(Duration::ZERO);
}

fn go_on_over_the_other_link(links: &Links, port: u16) {
    let over = |link: u8| SocketAddr::from(([10, 98, link, 1], port));
    let mut first = Peer::connect(over(1));
    first.terms.capabilities = Capabilities::MULTI_CHANNEL;
    let mut first = first.negotiate_and_sign_in();
    assert_eq!(addresses(&mut first), [over(1).ip(), over(2).ip()]);

    let name = wire::codec::utf16_bytes("cached");
    let mut request = create(&name);
    request.oplock_level = OplockLevel::BATCH;
    let answer = first.ask(Command::CREATE, |body| request.encode(body));
    let made = CreateResponse::decode(&answer.message).unwrap();
    assert_eq!(made.oplock_level, OplockLevel::BATCH);
    let mut channels = [channel(over(1), &first), channel(over(2), &first), channel(over(2), &first)];
    channels.iter_mut().for_each(|peer| peer.write_and_read_back("file"));

    links.cut();
    channels[1..].iter_mut().for_each(|peer| peer.write_and_read_back("file"));
    // The break goes out on a channel over link 1 first.
    let mut other = Peer::signed_in(over(2));
    request.oplock_level = OplockLevel::NONE;
    let message = other.message(Command::CREATE, |body| request.encode(body));
    other.send(&message);
    let told = channels[1].receive().unwrap();
    assert_eq!(Header::decode(&told).unwrap().command, Command::OPLOCK_BREAK);
    let left = OplockBreak { oplock_level: OplockLevel::II, file_id: made.file_id };
    let answer = channels[2].ask(Command::OPLOCK_BREAK, |body| OplockBreakRequest::Oplock(left).encode(body));
    assert_eq!(answer.status(), Status::SUCCESS);
    assert_eq!(other.end(), crate::peer::End::Answered(Status::SUCCESS));
}

#[test]
fn a_client_that_dies_while_something_is_on_its_way_to_it_is_ended_within_85_seconds() {
    let Some(links) = Links::make("dies") else {
        eprintln!("passed over: no network namespaces can be made here, which takes root and iproute2");
        return;
    };
    let config = Config { listen: vec![([0, 0, 0, 0], 0).into()], shards: 1, opens: None, metadata_cache_bytes: None };
    let server = links.on("server", || Server::start(&config, configuration()).unwrap());
    let over = |link: u8| SocketAddr::from(([10, 98, link, 1], server.addresses()[0].port()));
    let name = wire::codec::utf16_bytes("cached");
    let mut request = create(&name);
    request.oplock_level = OplockLevel::BATCH;
    let (first, other) = links.on("client", || {
        let (mut first, mut other) = (Peer::signed_in(over(1)), Peer::signed_in(over(2)));
        let answer = first.ask(Command::CREATE, |body| request.encode(body));
        assert_eq!(CreateResponse::decode(&answer.message).unwrap().oplock_level, OplockLevel::BATCH);
        links.cut();
        // The break of its oplock is what the first one does not hear.
        let message = other.message(Command::CREATE, |body| request.encode(body));
        other.send(&message);
        (first, other)
    });
    let since = Instant::now();
    while server.admin().session_count() > 1 {
        assert!(since.elapsed() < Duration::from_secs(120), "the session stays");
        std::thread::sleep(Duration::from_millis(100));
    }
    let seconds = since.elapsed().as_secs();
    assert!(seconds >= 74, "after {seconds} s");
    drop((first, other));
    server.stop(Duration::ZERO);
}
