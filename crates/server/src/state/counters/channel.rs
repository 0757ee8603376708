//! The cells of one channel, as the shard of its connection has them.

use std::cell::RefCell;
use std::sync::Arc;

use wire::ids::SessionId;

use crate::resource::budget::Charge;
use crate::resource::budgets::UserBudgets;
use crate::state::counters::COUNTS;
use crate::state::counters::api::Authentication;
use crate::state::counters::cell::{Answered, Cell};
use crate::state::counters::registry::{ChannelKey, Client, Counters};

/// Shares that a channel has cells for at a time, of which one stands for no share. With one more the oldest cell ends.
const CELLS_MAX: usize = 32;
/// Bytes that a cell is taken to cost: its numbers, and its places in lists.
pub(super) const CELL_BYTES: u64 = 7 << 10;
const _: () = assert!(size_of::<Cell>() as u64 + 128 <= CELL_BYTES);

/// A share, or none, and how who asked had proved who that is.
pub(super) type ShareKey = (Option<Arc<str>>, Authentication);

/// Counts what is done on one channel. When it is dropped, with the channel, its numbers become part of the totals.
pub(crate) struct ChannelCounters {
    all: Arc<Counters>,
    key: ChannelKey,
    budgets: Arc<UserBudgets>,
    /// The shard of its connection.
    shard: usize,
    /// Its connection is one inside the process.
    is_inside: bool,
    cells: RefCell<Vec<OwnCell>>,
}

struct OwnCell {
    share: ShareKey,
    cell: Arc<Cell>,
    _held: Charge,
}

impl ChannelCounters {
    /// Begins to count for a channel of `session` that is new, on a shard. What its cells take is held for the user of `budgets`.
    pub(crate) fn begin(
        all: &Arc<Counters>,
        (session, shard): (SessionId, usize),
        client: Client,
        budgets: &Arc<UserBudgets>,
    ) -> Self {
        let (all, budgets, key) = (Arc::clone(all), Arc::clone(budgets), all.begin(session, client));
        ChannelCounters { all, key, budgets, shard, is_inside: false, cells: RefCell::default() }
    }

    /// The same, whose connection may be one inside the process.
    pub(crate) fn inside(mut self, is_inside: bool) -> Self {
        self.is_inside = is_inside;
        self
    }

    /// Counts requests to a share, or to none. Where its user may hold no more they count for the server alone.
    pub(crate) fn count(&self, (share, authentication): (Option<&Arc<str>>, Authentication), answered: &Answered) {
        if !COUNTS {
            return;
        }
        let authentication = if self.is_inside { Authentication::Inside } else { authentication };
        let mut cells = self.cells.borrow_mut();
        let found = cells.iter().position(|own| own.share.0.as_ref() == share && own.share.1 == authentication);
        let own = match found {
            Some(position) => Some(&cells[position]),
            None => self.add(&mut cells, (share.cloned(), authentication)),
        };
        match own {
            Some(own) => own.cell.count(answered),
            None => self.all.count_outside(self.shard, answered),
        }
    }

    /// Makes the cell of a share, where there is memory for it.
    fn add<'a>(&self, cells: &'a mut Vec<OwnCell>, share: ShareKey) -> Option<&'a OwnCell> {
        let held = self.budgets.counters(CELL_BYTES)?;
        if cells.len() >= CELLS_MAX {
            let oldest = cells.remove(0);
            self.all.end_cell(self.key, &oldest.cell);
        }
        let cell = Arc::from(Cell::new());
        self.all.add_cell(self.key, &share, &cell);
        let position = cells.len();
        cells.push(OwnCell { share, cell, _held: held });
        cells.get(position)
    }
}

impl Drop for ChannelCounters {
    fn drop(&mut self) {
        self.all.end(self.key);
    }
}
