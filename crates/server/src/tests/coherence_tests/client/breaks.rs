//! How a client takes what it is told: it gives up reads at once, writes out what is dirty, and acknowledges when its temper has it.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use wire::command::oplock_break::{
    LeaseBreak, LeaseBreakFlags, LeaseBreakNotification, OplockBreakNotification, OplockBreakRequest,
};
use wire::header::Header;
use wire::ids::{Command, MessageId};
use wire::status::Status;

use super::{Break, Client, Lost, PAUSE_MAX, READ, Temper, WRITE, count};
use crate::state::caching::ACKNOWLEDGE_WITHIN;
use crate::tests::testing::Answer;

impl Client {
    pub(super) fn is_breaking(&self) -> bool {
        self.opened.as_ref().is_some_and(|opened| opened.breaking.is_some())
    }

    /// Waits until no break is unanswered.
    pub(super) async fn settle(&mut self) -> Result<(), Lost> {
        let mut pause = Duration::from_millis(1);
        while self.is_breaking() {
            if self.temper == Temper::Hangs {
                return self.hang().await;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
            self.attend()?;
        }
        Ok(())
    }

    /// Takes in what has come, and acknowledges what is due.
    pub(super) fn attend(&mut self) -> Result<(), Lost> {
        loop {
            let Some(peer) = &self.peer else { return Err(Lost) };
            peer.connection.flush_notifications();
            let Some(message) = peer.take_frame() else { break };
            let header = Header::decode(&message).unwrap();
            if header.message_id == MessageId::UNSOLICITED {
                self.told(&message);
            } else if header.status != Status::PENDING {
                self.answered(Answer { header, message });
            }
        }
        self.acknowledge();
        Ok(())
    }

    fn told(&mut self, message: &[u8]) {
        let Ok(OplockBreakNotification::Lease(told)) = OplockBreakNotification::decode(message) else {
            panic!("a break of something that nobody has");
        };
        match &mut self.early {
            Some(early) => early.push(told),
            None => self.heed(&told),
        }
    }

    pub(super) fn heed(&mut self, told: &LeaseBreakNotification) {
        let LeaseBreakNotification { new_epoch, flags, new_lease_state: left, .. } = *told;
        let due = match self.temper {
            Temper::Prompt => Duration::from_millis(self.random.below(20)),
            Temper::Late => ACKNOWLEDGE_WITHIN - Duration::from_millis(self.random.below(1000) + 1200),
            Temper::Hangs => Duration::MAX / 4,
        };
        let Some(opened) = &mut self.opened else { return };
        opened.epoch = new_epoch;
        if !left.contains(READ) {
            opened.clean.clear();
        }
        if flags.contains(LeaseBreakFlags::ACK_REQUIRED) {
            let due = Instant::now() + due;
            opened.breaking = Some(Break { due, left, acknowledgement: None, flushed: false });
        } else {
            opened.state = left;
        }
    }

    fn acknowledge(&mut self) {
        let Some(Break { due, left, acknowledgement: None, flushed }) =
            self.opened.as_ref().and_then(|opened| opened.breaking.as_ref())
        else {
            return;
        };
        if Instant::now() < *due || self.temper == Temper::Hangs {
            return;
        }
        let (left, flushed) = (*left, *flushed);
        if !flushed && !left.contains(WRITE) {
            self.flush();
        }
        if let Some(breaking) = self.opened.as_mut().and_then(|opened| opened.breaking.as_mut()) {
            breaking.flushed = true;
        }
        if self.flushing.is_empty() {
            let lease = LeaseBreak { lease_key: self.guid(1), lease_state: left };
            let id = self.send(Command::OPLOCK_BREAK, |body| OplockBreakRequest::Lease(lease).encode(body));
            if let Some(breaking) = self.opened.as_mut().and_then(|opened| opened.breaking.as_mut()) {
                breaking.acknowledgement = Some(id);
            }
        }
    }

    /// Sends what is dirty.
    pub(super) fn flush(&mut self) {
        let Some(opened) = &self.opened else { return };
        let mut dirty: Vec<_> = opened.dirty.iter().map(|(block, dirty)| (*block, dirty.value)).collect();
        dirty.sort_unstable();
        for (block, value) in dirty {
            if self.flushing.values().all(|flushed| *flushed != block) {
                let message = self.write_message(block, value);
                let id = self.send_message(message);
                self.flushing.insert(id, block);
            }
        }
    }

    fn answered(&mut self, answer: Answer) {
        let id = answer.header.message_id;
        if let Some(block) = self.flushing.remove(&id) {
            let Some(opened) = &mut self.opened else { return };
            let Some(dirty) = opened.dirty.remove(&block) else { return };
            assert_eq!(answer.status(), Status::SUCCESS, "a dirty block is written");
            self.world.events.borrow_mut().extend(dirty.done);
            return;
        }
        if let Some(opened) = &mut self.opened
            && let Some(breaking) = &opened.breaking
            && breaking.acknowledgement == Some(id)
        {
            assert_eq!(answer.status(), Status::SUCCESS, "an acknowledgement in time");
            count(&self.world.breaks);
            opened.state = breaking.left;
            opened.breaking = None;
            return;
        }
        self.answers.insert(id, answer);
    }
}
