//! The end that answers.

use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use netif::Pacing;

use super::{CONNECTIONS_MAX, Counter, IN_FLIGHT_MAX, Messages, piece, send};

/// Answers everybody who connects, each in a thread, until accepting fails. Whoever comes while [`CONNECTIONS_MAX`] are there is hung up on.
pub fn serve(listener: &TcpListener) -> io::Error {
    let pacing = Pacing::lift(listener);
    let here = Arc::new(AtomicUsize::new(0));
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => {
                pacing.restore(&stream);
                stream
            }
            // They hung up before it came to them.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => return error,
        };
        if here.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            here.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let here = Arc::clone(&here);
        thread::spawn(move || {
            // A near end that is done hangs up, and that is all there is to say.
            let _ = answer(stream);
            here.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let messages = Messages::receive(&mut stream)?;
    let mut room = piece(messages.request_bytes, IN_FLIGHT_MAX);
    let bytes = piece(messages.answer_bytes, IN_FLIGHT_MAX);
    let mut requests = Counter::new(messages.request_bytes);
    loop {
        let received = stream.read(&mut room)?;
        if received == 0 {
            return Ok(());
        }
        send(&mut stream, &bytes, requests.take(received), messages.answer_bytes)?;
    }
}
