//! Extended attributes (MS-SMB2 3.3.5.20.1, MS-FSA 2.1.5.12.12).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use store::{Error, Node, fold};
use wire::command::query_info::{QueryInfoFlags, QueryInfoRequest};
use wire::fscc::ea::{FullEa, FullEaWriter, name_is_valid, names};
use wire::security::access::READ_EA;
use wire::status::Status;

use super::{BODY_BYTES, Room, finish};
use crate::command::context::{Context, Outcome};
use crate::state::extended;
use crate::state::refusal::Refusal;

/// What a list of attributes costs beside them.
const LIST_BYTES: usize = 4;
/// What one attribute costs beside its name and value.
const ONE_BYTES: usize = 5;

/// As many bytes of work take as long as a look at one attribute. There are 64 KiB of them at most, so no shard works on them for long.
const EA_COST: u64 = 256;
/// The same for a byte of a list of names that are asked for: a name takes eight of it at least.
const LIST_BYTE_COST: u64 = EA_COST / 8;

/// The length of a node's extended attributes as clients are told it (MS-FSA 2.1.5.12.10): zero where there are none. Gives too what
/// the look at them costs, in bytes of work. A file that the server may not read shows what else it is.
pub(super) fn total_bytes(node: &dyn Node) -> Result<(u32, u64), Error> {
    let all = match node.extras().extended() {
        Err(Error::Denied) => return Ok((0, 0)),
        all => all?,
    };
    if all.is_empty() {
        return Ok((0, 0));
    }
    let total = u32::try_from(LIST_BYTES + packed_bytes(&all)).unwrap_or(u32::MAX);
    Ok((total, all.len() as u64 * EA_COST))
}

/// ExtendedAttributesLength (MS-FSA 2.1.1.3).
pub(in crate::command) fn packed_bytes(all: &[(String, Vec<u8>)]) -> usize {
    all.iter().map(|(name, value)| ONE_BYTES + name.len() + value.len()).sum()
}

pub(super) async fn query(context: &Context, request: &QueryInfoRequest<'_>) -> Outcome {
    let (open, file) = context.file()?;
    open.require(READ_EA)?;
    let room = Room::of(request);
    let held = Arc::clone(open);
    if request.input.len() > extended::LIST_BYTES_MAX {
        return Err(Status::EA_LIST_INCONSISTENT.into());
    }
    if !request.input.is_empty() {
        let list = context.message.holding(request.input);
        let cost = list.len() as u64 * LIST_BYTE_COST;
        return context
            .work_on(cost, move || asked_for(&held.file()?.base().extras().extended()?, &list, room))
            .await?;
    }
    let all = context.work(move || Ok::<_, Refusal>(held.file()?.base().extras().extended()?)).await??;
    context.in_flight.note_done_here(all.len() as u64 * EA_COST);
    let flags = request.flags;
    let by_index = flags.contains(QueryInfoFlags::INDEX_SPECIFIED);
    let start = if by_index {
        let index = (request.additional_information as usize).checked_sub(1);
        index.filter(|index| *index < all.len()).ok_or(Status::NONEXISTENT_EA_ENTRY)?
    } else if flags.contains(QueryInfoFlags::RESTART_SCAN) {
        0
    } else {
        file.ea_position.load(Ordering::Relaxed)
    };
    if all.is_empty() {
        return Err(Status::NO_EAS_ON_FILE.into());
    }
    let rest = all.get(start..).filter(|rest| !rest.is_empty()).ok_or(Status::NO_MORE_EAS)?;
    let most = if flags.contains(QueryInfoFlags::RETURN_SINGLE_ENTRY) { 1 } else { rest.len() };
    let wanted = rest.iter().take(most).map(|(name, value)| FullEa { flags: 0, name: name.as_bytes(), value });
    let (reply, count) = list(wanted, room)?;
    if !by_index {
        file.ea_position.store(start + count, Ordering::Relaxed);
    }
    Ok(reply)
}

/// The attributes of a list of names; one that the file does not have is told with an empty value, as NTFS does.
fn asked_for(all: &[(String, Vec<u8>)], input: &[u8], room: Room) -> Outcome {
    let by_name: HashMap<String, &(String, Vec<u8>)> = all.iter().map(|ea| (fold(&ea.0), ea)).collect();
    let asked = names(input).collect::<Result<Vec<_>, _>>().map_err(|_| Status::EA_LIST_INCONSISTENT)?;
    if asked.iter().any(|name| !name_is_valid(name)) {
        return Err(Status::INVALID_EA_NAME.into());
    }
    let wanted = asked.into_iter().map(|name| {
        let known = std::str::from_utf8(name).ok().and_then(|name| by_name.get(&fold(name)));
        match known {
            Some((name, value)) => FullEa { flags: 0, name: name.as_bytes(), value },
            None => FullEa { flags: 0, name, value: &[] },
        }
    });
    Ok(list(wanted, room)?.0)
}

/// Those of `wanted` for which there is room, and how many that are.
fn list<'a>(
    wanted: impl Iterator<Item = FullEa<'a>>,
    room: Room,
) -> Result<(crate::command::context::Reply, usize), Refusal> {
    let mut body = vec![0; BODY_BYTES];
    let mut writer = FullEaWriter::new(&mut body, room.0);
    let (mut count, mut all_fit) = (0, true);
    for ea in wanted {
        if !writer.push(&ea) {
            all_fit = false;
            break;
        }
        count += 1;
    }
    match (all_fit, count) {
        (false, 0) => Err(Status::BUFFER_TOO_SMALL.into()),
        (false, _) => Ok((finish(Status::BUFFER_OVERFLOW, body), count)),
        (true, _) => Ok((finish(Status::SUCCESS, body), count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::fscc::ea::{NameWriter, full_eas};

    fn stored() -> Vec<(String, Vec<u8>)> {
        vec![("FIRST".into(), b"one".to_vec()), ("second".into(), b"two".to_vec())]
    }

    #[test]
    fn names_are_found_in_any_case_and_missing_ones_are_empty() {
        let mut input = Vec::new();
        let mut writer = NameWriter::new(&mut input, 100);
        assert!(writer.push(b"Second") && writer.push(b"third"));
        let reply = asked_for(&stored(), &input, Room(1000)).unwrap();
        let told: Vec<_> = full_eas(&reply.body[BODY_BYTES..]).map(|ea| ea.map(|ea| (ea.name, ea.value))).collect();
        assert_eq!(told, [Ok((&b"second"[..], &b"two"[..])), Ok((&b"third"[..], &b""[..]))]);
    }

    #[test]
    fn a_list_of_names_that_is_none_is_inconsistent() {
        assert_eq!(asked_for(&stored(), &[1, 2, 3], Room(9)).unwrap_err().status, Status::EA_LIST_INCONSISTENT);
    }

    #[test]
    fn what_does_not_fit_overflows_and_the_first_must() {
        let all = stored();
        let wanted = || all.iter().map(|(name, value)| FullEa { flags: 0, name: name.as_bytes(), value });
        assert_eq!(
            list(wanted(), Room(20)).map(|(reply, count)| (reply.status, count)).unwrap(),
            (Status::BUFFER_OVERFLOW, 1)
        );
        assert_eq!(list(wanted(), Room(10)).unwrap_err().status, Status::BUFFER_TOO_SMALL);
        assert_eq!(packed_bytes(&all), 5 + 5 + 3 + 5 + 6 + 3);
    }
}
