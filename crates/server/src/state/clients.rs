//! The connections of each client, known by its GUID and by who has signed in on them: what is told to a client as such, and not to a
//! session, goes to the first of them that takes it (ConnectionList by ClientGuid, MS-SMB2 3.3.4.7). The GUID is no secret, so that another
//! user's connection that names it hears nothing, and nothing is lost there.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use wire::ids::{Guid, SessionId};

use crate::state::mailbox::{Mailbox, Notification};
use crate::state::user::UserId;

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
    places: HashMap<usize, HashMap<Whom, ClientConnection>>,
}

/// A connection's place among those of a user and a client.
struct ClientConnection {
    number: u64,
    /// The user's sessions on it. It stands there as long as there is one.
    sessions: HashSet<SessionId>,
}

impl Clients {
    /// A user has signed in to a session on a connection of a client.
    pub(crate) fn add(&self, client: Guid, user: UserId, session: SessionId, mailbox: &Arc<Mailbox>) {
        let mut known = self.known.lock();
        let number = known.last_number + 1;
        let places = known.places.entry(address(mailbox)).or_default();
        let (place, is_new) = match places.entry((client, user)) {
            Entry::Occupied(place) => (place.into_mut(), false),
            Entry::Vacant(free) => (free.insert(ClientConnection { number, sessions: HashSet::new() }), true),
        };
        place.sessions.insert(session);
        if is_new {
            known.last_number = number;
            known.mailboxes.entry((client, user)).or_default().insert(number, Arc::clone(mailbox));
        }
    }

    /// A session is no longer on a connection: it has ended, or only this channel of it. Its user hears no more there, unless by another.
    pub(crate) fn leave(&self, session: SessionId, mailbox: &Arc<Mailbox>) {
        let mut known = self.known.lock();
        let Entry::Occupied(mut places) = known.places.entry(address(mailbox)) else { return };
        let mut left = Vec::new();
        places.get_mut().retain(|whom, place| {
            let stays = !place.sessions.remove(&session) || !place.sessions.is_empty();
            if !stays {
                left.push((*whom, place.number));
            }
            stays
        });
        if places.get().is_empty() {
            places.remove();
        }
        left.into_iter().for_each(|(whom, number)| known.forget(whom, number));
    }

    /// A connection has ended.
    pub(crate) fn remove(&self, mailbox: &Arc<Mailbox>) {
        let mut known = self.known.lock();
        let places = known.places.remove(&address(mailbox)).unwrap_or_default();
        places.into_iter().for_each(|(whom, place)| known.forget(whom, place.number));
    }

    /// How many connections a user has with a client.
    pub(crate) fn count(&self, client: Guid, user: UserId) -> usize {
        self.known.lock().mailboxes.get(&(client, user)).map_or(0, BTreeMap::len)
    }

    /// Sends a notification on the oldest connection of a user's client that takes it; false where none does.
    pub(crate) fn post(&self, client: Guid, user: UserId, mut notification: Notification) -> bool {
        let mut last = 0;
        while let Some((number, mailbox)) = self.after(client, user, last) {
            match mailbox.post(notification) {
                Ok(()) => return true,
                Err(back) => (notification, last) = (back, number),
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

impl Known {
    fn forget(&mut self, whom: Whom, number: u64) {
        if let Entry::Occupied(mut mailboxes) = self.mailboxes.entry(whom) {
            mailboxes.get_mut().remove(&number);
            if mailboxes.get().is_empty() {
                mailboxes.remove();
            }
        }
    }
}

fn address(mailbox: &Arc<Mailbox>) -> usize {
    Arc::as_ptr(mailbox).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: UserId = UserId(1_001);
    const OTHER: UserId = UserId(1_002);
    const ONE: SessionId = SessionId(1);
    const ANOTHER: SessionId = SessionId(2);

    fn notification() -> Notification {
        Notification::plain(SessionId(1), Vec::new())
    }

    #[test]
    fn a_letter_goes_to_the_oldest_connection_that_lives() {
        let clients = Clients::default();
        let (client, first, second) = (Guid([1; 16]), Arc::default(), Arc::default());
        clients.add(client, USER, ONE, &first);
        clients.add(client, USER, ONE, &second);
        clients.add(client, USER, ONE, &first);
        assert_eq!(clients.count(client, USER), 2);
        assert!(clients.post(client, USER, notification()));
        assert_eq!((first.take().notifications.len(), second.take().notifications.len()), (1, 0));
        first.close();
        assert!(clients.post(client, USER, notification()));
        assert_eq!(second.take().notifications.len(), 1);
        clients.remove(&first);
        clients.remove(&second);
        assert!(!clients.post(client, USER, notification()));
        let known = clients.known.lock();
        assert!(known.mailboxes.is_empty() && known.places.is_empty());
    }

    #[test]
    fn a_connection_on_which_several_have_signed_in_is_told_what_each_hears_until_it_ends() {
        let clients = Clients::default();
        let (client, other, shared, own) = (Guid([1; 16]), Guid([2; 16]), Arc::default(), Arc::default());
        clients.add(client, USER, ONE, &shared);
        clients.add(client, OTHER, ONE, &shared);
        clients.add(other, USER, ONE, &shared);
        clients.add(client, USER, ONE, &own);
        let counts = || [(client, USER), (client, OTHER), (other, USER)].map(|(of, user)| clients.count(of, user));
        assert_eq!(counts(), [2, 1, 1]);
        assert!(clients.post(client, OTHER, notification()) && clients.post(other, USER, notification()));
        assert_eq!(shared.take().notifications.len(), 2);
        clients.remove(&shared);
        assert_eq!(counts(), [1, 0, 0]);
        assert!(clients.post(client, USER, notification()) && !clients.post(other, USER, notification()));
        assert_eq!(own.take().notifications.len(), 1);
    }

    #[test]
    fn who_only_claims_to_be_a_client_hears_nothing() {
        let clients = Clients::default();
        let (client, impostor, own) = (Guid([1; 16]), Arc::default(), Arc::default());
        clients.add(client, OTHER, ONE, &impostor);
        clients.add(client, USER, ONE, &own);
        assert!(clients.post(client, USER, notification()));
        assert_eq!((impostor.take().notifications.len(), own.take().notifications.len()), (0, 1));
    }

    #[test]
    fn a_user_hears_on_a_connection_as_long_as_one_of_its_sessions_is_there() {
        let clients = Clients::default();
        let (client, shared, own) = (Guid([1; 16]), Arc::default(), Arc::default());
        clients.add(client, USER, ONE, &shared);
        clients.add(client, USER, ANOTHER, &shared);
        clients.add(client, OTHER, SessionId(3), &shared);
        clients.add(client, USER, SessionId(4), &own);
        clients.leave(ONE, &shared);
        assert!(clients.post(client, USER, notification()));
        assert_eq!((shared.take().notifications.len(), own.take().notifications.len()), (1, 0));
        clients.leave(ANOTHER, &shared);
        assert!(clients.post(client, USER, notification()));
        assert_eq!((shared.take().notifications.len(), own.take().notifications.len()), (0, 1));
        assert!(clients.post(client, OTHER, notification()), "whoever else is signed in there hears");
        clients.leave(SessionId(3), &shared);
        clients.leave(SessionId(4), &own);
        let known = clients.known.lock();
        assert!(known.mailboxes.is_empty() && known.places.is_empty());
    }
}
