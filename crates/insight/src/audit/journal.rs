//! The audit log as entries of a journal: the line is the message, and what people search by are fields.

use std::io::Write;

use server::admin::AuditProof;

use super::writer::{Failure, Line, Out};

/// EMSGSIZE of Linux: no entry is as long.
const TOO_LONG: i32 = rustix::io::Errno::MSGSIZE.raw_os_error();

pub(super) struct JournalLog(Box<dyn Write + Send>);

impl JournalLog {
    pub(super) fn to(out: Box<dyn Write + Send>) -> Self {
        JournalLog(out)
    }
}

impl Out for JournalLog {
    fn write(&mut self, lines: &[Line]) -> (usize, Result<(), Failure>) {
        for (count, line) in lines.iter().enumerate() {
            if let Err(error) = self.0.write_all(&entry(line)) {
                let is_too_long = error.raw_os_error() == Some(TOO_LONG);
                return (count, Err(if is_too_long { Failure::ForEver } else { Failure::ForNow(error) }));
            }
        }
        (lines.len(), Ok(()))
    }

    /// Each entry finds the journal anew.
    fn reopen(&mut self) {}

    fn place(&self) -> String {
        "journald".to_owned()
    }
}

fn entry(line: &Line) -> Vec<u8> {
    let mut entry = Vec::with_capacity(line.text.len() + 256);
    entry.extend_from_slice(b"MESSAGE=");
    // Its own newline ends the field: JSON has no other.
    entry.extend_from_slice(&line.text);
    entry.extend_from_slice(b"SYSLOG_IDENTIFIER=multilane-audit\n");
    let mut put = |name: &str, value: &str| {
        // What could be taken for another field is left to the message.
        if !value.contains(char::is_control) {
            entry.extend_from_slice(format!("{name}={value}\n").as_bytes());
        }
    };
    match &line.event {
        Some(event) => {
            put("PRIORITY", if event.status >> 30 == 3 { "5" } else { "6" });
            put("MULTILANE_AUDIT", event.class.name());
            put("MULTILANE_OPERATION", event.operation);
            put("MULTILANE_STATUS", &event.status_name);
            if let Some(user) = &event.actor.user {
                // Whoever searches for a user finds what that user did, and not who only said its name.
                let is_claimed = event.actor.proof == AuditProof::Claimed;
                put(if is_claimed { "MULTILANE_CLAIMED_USER" } else { "MULTILANE_USER" }, user);
            }
            if let Some(share) = &event.place.share {
                put("MULTILANE_SHARE", share);
            }
        }
        None => {
            put("PRIORITY", "4");
            put("MULTILANE_AUDIT", "lost");
        }
    }
    entry
}
