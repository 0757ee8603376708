//! The body of a request, read once it is known that its sender may send one.

use axum::body::Body;
use axum::http::StatusCode;
use http_body_util::BodyExt;
use zeroize::Zeroizing;

use crate::page::answer::Refusal;

/// Bytes of a request's body.
pub(super) const BODY_MAX: usize = 16 << 10;

/// Reads it to its end. Each piece is copied: it is a part of all that the connection read with it, and would hold that.
pub(super) async fn read(mut body: Body) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    let mut read = Zeroizing::new(Vec::with_capacity(BODY_MAX));
    while let Some(piece) = body.frame().await {
        let broken = |_| Refusal::new(StatusCode::BAD_REQUEST, "The request broke off.", "Load the page anew.");
        let Ok(piece) = piece.map_err(broken)?.into_data() else { continue };
        if read.len() + piece.len() > BODY_MAX {
            let remedy = format!("Send {BODY_MAX} bytes at most.");
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "The request is too long.", remedy));
        }
        read.extend_from_slice(&piece);
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use http_body_util::channel::Channel;

    use super::*;

    #[tokio::test]
    async fn a_body_in_small_pieces_holds_no_more_than_its_bytes() {
        // As a connection gives them: each is one byte of a buffer.
        let buffer = Bytes::from(vec![b'x'; 8 << 10]);
        let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
        let reading = tokio::spawn(read(Body::new(body)));
        for _ in 0..10 {
            sender.send_data(buffer.slice(7..8)).await.unwrap();
        }
        drop(sender);
        assert_eq!(reading.await.unwrap().unwrap().as_slice(), [b'x'; 10]);
        assert!(buffer.is_unique(), "nothing holds what the pieces were cut from");
    }
}
