//! Directory entries of a server: the first byte names the class.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::fscc::FileClass;
use wire::fscc::directory::{DirectoryWriter, Entry, entries, is_directory_class};

fuzz_target!(|input: &[u8]| {
    let Some((class, bytes)) = input.split_first() else { return };
    let class = FileClass(*class);
    let Ok(found) = entries(class, bytes).collect::<Result<Vec<_>, _>>() else { return };
    assert!(is_directory_class(class) || bytes.is_empty());
    let Some(mut names) =
        found.iter().map(|entry| Some((entry.name.decode()?, entry.short_name.decode()?))).collect::<Option<Vec<_>>>()
    else {
        return;
    };
    let mut out = Vec::new();
    let Some(mut writer) = DirectoryWriter::new(class, &mut out, usize::MAX) else { return };
    for (entry, (name, short_name)) in found.iter().zip(names.iter_mut()) {
        let entry = Entry {
            name: name.as_str(),
            short_name: short_name.as_str(),
            file_index: entry.file_index,
            creation: entry.creation,
            access: entry.access,
            write: entry.write,
            change: entry.change,
            end_of_file: entry.end_of_file,
            allocation: entry.allocation,
            attributes: entry.attributes,
            ea_size: entry.ea_size,
            reparse_tag: entry.reparse_tag,
            file_id: entry.file_id,
        };
        assert!(writer.push(&entry));
    }
    assert_eq!(entries(class, &out).collect::<Result<Vec<_>, _>>(), Ok(found));
});
