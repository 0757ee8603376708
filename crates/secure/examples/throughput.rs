//! How fast one core signs and seals: `cargo run --release -p multilane-secure --example throughput`.
//!
//! Every algorithm runs over messages of 4 KiB and of 1 MiB for a fixed number of bytes; the figure is GiB per second
//! of processor time, so that a busy machine does not spoil it more than it must.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use secure::Role;
use secure::seal::{Cipher, NonceRange, NonceSpace, Opener, Sealer, TRANSFORM_HEADER_LENGTH};
use secure::sign::{SigningAlgorithm, SigningKey};
use wire::ids::SessionId;

const SIZES: [usize; 2] = [4 << 10, 1 << 20];
/// Enough that the clock's resolution and the processor's warming up do not count.
const BYTES: usize = 1 << 30;

fn main() {
    println!("{:28} {:>10} {:>10}", "GiB/s", "4 KiB", "1 MiB");
    for algorithm in [SigningAlgorithm::HmacSha256, SigningAlgorithm::AesCmac, SigningAlgorithm::AesGmac] {
        let key = SigningKey::new(algorithm, [7; 16]);
        print_row(&format!("sign {algorithm:?}"), |size| {
            let mut message = vec![1; size];
            time(size, || key.sign(black_box(&mut message), Role::Server))
        });
        print_row(&format!("verify {algorithm:?}"), |size| {
            let mut message = vec![1; size];
            key.sign(&mut message, Role::Client);
            time(size, || assert!(key.verify(black_box(&mut message), Role::Client)))
        });
    }
    for cipher in [Cipher::Aes128Ccm, Cipher::Aes128Gcm, Cipher::Aes256Ccm, Cipher::Aes256Gcm] {
        let sealer = Sealer::new(cipher, &[7; 32]);
        let opener = Opener::new(cipher, &[7; 32]);
        let space = NonceSpace::new();
        print_row(&format!("seal {cipher:?}"), |size| {
            let mut frame = vec![1; TRANSFORM_HEADER_LENGTH + size];
            let mut nonces = NonceRange::empty();
            time(size, || {
                let nonce = nonces.draw(&space).expect("nonces last");
                sealer.seal(black_box(&mut frame), SessionId(1), nonce).expect("the frame can be sealed");
            })
        });
        print_row(&format!("copy and open {cipher:?}"), |size| {
            let mut sealed = vec![1; TRANSFORM_HEADER_LENGTH + size];
            let nonce = NonceRange::empty().draw(&space).expect("nonces last");
            sealer.seal(&mut sealed, SessionId(1), nonce).expect("the frame can be sealed");
            let mut frame = sealed.clone();
            time(size, || {
                frame.copy_from_slice(&sealed);
                black_box(opener.open(&mut frame).expect("the frame is whole"));
            })
        });
    }
}

fn print_row(name: &str, measure: impl Fn(usize) -> f64) {
    println!("{name:28} {:>10.2} {:>10.2}", measure(SIZES[0]), measure(SIZES[1]));
}

fn time(size: usize, mut work: impl FnMut()) -> f64 {
    let rounds = BYTES / size;
    work();
    let start = processor_time();
    for _ in 0..rounds {
        work();
    }
    (rounds * size) as f64 / (processor_time() - start).as_secs_f64() / f64::from(1 << 30)
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
