//! CHANGE_NOTIFY (MS-SMB2 3.3.5.19): a server that does not watch directories answers NOT_SUPPORTED.

use store::Kind;
use wire::status::Status;

use crate::context::{Context, Outcome};

pub(crate) fn handle(context: &Context) -> Outcome {
    let (_, file) = context.file()?;
    if file.kind != Kind::Directory {
        return Err(Status::INVALID_PARAMETER.into());
    }
    Err(Status::NOT_SUPPORTED.into())
}
