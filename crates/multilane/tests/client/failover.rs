//! What becomes of links that are cut, or slow, in so much time.

use std::sync::Arc;
use std::time::Duration;

use client::{Access, Bytes, Disposition, Error, File, OpenOptions, Session, Settings, Sharing, WhenLost};
use futures_util::future::join_all;
use server::admin::{Multichannel, Sealing};
use tokio::time::{Instant, sleep};

use crate::configuration::{making, server, session, simulate};
use crate::line::{KEEPALIVE, Link, Weather};
use crate::network::Links;

const LINKS: u8 = 4;

/// A session over all links that has a file open.
async fn wide(links: &Arc<Links>) -> (Session, File) {
    let session = session(links, Settings::default()).await;
    let tree = session.tree("ram").await.unwrap();
    let file = tree.open("f", making(Disposition::Create)).await.unwrap();
    session.widen().await.unwrap();
    assert_eq!(session.connected().channels.len(), 4);
    (session, file)
}

/// Writes 16 MiB, a MiB at a time, all at once.
async fn write(file: &File, data: &Bytes) {
    join_all((0..16).map(|at| file.write(at << 20, data.clone()))).await.into_iter().for_each(Result::unwrap);
}

#[test]
fn channels_come_back_with_their_link() {
    simulate(async {
        let links = Links::new(LINKS, 1, server(LINKS, Multichannel::On, Sealing::Enabled));
        let (session, file) = wide(&links).await;
        let data = Bytes::from(vec![7; 1 << 20]);
        write(&file, &data).await;
        for (cut, left) in [(vec![0], 3), (vec![1, 2, 3], 1)] {
            cut.iter().for_each(|link| links.set(*link, Link::Held));
            let started = Instant::now();
            while session.connected().channels.len() > left {
                write(&file, &data).await;
                assert!(started.elapsed() < Duration::from_secs(2), "dead channels are found");
            }
            cut.iter().for_each(|link| links.set(*link, Link::Up(Weather::FAIR)));
            let started = Instant::now();
            while session.connected().channels.len() < 4 {
                write(&file, &data).await;
                assert!(started.elapsed() < Duration::from_secs(15), "channels come back");
            }
        }
        file.close().await.unwrap();
    });
}

#[test]
fn channels_come_back_once_the_server_has_found_the_old_ones_dead() {
    simulate(async {
        let links = Links::new(LINKS, 1, server(LINKS, Multichannel::On, Sealing::Enabled));
        let (session, file) = wide(&links).await;
        let data = Bytes::from(vec![7; 1 << 20]);
        (1..4).for_each(|link| links.forget(link));
        let started = Instant::now();
        let mut least = 4;
        while started.elapsed() < KEEPALIVE + Duration::from_secs(8) {
            write(&file, &data).await;
            least = least.min(session.connected().channels.len());
        }
        assert_eq!(least, 1, "the server refuses new channels while it holds the old ones");
        assert_eq!(session.connected().channels.len(), 4);
        file.close().await.unwrap();
    });
}

#[test]
fn a_write_that_drains_slowly_is_no_silence() {
    simulate(async {
        let links = Links::new(2, 1, server(2, Multichannel::On, Sealing::Enabled));
        let session = session(&links, Settings::default()).await;
        let tree = session.tree("ram").await.unwrap();
        let file = tree.open("f", making(Disposition::Create)).await.unwrap();
        session.widen().await.unwrap();
        links.set(1, Link::Slow { bytes_per_second: 125_000 });
        let data = Bytes::from(vec![7; 1 << 20]);
        for _ in 0..3 {
            join_all((0..4).map(|at| file.write(at << 20, data.clone()))).await.into_iter().for_each(Result::unwrap);
        }
        let connected = session.connected();
        assert!(connected.channels.iter().all(|channel| channel.sent_bytes > 1 << 20), "{connected:?}");
        assert_eq!(connected.failure_count, 0);
        file.close().await.unwrap();
    });
}

#[test]
fn an_open_that_was_renamed_is_taken_up_by_its_new_name() {
    simulate(async {
        let links = Links::new(1, 1, server(1, Multichannel::On, Sealing::Enabled));
        let session = session(&links, Settings::default()).await;
        let tree = session.tree("ram").await.unwrap();
        let options = OpenOptions {
            access: Access::WriteAndDelete,
            sharing: Sharing::Reading,
            durable: true,
            ..making(Disposition::Overwrite)
        };
        let file = tree.open("part", options).await.unwrap();
        file.rename("whole", true).await.unwrap();
        links.set(0, Link::Broken);
        sleep(Duration::from_secs(1)).await;
        links.set(0, Link::Up(Weather::FAIR));
        file.write(0, "data").await.unwrap();
        let there = file.close_and_look().await.unwrap();
        assert_eq!(there.map(|there| there.end_of_file), Some(4));
        assert_eq!(tree.facts("whole").await.unwrap().end_of_file, 4);
    });
}

#[test]
fn a_session_that_is_to_end_when_it_is_lost_does_not_sign_in_again() {
    simulate(async {
        let links = Links::new(1, 1, server(1, Multichannel::On, Sealing::Enabled));
        let session = session(&links, Settings { when_lost: WhenLost::End, ..Settings::default() }).await;
        session.echo().await.unwrap();
        assert!(!session.has_ended());
        let before = links.connections();
        links.set(0, Link::Broken);
        sleep(Duration::from_secs(1)).await;
        links.set(0, Link::Up(Weather::FAIR));
        assert!(matches!(session.echo().await, Err(Error::Lost(_))));
        sleep(Duration::from_secs(10)).await;
        assert!(session.has_ended());
        assert_eq!(links.connections(), before);
    });
}

#[test]
fn a_file_that_is_opened_empty_is_empty_whatever_it_was() {
    simulate(async {
        let links = Links::new(1, 1, server(1, Multichannel::On, Sealing::Enabled));
        let session = session(&links, Settings::default()).await;
        let tree = session.tree("ram").await.unwrap();
        for _ in 0..2 {
            let file = tree.open("f", making(Disposition::Overwrite)).await.unwrap();
            assert!(file.is_new() && file.facts().end_of_file == 0);
            assert_eq!(file.facts_now().await.unwrap().end_of_file, 0);
            file.write(0, "data").await.unwrap();
            file.close().await.unwrap();
        }
    });
}
