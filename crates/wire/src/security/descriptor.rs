//! Self-relative security descriptors (MS-DTYP 2.4.6).

use crate::codec::{Malformed, Reader, Writer};
use crate::security::{Acl, Sid};

/// The most bytes in a descriptor. MS-DTYP 2.4.5 keeps an ACL below 64 KiB; the whole is held to that too.
const LENGTH_MAX: usize = 0x1_0000;
/// Bytes before the parts.
const HEADER_BYTES: usize = 20;
/// The only revision.
const REVISION: u8 = 1;

flags! {
    /// What is known of a descriptor's parts (MS-DTYP 2.4.6).
    Control(u16) {
        /// The owner came from a default.
        OWNER_DEFAULTED = 0x0001,
        /// The group came from a default.
        GROUP_DEFAULTED = 0x0002,
        /// There is a DACL, perhaps null.
        DACL_PRESENT = 0x0004,
        /// The DACL came from a default.
        DACL_DEFAULTED = 0x0008,
        /// There is a SACL, perhaps null.
        SACL_PRESENT = 0x0010,
        /// The SACL came from a default.
        SACL_DEFAULTED = 0x0020,
        /// The DACL comes from a trusted source.
        DACL_TRUSTED = 0x0040,
        /// The server computes the ACL.
        SERVER_SECURITY = 0x0080,
        /// Children are to inherit the DACL anew.
        DACL_AUTO_INHERIT_REQ = 0x0100,
        /// Children are to inherit the SACL anew.
        SACL_AUTO_INHERIT_REQ = 0x0200,
        /// The DACL was inherited.
        DACL_AUTO_INHERITED = 0x0400,
        /// The SACL was inherited.
        SACL_AUTO_INHERITED = 0x0800,
        /// The DACL inherits nothing.
        DACL_PROTECTED = 0x1000,
        /// The SACL inherits nothing.
        SACL_PROTECTED = 0x2000,
        /// The byte beside the revision means something to a resource manager.
        RM_CONTROL_VALID = 0x4000,
        /// The parts follow the header.
        SELF_RELATIVE = 0x8000,
    }
}

flags! {
    /// Which parts of a descriptor are asked for or set (MS-DTYP 2.4.7).
    SecurityInformation(u32) {
        /// The owner.
        OWNER = 0x0000_0001,
        /// The group.
        GROUP = 0x0000_0002,
        /// The DACL.
        DACL = 0x0000_0004,
        /// The SACL.
        SACL = 0x0000_0008,
        /// The integrity label in the SACL.
        LABEL = 0x0000_0010,
        /// The resource attributes in the SACL.
        ATTRIBUTE = 0x0000_0020,
        /// The central policy in the SACL.
        SCOPE = 0x0000_0040,
        /// Everything, for a backup.
        BACKUP = 0x0001_0000,
        /// The SACL stops inheriting nothing.
        UNPROTECTED_SACL = 0x1000_0000,
        /// The DACL stops inheriting nothing.
        UNPROTECTED_DACL = 0x2000_0000,
        /// The SACL inherits nothing from now on.
        PROTECTED_SACL = 0x4000_0000,
        /// The DACL inherits nothing from now on.
        PROTECTED_DACL = 0x8000_0000,
    }
}

/// The control bits that belong to the DACL.
const DACL_BITS: Control = Control::DACL_PRESENT
    .union(Control::DACL_DEFAULTED)
    .union(Control::DACL_TRUSTED)
    .union(Control::DACL_AUTO_INHERIT_REQ)
    .union(Control::DACL_AUTO_INHERITED)
    .union(Control::DACL_PROTECTED);
/// The control bits that belong to the SACL.
const SACL_BITS: Control = Control::SACL_PRESENT
    .union(Control::SACL_DEFAULTED)
    .union(Control::SACL_AUTO_INHERIT_REQ)
    .union(Control::SACL_AUTO_INHERITED)
    .union(Control::SACL_PROTECTED);

/// A security descriptor. A DACL that is `None` lets everyone do everything, whether
/// [`Control::DACL_PRESENT`] is set (a null DACL) or not (no DACL).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityDescriptor {
    /// What is known of the parts. [`Control::SELF_RELATIVE`] is always set when encoded; DACL_PRESENT and
    /// SACL_PRESENT too where there is such a list.
    pub control: Control,
    /// Who owns the object.
    pub owner: Option<Sid>,
    /// The owner's primary group.
    pub group: Option<Sid>,
    /// What is audited.
    pub sacl: Option<Acl>,
    /// Who may do what.
    pub dacl: Option<Acl>,
}

impl SecurityDescriptor {
    /// Reads a self-relative descriptor. Parts that lie outside `bytes`, in the header or over one another are
    /// malformed, save that owner and group may be one and the same SID.
    ///
    /// | offset | length | field |
    /// |---|---|---|
    /// | 0 | 1 | Revision: 1 |
    /// | 1 | 1 | Sbz1 |
    /// | 2 | 2 | Control |
    /// | 4 | 4 | OffsetOwner, zero for none |
    /// | 8 | 4 | OffsetGroup |
    /// | 12 | 4 | OffsetSacl, with SACL_PRESENT |
    /// | 16 | 4 | OffsetDacl, with DACL_PRESENT |
    pub fn decode(bytes: &[u8]) -> Result<SecurityDescriptor, Malformed> {
        if bytes.len() > LENGTH_MAX {
            return Err(Malformed("security descriptor is longer than 64 KiB"));
        }
        let mut reader = Reader::new(bytes);
        if reader.u8()? != REVISION {
            return Err(Malformed("security descriptor revision"));
        }
        reader.skip(1)?;
        let control = Control(reader.u16()?);
        if !control.contains(Control::SELF_RELATIVE) {
            return Err(Malformed("security descriptor is not self-relative"));
        }
        let mut parts = Parts { bytes, taken: Vec::new() };
        let [owner, group, sacl, dacl] = [reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?];
        let present = |bit, offset| if control.contains(bit) { offset } else { 0 };
        let owner_sid = parts.sid(owner)?;
        let group_sid = if group == owner { owner_sid } else { parts.sid(group)? };
        Ok(SecurityDescriptor {
            control,
            owner: owner_sid,
            group: group_sid,
            sacl: parts.acl(present(Control::SACL_PRESENT, sacl))?,
            dacl: parts.acl(present(Control::DACL_PRESENT, dacl))?,
        })
    }

    /// The descriptor in its self-relative form; `None` where an ACL or the whole would exceed 64 KiB. A resource
    /// manager's byte is not kept, so that [`Control::RM_CONTROL_VALID`] is cleared.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let acl_length = |acl: &Option<Acl>| acl.as_ref().map_or(0, Acl::length);
        let (sacl, dacl) = (acl_length(&self.sacl), acl_length(&self.dacl));
        let sid_length = |sid: &Option<Sid>| sid.as_ref().map_or(0, Sid::length);
        let length = HEADER_BYTES + sacl + dacl + sid_length(&self.owner) + sid_length(&self.group);
        if length > LENGTH_MAX || sacl.max(dacl) > usize::from(u16::MAX) {
            return None;
        }
        let mut out = Vec::with_capacity(length);
        let mut writer = Writer::new(&mut out);
        writer.u8(REVISION);
        writer.u8(0);
        writer.u16(self.encoded_control().0);
        writer.zeros(HEADER_BYTES - writer.position());
        self.write_parts(&mut writer);
        Some(out)
    }

    /// Only the parts that `which` names: what a query answers. Control bits of the other parts are cleared.
    pub fn select(&self, which: SecurityInformation) -> SecurityDescriptor {
        let mut selected = SecurityDescriptor::default();
        selected.take_parts(self, which);
        selected
    }

    /// This descriptor once the parts that `which` names are set to those of `new` (MS-FSA 2.1.5.17). A list counts
    /// as automatically inherited only where `new` also asks for that (AUTO_INHERIT_REQ, which is not kept), as
    /// Windows has it.
    pub fn replace(&mut self, new: &SecurityDescriptor, which: SecurityInformation) {
        let mut new = new.clone();
        for (requested, inherited) in [
            (Control::DACL_AUTO_INHERIT_REQ, Control::DACL_AUTO_INHERITED),
            (Control::SACL_AUTO_INHERIT_REQ, Control::SACL_AUTO_INHERITED),
        ] {
            if !new.control.contains(requested) {
                new.control = new.control.without(inherited);
            }
            new.control = new.control.without(requested);
        }
        self.take_parts(&new, which);
    }

    fn take_parts(&mut self, from: &SecurityDescriptor, which: SecurityInformation) {
        let mut bits = Control::NONE;
        if which.contains(SecurityInformation::OWNER) {
            self.owner = from.owner;
            bits |= Control::OWNER_DEFAULTED;
        }
        if which.contains(SecurityInformation::GROUP) {
            self.group = from.group;
            bits |= Control::GROUP_DEFAULTED;
        }
        if which.contains(SecurityInformation::DACL) {
            self.dacl = from.dacl.clone();
            bits |= DACL_BITS;
        }
        if which.contains(SecurityInformation::SACL) {
            self.sacl = from.sacl.clone();
            bits |= SACL_BITS;
        }
        self.control = self.control.without(bits) | (from.control & bits);
    }

    fn encoded_control(&self) -> Control {
        let mut control = self.control | Control::SELF_RELATIVE;
        if self.dacl.is_some() {
            control |= Control::DACL_PRESENT;
        }
        if self.sacl.is_some() {
            control |= Control::SACL_PRESENT;
        }
        control.without(Control::RM_CONTROL_VALID)
    }

    /// Lists first, as Windows lays them out.
    fn write_parts(&self, writer: &mut Writer<'_>) {
        for (field, acl) in [(12, &self.sacl), (16, &self.dacl)] {
            if let Some(acl) = acl {
                writer.patch_u32(field, writer.position() as u32);
                acl.write(writer);
            }
        }
        for (field, sid) in [(4, &self.owner), (8, &self.group)] {
            if let Some(sid) = sid {
                writer.patch_u32(field, writer.position() as u32);
                sid.write(writer);
            }
        }
    }
}

/// Reads parts at their offsets and sees that no two of them overlap.
struct Parts<'a> {
    bytes: &'a [u8],
    /// At most four: start and end of each part.
    taken: Vec<(usize, usize)>,
}

impl Parts<'_> {
    fn sid(&mut self, offset: u32) -> Result<Option<Sid>, Malformed> {
        let Some(bytes) = self.part(offset)? else { return Ok(None) };
        let sid = Sid::decode(bytes)?;
        self.take(offset, sid.length())?;
        Ok(Some(sid))
    }

    fn acl(&mut self, offset: u32) -> Result<Option<Acl>, Malformed> {
        let Some(bytes) = self.part(offset)? else { return Ok(None) };
        let (acl, length) = Acl::decode(bytes)?;
        self.take(offset, length)?;
        Ok(Some(acl))
    }

    fn part(&self, offset: u32) -> Result<Option<&[u8]>, Malformed> {
        match offset as usize {
            0 => Ok(None),
            1..HEADER_BYTES => Err(Malformed("security descriptor offset lies in the header")),
            offset => self.bytes.get(offset..).map(Some).ok_or(Malformed("security descriptor offset")),
        }
    }

    fn take(&mut self, offset: u32, length: usize) -> Result<(), Malformed> {
        let (start, end) = (offset as usize, offset as usize + length);
        if self.taken.iter().any(|&(other_start, other_end)| start < other_end && other_start < end) {
            return Err(Malformed("security descriptor parts overlap"));
        }
        self.taken.push((start, end));
        Ok(())
    }
}
