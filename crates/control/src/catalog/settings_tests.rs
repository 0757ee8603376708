//! Settings that are kept.

use std::time::Duration;

use server::admin::{Anonymous, OwnAddresses, Polling, Sealing, Signing};

use super::tests::place;
use super::*;
use crate::{Control, Fault, Overrides};

#[test]
fn settings_are_kept_and_wrong_ones_are_never_taken_for_defaults() {
    let (_place, folder) = place();
    let mut catalog = Catalog::open(&folder).unwrap();
    let first = catalog.settings().unwrap();
    assert_eq!((first.signing, first.sealing), (Signing::Required, Sealing::Enabled));
    let advertised = vec![crate::parse_advertised("203.0.113.7,speed=25G,rss").unwrap()];
    let listen = vec!["127.0.0.1:4450".parse().unwrap(), "[::1]:445".parse().unwrap()];
    let all = [
        Setting::Listen(listen.clone()),
        Setting::Signing(Signing::Enabled),
        Setting::Sealing(Sealing::Required),
        Setting::DialectMin(Dialect::Smb311),
        Setting::ChannelsMax(8),
        Setting::BusyPoll(BusyPolling::Microseconds(200)),
        Setting::Advertise(advertised.clone()),
        Setting::OwnAddresses(OwnAddresses::LeftOut),
        Setting::Anonymous(Anonymous::Reauthentication),
        Setting::LockAfter("10".parse().unwrap()),
        Setting::LockFor("1h".parse().unwrap()),
        Setting::PasswordLengthMin("12".parse().unwrap()),
    ];
    assert_eq!(first.kept, Vec::<&str>::new());
    all.iter().for_each(|setting| drop(catalog.set(setting).unwrap()));
    settings::put(&catalog.connection, "server_name", "files").unwrap();
    let changed = StoredSettings {
        listen,
        dialect_min: Dialect::Smb311,
        signing: Signing::Enabled,
        sealing: Sealing::Required,
        channels_max: 8,
        busy_poll: BusyPolling::Microseconds(200),
        advertise: advertised,
        own_addresses: OwnAddresses::LeftOut,
        anonymous: Anonymous::Reauthentication,
        lock_after: "10".parse().unwrap(),
        lock_for: "1h".parse().unwrap(),
        password_length_min: "12".parse().unwrap(),
        server_name: Some("files".to_owned()),
        kept: all.iter().map(Setting::name).collect(),
        ..first.clone()
    };
    assert_eq!(changed.each(), all);
    assert_eq!(catalog.settings().unwrap(), changed);
    let overrides = Overrides { busy_poll: Some(BusyPolling::Off), ..Overrides::default() };
    for (overrides, polling) in
        [(Overrides::default(), Polling::For(Duration::from_micros(200))), (overrides, Polling::Off)]
    {
        let mut control = Control::new(&folder, Catalog::open(&folder).unwrap(), overrides);
        let settings = control.configuration().unwrap().settings;
        assert_eq!((settings.busy_poll, settings.sealing, settings.channels_max), (polling, Sealing::Required, 8));
    }
    let many = vec!["127.0.0.1:1".parse().unwrap(); 65];
    assert_eq!(catalog.set(&Setting::Listen(many)).unwrap_err().fault(), Fault::Argument);
    // Nothing would be left to tell clients of.
    assert_eq!(catalog.unset("advertise").unwrap_err().fault(), Fault::Argument);
    assert_eq!(catalog.unset("machine-sid").unwrap_err().fault(), Fault::Argument);
    assert_eq!(catalog.settings().unwrap(), changed);

    for (name, value) in [
        ("signing", "maybe"),
        ("sealing", ""),
        ("dialect_min", "1.0"),
        ("listen", "here"),
        ("server_guid", "x"),
        ("channels_max", "0"),
        ("channels_max", "33"),
        ("password_length_min", "0"),
        ("password_length_min", "65"),
        ("busy_poll", "0us"),
        ("busy_poll", "10001us"),
        ("busy_poll", "5ms"),
        ("advertise", "here"),
        ("advertise_only", "maybe"),
        ("anonymous", ""),
    ] {
        let kept = settings::value(&catalog.connection, name).unwrap().unwrap();
        settings::put(&catalog.connection, name, value).unwrap();
        assert!(catalog.settings().is_err(), "{name} {value:?}");
        settings::put(&catalog.connection, name, &kept).unwrap();
    }
    for setting in all.iter().rev() {
        catalog.unset(setting.name()).unwrap();
    }
    let name = catalog.settings().unwrap().server_name;
    assert_eq!(catalog.settings().unwrap(), StoredSettings { server_name: name, ..first });
}
