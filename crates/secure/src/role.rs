//! Which end of a connection something belongs to.

/// One of the two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The end that connects, sends requests and initiates authentication.
    Client,
    /// The end that accepts, answers and judges authentication.
    Server,
}

impl Role {
    /// The other end.
    pub fn peer(self) -> Role {
        match self {
            Role::Client => Role::Server,
            Role::Server => Role::Client,
        }
    }
}
