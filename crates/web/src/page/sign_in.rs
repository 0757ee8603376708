//! Signing in: passwords are looked at one at a time, by a thread that does nothing else.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::KnownCatalog;
use parking_lot::Mutex;
use secure::Token;
use tracing::{error, info};
use zeroize::Zeroizing;

use crate::flight::Unanswered;
use crate::page::sessions::{Keys, Sessions};
use crate::page::throttle::Throttle;
use crate::page::worker::{Priority, Worker};

/// Characters of a name that are looked at: no operator's is longer.
const NAME_MAX: usize = 64;

/// Where operators sign in.
pub(crate) struct SignIn {
    worker: Worker,
    catalog: KnownCatalog,
    throttle: Arc<Mutex<Throttle>>,
    sessions: Arc<Mutex<Sessions>>,
}

/// What came of it.
pub(crate) enum Outcome {
    /// Who, and what the session is known by.
    SignedIn(String, Keys),
    /// Name or password is wrong; which, nobody is told.
    Wrong,
    /// Too many have failed: it was not looked at, and is after this time.
    Wait(Duration),
    /// There is no randomness.
    Failed,
}

impl SignIn {
    pub(crate) fn start(catalog: KnownCatalog, sessions: Arc<Mutex<Sessions>>) -> io::Result<Self> {
        // One password at a time, and few of them: the throttle sees to that.
        let worker = Worker::start("page-sign-in", Priority::Normal)?;
        Ok(SignIn { worker, catalog, throttle: Arc::default(), sessions })
    }

    /// Tries a name and a password, of a browser that has these cookies.
    pub(crate) async fn attempt(
        &self,
        name: String,
        password: Zeroizing<String>,
        cookies: Vec<Token>,
    ) -> Result<Outcome, Unanswered> {
        let (catalog, throttle) = (self.catalog.clone(), Arc::clone(&self.throttle));
        let sessions = Arc::clone(&self.sessions);
        let name: String = name.chars().take(NAME_MAX).collect();
        self.worker.run(move || judge(&catalog, &throttle, &sessions, (&name, &password), &cookies)).await
    }
}

fn judge(
    catalog: &KnownCatalog,
    throttle: &Mutex<Throttle>,
    sessions: &Mutex<Sessions>,
    (name, password): (&str, &str),
    cookies: &[Token],
) -> Outcome {
    // What strangers type stands in no log: it may be somebody's password.
    let known = || catalog.operator_named(name).unwrap_or_default();
    let wait = throttle.lock().wait(name, Instant::now());
    if !wait.is_zero() {
        let told = throttle.lock().turned_away(name, Instant::now());
        if let Some(attempts) = told {
            info!(name: "operator_sign_in_throttled", operator = known(), attempts, "too many have failed to sign in to the page: nobody is looked at for a while");
        }
        return Outcome::Wait(wait);
    }
    let Some(proved) = catalog.prove(name, password) else {
        throttle.lock().failed(name, Instant::now());
        info!(name: "operator_sign_in_refused", operator = known(), "nobody has signed in to the page: the name or the password is wrong");
        return Outcome::Wrong;
    };
    throttle.lock().succeeded(name);
    let operator = proved.name().to_owned();
    match sessions.lock().begin(proved, cookies, catalog, Instant::now()) {
        Ok(keys) => {
            info!(name: "operator_signed_in", operator, "an operator has signed in to the page");
            Outcome::SignedIn(operator, keys)
        }
        Err(cause) => {
            error!(name: "randomness_missing", error = %cause, "nobody can sign in");
            Outcome::Failed
        }
    }
}
