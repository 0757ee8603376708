//! Information classes, lists and controls: round trips, every truncation, hostile values.

use std::fmt::Debug;
use std::net::IpAddr;

use wire::Malformed;
use wire::codec::utf16_bytes;
use wire::command::negotiate::{Capabilities, SecurityMode};
use wire::fscc::afp::{AppleEntry, AppleFinder};
use wire::fscc::directory::{self, DirectoryWriter, Entry};
use wire::fscc::ea::{self, FullEa, FullEaWriter};
use wire::fscc::filesystem::{self, Attribute, FileSystemAttributes, Volume};
use wire::fscc::ioctl::{self, *};
use wire::fscc::notify::{self, Action, ChangeWriter};
use wire::fscc::rename::{Rename, RenameFlags};
use wire::fscc::stream::{self, StreamWriter};
use wire::fscc::{FileAttributes, FileClass, file};
use wire::ids::{Dialect, FileId, FileTime, Guid};

/// Every proper prefix of `bytes` must be refused.
fn refuses_truncation<T: Debug>(bytes: &[u8], decode: impl Fn(&[u8]) -> Result<T, Malformed>) {
    for length in 0..bytes.len() {
        let refused = decode(&bytes[..length]);
        assert!(refused.is_err(), "{length} of {} bytes give {refused:?}", bytes.len());
    }
}

/// A walk over a prefix of a list, true for an entry and false for an error, meets an error and never gives more.
fn bears_truncation(bytes: &[u8], walk: impl Fn(&[u8]) -> Vec<bool>) {
    let whole = walk(bytes).len();
    for length in 1..bytes.len() {
        let part = walk(&bytes[..length]);
        assert!(part.contains(&false) && part.len() <= whole, "{length}: {part:?}");
    }
    assert!(walk(&[]).is_empty());
}

macro_rules! round_trips {
    ($($name:ident: $value:expr, $type:ty, $length:expr;)*) => {
        $(#[test]
        fn $name() {
            let value: $type = $value;
            let mut bytes = Vec::new();
            value.encode(&mut bytes);
            assert_eq!((bytes.len(), <$type>::LENGTH), ($length, $length));
            assert_eq!(<$type>::decode(&bytes), Ok(value));
            refuses_truncation(&bytes, <$type>::decode);
            bytes.extend_from_slice(&[0xAA; 9]);
            assert_eq!(<$type>::decode(&bytes), Ok(value));
        })*
    };
}

fn times() -> [FileTime; 4] {
    [FileTime(1), FileTime(0x0102_0304_0506_0708), FileTime(u64::MAX), FileTime(4)]
}

fn basic() -> file::Basic {
    let [creation, access, write, change] = times();
    file::Basic { creation, access, write, change, attributes: FileAttributes::ARCHIVE | FileAttributes::HIDDEN }
}

fn standard() -> file::Standard {
    file::Standard { allocation: 4096, end_of_file: 5, links: 2, delete_pending: true, directory: false }
}

fn all() -> file::AllFixed {
    file::AllFixed {
        basic: basic(),
        standard: standard(),
        internal: file::Internal { file_id: 7 },
        ea: file::Ea { ea_size: 8 },
        access: file::Access { access: 0x0012_0089 },
        position: file::Position { offset: 9 },
        mode: file::Mode { mode: file::ModeFlags::WRITE_THROUGH },
        alignment: file::Alignment { requirement: 1 },
    }
}

fn network_open() -> file::NetworkOpen {
    let [creation, access, write, change] = times();
    let attributes = FileAttributes::NORMAL;
    file::NetworkOpen { creation, access, write, change, allocation: 1, end_of_file: 2, attributes }
}

round_trips! {
    basic_has_40_bytes: basic(), file::Basic, 40;
    standard_has_24_bytes: standard(), file::Standard, 24;
    all_begins_with_96_bytes: all(), file::AllFixed, 96;
    network_open_has_56_bytes: network_open(), file::NetworkOpen, 56;
    compression_has_16_bytes:
        file::Compression { compressed_size: 9, format: 2, ..Default::default() },
        file::Compression, 16;
    attribute_tag_has_8_bytes:
        file::AttributeTag { attributes: FileAttributes::REPARSE_POINT, reparse_tag: 0xA000_000C },
        file::AttributeTag, 8;
    id_has_24_bytes: file::Id { volume: 3, file_id: [7; 16] }, file::Id, 24;
    stat_has_72_bytes: file::Stat { links: 3, ..Default::default() }, file::Stat, 72;
    pipe_local_has_40_bytes:
        wire::fscc::pipe::PipeLocal { instances: 1, end: 1, ..Default::default() }, wire::fscc::pipe::PipeLocal, 40;
    size_has_24_bytes: filesystem::Size { total_units: 9, ..Default::default() }, filesystem::Size, 24;
    full_size_has_32_bytes:
        filesystem::FullSize { actual_available_units: 9, bytes_per_sector: 512, ..Default::default() },
        filesystem::FullSize, 32;
    device_has_8_bytes:
        filesystem::Device { kind: filesystem::DeviceKind::DISK, ..Default::default() }, filesystem::Device, 8;
    control_has_48_bytes:
        filesystem::Control { default_quota_limit: u64::MAX, ..Default::default() },
        filesystem::Control, 48;
    object_id_has_64_bytes:
        filesystem::ObjectId { object_id: Guid([1; 16]), ..Default::default() },
        filesystem::ObjectId, 64;
    sector_size_has_28_bytes:
        filesystem::SectorSize { logical_bytes: 512, ..Default::default() },
        filesystem::SectorSize, 28;
    zero_data_has_16_bytes: ZeroData { offset: u64::MAX, beyond_final_zero: 1 }, ZeroData, 16;
    resume_key_has_32_bytes: ResumeKey { key: [9; 24], context_length: 0 }, ResumeKey, 32;
    copy_result_has_12_bytes: CopyChunksResult { chunks: 1, chunk_bytes: 2, total_bytes: 3 }, CopyChunksResult, 12;
    validation_result_has_24_bytes:
        ValidateNegotiateResult { dialect: Dialect::SMB_3_0_2, ..Default::default() }, ValidateNegotiateResult, 24;
    resiliency_has_8_bytes: Resiliency { timeout_milliseconds: 60_000 }, Resiliency, 8;
    object_id_buffer_has_64_bytes: ioctl::ObjectId { object: Guid([3; 16]), ..Default::default() }, ioctl::ObjectId, 64;
    integrity_state_has_16_bytes: IntegrityState { cluster_bytes: 4096, ..Default::default() }, IntegrityState, 16;
    duplicate_extents_have_40_bytes:
        DuplicateExtents { source: FileId { persistent: 1, volatile: 2 }, length: 3, ..Default::default() },
        DuplicateExtents, 40;
    duplicate_extents_ex_have_56_bytes:
        DuplicateExtentsEx { structure_size: DuplicateExtentsEx::STRUCTURE_SIZE, flags: 1, ..Default::default() },
        DuplicateExtentsEx, 56;
}

#[test]
fn a_boolean_is_true_unless_zero() {
    let mut bytes = Vec::new();
    standard().encode(&mut bytes);
    bytes[20] = 0x80;
    assert!(file::Standard::decode(&bytes).unwrap().delete_pending);
}

#[test]
fn all_carries_the_name() {
    let mut bytes = Vec::new();
    all().encode_with_name("\\a\\b", &mut bytes);
    assert_eq!(bytes.len(), 100 + 8);
    let decoded = file::All::decode(&bytes).unwrap();
    assert_eq!((decoded.fixed, decoded.name.decode().as_deref()), (all(), Some("\\a\\b")));
    refuses_truncation(&bytes, |bytes| file::All::decode(bytes).map(|_| ()));
}

#[test]
fn name_lengths_that_lie_are_refused() {
    let mut bytes = Vec::new();
    file::encode_name("name", &mut bytes);
    refuses_truncation(&bytes, |bytes| file::Name::decode(bytes).map(|_| ()));
    for length in [9, 7, u32::MAX, u32::MAX - 3] {
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        assert!(file::Name::decode(&bytes).is_err(), "{length}");
    }
}

#[test]
fn rename_goes_both_ways() {
    let mut bytes = Vec::new();
    Rename::encode("dir\\new", true, &mut bytes);
    let decoded = Rename::decode(&bytes).unwrap();
    assert_eq!(decoded.flags, RenameFlags::REPLACE_IF_EXISTS);
    assert_eq!((decoded.root_directory, decoded.name.decode().as_deref()), (0, Some("dir\\new")));
    refuses_truncation(&bytes, |bytes| Rename::decode(bytes).map(|_| ()));

    let mut bytes = Vec::new();
    Rename::encode_ex("n", RenameFlags::POSIX_SEMANTICS, &mut bytes);
    assert_eq!(bytes.len(), 24);
    assert_eq!(Rename::decode_ex(&bytes).unwrap().flags, RenameFlags::POSIX_SEMANTICS);
    bytes[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(Rename::decode_ex(&bytes).is_err());
}

fn entry(name: &str) -> Entry<&str> {
    let [creation, access, write, change] = times();
    Entry {
        name,
        file_index: 0,
        creation,
        access,
        write,
        change,
        end_of_file: 77,
        allocation: 4096,
        attributes: FileAttributes::ARCHIVE,
        ea_size: 12,
        reparse_tag: 0,
        file_id: 0x1122_3344,
        short_name: "SHORT~1.TXT",
    }
}

const DIRECTORY_CLASSES: [(FileClass, usize); 12] = [
    (FileClass::NAMES, 12),
    (FileClass::DIRECTORY, 64),
    (FileClass::FULL_DIRECTORY, 68),
    (FileClass::BOTH_DIRECTORY, 94),
    (FileClass::ID_FULL_DIRECTORY, 80),
    (FileClass::ID_BOTH_DIRECTORY, 104),
    (FileClass::ID_EXTD_DIRECTORY, 88),
    (FileClass::ID_EXTD_BOTH_DIRECTORY, 114),
    (FileClass::ID_64_EXTD_DIRECTORY, 80),
    (FileClass::ID_64_EXTD_BOTH_DIRECTORY, 106),
    (FileClass::ID_ALL_EXTD_DIRECTORY, 96),
    (FileClass::ID_ALL_EXTD_BOTH_DIRECTORY, 122),
];

#[test]
fn every_directory_class_goes_both_ways() {
    for (class, fixed) in DIRECTORY_CLASSES {
        assert_eq!(directory::fixed_length(class), Some(fixed), "{class:?}");
        let mut bytes = vec![0xEE; 3];
        let mut writer = DirectoryWriter::new(class, &mut bytes, 4096).unwrap();
        assert!(writer.is_empty());
        let names = [".", "..", "a", "longer name \u{1f600}.txt"];
        names.iter().for_each(|name| assert!(writer.push(&entry(name))));
        let bytes = &bytes[3..];
        let entries: Vec<_> = directory::entries(class, bytes).map(Result::unwrap).collect();
        for (found, name) in entries.iter().zip(names) {
            assert_eq!(found.name.decode().as_deref(), Some(name), "{class:?}");
            assert_ne!(found.end_of_file == 77, class == FileClass::NAMES);
            let has_id = !matches!(class.0, 1 | 2 | 3 | 12);
            assert_eq!(found.file_id, if has_id { 0x1122_3344 } else { 0 }, "{class:?}");
            let has_short = matches!(class.0, 3 | 37 | 63 | 79 | 81);
            assert_eq!(found.short_name.is_empty(), !has_short, "{class:?}");
        }
        assert_eq!(entries.len(), names.len());
        bears_truncation(bytes, |bytes| directory::entries(class, bytes).map(|entry| entry.is_ok()).collect());
    }
    assert!(DirectoryWriter::new(FileClass::BASIC, &mut Vec::new(), 9).is_none());
    assert!(directory::entries(FileClass::BASIC, &[0; 8]).next().unwrap().is_err());
}

#[test]
fn an_entry_for_macs_goes_both_ways_and_is_an_entry_for_others() {
    let finder = AppleFinder::from_bytes(*b"TEXTttxt\x40\x01\x80\x02\x01\x02\x03\x04");
    let told = AppleEntry { access_max: 0x1F_01FF, resource_bytes: 1 << 40, finder };
    let mut bytes = Vec::new();
    let mut writer = DirectoryWriter::new(FileClass::ID_BOTH_DIRECTORY, &mut bytes, 4096).unwrap();
    assert!(writer.push_apple(&entry("name"), &told));
    assert_eq!(directory::apple_entry(&bytes), Ok(told));
    let fixed = directory::fixed_length(FileClass::ID_BOTH_DIRECTORY).unwrap();
    for length in 0..fixed - 10 {
        assert!(directory::apple_entry(&bytes[..length]).is_err(), "{length}");
    }
    let found = directory::entries(FileClass::ID_BOTH_DIRECTORY, &bytes).next().unwrap().unwrap();
    assert_eq!((found.name.decode().as_deref(), found.file_id), (Some("name"), 0x1122_3344));
    assert_eq!((found.end_of_file, found.ea_size), (77, told.access_max));
}

#[test]
fn directory_entries_are_aligned_and_the_last_ends_the_chain() {
    let mut bytes = Vec::new();
    let mut writer = DirectoryWriter::new(FileClass::NAMES, &mut bytes, 4096).unwrap();
    assert!(writer.push(&entry("abc")) && writer.push(&entry("d")));
    let mut expected = vec![24, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0];
    expected.extend(utf16_bytes("abc"));
    expected.extend([0; 6]);
    expected.extend([0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]);
    expected.extend(utf16_bytes("d"));
    assert_eq!(bytes, expected);
}

#[test]
fn a_directory_entry_that_does_not_fit_leaves_nothing_behind() {
    let mut bytes = Vec::new();
    let mut writer = DirectoryWriter::new(FileClass::NAMES, &mut bytes, 18 + 6 + 13).unwrap();
    assert!(writer.push(&entry("abc")));
    assert!(!writer.push(&entry("d")));
    assert_eq!(bytes.len(), 18);
    assert_eq!(bytes[..4], [0; 4]);

    let mut bytes = Vec::new();
    let mut writer = DirectoryWriter::new(FileClass::NAMES, &mut bytes, 24 + 14).unwrap();
    assert!(writer.push(&entry("abc")) && writer.push(&entry("d")) && !writer.push(&entry("")));
    assert_eq!(bytes.len(), 38);
}

#[test]
fn a_reparse_tag_stands_where_the_class_has_it() {
    let linked = Entry { attributes: FileAttributes::REPARSE_POINT, reparse_tag: 0xA000_000C, ..entry("link") };
    for (class, ea_size) in [(FileClass::FULL_DIRECTORY, 0), (FileClass::ID_EXTD_DIRECTORY, 12)] {
        let mut bytes = Vec::new();
        assert!(DirectoryWriter::new(class, &mut bytes, 999).unwrap().push(&linked));
        let found = directory::entries(class, &bytes).next().unwrap().unwrap();
        assert_eq!((found.reparse_tag, found.ea_size), (0xA000_000C, ea_size));
    }
}

#[test]
fn a_short_name_longer_than_its_room_is_refused() {
    let mut bytes = Vec::new();
    assert!(DirectoryWriter::new(FileClass::BOTH_DIRECTORY, &mut bytes, 999).unwrap().push(&entry("x")));
    bytes[68] = 26;
    assert!(directory::entries(FileClass::BOTH_DIRECTORY, &bytes).next().unwrap().is_err());
}

#[test]
fn chains_that_point_astray_end() {
    let mut bytes = Vec::new();
    let mut writer = DirectoryWriter::new(FileClass::NAMES, &mut bytes, 999).unwrap();
    (0..3).for_each(|_| assert!(writer.push(&entry("abc"))));
    for next in [1, 4, 8, 20, 9999, u32::MAX, u32::MAX - 7] {
        let mut hostile = bytes.clone();
        hostile[24..28].copy_from_slice(&u32::to_le_bytes(next));
        let found: Vec<_> = directory::entries(FileClass::NAMES, &hostile).collect();
        assert!(found.len() <= 4 && found.iter().any(Result::is_err), "{next}: {found:?}");
    }
}

#[test]
fn extended_attributes_go_both_ways() {
    let eas = [
        FullEa { flags: 0, name: b"ONE", value: b"value" },
        FullEa { flags: ea::NEED_EA, name: b"TWO.two", value: b"" },
        FullEa { flags: 0, name: b"X", value: &[0; 300] },
    ];
    let mut bytes = Vec::new();
    let mut writer = FullEaWriter::new(&mut bytes, 4096);
    eas.iter().for_each(|ea| assert!(writer.push(ea)));
    let found: Vec<_> = ea::full_eas(&bytes).map(Result::unwrap).collect();
    assert_eq!(found, eas);
    bears_truncation(&bytes, |bytes| ea::full_eas(bytes).map(|entry| entry.is_ok()).collect());
    let too_long = FullEa { flags: 0, name: &[b'a'; 256], value: b"" };
    assert!(!FullEaWriter::new(&mut Vec::new(), 4096).push(&too_long));

    let mut bytes = Vec::new();
    let mut writer = ea::NameWriter::new(&mut bytes, 4096);
    assert!(writer.push(b"ONE") && writer.push(b"SEVEN77"));
    assert_eq!(ea::names(&bytes).collect::<Result<Vec<_>, _>>(), Ok(vec![&b"ONE"[..], b"SEVEN77"]));
    bears_truncation(&bytes, |bytes| ea::names(bytes).map(|entry| entry.is_ok()).collect());
}

#[test]
fn extended_attributes_that_lie_are_refused() {
    // Samba's and Windows' clients send this for user attribute A with value "1".
    let good = [0, 0, 0, 0, 0, 1, 1, 0, b'A', 0, b'1'];
    assert_eq!(ea::full_eas(&good).collect::<Vec<_>>(), [Ok(FullEa { flags: 0, name: b"A", value: b"1" })]);
    for (at, byte) in [(5, 2), (5, 0xFF), (6, 2), (7, 1), (9, b'B'), (0, 4), (0, 2)] {
        let mut hostile = good;
        hostile[at] = byte;
        assert!(ea::full_eas(&hostile).any(|ea| ea.is_err()), "byte {at} = {byte}");
    }
    assert!(ea::name_is_valid(b"user.name") && !ea::name_is_valid(b"") && !ea::name_is_valid(b"a:b"));
    assert!(!ea::name_is_valid(&[b'a'; 255]) && !ea::name_is_valid(b"a\x1f") && !ea::name_is_valid(&[0x80]));
}

#[test]
fn streams_go_both_ways() {
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::new(&mut bytes, 4096);
    assert!(writer.push("", 5, 4096) && writer.push("Zone.Identifier", 26, 32));
    let found: Vec<_> = stream::streams(&bytes).map(Result::unwrap).collect();
    assert_eq!(found[0].name.decode().as_deref(), Some("::$DATA"));
    assert_eq!(found[1].name.decode().as_deref(), Some(":Zone.Identifier:$DATA"));
    assert_eq!((found[1].size, found[1].allocation), (26, 32));
    bears_truncation(&bytes, |bytes| stream::streams(bytes).map(|entry| entry.is_ok()).collect());
    assert!(!StreamWriter::new(&mut Vec::new(), 37).push("", 0, 0));
}

#[test]
fn changes_go_both_ways() {
    let mut bytes = Vec::new();
    let mut writer = ChangeWriter::new(&mut bytes, 4096);
    assert!(writer.push(Action::RENAMED_OLD_NAME, "old") && writer.push(Action::RENAMED_NEW_NAME, "dir\\new"));
    let found: Vec<_> = notify::changes(&bytes).map(Result::unwrap).collect();
    assert_eq!((found[0].action, found[0].name.decode().as_deref()), (Action::RENAMED_OLD_NAME, Some("old")));
    assert_eq!((found[1].action, found[1].name.decode().as_deref()), (Action::RENAMED_NEW_NAME, Some("dir\\new")));
    assert_eq!(bytes[..4], [20, 0, 0, 0]);
    bears_truncation(&bytes, |bytes| notify::changes(bytes).map(|entry| entry.is_ok()).collect());
}

#[test]
fn volume_and_attribute_go_both_ways() {
    let volume = Volume { creation: FileTime(5), serial_number: 0xDEAD, supports_objects: true, label: "Datenträger" };
    let mut bytes = Vec::new();
    volume.encode(&mut bytes);
    let found = Volume::decode(&bytes).unwrap();
    assert_eq!((found.serial_number, found.label.decode().as_deref()), (0xDEAD, Some("Datenträger")));
    refuses_truncation(&bytes, |bytes| Volume::decode(bytes).map(|_| ()));

    let attributes = FileSystemAttributes::CASE_PRESERVED_NAMES | FileSystemAttributes::NAMED_STREAMS;
    let mut bytes = Vec::new();
    Attribute { attributes, name_length_max: 255, name: "NTFS" }.encode(&mut bytes);
    let found = Attribute::decode(&bytes).unwrap();
    assert_eq!((found.attributes, found.name.decode().as_deref()), (attributes, Some("NTFS")));
    refuses_truncation(&bytes, |bytes| Attribute::decode(bytes).map(|_| ()));

    let mut bytes = Vec::new();
    filesystem::encode_label("label", &mut bytes);
    assert_eq!(filesystem::decode_label(&bytes).unwrap().decode().as_deref(), Some("label"));
}

#[test]
fn copy_chunks_go_both_ways() {
    let chunks = [
        Chunk { source_offset: 0, target_offset: 1 << 20, length: 1 << 20 },
        Chunk { source_offset: u64::MAX, target_offset: 3, length: u32::MAX },
    ];
    let mut bytes = Vec::new();
    CopyChunks::encode(&[7; 24], &chunks, &mut bytes);
    let decoded = CopyChunks::decode(&bytes).unwrap();
    assert_eq!((decoded.source, decoded.count()), ([7; 24], 2));
    assert_eq!(decoded.chunks().collect::<Vec<_>>(), chunks);
    refuses_truncation(&bytes, |bytes| CopyChunks::decode(bytes).map(|_| ()));
    for count in [3, 0x1000_0000, u32::MAX] {
        bytes[24..28].copy_from_slice(&u32::to_le_bytes(count));
        assert!(CopyChunks::decode(&bytes).is_err(), "{count}");
    }
}

#[test]
fn validate_negotiate_goes_both_ways() {
    let dialects = [Dialect::SMB_2_0_2, Dialect::SMB_2_1, Dialect::SMB_3_0];
    let mut bytes = Vec::new();
    let mode = SecurityMode::SIGNING_ENABLED;
    ValidateNegotiate::encode(Capabilities::LEASING, Guid([5; 16]), mode, &dialects, &mut bytes);
    let decoded = ValidateNegotiate::decode(&bytes).unwrap();
    assert_eq!(
        (decoded.capabilities, decoded.client, decoded.security_mode),
        (Capabilities::LEASING, Guid([5; 16]), mode)
    );
    assert_eq!(decoded.dialects().collect::<Vec<_>>(), dialects);
    refuses_truncation(&bytes, |bytes| ValidateNegotiate::decode(bytes).map(|_| ()));
    bytes[22..24].copy_from_slice(&u16::MAX.to_le_bytes());
    assert!(ValidateNegotiate::decode(&bytes).is_err());
}

#[test]
fn interfaces_go_both_ways() {
    let interface = |index, address: &str| Interface {
        index,
        capability: InterfaceCapability::RSS_CAPABLE,
        link_speed: 100_000_000_000,
        address: Some(address.parse::<IpAddr>().unwrap()),
    };
    let all =
        [interface(2, "192.0.2.7"), interface(2, "2001:db8::1"), Interface { address: None, ..interface(3, "::") }];
    let mut bytes = Vec::new();
    let mut writer = InterfaceWriter::new(&mut bytes, 3 * 152);
    all.iter().for_each(|interface| assert!(writer.push(interface)));
    assert!(!writer.push(&all[0]));
    assert_eq!(bytes.len(), 3 * 152);
    assert_eq!(bytes[24..32], [2, 0, 0, 0, 192, 0, 2, 7]);
    assert_eq!(bytes[152 + 24..152 + 26], [0x17, 0]);
    assert_eq!(interfaces(&bytes).map(Result::unwrap).collect::<Vec<_>>(), all);
    bears_truncation(&bytes, |bytes| interfaces(bytes).map(|entry| entry.is_ok()).collect());
}

#[test]
fn ranges_and_regions_go_both_ways() {
    let all = [Range { offset: 0, length: 65536 }, Range { offset: 1 << 40, length: 1 }];
    let mut bytes = Vec::new();
    encode_ranges(&all, &mut bytes);
    assert_eq!(ranges(&bytes).unwrap().collect::<Vec<_>>(), all);
    assert!(ranges(&bytes[1..]).is_err());

    let mut bytes = Vec::new();
    LevelTrim::encode(1, &all, &mut bytes);
    assert_eq!(LevelTrim::decode(&bytes).unwrap().ranges().collect::<Vec<_>>(), all);
    refuses_truncation(&bytes, |bytes| LevelTrim::decode(bytes).map(|_| ()));
    bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(LevelTrim::decode(&bytes).is_err());

    let all = [Region { offset: 3, length: 4, usage: 1 }];
    let mut bytes = Vec::new();
    encode_regions(&all, 5, &mut bytes);
    assert_eq!(regions(&bytes).unwrap().collect::<Vec<_>>(), all);
    refuses_truncation(&bytes, |bytes| regions(bytes).map(|_| ()));
}

#[test]
fn an_empty_set_sparse_means_sparse() {
    assert_eq!(decode_set_sparse(&[]), Ok(true));
    assert_eq!(decode_set_sparse(&[0]), Ok(false));
    let mut bytes = Vec::new();
    encode_set_sparse(true, &mut bytes);
    assert_eq!(decode_set_sparse(&bytes), Ok(true));
}

#[test]
fn pipe_wait_goes_both_ways() {
    for timeout in [None, Some(50)] {
        let mut bytes = Vec::new();
        PipeWait::encode(timeout, "srvsvc", &mut bytes);
        let decoded = PipeWait::decode(&bytes).unwrap();
        assert_eq!((decoded.timeout, decoded.name.decode().as_deref()), (timeout, Some("srvsvc")));
        refuses_truncation(&bytes, |bytes| PipeWait::decode(bytes).map(|_| ()));
    }
}

#[test]
fn symbolic_links_go_both_ways() {
    let mut bytes = Vec::new();
    assert!(encode_symlink("..\\target", "target", SYMLINK_FLAG_RELATIVE, &mut bytes));
    let reparse = Reparse::decode(&bytes).unwrap();
    let symlink = reparse.symlink().unwrap().unwrap();
    assert_eq!((reparse.tag, symlink.flags), (ReparseTag::SYMLINK, SYMLINK_FLAG_RELATIVE));
    assert_eq!(symlink.substitute.decode().as_deref(), Some("..\\target"));
    assert_eq!(symlink.print.decode().as_deref(), Some("target"));
    refuses_truncation(&bytes, |bytes| Reparse::decode(bytes).map(|_| ()));
    for (at, byte) in [(8, 255), (10, 255), (12, 255), (14, 255), (15, 1), (10, 17)] {
        let mut hostile = bytes.clone();
        hostile[at] = byte;
        assert!(Reparse::decode(&hostile).unwrap().symlink().is_err(), "byte {at} = {byte}");
    }
    assert!(!encode_symlink(&"x".repeat(40_000), "", 0, &mut Vec::new()));
}

#[test]
fn links_of_nfs_and_wsl_say_where_they_lead() {
    let reparse = |tag: ReparseTag, data: &[u8]| {
        let mut bytes = [&tag.0.to_le_bytes()[..], &(data.len() as u16).to_le_bytes(), &[0; 2]].concat();
        bytes.extend_from_slice(data);
        bytes
    };
    let nfs = reparse(ReparseTag::NFS, b"LNK\x01\0\0\0\0.\0.\0/\0a\0");
    let decoded = Reparse::decode(&nfs).unwrap();
    assert_eq!(decoded.nfs_link().unwrap().unwrap().decode().as_deref(), Some("../a"));
    assert_eq!((decoded.symlink(), decoded.lx_link()), (Ok(None), Ok(None)));
    let fifo = reparse(ReparseTag::NFS, b"FIFO\0\0\0\0");
    assert_eq!(Reparse::decode(&fifo).unwrap().nfs_link(), Ok(None));
    let wsl = reparse(ReparseTag::LX_SYMLINK, b"\x02\0\0\0../\xC3\xA9");
    assert_eq!(Reparse::decode(&wsl).unwrap().lx_link(), Ok(Some("../\u{E9}")));
    assert_eq!(Reparse::decode(&wsl).unwrap().nfs_link(), Ok(None));
    for data in [&b"\x01\0\0\0a"[..], b"\x02\0\0", b"\x02\0\0\0\xFF"] {
        assert!(Reparse::decode(&reparse(ReparseTag::LX_SYMLINK, data)).unwrap().lx_link().is_err(), "{data:?}");
    }
    for data in [&b"LNK\x01\0\0\0"[..], b"LNK\x01\0\0\0\0a"] {
        assert!(Reparse::decode(&reparse(ReparseTag::NFS, data)).unwrap().nfs_link().is_err(), "{data:?}");
    }
}

#[test]
fn foreign_reparse_points_carry_a_guid() {
    let mut bytes = vec![0x17, 0, 0, 0, 3, 0, 0, 0];
    bytes.extend([8; 16]);
    bytes.extend([1, 2, 3]);
    let reparse = Reparse::decode(&bytes).unwrap();
    assert_eq!((reparse.guid, reparse.data), (Some(Guid([8; 16])), &[1u8, 2, 3][..]));
    assert_eq!(reparse.symlink(), Ok(None));
}
