//! What MS-DTYP 2.5.3.2 and MS-FSA 2.1.5.1 say of random descriptors, users, requests and ways in, written a second time in the plainest
//! form there is. It uses nothing of what it judges: it has its own entries, its own bytes, its own check.
//!
//! Where the documents leave room, the model says what the server does, and why, with the words "We:".

mod case;
mod descriptor;
mod judge;
mod rights;
mod rules;

pub(super) use self::case::*;
pub(super) use self::descriptor::*;
pub(super) use self::judge::*;
pub(super) use self::rights::*;
pub(super) use self::rules::*;
