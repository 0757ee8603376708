//! What other programs change on local file systems, told by the kernel. Everything that is known of a file or directory is known because the
//! kernel was asked to tell of its inode before: a change made through any name, in any directory, is told before the call that makes it
//! returns. Who believes something looks first whether there is news ([`News::hear`]), and so sees every change that was over by then.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::{Errno, ioctl_fionread, write};

use super::entry::{Entry, Watch};
use super::known::Known;
use crate::directory::shown_name;
use crate::{Kind, threads};

/// What changes a directory, or which names it has.
const OF_DIRECTORY: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::DELETE_SELF);
/// What changes a file, but for its data.
const OF_FILE: WatchFlags = WatchFlags::ATTRIB.union(WatchFlags::MOVE_SELF).union(WatchFlags::DELETE_SELF);
/// What one `read` fills.
const BUFFER_BYTES: usize = 16 << 10;
/// Beyond so many events at once it is cheaper to forget everything.
const EVENTS_MAX: u64 = 1 << 10;
/// So many events are read at once, at most. Where there may be more, everything is forgotten.
const READ_MAX: u64 = 16 << 10;
/// What an event takes that has no name.
const EVENT_BYTES_MIN: u64 = 16;
/// How long a file is kept open of which nobody tells that it was removed, and how often that is looked at.
const AGE_MAX: Duration = Duration::from_secs(2);
const AGED_EVERY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// What nobody asks for is heard after so long, so that files that others have removed give their space back.
const MOMENT: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The kernel's news.
pub(super) struct News {
    ends: Arc<Ends>,
    watched: Mutex<Watched>,
    /// How many there are, for who only wants to know whether there are any.
    watches: AtomicUsize,
    /// Threads that have taken news which others may not see the consequences of yet.
    telling: AtomicUsize,
}

struct Ends {
    inotify: OwnedFd,
    /// Where file systems are mounted.
    mounts: OwnedFd,
    stop: OwnedFd,
}

/// By the number of its watch, what is watched.
#[derive(Default)]
pub(super) struct Watched(HashMap<i32, Weak<Entry>>);

impl News {
    pub(super) fn begin() -> io::Result<Self> {
        let ends = Ends {
            inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
            mounts: File::open("/proc/self/mountinfo")?.into(),
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        };
        Ok(News {
            ends: Arc::new(ends),
            watched: Mutex::default(),
            watches: AtomicUsize::new(0),
            telling: AtomicUsize::new(0),
        })
    }

    /// Has what nobody asks for heard now and then, until this is dropped.
    pub(super) fn start(&self, known: Weak<Known>) -> io::Result<()> {
        let ends = Arc::clone(&self.ends);
        threads::start(thread::Builder::new().name("multilane-news".into()), move || listen(&ends, &known))
    }

    /// To be held while something is watched anew, or no more.
    pub(super) fn lock(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock()
    }

    /// Has the kernel tell of what `entry` is of, from now on.
    pub(super) fn watch(&self, watched: &mut Watched, handle: BorrowedFd<'_>, entry: &Arc<Entry>) -> Result<(), Errno> {
        let watch = self.set(handle, entry.kind, true)?;
        entry.facts.lock().watch = Some(watch);
        // What was known of it under this number before is known anew.
        if let Some(former) = watched.0.insert(watch.number, Arc::downgrade(entry)) {
            former.upgrade().iter().for_each(|former| former.end());
        }
        self.watches.store(watched.0.len(), Ordering::SeqCst);
        Ok(())
    }

    /// The same where it tells of it already, with changes of its data or without.
    pub(super) fn set(&self, handle: BorrowedFd<'_>, kind: Kind, with_data: bool) -> Result<Watch, Errno> {
        let flags = match kind {
            Kind::Directory => OF_DIRECTORY | WatchFlags::ONLYDIR,
            Kind::File | Kind::Stream if with_data => OF_FILE | WatchFlags::MODIFY,
            Kind::File | Kind::Stream => OF_FILE,
        };
        let number = inotify::add_watch(&self.ends.inotify, format!("/proc/self/fd/{}", handle.as_raw_fd()), flags)?;
        Ok(Watch { number, with_data })
    }

    /// Has the kernel tell no more of it.
    pub(super) fn unwatch(&self, watched: &mut Watched, entry: &Arc<Entry>) {
        let Some(watch) = entry.facts.lock().watch.take() else { return };
        // The inode may be watched for another entry by now.
        let is_its = watched.0.get(&watch.number).is_some_and(|of| std::ptr::eq(of.as_ptr(), Arc::as_ptr(entry)));
        if is_its {
            watched.0.remove(&watch.number);
            self.watches.store(watched.0.len(), Ordering::SeqCst);
            // It has gone where the file has.
            let _ = inotify::remove_watch(&self.ends.inotify, watch.number);
        }
    }

    /// How many files and directories are watched.
    pub(super) fn count(&self) -> usize {
        self.watches.load(Ordering::SeqCst)
    }

    /// Has all consequences of what others have changed by now, as far as it is watched. True where there was something.
    pub(super) fn hear(&self, known: &Known) -> bool {
        if self.count() == 0 {
            return false;
        }
        let mut ready = [PollFd::new(&self.ends.inotify, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_quiet = matches!(poll(&mut ready, Some(&at_once)), Ok(0));
        // In this order: who takes news says so before.
        if is_quiet && self.telling.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let watched = self.watched.lock();
        self.tell_all(watched, known);
        true
    }

    fn tell_all(&self, mut watched: MutexGuard<'_, Watched>, known: &Known) {
        self.telling.fetch_add(1, Ordering::SeqCst);
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = Reader::new(&self.ends.inotify, &mut buffer);
        // What comes after this, others may hear: whoever asks now has asked before.
        let waiting = ioctl_fionread(&self.ends.inotify).unwrap_or(u64::MAX);
        let all = waiting.div_ceil(EVENT_BYTES_MIN);
        let count = all.min(READ_MAX);
        let (mut number, mut told) = (0, 0);
        // Nothing else has what was read at once with those.
        while number < count || !reader.is_buffer_empty() {
            number += 1;
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => known.forget_all(),
                Ok(event) => {
                    // What had to make room is told of no more: that is this cache's own doing.
                    told += u64::from(!event.events().contains(ReadFlags::IGNORED));
                    if told == EVENTS_MAX {
                        known.forget_all();
                    }
                    if told >= EVENTS_MAX {
                        continue;
                    }
                    let name = event.file_name().map(|name| name.to_bytes());
                    watched.tell(known, event.wd(), event.events(), name);
                }
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        if all > READ_MAX {
            known.forget_all();
        }
        self.watches.store(watched.0.len(), Ordering::SeqCst);
        self.telling.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for News {
    fn drop(&mut self) {
        // The thread ends, now or when it looks next.
        let _ = write(&self.ends.stop, &1u64.to_ne_bytes());
    }
}

impl Watched {
    /// One thing has happened.
    fn tell(&mut self, known: &Known, number: i32, flags: ReadFlags, name: Option<&[u8]>) {
        let gone = ReadFlags::IGNORED | ReadFlags::UNMOUNT | ReadFlags::DELETE_SELF;
        let entry = self.0.get(&number).and_then(Weak::upgrade);
        if flags.contains(ReadFlags::IGNORED) {
            self.0.remove(&number);
        }
        let Some(entry) = entry else { return };
        if flags.intersects(gone | ReadFlags::MOVE_SELF) {
            known.end(&entry);
        } else if let Some(name) = name.filter(|name| !name.is_empty()) {
            // What changes in a file of the directory is told of that file.
            let of_name = ReadFlags::CREATE | ReadFlags::DELETE | ReadFlags::MOVED_FROM | ReadFlags::MOVED_TO;
            if flags.intersects(of_name) {
                known.name_changed(&entry, &shown_name(name));
            }
        } else if flags.contains(ReadFlags::MODIFY) {
            known.data_changed(&entry);
        } else {
            known.attributes_changed(&entry);
        }
    }
}

/// Hears what nobody asks for, and where file systems are mounted anew, and lets go of what was kept open for long.
fn listen(ends: &Ends, known: &Weak<Known>) {
    let mut pauses = false;
    loop {
        let mut waiting = [
            PollFd::new(&ends.mounts, PollFlags::PRI | PollFlags::ERR),
            PollFd::new(&ends.stop, PollFlags::IN),
            PollFd::new(&ends.inotify, PollFlags::IN),
        ];
        // After some news it is left to who asks, for a moment.
        let (looked_at, wait) = if pauses { (&mut waiting[..2], MOMENT) } else { (&mut waiting[..], AGED_EVERY) };
        match poll(looked_at, Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        if !waiting[1].revents().is_empty() {
            return;
        }
        let Some(known) = known.upgrade() else { return };
        if !waiting[0].revents().is_empty() {
            known.forget_all();
        }
        if pauses {
            known.take_news();
        }
        pauses = !pauses && !waiting[2].revents().is_empty();
        known.kept.let_go_of_aged(AGE_MAX);
        known.drop_gone(None);
    }
}
