//! CREATE of what a symbolic link leads to: the server follows none, and tells the client where it leads (MS-SMB2 2.2.2.2.1).

use std::sync::Arc;

use store::LinkOnTheWay;
use wire::codec::{Utf16, utf16_bytes};
use wire::command::error::SymbolicLinkError;
use wire::security::access::READ_ATTRIBUTES;
use wire::status::Status;

use super::existing::{Asked, Judged, authorized};
use super::plan::Plan;
use crate::command::context::Context;
use crate::command::link_target::WireTarget;
use crate::state::refusal::Refusal;

/// The answer to who has come to a symbolic link; RETRY where there is none any more.
pub(super) async fn at_link(context: &Context, plan: &Plan) -> Refusal {
    find(context, plan).await.unwrap_or_else(|refusal| refusal)
}

async fn find(context: &Context, plan: &Plan) -> Result<Refusal, Refusal> {
    let (store, path) = (Arc::clone(context.store()?), plan.path.clone());
    let look = move || store.link_on(&path);
    let link = match plan.is_deep() {
        true => context.on_long_work_along(&plan.path, look).await??,
        false => context.work_along(&plan.path, look).await??,
    };
    let link = link.ok_or(Status::RETRY)?;
    // Who may not look at the link is not told what it says.
    let known = context.look(&link.node, |node| node.metadata()).await?;
    let asked = Asked { desired: READ_ATTRIBUTES, implied: 0, deletes_on_close: false };
    authorized(context, asked, &Judged::new(&link.node, &link.path, None), &known).await?;
    Ok(stopped(plan, &link))
}

/// STOPPED_ON_SYMLINK with what is left of the path.
fn stopped(plan: &Plan, link: &LinkOnTheWay) -> Refusal {
    let target = WireTarget::of(&link.target);
    let (substitute, print) = (utf16_bytes(&target.substitute), utf16_bytes(target.print()));
    let data = SymbolicLinkError {
        unparsed_path_length: u16::try_from(unparsed_bytes(plan, link)).unwrap_or(u16::MAX),
        substitute_name: Utf16::new(&substitute).unwrap_or_default(),
        print_name: Utf16::new(&print).unwrap_or_default(),
        flags: target.flags,
    };
    Refusal { data: data.to_bytes(), ..Status::STOPPED_ON_SYMLINK.into() }
}

/// Bytes of the name as it came that are behind the link, with the separators or the colon that they begin with. What leads nowhere else, as doubled
/// separators, counts where it stands.
fn unparsed_bytes(plan: &Plan, link: &LinkOnTheWay) -> usize {
    let units: Vec<char> = plan.name.chunks_exact(2).map(unit).collect();
    let (mut ends, mut begin) = (Vec::new(), 0);
    for part in units.split(|unit| *unit == '\\') {
        match part {
            [] | ['.'] => {}
            ['.', '.'] => drop(ends.pop()),
            name => ends.push(begin + name.iter().take_while(|unit| **unit != ':').count()),
        }
        begin += part.len() + 1;
    }
    let behind = link.path.names().count().checked_sub(1).and_then(|last| ends.get(last));
    2 * behind.map_or(0, |end| units.len() - end)
}

/// A unit of UTF-16, as far as it matters here.
fn unit(bytes: &[u8]) -> char {
    match bytes {
        [low, 0] => char::from(*low),
        _ => char::REPLACEMENT_CHARACTER,
    }
}
