//! Operators who have signed in to the page. A session is known by a cookie and by a secret, of which hashes alone are kept.
//!
//! A browser sends its cookies to all ports of this machine, so that whoever listens at one of them has the cookie. The secret is what a page keeps for
//! itself, at its own port alone; the cookie is what no script can read.

use std::time::{Duration, Instant};

use control::{KnownCatalog, ProvedOperator};
use secure::{Fingerprint, RandomFault, Token};

/// Sessions at a time; beyond that the oldest goes.
const SESSIONS_MAX: usize = 64;
/// How long a session lasts after its operator last did something,
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);
/// and at most.
const LASTS_MAX: Duration = Duration::from_secs(12 * 60 * 60);

/// All sessions, the oldest first.
#[derive(Default)]
pub(crate) struct Sessions(Vec<Session>);

struct Session {
    cookie: Fingerprint,
    secret: Fingerprint,
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

/// What a session is known by. Neither says anything of the other.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) cookie: Token,
    pub(crate) secret: Token,
}

/// What a request brings: all cookies that may be the session's, since others may have set some of its name.
pub(crate) struct Shown {
    pub(crate) cookies: Vec<Token>,
    pub(crate) secret: Option<Token>,
}

impl Sessions {
    /// Begins a session. A browser with another session of this operator keeps its cookie, which all its tabs have in common.
    pub(crate) fn begin(
        &mut self,
        operator: ProvedOperator,
        cookies: &[Token],
        catalog: &KnownCatalog,
        now: Instant,
    ) -> Result<Keys, RandomFault> {
        self.forget_ended(catalog, now);
        let is_kept = |cookie: &&Token| {
            let fingerprint = cookie.fingerprint();
            self.0.iter().any(|session| session.cookie == fingerprint && session.operator == operator)
        };
        let cookie = cookies.iter().find(is_kept).cloned().map_or_else(Token::new, Ok)?;
        let secret = Token::new()?;
        if self.0.len() >= SESSIONS_MAX {
            self.0.remove(0);
        }
        let (kept, secret_kept) = (cookie.fingerprint(), secret.fingerprint());
        self.0.push(Session { cookie: kept, secret: secret_kept, operator, began: now, used: now });
        Ok(Keys { cookie, secret })
    }

    /// The operator of the session that this is shown of, while it lasts and the catalog has its operator with the same password.
    pub(crate) fn find(
        &mut self,
        shown: &Shown,
        catalog: &KnownCatalog,
        activity: Activity,
        now: Instant,
    ) -> Option<String> {
        self.forget_ended(catalog, now);
        let session = self.session(shown)?;
        if activity == Activity::Operator {
            session.used = now;
        }
        Some(session.operator.name().to_owned())
    }

    /// Ends the session that this is shown of, and the others of its cookie, which the browser is told to forget.
    pub(crate) fn end(&mut self, shown: &Shown) {
        if let Some(cookie) = self.session(shown).map(|session| session.cookie) {
            self.0.retain(|session| session.cookie != cookie);
        }
    }

    fn session(&mut self, shown: &Shown) -> Option<&mut Session> {
        let secret = shown.secret.as_ref()?.fingerprint();
        let cookies: Vec<Fingerprint> = shown.cookies.iter().map(Token::fingerprint).collect();
        self.0.iter_mut().find(|session| session.secret == secret && cookies.contains(&session.cookie))
    }

    fn forget_ended(&mut self, catalog: &KnownCatalog, now: Instant) {
        let lasts = |session: &Session| now - session.began < LASTS_MAX && now - session.used < IDLE_MAX;
        self.0.retain(|session| lasts(session) && catalog.has(&session.operator));
    }
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

    fn shown(cookies: &[&Token], secret: &Token) -> Shown {
        Shown { cookies: cookies.iter().map(|cookie| (*cookie).clone()).collect(), secret: Some(secret.clone()) }
    }

    #[test]
    fn sessions_end_when_idle_when_old_when_ended_and_when_there_are_too_many() {
        let (_place, known, operator) = proved();
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut sessions = Sessions::default();
        let begin = |sessions: &mut Sessions| sessions.begin(operator.clone(), &[], &known, start).unwrap();
        let finds = |sessions: &mut Sessions, keys: &Keys, activity, after: Duration| {
            sessions.find(&shown(&[&keys.cookie], &keys.secret), &known, activity, start + after).is_some()
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
        sessions.end(&shown(&[&ended.cookie], &ended.secret));
        assert!(!finds(&mut sessions, &ended, Activity::Operator, Duration::ZERO));

        let all: Vec<Keys> = (0..=SESSIONS_MAX).map(|_| begin(&mut sessions)).collect();
        assert!(!finds(&mut sessions, &all[0], Activity::Operator, Duration::ZERO), "the oldest has gone");
        assert!(all[1..].iter().all(|keys| finds(&mut sessions, keys, Activity::Operator, Duration::ZERO)));
    }

    #[test]
    fn a_session_is_that_of_a_cookie_and_its_secret() {
        let (_place, known, operator) = proved();
        let (now, other) = (Instant::now(), Token::new().unwrap());
        let mut sessions = Sessions::default();
        let keys = sessions.begin(operator.clone(), &[], &known, now).unwrap();
        let second = sessions.begin(operator.clone(), &[], &known, now).unwrap();
        assert!(keys.cookie != keys.secret && keys.cookie != second.cookie);
        let mut finds = |shown: &Shown| sessions.find(shown, &known, Activity::Operator, now).is_some();
        assert!(finds(&shown(&[&keys.cookie], &keys.secret)));
        assert!(finds(&shown(&[&other, &keys.cookie], &keys.secret)), "another page has set a cookie of this name");
        assert!(!finds(&Shown { cookies: vec![keys.cookie.clone()], secret: None }));
        assert!(!finds(&shown(&[], &keys.secret)) && !finds(&shown(&[&other], &keys.secret)));
        for secret in [&keys.cookie, &second.secret, &other] {
            assert!(!finds(&shown(&[&keys.cookie], secret)));
        }
    }

    #[test]
    fn tabs_of_one_browser_have_one_cookie_and_secrets_of_their_own() {
        let (_place, known, operator) = proved();
        let (now, unknown) = (Instant::now(), Token::new().unwrap());
        let mut sessions = Sessions::default();
        let first = sessions.begin(operator.clone(), std::slice::from_ref(&unknown), &known, now).unwrap();
        assert_ne!(first.cookie, unknown, "nobody else chooses a session's cookie");
        let second = sessions.begin(operator, &[unknown, first.cookie.clone()], &known, now).unwrap();
        assert!(first.cookie == second.cookie && first.secret != second.secret);
        let both = [&first, &second].map(|keys| shown(&[&keys.cookie], &keys.secret));
        assert!(both.iter().all(|shown| sessions.find(shown, &known, Activity::Operator, now).is_some()));
        sessions.end(&both[0]);
        assert!(both.iter().all(|shown| sessions.find(shown, &known, Activity::Operator, now).is_none()));
    }
}
