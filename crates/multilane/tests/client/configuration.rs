//! The server that simulated clients speak to, and the time in which they do.

use std::sync::Arc;

use client::{Access, Disposition, Network, OpenOptions, Session, Settings, Target};
use server::admin::{Advertise, AdvertisedAddress, Configuration, Multichannel, OwnAddresses, Sealing, Signing};
use server::in_memory::InMemory;
use store::RamStore;

use crate::network::{Links, PORT, reach_all, server_address};

#[path = "../../../server/src/tests/kit/configuration.rs"]
mod kit;

/// A server with one RAM disk, `ram`, that tells of `count` addresses; multichannel as `multichannel` has it.
pub(crate) fn server(count: u8, multichannel: Multichannel, sealing: Sealing) -> InMemory {
    InMemory::new(configuration(count, multichannel, sealing))
}

/// What such a server serves.
pub(crate) fn configuration(count: u8, multichannel: Multichannel, sealing: Sealing) -> Configuration {
    let address = |index| AdvertisedAddress {
        address: server_address(usize::from(index)),
        bits_per_second: Some(1_000_000_000),
        rss: false,
    };
    let mut configuration = kit::configuration(Arc::new(RamStore::new(256 << 20)));
    configuration.accounts[0].multichannel = multichannel;
    configuration.settings = server::admin::Settings {
        dialect_min: 0x0300,
        signing: Signing::Required,
        sealing,
        channels_max: 4,
        advertise: Advertise { addresses: (0..count).map(address).collect(), own: OwnAddresses::LeftOut },
        ..configuration.settings
    };
    configuration
}

/// The same with the metadata of its share cached.
pub(crate) fn caching(mut configuration: Configuration) -> Configuration {
    let share = &mut configuration.shares[0];
    share.store = kit::behind_cache(Arc::clone(&share.store));
    configuration
}

/// How a file is made that is written to.
pub(crate) fn making(disposition: Disposition) -> OpenOptions {
    OpenOptions { access: Access::Write, disposition, directory: Some(false), ..OpenOptions::default() }
}

/// Who signs in.
pub(crate) fn target(password: &str) -> Target {
    Target { host: "server".into(), port: PORT, user: kit::USER.into(), password: password.into() }
}

/// Signs in over `links`.
pub(crate) async fn session(links: &Arc<Links>, settings: Settings) -> Session {
    session_over(reach_all(links), settings).await
}

/// Signs in over a network.
pub(crate) async fn session_over(network: Arc<dyn Network>, settings: Settings) -> Session {
    Session::connect(&target(kit::PASSWORD), settings, network).await.unwrap()
}

/// Runs a test on one thread with virtual time. Nothing in it waits for real time or another thread, so that the same chance gives the same
/// history.
pub(crate) fn simulate<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test)
}
