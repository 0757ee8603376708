//! The kernel's chance.

use crate::Error;

/// A number of the kernel's chance, which nobody guesses.
pub fn random_number() -> Result<u128, Error> {
    let mut bytes = [0; 16];
    fill_random(&mut bytes)?;
    Ok(u128::from_le_bytes(bytes))
}

/// Fills `bytes` with the kernel's chance.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), Error> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(cause) => {
                return Err(Error::machine(format!("the kernel gives no random bytes: {cause}"), "try again"));
            }
        }
    }
    Ok(())
}
