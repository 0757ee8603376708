//! What a thread of the pool has found of a frame that it opened or verified.

use std::ops::Range;
use std::rc::Rc;

use crate::resource::budget::Charge;
use crate::resource::buffers::Buffer;
use crate::state::session::Channel;

/// What is known of a frame before anything is done with it.
#[derive(Default)]
pub(crate) enum Finding {
    /// Nobody has looked.
    #[default]
    None,
    /// Whether the key of this channel's session has opened it, which it did in place.
    Opened(Rc<Channel>, bool),
    Verified(Signatures),
}

/// Which messages of a frame are signed with the keys of the channels that they name.
#[derive(Default)]
pub(crate) struct Signatures {
    pub(crate) channels: Vec<Rc<Channel>>,
    /// In the order of the frame.
    pub(crate) judged: Vec<Judged>,
}

/// A signed message.
pub(crate) struct Judged {
    pub(crate) start: usize,
    /// Which of the channels.
    pub(crate) channel: usize,
    pub(crate) is_right: bool,
}

impl Signatures {
    /// Whether the message that begins at `start` is signed with the key of `channel`. `None` where that was not looked at.
    pub(crate) fn are_right(&self, start: usize, channel: &Rc<Channel>) -> Option<bool> {
        let position = self.judged.binary_search_by_key(&start, |judged| judged.start).ok()?;
        let judged = &self.judged[position];
        let by = self.channels.get(judged.channel)?;
        Rc::ptr_eq(by, channel).then_some(judged.is_right)
    }
}

/// A frame that is back, with its buffer.
pub(crate) struct Opened {
    pub(crate) frame: Range<usize>,
    pub(crate) finding: Finding,
    pub(crate) buffer: Buffer,
    pub(crate) charge: Option<Charge>,
}
