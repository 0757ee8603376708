//! The features that are registered, and the regions that have metadata caching.

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::settings::{put, value};
use super::wrong::wrong;
use super::{Catalog, time};
use crate::{Error, Feature, Features, Region, Regions};

/// Regions that can be named: more than there are.
const REGIONS_MAX: usize = 200;
/// Where the regions stand among the settings.
const REGIONS: &str = "metadata_caching_regions";
/// What stands there for all regions. No region has this name.
const ANY: &str = "*";

impl Catalog {
    /// What is registered, and where metadata caching is available.
    pub fn features(&mut self) -> Result<Features, Error> {
        let view = self.connection.transaction()?;
        read(&view)
    }

    /// Registers `feature` from `delay` after `now` on; one that is registered already stays so. Gives all features as they are then.
    pub fn register_feature(
        &mut self,
        feature: Feature,
        delay: SignedDuration,
        now: Timestamp,
    ) -> Result<Features, Error> {
        let from = now.saturating_add(delay).unwrap_or(Timestamp::MAX);
        self.write(|transaction| {
            let is_registered = read(transaction)?.registered_from(feature).is_some_and(|from| from <= now);
            if !is_registered {
                transaction.execute(
                    "INSERT OR REPLACE INTO feature (name, registered_from) VALUES (?1, ?2)",
                    params![feature.as_str(), from.as_second()],
                )?;
            }
            read(transaction)
        })
    }

    /// Has `feature` registered no longer. Gives all features as they are then.
    pub fn unregister_feature(&mut self, feature: Feature) -> Result<Features, Error> {
        self.write(|transaction| {
            transaction.execute("DELETE FROM feature WHERE name = ?1", [feature.as_str()])?;
            read(transaction)
        })
    }

    /// Says where metadata caching is available.
    pub fn set_regions(&mut self, regions: &Regions) -> Result<(), Error> {
        let text = match regions {
            Regions::Any => ANY.to_owned(),
            Regions::Only(regions) if (1..=REGIONS_MAX).contains(&regions.len()) => joined(regions),
            Regions::Only(regions) => {
                return Err(Error::argument(
                    format!("{} regions cannot be set", regions.len()),
                    format!("name 1 to {REGIONS_MAX}, or use --any for all"),
                ));
            }
        };
        self.write(|transaction| put(transaction, REGIONS, &text))
    }
}

/// The names in alphabetical order, each once.
fn joined(regions: &[Region]) -> String {
    let mut names: Vec<&str> = regions.iter().map(Region::as_str).collect();
    names.sort_unstable();
    names.dedup();
    names.join(" ")
}

/// What is registered, and where metadata caching is available.
pub(super) fn read(connection: &Connection) -> Result<Features, Error> {
    let regions = match value(connection, REGIONS)?.as_deref() {
        None => Regions::default(),
        Some(ANY) => Regions::Any,
        Some(names) => {
            let regions: Result<Vec<Region>, _> = names.split(' ').map(str::parse).collect();
            Regions::Only(regions.map_err(|_| wrong(REGIONS))?)
        }
    };
    let [one, other] = Feature::ALL;
    Ok(Features { registered_from: [registered_from(connection, one)?, registered_from(connection, other)?], regions })
}

fn registered_from(connection: &Connection, feature: Feature) -> Result<Option<Timestamp>, Error> {
    let select = "SELECT registered_from FROM feature WHERE name = ?1";
    let seconds: Option<i64> = connection.query_row(select, [feature.as_str()], |row| row.get(0)).optional()?;
    seconds.map(time).transpose()
}
