//! FSCTL_QUERY_NETWORK_INTERFACE_INFO (MS-SMB2 3.3.5.15.11): where a client can open more channels.

use wire::command::ioctl::IoctlRequest;
use wire::fscc::ioctl::InterfaceWriter;
use wire::status::Status;

use super::{Answer, Answered};
use crate::context::Context;
use crate::multichannel;

/// Of sessions whose account has multichannel off it is NOT_SUPPORTED, and on connections that were not offered it.
pub(super) fn query(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    let server = context.server();
    let estate = server.estate.load();
    let is_offered = context.connection.negotiation.borrow().has_multichannel();
    if !is_offered || !multichannel::is_for(&estate, context.session()?) {
        return Err(Status::NOT_SUPPORTED.into());
    }
    let mut output = Vec::new();
    let mut writer = InterfaceWriter::new(&mut output, request.max_output_response as usize);
    let told = server.interfaces.to_tell(&estate.settings.advertise, &server.listening);
    if told.iter().all(|interface| writer.push(interface)) {
        Ok(Answer::with(output))
    } else {
        Err(Status::BUFFER_TOO_SMALL.into())
    }
}
