//! AES-128-CMAC (RFC 4493) over a message in pieces. Own code because the library's context lives on the heap and
//! would be allocated anew for every message.

use aes::Aes128;
use aes::cipher::{
    Block, BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, KeyInit, consts::U16,
};

use crate::Secret;

const BLOCK: usize = 16;

/// A key with its two subkeys (RFC 4493 2.3).
pub(super) struct Cmac {
    cipher: Aes128,
    whole: Secret,
    padded: Secret,
}

impl Cmac {
    pub(super) fn new(key: &[u8; 16]) -> Self {
        let cipher = Aes128::new(key.into());
        let mut zero = Block::<Aes128>::default();
        cipher.encrypt_block(&mut zero);
        let whole = Secret::from(double(zero.into()));
        let padded = double(*whole).into();
        Cmac { cipher, whole, padded }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex::{hex, hex_array};

    /// The examples of RFC 4493 section 4.
    #[test]
    fn tags_of_rfc_4493() {
        let key = Cmac::new(&hex_array("2b7e151628aed2a6abf7158809cf4f3c"));
        assert_eq!(key.whole, hex_array("fbeed618357133667c85e08f7236a8de"));
        assert_eq!(key.padded, hex_array("f7ddac306ae266ccf90bc11ee46d513b"));
        let message = hex("6bc1bee22e409f96e93d7e117393172a ae2d8a571e03ac9c9eb76fac45af8e51
             30c81c46a35ce411e5fbc1191a0a52ef f69f2445df4f9b17ad2b417be66c3710");
        let tags = [
            (0, "bb1d6929e95937287fa37d129b756746"),
            (16, "070a16b46b4d4144f79bdd9dd04a287c"),
            (40, "dfa66747de9ae63030ca32611497c827"),
            (64, "51f0bebf7e3b9d92fc49741779363cfe"),
        ];
        for (length, tag) in tags {
            assert_eq!(key.tag(&[&message[..length]]), hex_array(tag), "{length} bytes");
        }
    }

    #[test]
    fn pieces_give_the_tag_of_the_whole() {
        let key = Cmac::new(&[3; 16]);
        let library = aws_lc_rs::cmac::Key::new(aws_lc_rs::cmac::AES_128, &[3; 16]).unwrap();
        let message: Vec<u8> = (0..100).collect();
        for length in 0..message.len() {
            let expected = aws_lc_rs::cmac::sign(&library, &message[..length]).unwrap();
            for cut in 0..=length {
                let tag = key.tag(&[&message[..cut], &[], &message[cut..length]]);
                assert_eq!(tag, expected.as_ref(), "{length} bytes cut at {cut}");
            }
        }
    }
}
