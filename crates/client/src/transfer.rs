//! Whole files: split into requests of a size, many in flight.

use bytes::BytesMut;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::data::Data;
use crate::error::Error;
use crate::file::File;

/// Bytes that a request of a transfer moves, where the server takes as much.
pub const CHUNK_BYTES: usize = 1 << 20;
/// Requests of one transfer in flight, at most: enough to fill four channels.
pub const IN_FLIGHT_MAX: usize = 32;
/// Requests in flight at first; each answer adds one. What the first channel is given before there are others, they cannot take over.
const FIRST_IN_FLIGHT: usize = 4;

impl File {
    /// Reads `length` bytes from `offset` on, in pieces that arrive in any order. Ends early where `take` fails. Gives the bytes read,
    /// which are fewer where the file ends before.
    pub async fn read_range<E: From<Error>>(
        &self,
        offset: u64,
        length: u64,
        mut take: impl FnMut(u64, &Data) -> Result<(), E>,
    ) -> Result<u64, E> {
        let step = CHUNK_BYTES.min(self.bytes_max().0).max(1) as u64;
        let end = offset.saturating_add(length);
        let mut next = offset;
        let mut flight = FuturesUnordered::new();
        let mut window = FIRST_IN_FLIGHT;
        let mut total = 0;
        loop {
            while next < end && flight.len() < window {
                let (at, bytes) = (next, step.min(end - next) as usize);
                flight.push(self.piece(at, bytes));
                next += bytes as u64;
            }
            let Some((at, asked, data)) = flight.next().await else { return Ok(total) };
            let data = data?;
            window = (window + 1).min(IN_FLIGHT_MAX);
            take(at, &data)?;
            total += data.len() as u64;
            // A server may give less than there is; what is missing is asked for again.
            if !data.is_empty() && data.len() < asked {
                let (at, bytes) = (at + data.len() as u64, asked - data.len());
                flight.push(self.piece(at, bytes));
            }
        }
    }

    async fn piece(&self, at: u64, bytes: usize) -> (u64, usize, Result<Data, Error>) {
        (at, bytes, self.read(at, bytes).await)
    }

    /// Writes what `give` puts into buffers, from `offset` on, until it gives nothing. Gives the bytes written.
    pub async fn write_range<E: From<Error>>(
        &self,
        offset: u64,
        mut give: impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
    ) -> Result<u64, E> {
        let step = CHUNK_BYTES.min(self.bytes_max().1).max(1);
        let mut next = offset;
        let mut is_over = false;
        let mut flight = FuturesUnordered::new();
        let mut buffers: Vec<BytesMut> = Vec::new();
        let mut window = FIRST_IN_FLIGHT;
        loop {
            while !is_over && flight.len() < window {
                let mut buffer = buffers.pop().unwrap_or_else(|| BytesMut::zeroed(step));
                let count = give(next, &mut buffer)?;
                is_over = count == 0;
                if !is_over {
                    let at = next;
                    next += count as u64;
                    let buffer = buffer.freeze();
                    let data = buffer.slice(..count.min(step));
                    flight.push(async move { (buffer, self.write(at, data).await) });
                }
            }
            let Some((buffer, written)) = flight.next().await else { return Ok(next - offset) };
            written?;
            window = (window + 1).min(IN_FLIGHT_MAX);
            // Nobody else looks at it any more, unless the request was asked again.
            buffers.extend(buffer.try_into_mut());
        }
    }
}
