//! Large folders are listed.

use server::admin::{Api, Sum};

use super::evidence::Evidence;
use super::time::{Time, requests};
use super::{Found, Kind, percent};

/// Bytes of listings in a second from which on folders are large: some ten thousand names.
const BYTES_MIN: f64 = 1_048_576.0;
/// What a name takes in a listing, about.
const NAME_BYTES: f64 = 128.0;

pub(super) fn find(evidence: &Evidence, time: &Time) -> Option<Found> {
    let active = evidence.active.as_secs_f64();
    let bytes = evidence.counts.sum(Api::QueryDirectory, Sum::SentBytes) as f64;
    let count = requests(&evidence.counts, Api::QueryDirectory);
    if count <= 0.0 || active <= 0.0 || bytes / active < BYTES_MIN {
        return None;
    }
    let names = bytes / NAME_BYTES;
    Some(
        Found::new(Kind::Listing, time.listing)
            .says(format!(
                "Listing folders is {} of the time that all requests took: about {:.0} names in {:.0} requests.",
                percent(time.listing / time.total()),
                names,
                count
            ))
            .shows("listing_seconds", time.listing)
            .shows("requests", count)
            .shows("names_about", names)
            .shows("mib", bytes / f64::from(1 << 20))
            .mended_by("spread the files over more folders, or list less often; `multilane open-files` shows who has which folder open"),
    )
}
