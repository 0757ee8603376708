//! AES-CCM (RFC 3610, NIST SP 800-38C) as SMB uses it: a nonce of 11 bytes, a tag of 16, the last 32 bytes of the
//! transform header as additional data. Own code because the generic crate calls the cipher block by block: with its
//! rounds inlined and the key stream made several blocks at a time, the same is five times as fast.

use aes::cipher::{
    Array, Block, BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, consts::U16,
    typenum::Unsigned,
};
use aws_lc_rs::constant_time;

const BLOCK: usize = 16;
/// Length of the additional data, and of the nonce.
const AAD_LENGTH: usize = 32;
const NONCE_LENGTH: usize = 11;
/// Flags of the counter blocks: lengths and counters have L = 4 bytes.
const COUNTER_FLAGS: u8 = 3;
/// Flags of the first block of the MAC: additional data present, tags of 16 bytes, L = 4.
const MAC_FLAGS: u8 = 0x40 | (((16 - 2) / 2) << 3) | COUNTER_FLAGS;

/// A key ready for CCM.
pub(super) struct Ccm<C> {
    cipher: C,
}

impl<C: BlockCipherEncrypt<BlockSize = U16>> Ccm<C> {
    pub(super) fn new(cipher: C) -> Self {
        Ccm { cipher }
    }

    /// Encrypts `message` and gives its tag; `None`, with nothing done, when it is too long for a length of 4 bytes.
    pub(super) fn seal(
        &self,
        nonce: &[u8; NONCE_LENGTH],
        aad: &[u8; AAD_LENGTH],
        message: &mut [u8],
    ) -> Option<[u8; BLOCK]> {
        self.pass(Direction::Seal, nonce, aad, message)
    }

    /// Decrypts `message` and says whether `tag` is its tag. When it is not, the message becomes zeros.
    pub(super) fn open(
        &self,
        nonce: &[u8; NONCE_LENGTH],
        aad: &[u8; AAD_LENGTH],
        message: &mut [u8],
        tag: &[u8; BLOCK],
    ) -> bool {
        let computed = self.pass(Direction::Open, nonce, aad, message);
        let fits = computed.is_some_and(|computed| constant_time::verify_slices_are_equal(&computed, tag).is_ok());
        if !fits {
            message.fill(0);
        }
        fits
    }

    fn pass(
        &self,
        direction: Direction,
        nonce: &[u8; NONCE_LENGTH],
        aad: &[u8; AAD_LENGTH],
        message: &mut [u8],
    ) -> Option<[u8; BLOCK]> {
        let length = u32::try_from(message.len()).ok()?;
        let mut tag = [0; BLOCK];
        self.cipher.encrypt_with_backend(Pass { direction, nonce, aad, message, length, tag: &mut tag });
        Some(tag)
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Seal,
    Open,
}

/// The whole computation, compiled once for each kind of processor.
struct Pass<'a> {
    direction: Direction,
    nonce: &'a [u8; NONCE_LENGTH],
    aad: &'a [u8; AAD_LENGTH],
    message: &'a mut [u8],
    length: u32,
    tag: &'a mut [u8; BLOCK],
}

impl BlockSizeUser for Pass<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Pass<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let mut mac = Block::<B>::default();
        absorb(backend, &mut mac, &numbered(MAC_FLAGS, self.nonce, self.length));
        for block in framed_aad(self.aad) {
            absorb(backend, &mut mac, &block);
        }
        let (blocks, rest) = self.message.as_chunks_mut::<BLOCK>();
        // Counter 0 is the tag's.
        let mut counter = 1u32;
        for chunk in blocks.chunks_mut(B::ParBlocksSize::USIZE) {
            let mut stream =
                Array::from_fn(|i| numbered(COUNTER_FLAGS, self.nonce, counter.wrapping_add(i as u32)).into());
            counter = counter.wrapping_add(chunk.len() as u32);
            backend.encrypt_par_blocks_inplace(&mut stream);
            for (block, key) in chunk.iter_mut().zip(&stream) {
                let changed = xor(block, &(*key).into());
                match self.direction {
                    Direction::Seal => absorb(backend, &mut mac, block),
                    Direction::Open => absorb(backend, &mut mac, &changed),
                }
                *block = changed;
            }
        }
        if !rest.is_empty() {
            let mut key = numbered(COUNTER_FLAGS, self.nonce, counter).into();
            backend.encrypt_block_inplace(&mut key);
            let mut padded = [0; BLOCK];
            for (i, (byte, key)) in rest.iter_mut().zip(&key).enumerate() {
                let changed = *byte ^ key;
                padded[i] = match self.direction {
                    Direction::Seal => *byte,
                    Direction::Open => changed,
                };
                *byte = changed;
            }
            absorb(backend, &mut mac, &padded);
        }
        let mut key = numbered(COUNTER_FLAGS, self.nonce, 0).into();
        backend.encrypt_block_inplace(&mut key);
        *self.tag = xor(&mac.into(), &key.into());
    }
}

/// One step of the CBC-MAC.
#[inline(always)]
fn absorb<B: BlockCipherEncBackend<BlockSize = U16>>(backend: &B, mac: &mut Block<B>, block: &[u8; BLOCK]) {
    *mac = xor(&(*mac).into(), block).into();
    backend.encrypt_block_inplace(mac);
}

/// Flags, nonce and a number: the form of every block that CCM makes up.
#[inline(always)]
fn numbered(flags: u8, nonce: &[u8; NONCE_LENGTH], number: u32) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[0] = flags;
    block[1..12].copy_from_slice(nonce);
    block[12..].copy_from_slice(&number.to_be_bytes());
    block
}

/// The additional data behind its length, padded to whole blocks.
#[inline(always)]
fn framed_aad(aad: &[u8; AAD_LENGTH]) -> [[u8; BLOCK]; 3] {
    let mut blocks = [[0; BLOCK]; 3];
    let bytes = blocks.as_flattened_mut();
    bytes[..2].copy_from_slice(&(AAD_LENGTH as u16).to_be_bytes());
    bytes[2..2 + AAD_LENGTH].copy_from_slice(aad);
    blocks
}

#[inline(always)]
fn xor(a: &[u8; BLOCK], b: &[u8; BLOCK]) -> [u8; BLOCK] {
    (u128::from_ne_bytes(*a) ^ u128::from_ne_bytes(*b)).to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use aes::{Aes128, Aes256};
    use ccm::aead::inout::InOutBuf;
    use ccm::consts::U11;
    use ccm::{AeadInOut, KeyInit};

    use super::*;

    type Oracle<C> = ccm::Ccm<C, U16, U11>;

    /// Seals `message` with both, compares, and opens it again.
    fn compare<C: BlockCipherEncrypt<BlockSize = U16> + KeyInit>(key: &[u8], message: &[u8]) {
        let (nonce, aad) = ([7; NONCE_LENGTH], std::array::from_fn(|i| i as u8));
        let ours = Ccm::new(C::new_from_slice(key).unwrap());
        let mut sealed = message.to_vec();
        let tag = ours.seal(&nonce, &aad, &mut sealed).unwrap();
        let mut expected = message.to_vec();
        let oracle = Oracle::<C>::new_from_slice(key).unwrap();
        let expected_tag = oracle.encrypt_inout_detached(&nonce.into(), &aad, InOutBuf::from(&mut expected[..]));
        assert_eq!((&sealed, tag), (&expected, expected_tag.unwrap().into()), "{} bytes", message.len());
        assert!(ours.open(&nonce, &aad, &mut sealed, &tag));
        assert_eq!(sealed, message);
    }

    #[test]
    fn every_length_is_sealed_as_by_the_generic_crate() {
        let message: Vec<u8> = (0..700u32).map(|i| (i * 13) as u8).collect();
        for length in 0..message.len() {
            compare::<Aes128>(&[1; 16], &message[..length]);
            compare::<Aes256>(&[2; 32], &message[..length]);
        }
    }

    #[test]
    fn a_message_that_does_not_fit_its_tag_becomes_zeros() {
        let ccm = Ccm::new(Aes128::new(&[1; 16].into()));
        let mut message = [9; 40];
        assert!(!ccm.open(&[7; NONCE_LENGTH], &[0; AAD_LENGTH], &mut message, &[0; BLOCK]));
        assert_eq!(message, [0; 40]);
    }
}
