//! FSCTL_QUERY_NETWORK_INTERFACE_INFO (MS-SMB2 3.3.5.15.11): where a client can open more channels.

use std::sync::Arc;

use wire::command::ioctl::IoctlRequest;
use wire::fscc::ioctl::InterfaceWriter;
use wire::status::Status;

use super::{Answer, Answered};
use crate::command::context::Context;
use crate::resource::pool::Device;
use crate::state::multichannel;

/// Of sessions whose account has multichannel off it is NOT_SUPPORTED, and on connections that were not offered it.
pub(super) async fn query(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    let server = Arc::clone(context.server());
    let configuration = server.configuration.load_full();
    let is_offered = context.connection.negotiation.borrow().has_multichannel();
    if !is_offered || !multichannel::is_for(&configuration, context.session()?) {
        return Err(Status::NOT_SUPPORTED.into());
    }
    let told = match server.interfaces.known(&configuration.settings.advertise, &server.listening) {
        Ok(told) => told,
        // The kernel may have to ask the drivers.
        Err(reading) => {
            let read = move || reading.read(&configuration.settings.advertise, &server.listening);
            context.on_pool_in(context.queue_key_at(Device::Interfaces), read).await?
        }
    };
    let mut output = Vec::new();
    let mut writer = InterfaceWriter::new(&mut output, request.max_output_response as usize);
    if told.iter().all(|interface| writer.push(interface)) {
        Ok(Answer::with(output))
    } else {
        Err(Status::BUFFER_TOO_SMALL.into())
    }
}
