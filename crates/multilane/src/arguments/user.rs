//! The command line of `user`.

use clap::Subcommand;
use control::{AccountName, Error, Grace, UserName};
use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp};

use crate::unix_owner::{self, OwnerOf};

const USER_EXAMPLE: &str = "Examples:\n  multilane user create alice\n  printf '%s\\n' \"$PASSWORD\" | multilane user create alice --password-stdin";

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Make a user, who signs in with a password
    #[command(alias = "add", after_help = USER_EXAMPLE)]
    Create {
        /// The name to sign in with
        name: UserName,
        /// Read the password from the first line of standard input, and ask nobody
        #[arg(long)]
        password_stdin: bool,
        /// The account whose shares the user may connect to [default: the oldest]
        #[arg(long, value_name = "NAME")]
        account: Option<AccountName>,
    },
    /// Change a user's password; sessions that the old one began end, and the SID stays
    #[command(alias = "password")]
    Passwd {
        /// The user
        name: UserName,
        /// Let sessions that the old password began go on for so long, such as 1h, up to 30d; nobody signs in with it any more
        #[arg(long, value_name = "TIME")]
        grace: Option<Grace>,
        /// Read the password from the first line of standard input, and ask nobody
        #[arg(long)]
        password_stdin: bool,
    },
    /// Let a user sign in no longer; its sessions end, and all that is the user's stays
    Disable {
        /// The user
        name: UserName,
    },
    /// Let a disabled user sign in again
    Enable {
        /// The user
        name: UserName,
    },
    /// Let a user sign in again whom wrong passwords have locked (`server set lock-after`)
    Unlock {
        /// The user
        name: UserName,
    },
    /// Change whose a user's new files are on this machine
    #[command(
        after_help = "Examples:\n  multilane user update alice --unix-owner alice\n  multilane user update alice --unix-owner none"
    )]
    Update {
        /// The user
        name: UserName,
        /// Whose they are, such as alice or alice:staff, by name or number, or none: as the share says (`share create --unix-owner`)
        #[arg(long, value_name = "USER[:GROUP]|none", value_parser = unix_owner::parse_or_none)]
        unix_owner: OwnerOf,
        /// Let it be root
        #[arg(long)]
        allow_root: bool,
    },
    /// Let a user sign in until a time; its sessions end then
    #[command(
        after_help = "Examples:\n  multilane user expire alice 2027-01-31T18:00:00Z\n  multilane user expire alice 2027-01-31       to the end of that day, UTC\n  multilane user expire alice +30d\n  multilane user expire alice never"
    )]
    Expire {
        /// The user
        name: UserName,
        /// The time, such as 2027-01-31T18:00:00Z, a day, which counts to its end (UTC), a span from now on, such as +12h, +30d or +4w, or `never`
        #[arg(value_name = "TIME", value_parser = expiry)]
        at: Expiry,
    },
    /// Give a user another name; the SID stays, and with it all rights
    Rename {
        /// The user
        name: UserName,
        /// The new name
        to: UserName,
    },
    /// Show one user, with the groups that it is in and the shares that it may connect to
    Show {
        /// The user
        name: UserName,
    },
    /// List the users
    List,
    /// Delete a user; nobody gets the SID again. `disable` can be undone, this cannot. At a terminal it is asked first, elsewhere it wants --force
    #[command(alias = "remove")]
    Delete {
        /// The user's name
        name: UserName,
        /// Ask nothing
        #[arg(long)]
        force: bool,
    },
}

/// When a user expires, if ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expiry(pub(crate) Option<Timestamp>);

fn expiry(text: &str) -> Result<Expiry, Error> {
    if text == "never" {
        return Ok(Expiry(None));
    }
    let remedy = "use a day such as 2027-01-31, a time such as 2027-01-31T18:00:00Z, a span such as +30d, or never";
    let at = match text.strip_prefix('+') {
        Some(span) => {
            // Whole seconds are kept.
            hours(span).and_then(|hours| Timestamp::from_second(Timestamp::now().as_second() + hours.as_secs()).ok())
        }
        None => text.parse().ok().or_else(|| end_of_day(text)),
    };
    at.map(|at| Expiry(Some(at))).ok_or_else(|| Error::argument(format!("{text:?} is no time"), remedy))
}

/// The end of a day such as `2027-01-31`, as people mean it, in UTC.
fn end_of_day(text: &str) -> Option<Timestamp> {
    let next = text.parse::<Date>().ok()?.tomorrow().ok()?;
    format!("{next}T00:00:00Z").parse().ok()
}

/// A span such as `30d`, `4w` or `12h`.
fn hours(text: &str) -> Option<SignedDuration> {
    let (number, each) = [("h", 1), ("d", 24), ("w", 7 * 24)]
        .into_iter()
        .find_map(|(unit, hours)| Some((text.strip_suffix(unit)?, hours)))?;
    let number: i64 = number.bytes().all(|digit| digit.is_ascii_digit()).then(|| number.parse().ok())??;
    // More than a century is a mistake.
    (1..=36_525 * 24).contains(&number.checked_mul(each)?).then(|| SignedDuration::from_hours(number * each))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_expires_at_a_time_at_the_end_of_a_day_after_a_span_or_never() {
        let at = |text: &str| expiry(text).unwrap().0;
        let time: Timestamp = "2027-01-31T18:00:00Z".parse().unwrap();
        assert_eq!((at("2027-01-31T18:00:00Z"), at("never")), (Some(time), None));
        assert_eq!(at("2027-01-31"), "2027-02-01T00:00:00Z".parse().ok());
        for (text, hours) in [("+30d", 720), ("+12h", 12), ("+4w", 672)] {
            let after = at(text).unwrap().duration_since(Timestamp::now()).as_secs();
            assert!((hours * 3600 - 60..=hours * 3600).contains(&after), "{text}: {after}");
        }
        for wrong in [
            "",
            "tomorrow",
            "2027-13-01",
            "30d",
            "+",
            "+d",
            "+0d",
            "+-3d",
            "+99999999999999999999d",
            "+soon",
            "9999-12-31T23:59:59Z0",
        ] {
            assert!(expiry(wrong).is_err(), "{wrong:?}");
        }
    }
}
