//! LOGOFF: ends a session (MS-SMB2 2.2.7, 2.2.8).

use super::empty_body;

empty_body! {
    /// SMB2 LOGOFF Request (2.2.7).
    LogoffRequest
}

empty_body! {
    /// SMB2 LOGOFF Response (2.2.8).
    LogoffResponse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_four_bytes() {
        let message = check_message!(LogoffRequest, LogoffRequest);
        assert_eq!(message[64..], LogoffRequest::to_bytes());
        check_message!(LogoffResponse, LogoffResponse);
    }
}
