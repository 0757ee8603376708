//! The connections of each client, known by its GUID and by who has signed in on them: what is told to a client as such, and not to a
//! session, goes to the first of them that takes it (ConnectionList by ClientGuid, MS-SMB2 3.3.4.7). The GUID is no secret, so that another
//! user's connection that names it hears nothing, and nothing is lost there.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use wire::ids::Guid;

use crate::mailbox::{Letter, Mailbox};
use crate::user::UserId;

/// All clients on whose connections somebody has signed in. A user may have thousands of connections with one: who tells it something, or
/// asks whether there is another way, does not go through them.
#[derive(Default)]
pub(crate) struct Clients {
    known: Mutex<Known>,
}

/// A client, and who has signed in.
type Whom = (Guid, UserId);

#[derive(Default)]
struct Known {
    last_number: u64,
    /// The mailboxes of a user's connections with a client, the oldest first.
    mailboxes: HashMap<Whom, BTreeMap<u64, Arc<Mailbox>>>,
    /// Where each connection stands there, by where its mailbox lies.
    places: HashMap<usize, HashMap<Whom, u64>>,
}

impl Clients {
    /// A user has signed in on a connection of a client.
    pub(crate) fn add(&self, client: Guid, user: UserId, mailbox: &Arc<Mailbox>) {
        let mut known = self.known.lock();
        let number = known.last_number + 1;
        if let Entry::Vacant(free) = known.places.entry(address(mailbox)).or_default().entry((client, user)) {
            free.insert(number);
            known.last_number = number;
            known.mailboxes.entry((client, user)).or_default().insert(number, Arc::clone(mailbox));
        }
    }

    /// A connection has ended.
    pub(crate) fn remove(&self, mailbox: &Arc<Mailbox>) {
        let mut known = self.known.lock();
        for (whom, number) in known.places.remove(&address(mailbox)).unwrap_or_default() {
            if let Entry::Occupied(mut mailboxes) = known.mailboxes.entry(whom) {
                mailboxes.get_mut().remove(&number);
                if mailboxes.get().is_empty() {
                    mailboxes.remove();
                }
            }
        }
    }

    /// How many connections a user has with a client.
    pub(crate) fn count(&self, client: Guid, user: UserId) -> usize {
        self.known.lock().mailboxes.get(&(client, user)).map_or(0, BTreeMap::len)
    }

    /// Sends a letter on the oldest connection of a user's client that takes it; false where none does.
    pub(crate) fn post(&self, client: Guid, user: UserId, mut letter: Letter) -> bool {
        let mut last = 0;
        while let Some((number, mailbox)) = self.after(client, user, last) {
            match mailbox.post(letter) {
                Ok(()) => return true,
                Err(back) => (letter, last) = (back, number),
            }
        }
        false
    }

    /// The oldest connection that came after the one of this number.
    fn after(&self, client: Guid, user: UserId, number: u64) -> Option<(u64, Arc<Mailbox>)> {
        let known = self.known.lock();
        let (number, mailbox) = known.mailboxes.get(&(client, user))?.range(number + 1..).next()?;
        Some((*number, Arc::clone(mailbox)))
    }
}

fn address(mailbox: &Arc<Mailbox>) -> usize {
    Arc::as_ptr(mailbox).addr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ids::SessionId;

    const USER: UserId = UserId(1_001);
    const OTHER: UserId = UserId(1_002);

    fn letter() -> Letter {
        Letter::plain(SessionId(1), Vec::new())
    }

    #[test]
    fn a_letter_goes_to_the_oldest_connection_that_lives() {
        let clients = Clients::default();
        let (client, first, second) = (Guid([1; 16]), Arc::default(), Arc::default());
        clients.add(client, USER, &first);
        clients.add(client, USER, &second);
        clients.add(client, USER, &first);
        assert_eq!(clients.count(client, USER), 2);
        assert!(clients.post(client, USER, letter()));
        assert_eq!((first.take().letters.len(), second.take().letters.len()), (1, 0));
        first.close();
        assert!(clients.post(client, USER, letter()));
        assert_eq!(second.take().letters.len(), 1);
        clients.remove(&first);
        clients.remove(&second);
        assert!(!clients.post(client, USER, letter()));
        let known = clients.known.lock();
        assert!(known.mailboxes.is_empty() && known.places.is_empty());
    }

    #[test]
    fn a_connection_on_which_several_have_signed_in_is_told_what_each_hears_until_it_ends() {
        let clients = Clients::default();
        let (client, other, shared, own) = (Guid([1; 16]), Guid([2; 16]), Arc::default(), Arc::default());
        clients.add(client, USER, &shared);
        clients.add(client, OTHER, &shared);
        clients.add(other, USER, &shared);
        clients.add(client, USER, &own);
        let counts = || [(client, USER), (client, OTHER), (other, USER)].map(|(of, user)| clients.count(of, user));
        assert_eq!(counts(), [2, 1, 1]);
        assert!(clients.post(client, OTHER, letter()) && clients.post(other, USER, letter()));
        assert_eq!(shared.take().letters.len(), 2);
        clients.remove(&shared);
        assert_eq!(counts(), [1, 0, 0]);
        assert!(clients.post(client, USER, letter()) && !clients.post(other, USER, letter()));
        assert_eq!(own.take().letters.len(), 1);
    }

    #[test]
    fn who_only_claims_to_be_a_client_hears_nothing() {
        let clients = Clients::default();
        let (client, impostor, own) = (Guid([1; 16]), Arc::default(), Arc::default());
        clients.add(client, OTHER, &impostor);
        clients.add(client, USER, &own);
        assert!(clients.post(client, USER, letter()));
        assert_eq!((impostor.take().letters.len(), own.take().letters.len()), (0, 1));
    }
}
