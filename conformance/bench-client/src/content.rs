//! What stands in a file: every 4 KiB know their place and how often they were written, so no read can mistake them.

/// What is told apart: each has its own place and round in front.
pub const UNIT_BYTES: usize = 4096;
/// Random bytes that the units are cut from.
const MASTER_BYTES: usize = 1 << 20;

pub struct Content {
    master: Vec<u8>,
}

impl Content {
    pub fn new() -> Self {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let words = (0..MASTER_BYTES / 8).flat_map(|_| next_random(&mut state).to_le_bytes());
        Content { master: words.collect() }
    }

    /// Fills a block with what belongs at `offset` in this round. Both lengths are multiples of a unit.
    pub fn fill(&self, offset: u64, round: u64, block: &mut [u8]) {
        for (unit, place) in block.chunks_exact_mut(UNIT_BYTES).zip((offset..).step_by(UNIT_BYTES)) {
            let (mark, body) = unit.split_at_mut(16);
            mark.copy_from_slice(&self.mark(place, round));
            body.copy_from_slice(self.body(place, round));
        }
    }

    /// Whether a block is what belongs at `offset` in this round.
    pub fn matches(&self, offset: u64, round: u64, block: &[u8]) -> bool {
        block.len().is_multiple_of(UNIT_BYTES)
            && block
                .chunks_exact(UNIT_BYTES)
                .zip((offset..).step_by(UNIT_BYTES))
                .all(|(unit, place)| unit[..16] == self.mark(place, round) && unit[16..] == *self.body(place, round))
    }

    fn mark(&self, place: u64, round: u64) -> [u8; 16] {
        let mut mark = [0; 16];
        mark[..8].copy_from_slice(&place.to_le_bytes());
        mark[8..].copy_from_slice(&round.to_le_bytes());
        mark
    }

    fn body(&self, place: u64, round: u64) -> &[u8] {
        let start = (place / UNIT_BYTES as u64 * 509 + round * 4_099) as usize % (MASTER_BYTES - UNIT_BYTES);
        &self.master[start..start + UNIT_BYTES - 16]
    }
}

/// The next number of a xorshift generator, whose state is never zero.
pub fn next_random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}
