//! How much clients may have the server keep in the extended attributes of one file.
//!
//! XFS and btrfs take any number of attributes, but the kernel lists no more than 64 KiB of their keys: beyond that nobody can tell what is kept with a
//! file. So clients get no new key where those that there are have taken most of that. The server's own keys always have room.

use crate::Error;
use crate::directory::keys::is_clients;
use crate::directory::subject::Subject;

/// What the keys of a file take at most with one more of a client's, each with the byte that ends it: a quarter of what the kernel lists is left for what
/// the server and other programs set.
const LIST_BYTES_MAX: usize = 48 << 10;

impl Subject<'_> {
    /// [`Error::TooLarge`] where a client's value at `key` would go beyond what a file keeps for clients. What is kept with the file is locked, so
    /// that no other value takes the same room.
    pub(super) fn check_budget(&self, key: &str) -> Result<(), Error> {
        if !is_clients(key) {
            return Ok(());
        }
        let listed = match self.list_of_attributes() {
            // What is kept in files of its own has no such bounds.
            Ok(None) => return Ok(()),
            Err(Error::TooLarge) => None,
            list => list?,
        };
        if self.load(key, &mut [])?.is_none() && !has_room_for_key(listed.map(|list| list.len()), key) {
            return Err(Error::TooLarge);
        }
        Ok(())
    }
}

/// True where the list of keys may get one more. Its length is not known where it is longer than the kernel tells.
fn has_room_for_key(listed_bytes: Option<usize>, key: &str) -> bool {
    listed_bytes.is_some_and(|bytes| bytes + key.len() < LIST_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_up_to_a_bound_below_the_kernels() {
        let key = "user.name";
        assert!(has_room_for_key(Some(0), key));
        assert!(has_room_for_key(Some(LIST_BYTES_MAX - key.len() - 1), key));
        assert!(!has_room_for_key(Some(LIST_BYTES_MAX - key.len()), key));
        assert!(!has_room_for_key(None, key));
    }
}
