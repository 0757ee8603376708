//! Room for what the server itself keeps in the attributes of a file that is full: earlier versions let clients fill it, and so may other programs.

use crate::Error;
use crate::directory::keys::{ROOM, is_stream};
use crate::directory::side_name::OWNER_BYTES;
use crate::directory::stream_value::{Body, VALUE_BYTES_MAX};
use crate::directory::streams;
use crate::directory::subject::Subject;

/// Sets a value for which there was no room, which was `refused`: what is in attributes and may be elsewhere makes some. What is kept with the file is locked.
pub(super) fn save_instead(subject: &Subject<'_>, key: &str, value: &[u8], refused: Error) -> Result<(), Error> {
    while make_some(subject) == Ok(true) {
        match subject.put_back(key, value) {
            Err(Error::TooLarge | Error::Full) => {}
            saved => return saved,
        }
    }
    Err(refused)
}

/// False where nothing is left that may go.
fn make_some(subject: &Subject<'_>) -> Result<bool, Error> {
    Ok(subject.erase(ROOM)? || move_stream_out(subject)?)
}

/// Moves the data of the longest stream of those that are in attributes to a side file. The attribute becomes shorter in one step.
fn move_stream_out(subject: &Subject<'_>) -> Result<bool, Error> {
    // The side files of one without a name go with who has it open, who would not know of this one.
    if subject.stat()?.stx_nlink == 0 {
        return Ok(false);
    }
    let mut longest = None;
    let mut bytes = [0; VALUE_BYTES_MAX];
    for key in subject.keys()?.into_iter().filter(|key| is_stream(key)) {
        let Some(value) = streams::load(subject, &key, &mut bytes)? else { continue };
        if let Body::Here(data) = value.body
            && data.len() > longest.as_ref().map_or(OWNER_BYTES, |(_, length)| *length)
        {
            longest = Some((key, data.len()));
        }
    }
    let Some((key, _)) = longest else { return Ok(false) };
    let Some(value) = streams::load(subject, &key, &mut bytes)? else { return Ok(false) };
    let Body::Here(data) = value.body else { return Ok(false) };
    streams::move_out(subject, &key, &value, data).map(|_| true)
}
