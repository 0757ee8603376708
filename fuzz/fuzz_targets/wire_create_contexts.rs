//! A list of create contexts, and the data of each as the types of its name, those of requests and of responses.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::context::create::*;

/// Decodes a context's data; what decodes is encoded and decoded to the same.
macro_rules! survives {
    ($type:ty, $data:expr) => {
        if let Ok(decoded) = <$type>::decode($data) {
            assert_eq!(<$type>::decode(&decoded.to_bytes()), Ok(decoded));
        }
    };
}

fuzz_target!(|list: &[u8]| {
    let Ok(contexts) = CreateContexts::decode(list) else { return };
    let mut builder = CreateContextsBuilder::new();
    for CreateContext { name, data } in contexts.iter() {
        builder.add(name, data);
        assert!(contexts.find(name).is_some());
        match name {
            name::LEASE => survives!(Lease, data),
            name::DURABLE_HANDLE_RECONNECT => survives!(DurableReconnect, data),
            name::DURABLE_HANDLE_REQUEST_V2 => {
                survives!(DurableRequestV2, data);
                survives!(DurableResponseV2, data);
            }
            name::DURABLE_HANDLE_RECONNECT_V2 => survives!(DurableReconnectV2, data),
            name::ALLOCATION_SIZE => survives!(AllocationSize, data),
            name::TIMEWARP_TOKEN => survives!(TimewarpToken, data),
            name::QUERY_MAXIMAL_ACCESS => {
                let _ = MaximalAccessRequest::decode(data);
                survives!(MaximalAccessResponse, data);
            }
            name::QUERY_ON_DISK_ID => survives!(OnDiskId, data),
            name::APP_INSTANCE_ID => survives!(AppInstanceId, data),
            name::APP_INSTANCE_VERSION => survives!(AppInstanceVersion, data),
            name::APPLE => {
                survives!(AppleRequest, data);
                survives!(AppleServerResponse<'_>, data);
            }
            name::POSIX => {
                survives!(PosixRequest, data);
                survives!(PosixResponse<'_>, data);
            }
            _ => {}
        }
    }
    assert!(contexts.iter().count() <= CREATE_CONTEXTS_MAX);
    assert!(builder.contexts().iter().eq(contexts.iter()));
    assert_eq!(CreateContexts::decode(builder.contexts().as_bytes()), Ok(builder.contexts()));
});
