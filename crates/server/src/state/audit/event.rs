//! An audit event. It has what the log tells, whatever form that has.

use std::borrow::Cow;
use std::mem::size_of;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use wire::status::Status;

use super::{AuditClass, AuditEnd, AuditOrigin};

/// Bytes of a name that strangers choose, such as that of a file which is not there. Names of files that are there are shorter.
const AUDITED_NAME_BYTES_MAX: usize = 4 << 10;
/// What stands for the rest.
const CUT: &str = "...";

/// One thing that was done, or that somebody tried.
#[derive(Clone, Debug)]
pub struct AuditEvent {
    /// When it was done.
    pub time: SystemTime,
    /// Why it is told.
    pub class: AuditClass,
    /// Azure's category.
    pub category: AuditCategory,
    /// Azure's name of the command, such as `SetInfo`.
    pub operation: &'static str,
    /// The command's number in MS-SMB2, where a request is told.
    pub command: Option<u16>,
    /// What of the command, such as `FileRenameInformation`; empty for most.
    pub minor: Cow<'static, str>,
    /// More about this request, for people; empty for most.
    pub detail: String,
    /// The NTSTATUS.
    pub status: u32,
    /// Its name.
    pub status_name: String,
    /// How long it took in the server, where a request is told.
    pub duration: Option<Duration>,
    /// Who did it.
    pub actor: AuditActor,
    /// To what.
    pub place: AuditPlace,
    /// By what numbers that is found in a trace.
    pub ids: AuditIds,
    /// What was read and written through an open that ends.
    pub moved: Option<AuditMoved>,
    /// What ended an open or a session.
    pub end: Option<AuditEnd>,
    /// Who had said that what is deleted is to go.
    pub armed_by: Vec<AuditArming>,
}

/// Azure's categories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditCategory {
    /// It changes nothing.
    Read,
    /// It changes something.
    Write,
    /// It deletes something.
    Delete,
}

impl AuditCategory {
    /// Azure's name.
    pub fn name(self) -> &'static str {
        match self {
            AuditCategory::Read => "StorageRead",
            AuditCategory::Write => "StorageWrite",
            AuditCategory::Delete => "StorageDelete",
        }
    }
}

impl From<AuditClass> for AuditCategory {
    fn from(class: AuditClass) -> Self {
        match class {
            AuditClass::Read | AuditClass::SignIn => AuditCategory::Read,
            AuditClass::Write | AuditClass::Security => AuditCategory::Write,
            AuditClass::Delete => AuditCategory::Delete,
        }
    }
}

/// Who did something, and from where.
#[derive(Clone, Debug, Default)]
pub struct AuditActor {
    /// The client's address and port, as far as it is known.
    pub caller: Option<Arc<str>>,
    /// The user's name.
    pub user: Option<String>,
    /// The storage account of that user.
    pub account: Option<String>,
    /// The user's SID.
    pub sid: Option<String>,
    /// How the user is known.
    pub proof: AuditProof,
    /// The dialect revision, where it is known.
    pub dialect: Option<u16>,
    /// Who asked for it by another protocol, whose caller, name and proof are those above.
    pub origin: Option<Arc<AuditOrigin>>,
}

/// How a user is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditProof {
    /// By what a client says that did not prove it.
    #[default]
    Claimed,
    /// It has signed in by NTLMv2.
    Ntlm,
    /// It has signed in, and says by now that it is nobody.
    Anonymous,
    /// Who may change the catalog on this machine. The log does not know who that was.
    Operator,
    /// By a key of the account, with which a request by REST was signed.
    AccountKey,
    /// By a shared access signature that a key of the account made.
    SharedAccess,
    /// By one that a user delegation key made.
    DelegatedAccess,
    /// By a token of a service principal.
    Token,
}

impl AuditProof {
    /// Its name in the log.
    pub fn name(self) -> &'static str {
        match self {
            AuditProof::Claimed => "Claimed",
            AuditProof::Ntlm => "NTLMv2",
            AuditProof::Anonymous => "Anonymous",
            AuditProof::Operator => "Operator",
            AuditProof::AccountKey => "AccountKey",
            AuditProof::SharedAccess => "SAS",
            AuditProof::DelegatedAccess => "DelegationSas",
            AuditProof::Token => "OAuth",
        }
    }
}

/// What something was done to.
#[derive(Clone, Debug, Default)]
pub struct AuditPlace {
    /// The server's name.
    pub server: String,
    /// The share.
    pub share: Option<Arc<str>>,
    /// The path in the share; empty for its root.
    pub path: Option<String>,
    /// The name that a file is renamed to, or gets beside its own.
    pub new_path: Option<String>,
}

/// The numbers of MS-SMB2 that tell sessions, opens and requests apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditIds {
    /// SessionId.
    pub session: Option<u64>,
    /// TreeId.
    pub tree: Option<u32>,
    /// MessageId.
    pub message: Option<u64>,
    /// Both halves of the FileId.
    pub open: Option<u64>,
    /// The number of the file on its file system.
    pub file: Option<u64>,
    /// The same of a file that has lost a name to it.
    pub replaced: Option<u64>,
    /// CreditCharge: 64 KiB each.
    pub credits: Option<u16>,
}

/// How often and how much was read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditMoved {
    /// READs that gave data.
    pub reads: u64,
    /// The bytes of those.
    pub read_bytes: u64,
    /// WRITEs that were made.
    pub writes: u64,
    /// The bytes of those.
    pub written_bytes: u64,
}

/// Somebody who has said that a file is to go when it is closed.
#[derive(Clone, Debug)]
pub struct AuditArming {
    /// When.
    pub time: SystemTime,
    /// The user's name.
    pub user: String,
    /// From where.
    pub caller: Option<Arc<str>>,
    /// Both halves of the FileId of the open by which that was said.
    pub open: u64,
    /// Who asked for it by another protocol, whose name and caller are those above.
    pub origin: Option<Arc<AuditOrigin>>,
}

impl AuditEvent {
    /// One of `class` that happens now, with nothing said of it yet.
    pub(crate) fn new(class: AuditClass, operation: &'static str) -> Self {
        AuditEvent {
            time: SystemTime::now(),
            class,
            category: class.into(),
            operation,
            command: None,
            minor: Cow::Borrowed(""),
            detail: String::new(),
            status: 0,
            status_name: String::new(),
            duration: None,
            actor: AuditActor::default(),
            place: AuditPlace::default(),
            ids: AuditIds::default(),
            moved: None,
            end: None,
            armed_by: Vec::new(),
        }
    }

    /// Bytes that it holds, or a few more. What it has in common with others counts as its own: it may be the last that has it.
    pub fn held_bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::capacity);
        let shared = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
        let origin = |origin: &Option<Arc<AuditOrigin>>| origin.as_ref().map_or(0, |origin| origin.held_bytes());
        let armings = self.armed_by.iter();
        let armings = armings.map(|arming| arming.user.capacity() + shared(&arming.caller) + origin(&arming.origin));
        size_of::<Self>()
            + self.minor.len()
            + self.detail.capacity()
            + self.status_name.capacity()
            + shared(&self.actor.caller)
            + text(&self.actor.user)
            + text(&self.actor.account)
            + text(&self.actor.sid)
            + origin(&self.actor.origin)
            + self.place.server.capacity()
            + shared(&self.place.share)
            + text(&self.place.path)
            + text(&self.place.new_path)
            + self.armed_by.capacity() * size_of::<AuditArming>()
            + armings.sum::<usize>()
    }

    /// True for a request that was refused, or failed. Not for what is told of an end, which was done whatever came of it, nor for what was not answered as the
    /// connection was lost: that may be done.
    pub fn is_refused(&self) -> bool {
        let status = Status(self.status);
        self.end.is_none() && status.is_error() && status != Status::CONNECTION_DISCONNECTED
    }

    /// True where it is about somebody who has proved nothing.
    pub fn is_of_stranger(&self) -> bool {
        self.class == AuditClass::SignIn && self.actor.proof == AuditProof::Claimed
    }
}

/// As much of a text as the log takes.
pub(crate) fn shortened(text: &str) -> String {
    if text.len() <= AUDITED_NAME_BYTES_MAX {
        return text.to_owned();
    }
    let end = (0..=AUDITED_NAME_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}{CUT}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_share_that_is_not_there_counts() {
        let mut event = AuditEvent::new(AuditClass::SignIn, "TreeConnect");
        let before = event.held_bytes();
        event.place.share = Some("x".repeat(4096).into());
        assert!(event.held_bytes() >= before + 4096);
    }

    #[test]
    fn what_was_done_or_may_be_is_not_refused() {
        let mut event = AuditEvent::new(AuditClass::Delete, "SetInfo");
        for (status, end, is_refused) in [
            (Status::SUCCESS, None, false),
            (Status::ACCESS_DENIED, None, true),
            (Status::CONNECTION_DISCONNECTED, None, false),
            (Status::ACCESS_DENIED, Some(AuditEnd::Close), false),
        ] {
            (event.status, event.end) = (status.0, end);
            assert_eq!(event.is_refused(), is_refused, "{status:?} {end:?}");
        }
    }

    #[test]
    fn names_are_cut_between_characters() {
        assert_eq!(shortened("short"), "short");
        let long = shortened(&"\u{1f600}".repeat(2000));
        assert_eq!(long.len(), AUDITED_NAME_BYTES_MAX + CUT.len());
        let odd = shortened(&format!("x{}", "\u{1f600}".repeat(2000)));
        assert!(odd.len() < AUDITED_NAME_BYTES_MAX + CUT.len() && odd.ends_with("\u{1f600}..."));
    }
}
