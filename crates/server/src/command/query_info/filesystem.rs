//! What is told of a file system (MS-SMB2 3.3.5.20.2, MS-FSA 2.1.5.13).

use std::sync::Arc;

use store::{Facts, Resolved, SharePath, Space, Time, Use};
use wire::command::query_info::QueryInfoRequest;
use wire::fscc::FileSystemClass;
use wire::fscc::filesystem::{
    Attribute, Control, Device, DeviceCharacteristics, DeviceKind, Extended, FileSystemAttributes, FullSize, ObjectId,
    SectorSize, SectorSizeFlags, Size, Volume,
};
use wire::ids::{FileTime, Guid};
use wire::status::Status;

use super::Room;
use crate::command::context::{Context, Outcome};
use crate::state::refusal::Refusal;

/// Bytes in a sector, of which allocation units are made.
const SECTOR_BYTES: u32 = 512;
/// The most characters in a name (MS-FSCC 2.1.5.2).
const NAME_LENGTH_MAX: u32 = 255;
/// The name that makes clients use all of what NTFS has.
const FILE_SYSTEM: &str = "NTFS";
/// No limit, in FileFsControlInformation.
const UNLIMITED: u64 = u64::MAX;
/// The least room for FileFsVolumeInformation: without its label, aligned.
const VOLUME_BYTES_MIN: usize = 24;
/// The least room for FileFsAttributeInformation: without its name.
const ATTRIBUTE_BYTES_MIN: usize = 16;

pub(super) async fn query(context: &Context, request: &QueryInfoRequest<'_>) -> Outcome {
    let store = context.store()?;
    let (class, room) = (request.class.file_system(), Room::of(request));
    room.require(fixed_bytes(class)?)?;
    let facts = store.facts();
    Ok(match class {
        // MS-FSA 2.1.5.13.1.
        FileSystemClass::VOLUME => {
            let label = &*context.tree()?.share;
            let creation = FileTime(created(context).await?.0);
            let volume = Volume { creation, serial_number: serial_number(&facts), supports_objects: false, label };
            room.reply(|out| {
                let start = out.len();
                volume.encode(out);
                // Clients expect the structure with its padding, however short the label.
                out.resize(out.len().max(start + VOLUME_BYTES_MIN), 0);
            })
        }
        // MS-FSA 2.1.5.13.3, 2.1.5.13.7.
        FileSystemClass::SIZE => {
            let units = Units::of(&facts, &space(context).await?);
            room.reply(|out| units.size().encode(out))
        }
        FileSystemClass::FULL_SIZE => {
            let units = Units::of(&facts, &space(context).await?);
            room.reply(|out| units.full_size().encode(out))
        }
        // MS-FSA 2.1.5.13.4, 2.1.5.13.5, 2.1.5.13.6, 2.1.5.13.8, 2.1.5.13.10.
        FileSystemClass::DEVICE => room.reply(|out| device(context, &facts).encode(out)),
        FileSystemClass::ATTRIBUTE => room.reply(|out| attribute(context, &facts).encode(out)),
        FileSystemClass::CONTROL => room.reply(|out| control().encode(out)),
        FileSystemClass::OBJECT_ID => room.reply(|out| object_id(&facts).encode(out)),
        FileSystemClass::SECTOR_SIZE => room.reply(|out| sector_size().encode(out)),
        _ => return Err(Status::INVALID_INFO_CLASS.into()),
    })
}

fn fixed_bytes(class: FileSystemClass) -> Result<usize, Status> {
    Ok(match class {
        FileSystemClass::VOLUME => VOLUME_BYTES_MIN,
        FileSystemClass::SIZE => Size::LENGTH,
        FileSystemClass::FULL_SIZE => FullSize::LENGTH,
        FileSystemClass::DEVICE => Device::LENGTH,
        FileSystemClass::ATTRIBUTE => ATTRIBUTE_BYTES_MIN,
        FileSystemClass::CONTROL => Control::LENGTH,
        FileSystemClass::OBJECT_ID => ObjectId::LENGTH,
        FileSystemClass::SECTOR_SIZE => SectorSize::LENGTH,
        FileSystemClass::LABEL | FileSystemClass::DRIVER_PATH | FileSystemClass::VOLUME_FLAGS => {
            return Err(Status::NOT_SUPPORTED);
        }
        _ => return Err(Status::INVALID_INFO_CLASS),
    })
}

async fn space(context: &Context) -> Result<Space, Refusal> {
    let store = Arc::clone(context.store()?);
    Ok(context.work(move || store.space()).await??)
}

/// When the share's root was made.
async fn created(context: &Context) -> Result<Time, Refusal> {
    let store = Arc::clone(context.store()?);
    let root = move || match store.resolve(&SharePath::root(), Use::Metadata)? {
        Resolved::Found { node, .. } => Ok(node.metadata()?.creation),
        Resolved::Missing { .. } => Err(store::Error::Gone),
    };
    Ok(context.work(root).await??)
}

/// Space in allocation units.
struct Units {
    total: u64,
    free: u64,
    sectors_per_unit: u32,
}

impl Units {
    fn of(facts: &Facts, space: &Space) -> Units {
        let sectors_per_unit = (facts.unit_bytes / SECTOR_BYTES).max(1);
        let unit_bytes = u64::from(sectors_per_unit * SECTOR_BYTES);
        Units { total: space.total_bytes / unit_bytes, free: space.free_bytes / unit_bytes, sectors_per_unit }
    }

    fn size(&self) -> Size {
        Size {
            total_units: self.total,
            available_units: self.free,
            sectors_per_unit: self.sectors_per_unit,
            bytes_per_sector: SECTOR_BYTES,
        }
    }

    fn full_size(&self) -> FullSize {
        FullSize {
            total_units: self.total,
            caller_available_units: self.free,
            actual_available_units: self.free,
            sectors_per_unit: self.sectors_per_unit,
            bytes_per_sector: SECTOR_BYTES,
        }
    }
}

fn device(context: &Context, facts: &Facts) -> Device {
    let mut characteristics = DeviceCharacteristics::DEVICE_IS_MOUNTED;
    if is_read_only(context, facts) {
        characteristics |= DeviceCharacteristics::READ_ONLY_DEVICE;
    }
    Device { kind: DeviceKind::DISK, characteristics }
}

fn attribute(context: &Context, facts: &Facts) -> Attribute<&'static str> {
    let mut attributes = FileSystemAttributes::CASE_SENSITIVE_SEARCH
        | FileSystemAttributes::CASE_PRESERVED_NAMES
        | FileSystemAttributes::UNICODE_ON_DISK
        | FileSystemAttributes::PERSISTENT_ACLS
        | FileSystemAttributes::SUPPORTS_SPARSE_FILES
        | FileSystemAttributes::SUPPORTS_REPARSE_POINTS
        | FileSystemAttributes::NAMED_STREAMS
        | FileSystemAttributes::SUPPORTS_HARD_LINKS
        | FileSystemAttributes::SUPPORTS_EXTENDED_ATTRIBUTES;
    if facts.shares_extents {
        attributes |= FileSystemAttributes::SUPPORTS_BLOCK_REFCOUNTING;
    }
    if is_read_only(context, facts) {
        attributes |= FileSystemAttributes::READ_ONLY_VOLUME;
    }
    Attribute { attributes, name_length_max: NAME_LENGTH_MAX, name: FILE_SYSTEM }
}

fn is_read_only(context: &Context, facts: &Facts) -> bool {
    facts.read_only || context.tree.as_ref().is_some_and(|tree| tree.is_read_only())
}

fn control() -> Control {
    Control { default_quota_threshold: UNLIMITED, default_quota_limit: UNLIMITED, ..Control::default() }
}

/// Both halves of the volume's number, of which one may be the same for many volumes.
fn serial_number(facts: &Facts) -> u32 {
    (facts.volume ^ (facts.volume >> 32)) as u32
}

fn object_id(facts: &Facts) -> ObjectId {
    let mut object_id = [0; 16];
    object_id[..8].copy_from_slice(&facts.volume.to_le_bytes());
    ObjectId { object_id: Guid(object_id), extended: Extended::default() }
}

fn sector_size() -> SectorSize {
    SectorSize {
        logical_bytes: SECTOR_BYTES,
        physical_bytes_for_atomicity: SECTOR_BYTES,
        physical_bytes_for_performance: SECTOR_BYTES,
        effective_physical_bytes_for_atomicity: SECTOR_BYTES,
        flags: SectorSizeFlags::ALIGNED_DEVICE
            | SectorSizeFlags::PARTITION_ALIGNED_ON_DEVICE
            | SectorSizeFlags::TRIM_ENABLED,
        sector_alignment_offset: 0,
        partition_alignment_offset: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_told_in_units() {
        let facts = Facts {
            never_blocks: true,
            read_only: false,
            volume: 1,
            unit_bytes: 4096,
            shares_extents: false,
            file_length_max: 1,
        };
        let units = Units::of(&facts, &Space { total_bytes: 40_960, free_bytes: 8191 });
        assert_eq!((units.size().total_units, units.size().available_units), (10, 1));
        assert_eq!(units.full_size().sectors_per_unit, 8);
        let odd = Units::of(&Facts { unit_bytes: 0, ..facts }, &Space { total_bytes: 1024, free_bytes: 512 });
        assert_eq!((odd.total, odd.free), (2, 1));
    }

    #[test]
    fn local_classes_are_not_supported_and_others_do_not_exist() {
        assert_eq!(fixed_bytes(FileSystemClass::LABEL), Err(Status::NOT_SUPPORTED));
        assert_eq!(fixed_bytes(FileSystemClass(0)), Err(Status::INVALID_INFO_CLASS));
        assert_eq!(fixed_bytes(FileSystemClass::SECTOR_SIZE), Ok(28));
    }
}
