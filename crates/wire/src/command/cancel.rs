//! CANCEL: gives up a request; it is never answered itself (MS-SMB2 2.2.30).

use super::empty_body;

empty_body! {
    /// SMB2 CANCEL Request (2.2.30).
    CancelRequest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_four_bytes() {
        let message = check_message!(CancelRequest, CancelRequest);
        assert_eq!(message[64..], CancelRequest::to_bytes());
    }
}
