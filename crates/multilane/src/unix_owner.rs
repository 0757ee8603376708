//! Whose files are on this machine, as operators write it.

use control::{Error, UnixOwner};
use uzers::{User, get_group_by_name, get_user_by_name, get_user_by_uid};

/// A user of this machine, and a group or the user's own.
pub(crate) fn parse(text: &str) -> Result<UnixOwner, Error> {
    let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
    let missing = |what: &str, name: &str| {
        Error::argument(
            format!("there is no {what} {name:?} on this machine"),
            "use USER or USER:GROUP, by name or number",
        )
    };
    let known = match user.parse() {
        Ok(uid) => get_user_by_uid(uid),
        Err(_) => get_user_by_name(user),
    };
    // A number may be of a user that only another machine knows.
    let uid = known.as_ref().map(User::uid).or_else(|| user.parse().ok()).ok_or_else(|| missing("user", user))?;
    let gid = match group {
        Some(group) => {
            let number = get_group_by_name(group).map(|group| group.gid()).or_else(|| group.parse().ok());
            number.ok_or_else(|| missing("group", group))?
        }
        None => known.as_ref().map(User::primary_group_id).ok_or_else(|| missing("user", user))?,
    };
    // That number means "as it is" to the kernel.
    if uid == u32::MAX || gid == u32::MAX {
        return Err(missing("user or group", text));
    }
    Ok(UnixOwner { uid, gid })
}

/// The owner of a user's files, or whoever the share says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnerOf(pub(crate) Option<UnixOwner>);

/// The same, or `none`.
pub(crate) fn parse_or_none(text: &str) -> Result<OwnerOf, Error> {
    if text == "none" { Ok(OwnerOf(None)) } else { parse(text).map(|owner| OwnerOf(Some(owner))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_have_names_or_numbers_and_none_is_as_it_is() {
        assert_eq!(parse("root").unwrap(), UnixOwner { uid: 0, gid: 0 });
        assert_eq!(parse("54321:12345").unwrap(), UnixOwner { uid: 54_321, gid: 12_345 });
        assert!(parse_or_none("none").unwrap().0.is_none());
        // That number would leave the owner as it is; one alone has no group.
        for wrong in ["4294967295:0", "0:4294967295", "-1:0", "54321", "", ":", "nobody-here:0", "0:nobody-here"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
