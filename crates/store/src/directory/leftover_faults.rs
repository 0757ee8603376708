//! What calls that fail, and kills, leave in the reserved folder once that was swept: nothing that belongs to nothing.

use std::sync::Arc;

use rustix::io::Errno;

use crate::directory::calls::failing::{Fail, during};
use crate::directory::faults::{CALLS_MAX, Change, Disk, LARGE, LAST_NAME_GOES, entry};
use crate::directory::leftovers::sweep;
use crate::{Destination, Kind, Name, Replace};

/// The directory `folder` is renamed over `file`.
const DIRECTORY_OVER_FILE: Change = |disk| {
    let (root, new) = (disk.open("")?, Name::new("file").unwrap());
    let to = Destination { directory: &*root, name: &new };
    root.rename(&Name::new("folder").unwrap(), disk.open("folder")?.identity(), to, Replace::Yes)
};

fn prepare(disk: &Disk) {
    disk.create("file", Kind::File).unwrap();
    disk.stream("file", "stream", 1, LARGE);
    disk.create("other", Kind::File).unwrap();
    disk.create("folder", Kind::Directory).unwrap();
}

/// The folder is served again.
fn serve_again(disk: &Disk) {
    sweep(&Arc::downgrade(&disk.store.volume()));
}

#[test]
fn what_goes_with_a_last_name_is_not_lost_sight_of_whatever_call_fails() {
    for (beside, errno) in [(false, Errno::IO), (false, Errno::MFILE), (true, Errno::IO)] {
        for change in LAST_NAME_GOES.into_iter().chain([DIRECTORY_OVER_FILE]) {
            for at in 0..CALLS_MAX {
                let disk = Disk::new(beside);
                prepare(&disk);
                let file = disk.node("file").identity();
                let (answer, has_failed) = during(Fail::One(at), errno, || change(&disk));
                serve_again(&disk);
                let hint = format!("{beside} {errno:?} {at} {answer:?}");
                if disk.open("file").is_ok_and(|found| found.identity() == file) {
                    assert!(answer.is_err(), "{hint}");
                    assert_eq!(disk.streams("file"), [entry("stream", LARGE, 1)], "{hint}");
                } else {
                    assert_eq!(disk.sides(), 0, "{hint}");
                }
                if !has_failed {
                    break;
                }
            }
        }
    }
}
