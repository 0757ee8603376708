//! Clients that break the rules, over real sockets: each is answered with the right status or loses its connection, and nobody
//! else notices.

mod channels;
mod compound;
mod create;
mod credits;
mod data;
mod deaf;
mod failing;
mod framing;
mod links;
mod negotiate;
mod peer;
mod random;
mod setup;
mod transform;
mod validate;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use server::admin::{
    Account, Advertise, Anonymous, CHANNELS_DEFAULT, Configuration, Multichannel, Principal, PrincipalKind, Sealing,
    Settings, Share, Signing, nt_hash,
};
use server::{Config, Server};
use store::RamStore;

use crate::peer::{PASSWORD, Peer, USER};

/// Serves one RAM disk, lets `test` do its worst, and sees whether a client from before and a new one still work.
fn served(test: impl FnOnce(SocketAddr)) {
    let config = Config { listen: vec![([127, 0, 0, 1], 0).into()], shards: 2, opens: None };
    let server = Server::start(&config, configuration()).unwrap();
    let address = server.addresses()[0];
    let mut bystander = Peer::signed_in(address);
    bystander.write_and_read_back("bystander");
    test(address);
    bystander.write_and_read_back("bystander");
    Peer::signed_in(address).write_and_read_back("new");
    drop(bystander);
    server.stop(Duration::ZERO);
}

fn configuration() -> Configuration {
    let principal = Principal {
        name: USER.into(),
        account: "local".into(),
        kind: PrincipalKind::User,
        relative_id: 1001,
        secrets: vec![nt_hash(PASSWORD)],
    };
    let account = Account { name: "local".into(), multichannel: Multichannel::On };
    let share = Share {
        name: "ram".into(),
        account: "local".into(),
        comment: String::new(),
        store: Arc::new(RamStore::new(64 << 20)),
        read_only: false,
        seal_required: false,
        access_based: false,
        continuously_available: false,
    };
    let settings = Settings {
        server_name: "test".into(),
        machine_sid: [1, 2, 3],
        server_guid: [7; 16],
        dialect_min: 0x0202,
        signing: Signing::Enabled,
        sealing: Sealing::Enabled,
        channels_max: CHANNELS_DEFAULT,
        advertise: Advertise::default(),
        anonymous: Anonymous::default(),
    };
    Configuration {
        principals: vec![principal],
        accounts: vec![account],
        shares: vec![share],
        awaited: Vec::new(),
        settings,
    }
}
