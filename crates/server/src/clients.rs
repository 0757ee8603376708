//! The connections of each client, known by its GUID: what is told to a client as such, and not to a session, goes to the first of them
//! that takes it (ConnectionList by ClientGuid, MS-SMB2 3.3.4.7).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use wire::ids::Guid;

use crate::mailbox::{Letter, Mailbox};

/// All clients that have said who they are.
#[derive(Default)]
pub(crate) struct Clients {
    connections: Mutex<HashMap<Guid, Vec<Arc<Mailbox>>>>,
}

impl Clients {
    /// A client has one connection more.
    pub(crate) fn add(&self, client: Guid, mailbox: &Arc<Mailbox>) {
        self.connections.lock().entry(client).or_default().push(Arc::clone(mailbox));
    }

    /// A connection has ended.
    pub(crate) fn remove(&self, client: Guid, mailbox: &Arc<Mailbox>) {
        let mut connections = self.connections.lock();
        if let Some(list) = connections.get_mut(&client) {
            list.retain(|known| !Arc::ptr_eq(known, mailbox));
            if list.is_empty() {
                connections.remove(&client);
            }
        }
    }

    /// How many connections a client has.
    pub(crate) fn count(&self, client: Guid) -> usize {
        self.connections.lock().get(&client).map_or(0, Vec::len)
    }

    /// Sends a letter on the client's oldest connection that takes it; false where none does.
    pub(crate) fn post(&self, client: Guid, mut letter: Letter) -> bool {
        let list = self.connections.lock().get(&client).cloned().unwrap_or_default();
        for mailbox in list {
            match mailbox.post(letter) {
                Ok(()) => return true,
                Err(back) => letter = back,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ids::SessionId;

    #[test]
    fn a_letter_goes_to_the_oldest_connection_that_lives() {
        let clients = Clients::default();
        let (client, first, second) = (Guid([1; 16]), Arc::default(), Arc::default());
        clients.add(client, &first);
        clients.add(client, &second);
        let post = || clients.post(client, Letter { session: SessionId(1), message: Vec::new(), pending: None });
        assert!(post());
        assert_eq!((first.take().letters.len(), second.take().letters.len()), (1, 0));
        first.close();
        assert!(post());
        assert_eq!(second.take().letters.len(), 1);
        clients.remove(client, &first);
        clients.remove(client, &second);
        assert!(!post());
        assert!(clients.connections.lock().is_empty());
    }
}
