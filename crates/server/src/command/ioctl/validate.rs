//! FSCTL_VALIDATE_NEGOTIATE_INFO (MS-SMB2 3.3.5.15.12): the client repeats its NEGOTIATE under a signature, so that both sides
//! see whether someone changed it on the way. Who finds that out ends the connection.

use wire::command::ioctl::IoctlRequest;
use wire::fscc::ioctl::{ValidateNegotiate, ValidateNegotiateResult};
use wire::ids::{Dialect, Guid};
use wire::status::Status;

use super::{Answer, Answered};
use crate::command::context::Context;
use crate::command::negotiation::Negotiation;

pub(super) fn validate(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    let negotiation = context.connection.negotiation.borrow();
    let room = request.max_output_response as usize >= ValidateNegotiateResult::LENGTH;
    let Some(dialect) = same_negotiation(&negotiation, request.input).filter(|_| room) else {
        tracing::warn!(name: "negotiate_tampered", peer = %context.connection.peer, "NEGOTIATE did not arrive as it was sent; the connection ends");
        context.connection.drop_silently();
        return Err(Status::ACCESS_DENIED.into());
    };
    let result = ValidateNegotiateResult {
        capabilities: negotiation.server_capabilities,
        server: Guid(context.server().configuration.load().settings.server_guid),
        security_mode: negotiation.server_security_mode,
        dialect,
    };
    let mut output = Vec::new();
    result.encode(&mut output);
    Ok(Answer::with(output))
}

/// The dialect of the connection, where the client tells the same as it did in NEGOTIATE. 3.1.1 protects NEGOTIATE otherwise.
fn same_negotiation(negotiation: &Negotiation, input: &[u8]) -> Option<Dialect> {
    let told = ValidateNegotiate::decode(input).ok()?;
    let same = told.client == negotiation.client_guid
        && told.capabilities == negotiation.client_capabilities
        && told.security_mode == negotiation.client_security_mode
        && told.dialects().eq(negotiation.client_dialects.iter().copied());
    negotiation.dialect().filter(|dialect| same && *dialect != Dialect::SMB_3_1_1)
}
