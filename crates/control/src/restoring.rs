//! Restoring a backup where a server may run.

use std::net::SocketAddr;
use std::path::Path;

use crate::catalog::restore_judged;
use crate::{DataFolder, Error, Restored, Seen, is_for_machine, see};

/// Has the backup `file` take the place of the catalog of the data folder `data`, which is made where there is none. What was there before is kept. Where
/// the backup allows what is not allowed now, `agree` hears of it first, and nothing is changed where it says no; it is to answer at once, for nobody
/// can change the catalog meanwhile. Refuses a key that everybody knows where a server runs that others than this machine reach.
pub fn restore_catalog(data: &Path, file: &Path, agree: &mut dyn FnMut(&[String]) -> bool) -> Result<Restored, Error> {
    restore_judged(data, file, agree, &refuse_published)
}

/// Refuses where a server runs on the folder that others than this machine reach, or nobody knows who does: it would take up this account with the published
/// key. One that starts later looks at its keys itself.
fn refuse_published(folder: &DataFolder, account: &str) -> Result<(), Error> {
    let at = match see(folder)? {
        Seen::Nowhere | Seen::Ends(_) => None,
        Seen::Answers(status) => reached_at(status.listen.iter().chain(&status.rest)),
        Seen::Silent(_) | Seen::Begins(_) => Some("an address that it does not tell".to_owned()),
    };
    let Some(at) = at else { return Ok(()) };
    Err(Error::conflict(
        format!(
            "the running server listens on {at}, and everybody knows the key that the account {account} has in the backup"
        ),
        format!(
            "stop the server, restore, and give the account other keys before you start it again: `multilane account keys {account} --regenerate 1`"
        ),
    ))
}

/// An address, or a URL of one, of these that others than this machine reach.
fn reached_at<'a>(places: impl IntoIterator<Item = &'a String>) -> Option<String> {
    let is_for_machine = |place: &str| {
        let address = place.split_once("://").map_or(place, |(_, rest)| rest).trim_end_matches('/');
        address.parse::<SocketAddr>().is_ok_and(is_for_machine)
    };
    places.into_iter().find(|place| !is_for_machine(place)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog, Existing, development_start, first_start};

    #[test]
    fn what_this_machine_alone_reaches_is_told_apart() {
        let reached = |places: &[&str]| reached_at(&places.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(reached(&["127.0.0.1:4450", "[::1]:4450", "http://127.0.0.1:10004", "https://[::1]:10004/"]), None);
        for place in ["0.0.0.0:445", "[::]:445", "192.0.2.1:4450", "https://0.0.0.0:10004", "http://files.example:1"] {
            assert_eq!(reached(&["127.0.0.1:4450", place]).as_deref(), Some(place));
        }
    }

    #[test]
    fn a_running_server_is_given_no_key_that_everybody_knows() {
        let place = tempfile::tempdir().unwrap();
        let made = |name: &str| {
            let folder = DataFolder::create(&place.path().join(name)).unwrap();
            let catalog = Catalog::open(&folder).unwrap();
            (folder, catalog)
        };
        let (folder, mut catalog) = made("data");
        first_start(&mut catalog, &folder).unwrap();
        let (of_development, mut development) = made("development");
        development_start(&mut development, &of_development).unwrap();
        let file = place.path().join("backup");
        development.back_up(&file, Existing::IsKept).unwrap();

        let restore = || restore_catalog(folder.path(), &file, &mut |_| true);
        // It has its folder, and does not say where it listens.
        let server = folder.lock().unwrap();
        let refused = restore().unwrap_err();
        assert!(refused.what().contains("everybody knows the key"), "{refused}");
        assert_ne!(catalog.accounts().unwrap()[0].name, "devstoreaccount1");
        drop(server);
        let known = "key1 of account devstoreaccount1 is another one, and signs in, and everybody knows it";
        let restored = restore().unwrap();
        assert!(restored.loosened.iter().any(|opens| opens == known), "{:?}", restored.loosened);
    }
}
