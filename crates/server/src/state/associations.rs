//! The RPC associations of a session: which of its pipes share their context handles (MS-RPCE 3.3.1.3).

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use wire::rpc::handles::Handles;

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
    pub(crate) handles: Mutex<Handles>,
}

impl Associations {
    /// The association of a group that the client names, which is made where there is none; a new one where it names zero.
    pub(crate) fn join(&self, group: u32) -> Arc<Association> {
        let mut table = self.0.lock();
        if let Some(known) = table.by_group.get(&group).and_then(Weak::upgrade) {
            return known;
        }
        table.sweep();
        let group = if group == 0 { table.unused() } else { group };
        let association = Arc::new(Association { group, handles: Mutex::default() });
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
        let all = Associations::default();
        let (first, second) = (all.join(0), all.join(0));
        assert!(first.group != second.group && !Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&all.join(first.group), &first));
        let chosen = all.join(77);
        assert_eq!(chosen.group, 77);
        assert!(Arc::ptr_eq(&all.join(77), &chosen));
    }

    #[test]
    fn associations_end_with_their_last_pipe_and_leave_nothing() {
        let all = Associations::default();
        let kept = all.join(0);
        for _ in 0..1000 {
            all.join(0);
        }
        assert!(all.0.lock().by_group.len() <= 2 * SWEEP_MIN);
        assert!(Arc::ptr_eq(&all.join(kept.group), &kept));
        let ended = all.join(0).group;
        assert!(all.join(ended).handles.lock().held_bytes() == 0);
    }
}
