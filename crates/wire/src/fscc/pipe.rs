//! Named pipes (MS-FSCC 2.4.37 to 2.4.39).

/// The pipe reads as a stream of bytes (ReadMode, NamedPipeType).
pub const BYTE_STREAM: u32 = 0;
/// The pipe reads as a stream of messages (ReadMode, NamedPipeType).
pub const MESSAGE: u32 = 1;
/// Calls wait (CompletionMode).
pub const QUEUE_OPERATION: u32 = 0;
/// Calls do not wait (CompletionMode).
pub const COMPLETE_OPERATION: u32 = 1;
/// Both ends read and write (NamedPipeConfiguration).
pub const FULL_DUPLEX: u32 = 2;
/// The pipe is connected (NamedPipeState).
pub const CONNECTED: u32 = 3;
/// The client's end (NamedPipeEnd).
pub const CLIENT_END: u32 = 0;

layout! {
    /// FilePipeInformation (MS-FSCC 2.4.37).
    pub struct Pipe {
        /// [`BYTE_STREAM`] or [`MESSAGE`].
        pub read_mode: u32;
        /// [`QUEUE_OPERATION`] or [`COMPLETE_OPERATION`].
        pub completion_mode: u32;
    }

    /// FilePipeLocalInformation (MS-FSCC 2.4.38).
    pub struct PipeLocal {
        /// [`BYTE_STREAM`] or [`MESSAGE`].
        pub kind: u32;
        /// Directions: see [`FULL_DUPLEX`].
        pub configuration: u32;
        /// Most instances.
        pub instances_max: u32;
        /// Instances.
        pub instances: u32;
        /// Bytes kept for what comes in.
        pub inbound_quota: u32;
        /// Bytes to be read.
        pub read_available: u32;
        /// Bytes kept for what goes out.
        pub outbound_quota: u32;
        /// Bytes that may be written.
        pub write_available: u32;
        /// See [`CONNECTED`].
        pub state: u32;
        /// See [`CLIENT_END`].
        pub end: u32;
    }

    /// FilePipeRemoteInformation (MS-FSCC 2.4.39).
    pub struct PipeRemote {
        /// How long a client collects data before it sends, in 100-nanosecond intervals.
        pub collect_time: u64;
        /// How many bytes it collects.
        pub collection_bytes_max: u32;
    }
}
