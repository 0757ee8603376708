//! What is told of a file, directory or stream (MS-SMB2 3.3.5.20.1, MS-FSA 2.1.5.12).

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use store::{Error, Kind, Metadata, Waits};
use wire::command::query_info::QueryInfoRequest;
use wire::fscc::file::{
    Access, Alignment, AllFixed, AttributeTag, Basic, Compression, Ea, Id, Internal, Mode, ModeFlags, NetworkOpen,
    Position, Standard, encode_name,
};
use wire::fscc::stream::StreamWriter;
use wire::fscc::{FileAttributes, FileClass};
use wire::ids::{Dialect, FileTime};
use wire::security::access::READ_ATTRIBUTES;
use wire::status::Status;

use super::{BODY_BYTES, Room, extended, finish, pipe};
use crate::command::context::{Context, Outcome, Reply};
use crate::state::afp::{self, AfpStream};
use crate::state::attributes;
use crate::state::open::{FileOpen, Open, Target};
use crate::state::refusal::Refusal;

/// The least room for a list of streams: one entry with one character of a name.
const STREAM_BYTES_MIN: usize = 32;
/// The most streams that a shard looks at itself. Each may take some microseconds on tmpfs.
const INLINE_STREAMS_MAX: usize = 64;
/// As many bytes of work take as long as a look at one.
const STREAM_COST: u64 = 2 << 10;
/// The least room for FILE_NAME_INFORMATION, one character included and aligned.
const NAME_BYTES_MIN: usize = 8;
/// The same for FileAllInformation.
const ALL_BYTES_MIN: usize = (AllFixed::LENGTH + 4 + 2).next_multiple_of(8);

pub(super) async fn query(context: &Context, request: &QueryInfoRequest<'_>) -> Outcome {
    let open = context.open()?;
    let (class, room) = (request.class.file(), Room::of(request));
    let file = match &open.target {
        Target::File(file) => file,
        Target::Pipe(_) => return pipe::query(class, room),
    };
    if class == FileClass::FULL_EA {
        return extended::query(context, request).await;
    }
    room.require(fixed_bytes(class)?)?;
    if needs_read_attributes(class) {
        open.require(READ_ATTRIBUTES)?;
    }
    match class {
        // MS-FSA 2.1.5.12.1.
        FileClass::ACCESS => Ok(room.reply(|out| Access { access: open.rights().bits() }.encode(out))),
        // MS-FSA 2.1.5.12.23, 2.1.5.12.18, 2.1.5.12.2, 2.1.5.12.4, 2.1.5.12.30.
        FileClass::POSITION => Ok(room.reply(|out| position(file).encode(out))),
        FileClass::MODE => Ok(room.reply(|out| mode(file).encode(out))),
        FileClass::ALIGNMENT => Ok(room.reply(|out| Alignment::default().encode(out))),
        FileClass::ALTERNATE_NAME => alternate_name(file, room),
        FileClass::NORMALIZED_NAME => normalized_name(context, file, room),
        FileClass::STREAM => streams(context, room).await,
        _ => {
            let known = Known::of(context, class).await?;
            let mut is_told = false;
            let reply = room.reply(|out| is_told = known.write(class, open, file, out));
            if is_told { Ok(reply) } else { Err(Status::INVALID_INFO_CLASS.into()) }
        }
    }
}

/// The length of a class's fixed part, or why there is no such class to ask for (MS-SMB2 3.3.5.20.1 with notes 415 and 416).
fn fixed_bytes(class: FileClass) -> Result<usize, Status> {
    Ok(match class {
        FileClass::BASIC => Basic::LENGTH,
        FileClass::STANDARD => Standard::LENGTH,
        FileClass::INTERNAL => Internal::LENGTH,
        FileClass::EA => Ea::LENGTH,
        FileClass::ACCESS => Access::LENGTH,
        FileClass::POSITION => Position::LENGTH,
        FileClass::MODE => Mode::LENGTH,
        FileClass::ALIGNMENT => Alignment::LENGTH,
        FileClass::ALL => ALL_BYTES_MIN,
        FileClass::ALTERNATE_NAME | FileClass::NORMALIZED_NAME => NAME_BYTES_MIN,
        FileClass::STREAM => STREAM_BYTES_MIN,
        FileClass::COMPRESSION => Compression::LENGTH,
        FileClass::NETWORK_OPEN => NetworkOpen::LENGTH,
        FileClass::ATTRIBUTE_TAG => AttributeTag::LENGTH,
        FileClass::ID => Id::LENGTH,
        FileClass(1..=3 | 10..=13 | 19..=20 | 27 | 31 | 36..=40 | 50) => return Err(Status::INVALID_INFO_CLASS),
        FileClass(1..=47 | 49 | 51 | 53 | 54) => return Err(Status::NOT_SUPPORTED),
        FileClass(52) => return Err(Status::INFO_LENGTH_MISMATCH),
        _ => return Err(Status::INVALID_INFO_CLASS),
    })
}

fn needs_read_attributes(class: FileClass) -> bool {
    matches!(class, FileClass::BASIC | FileClass::ALL | FileClass::NETWORK_OPEN | FileClass::ATTRIBUTE_TAG)
}

fn position(file: &FileOpen) -> Position {
    Position { offset: file.position.load(Ordering::Relaxed) }
}

fn mode(file: &FileOpen) -> Mode {
    let mode = ModeFlags(file.mode.load(Ordering::Relaxed));
    Mode { mode: mode.without(ModeFlags::DELETE_ON_CLOSE) }
}

/// What the store knows of a file.
struct Known {
    metadata: Metadata,
    ea_bytes: u32,
}

impl Known {
    /// Asks for what `class` tells: here where it is in memory, else on the pool.
    async fn of(context: &Context, class: FileClass) -> Result<Known, Refusal> {
        let (open, file) = context.file()?;
        let with_eas = matches!(class, FileClass::EA | FileClass::ALL);
        let ea_bytes = move |file: &FileOpen| if with_eas { extended::total_bytes(&**file.base()) } else { Ok((0, 0)) };
        let here = attributes::try_of(file).and_then(|metadata| Ok((metadata, ea_bytes(file)?)));
        match here {
            Err(Error::WouldBlock) => {
                let open = Arc::clone(open);
                context
                    .work(move || {
                        let file = open.file()?;
                        Ok(Known { metadata: attributes::of(file)?, ea_bytes: ea_bytes(file)?.0 })
                    })
                    .await?
            }
            known => {
                let (metadata, (ea_bytes, cost)) = known?;
                context.in_flight.note_done_here(cost);
                Ok(Known { metadata, ea_bytes })
            }
        }
    }

    /// False where it does not tell what `class` asks for.
    fn write(&self, class: FileClass, open: &Open, file: &FileOpen, out: &mut Vec<u8>) -> bool {
        let known = &self.metadata;
        match class {
            // MS-FSA 2.1.5.12.6, 2.1.5.12.27, 2.1.5.12.17, 2.1.5.12.10.
            FileClass::BASIC => self.basic().encode(out),
            FileClass::STANDARD => self.standard(file).encode(out),
            FileClass::INTERNAL => Internal { file_id: known.identity.file }.encode(out),
            FileClass::EA => Ea { ea_size: self.ea_bytes }.encode(out),
            // MS-FSA 2.1.5.12.8, 2.1.5.12.21, 2.1.5.12.5, 2.1.5.12.31, 2.1.5.12.3.
            FileClass::COMPRESSION => {
                Compression { compressed_size: known.allocated, ..Compression::default() }.encode(out);
            }
            FileClass::NETWORK_OPEN => self.network_open().encode(out),
            FileClass::ATTRIBUTE_TAG => {
                AttributeTag { attributes: self.attributes(), reparse_tag: attributes::reparse_tag(known) }.encode(out);
            }
            FileClass::ID => self.id().encode(out),
            FileClass::ALL => self.all(open, file).encode_with_name(&absolute_name(file), out),
            _ => return false,
        }
        true
    }

    fn attributes(&self) -> FileAttributes {
        FileAttributes(attributes::on_the_wire(&self.metadata))
    }

    fn basic(&self) -> Basic {
        let known = &self.metadata;
        Basic {
            creation: FileTime(known.creation.0),
            access: FileTime(known.access.0),
            write: FileTime(known.write.0),
            change: FileTime(known.change.0),
            attributes: self.attributes(),
        }
    }

    fn standard(&self, file: &FileOpen) -> Standard {
        let known = &self.metadata;
        let name_goes = file.file.is_delete_pending(file.actor.open, "");
        let names = if known.kind == Kind::Directory { 1 } else { known.links };
        Standard {
            allocation: known.allocated,
            end_of_file: known.length,
            links: names.saturating_sub(u32::from(name_goes)),
            delete_pending: names == 0 || file.file.is_delete_pending(file.actor.open, &file.stream_name()),
            directory: known.kind == Kind::Directory,
        }
    }

    fn network_open(&self) -> NetworkOpen {
        let Basic { creation, access, write, change, attributes } = self.basic();
        let (allocation, end_of_file) = (self.metadata.allocated, self.metadata.length);
        NetworkOpen { creation, access, write, change, allocation, end_of_file, attributes }
    }

    fn id(&self) -> Id {
        let mut file_id = [0; 16];
        file_id[..8].copy_from_slice(&self.metadata.identity.file.to_le_bytes());
        Id { volume: self.metadata.identity.volume, file_id }
    }

    fn all(&self, open: &Open, file: &FileOpen) -> AllFixed {
        AllFixed {
            basic: self.basic(),
            standard: self.standard(file),
            internal: Internal { file_id: self.metadata.identity.file },
            ea: Ea { ea_size: self.ea_bytes },
            access: Access { access: open.rights().bits() },
            position: position(file),
            mode: mode(file),
            alignment: Alignment::default(),
        }
    }
}

/// The name from the share's root, as FileAllInformation has it (MS-SMB2 note 420; later Windows leaves it out).
fn absolute_name(file: &FileOpen) -> String {
    format!("\\{}", relative_name(file))
}

fn relative_name(file: &FileOpen) -> String {
    let path = file.path.now().as_str().to_owned();
    match file.stream_name() {
        stream if stream.is_empty() => path,
        stream => format!("{path}:{stream}"),
    }
}

/// FileAlternateNameInformation. There are no short names, so that the name itself is what a client may use in their place.
fn alternate_name(file: &FileOpen, room: Room) -> Outcome {
    let path = file.path.now();
    let name = path.name().ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
    Ok(room.reply(|out| encode_name(name, out)))
}

/// FileNormalizedNameInformation: only from 3.1.1 on.
fn normalized_name(context: &Context, file: &FileOpen, room: Room) -> Outcome {
    if context.connection.negotiation.borrow().dialect() != Some(Dialect::SMB_3_1_1) {
        return Err(Status::NOT_SUPPORTED.into());
    }
    Ok(room.reply(|out| encode_name(&relative_name(file), out)))
}

/// FileStreamInformation (MS-FSA 2.1.5.12.29): of a file its data first, then the named streams that fit.
async fn streams(context: &Context, room: Room) -> Outcome {
    let (_, file) = context.file()?;
    if file.node.waits() == Waits::Never {
        match Streams::of(file, room, INLINE_STREAMS_MAX) {
            Err(Error::WouldBlock) => {}
            listed => {
                let listed = listed?;
                context.in_flight.note_done_here(listed.walked as u64 * STREAM_COST);
                if !listed.is_cut {
                    return Ok(listed.reply());
                }
            }
        }
    }
    let open = Arc::clone(context.open()?);
    let all = context.on_pool(move || Ok::<_, Refusal>(Streams::of(open.file()?, room, usize::MAX)?)).await??;
    Ok(all.reply())
}

/// Whether it counts what an AFP_AfpInfo holds, and is not known.
enum MacInfo {
    Seen,
    Unknown,
}

/// The streams that are told.
struct Streams {
    body: Vec<u8>,
    all_fit: bool,
    /// There are more than were to be looked at.
    is_cut: bool,
    walked: usize,
}

impl Streams {
    /// Looks at `walked_max` of them at most, and at none behind the first that does not fit.
    fn of(file: &FileOpen, room: Room, walked_max: usize) -> Result<Self, Error> {
        match Streams::within(file, room, walked_max, None)? {
            (listed, MacInfo::Unknown) => {
                let hidden = afp::hides_info(&**file.base())?;
                let (again, _) = Streams::within(file, room, walked_max, Some(hidden))?;
                Ok(Streams { walked: listed.walked + again.walked, ..again })
            }
            (listed, MacInfo::Seen) => Ok(listed),
        }
    }

    /// The same; `hides_info` is [`afp::hides_info`], where that is known. Where it is not and counts, what is told is not all.
    fn within(
        file: &FileOpen,
        room: Room,
        walked_max: usize,
        hides_info: Option<bool>,
    ) -> Result<(Self, MacInfo), Error> {
        let base = file.base();
        let mut info = MacInfo::Seen;
        let data = base.metadata()?;
        let mut listed = Streams { body: vec![0; BODY_BYTES], all_fit: true, is_cut: false, walked: 0 };
        let Streams { body, all_fit, is_cut, walked } = &mut listed;
        let mut writer = StreamWriter::new(body, room.0);
        *all_fit = data.kind == Kind::Directory || writer.push("", data.length, data.allocated);
        if *all_fit {
            base.extras().list_streams(&mut |stream| {
                *walked += 1;
                let hidden = match AfpStream::named(&stream.name) {
                    None => false,
                    Some(_) if stream.length == 0 => true,
                    Some(AfpStream::Resource) => false,
                    Some(AfpStream::Info) if hides_info.is_none() => {
                        info = MacInfo::Unknown;
                        return ControlFlow::Break(());
                    }
                    Some(AfpStream::Info) => hides_info == Some(true),
                };
                if hidden {
                    return ControlFlow::Continue(());
                }
                *is_cut = *walked > walked_max;
                *all_fit = *is_cut || writer.push(&stream.name, stream.length, stream.allocated);
                if *is_cut || !*all_fit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        Ok((listed, info))
    }

    fn reply(self) -> Reply {
        finish(if self.all_fit { Status::SUCCESS } else { Status::BUFFER_OVERFLOW }, self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_that_cannot_be_asked_for_are_told_apart() {
        for class in [FileClass::DIRECTORY, FileClass::RENAME, FileClass::DISPOSITION, FileClass(99)] {
            assert_eq!(fixed_bytes(class), Err(Status::INVALID_INFO_CLASS), "{class:?}");
        }
        for class in [FileClass::NAME, FileClass::OBJECT_ID, FileClass::HARD_LINK, FileClass(41)] {
            assert_eq!(fixed_bytes(class), Err(Status::NOT_SUPPORTED), "{class:?}");
        }
        assert_eq!((fixed_bytes(FileClass::ALL), fixed_bytes(FileClass::BASIC)), (Ok(104), Ok(40)));
    }
}
