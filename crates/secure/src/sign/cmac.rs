//! AES-128-CMAC (RFC 4493) over a message in pieces. Own code because the library's context lives on the heap and
//! would be allocated anew for every message.

use aes::Aes128;
use aes::cipher::{
    Block, BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, KeyInit, consts::U16,
};

const BLOCK: usize = 16;

/// A key with its two subkeys (RFC 4493 2.3).
pub(super) struct Cmac {
    cipher: Aes128,
    whole: [u8; BLOCK],
    padded: [u8; BLOCK],
}

impl Cmac {
    pub(super) fn new(key: [u8; 16]) -> Self {
        let cipher = Aes128::new(&key.into());
        let mut zero = Block::<Aes128>::default();
        cipher.encrypt_block(&mut zero);
        let whole = double(zero.into());
        Cmac { cipher, whole, padded: double(whole) }
    }

    /// The code over the pieces joined together.
    pub(super) fn tag(&self, pieces: &[&[u8]]) -> [u8; BLOCK] {
        let mut chain = Chain { cipher: &self.cipher, state: [0; BLOCK], held: [0; BLOCK], held_length: 0 };
        for piece in pieces {
            chain.update(piece);
        }
        chain.finish(self)
    }
}

/// CBC-MAC in progress. The last block is held back because it is treated differently.
struct Chain<'a> {
    cipher: &'a Aes128,
    state: [u8; BLOCK],
    held: [u8; BLOCK],
    held_length: usize,
}

impl Chain<'_> {
    fn update(&mut self, mut data: &[u8]) {
        if self.held_length > 0 {
            let (fill, rest) = data.split_at(data.len().min(BLOCK - self.held_length));
            self.held[self.held_length..self.held_length + fill.len()].copy_from_slice(fill);
            self.held_length += fill.len();
            data = rest;
        }
        if data.is_empty() {
            return;
        }
        if self.held_length == BLOCK {
            let held = self.held;
            self.absorb(&[held]);
        }
        let (blocks, rest) = data.split_at((data.len() - 1) / BLOCK * BLOCK);
        self.absorb(blocks.as_chunks().0);
        self.held[..rest.len()].copy_from_slice(rest);
        self.held_length = rest.len();
    }

    fn absorb(&mut self, blocks: &[[u8; BLOCK]]) {
        self.cipher.encrypt_with_backend(Absorb { state: &mut self.state, blocks });
    }

    fn finish(mut self, key: &Cmac) -> [u8; BLOCK] {
        let subkey = if self.held_length == BLOCK {
            &key.whole
        } else {
            self.held[self.held_length..].fill(0);
            self.held[self.held_length] = 0x80;
            &key.padded
        };
        let last = xor(&self.held, subkey);
        self.absorb(&[last]);
        self.state
    }
}

/// The loop over the blocks, compiled once for each kind of processor so that the rounds are inlined into it.
struct Absorb<'a> {
    state: &'a mut [u8; BLOCK],
    blocks: &'a [[u8; BLOCK]],
}

impl BlockSizeUser for Absorb<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Absorb<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let mut state = Block::<Aes128>::from(*self.state);
        for block in self.blocks {
            state = xor(&state.into(), block).into();
            backend.encrypt_block_inplace(&mut state);
        }
        *self.state = state.into();
    }
}

#[inline(always)]
fn xor(a: &[u8; BLOCK], b: &[u8; BLOCK]) -> [u8; BLOCK] {
    (u128::from_ne_bytes(*a) ^ u128::from_ne_bytes(*b)).to_ne_bytes()
}

/// Doubling in GF(2^128), without a branch on the key.
fn double(block: [u8; BLOCK]) -> [u8; BLOCK] {
    let value = u128::from_be_bytes(block);
    ((value << 1) ^ ((value >> 127) * 0x87)).to_be_bytes()
}
