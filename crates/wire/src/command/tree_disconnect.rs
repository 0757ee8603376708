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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_four_bytes() {
        let message = check_message!(TreeDisconnectRequest, TreeDisconnectRequest);
        assert_eq!(message[64..], TreeDisconnectRequest::to_bytes());
        check_message!(TreeDisconnectResponse, TreeDisconnectResponse);
    }
}
