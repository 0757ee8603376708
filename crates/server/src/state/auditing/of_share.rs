//! Audit events of shares: what of one is audited from now on.

use std::sync::Arc;

use wire::status::Status;

use crate::state::audit::{AuditActor, AuditClass, AuditEvent, AuditPlace, AuditProof};
use crate::state::configuration::Configuration;
use crate::state::shared::Shared;

/// The operation, which Azure has none for.
pub(crate) const SET_AUDIT: &str = "SetAudit";

/// Tells of shares of which something else is audited than before, whatever that was: who stops it does not go unseen.
pub(crate) fn changed(server: &Shared, before: &Configuration, now: &Configuration) {
    for share in &now.shares {
        let Some(earlier) = before.shares.iter().find(|earlier| earlier.name == share.name) else { continue };
        if earlier.audit == share.audit {
            continue;
        }
        let mut event = AuditEvent::new(AuditClass::Security, SET_AUDIT);
        event.detail = format!("from {} to {}", earlier.audit, share.audit);
        event.actor = AuditActor { proof: AuditProof::Operator, ..AuditActor::default() };
        let server_name = now.settings.server_name.clone();
        event.place =
            AuditPlace { server: server_name, share: Some(Arc::from(share.name.as_str())), ..AuditPlace::default() };
        event.ends_with(Status::SUCCESS);
        server.audit.record(event);
    }
}
