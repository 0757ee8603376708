//! Any bytes as SPNEGO tokens: decoding never panics, what decodes survives a round trip, and no sequence of tokens
//! logs anyone on. The input is tokens one after another, each behind a length of two bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use secure::ntlm::{NtHash, Target};
use secure::spnego::{Acceptor, Env, NegTokenResp, Step, Token};
use wire::ids::FileTime;

/// More steps than any exchange has.
const STEPS_MAX: usize = 5;

fuzz_target!(|data: &[u8]| {
    let target = Target { netbios_computer: "FILES".into(), ..Target::default() };
    let env = Env { target: &target, now: FileTime(0), server_challenge: [0; 8] };
    let mut acceptor = Acceptor::new();
    let mut rest = data;
    for _ in 0..STEPS_MAX {
        let Some((length, behind)) = rest.split_first_chunk() else { break };
        let length = usize::from(u16::from_le_bytes(*length)).min(behind.len());
        let (token, behind) = behind.split_at(length);
        rest = behind;
        round_trip(token);
        match acceptor.step(token, &env, |_| vec![NtHash::from_bytes([0xf7; 16])]) {
            Ok(Step::Continue(answer)) => round_trip(&answer),
            Ok(Step::Done { .. } | Step::Anonymous { .. }) => panic!("nobody knows the key"),
            Err(_) => {}
        }
    }
});

fn round_trip(token: &[u8]) {
    if let Ok(Token::Resp(response)) = Token::decode(token) {
        // Another mechanism than ours is read but never named by us.
        let supports_ntlmssp = response.supports_ntlmssp.filter(|supported| *supported);
        let response = NegTokenResp { supports_ntlmssp, ..response };
        assert_eq!(Token::decode(&response.encode()), Ok(Token::Resp(response)));
    }
}
