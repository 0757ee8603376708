//! READ (MS-SMB2 3.2.4.6).

use wire::command::read::{ReadRequest, ReadResponse};
use wire::ids::{Command, FileId};
use wire::status::Status;

use crate::data::Data;
use crate::error::Error;
use crate::inbox::joined;
use crate::open_state::OpenState;
use crate::perform::Ask;

/// Reads at most `length` bytes; none behind the end of the file.
pub(crate) async fn read(open: &OpenState, offset: u64, length: usize) -> Result<Data, Error> {
    let bytes = u32::try_from(length).unwrap_or(u32::MAX);
    let body = |out: &mut Vec<u8>, file_id: FileId| {
        ReadRequest { length: bytes, offset, file_id, ..ReadRequest::default() }.encode(out);
    };
    let ask = Ask { bytes: length, ..Ask::of(open, Command::READ, &body) };
    let answer = open.tree.shared.perform(&ask).await?;
    if answer.status() == Status::END_OF_FILE {
        return Ok(Data::default());
    }
    let answer = answer.expect(&[Status::SUCCESS], || format!("read {}", open.path))?;
    let data = match answer.into_parts() {
        (message, Some(piece)) if is_followed_by(&message, &piece)? => Data::of_piece(piece),
        (message, piece) => {
            let message = joined(message, piece);
            let range = ReadResponse::decode(&message)?.data_range();
            Data::new(message, range)
        }
    };
    if data.len() > length {
        return Err(Error::Malformed("more data than was asked for"));
    }
    Ok(data)
}

/// True where all of the data is in the piece that came behind the message, and nothing else is.
fn is_followed_by(message: &[u8], piece: &[u8]) -> Result<bool, Error> {
    Ok(ReadResponse::place(message)? == (message.len()..message.len() + piece.len()))
}
