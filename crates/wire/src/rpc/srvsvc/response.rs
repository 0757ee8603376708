//! What clients are told (MS-SRVS 2.2.4, 3.1.4).

use jiff::Timestamp;
use jiff::tz::Offset;

use crate::ids::FileTime;
use crate::rpc::Syntax;
use crate::rpc::ndr::NdrWriter;
use crate::rpc::srvsvc::in_use::Enumeration;
use crate::rpc::srvsvc::{Call, NetStatus, Server, Share, Srvsvc};

/// The most bytes of entries in one answer; the client asks for the rest.
const ENTRIES_BYTES_MAX: usize = 512 * 1024;
/// PLATFORM_ID_NT (MS-SRVS 2.2.2.6).
pub(crate) const PLATFORM_NT: u32 = 500;
/// SV_TYPE_WORKSTATION | SV_TYPE_SERVER | SV_TYPE_NT | SV_TYPE_SERVER_NT (MS-SRVS 2.2.2.7).
const SERVER_TYPE: u32 = 0x0000_9003;

/// Appends the stub that answers `call` to `out`.
pub fn answer(call: &Call<'_>, service: &dyn Srvsvc, syntax: Syntax, out: &mut Vec<u8>) {
    match call {
        Call::ShareEnum { level, preferred_bytes, resume } => {
            encode_shares(service, *level, *preferred_bytes, *resume, syntax, out);
        }
        Call::SessionEnum { .. } | Call::FileEnum { .. } => {
            let Some(mut enumeration) = Enumeration::of(call, syntax) else { return };
            out.extend(std::iter::repeat_with(|| enumeration.step(service)).find_map(|stub| stub).unwrap_or_default());
        }
        // What only administrators may know of a share and of the server (MS-SRVS notes 62 and 81).
        Call::ShareInfo { level: level @ (2 | 502 | 503), .. } if !service.may_administer() => {
            refuse(*level, syntax, out);
        }
        Call::ServerInfo { level: level @ 102 } if !service.may_administer() => refuse(*level, syntax, out),
        Call::ShareInfo { name, level } => {
            let share = name.decode().and_then(|name| service.share(&name));
            encode_share(share.as_ref(), *level, syntax, out);
        }
        Call::ServerInfo { level } => encode_server(&service.server(), *level, syntax, out),
        Call::RemoteTimeOfDay => encode_time_of_day(service.now(), syntax, out),
    }
}

/// The answer to who may not know what a level tells: a union with nothing in it.
fn refuse(level: u32, syntax: Syntax, out: &mut Vec<u8>) {
    let mut ndr = NdrWriter::new(out, syntax);
    union_tag(&mut ndr, level);
    ndr.pointer(false);
    ndr.u32(NetStatus::ACCESS_DENIED.0);
}

/// Appends NetrShareEnum's answer to `out`: as many shares from `resume` on as `preferred_bytes` have room for, one at least.
pub fn encode_shares(
    service: &dyn Srvsvc,
    level: u32,
    preferred_bytes: u32,
    resume: Option<u32>,
    syntax: Syntax,
    out: &mut Vec<u8>,
) {
    let mut ndr = NdrWriter::new(out, syntax);
    let known = matches!(level, 0 | 1 | 2 | 501 | 502);
    let start = resume.unwrap_or(0) as usize;
    let mut told = Vec::new();
    let mut room = Room((preferred_bytes as usize).min(ENTRIES_BYTES_MAX));
    let left = match known {
        true => service.shares(start, &mut |share| {
            let fits = room.take(&share) || told.is_empty();
            if fits {
                told.push(share);
            }
            fits
        }),
        false => 0,
    }
    .saturating_sub(start);
    let more = told.len() < left;
    ndr.u32(level);
    union_tag(&mut ndr, level);
    ndr.pointer(true);
    ndr.u32(told.len() as u32);
    ndr.pointer(known);
    if known {
        ndr.count(told.len());
        told.iter().for_each(|share| write_share(&mut ndr, share, level));
        told.iter().for_each(|share| write_share_strings(&mut ndr, share, level));
    }
    ndr.u32(left as u32);
    ndr.pointer(resume.is_some());
    if resume.is_some() {
        ndr.u32(if more { (start + told.len()) as u32 } else { 0 });
    }
    let status = match (known, more) {
        (false, _) => NetStatus::INVALID_LEVEL,
        (true, true) => NetStatus::MORE_DATA,
        (true, false) => NetStatus::SUCCESS,
    };
    ndr.u32(status.0);
}

/// Bytes left for shares.
struct Room(usize);

impl Room {
    /// True where `share` has room, too.
    fn take(&mut self, share: &Share) -> bool {
        // Room for the pointers, counts and numbers of the longest level in NDR64.
        const FIXED_BYTES: usize = 192;
        let wanted = FIXED_BYTES + 2 * (share.name.len() + share.comment.len() + share.path.len());
        let left = self.0.checked_sub(wanted);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

/// Appends NetrShareGetInfo's answer to `out`.
pub fn encode_share(share: Option<&Share>, level: u32, syntax: Syntax, out: &mut Vec<u8>) {
    let known = matches!(level, 0 | 1 | 2 | 501 | 502 | 1005);
    let status = match (known, share) {
        (false, _) => NetStatus::INVALID_LEVEL,
        (true, None) => NetStatus::NET_NAME_NOT_FOUND,
        (true, Some(_)) => NetStatus::SUCCESS,
    };
    let mut ndr = NdrWriter::new(out, syntax);
    union_tag(&mut ndr, level);
    let share = share.filter(|_| known);
    ndr.pointer(share.is_some());
    if let Some(share) = share {
        write_share(&mut ndr, share, level);
        write_share_strings(&mut ndr, share, level);
    }
    ndr.u32(status.0);
}

/// A union's discriminant, aligned as its arms, which are pointers.
pub(crate) fn union_tag(ndr: &mut NdrWriter<'_>, tag: u32) {
    ndr.align_word();
    ndr.u32(tag);
    ndr.align_word();
}

/// SHARE_INFO_level, its strings left for later.
fn write_share(ndr: &mut NdrWriter<'_>, share: &Share, level: u32) {
    if level == 1005 {
        return ndr.u32(share.flags);
    }
    ndr.pointer(true);
    if level == 0 {
        return;
    }
    ndr.u32(share.kind.0);
    ndr.pointer(true);
    if level == 501 {
        ndr.u32(share.flags);
    }
    if matches!(level, 2 | 502) {
        ndr.u32(0);
        ndr.u32(share.max_uses);
        ndr.u32(share.current_uses);
        ndr.pointer(true);
        ndr.pointer(false);
    }
    if level == 502 {
        ndr.u32(0);
        ndr.pointer(false);
    }
}

/// The strings of SHARE_INFO_level.
fn write_share_strings(ndr: &mut NdrWriter<'_>, share: &Share, level: u32) {
    if level == 1005 {
        return;
    }
    ndr.string(&share.name);
    if level != 0 {
        ndr.string(&share.comment);
    }
    if matches!(level, 2 | 502) {
        ndr.string(&share.path);
    }
}

/// Appends NetrServerGetInfo's answer to `out`: levels 100, 101 and 102.
pub fn encode_server(server: &Server, level: u32, syntax: Syntax, out: &mut Vec<u8>) {
    let known = matches!(level, 100..=102);
    let mut ndr = NdrWriter::new(out, syntax);
    union_tag(&mut ndr, level);
    ndr.pointer(known);
    if known {
        write_server(&mut ndr, server, level);
    }
    ndr.u32(if known { NetStatus::SUCCESS } else { NetStatus::INVALID_LEVEL }.0);
}

/// SERVER_INFO_level (MS-SRVS 2.2.4.40 to 2.2.4.42) and its strings.
fn write_server(ndr: &mut NdrWriter<'_>, server: &Server, level: u32) {
    ndr.align_word();
    ndr.u32(PLATFORM_NT);
    ndr.pointer(true);
    if level >= 101 {
        ndr.u32(server.version_major);
        ndr.u32(server.version_minor);
        ndr.u32(SERVER_TYPE);
        ndr.pointer(true);
    }
    if level == 102 {
        // Users without limit, sessions never cut for idleness, visible, announced every 240 s with 3 s of chance, no
        // licences: what Windows says by default.
        for value in [0xFFFF_FFFF, 15, 0, 240, 3000, 0] {
            ndr.u32(value);
        }
        ndr.pointer(true);
    }
    ndr.string(&server.name);
    if level >= 101 {
        ndr.string(&server.comment);
    }
    if level == 102 {
        ndr.string("c:\\");
    }
}

/// Appends NetrRemoteTOD's answer (MS-SRVS 2.2.4.105) to `out`. The time zone is UTC. A time after the year 9999, which has no date, is 1970.
pub fn encode_time_of_day(now: FileTime, syntax: Syntax, out: &mut Vec<u8>) {
    let (seconds, nanoseconds) = now.to_unix();
    let time = Timestamp::new(seconds, nanoseconds as i32).unwrap_or_default();
    let date = Offset::UTC.to_datetime(time);
    let hundredths = date.subsec_nanosecond() / 10_000_000;
    let fields: [i32; 10] = [
        date.hour().into(),
        date.minute().into(),
        date.second().into(),
        hundredths,
        0,
        310,
        date.day().into(),
        date.month().into(),
        date.year().into(),
        date.weekday().to_sunday_zero_offset().into(),
    ];
    let mut ndr = NdrWriter::new(out, syntax);
    ndr.pointer(true);
    ndr.u32(seconds as u32);
    ndr.u32((seconds * 1000 + i64::from(hundredths) * 10) as u32);
    fields.iter().for_each(|field| ndr.u32(*field as u32));
    ndr.u32(NetStatus::SUCCESS.0);
}
