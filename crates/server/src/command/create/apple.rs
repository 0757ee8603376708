//! AAPL: what macOS is told of the server, with a CREATE of a share's root. Not in MS-SMB2; the form is that of Apple's published SMB client and of its "Time
//! Machine over SMB Specification".
//!
//! A Mac asks once a session, and again on each connection that takes the session's place; the answer counts for all shares.

use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::context::apple::{AppleCapabilities, AppleQuery, AppleVolume};
use wire::context::create::{AppleRequest, AppleServerResponse, CreateContextsBuilder, name};

use crate::state::configuration::Configuration;
use crate::state::session::Session;

/// What this server does where its client does, too. Neither UNIX_BASED nor NFS_ACE: files have descriptors here and no modes that a client could
/// rely on, and a Mac that is told of modes judges by them what it may do. Nor OSX_COPYFILE, one request that copies a file of any length with all its
/// streams: without it a Mac has data and streams copied by the server, too, chunk by chunk, and each is judged, limited and told of as any other.
const CAPABILITIES: AppleCapabilities = AppleCapabilities::READ_DIR_ATTR;
/// The name of a model. It decides about nothing but the icon that clients show: a tower. smbtorture
/// takes no name that is not as long as Samba's.
const MODEL: &str = "PowerMac";

/// Answers a server query. Anything else goes unanswered, as it does on servers that do not know it.
pub(super) fn answer(
    session: &Session,
    configuration: &Configuration,
    asked: &AppleRequest,
    contexts: &mut CreateContextsBuilder,
) {
    let AppleRequest::ServerQuery { query, client } = *asked else { return };
    let mutual = CAPABILITIES & client;
    session.apple.agree(mutual);
    let model = utf16_bytes(MODEL);
    let response = AppleServerResponse {
        server: query.contains(AppleQuery::SERVER_CAPS).then_some(mutual),
        volume: query.contains(AppleQuery::VOLUME_CAPS).then(|| volume(configuration, &session.user.load().account)),
        model: Utf16::new(&model).ok().filter(|_| query.contains(AppleQuery::MODEL_INFO)),
    };
    contexts.add(name::APPLE, &response.to_bytes());
}

/// What the shares of an account can do. Every FLUSH is a full one here. It is said where a share is for Time Machine, which asks for it: with it, a Mac may
/// back up to each share that it has mounted. Names compare without case, and no file is found by its id.
fn volume(configuration: &Configuration, account: &str) -> AppleVolume {
    let is_asked_for = configuration.shares.iter().any(|share| share.time_machine && share.account == account);
    if is_asked_for { AppleVolume::FULL_SYNC } else { AppleVolume::NONE }
}
