//! The RPC associations of a session: which of its pipes share their context handles (MS-RPCE 3.3.1.3).

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use wire::rpc::handles::{Handle, Handles, Object, Opened};

use crate::resource::budget::{Budget, Charge};

/// So many associations are looked through for ended ones at first.
const SWEEP_MIN: usize = 16;

/// The associations that pipes of one session are in.
#[derive(Default)]
pub(crate) struct Associations(Mutex<Table>);

#[derive(Default)]
struct Table {
    by_group: HashMap<u32, Weak<Association>>,
    last: u32,
    /// With so many entries those that have ended are taken out.
    sweep_at: usize,
}

/// What pipes share. It ends with the last of them.
pub(crate) struct Association {
    pub(crate) group: u32,
    held: Mutex<HeldHandles>,
}

/// Handles, and what the user has less for them: as long as they are there, whichever pipes are closed.
struct HeldHandles {
    handles: Handles,
    charge: Charge,
}

impl Association {
    /// Opens `object`; `None` where there are as many handles as may be, or the user holds what it may.
    pub(crate) fn open(&self, object: Object, granted: u32) -> Option<Handle> {
        let HeldHandles { handles, charge } = &mut *self.held.lock();
        let more = (handles.held_bytes_with_another() as u64).saturating_sub(charge.units());
        if more > 0 && !charge.grow(more) {
            return None;
        }
        let handle = handles.open(object, granted);
        charge.set(handles.held_bytes() as u64);
        handle
    }

    /// What `handle` leads to.
    pub(crate) fn find(&self, handle: Handle) -> Option<Opened> {
        self.held.lock().handles.find(handle)
    }

    /// Closes `handle`; false where it is not open.
    pub(crate) fn close(&self, handle: Handle) -> bool {
        let HeldHandles { handles, charge } = &mut *self.held.lock();
        let was_open = handles.close(handle);
        charge.set(handles.held_bytes() as u64);
        was_open
    }
}

impl Associations {
    /// The association of a group that the client names, which is made where there is none; a new one where it names zero. What it holds is
    /// charged to `bytes`.
    pub(crate) fn join(&self, group: u32, bytes: &Arc<Budget>) -> Arc<Association> {
        let mut table = self.0.lock();
        if let Some(known) = table.by_group.get(&group).and_then(Weak::upgrade) {
            return known;
        }
        table.sweep();
        let group = if group == 0 { table.unused() } else { group };
        let held = HeldHandles { handles: Handles::default(), charge: bytes.overdraw(0) };
        let association = Arc::new(Association { group, held: Mutex::new(held) });
        table.by_group.insert(group, Arc::downgrade(&association));
        association
    }
}

impl Table {
    /// A group that no association has. There are fewer of them than numbers.
    fn unused(&mut self) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && !self.by_group.contains_key(&self.last) {
                return self.last;
            }
        }
    }

    fn sweep(&mut self) {
        if self.by_group.len() >= self.sweep_at.max(SWEEP_MIN) {
            self.by_group.retain(|_, association| association.strong_count() > 0);
            self.sweep_at = 2 * self.by_group.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_of_a_group_share_and_others_do_not() {
        let (all, bytes) = (Associations::default(), Budget::new(0));
        let (first, second) = (all.join(0, &bytes), all.join(0, &bytes));
        assert!(first.group != second.group && !Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&all.join(first.group, &bytes), &first));
        let chosen = all.join(77, &bytes);
        assert_eq!(chosen.group, 77);
        assert!(Arc::ptr_eq(&all.join(77, &bytes), &chosen));
    }

    #[test]
    fn associations_end_with_their_last_pipe_and_leave_nothing() {
        let (all, bytes) = (Associations::default(), Budget::new(1 << 20));
        let kept = all.join(0, &bytes);
        for _ in 0..1000 {
            all.join(0, &bytes);
        }
        assert!(all.0.lock().by_group.len() <= 2 * SWEEP_MIN);
        assert!(Arc::ptr_eq(&all.join(kept.group, &bytes), &kept));
        kept.open(Object::Policy, 0).unwrap();
        let group = kept.group;
        drop(kept);
        assert_eq!(bytes.used(), 0);
        assert!(all.join(group, &bytes).held.lock().handles.held_bytes() == 0);
    }

    #[test]
    fn handles_are_charged_as_long_as_they_are_there() {
        let (all, bytes) = (Associations::default(), Budget::new(8 << 10));
        let (first, second) = (all.join(0, &bytes), all.join(1, &bytes));
        let opened: Vec<_> = std::iter::from_fn(|| first.open(Object::Policy, 0)).collect();
        let held = bytes.used();
        assert!(opened.len() > 50 && held == first.held.lock().handles.held_bytes() as u64, "{held}");
        let other = Arc::clone(&second);
        drop(second);
        assert_eq!(bytes.used(), held);
        for handle in &opened {
            assert!(first.close(*handle) && !first.close(*handle));
        }
        assert_eq!(bytes.used(), 0);
        assert!(other.open(Object::Policy, 0).is_some() && bytes.used() > 0);
    }
}
