//! A create context of the application's own.

use wire::context::create::CreateContextsBuilder;

/// A create context of the application's own, which its opens have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    name: &'static [u8],
    data: [u8; 16],
}

impl Mark {
    pub(crate) fn new(name: &'static [u8], data: [u8; 16]) -> Self {
        Mark { name, data }
    }

    pub(crate) fn add_to(&self, contexts: &mut CreateContextsBuilder) {
        contexts.add(self.name, &self.data);
    }
}
