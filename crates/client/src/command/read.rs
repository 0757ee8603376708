//! READ (MS-SMB2 3.2.4.6).

use std::io;

use bytes::BytesMut;
use wire::command::read::{ReadRequest, ReadResponse};
use wire::ids::{Command, FileId};
use wire::status::Status;

use crate::data::Data;
use crate::error::Error;
use crate::network::Piece;
use crate::open_state::OpenState;
use crate::perform::Ask;

/// Reads at most `length` bytes; none behind the end of the file.
pub(crate) async fn read(open: &OpenState, offset: u64, length: usize) -> Result<Data, Error> {
    match read_piece(open, offset, length).await? {
        Piece::Bytes(bytes) => Ok(Data::of_piece(bytes)),
        Piece::Elsewhere(data) => {
            let fetched = data.fetch().await.map_err(|error| not_fetched(&error, &open.path))?;
            Ok(Data::of_piece(fetched))
        }
    }
}

/// What would have been answered where the server had read it.
fn not_fetched(error: &io::Error, path: &str) -> Error {
    let status = match error.kind() {
        io::ErrorKind::UnexpectedEof => Status::END_OF_FILE,
        _ => Status::UNEXPECTED_IO_ERROR,
    };
    Error::refused(status, format!("read {path}"))
}

/// The same, where what is elsewhere stays there.
pub(crate) async fn read_piece(open: &OpenState, offset: u64, length: usize) -> Result<Piece, Error> {
    let bytes = u32::try_from(length).unwrap_or(u32::MAX);
    let body = |out: &mut Vec<u8>, file_id: FileId| {
        ReadRequest { length: bytes, offset, file_id, ..ReadRequest::default() }.encode(out);
    };
    let ask = Ask { bytes: length, ..Ask::of(open, Command::READ, &body) };
    let answer = open.tree.shared.perform(&ask).await?;
    if answer.status() == Status::END_OF_FILE {
        return Ok(Piece::Bytes(Data::default().into()));
    }
    let answer = answer.expect(&[Status::SUCCESS], || format!("read {}", open.path))?;
    let (message, piece) = answer.into_parts();
    let place = ReadResponse::place(&message)?;
    let data = match piece {
        Some(piece) if place == (message.len()..message.len() + piece.length()) => piece,
        Some(Piece::Elsewhere(_)) => return Err(Error::Malformed("data elsewhere that is not what was read")),
        Some(Piece::Bytes(rest)) => Piece::Bytes(of_message([&message[..], &rest].concat()[..].into())?.into()),
        None => Piece::Bytes(of_message(message)?.into()),
    };
    if data.length() > length {
        return Err(Error::Malformed("more data than was asked for"));
    }
    Ok(data)
}

/// The data of a message that has all of it.
fn of_message(message: BytesMut) -> Result<Data, Error> {
    let range = ReadResponse::decode(&message)?.data_range();
    Ok(Data::new(message, range))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_fetched_is_told_as_the_server_would_and_ends_no_session() {
        for (kind, status) in [
            (io::ErrorKind::UnexpectedEof, Status::END_OF_FILE),
            (io::ErrorKind::Other, Status::UNEXPECTED_IO_ERROR),
            (io::ErrorKind::BrokenPipe, Status::UNEXPECTED_IO_ERROR),
        ] {
            assert_eq!(not_fetched(&kind.into(), "f").status(), Some(status), "{kind}");
        }
    }
}
