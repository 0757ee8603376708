//! FSCTL_SRV_REQUEST_RESUME_KEY (MS-SMB2 3.3.5.15.5): a name for an open, by which a later copy finds its source.
//!
//! The key is the open's id and zeros. It need not be secret: it is good for nothing but on the session that has the open, which
//! could as well name it by its FileId.

use wire::command::ioctl::IoctlRequest;
use wire::fscc::ioctl::{RESUME_KEY_BYTES, ResumeKey};
use wire::status::Status;

use super::{Answer, Answered};
use crate::command::context::Context;
use crate::state::open_id::OpenId;

const ID_BYTES: usize = size_of::<u64>();

pub(super) fn request(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    let (open, _) = context.file()?;
    if (request.max_output_response as usize) < ResumeKey::LENGTH {
        return Err(Status::INVALID_PARAMETER.into());
    }
    let mut output = Vec::new();
    ResumeKey { key: key(open.id), context_length: 0 }.encode(&mut output);
    Ok(Answer::with(output))
}

/// The key of an open.
fn key(open: OpenId) -> [u8; RESUME_KEY_BYTES] {
    let mut key = [0; RESUME_KEY_BYTES];
    key[..ID_BYTES].copy_from_slice(&open.0.to_le_bytes());
    key
}

/// The open that a key names, of whichever session it is.
pub(super) fn open_of(key: &[u8; RESUME_KEY_BYTES]) -> Option<OpenId> {
    let (id, rest) = key.split_first_chunk::<ID_BYTES>()?;
    rest.iter().all(|byte| *byte == 0).then_some(OpenId(u64::from_le_bytes(*id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_opens_and_nothing_else_is_a_key() {
        for id in [0, 1, u64::MAX] {
            assert_eq!(open_of(&key(OpenId(id))), Some(OpenId(id)));
        }
        assert_eq!(open_of(&[0xFF; RESUME_KEY_BYTES]), None);
        let mut longer = key(OpenId(7));
        longer[RESUME_KEY_BYTES - 1] = 1;
        assert_eq!(open_of(&longer), None);
    }
}
