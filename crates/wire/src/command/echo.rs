//! ECHO: asks whether the server is there (MS-SMB2 2.2.28, 2.2.29).

use super::empty_body;

empty_body! {
    /// SMB2 ECHO Request (2.2.28).
    EchoRequest
}

empty_body! {
    /// SMB2 ECHO Response (2.2.29).
    EchoResponse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_four_bytes() {
        let message = check_message!(EchoRequest, EchoRequest);
        assert_eq!(message[64..], EchoRequest::to_bytes());
        check_message!(EchoResponse, EchoResponse);
    }
}
