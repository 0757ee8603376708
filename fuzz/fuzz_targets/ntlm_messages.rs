//! Any bytes as each of NTLM's messages: decoding never panics, what decodes survives a round trip, and no
//! AUTHENTICATE_MESSAGE that was not made with the key is accepted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use secure::ntlm::{
    Acceptor, Authenticate, AvPairs, Challenge, Credentials, Flags, Fresh, Initiator, Negotiate, NtHash, Target,
};
use wire::ids::FileTime;

fuzz_target!(|data: &[u8]| {
    if let Ok(message) = Authenticate::decode(data) {
        let mut encoded = Vec::new();
        // Fields may overlap in what a peer sends but not in what we write, so that ours can be too long.
        if message.encode(&mut encoded).is_ok() {
            let again = Authenticate::decode(&encoded).expect("what we write decodes");
            assert_eq!((again.nt_response, again.user), (message.nt_response, message.user));
        }
    }
    if let Ok(challenge) = Challenge::decode(data) {
        let mut encoded = Vec::new();
        challenge.encode(&mut encoded).expect("fields that were read can be written");
        assert_eq!(Challenge::decode(&encoded), Ok(challenge));
    }
    if let Ok(pairs) = AvPairs::parse(data) {
        let length: usize = pairs.iter().map(|(_, value)| 4 + value.len()).sum();
        assert_eq!(length, pairs.as_bytes().len());
    }
    let _ = Acceptor::new(data, &Target::default(), FileTime(0), [0; 8]);
    let initiator = Initiator::new();
    let acceptor = Acceptor::new(initiator.negotiate(), &Target::default(), FileTime(0), [0; 8]);
    let outcome = acceptor.expect("our own message").authenticate(data, |_| vec![NtHash::from_bytes([0xf7; 16])]);
    assert!(outcome.is_err());
    // The same of a client that speaks no Unicode.
    let mut negotiate = Vec::new();
    Negotiate { flags: Flags::OEM | Flags::EXTENDED_SESSION_SECURITY }.encode(&mut negotiate);
    let acceptor = Acceptor::new(&negotiate, &Target::default(), FileTime(0), [0; 8]).expect("our own message");
    assert!(acceptor.authenticate(data, |_| vec![NtHash::from_bytes([0xf7; 16])]).is_err());
    let credentials = Credentials {
        domain: String::new(),
        user: "user".into(),
        workstation: String::new(),
        nt_hash: NtHash::from_bytes([0xf7; 16]),
    };
    let fresh = Fresh { client_challenge: [1; 8], session_key: [2; 16].into() };
    let _ = initiator.authenticate(data, &credentials, FileTime(0), &fresh);
});
