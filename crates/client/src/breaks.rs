//! What the server takes back: lease breaks are acknowledged at once, since nothing is cached (MS-SMB2 3.2.5.19).

use std::sync::Weak;

use tokio::sync::mpsc;
use wire::command::oplock_break::{LeaseBreak, LeaseBreakFlags, OplockBreakNotification, OplockBreakRequest};
use wire::ids::{Command, FileId};

use crate::message::Answer;
use crate::perform::Ask;
use crate::shared::Shared;

/// Answers breaks until the session is gone.
pub(crate) async fn answer(shared: Weak<Shared>, mut breaks: mpsc::UnboundedReceiver<Answer>) {
    while let Some(message) = breaks.recv().await {
        let Some(shared) = shared.upgrade() else { return };
        let Ok(OplockBreakNotification::Lease(broken)) = OplockBreakNotification::decode(message.message()) else {
            continue;
        };
        let opens = shared.state.lock().opens.clone();
        let open = opens.iter().filter_map(Weak::upgrade).find(|open| open.lease_key == broken.lease_key);
        let Some(open) = open.filter(|_| broken.flags.contains(LeaseBreakFlags::ACK_REQUIRED)) else { continue };
        let request = LeaseBreak { lease_key: broken.lease_key, lease_state: broken.new_lease_state };
        tokio::spawn(async move {
            let body = move |out: &mut Vec<u8>, _: FileId| OplockBreakRequest::Lease(request).encode(out);
            let ask = Ask { command: Command::OPLOCK_BREAK, tree: Some(&open.tree), ..Ask::of_session(&body) };
            if let Err(error) = shared.perform(&ask).await {
                tracing::debug!(%error, "a lease break was not acknowledged");
            }
        });
    }
}
