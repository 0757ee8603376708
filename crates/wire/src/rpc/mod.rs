//! DCE/RPC over a named pipe, and of its interfaces the few calls that clients make of a file server.
