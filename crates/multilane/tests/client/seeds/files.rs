//! Files of one writer, and what must stand in them: looked at through the client, and beneath the server in its store.

use std::sync::Arc;
use std::time::Duration;

use client::{Access, Disposition, File, OpenOptions, Tree};
use futures_util::future::join_all;
use store::{Node, Resolved, SharePath, Store, Use};
use tokio::time::sleep;

use crate::chance::Chance;

const BLOCKS: usize = 8;
const BLOCK_BYTES: usize = 96 << 10;
const ROUNDS: u8 = 9;

pub(super) fn options(access: Access, disposition: Disposition, durable: bool) -> OpenOptions {
    OpenOptions { access, disposition, directory: Some(false), durable, ..OpenOptions::default() }
}

/// What the server's store has under a name.
pub(super) fn stored(store: &Arc<dyn Store>, name: &str) -> Option<Arc<dyn Node>> {
    match store.resolve(&SharePath::parse(name).unwrap(), Use::Read).unwrap() {
        Resolved::Found { node, .. } => Some(node),
        Resolved::Missing { .. } => None,
    }
}

/// A file with what must stand in it: for each block the round that wrote it last.
pub(super) struct Watched {
    name: String,
    file: File,
    rounds: [u8; BLOCKS],
    node: Arc<dyn Node>,
}

fn block(index: usize, round: u8) -> Vec<u8> {
    vec![(index as u8).wrapping_mul(31) ^ round; BLOCK_BYTES]
}

impl Watched {
    pub(super) async fn make(tree: &Tree, store: &Arc<dyn Store>, name: &str, durable: bool) -> Self {
        let options = options(Access::Write, Disposition::Create, durable);
        let file = tree.open(name, options).await.unwrap();
        let node = stored(store, name).expect("it was made");
        let mut watched = Watched { name: name.to_owned(), file, rounds: [0; BLOCKS], node };
        watched.write(&(0..BLOCKS).collect::<Vec<_>>(), 0).await;
        watched
    }

    /// Writes some blocks at once. What an earlier round wrote must stand there until then, and what this one writes afterwards.
    async fn write(&mut self, indices: &[usize], round: u8) {
        if round > 0 {
            indices.iter().for_each(|index| self.must_stand(*index));
        }
        let data: Vec<_> = indices.iter().map(|index| block(*index, round)).collect();
        let writes = indices.iter().zip(data).map(|(index, data)| {
            let at = *index;
            let file = &self.file;
            async move {
                file.write((at * BLOCK_BYTES) as u64, data).await.unwrap();
                at
            }
        });
        let written = join_all(writes).await;
        for index in written {
            self.rounds[index] = round;
            self.must_stand(index);
        }
    }

    /// The last write of a block that was acknowledged is what the store has there.
    fn must_stand(&self, index: usize) {
        let expected = block(index, self.rounds[index]);
        let mut data = vec![0; BLOCK_BYTES];
        let count = self.node.read_at(&mut data, (index * BLOCK_BYTES) as u64).unwrap();
        assert!(
            count == BLOCK_BYTES && data == expected,
            "{}, block {index}: not what round {} wrote but {:?}",
            self.name,
            self.rounds[index],
            data.first().map(|byte| byte ^ (index as u8).wrapping_mul(31)),
        );
    }

    /// What a client reads is what was written last.
    pub(super) async fn check(&self, file: &File, index: usize) {
        let data = file.read((index * BLOCK_BYTES) as u64, BLOCK_BYTES).await.unwrap();
        assert!(*data == block(index, self.rounds[index]), "{}, block {index} is read as something else", self.name);
    }

    pub(super) async fn work(&mut self, chance: &Chance) {
        for round in 1..ROUNDS {
            let count = 1 + chance.below(BLOCKS as u64) as usize;
            let first = chance.below(BLOCKS as u64) as usize;
            let indices: Vec<_> = (0..count).map(|step| (first + step) % BLOCKS).collect();
            self.write(&indices, round).await;
            self.check(&self.file, chance.below(BLOCKS as u64) as usize).await;
            sleep(Duration::from_millis(chance.below(300))).await;
        }
    }

    /// What another client finds in the end.
    pub(super) async fn check_all(&self, share: &Tree) {
        let file = share.open(&self.name, OpenOptions::default()).await.unwrap();
        for index in 0..BLOCKS {
            self.must_stand(index);
            self.check(&file, index).await;
        }
        file.close().await.unwrap();
    }

    pub(super) async fn close(self) {
        self.file.close().await.unwrap();
    }
}

/// Makes a file longer and shorter; each length stays until the next is asked for.
pub(super) async fn lengths(tree: &Tree, store: &Arc<dyn Store>, chance: &Chance, durable: bool) {
    let file = tree.open("lengths", options(Access::Write, Disposition::Create, durable)).await.unwrap();
    let node = stored(store, "lengths").expect("it was made");
    let mut length = 0;
    for _ in 0..ROUNDS {
        assert_eq!(node.metadata().unwrap().length, length, "the length that was set last");
        length = chance.below(1 << 20);
        file.set_length(length).await.unwrap();
        assert_eq!(node.metadata().unwrap().length, length, "the length that was set");
        sleep(Duration::from_millis(chance.below(300))).await;
    }
    file.close().await.unwrap();
}
