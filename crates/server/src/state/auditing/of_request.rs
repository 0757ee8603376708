//! Audit events of requests by another protocol that are refused before they reach a share.

use std::sync::Arc;

use wire::status::Status;

use crate::state::audit::{AuditActor, AuditClass, AuditEvent, AuditPlace, AuditProof, AuditRefusal, shortened};
use crate::state::shared::Shared;

/// Tells of a request that was refused, as signing in that fails is told of.
pub(crate) fn refused(server: &Shared, refusal: AuditRefusal) {
    let configuration = server.configuration.load();
    if !configuration.audits_sign_in(refusal.account.as_deref()) {
        return;
    }
    let AuditRefusal { operation, origin, account, share, path, code } = refusal;
    let is_stranger = origin.proof == AuditProof::Claimed;
    let mut event = AuditEvent::new(AuditClass::SignIn, operation);
    event.detail = code;
    event.actor = AuditActor {
        caller: Some(Arc::clone(&origin.caller)),
        user: Some(origin.requester.clone()).filter(|name| !name.is_empty()),
        account,
        proof: origin.proof,
        origin: Some(Arc::new(origin)),
        ..AuditActor::default()
    };
    event.place = AuditPlace {
        server: configuration.settings.server_name.clone(),
        share: share.map(Arc::from),
        // What strangers ask for is theirs to choose, and they are many.
        path: path.filter(|_| !is_stranger).map(|path| shortened(&path)),
        ..AuditPlace::default()
    };
    event.ends_with(if is_stranger { Status::LOGON_FAILURE } else { Status::ACCESS_DENIED });
    server.audit.record(event);
}
