//! What is kept on disk of a persistent open: enough to make it anew after the server was killed.
//!
//! ```text
//! offset size  field
//!      0    4  "MLPO"
//!      4    4  version, 4; of version 3 the last two fields are missing, of version 2 the last four, of version 1 the last seven
//!      8    8  checksum of all that follows (64-bit FNV-1a)
//!     16    -  the fields of Record in their order, little-endian; texts and lists behind their 4-byte length
//! ```

use store::{Node, Time};
use wire::Malformed;
use wire::codec::{Reader, Writer};
use wire::command::create::OplockLevel;
use wire::context::create::{Lease, LeaseState};
use wire::ids::Guid;
use wire::security::Sid;

use crate::state::lock_sequences::ENTRIES;

const MAGIC: [u8; 4] = *b"MLPO";
const VERSION: u32 = 4;
/// The version whose records do not say which LOCK requests were done.
const VERSION_WITHOUT_SEQUENCES: u32 = 3;
/// The version whose records do not say on which volume the file is.
const VERSION_WITHOUT_VOLUME: u32 = 2;
/// The version whose records may say that an open cached writes when it did no longer.
const VERSION_WITHOUT_ORDER: u32 = 1;
const HEADER_BYTES: usize = 16;
/// The longest record that is read. A path has at most 32,767 notifications, of at most three bytes each.
pub(super) const RECORD_BYTES_MAX: usize = 1 << 20;
/// The most byte-range locks of one open that are kept.
pub(super) const LOCKS_MAX: usize = 4_096;
/// The most names of one open that are kept beside its own: as many renames of it may be under way.
pub(super) const NAMES_MAX: usize = 8;

/// One persistent open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) open: u64,
    pub(crate) client: Guid,
    pub(crate) create: Guid,
    pub(crate) timeout_milliseconds: u32,
    /// Whose it is.
    pub(crate) owner: Option<Sid>,
    pub(crate) share: String,
    pub(crate) path: String,
    /// The stream's name, empty for the file itself.
    pub(crate) stream: String,
    /// The file's number in its file system: another file of the name is another file.
    pub(crate) file: u64,
    pub(crate) granted: u32,
    /// DesiredAccess, ShareAccess and CreateOptions of the request.
    pub(crate) asked: (u32, u32, u32),
    pub(crate) options: u32,
    pub(crate) mode: u32,
    /// CreateAction of the response.
    pub(crate) action: u32,
    pub(crate) delete_on_close: bool,
    /// The stream goes with its last open; where it is the file itself, the name that the open was made by.
    pub(crate) delete_pending: bool,
    /// The oplock's level, where it has one.
    pub(crate) oplock: u8,
    /// The lease as its context has it, empty where it has none.
    pub(crate) lease: Vec<u8>,
    pub(crate) locks: Vec<LockedRange>,
    /// What it shares with others, which may be more than it asked for.
    pub(crate) shared: u32,
    /// Of two records that contradict each other the one with the higher number is true. Zero where that is not known.
    pub(crate) written: u64,
    /// Names that the file may have by now.
    pub(crate) names: Vec<RecordedName>,
    /// The file system that the file was on. It may have another number once the machine was started anew.
    pub(crate) volume: Option<u64>,
    /// When the file was made: a later one may have its number. In units of 100 ns, as a FILETIME counts.
    pub(crate) born: Option<u64>,
    /// Of a stream: the name of its file that the open was made by goes with its last open.
    pub(crate) file_goes: bool,
    /// Open.LockSequenceArray: LockSequenceIndex and LockSequenceNumber.
    pub(crate) sequences: Vec<(u8, u8)>,
}

/// A name that an open's file has, may have or had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordedName {
    pub(crate) path: String,
    /// The stream's name, empty for the file itself.
    pub(crate) stream: String,
}

/// A byte-range lock of the open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockedRange {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) exclusive: bool,
}

impl Record {
    /// The name that the file had for certain.
    pub(super) fn name(&self) -> RecordedName {
        RecordedName { path: self.path.clone(), stream: self.stream.clone() }
    }

    /// All names that it may have, that one first.
    pub(crate) fn known_names(&self) -> impl Iterator<Item = RecordedName> {
        std::iter::once(self.name()).chain(self.names.iter().cloned())
    }

    /// True where `node` may be the file, as far as its number and its birth tell.
    pub(crate) fn is_of(&self, node: &dyn Node) -> bool {
        node.identity().file == self.file && may_be_one(self.born, node.birth())
    }

    /// True where the open cached writes.
    pub(super) fn caches_writes(&self) -> bool {
        match OplockLevel(self.oplock) {
            OplockLevel::EXCLUSIVE | OplockLevel::BATCH => true,
            OplockLevel::LEASE => {
                Lease::decode(&self.lease).is_ok_and(|lease| lease.lease_state.intersects(LeaseState::WRITE_CACHING))
            }
            _ => false,
        }
    }

    /// The bytes of a record's file.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let mut writer = Writer::new(&mut body);
        writer.u64(self.open);
        writer.bytes(&self.client.0);
        writer.bytes(&self.create.0);
        writer.u32(self.timeout_milliseconds);
        let mut owner = Vec::new();
        if let Some(sid) = &self.owner {
            sid.encode(&mut owner);
        }
        for part in [&owner[..], self.share.as_bytes(), self.path.as_bytes(), self.stream.as_bytes()] {
            sized(&mut writer, part);
        }
        writer.u64(self.file);
        let (desired, share, options) = self.asked;
        for number in [self.granted, desired, share, options, self.options, self.mode, self.action] {
            writer.u32(number);
        }
        writer.u8(u8::from(self.delete_on_close));
        writer.u8(u8::from(self.delete_pending));
        writer.u8(self.oplock);
        sized(&mut writer, &self.lease);
        writer.u32(self.locks.len() as u32);
        for lock in &self.locks {
            writer.u64(lock.offset);
            writer.u64(lock.length);
            writer.u8(u8::from(lock.exclusive));
        }
        writer.u32(self.shared);
        writer.u64(self.written);
        writer.u32(self.names.len() as u32);
        for name in &self.names {
            sized(&mut writer, name.path.as_bytes());
            sized(&mut writer, name.stream.as_bytes());
        }
        for number in [self.volume, self.born] {
            writer.u8(u8::from(number.is_some()));
            writer.u64(number.unwrap_or(0));
        }
        writer.u8(u8::from(self.file_goes));
        writer.u32(self.sequences.len() as u32);
        for (index, number) in &self.sequences {
            writer.bytes(&[*index, *number]);
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&checksum(&body).to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes
    }

    /// Reads a record's file. Whatever is damaged is malformed.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.array::<4>()? != MAGIC {
            return Err(Malformed("it does not begin as a record"));
        }
        let version = reader.u32()?;
        if !(VERSION_WITHOUT_ORDER..=VERSION).contains(&version) {
            return Err(Malformed("its version is unknown"));
        }
        if reader.u64()? != checksum(bytes.get(HEADER_BYTES..).unwrap_or_default()) {
            return Err(Malformed("its checksum is wrong"));
        }
        let mut record = Record::decode_body(&mut reader)?;
        record.shared = record.asked.1;
        if version > VERSION_WITHOUT_ORDER {
            record.shared = reader.u32()?;
            record.written = reader.u64()?;
            record.names = names(&mut reader)?;
        }
        if version > VERSION_WITHOUT_VOLUME {
            record.volume = known(&mut reader)?;
            record.born = known(&mut reader)?;
        }
        if version > VERSION_WITHOUT_SEQUENCES {
            record.file_goes = reader.u8()? != 0;
            record.sequences = sequences(&mut reader)?;
        }
        if reader.is_empty() { Ok(record) } else { Err(Malformed("bytes behind the record")) }
    }

    fn decode_body(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Record {
            open: reader.u64()?,
            client: Guid::decode(reader)?,
            create: Guid::decode(reader)?,
            timeout_milliseconds: reader.u32()?,
            owner: match sized_bytes(reader)? {
                [] => None,
                sid => Some(Sid::decode(sid)?),
            },
            share: text(reader)?,
            path: text(reader)?,
            stream: text(reader)?,
            file: reader.u64()?,
            granted: reader.u32()?,
            asked: (reader.u32()?, reader.u32()?, reader.u32()?),
            options: reader.u32()?,
            mode: reader.u32()?,
            action: reader.u32()?,
            delete_on_close: reader.u8()? != 0,
            delete_pending: reader.u8()? != 0,
            oplock: reader.u8()?,
            lease: sized_bytes(reader)?.to_vec(),
            locks: locks(reader)?,
            shared: 0,
            written: 0,
            names: Vec::new(),
            volume: None,
            born: None,
            file_goes: false,
            sequences: Vec::new(),
        })
    }
}

/// True where files of one number that were made at these times may be one file.
pub(super) fn may_be_one(one: Option<u64>, other: Option<Time>) -> bool {
    one.zip(other).is_none_or(|(one, other)| one == other.0)
}

/// Reads a record's file as if its checksum were right, and writes it again; `None` where it is malformed otherwise.
#[cfg(feature = "in-memory")]
pub(crate) fn rewritten(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut mended = bytes.to_vec();
    let sum = checksum(bytes.get(HEADER_BYTES..)?);
    mended.get_mut(8..HEADER_BYTES)?.copy_from_slice(&sum.to_le_bytes());
    Record::decode(&mended).ok().map(|record| record.to_bytes())
}

fn known(reader: &mut Reader<'_>) -> Result<Option<u64>, Malformed> {
    let (is_known, number) = (reader.u8()? != 0, reader.u64()?);
    Ok(is_known.then_some(number))
}

fn locks(reader: &mut Reader<'_>) -> Result<Vec<LockedRange>, Malformed> {
    let count = reader.u32()? as usize;
    if count > LOCKS_MAX {
        return Err(Malformed("too many locks"));
    }
    (0..count)
        .map(|_| Ok(LockedRange { offset: reader.u64()?, length: reader.u64()?, exclusive: reader.u8()? != 0 }))
        .collect()
}

fn sequences(reader: &mut Reader<'_>) -> Result<Vec<(u8, u8)>, Malformed> {
    let count = reader.u32()? as usize;
    if count > ENTRIES {
        return Err(Malformed("too many LOCK requests"));
    }
    (0..count).map(|_| Ok((reader.u8()?, reader.u8()?))).collect()
}

fn names(reader: &mut Reader<'_>) -> Result<Vec<RecordedName>, Malformed> {
    let count = reader.u32()? as usize;
    if count > NAMES_MAX {
        return Err(Malformed("too many names"));
    }
    (0..count).map(|_| Ok(RecordedName { path: text(reader)?, stream: text(reader)? })).collect()
}

fn sized(writer: &mut Writer<'_>, bytes: &[u8]) {
    writer.u32(bytes.len() as u32);
    writer.bytes(bytes);
}

fn sized_bytes<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let length = reader.u32()? as usize;
    reader.bytes(length)
}

fn text(reader: &mut Reader<'_>) -> Result<String, Malformed> {
    let bytes = sized_bytes(reader)?;
    String::from_utf8(bytes.to_vec()).map_err(|_| Malformed("a name is not UTF-8"))
}

/// 64-bit FNV-1a: finds damage, not malice.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            open: 7,
            client: Guid([1; 16]),
            create: Guid([2; 16]),
            timeout_milliseconds: 60_000,
            owner: Some(Sid::EVERYONE),
            share: "share".into(),
            path: r"folder\Grüße".into(),
            stream: "stream".into(),
            file: 99,
            granted: 1,
            asked: (2, 3, 4),
            options: 5,
            mode: 6,
            action: 1,
            delete_on_close: true,
            delete_pending: true,
            oplock: 9,
            lease: vec![3; 52],
            locks: vec![LockedRange { offset: u64::MAX, length: 1, exclusive: true }],
            shared: 7,
            written: 8,
            names: vec![RecordedName { path: "new name".into(), stream: "stream".into() }],
            volume: Some(98),
            born: Some(97),
            file_goes: true,
            sequences: vec![(1, 15), (64, 0)],
        }
    }

    #[test]
    fn records_round_trip() {
        assert_eq!(Record::decode(&record().to_bytes()), Ok(record()));
        assert_eq!(Record::decode(&Record::default().to_bytes()), Ok(Record::default()));
    }

    #[test]
    fn records_of_the_versions_before_are_read() {
        // What was shared is what was asked for.
        let third = Record { file_goes: false, sequences: Vec::new(), ..record() };
        let second = Record { volume: None, born: None, ..third.clone() };
        let first = Record { shared: 3, written: 0, names: Vec::new(), ..second.clone() };
        for (version, missing, before) in [(1, 16 + 18 + 5, first), (2, 18 + 5, second), (3, 5, third)] {
            let mut bytes = before.to_bytes();
            bytes.truncate(bytes.len() - missing);
            bytes[4] = version;
            let sum = checksum(&bytes[HEADER_BYTES..]);
            bytes[8..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
            assert_eq!(Record::decode(&bytes), Ok(before));
        }
    }

    #[test]
    fn damage_anywhere_is_malformed() {
        let bytes = record().to_bytes();
        for length in 0..bytes.len() {
            assert!(Record::decode(&bytes[..length]).is_err(), "{length}");
        }
        for position in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 0x10;
            assert!(Record::decode(&damaged).is_err(), "{position}");
        }
    }

    #[test]
    fn what_fuzzing_begins_with_are_records() {
        let with_lease = include_bytes!("../../../../../fuzz/corpus/persistent_record/lease");
        let with_locks = include_bytes!("../../../../../fuzz/corpus/persistent_record/locks");
        assert_eq!(Record::decode(with_lease).map(|record| record.lease.len()), Ok(52));
        assert_eq!(Record::decode(with_locks).map(|record| record.locks.len()), Ok(2));
        let with_names = include_bytes!("../../../../../fuzz/corpus/persistent_record/names");
        assert_eq!(Record::decode(with_names).map(|record| (record.locks.len(), record.names.len())), Ok((2, 2)));
        let with_sequences = include_bytes!("../../../../../fuzz/corpus/persistent_record/sequences");
        assert_eq!(Record::decode(with_sequences).map(|record| record.sequences), Ok(vec![(1, 15), (64, 0)]));
        let with_volume = include_bytes!("../../../../../fuzz/corpus/persistent_record/volume");
        assert_eq!(
            Record::decode(with_volume).map(|record| (record.volume, record.born)),
            Ok((Some(0x8_0000_0001), None))
        );
    }

    #[test]
    fn hostile_values_with_a_right_checksum_never_panic() {
        let bytes = record().to_bytes();
        for position in HEADER_BYTES..bytes.len() {
            for value in [0, 0x7F, 0xFF] {
                let mut hostile = bytes.clone();
                hostile[position] = value;
                let sum = checksum(&hostile[HEADER_BYTES..]);
                hostile[8..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
                let _ = Record::decode(&hostile);
            }
        }
    }
}
