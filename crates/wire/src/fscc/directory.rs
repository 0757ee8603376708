//! Directory entries, all classes of them (MS-FSCC 2.4.8, 2.4.10, 2.4.15, 2.4.18 to 2.4.24, 2.4.33).

use crate::codec::{Malformed, Reader, Utf16, Writer};
use crate::fscc::afp::{AppleEntry, AppleFinder};
use crate::fscc::chain::{Chain, ChainWriter};
use crate::fscc::{FileAttributes, FileClass};
use crate::ids::FileTime;

/// Entries are aligned on eight bytes.
const ALIGNMENT: usize = 8;
/// NextEntryOffset and FileIndex, with which every entry begins.
const HEADER_BYTES: usize = 8;
/// ShortName's room: 12 characters.
const SHORT_NAME_BYTES: usize = 24;

/// What follows NextEntryOffset and FileIndex, in order; the name comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Four times, EndOfFile, AllocationSize, FileAttributes.
    Facts,
    NameLength,
    EaSize,
    ReparseTag,
    ShortName,
    Reserved(usize),
    FileId,
    FileId128,
}

impl Part {
    fn length(self) -> usize {
        match self {
            Part::Facts => 52,
            Part::NameLength | Part::EaSize | Part::ReparseTag => 4,
            Part::ShortName => 2 + SHORT_NAME_BYTES,
            Part::Reserved(bytes) => bytes,
            Part::FileId => 8,
            Part::FileId128 => 16,
        }
    }
}

/// The layout of each class; `None` for a class that is not one of directory entries.
fn parts(class: FileClass) -> Option<&'static [Part]> {
    use Part::*;
    Some(match class {
        FileClass::NAMES => &[NameLength],
        FileClass::DIRECTORY => &[Facts, NameLength],
        FileClass::FULL_DIRECTORY => &[Facts, NameLength, EaSize],
        FileClass::BOTH_DIRECTORY => &[Facts, NameLength, EaSize, ShortName],
        FileClass::ID_FULL_DIRECTORY => &[Facts, NameLength, EaSize, Reserved(4), FileId],
        FileClass::ID_BOTH_DIRECTORY => &[Facts, NameLength, EaSize, ShortName, Reserved(2), FileId],
        FileClass::ID_EXTD_DIRECTORY => &[Facts, NameLength, EaSize, ReparseTag, FileId128],
        FileClass::ID_EXTD_BOTH_DIRECTORY => &[Facts, NameLength, EaSize, ReparseTag, FileId128, ShortName],
        FileClass::ID_64_EXTD_DIRECTORY => &[Facts, NameLength, EaSize, ReparseTag, FileId],
        FileClass::ID_64_EXTD_BOTH_DIRECTORY => &[Facts, NameLength, EaSize, ReparseTag, FileId, ShortName],
        FileClass::ID_ALL_EXTD_DIRECTORY => &[Facts, NameLength, EaSize, ReparseTag, FileId, FileId128],
        FileClass::ID_ALL_EXTD_BOTH_DIRECTORY => &[Facts, NameLength, EaSize, ReparseTag, FileId, FileId128, ShortName],
        _ => return None,
    })
}

/// True for a class of directory entries.
pub fn is_directory_class(class: FileClass) -> bool {
    parts(class).is_some()
}

/// The length of an entry of `class` without its name, in bytes; `None` for a class that is not one of directory
/// entries. An output buffer shorter than this is answered with STATUS_INFO_LENGTH_MISMATCH.
pub fn fixed_length(class: FileClass) -> Option<usize> {
    Some(HEADER_BYTES + parts(class)?.iter().map(|part| part.length()).sum::<usize>())
}

/// One name in a directory and what is known of it. A class that lacks a field neither writes nor reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry<Text> {
    /// The name.
    pub name: Text,
    /// Position in the directory; zero where it has none.
    pub file_index: u32,
    /// When the file was made.
    pub creation: FileTime,
    /// Last access.
    pub access: FileTime,
    /// Last write of data.
    pub write: FileTime,
    /// Last change of anything.
    pub change: FileTime,
    /// Length of the data in bytes.
    pub end_of_file: u64,
    /// Bytes held on disk.
    pub allocation: u64,
    /// Attributes.
    pub attributes: FileAttributes,
    /// Combined length of the extended attributes. The classes without an own field for the reparse tag hold that
    /// here for a reparse point: [`DirectoryWriter`] sees to it.
    pub ea_size: u32,
    /// The reparse tag of a reparse point, else zero.
    pub reparse_tag: u32,
    /// The file identifier; the 128-bit field holds it with zeros above.
    pub file_id: u64,
    /// The 8.3 name, empty where there is none.
    pub short_name: Text,
}

/// Writes entries of one class.
#[derive(Debug)]
pub struct DirectoryWriter<'a> {
    chain: ChainWriter<'a>,
    class: FileClass,
    parts: &'static [Part],
    fixed_length: usize,
}

impl<'a> DirectoryWriter<'a> {
    /// Appends entries of `class` to `out`, at most `limit_bytes` bytes of them. `None` for a class that is not one of
    /// directory entries.
    pub fn new(class: FileClass, out: &'a mut Vec<u8>, limit_bytes: usize) -> Option<Self> {
        let parts = parts(class)?;
        let chain = ChainWriter::new(out, limit_bytes, ALIGNMENT);
        Some(DirectoryWriter { chain, class, parts, fixed_length: fixed_length(class)? })
    }

    /// Appends one entry. False, and nothing is written, where it does not fit.
    pub fn push(&mut self, entry: &Entry<&str>) -> bool {
        self.push_as(entry, None)
    }

    /// The same for a Mac, of FileIdBothDirectoryInformation.
    pub fn push_apple(&mut self, entry: &Entry<&str>, apple: &AppleEntry) -> bool {
        self.push_as(entry, Some(apple))
    }

    fn push_as(&mut self, entry: &Entry<&str>, apple: Option<&AppleEntry>) -> bool {
        let name_length = 2 * entry.name.encode_utf16().count();
        let Some(writer) = self.chain.entry(self.fixed_length + name_length) else { return false };
        writer.u32(0);
        writer.u32(entry.file_index);
        let tag_takes_ea_size = !self.parts.contains(&Part::ReparseTag);
        for part in self.parts {
            match part {
                Part::Facts => write_facts(writer, entry),
                Part::NameLength => writer.u32(name_length as u32),
                Part::EaSize if tag_takes_ea_size && entry.reparse_tag != 0 => writer.u32(entry.reparse_tag),
                Part::EaSize => writer.u32(apple.map_or(entry.ea_size, |apple| apple.access_max)),
                Part::ReparseTag => writer.u32(entry.reparse_tag),
                Part::ShortName => match apple {
                    None => write_short_name(writer, entry.short_name),
                    Some(apple) => write_apple(writer, apple),
                },
                Part::Reserved(bytes) => writer.zeros(*bytes),
                Part::FileId => writer.u64(entry.file_id),
                Part::FileId128 => {
                    writer.u64(entry.file_id);
                    writer.u64(0);
                }
            }
        }
        writer.utf16(entry.name);
        true
    }

    /// True while nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.chain.is_empty()
    }

    /// The class it writes.
    pub fn class(&self) -> FileClass {
        self.class
    }
}

fn write_facts(writer: &mut Writer<'_>, entry: &Entry<&str>) {
    for time in [entry.creation, entry.access, entry.write, entry.change] {
        crate::fscc::layout::Field::write(&time, writer);
    }
    writer.u64(entry.end_of_file);
    writer.u64(entry.allocation);
    writer.u32(entry.attributes.0);
}

/// ShortNameLength, a reserved byte and room for twelve characters. A name that is too long for 8.3 is left out.
fn write_short_name(writer: &mut Writer<'_>, name: &str) {
    let length = 2 * name.encode_utf16().count();
    let (name, length) = if length <= SHORT_NAME_BYTES { (name, length) } else { ("", 0) };
    writer.u8(length as u8);
    writer.u8(0);
    writer.utf16(name);
    writer.zeros(SHORT_NAME_BYTES - length);
}

/// What Macs take a short name's room for: the fork's length and the Finder's information. Apple's text says that the name's length is 0; servers of Apple
/// say 24, that of the room.
fn write_apple(writer: &mut Writer<'_>, apple: &AppleEntry) {
    writer.u16(SHORT_NAME_BYTES as u16);
    writer.u64(apple.resource_bytes);
    writer.bytes(&apple.finder.to_bytes());
}

/// What an entry of FileIdBothDirectoryInformation told a Mac; `bytes` begin with the entry.
pub fn apple_entry(bytes: &[u8]) -> Result<AppleEntry, Malformed> {
    let mut reader = Reader::at(bytes, HEADER_BYTES + Part::Facts.length() + Part::NameLength.length());
    let access_max = reader.u32()?;
    reader.skip(2)?;
    Ok(AppleEntry { access_max, resource_bytes: reader.u64()?, finder: AppleFinder::from_bytes(reader.array()?) })
}

/// Walks the entries of `class` in `bytes`. A class that is not one of directory entries gives one error.
pub fn entries(class: FileClass, bytes: &[u8]) -> impl Iterator<Item = Result<Entry<Utf16<'_>>, Malformed>> {
    let parts = parts(class).ok_or(Malformed("not a class of directory entries"));
    Chain::new(bytes, ALIGNMENT).map(move |entry| read_entry(parts?, entry?))
}

fn read_entry<'a>(parts: &[Part], bytes: &'a [u8]) -> Result<Entry<Utf16<'a>>, Malformed> {
    let mut reader = Reader::at(bytes, 4);
    let mut entry = Entry { file_index: reader.u32()?, ..Entry::default() };
    let mut name_length = 0;
    for part in parts {
        match part {
            Part::Facts => read_facts(&mut reader, &mut entry)?,
            Part::NameLength => name_length = reader.u32()? as usize,
            Part::EaSize => entry.ea_size = reader.u32()?,
            Part::ReparseTag => entry.reparse_tag = reader.u32()?,
            Part::ShortName => entry.short_name = read_short_name(&mut reader)?,
            Part::Reserved(bytes) => reader.skip(*bytes)?,
            Part::FileId => entry.file_id = reader.u64()?,
            Part::FileId128 => {
                entry.file_id = reader.u64()?;
                reader.skip(8)?;
            }
        }
    }
    if !parts.contains(&Part::ReparseTag) && entry.attributes.contains(FileAttributes::REPARSE_POINT) {
        entry.reparse_tag = std::mem::take(&mut entry.ea_size);
    }
    entry.name = Utf16::new(reader.bytes(name_length)?)?;
    Ok(entry)
}

fn read_facts(reader: &mut Reader<'_>, entry: &mut Entry<Utf16<'_>>) -> Result<(), Malformed> {
    use crate::fscc::layout::Field;
    entry.creation = Field::read(reader)?;
    entry.access = Field::read(reader)?;
    entry.write = Field::read(reader)?;
    entry.change = Field::read(reader)?;
    entry.end_of_file = reader.u64()?;
    entry.allocation = reader.u64()?;
    entry.attributes = FileAttributes(reader.u32()?);
    Ok(())
}

fn read_short_name<'a>(reader: &mut Reader<'a>) -> Result<Utf16<'a>, Malformed> {
    let length = usize::from(reader.u8()?);
    reader.skip(1)?;
    let room = reader.bytes(SHORT_NAME_BYTES)?;
    Utf16::new(room.get(..length).ok_or(Malformed("ShortNameLength"))?)
}
