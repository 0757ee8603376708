//! Structures as rows of fields: most of what samr tells is some of the same dozen fields, in another order each time.

use crate::rpc::ndr::NdrWriter;

/// LARGE_INTEGER for a time that never comes.
pub(super) const NEVER: i64 = i64::MAX;
/// Hours in a week: when an account may be used is told for each (MS-SAMR 2.2.6.5).
const HOURS: u16 = 168;
/// What the array of hours has room for.
const HOURS_ROOM: usize = 1260;

/// One field.
pub(super) enum Field<'a> {
    /// RPC_UNICODE_STRING.
    Text(&'a str),
    /// unsigned long.
    Long(u32),
    /// unsigned short.
    Short(u16),
    /// unsigned char.
    Byte(u8),
    /// OLD_LARGE_INTEGER (MS-SAMR 2.2.2.2): the lower half and the upper.
    Time(i64),
    /// LARGE_INTEGER, aligned to eight bytes.
    Hyper(i64),
    /// RPC_SHORT_BLOB that is empty.
    NoBlob,
    /// SAMPR_SR_SECURITY_DESCRIPTOR that is empty.
    NoDescriptor,
    /// SAMPR_LOGON_HOURS: all of them.
    AllHours,
}

/// Writes rows of fields as an array has them: all fixed parts, then all that they point to.
pub(super) fn write_rows(ndr: &mut NdrWriter<'_>, rows: &[Vec<Field<'_>>]) {
    for row in rows {
        if row.iter().any(Field::points) {
            ndr.align_word();
        }
        row.iter().for_each(|field| field.write(ndr));
    }
    rows.iter().flatten().for_each(|field| field.write_pointed_to(ndr));
}

/// Writes one row.
pub(super) fn write_row(ndr: &mut NdrWriter<'_>, row: Vec<Field<'_>>) {
    write_rows(ndr, &[row]);
}

impl Field<'_> {
    fn points(&self) -> bool {
        match self {
            Field::Text(_) | Field::NoBlob | Field::NoDescriptor | Field::AllHours => true,
            Field::Long(_) | Field::Short(_) | Field::Byte(_) => false,
            Field::Time(_) | Field::Hyper(_) => false,
        }
    }

    fn write(&self, ndr: &mut NdrWriter<'_>) {
        match self {
            Field::Text(text) => ndr.counted_string(text),
            Field::Long(value) => ndr.u32(*value),
            Field::Short(value) => ndr.u16(*value),
            Field::Byte(value) => ndr.u8(*value),
            Field::Time(value) => {
                ndr.u32(*value as u32);
                ndr.u32((*value >> 32) as u32);
            }
            Field::Hyper(value) => ndr.u64(*value as u64),
            Field::NoBlob => {
                ndr.align_word();
                ndr.u16(0);
                ndr.u16(0);
                ndr.pointer(false);
            }
            Field::NoDescriptor => {
                ndr.align_word();
                ndr.u32(0);
                ndr.pointer(false);
            }
            Field::AllHours => {
                ndr.align_word();
                ndr.u16(HOURS);
                ndr.pointer(true);
            }
        }
    }

    fn write_pointed_to(&self, ndr: &mut NdrWriter<'_>) {
        match self {
            Field::Text(text) => ndr.text_of(text),
            Field::AllHours => {
                let bytes = [0xFF; HOURS as usize / 8];
                ndr.count(HOURS_ROOM);
                ndr.count(0);
                ndr.count(bytes.len());
                ndr.bytes(&bytes);
            }
            Field::Long(_) | Field::Short(_) | Field::Byte(_) => {}
            Field::Time(_) | Field::Hyper(_) | Field::NoBlob | Field::NoDescriptor => {}
        }
    }
}
