//! Any words as DiskSpd's command line, parted by line ends: reading never panics, and what is understood survives as a profile in XML.

#![no_main]

use libfuzzer_sys::fuzz_target;
use load::diskspd::command_line::{self, Asked, Surroundings};
use load::diskspd::{profile_xml, report_text};

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    let words: Vec<&str> = text.split('\n').collect();
    // The file of -X is the input itself.
    let file = |_: &str| Ok(input.to_vec());
    let Ok(Asked::Run { profile, .. }) = command_line::read(&words, &Surroundings { file: &file, clock_seed: 1 })
    else {
        return;
    };
    let _ = report_text::profile_text(&text, &profile);
    let has_plain_paths = !words.iter().any(|word| word.chars().any(char::is_control));
    if has_plain_paths && !text.contains(char::REPLACEMENT_CHARACTER) && !text.contains(['\u{FFFE}', '\u{FFFF}']) {
        let mut again = profile_xml::read(profile_xml::write(&profile).as_bytes()).expect("what we write can be read");
        again.profile_only = profile.profile_only;
        assert_eq!(again, *profile);
    }
});
