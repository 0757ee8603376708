//! Keys in memory, which are overwritten when they are no longer needed.

use std::fmt;
use std::ops::{Deref, DerefMut};

use zeroize::{Zeroize, ZeroizeOnDrop};

/// A key of 16 bytes: overwritten when it is dropped, never printed. What is copied out of it is not.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret([u8; 16]);

impl From<[u8; 16]> for Secret {
    fn from(bytes: [u8; 16]) -> Self {
        Secret(bytes)
    }
}

impl Deref for Secret {
    type Target = [u8; 16];

    fn deref(&self) -> &[u8; 16] {
        &self.0
    }
}

impl DerefMut for Secret {
    fn deref_mut(&mut self) -> &mut [u8; 16] {
        &mut self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ZeroizeOnDrop for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
impl PartialEq<[u8; 16]> for Secret {
    fn eq(&self, other: &[u8; 16]) -> bool {
        self.0 == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_overwritten<T: ZeroizeOnDrop>() {}

    #[test]
    fn keys_are_overwritten_when_they_are_dropped_and_never_printed() {
        is_overwritten::<Secret>();
        is_overwritten::<zeroize::Zeroizing<[u8; 32]>>();
        is_overwritten::<aes::Aes128>();
        is_overwritten::<aes::Aes256>();
        is_overwritten::<rc4::Rc4>();
        is_overwritten::<md4::Md4>();
        is_overwritten::<md5::Md5>();
        assert_eq!(format!("{:?}", Secret::from([1; 16])), "Secret(..)");
    }
}
