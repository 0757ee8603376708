//! What requests say beside their paths, read without doing anything of it, for who tests that whatever is sent can be read or is refused.

use hyper::header::HeaderMap;

use super::kept;
use super::{delegation, handles, kept_stream, listing, permission, range, share_lease, smb_properties};
use crate::query::Query;

/// What headers and the query say, each read as if it were meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// The first byte and the last, where a range is named.
    pub(crate) range: Option<(u64, Option<u64>)>,
    /// Bytes of the names and values of metadata, unless these are refused.
    pub(crate) metadata_bytes: usize,
    /// The name that a listing goes on with.
    pub(crate) marker: Option<String>,
}

/// Reads what the head of a request says.
pub(crate) fn read_head(headers: &HeaderMap, query: &Query) -> Said {
    let texts = headers.values().filter_map(|value| value.to_str().ok());
    for text in texts {
        let _ = smb_properties::read(text);
        let _ = permission::read(text, headers);
        let _ = share_lease::guid("a header", text);
        let _ = handles::one_or_all(text);
    }
    let _ = kept::content(headers);
    let named = headers.get("x-ms-range").or_else(|| headers.get("range")).and_then(|value| value.to_str().ok());
    let metadata = kept::metadata(headers).unwrap_or_default();
    Said {
        range: named.and_then(|text| range::parsed(text).ok()),
        metadata_bytes: metadata.iter().map(|(name, value)| name.len() + value.len()).sum(),
        marker: query.get("marker").and_then(|marker| listing::name_of_marker(marker).ok()),
    }
}

/// Reads a body as each of those in JSON, and as a request for a key; and a stream of what is kept of a file, which SMB clients can write. True where what
/// was read of the stream comes back as it was once it is written.
pub(crate) fn read_body(body: &[u8]) -> bool {
    let _ = permission::read_body(body);
    let _ = delegation::read_body(body);
    let Some(kept) = kept_stream::value(body) else { return true };
    let again = serde_json::to_vec(&kept).ok().and_then(|text| kept_stream::value(&text));
    again == Some(kept)
}
