//! TREE_DISCONNECT: leaves a share (MS-SMB2 2.2.11, 2.2.12).

use super::empty_body;

empty_body! {
    /// SMB2 TREE_DISCONNECT Request (2.2.11).
    TreeDisconnectRequest
}

empty_body! {
    /// SMB2 TREE_DISCONNECT Response (2.2.12).
    TreeDisconnectResponse
}
