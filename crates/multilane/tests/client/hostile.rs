//! Servers that send what they should not: an error in words, at once, and nothing allocated because a server announced it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use client::{Error, LocalInterface, Network, Opening, Reader, Resolving, Session, Settings, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};

use crate::configuration::{simulate, target};

/// A server that says the same whatever it is asked, and then hangs up or stays.
struct Says {
    bytes: Vec<u8>,
    stays: bool,
}

impl Network for Says {
    fn resolve<'a>(&'a self, _host: &'a str, port: u16) -> Resolving<'a> {
        Box::pin(async move { Ok(vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)]) })
    }

    fn connect(&self, _from: Option<IpAddr>, _to: SocketAddr) -> Opening<'_> {
        let (near, mut far) = duplex(1 << 16);
        let (bytes, stays) = (self.bytes.clone(), self.stays);
        tokio::spawn(async move {
            let mut request = [0; 4096];
            let _ = far.read(&mut request).await;
            let _ = far.write_all(&bytes).await;
            while stays && far.read(&mut request).await.is_ok_and(|count| count > 0) {}
        });
        let (reader, writer) = split(near);
        let local = Ipv4Addr::LOCALHOST.into();
        Box::pin(
            async move { Ok::<_, io::Error>(Stream { reader: Reader::of(reader), writer: Box::new(writer), local }) },
        )
    }

    fn interfaces(&self) -> Vec<LocalInterface> {
        Vec::new()
    }
}

/// A frame with a header that answers NEGOTIATE and the body of a response with these changes.
fn negotiated(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut message = vec![0; 64 + 65];
    message[..6].copy_from_slice(&[0xFE, b'S', b'M', b'B', 64, 0]);
    message[14] = 1;
    message[16] = 1;
    message[64] = 65;
    message[68..70].copy_from_slice(&[0x11, 0x03]);
    change(&mut message);
    framed(&message)
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32).to_be_bytes()[..], message].concat()
}

fn refusal(bytes: Vec<u8>, stays: bool) -> Error {
    let (sender, receiver) = std::sync::mpsc::channel();
    simulate(async move {
        let network: Arc<dyn Network> = Arc::new(Says { bytes, stays });
        let target = target("secret");
        let connecting = Session::connect(&target, Settings::default(), network);
        let ended = tokio::time::timeout(Duration::from_secs(10), connecting).await.expect("it ends");
        sender.send(ended.err().expect("no session")).unwrap();
    });
    receiver.recv().unwrap()
}

#[test]
fn servers_that_hang_up_or_speak_something_else_are_told_of() {
    for bytes in
        [Vec::new(), b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), framed(&[]), framed(&[0xFE; 64]), framed(&[0xFF; 3])]
    {
        assert!(matches!(refusal(bytes.clone(), false), Error::Lost(_)), "{bytes:?}");
    }
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    assert!(matches!(refusal(Vec::new(), true), Error::Unreachable { .. }));
    assert!(matches!(refusal(vec![0, 0, 1, 0, 0xFE], true), Error::Unreachable { .. }), "half a frame");
}

#[test]
fn a_stranger_may_not_announce_much() {
    assert!(matches!(refusal(vec![0, 0xFF, 0xFF, 0xFF], true), Error::Lost(cause) if cause.contains("too long")));
}

#[test]
fn dialects_and_hashes_that_were_not_offered_are_refused() {
    let older = negotiated(|message| message[68..70].copy_from_slice(&[0x10, 0x02]));
    assert_eq!(refusal(older, true), Error::Lacking("SMB 3.1.1"));
    assert_eq!(refusal(negotiated(|_| {}), true), Error::Lacking("pre-authentication integrity"));
}

#[test]
fn truncated_answers_are_malformed_at_every_length() {
    let whole = negotiated(|_| {});
    for length in 64..whole.len() - 4 - 1 {
        let error = refusal(framed(&whole[4..4 + length]), true);
        assert!(matches!(error, Error::Malformed(_)), "{length}: {error:?}");
    }
}

#[test]
fn answers_to_what_was_not_asked_are_passed_over() {
    let other = negotiated(|message| message[24] = 9);
    assert!(matches!(refusal(other, true), Error::Unreachable { .. }));
}
