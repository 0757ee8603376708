//! Access control entries and lists (MS-DTYP 2.4.4, 2.4.5).

use crate::codec::{Malformed, Reader, Writer};
use crate::security::Sid;

/// Bytes before an ACE's body.
const ACE_HEADER_BYTES: usize = 4;
/// Bytes before an ACL's first ACE.
const ACL_HEADER_BYTES: usize = 8;
/// ACL_REVISION.
const REVISION: u8 = 2;
/// ACE_OBJECT_TYPE_PRESENT and ACE_INHERITED_OBJECT_TYPE_PRESENT: a GUID each follows.
const OBJECT_TYPE_PRESENT: u32 = 1;
const INHERITED_OBJECT_TYPE_PRESENT: u32 = 2;
const GUID_BYTES: usize = 16;
/// ACL_REVISION_DS: object ACEs may be in it.
const REVISION_DS: u8 = 4;

numbers! {
    /// What an ACE does (MS-DTYP 2.4.4.1).
    AceKind(u8) {
        /// Grants.
        ACCESS_ALLOWED = 0x00,
        /// Denies.
        ACCESS_DENIED = 0x01,
        /// Makes an audit record.
        SYSTEM_AUDIT = 0x02,
        /// Reserved.
        SYSTEM_ALARM = 0x03,
        /// Reserved.
        ACCESS_ALLOWED_COMPOUND = 0x04,
        /// Grants on a part of a directory object.
        ACCESS_ALLOWED_OBJECT = 0x05,
        /// Denies on a part of a directory object.
        ACCESS_DENIED_OBJECT = 0x06,
        /// Audits a part of a directory object.
        SYSTEM_AUDIT_OBJECT = 0x07,
        /// Reserved.
        SYSTEM_ALARM_OBJECT = 0x08,
        /// Grants where a condition holds.
        ACCESS_ALLOWED_CALLBACK = 0x09,
        /// Denies where a condition holds.
        ACCESS_DENIED_CALLBACK = 0x0A,
        /// Both of these.
        ACCESS_ALLOWED_CALLBACK_OBJECT = 0x0B,
        /// Both of these.
        ACCESS_DENIED_CALLBACK_OBJECT = 0x0C,
        /// Audits where a condition holds.
        SYSTEM_AUDIT_CALLBACK = 0x0D,
        /// Reserved.
        SYSTEM_ALARM_CALLBACK = 0x0E,
        /// Both of these.
        SYSTEM_AUDIT_CALLBACK_OBJECT = 0x0F,
        /// Reserved.
        SYSTEM_ALARM_CALLBACK_OBJECT = 0x10,
        /// An integrity level.
        SYSTEM_MANDATORY_LABEL = 0x11,
        /// A resource's claims.
        SYSTEM_RESOURCE_ATTRIBUTE = 0x12,
        /// A central policy.
        SYSTEM_SCOPED_POLICY_ID = 0x13,
    }
}

flags! {
    /// How an ACE is inherited (MS-DTYP 2.4.4.1).
    AceFlags(u8) {
        /// Files inherit it.
        OBJECT_INHERIT = 0x01,
        /// Directories inherit it.
        CONTAINER_INHERIT = 0x02,
        /// Who inherits it does not pass it on.
        NO_PROPAGATE_INHERIT = 0x04,
        /// It is not meant for the object it stands on.
        INHERIT_ONLY = 0x08,
        /// It was inherited.
        INHERITED = 0x10,
        /// Audits success.
        SUCCESSFUL_ACCESS = 0x40,
        /// Audits failure.
        FAILED_ACCESS = 0x80,
    }
}

/// What follows an ACE's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AceBody {
    /// Which rights for whom.
    Plain {
        /// The access mask.
        mask: u32,
        /// The principal.
        sid: Sid,
    },
    /// An object, callback, resource attribute or unknown ACE, kept as it came. Its length is a multiple of four.
    Opaque(Vec<u8>),
}

/// One access control entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ace {
    /// What it does.
    pub kind: AceKind,
    /// How it is inherited.
    pub flags: AceFlags,
    /// For whom.
    pub body: AceBody,
}

impl Ace {
    /// An ACE that grants `mask` to `sid`.
    pub fn allow(sid: Sid, mask: u32, flags: AceFlags) -> Ace {
        Ace { kind: AceKind::ACCESS_ALLOWED, flags, body: AceBody::Plain { mask, sid } }
    }

    /// An ACE that denies `mask` to `sid`.
    pub fn deny(sid: Sid, mask: u32, flags: AceFlags) -> Ace {
        Ace { kind: AceKind::ACCESS_DENIED, flags, body: AceBody::Plain { mask, sid } }
    }

    /// The rights and the principal of a plain or conditional ACE; `None` for an object ACE or one of unknown kind.
    pub fn mask_and_sid(&self) -> Option<(u32, Sid)> {
        match &self.body {
            AceBody::Plain { mask, sid } => Some((*mask, *sid)),
            AceBody::Opaque(bytes) if begins_with_sid(self.kind) => read_mask_and_sid(bytes).ok(),
            AceBody::Opaque(_) => None,
        }
    }

    /// True for an entry that is about one type of objects in a directory service alone, or inherited by one (ACE_OBJECT_TYPE_PRESENT and
    /// ACE_INHERITED_OBJECT_TYPE_PRESENT, MS-DTYP 2.4.4.3): no file is of one.
    pub fn is_for_one_object_type(&self) -> bool {
        let flags = || self.object_part().map(|(flags, _)| flags);
        is_object_kind(self.kind)
            && flags().is_ok_and(|flags| flags & (OBJECT_TYPE_PRESENT | INHERITED_OBJECT_TYPE_PRESENT) != 0)
    }

    /// The rights and the principal of an object ACE that denies, of whatever type the object is (MS-DTYP 2.4.4.5, 2.4.4.9).
    pub(crate) fn denied_to_all_types(&self) -> Option<(u32, Sid)> {
        let denies = matches!(self.kind, AceKind::ACCESS_DENIED_OBJECT | AceKind::ACCESS_DENIED_CALLBACK_OBJECT);
        let (flags, mask_and_sid) = self.object_part().ok().filter(|_| denies)?;
        (flags & OBJECT_TYPE_PRESENT == 0).then_some(mask_and_sid)
    }

    /// Flags, rights and principal of an object ACE.
    fn object_part(&self) -> Result<(u32, (u32, Sid)), Malformed> {
        let AceBody::Opaque(bytes) = &self.body else { return Err(Malformed("no object ACE")) };
        let mut reader = Reader::new(bytes);
        let (mask, flags) = (reader.u32()?, reader.u32()?);
        for present in [OBJECT_TYPE_PRESENT, INHERITED_OBJECT_TYPE_PRESENT] {
            reader.skip(if flags & present == 0 { 0 } else { GUID_BYTES })?;
        }
        Ok((flags, (mask, Sid::read(&mut reader)?)))
    }

    /// AceSize.
    fn length(&self) -> usize {
        ACE_HEADER_BYTES
            + match &self.body {
                AceBody::Plain { sid, .. } => size_of::<u32>() + sid.length(),
                AceBody::Opaque(bytes) => bytes.len(),
            }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Ace, Malformed> {
        let kind = AceKind(reader.u8()?);
        let flags = AceFlags(reader.u8()?);
        let length = usize::from(reader.u16()?);
        if !length.is_multiple_of(4) {
            return Err(Malformed("AceSize is not a multiple of four"));
        }
        let body = reader.bytes(length.checked_sub(ACE_HEADER_BYTES).ok_or(Malformed("AceSize"))?)?;
        Ok(Ace { kind, flags, body: read_body(kind, body)? })
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.u8(self.kind.0);
        writer.u8(self.flags.0);
        writer.u16(self.length() as u16);
        match &self.body {
            AceBody::Plain { mask, sid } => {
                writer.u32(*mask);
                sid.write(writer);
            }
            AceBody::Opaque(bytes) => writer.bytes(bytes),
        }
    }
}

fn read_body(kind: AceKind, bytes: &[u8]) -> Result<AceBody, Malformed> {
    match kind {
        AceKind::ACCESS_ALLOWED
        | AceKind::ACCESS_DENIED
        | AceKind::SYSTEM_AUDIT
        | AceKind::SYSTEM_ALARM
        | AceKind::SYSTEM_MANDATORY_LABEL
        | AceKind::SYSTEM_SCOPED_POLICY_ID => {
            let (mask, sid) = read_mask_and_sid(bytes)?;
            Ok(AceBody::Plain { mask, sid })
        }
        kind => {
            if begins_with_sid(kind) {
                read_mask_and_sid(bytes)?;
            }
            Ok(AceBody::Opaque(bytes.to_vec()))
        }
    }
}

/// Kinds whose body is a mask, a SID and more.
fn begins_with_sid(kind: AceKind) -> bool {
    matches!(
        kind,
        AceKind::ACCESS_ALLOWED_CALLBACK
            | AceKind::ACCESS_DENIED_CALLBACK
            | AceKind::SYSTEM_AUDIT_CALLBACK
            | AceKind::SYSTEM_ALARM_CALLBACK
            | AceKind::SYSTEM_RESOURCE_ATTRIBUTE
    )
}

fn read_mask_and_sid(bytes: &[u8]) -> Result<(u32, Sid), Malformed> {
    let mut reader = Reader::new(bytes);
    Ok((reader.u32()?, Sid::read(&mut reader)?))
}

/// An access control list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    /// The entries, in the order in which they are looked at.
    pub aces: Vec<Ace>,
}

impl Acl {
    /// Its length on the wire in bytes.
    pub fn length(&self) -> usize {
        ACL_HEADER_BYTES + self.aces.iter().map(Ace::length).sum::<usize>()
    }

    /// Reads the ACL at the start of `bytes`; gives it and AclSize.
    ///
    /// | offset | length | field |
    /// |---|---|---|
    /// | 0 | 1 | AclRevision: 2 to 4 |
    /// | 2 | 2 | AclSize, these eight bytes included |
    /// | 4 | 2 | AceCount |
    /// | 8 | … | the ACEs |
    pub fn decode(bytes: &[u8]) -> Result<(Acl, usize), Malformed> {
        let mut reader = Reader::new(bytes);
        if !(REVISION..=REVISION_DS).contains(&reader.u8()?) {
            return Err(Malformed("AclRevision"));
        }
        reader.skip(1)?;
        let length = usize::from(reader.u16()?);
        let count = reader.u16()?;
        reader.skip(2)?;
        let list = bytes.get(ACL_HEADER_BYTES..length).ok_or(Malformed("AclSize"))?;
        let mut reader = Reader::new(list);
        let mut aces = Vec::new();
        for _ in 0..count {
            aces.push(Ace::read(&mut reader)?);
        }
        Ok((Acl { aces }, length))
    }

    /// Writes it. Lists too long for AclSize cannot come from [`Acl::decode`];
    /// [`SecurityDescriptor::encode`](crate::security::SecurityDescriptor::encode) refuses them.
    pub(crate) fn write(&self, writer: &mut Writer<'_>) {
        let with_objects = self.aces.iter().any(|ace| is_object_kind(ace.kind));
        writer.u8(if with_objects { REVISION_DS } else { REVISION });
        writer.u8(0);
        writer.u16(self.length() as u16);
        writer.u16(self.aces.len() as u16);
        writer.u16(0);
        self.aces.iter().for_each(|ace| ace.write(writer));
    }
}

fn is_object_kind(kind: AceKind) -> bool {
    matches!(kind.0, 0x05..=0x08 | 0x0B | 0x0C | 0x0F | 0x10)
}
