//! Names that a client chose and nothing was done to: they are cut, so that they cost little in the queue and in the log.

use std::sync::Arc;

use server::admin::{AuditEvent, AuditProof};

use crate::shown::json_bytes;

/// Characters of a name.
pub(super) const NAME_MAX: usize = 256;
/// The same of a share's name: no share has a longer one.
const SHARE_MAX: usize = 80;
/// Bytes of each in JSON, in which a character may take twelve.
const JSON_MAX: usize = 1 << 10;
/// What stands for the rest.
pub(super) const CUT: &str = "...";
/// Bytes of a line about a stranger beside the name that it claims.
const STRANGER_LINE_BYTES: usize = 1 << 10;

/// Cuts the names of a request that was refused, and what strangers say they are.
pub(super) fn cut(event: &mut AuditEvent) {
    if event.actor.proof == AuditProof::Claimed {
        event.actor.user.iter_mut().for_each(cut_name);
    }
    if !event.is_refused() {
        return;
    }
    event.place.path.iter_mut().chain(&mut event.place.new_path).for_each(cut_name);
    if let Some(share) = &mut event.place.share
        && let Some(short) = shortened(share, SHARE_MAX)
    {
        *share = Arc::from(short);
    }
}

/// Bytes that the line of somebody who has proved nothing has at most.
pub(super) fn line_bytes_of_stranger(event: &AuditEvent) -> usize {
    let name = event.actor.user.as_deref().unwrap_or_default();
    STRANGER_LINE_BYTES + name.chars().map(json_bytes).sum::<usize>()
}

fn cut_name(name: &mut String) {
    if let Some(short) = shortened(name, NAME_MAX) {
        *name = short;
    }
}

/// As much of a name as there may be; `None` where that is all of it.
fn shortened(name: &str, characters_max: usize) -> Option<String> {
    let mut bytes = 0;
    let goes_too_far = |(count, (_, character)): &(usize, (usize, char))| {
        bytes += json_bytes(*character);
        *count >= characters_max || bytes > JSON_MAX
    };
    let (_, (end, _)) = name.char_indices().enumerate().find(goes_too_far)?;
    Some(format!("{}{CUT}", &name[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_by_characters_and_by_what_they_cost() {
        assert_eq!(shortened(&"é".repeat(256), 256), None);
        assert_eq!(shortened(&"é".repeat(257), 256), Some("é".repeat(256) + CUT));
        assert_eq!(shortened(&"\u{1}".repeat(256), 256), Some("\u{1}".repeat(170) + CUT));
        assert_eq!(shortened(&"\u{e0001}".repeat(256), 256), Some("\u{e0001}".repeat(85) + CUT));
        assert_eq!(shortened("", 256), None);
    }
}
