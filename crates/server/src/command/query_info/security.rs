//! The security descriptor (MS-SMB2 3.3.5.20.3, MS-FSA 2.1.5.14).

use wire::command::query_info::QueryInfoRequest;
use wire::security::access::{ACCESS_SYSTEM_SECURITY, READ_CONTROL};
use wire::security::{Acl, SecurityDescriptor, SecurityInformation};
use wire::status::Status;

use super::Room;
use crate::command::context::{Context, Outcome};
use crate::state::descriptors::Descriptor;
use crate::state::open::Target;
use crate::state::refusal::Refusal;
use crate::state::sacl;

pub(super) async fn query(context: &Context, request: &QueryInfoRequest<'_>) -> Outcome {
    let open = context.open()?;
    let which = SecurityInformation(request.additional_information);
    open.require(needed_access(which))?;
    // Decoded it takes many times as much as what is told of it.
    let told = move |descriptor: Descriptor| -> Result<_, Refusal> {
        let effective = descriptor.readable()?.into_effective();
        Ok(selected(&effective, which).encode().ok_or(Status::INVALID_SECURITY_DESCR)?)
    };
    let bytes = match &open.target {
        Target::File(file) => {
            let path = file.path.now();
            match context.descriptor(&**file.base(), &path) {
                Err(refusal) if refusal.status == Status::RETRY => {
                    let ask = move |descriptor: &Descriptor| told(descriptor.clone());
                    context.ask_descriptor(context.tree()?, file.base(), &path, ask).await?
                }
                known => told(known?),
            }
        }
        Target::Pipe(_) => told(Descriptor::Missing(store::Kind::File)),
    }?;
    let room = Room::of(request);
    if room.0 < bytes.len() {
        return Err(Refusal::too_small(bytes.len() as u32));
    }
    Ok(room.reply(|out| out.extend_from_slice(&bytes)))
}

fn needed_access(which: SecurityInformation) -> u32 {
    let by_read_control = SecurityInformation::OWNER
        | SecurityInformation::GROUP
        | SecurityInformation::DACL
        | SecurityInformation::LABEL
        | SecurityInformation::ATTRIBUTE
        | SecurityInformation::SCOPE
        | SecurityInformation::BACKUP;
    let by_system_security = SecurityInformation::SACL | SecurityInformation::BACKUP;
    let mut needed = 0;
    if which.intersects(by_read_control) {
        needed |= READ_CONTROL;
    }
    if which.intersects(by_system_security) {
        needed |= ACCESS_SYSTEM_SECURITY;
    }
    needed
}

/// The parts that were asked for. Labels, claims and policies stand in the SACL among what is audited.
fn selected(descriptor: &SecurityDescriptor, which: SecurityInformation) -> SecurityDescriptor {
    let which = sacl::with_backup(which);
    let parts = if sacl::touches(which) { which | SecurityInformation::SACL } else { which };
    let mut selected = descriptor.select(parts);
    if let Some(list) = &selected.sacl {
        let aces = list.aces.iter().filter(|ace| sacl::belongs(ace.kind, which)).cloned().collect();
        selected.sacl = Some(Acl { aces });
    }
    selected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_needs_its_right() {
        assert_eq!(needed_access(SecurityInformation::NONE), 0);
        assert_eq!(needed_access(SecurityInformation::DACL), READ_CONTROL);
        assert_eq!(needed_access(SecurityInformation::SACL), ACCESS_SYSTEM_SECURITY);
        assert_eq!(needed_access(SecurityInformation::BACKUP), READ_CONTROL | ACCESS_SYSTEM_SECURITY);
    }
}
