//! The connections of each client, known by its GUID and by who has signed in on them: what is told to a client as such, and not to a
//! session, goes to the first of them that takes it (ConnectionList by ClientGuid, MS-SMB2 3.3.4.7). The GUID is no secret, so that another
//! user's connection that names it hears nothing, and nothing is lost there.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use wire::ids::Guid;
use wire::security::Sid;

use crate::mailbox::{Letter, Mailbox};

/// All clients on whose connections somebody has signed in.
#[derive(Default)]
pub(crate) struct Clients {
    connections: Mutex<HashMap<Guid, Vec<Known>>>,
}

/// Who has signed in, and the connection's mailbox.
type Known = (Sid, Arc<Mailbox>);

impl Clients {
    /// A user has signed in on a connection of a client.
    pub(crate) fn add(&self, client: Guid, user: Sid, mailbox: &Arc<Mailbox>) {
        let mut connections = self.connections.lock();
        let list = connections.entry(client).or_default();
        if !list.iter().any(|(of, known)| *of == user && Arc::ptr_eq(known, mailbox)) {
            list.push((user, Arc::clone(mailbox)));
        }
    }

    /// A connection has ended.
    pub(crate) fn remove(&self, client: Guid, mailbox: &Arc<Mailbox>) {
        let mut connections = self.connections.lock();
        if let Some(list) = connections.get_mut(&client) {
            list.retain(|(_, known)| !Arc::ptr_eq(known, mailbox));
            if list.is_empty() {
                connections.remove(&client);
            }
        }
    }

    /// How many connections a user has with a client.
    pub(crate) fn count(&self, client: Guid, user: &Sid) -> usize {
        let connections = self.connections.lock();
        connections.get(&client).map_or(0, |list| list.iter().filter(|(of, _)| of == user).count())
    }

    /// Sends a letter on the oldest connection of a user's client that takes it; false where none does.
    pub(crate) fn post(&self, client: Guid, user: &Sid, mut letter: Letter) -> bool {
        let list = self.connections.lock().get(&client).cloned().unwrap_or_default();
        for (_, mailbox) in list.iter().filter(|(of, _)| of == user) {
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

    const USER: Sid = Sid::AUTHENTICATED_USERS;

    fn letter() -> Letter {
        Letter { session: SessionId(1), message: Vec::new(), pending: None }
    }

    #[test]
    fn a_letter_goes_to_the_oldest_connection_that_lives() {
        let clients = Clients::default();
        let (client, first, second) = (Guid([1; 16]), Arc::default(), Arc::default());
        clients.add(client, USER, &first);
        clients.add(client, USER, &second);
        clients.add(client, USER, &first);
        assert_eq!(clients.count(client, &USER), 2);
        assert!(clients.post(client, &USER, letter()));
        assert_eq!((first.take().letters.len(), second.take().letters.len()), (1, 0));
        first.close();
        assert!(clients.post(client, &USER, letter()));
        assert_eq!(second.take().letters.len(), 1);
        clients.remove(client, &first);
        clients.remove(client, &second);
        assert!(!clients.post(client, &USER, letter()));
        assert!(clients.connections.lock().is_empty());
    }

    #[test]
    fn who_only_claims_to_be_a_client_hears_nothing() {
        let clients = Clients::default();
        let (client, impostor, own) = (Guid([1; 16]), Arc::default(), Arc::default());
        clients.add(client, Sid::EVERYONE, &impostor);
        clients.add(client, USER, &own);
        assert!(clients.post(client, &USER, letter()));
        assert_eq!((impostor.take().letters.len(), own.take().letters.len()), (0, 1));
    }
}
