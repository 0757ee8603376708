//! What is mounted where on this machine, as the kernel tells it (proc_pid_mountinfo(5)). Who goes by a name learns from it which device
//! the name leads to before that is asked anything: what is mounted below a share may hang while the share's own device does not.

use std::fs::File;
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, poll};

use crate::directory::names;
use crate::{SharePath, threads};

const TABLE: &str = "/proc/self/mountinfo";
/// Between two readings of the table: there are machines where something is mounted all the time.
const PAUSE: Duration = Duration::from_millis(20);

/// A file system, and where it is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mounted {
    place: Vec<u8>,
    volume: u64,
}

/// In the order in which they were mounted, as far as one hides another.
pub(super) type Table = Vec<Mounted>;

/// What is mounted now, or was a moment ago. Empty where `/proc` is not there.
static KNOWN: LazyLock<Arc<ArcSwap<Table>>> = LazyLock::new(|| {
    let known = Arc::new(ArcSwap::default());
    // Whoever reads the table after it was opened is woken by changes that come after that.
    let Ok(changes) = File::open(TABLE) else { return known };
    known.store(Arc::new(read()));
    let kept = Arc::clone(&known);
    let follow = move || {
        while poll(&mut [PollFd::new(&changes, PollFlags::PRI)], None).is_ok() {
            kept.store(Arc::new(read()));
            thread::sleep(PAUSE);
        }
    };
    if let Err(error) = threads::start(thread::Builder::new().name("multilane-mounts".into()), follow) {
        tracing::warn!(name: "mounts_unknown", %error, "what is mounted below a share from now on is taken for the share's own device");
    }
    known
});

/// What is mounted. The first call reads the table.
pub(super) fn known() -> Arc<Table> {
    KNOWN.load_full()
}

fn read() -> Table {
    std::fs::read(TABLE).map(|text| parse(&text)).unwrap_or_default()
}

/// Lines that say anything else than they should are passed over.
fn parse(text: &[u8]) -> Table {
    let mounted = |line: &[u8]| {
        let mut fields = line.split(|byte| *byte == b' ').skip(2);
        let (device, _root, place) = (fields.next()?, fields.next()?, fields.next()?);
        let (major, minor) = str::from_utf8(device).ok()?.split_once(':')?;
        let volume = u64::from(major.parse::<u32>().ok()?) << 32 | u64::from(minor.parse::<u32>().ok()?);
        Some(Mounted { place: unescaped(place), volume })
    };
    text.split(|byte| *byte == b'\n').filter_map(mounted).collect()
}

/// A path in which `\040` is a space, and so on.
fn unescaped(place: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(place.len()), place);
    while let [byte, behind @ ..] = rest {
        let octal = match rest {
            [b'\\', digits @ ..] => digits.get(..3).and_then(|digits| str::from_utf8(digits).ok()),
            _ => None,
        };
        match octal.and_then(|octal| u8::from_str_radix(octal, 8).ok()) {
            Some(value) => {
                bytes.push(value);
                rest = &rest[4..];
            }
            None => {
                bytes.push(*byte);
                rest = behind;
            }
        }
    }
    bytes
}

/// What is mounted below a share's folder.
#[derive(Default)]
pub(super) struct Below(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// What it was made from.
    table: Arc<Table>,
    volumes: Vec<(SharePath, u64)>,
}

impl Below {
    /// The volume of the deepest of them on the way of `path`, and there of what was mounted last.
    pub(super) fn volume_at(
        &self,
        root: impl FnOnce() -> Option<Vec<u8>>,
        path: &SharePath,
        table: Arc<Table>,
    ) -> Option<u64> {
        let mut known = self.0.lock();
        if !Arc::ptr_eq(&known.table, &table) {
            let root = root();
            let below = |mounted: &Mounted| Some((path_below(root.as_deref()?, &mounted.place)?, mounted.volume));
            let volumes = table.iter().filter_map(below).collect();
            *known = Known { table, volumes };
        }
        let on_the_way = known.volumes.iter().filter(|(place, _)| path.is_within(place));
        on_the_way.max_by_key(|(place, _)| place.names().count()).map(|(_, volume)| *volume)
    }
}

/// A place as a path from the root's place; `None` where it is the root itself or elsewhere.
fn path_below(root: &[u8], place: &[u8]) -> Option<SharePath> {
    let below = place.strip_prefix(root.strip_suffix(b"/").unwrap_or(root))?.strip_prefix(b"/")?;
    let path = names::shown_path(below);
    (!path.is_root()).then_some(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use crate::directory::DirectoryOptions;
    use crate::directory::volume::Volume;

    #[test]
    fn the_table_of_mounts_is_read() {
        let text = b"22 1 259:3 / / rw,relatime shared:1 - ext4 /dev/root rw\n\
            90 22 0:45 /sub /srv/two\\040words\\134 rw - fuse.x x rw\nnonsense\n91 22 0:x / /other rw\n92 22 0:46 / /a\\04\n";
        let of = |place: &[u8], volume| Mounted { place: place.to_vec(), volume };
        assert_eq!(parse(text), [of(b"/", 259 << 32 | 3), of(b"/srv/two words\\", 45), of(b"/a\\04", 46)]);
        assert_eq!(parse(b""), []);
        (0..text.len()).for_each(|end| drop(parse(&text[..end])));
        assert!(known().iter().any(|mounted| mounted.place == b"/"), "where tests run, something is mounted");
    }

    #[test]
    fn what_is_mounted_below_a_share_is_known_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let volume = Volume::new(folder.path(), &DirectoryOptions::default(), None).unwrap();
        let root = std::fs::canonicalize(folder.path()).unwrap();
        let of = |place: &str, volume| Mounted { place: root.join(place).as_os_str().as_bytes().to_vec(), volume };
        let table = |mounts: Vec<Mounted>| Arc::new(mounts);
        let below = Below::default();
        let at = |path: &str, table: &Arc<Table>| {
            below.volume_at(
                || volume.place_of(volume.fence.root()),
                &SharePath::parse(path).unwrap(),
                Arc::clone(table),
            )
        };
        let elsewhere = Mounted { place: b"/nowhere/nas".to_vec(), volume: 9 };
        let first = table(vec![of("", 8), elsewhere, of("nas/inner", 3), of("nas", 1), of("nas", 2)]);
        assert_eq!(["", "nasty", "other\\nas"].map(|path| at(path, &first)), [None; 3]);
        assert_eq!(
            ["nas", "NAS\\file", "nas\\inner", "nas\\Inner\\x"].map(|path| at(path, &first)),
            [2, 2, 3, 3].map(Some)
        );
        let second = table(vec![of("other", 4)]);
        assert_eq!(["nas\\file", "other\\nas"].map(|path| at(path, &second)), [None, Some(4)]);
    }
}
