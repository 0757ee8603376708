//! Events that are not in the log.

use std::time::SystemTime;

use server::admin::AuditEvent;

/// Users that are named beside how many of theirs were lost.
const NAMED_MAX: usize = 8;

/// How many they are, and whose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) lines: u64,
    /// Of these, requests that were refused.
    pub(super) refused: u64,
    /// Of these, those about people who had proved nothing.
    pub(super) of_strangers: u64,
    /// When the first of them happened, and the last.
    pub(super) from: SystemTime,
    pub(super) to: SystemTime,
    /// The first few users of whom something was lost, with how much.
    pub(super) by: Vec<(String, u64)>,
}

impl Lost {
    pub(super) fn of(event: &AuditEvent) -> Self {
        let mut lost = Lost { lines: 0, refused: 0, of_strangers: 0, from: event.time, to: event.time, by: Vec::new() };
        lost.add(event);
        lost
    }

    pub(super) fn add(&mut self, event: &AuditEvent) {
        self.lines += 1;
        self.refused += u64::from(event.is_refused());
        (self.from, self.to) = (self.from.min(event.time), self.to.max(event.time));
        if event.is_of_stranger() {
            self.of_strangers += 1;
        } else if let Some(user) = &event.actor.user {
            match self.by.iter().position(|(known, _)| known == user) {
                Some(at) => self.by[at].1 += 1,
                None if self.by.len() < NAMED_MAX => self.by.push((user.clone(), 1)),
                None => {}
            }
        }
    }

    /// Whose they are as far as that is known, for the server's log.
    pub(super) fn users(&self) -> String {
        let told: Vec<String> = self.by.iter().map(|(user, count)| format!("{user} ({count})")).collect();
        told.join(", ")
    }
}
