//! How much clients may have the server keep in the extended attributes of one file.
//!
//! XFS and btrfs take any number of attributes, but the kernel lists no more than 64 KiB of their keys: beyond that nobody can tell what is kept with a
//! file. So clients get no new key where those that there are have taken most of that. The server's own keys always have room.
//!
//! ext4 takes one block of attributes of a file. A client that filled it would keep everybody from setting another descriptor, or attributes. So what
//! clients set, and descriptors, leave room for the record and for the name of a side file that holds a descriptor: where that cannot be told by what is
//! there, [`ROOM`] is set first, which takes as much, and removed when the value is there. That is right on whatever file system takes so much
//! and no more, and whenever the server is killed: a placeholder that is left is room as well, and goes where the server needs it ([`super::room`]).
//!
//! Directories do not count for a quota, so that what is kept in their attributes is bounded: by as much as a directory takes itself. Longer data of streams,
//! and longer descriptors, go to side files, which count.

use rustix::fs::FileType;

use crate::Error;
use crate::directory::keys::{RECORD, ROOM, SECURITY, SECURITY_SIDE, USER, is_clients, is_stream};
use crate::directory::record::RECORD_BYTES;
use crate::directory::side_name::NAME_BYTES_MAX;
use crate::directory::stat::file_type;
use crate::directory::stream_value::bytes_with_owner;
use crate::directory::subject::Subject;
use crate::directory::xattr::{ATTRIBUTE_COST, in_list};

/// What the keys of a file take at most with one more of a client's, each with the byte that ends it: a quarter of what the kernel lists is left for what
/// the server and other programs set.
const LIST_BYTES_MAX: usize = 48 << 10;
/// The smallest room for attributes that is known of any file system: a block of ext4, which may be of 1 KiB.
const BLOCK_BYTES_MIN: usize = 1 << 10;
/// What is believed of the room that a block gives where it is larger: NFS tells how much it reads at once.
const BLOCK_BYTES_MAX: usize = 4 << 10;
/// What clients have kept in the attributes of one directory at most, and the longest descriptor there.
const DIRECTORY_BYTES_MAX: usize = 4 << 10;
/// What a block has besides its attributes.
const BLOCK_HEADER_BYTES: usize = 64;
/// What always has room with a file, and how many bytes its value has.
const RESERVED: [(&str, usize); 2] = [(RECORD, RECORD_BYTES), (SECURITY_SIDE, NAME_BYTES_MAX)];

/// True for keys that have room whatever is kept for clients.
pub(super) fn is_reserved(key: &str) -> bool {
    RESERVED.iter().any(|(reserved, _)| *reserved == key)
}

impl<'a> Subject<'a> {
    /// Sees that a file has room for a client's value, or a descriptor, and for what the server keeps besides; what is given is to be dropped when the value
    /// is set. [`Error::TooLarge`] where it has not, [`Error::Full`] where the file system has none. What is kept with the file is locked, so that nothing
    /// else takes the same room.
    pub(super) fn make_room<'s>(&'s self, key: &str, value: &[u8]) -> Result<Option<Placeholder<'s, 'a>>, Error> {
        if !is_clients(key) && key != SECURITY {
            return Ok(None);
        }
        let listed = match self.list_of_attributes() {
            // What is kept in files of its own has no such bounds.
            Ok(None) => return Ok(None),
            Err(Error::TooLarge) => None,
            list => list?,
        };
        let there = self.load_all(key)?;
        if there.as_ref().is_some_and(|there| value.len() <= there.len()) {
            return Ok(None);
        }
        let listed_bytes = listed.as_ref().map(Vec::len);
        if there.is_none() && is_clients(key) && !has_room_for_key(listed_bytes, key) {
            return Err(Error::TooLarge);
        }
        let taken = listed.as_ref().map(|listed| self.taken(listed, key, value)).transpose()?;
        let is_much = match &taken {
            _ if key == SECURITY => value.len() > DIRECTORY_BYTES_MAX,
            Some(taken) => taken.is_much_for_a_directory(),
            None => true,
        };
        if is_much && file_type(&self.stat()?) == FileType::Directory {
            return Err(Error::TooLarge);
        }
        // Where there are more keys than are listed there is no bound on what they take.
        taken.map_or(Ok(None), |taken| self.hold_room(&taken))
    }

    /// What is kept in attributes with this value, as far as it matters: all of what clients may have kept with a directory, or more than that.
    fn taken(&self, listed: &[u8], key: &str, value: &[u8]) -> Result<Taken, Error> {
        let mut taken = Taken { reserve: self.reserve(listed)?, ..Taken::default() };
        taken.add(key, bytes_of(key, value));
        for other in in_list(listed).filter(|other| *other != key) {
            if !taken.fits(BLOCK_BYTES_MAX) && taken.is_much_for_a_directory() {
                break;
            }
            match self.load_all(other) {
                // What others keep of it need not be the server's to read.
                Err(_) if !other.starts_with(USER) => taken.add(other, BLOCK_BYTES_MAX),
                found => taken.add(other, found?.map_or(0, |found| bytes_of(other, &found))),
            }
        }
        Ok(taken)
    }

    /// Holds room for what the server keeps, where what is there does not say that it has some.
    fn hold_room<'s>(&'s self, taken: &Taken) -> Result<Option<Placeholder<'s, 'a>>, Error> {
        if taken.fits(BLOCK_BYTES_MIN) || taken.fits(self.block_bytes()?.min(BLOCK_BYTES_MAX)) {
            return Ok(None);
        }
        if taken.reserve == 0 || self.takes_any_attributes()? {
            return Ok(None);
        }
        let placeholder = Placeholder(self);
        match self.set_attribute(ROOM, &vec![0; taken.reserve]) {
            None => Ok(None),
            Some(Ok(())) => Ok(Some(placeholder)),
            Some(Err(errno)) => Err(self.refused(errno, || Ok((taken.bytes + taken.reserve) as u64))),
        }
    }

    /// What is to be left to the server of the room that a file has.
    fn reserve(&self, listed: &[u8]) -> Result<usize, Error> {
        let mut bytes = 0;
        for (key, value_bytes) in RESERVED {
            let is_listed = in_list(listed).any(|listed| listed == key);
            // Earlier versions wrote shorter names of side files.
            if !is_listed || self.load_all(key)?.is_none_or(|value| value.len() < value_bytes) {
                bytes += key.len() + value_bytes + ATTRIBUTE_COST;
            }
        }
        Ok(bytes)
    }
}

/// Room is held until this is dropped.
pub(super) struct Placeholder<'s, 'a>(&'s Subject<'a>);

impl Drop for Placeholder<'_, '_> {
    fn drop(&mut self) {
        // Where that fails it is there, and in nobody's way.
        let _ = self.0.erase(ROOM);
    }
}

/// True where the list of keys may get one more. Its length is not known where it is longer than the kernel tells.
fn has_room_for_key(listed_bytes: Option<usize>, key: &str) -> bool {
    listed_bytes.is_some_and(|bytes| bytes + key.len() < LIST_BYTES_MAX)
}

/// Bytes of a value, with what that of a stream takes more when its data move to a side file.
fn bytes_of(key: &str, value: &[u8]) -> usize {
    if is_stream(key) { bytes_with_owner(value) } else { value.len() }
}

/// What attributes take at most, in bytes.
#[derive(Default)]
struct Taken {
    /// To be left to the server.
    reserve: usize,
    bytes: usize,
    /// What clients have kept.
    clients: usize,
}

impl Taken {
    fn add(&mut self, key: &str, value_bytes: usize) {
        let bytes = key.len() + value_bytes + ATTRIBUTE_COST;
        self.bytes += bytes;
        if is_clients(key) {
            self.clients += bytes;
        }
    }

    fn fits(&self, block_bytes: usize) -> bool {
        self.bytes + self.reserve + BLOCK_HEADER_BYTES <= block_bytes
    }

    fn is_much_for_a_directory(&self) -> bool {
        self.clients > DIRECTORY_BYTES_MAX
    }
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

    /// As ext4 does it: 16 bytes and the name without `user.`, and the value, each a multiple of four bytes, behind 32 bytes and before four.
    fn on_ext4(attributes: &[(usize, usize)]) -> usize {
        let entry =
            |(name, value): &(usize, usize)| 16 + (name - USER.len()).next_multiple_of(4) + value.next_multiple_of(4);
        32 + attributes.iter().map(entry).sum::<usize>() + 4
    }

    #[test]
    fn what_is_believed_to_fit_in_a_block_does_so_on_ext4() {
        for (name_bytes, value_bytes) in [(6, 0), (6, 1), (7, 3), (255, 20), (100, 1_000)] {
            let (mut taken, mut attributes) = (Taken::default(), Vec::new());
            loop {
                taken.add(&"x".repeat(name_bytes), value_bytes);
                attributes.push((name_bytes, value_bytes));
                if !taken.fits(BLOCK_BYTES_MAX) {
                    break;
                }
                assert!(on_ext4(&attributes) <= BLOCK_BYTES_MAX);
            }
        }
    }

    #[test]
    fn a_placeholder_is_no_smaller_than_what_it_holds_room_for() {
        let reserved = RESERVED.map(|(key, value)| (key.len(), value));
        let bytes = reserved.iter().map(|(key, value)| key + value + ATTRIBUTE_COST).sum();
        assert!(on_ext4(&[(ROOM.len(), bytes)]) >= on_ext4(&reserved));
    }
}
