//! CANCEL: gives up a request; it is never answered itself (MS-SMB2 2.2.30).

use super::empty_body;

empty_body! {
    /// SMB2 CANCEL Request (2.2.30).
    CancelRequest
}
