//! Who may do what with a file: in SDDL or as bytes, by itself or by the key of a share's list.

use std::collections::{HashMap, VecDeque};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use client::{Control, File, SecurityDescriptor, SecurityInformation};
use control::ShareName;
use hyper::StatusCode;
use hyper::header::HeaderMap;
use parking_lot::Mutex;
use secure::hmac_sha256;
use serde::{Deserialize, Serialize};

use super::smb_properties::parts;
use super::{Ask, Service};
use crate::answer::{Answer, empty, set as set_header, with_body};
use crate::failure::{Code, Failure};

/// The parts of a descriptor that are told.
pub(super) const TOLD: SecurityInformation =
    SecurityInformation::OWNER.union(SecurityInformation::GROUP).union(SecurityInformation::DACL);
/// What is audited, and what else stands among that.
pub(super) const AUDITED: SecurityInformation = SecurityInformation::SACL
    .union(SecurityInformation::LABEL)
    .union(SecurityInformation::ATTRIBUTE)
    .union(SecurityInformation::SCOPE);
/// Bytes of a permission in a header, as the service has it.
const HEADER_BYTES_MAX: usize = 8 << 10;
/// Permissions that are remembered of a share, and bytes of one of them.
const KEYS_MAX: usize = 1024;
/// Bytes of a key: two numbers of 64 bits and what is between them.
const KEY_BYTES_MAX: usize = 41;
const DESCRIPTOR_BYTES_MAX: usize = 16 << 10;
/// Bytes of all that are remembered, of all shares. Those that clients made are in the catalog as well, and come back when they are named.
const REMEMBERED_BYTES_MAX: usize = 16 << 20;
/// What one takes beside its bytes: its key, twice, and its places in the lists.
const COST: usize = 256;
const PERMISSION: &str = "x-ms-file-permission";
const KEY: &str = "x-ms-file-permission-key";
const FORMAT: &str = "x-ms-file-permission-format";

/// The permissions of each share that there are keys for: those that were made, and those that files were told to have lately.
#[derive(Default)]
pub(crate) struct Permissions(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    shares: HashMap<i64, OfShare>,
    bytes: usize,
}

#[derive(Default)]
struct OfShare {
    known: HashMap<String, Bytes>,
    /// The oldest first.
    order: VecDeque<String>,
    bytes: usize,
}

impl Remembered {
    fn add(&mut self, share: i64, key: &str, bytes: Vec<u8>) {
        let of_share = self.shares.entry(share).or_default();
        if of_share.known.contains_key(key) {
            return;
        }
        let cost = bytes.len() + COST;
        // What a vector has more than it uses would not be counted.
        of_share.known.insert(key.to_owned(), bytes.into_boxed_slice().into());
        of_share.order.push_back(key.to_owned());
        of_share.bytes += cost;
        self.bytes += cost;
        if of_share.order.len() > KEYS_MAX {
            self.forget_oldest(share);
        }
        // Whoever has most pays, so that nobody has others' keys forgotten.
        while self.bytes > REMEMBERED_BYTES_MAX
            && let Some(largest) =
                self.shares.iter().max_by_key(|(_, of_share)| of_share.bytes).map(|(share, _)| *share)
        {
            self.forget_oldest(largest);
        }
    }

    fn forget_oldest(&mut self, share: i64) {
        let Some(of_share) = self.shares.get_mut(&share) else { return };
        let oldest = of_share.order.pop_front();
        let freed = oldest.and_then(|key| of_share.known.remove(&key)).map_or(0, |bytes| bytes.len() + COST);
        of_share.bytes -= freed;
        self.bytes -= freed;
        if of_share.order.is_empty() {
            self.shares.remove(&share);
        }
    }
}

impl Permissions {
    /// Remembers a descriptor; gives its key.
    pub(super) fn remember(&self, share: i64, descriptor: &SecurityDescriptor) -> Option<String> {
        let bytes = descriptor.encode().filter(|bytes| bytes.len() <= DESCRIPTOR_BYTES_MAX)?;
        let key = key_of(&bytes);
        self.0.lock().add(share, &key, bytes);
        Some(key)
    }

    /// Remembers one that was kept by its key. What makes no sense, or has another key, is none.
    fn remember_kept(&self, share: i64, key: &str, bytes: &[u8]) {
        if key_of(bytes) == key
            && let Ok(descriptor) = SecurityDescriptor::decode(bytes)
        {
            self.remember(share, &descriptor);
        }
    }

    fn find(&self, share: i64, key: &str) -> Result<SecurityDescriptor, Failure> {
        let unknown = || Failure::new(Code::FileInvalidPermissionKey, "The share has no permission of that key.");
        let bytes = self.0.lock().shares.get(&share).and_then(|of_share| of_share.known.get(key)).cloned();
        SecurityDescriptor::decode(&bytes.ok_or_else(unknown)?).map_err(|_| unknown())
    }
}

/// Two numbers, as the service's keys look. Nobody finds another descriptor with the same.
fn key_of(bytes: &[u8]) -> String {
    let mac = hmac_sha256(b"multilane rest permission", bytes);
    let number = |at: usize| mac[at..at + 8].iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    format!("{}*{}", number(0), number(8))
}

/// How permissions are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Sddl,
    Binary,
}

impl Format {
    fn named(name: Option<&str>) -> Result<Self, Failure> {
        match name.map(str::to_ascii_lowercase).as_deref() {
            None | Some("sddl") => Ok(Format::Sddl),
            Some("binary") => Ok(Format::Binary),
            Some(_) => Err(Failure::header(FORMAT, "sddl, or binary")),
        }
    }

    fn read(self, text: &str) -> Result<SecurityDescriptor, Failure> {
        let wrong = |why: &str| Failure::new(Code::FileInvalidPermission, format!("The permission is invalid: {why}."));
        let mut descriptor = match self {
            Format::Sddl => SecurityDescriptor::from_sddl(text).map_err(|cause| wrong(cause.0))?,
            Format::Binary => {
                let bytes = BASE64_STANDARD.decode(text.trim()).map_err(|_| wrong("it is no Base64"))?;
                SecurityDescriptor::decode(&bytes).map_err(|cause| wrong(cause.0))?
            }
        };
        if descriptor.sacl.take().is_some_and(|list| !list.aces.is_empty()) {
            return Err(wrong("this interface sets no list of what is audited (S:)"));
        }
        descriptor.control = descriptor.control.without(Control::SACL_PRESENT | Control::SACL_PROTECTED);
        if parts(&descriptor) == SecurityInformation::NONE {
            return Err(wrong("it has neither owner, group nor DACL"));
        }
        descriptor.control = descriptor.control.without(Control::DACL_AUTO_INHERIT_REQ);
        Ok(descriptor)
    }

    fn write(self, descriptor: &SecurityDescriptor) -> Result<String, Failure> {
        // That nothing is audited is said, as the service does.
        let descriptor =
            SecurityDescriptor { control: descriptor.control | Control::SACL_PRESENT, ..descriptor.clone() };
        let written = match self {
            Format::Sddl => descriptor.to_sddl(),
            Format::Binary => descriptor.encode().map(|bytes| BASE64_STANDARD.encode(bytes)),
        };
        let custom = || {
            let message = "The permission has an entry that SDDL cannot say here; ask for it in binary.";
            Failure::new(Code::CannotConvertToSddlDueToCustomAce, message)
        };
        written.ok_or_else(custom)
    }
}

/// The permission that a request sets, if any.
pub(super) fn asked(service: &Service, ask: &Ask, share: i64) -> Result<Option<SecurityDescriptor>, Failure> {
    let format = Format::named(ask.header(FORMAT))?;
    let is_left = |text: &&str| !text.eq_ignore_ascii_case("inherit") && !text.eq_ignore_ascii_case("preserve");
    let (permission, key) = (ask.header(PERMISSION).filter(is_left), ask.header(KEY).filter(is_left));
    match (permission, key) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(Failure::header(KEY, "none where x-ms-file-permission is given")),
        (Some(text), None) if text.len() > HEADER_BYTES_MAX => {
            let message = "A permission in a header has 8 KiB at most; make one of the share, and name its key.";
            Err(Failure::new(Code::FileInvalidPermission, message))
        }
        (Some(text), None) => format.read(text).map(Some),
        (None, Some(key)) => service.files.permissions.find(share, key).map(Some),
    }
}

/// Whether a request names a permission.
pub(super) fn is_named(ask: &Ask) -> bool {
    ask.header(PERMISSION).is_some() || ask.header(KEY).is_some()
}

/// Sets those parts of a descriptor that there are.
pub(super) async fn set(file: &File, descriptor: &SecurityDescriptor) -> Result<(), Failure> {
    set_parts(file, descriptor, parts(descriptor)).await
}

/// Sets these parts of a descriptor, those that it has not among them.
pub(super) async fn set_parts(
    file: &File,
    descriptor: &SecurityDescriptor,
    which: SecurityInformation,
) -> Result<(), Failure> {
    let mut descriptor = descriptor.clone();
    // SMB keeps what says that entries were inherited only where that is asked for.
    for (inherited, asked) in [
        (Control::DACL_AUTO_INHERITED, Control::DACL_AUTO_INHERIT_REQ),
        (Control::SACL_AUTO_INHERITED, Control::SACL_AUTO_INHERIT_REQ),
    ] {
        if descriptor.control.contains(inherited) {
            descriptor.control |= asked;
        }
    }
    Ok(file.set_descriptor(&descriptor, which).await?)
}

#[derive(Serialize, Deserialize)]
struct Body {
    permission: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<String>,
}

/// Has the permission at hand whose key a request names: it may have been made before the server started.
pub(super) async fn fetch(service: &Service, ask: &Ask) -> Result<(), Failure> {
    let Some(key) = ask.header(KEY).filter(|key| key.len() <= KEY_BYTES_MAX).map(str::to_owned) else { return Ok(()) };
    let Ok(share) = service.record(ask) else { return Ok(()) };
    if service.files.permissions.find(share.id, &key).is_ok() {
        return Ok(());
    }
    let (account, name, of) = (ask.account()?, share.name.parse::<ShareName>()?, key.clone());
    let kept = service.in_catalog(move |operations| operations.permission(&account, &name, &of)).await?;
    kept.iter().for_each(|bytes| service.files.permissions.remember_kept(share.id, &key, bytes));
    Ok(())
}

/// Create Permission. It is kept with the share.
pub(super) async fn create(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let record = service.record(ask)?;
    let share = record.id;
    let descriptor = parsed(&ask.body, ask.header(FORMAT))?;
    let too_long = || Failure::new(Code::FileInvalidPermission, "A permission has 16 KiB as bytes at most.");
    let key = service.files.permissions.remember(share, &descriptor).ok_or_else(too_long)?;
    let bytes = descriptor.encode().ok_or_else(too_long)?;
    let (account, name, of) = (ask.account()?, record.name.parse::<ShareName>()?, key.clone());
    service.in_catalog(move |operations| operations.keep_permission(&account, &name, &of, &bytes)).await?;
    let mut answer = empty(StatusCode::CREATED);
    set_header(&mut answer, KEY, &key);
    Ok(answer)
}

/// The permission of a body. How it is written is said there, or else by the header.
fn parsed(body: &[u8], header: Option<&str>) -> Result<SecurityDescriptor, Failure> {
    let wrong = |_| Failure::new(Code::InvalidJsonDocument, "The body is not {\"permission\": SDDL} in JSON.");
    let body: Body = serde_json::from_slice(body).map_err(wrong)?;
    Format::named(body.format.as_deref().or(header))?.read(&body.permission)
}

/// Reads a permission as a header has it, for who tests what reads it.
pub(super) fn read(text: &str, headers: &HeaderMap) -> Result<(), Failure> {
    let format = headers.get(FORMAT).and_then(|value| value.to_str().ok());
    Format::named(format)?.read(text).map(drop)
}

/// Reads a body that makes one, likewise.
pub(super) fn read_body(body: &[u8]) -> Result<(), Failure> {
    parsed(body, None).map(drop)
}

/// Get Permission.
pub(super) fn get(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let share = service.record(ask)?.id;
    let key = ask.header(KEY).ok_or_else(|| Failure::missing(KEY))?;
    let name = ask.header(FORMAT);
    let permission = Format::named(name)?.write(&service.files.permissions.find(share, key)?)?;
    let unwritable = |_| Failure::new(Code::InternalError, "The answer could not be written.");
    let body = Body { permission, format: name.map(str::to_owned) };
    let mut answer = with_body(StatusCode::OK, serde_json::to_vec(&body).map_err(unwritable)?.into());
    set_header(&mut answer, "content-type", "application/json");
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SDDL: &str = "O:SYG:BAD:AI(A;;FA;;;BA)(A;ID;FR;;;WD)";

    #[test]
    fn a_permission_comes_back_in_both_formats() {
        let told = format!("{SDDL}S:NO_ACCESS_CONTROL");
        for text in [SDDL, &told] {
            let descriptor = Format::Sddl.read(text).unwrap();
            assert_eq!(Format::Sddl.write(&descriptor).unwrap(), told);
            let binary = Format::Binary.write(&descriptor).unwrap();
            assert_eq!(Format::Sddl.write(&Format::Binary.read(&binary).unwrap()).unwrap(), told);
        }
    }

    #[test]
    fn what_is_no_permission_is_refused() {
        for text in ["", "nonsense", "S:(AU;FA;GR;;;WD)", "O:BAS:(AU;FA;GR;;;WD)", "O:DA"] {
            assert_eq!(Format::Sddl.read(text).unwrap_err().code, Code::FileInvalidPermission, "{text}");
        }
        for text in ["AAAA", "no!", ""] {
            assert_eq!(Format::Binary.read(text).unwrap_err().code, Code::FileInvalidPermission, "{text}");
        }
    }

    #[test]
    fn keys_are_of_one_share_and_the_oldest_are_forgotten() {
        let permissions = Permissions::default();
        let of = |number: usize| SecurityDescriptor::from_sddl(&format!("O:S-1-5-21-{number}")).unwrap();
        let first = permissions.remember(1, &of(0)).unwrap();
        assert_eq!(permissions.remember(1, &of(0)).as_deref(), Some(&*first), "the same has the same key");
        assert_eq!(permissions.find(1, &first), Ok(SecurityDescriptor::decode(&of(0).encode().unwrap()).unwrap()));
        assert_eq!(permissions.find(2, &first).unwrap_err().code, Code::FileInvalidPermissionKey);
        for number in 1..=KEYS_MAX {
            permissions.remember(1, &of(number)).unwrap();
        }
        assert!(permissions.find(1, &first).is_err());
        assert_eq!(permissions.0.lock().shares[&1].known.len(), KEYS_MAX);
    }

    #[test]
    fn permissions_of_all_shares_are_bounded_and_who_has_most_pays() {
        const BYTES: usize = 12 << 10;
        let mut remembered = Remembered::default();
        remembered.add(0, "small", vec![0; BYTES]);
        for share in 1..=4 {
            (0..KEYS_MAX).for_each(|number| remembered.add(share, &number.to_string(), vec![0; BYTES]));
        }
        assert!(remembered.shares[&0].known.contains_key("small"), "who has little is not forgotten");
        let counted = |of_share: &OfShare| of_share.known.values().map(|bytes| bytes.len() + COST).sum::<usize>();
        let all: usize = remembered.shares.values().map(counted).sum();
        assert_eq!(all, remembered.bytes);
        assert!(all <= REMEMBERED_BYTES_MAX && all > REMEMBERED_BYTES_MAX - BYTES - COST, "{all}");
        assert!((1..=4).all(|share| remembered.shares[&share].known.len() > 100), "all have some");
        // What is remembered already costs nothing again.
        remembered.add(0, "small", vec![0; BYTES]);
        assert_eq!(remembered.bytes, all);
    }
}
