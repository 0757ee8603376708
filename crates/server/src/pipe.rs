//! Named pipes of `IPC$` and the RPC interfaces behind them.

use wire::rpc::server::Conversation;
use wire::status::Status;

use crate::Shared;
use crate::context::Outcome;

/// Opens the pipe of a name; `None` where there is none.
pub(crate) fn open(_name: &str, _server: &Shared) -> Option<Conversation> {
    None
}

/// READ on a pipe.
pub(crate) fn read(_conversation: &mut Conversation, _bytes_max: usize) -> Outcome {
    Err(Status::PIPE_BROKEN.into())
}

/// WRITE on a pipe.
pub(crate) fn write(_conversation: &mut Conversation, _data: &[u8]) -> Result<(), Status> {
    Err(Status::PIPE_BROKEN)
}
