//! Files whose data is being changed through this server, and by how many opens.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::Identity;

/// How many locks they share.
const PARTS: usize = 64;

pub(super) struct Writers([Mutex<HashMap<Identity, u32>>; PARTS]);

impl Default for Writers {
    fn default() -> Self {
        Writers(std::array::from_fn(|_| Mutex::default()))
    }
}

impl Writers {
    fn part(&self, file: Identity) -> &Mutex<HashMap<Identity, u32>> {
        &self.0[file.file as usize % PARTS]
    }

    pub(super) fn begin(&self, file: Identity) {
        *self.part(file).lock().entry(file).or_default() += 1;
    }

    pub(super) fn end(&self, file: Identity) {
        let mut part = self.part(file).lock();
        if let Some(count) = part.get_mut(&file) {
            *count -= 1;
            if *count == 0 {
                part.remove(&file);
            }
        }
    }

    pub(super) fn are_there(&self, file: Identity) -> bool {
        self.part(file).lock().contains_key(&file)
    }
}
