//! Which channels requests take where one would do as well, and where it would not.

use std::time::Duration;

use client::{Bytes, Disposition, File, Session, Settings};
use futures_util::future::join_all;
use server::admin::{Multichannel, Sealing};
use tokio::time::Instant;

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
    let links = Links::new(LINKS, 1, server(LINKS, Multichannel::On, Sealing::Enabled));
    let session = session(&links, Settings::default()).await;
    let tree = session.tree("ram").await.unwrap();
    let file = tree.open("f", making(Disposition::Create)).await.unwrap();
    session.widen().await.unwrap();
    (0..usize::from(LINKS)).for_each(|index| links.set(index, link));
    write(&file, Duration::from_millis(400)).await;
    let before = sent(&session);
    write(&file, Duration::from_millis(200)).await;
    let sent: Vec<u64> = sent(&session).iter().zip(before).map(|(now, before)| now - before).collect();
    *sent.iter().max().unwrap() as f64 / sent.iter().sum::<u64>() as f64
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
