//! Buffers of set-info requests and query-info answers: the first byte names the class.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::fscc::{FileClass, ea, file, notify, pipe, rename, stream};

fuzz_target!(|input: &[u8]| {
    let Some((class, bytes)) = input.split_first() else { return };
    match FileClass(*class) {
        FileClass::BASIC => fixed(file::Basic::decode(bytes), bytes, file::Basic::encode),
        FileClass::STANDARD => drop(file::Standard::decode(bytes)),
        FileClass::ALL => drop(file::All::decode(bytes)),
        FileClass::NETWORK_OPEN => drop(file::NetworkOpen::decode(bytes)),
        FileClass::DISPOSITION => drop(rename::Disposition::decode(bytes)),
        FileClass::DISPOSITION_EX => drop(rename::DispositionEx::decode(bytes)),
        FileClass::RENAME | FileClass::LINK => {
            let Ok(decoded) = rename::Rename::decode(bytes) else { return };
            let Some(name) = decoded.name.decode() else { return };
            let mut out = Vec::new();
            rename::Rename::encode(&name, !decoded.flags.is_empty(), &mut out);
            assert_eq!(rename::Rename::decode(&out).map(|again| again.name), Ok(decoded.name));
        }
        FileClass::RENAME_EX => drop(rename::Rename::decode_ex(bytes)),
        FileClass::FULL_EA => full_eas(bytes),
        FileClass::EA => ea::names(bytes).for_each(drop),
        FileClass::STREAM => stream::streams(bytes).for_each(drop),
        FileClass::PIPE => drop(pipe::Pipe::decode(bytes)),
        FileClass::NAMES => notify::changes(bytes).for_each(drop),
        _ => drop(file::Name::decode(bytes)),
    }
});

/// What decodes encodes to the same bytes, reserved ones left out.
fn fixed<T: std::fmt::Debug + PartialEq>(
    decoded: Result<T, wire::Malformed>,
    bytes: &[u8],
    encode: fn(&T, &mut Vec<u8>),
) {
    let Ok(value) = decoded else { return };
    let mut out = Vec::new();
    encode(&value, &mut out);
    assert!(out.len() <= bytes.len());
}

/// Attributes that can be read can be written, and read again.
fn full_eas(bytes: &[u8]) {
    let Ok(eas) = ea::full_eas(bytes).collect::<Result<Vec<_>, _>>() else { return };
    let mut out = Vec::new();
    let mut writer = ea::FullEaWriter::new(&mut out, usize::MAX);
    eas.iter().for_each(|ea| assert!(writer.push(ea)));
    assert_eq!(ea::full_eas(&out).collect::<Result<Vec<_>, _>>(), Ok(eas));
}
