//! The end that asks, and counts.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use netif::Pacing;
use socket2::{Domain, Socket, Type};

use super::{Counter, Reached, Shape, piece, send};

/// How long the far end may say nothing.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Keeps the requests of a shape in flight: for `warmup`, then for `duration`, of which what is answered counts. Connections go to the far
/// end's addresses in turn.
pub fn measure(far: impl ToSocketAddrs, shape: Shape, warmup: Duration, duration: Duration) -> io::Result<Reached> {
    let far: Vec<SocketAddr> = far.to_socket_addrs()?.collect();
    if let Some(why) = shape.refused(&far) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let mut streams = Vec::new();
    for far in far.iter().cycle().take(shape.connections) {
        streams.push(connect(*far, shape)?);
    }
    let from = Instant::now() + warmup;
    let until = from + duration;
    let counted: io::Result<u64> = thread::scope(|scope| {
        let asking: Vec<_> = (0..)
            .zip(streams)
            .map(|(at, stream)| scope.spawn(move || ask(stream, shape, shape.in_flight_of(at), from, until)))
            .collect();
        let gone = || io::Error::other("a thread of the raw loop ended early");
        asking.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(gone()))).sum()
    });
    let iops = counted? as f64 / duration.as_secs_f64().max(f64::MIN_POSITIVE);
    Ok(Reached { iops, mibps: iops * f64::from(shape.block_bytes) / f64::from(1 << 20) })
}

fn connect(far: SocketAddr, shape: Shape) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(far), Type::STREAM, None)?;
    let pacing = Pacing::lift(&socket);
    socket.connect_timeout(&far.into(), SILENCE_MAX)?;
    let mut stream = TcpStream::from(socket);
    pacing.restore(&stream);
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    shape.messages().send(&mut stream)?;
    Ok(stream)
}

/// One connection's requests; gives how many were answered from `from` until `until`.
fn ask(mut stream: TcpStream, shape: Shape, in_flight: u32, from: Instant, until: Instant) -> io::Result<u64> {
    let messages = shape.messages();
    let bytes = piece(messages.request_bytes, in_flight);
    let mut room = piece(messages.answer_bytes, in_flight);
    let mut answers = Counter::new(messages.answer_bytes);
    let mut counted = 0;
    send(&mut stream, &bytes, u64::from(in_flight), messages.request_bytes)?;
    loop {
        let received = stream.read(&mut room)?;
        if received == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the far end of the raw loop hung up"));
        }
        let answered = answers.take(received);
        let now = Instant::now();
        if now >= until {
            return Ok(counted);
        }
        if now >= from {
            counted += answered;
        }
        send(&mut stream, &bytes, answered, messages.request_bytes)?;
    }
}
