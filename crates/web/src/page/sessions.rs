//! Operators who have signed in to the page. A session is known by a cookie, of which its hash alone is kept.

use std::time::{Duration, Instant};

use control::{KnownCatalog, ProvedOperator};
use secure::{Fingerprint, RandomFault, Token};

/// Sessions at a time; beyond that the oldest goes.
const SESSIONS_MAX: usize = 64;
/// How long a session lasts after its operator last did something,
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);
/// and at most.
const LASTS_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// What the text that requests must bring besides the cookie is for.
const REQUEST_PURPOSE: &str = "multilane page request";

/// All sessions, the oldest first.
#[derive(Default)]
pub(crate) struct Sessions(Vec<Session>);

struct Session {
    cookie: Fingerprint,
    operator: ProvedOperator,
    began: Instant,
    used: Instant,
}

/// Whether a request is something that an operator did, or the page did by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    Operator,
    PageAlone,
}

/// Somebody who has signed in.
#[derive(Clone, Debug)]
pub(crate) struct SignedIn {
    pub(crate) operator: String,
    /// What requests that change something bring in a header. Pages from elsewhere cannot know it.
    pub(crate) request_token: Token,
}

impl Sessions {
    /// Begins a session; gives its cookie.
    pub(crate) fn begin(&mut self, operator: ProvedOperator, now: Instant) -> Result<Token, RandomFault> {
        let cookie = Token::new()?;
        if self.0.len() >= SESSIONS_MAX {
            self.0.remove(0);
        }
        self.0.push(Session { cookie: cookie.fingerprint(), operator, began: now, used: now });
        Ok(cookie)
    }

    /// The session of a cookie, while it lasts and the catalog has its operator with the same password.
    pub(crate) fn find(
        &mut self,
        cookie: &Token,
        catalog: &KnownCatalog,
        activity: Activity,
        now: Instant,
    ) -> Option<SignedIn> {
        let lasts = |session: &Session| now - session.began < LASTS_MAX && now - session.used < IDLE_MAX;
        self.0.retain(|session| lasts(session) && catalog.has(&session.operator));
        let fingerprint = cookie.fingerprint();
        let session = self.0.iter_mut().find(|session| session.cookie == fingerprint)?;
        if activity == Activity::Operator {
            session.used = now;
        }
        Some(SignedIn { operator: session.operator.name().to_owned(), request_token: request_token(cookie) })
    }

    /// Ends a session.
    pub(crate) fn end(&mut self, cookie: &Token) {
        let fingerprint = cookie.fingerprint();
        self.0.retain(|session| session.cookie != fingerprint);
    }
}

/// What requests that change something bring besides this cookie.
pub(crate) fn request_token(cookie: &Token) -> Token {
    cookie.derived(REQUEST_PURPOSE)
}

#[cfg(test)]
mod tests {
    use control::{Catalog, Control, DataFolder, Overrides};

    use super::*;

    /// A catalog with one operator, who has proved to be one.
    fn proved() -> (tempfile::TempDir, KnownCatalog, ProvedOperator) {
        let place = tempfile::tempdir().unwrap();
        let folder = DataFolder::create(place.path()).unwrap();
        let mut catalog = Catalog::open(&folder).unwrap();
        catalog.create_operator(&"ann".parse().unwrap(), "correct horse").unwrap();
        let mut control = Control::new(&folder, catalog, Overrides::default());
        control.configuration().unwrap();
        let known = control.catalog();
        let operator = known.prove("ann", "correct horse").unwrap();
        (place, known, operator)
    }

    #[test]
    fn sessions_end_when_idle_when_old_when_ended_and_when_there_are_too_many() {
        let (_place, known, operator) = proved();
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut sessions = Sessions::default();
        let begin = |sessions: &mut Sessions| sessions.begin(operator.clone(), start).unwrap();
        let finds = |sessions: &mut Sessions, cookie: &Token, activity, after: Duration| {
            sessions.find(cookie, &known, activity, start + after).is_some()
        };

        let idle = begin(&mut sessions);
        assert!(finds(&mut sessions, &idle, Activity::PageAlone, IDLE_MAX - second));
        assert!(!finds(&mut sessions, &idle, Activity::PageAlone, IDLE_MAX), "a page that nobody uses is idle");

        let used = begin(&mut sessions);
        let mut after = Duration::ZERO;
        while after < LASTS_MAX {
            assert!(finds(&mut sessions, &used, Activity::Operator, after));
            after += IDLE_MAX / 2;
        }
        assert!(!finds(&mut sessions, &used, Activity::Operator, LASTS_MAX));

        let ended = begin(&mut sessions);
        sessions.end(&ended);
        assert!(!finds(&mut sessions, &ended, Activity::Operator, Duration::ZERO));

        let all: Vec<Token> = (0..=SESSIONS_MAX).map(|_| begin(&mut sessions)).collect();
        assert!(!finds(&mut sessions, &all[0], Activity::Operator, Duration::ZERO), "the oldest has gone");
        assert!(all[1..].iter().all(|cookie| finds(&mut sessions, cookie, Activity::Operator, Duration::ZERO)));
        assert!(!finds(&mut sessions, &Token::new().unwrap(), Activity::Operator, Duration::ZERO));
    }
}
