//! Audit events of sessions: one that ends.

use std::sync::Arc;

use wire::status::Status;

use crate::state::audit::{AuditActor, AuditClass, AuditEvent, AuditIds, AuditPlace, SessionEnd};
use crate::state::configuration::{Configuration, Share};
use crate::state::counters::Api;
use crate::state::session::Session;
use crate::state::shared::Shared;

impl Configuration {
    /// True where signing in to an account is audited: some share of it asks for that. Without an account it is where any share does.
    pub(crate) fn audits_sign_in(&self, account: Option<&str>) -> bool {
        let of = |share: &&Share| account.is_none_or(|account| share.account == account);
        self.shares.iter().filter(of).any(|share| share.audit.contains(AuditClass::SignIn))
    }
}

/// Tells of a session that has ended.
pub(crate) fn ended(server: &Shared, session: &Session, end: SessionEnd) {
    let (user, configuration) = (session.user.load(), server.configuration.load());
    if !configuration.audits_sign_in(Some(&user.account)) {
        return;
    }
    let first = || session.channels().first().map(|channel| Arc::from(&*channel.peer));
    let mut event = AuditEvent::new(AuditClass::SignIn, Api::Logoff.name());
    event.minor = "SessionEnd".into();
    event.end = Some(end.by);
    event.actor = AuditActor::of(&user, end.caller.or_else(first));
    event.actor.dialect = Some(session.dialect.0);
    event.place = AuditPlace { server: configuration.settings.server_name.clone(), ..AuditPlace::default() };
    event.ids = AuditIds { session: Some(session.id.0), ..AuditIds::default() };
    event.ends_with(Status::SUCCESS);
    server.audit.record(event);
}
