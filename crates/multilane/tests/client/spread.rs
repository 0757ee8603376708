//! Which channels requests take where one would do as well, and where it would not.

use std::sync::Arc;
use std::time::Duration;

use client::{Bytes, Disposition, File, Session, Settings, Tree};
use futures_util::future::join_all;
use server::admin::{Multichannel, Sealing};
use tokio::time::{Instant, sleep};

use crate::configuration::{making, server, session, simulate};
use crate::line::Link;
use crate::network::Links;

const LINKS: u8 = 4;
/// What is in flight waits for tens of milliseconds.
const BYTES_PER_SECOND: u64 = 64 << 20;

/// Keeps 12 writes of 64 KiB in flight for so long.
async fn write(file: &File, duration: Duration) {
    let (data, until) = (Bytes::from(vec![7; 64 << 10]), Instant::now() + duration);
    let writes = (0..12).map(|at| {
        let data = &data;
        async move {
            while Instant::now() < until {
                file.write(at << 16, data.clone()).await.unwrap();
            }
        }
    });
    join_all(writes).await;
}

/// Bytes that each channel has sent.
fn sent(session: &Session) -> Vec<u64> {
    session.connected().channels.iter().map(|channel| channel.sent_bytes).collect()
}

/// The part of all bytes that the busiest channel sends, over links that are all alike, once it is known what they do.
async fn part_of_busiest(link: Link) -> f64 {
    let work = Work::begin(link).await;
    work.part_of_busiest().await
}

/// A session with a channel on each link, which is kept busy.
struct Work {
    links: Arc<Links>,
    session: Session,
    _tree: Tree,
    file: File,
}

impl Work {
    async fn begin(link: Link) -> Self {
        let links = Links::new(LINKS, 1, server(LINKS, Multichannel::On, Sealing::Enabled));
        let session = session(&links, Settings::default()).await;
        let tree = session.tree("ram").await.unwrap();
        let file = tree.open("f", making(Disposition::Create)).await.unwrap();
        session.widen().await.unwrap();
        let work = Work { links, session, _tree: tree, file };
        work.set(link);
        write(&work.file, Duration::from_millis(800)).await;
        work
    }

    fn set(&self, link: Link) {
        (0..usize::from(LINKS)).for_each(|index| self.links.set(index, link));
    }

    async fn part_of_busiest(&self) -> f64 {
        let before = sent(&self.session);
        write(&self.file, Duration::from_millis(200)).await;
        let sent: Vec<u64> = sent(&self.session).iter().zip(before).map(|(now, before)| now - before).collect();
        *sent.iter().max().unwrap() as f64 / sent.iter().sum::<u64>() as f64
    }
}

#[test]
fn requests_spread_over_links_that_move_more_together() {
    let part = simulate(part_of_busiest(Link::Slow { bytes_per_second: BYTES_PER_SECOND }));
    assert!(part < 0.6, "{part}");
}

#[test]
fn requests_stay_on_one_channel_where_several_move_less() {
    let part = simulate(part_of_busiest(Link::Shared { bytes_per_second: BYTES_PER_SECOND }));
    assert!(part > 0.99, "{part}");
}

#[test]
fn links_that_come_to_move_more_together_are_all_used_within_seconds() {
    let (before, after) = simulate(async {
        let work = Work::begin(Link::Shared { bytes_per_second: BYTES_PER_SECOND }).await;
        let before = work.part_of_busiest().await;
        work.set(Link::Slow { bytes_per_second: BYTES_PER_SECOND });
        write(&work.file, Duration::from_secs(5)).await;
        (before, work.part_of_busiest().await)
    });
    assert!(before > 0.99 && after < 0.6, "{before} and {after}");
}

#[test]
fn what_stays_on_one_channel_goes_on_when_that_dies() {
    let took = simulate(async {
        let work = Work::begin(Link::Shared { bytes_per_second: BYTES_PER_SECOND }).await;
        let busiest = sent(&work.session).iter().enumerate().max_by_key(|(_, sent)| **sent).map(|(at, _)| at).unwrap();
        work.links.set(busiest, Link::Held);
        let begun = Instant::now();
        let data = Bytes::from(vec![7; 64 << 10]);
        work.file.write(0, data).await.unwrap();
        begun.elapsed()
    });
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn more_channels_are_open_before_what_the_first_was_given_has_gone() {
    const BYTES_PER_SECOND: u64 = 2 << 20;
    let took = simulate(async {
        let links = Links::new(LINKS, 1, server(LINKS, Multichannel::On, Sealing::Enabled));
        let session = session(&links, Settings::default()).await;
        let tree = session.tree("ram").await.unwrap();
        let file = Arc::new(tree.open("f", making(Disposition::Create)).await.unwrap());
        (0..usize::from(LINKS)).for_each(|index| links.set(index, Link::Slow { bytes_per_second: BYTES_PER_SECOND }));
        let (begun, data) = (Instant::now(), Bytes::from(vec![7; 1 << 20]));
        let writes: Vec<_> = (0..16)
            .map(|at| {
                let (file, data) = (Arc::clone(&file), data.clone());
                tokio::spawn(async move { file.write(at << 20, data).await })
            })
            .collect();
        while session.connected().channels.len() < usize::from(LINKS) {
            sleep(Duration::from_millis(10)).await;
        }
        let took = begun.elapsed();
        join_all(writes).await.into_iter().for_each(|write| write.unwrap().unwrap());
        took
    });
    assert!(took < Duration::from_secs(1), "{took:?}");
}
