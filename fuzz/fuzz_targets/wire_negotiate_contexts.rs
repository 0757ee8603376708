//! A list of negotiate contexts, after a byte that counts them, and the data of each as its own type.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::codec::Writer;
use wire::context::negotiate::*;
use wire::header::HEADER_LENGTH;

/// Decodes a context's data; what decodes is encoded and decoded to the same.
macro_rules! survives {
    ($type:ty, $data:expr) => {
        if let Ok(decoded) = <$type>::decode($data) {
            let mut again = Vec::new();
            decoded.encode(&mut Writer::new(&mut again));
            assert_eq!(<$type>::decode(&again), Ok(decoded));
        }
    };
}

fuzz_target!(|input: &[u8]| {
    let Some((count, list)) = input.split_first() else { return };
    let message = [&[0; HEADER_LENGTH], list].concat();
    let Ok(contexts) = NegotiateContexts::decode(&message, HEADER_LENGTH as u32, (*count).into()) else { return };
    let mut builder = NegotiateContextsBuilder::new();
    for NegotiateContext { context_type, data } in contexts.iter() {
        builder.add(context_type, |writer| writer.bytes(data));
        match context_type {
            ContextType::PREAUTH_INTEGRITY_CAPABILITIES => survives!(PreauthIntegrityCapabilities<'_>, data),
            ContextType::ENCRYPTION_CAPABILITIES => survives!(EncryptionCapabilities<'_>, data),
            ContextType::COMPRESSION_CAPABILITIES => survives!(CompressionCapabilities<'_>, data),
            ContextType::NETNAME_NEGOTIATE_CONTEXT_ID => survives!(Netname<'_>, data),
            ContextType::TRANSPORT_CAPABILITIES => survives!(TransportCapabilities, data),
            ContextType::RDMA_TRANSFORM_CAPABILITIES => survives!(RdmaTransformCapabilities<'_>, data),
            ContextType::SIGNING_CAPABILITIES => survives!(SigningCapabilities<'_>, data),
            ContextType::POSIX_EXTENSIONS_AVAILABLE => survives!(PosixExtensions<'_>, data),
            _ => {}
        }
    }
    assert_eq!(contexts.iter().count(), usize::from(contexts.count()));
    assert!(builder.contexts().iter().eq(contexts.iter()));
});
