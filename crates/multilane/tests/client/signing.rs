//! Which requests are signed, as the server sees them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use client::{Access, Channels, LocalInterface, Network, OpenOptions, Opening, Resolving, Session, Settings, Stream};
use client::{Disposition, Signing};
use server::admin::{Multichannel, Sealing, Signing as ServerSigning};
use server::in_memory::InMemory;
use tokio::io::AsyncWrite;

use crate::configuration::{configuration, simulate, target};
use crate::network::{Links, reach_all};

/// What goes over links is looked at: how many requests of each kind have a signature, and how many have none.
struct Watched {
    links: Arc<dyn Network>,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    signed: AtomicUsize,
    unsigned_tree_connects: AtomicUsize,
    unsigned_reads: AtomicUsize,
}

/// A stream's end that knows where its frames begin.
struct Tap {
    inner: Box<dyn AsyncWrite + Send + Unpin>,
    pending: Vec<u8>,
    seen: Arc<Seen>,
}

impl Tap {
    fn look(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        while let Some(prefix) = self.pending.first_chunk::<4>() {
            let end = 4 + u32::from_be_bytes(*prefix) as usize;
            if self.pending.len() < end {
                return;
            }
            let frame: Vec<u8> = self.pending.drain(..end).collect();
            let (command, is_signed) = (frame[4 + 12], frame[4 + 16] & 8 != 0);
            let counter = match (is_signed, command) {
                (true, _) => &self.seen.signed,
                (false, 3) => &self.seen.unsigned_tree_connects,
                (false, 8) => &self.seen.unsigned_reads,
                (false, _) => continue,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl AsyncWrite for Tap {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.inner).poll_write(task, bytes))?;
        self.look(&bytes[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(task)
    }
}

impl Network for Watched {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        self.links.resolve(host, port)
    }

    fn connect(&self, from: Option<IpAddr>, to: SocketAddr) -> Opening<'_> {
        Box::pin(async move {
            let stream = self.links.connect(from, to).await?;
            let tap = Tap { inner: stream.writer, pending: Vec::new(), seen: Arc::clone(&self.seen) };
            Ok(Stream { writer: Box::new(tap), ..stream })
        })
    }

    fn interfaces(&self) -> Vec<LocalInterface> {
        self.links.interfaces()
    }
}

/// What is seen of a session that binds four channels, writes and reads.
async fn seen(client: Signing, server: ServerSigning) -> Arc<Seen> {
    let mut configuration = configuration(4, Multichannel::On, Sealing::Enabled);
    configuration.settings.signing = server;
    let links = Links::new(4, 1, InMemory::new(configuration));
    let watched = Arc::new(Watched { links: reach_all(&links), seen: Arc::default() });
    let settings = Settings { signing: client, channels: Channels::Exactly(4), ..Settings::default() };
    let network = Arc::clone(&watched) as Arc<dyn Network>;
    let session = Session::connect(&target("secret"), settings, network).await.unwrap();
    let tree = session.tree("ram").await.unwrap();
    session.widen().await.unwrap();
    assert_eq!(session.connected().channels.len(), 4);
    let make = OpenOptions { access: Access::Write, disposition: Disposition::Overwrite, ..OpenOptions::default() };
    let file = tree.open("file", make).await.unwrap();
    file.write(0, &b"abc"[..]).await.unwrap();
    let large: Vec<u8> = (0..100_000).map(|at| (at / 7) as u8).collect();
    file.write(3, large.clone()).await.unwrap();
    file.close().await.unwrap();
    let file = tree.open("file", OpenOptions::default()).await.unwrap();
    assert!(*file.read(0, 200_000).await.unwrap() == [b"abc", &large[..]].concat());
    session.close().await.unwrap();
    Arc::clone(&watched.seen)
}

#[test]
fn data_goes_unsigned_where_neither_side_requires_a_signature() {
    simulate(async {
        let seen = seen(Signing::AsServerWants, ServerSigning::Enabled).await;
        assert_eq!(seen.unsigned_reads.load(Ordering::Relaxed), 1);
        assert_eq!(seen.unsigned_tree_connects.load(Ordering::Relaxed), 0);
        assert!(
            seen.signed.load(Ordering::Relaxed) > 0,
            "binds and the connection to the share are signed all the same"
        );
    });
}

#[test]
fn data_is_signed_where_either_side_requires_it() {
    simulate(async {
        for (client, server) in [
            (Signing::Required, ServerSigning::Enabled),
            (Signing::AsServerWants, ServerSigning::Required),
            (Signing::Required, ServerSigning::Required),
        ] {
            let seen = seen(client, server).await;
            assert_eq!(seen.unsigned_reads.load(Ordering::Relaxed), 0, "{client:?} {server:?}");
        }
    });
}
