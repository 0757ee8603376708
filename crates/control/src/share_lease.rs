//! Leases of shares, as Azure Files has them ("Lease Share"): who holds one keeps others from deleting the share.
//!
//! ```text
//!              acquire                      break                 its period is over
//! available ------------> leased ----------------------> breaking --------------------> broken
//!     ^                    |  ^ \  its time is over         |                             |
//!     |       release      |  |  `-----------------> expired <-- (renewed, or acquired)   |
//!     `--------------------+--+-----------------------------+-----------------------------'
//! ```

use serde::{Deserialize, Serialize};

use crate::LeaseTime;

/// How long a lease may be, in seconds, where it has an end.
pub const LEASE_SECONDS: std::ops::RangeInclusive<u32> = 15..=60;
/// How long a lease may take to break, in seconds.
pub const BREAK_SECONDS_MAX: u32 = 60;

/// A lease that a share has, or had until it expired or was broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareLease {
    /// What its holder names it by.
    id: String,
    /// How long it lasts from each acquiring and renewing on; without end where there is none.
    seconds: Option<u32>,
    /// When it ends, in milliseconds since 1970, as the clock was at `noted`.
    ends: Option<i64>,
    /// When it is broken, or was, by the same clock.
    broken: Option<i64>,
    /// When these two were said. One of before that was kept ends by the machine's clock.
    #[serde(default)]
    noted: Option<LeaseTime>,
}

/// How a lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// There is none.
    Available,
    /// Somebody holds it.
    Leased,
    /// Its time is over, and nobody has acquired another.
    Expired,
    /// It is broken in a while, and counts until then.
    Breaking,
    /// It was broken.
    Broken,
}

/// What is asked of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseAction {
    /// Have it.
    Acquire {
        /// What to name it by.
        id: String,
        /// For how long; without end where nothing is said.
        seconds: Option<u32>,
    },
    /// Have it for as long again.
    Renew {
        /// Its id.
        id: String,
    },
    /// Give it another id.
    Change {
        /// Its id.
        id: String,
        /// The other.
        to: String,
    },
    /// Give it up.
    Release {
        /// Its id.
        id: String,
    },
    /// Have it end, whoever holds it.
    Break {
        /// After so many seconds at most; where nothing is said, when it ends by itself, or at once where it does not.
        period: Option<u32>,
    },
}

/// Why something is not done, by the service's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseRefusal {
    /// Somebody else holds it.
    AlreadyPresent,
    /// It is being broken, and cannot be acquired.
    BreakingNotAcquired,
    /// It is being broken, and cannot be changed.
    BreakingNotChanged,
    /// It was broken, and cannot be renewed.
    BrokenNotRenewed,
    /// The id is another one's, of an operation on the lease.
    MismatchWithLease,
    /// There is no lease, of an operation on it.
    NotPresentWithLease,
    /// Somebody holds one, and no id was named.
    IdMissing,
    /// The id is another one's, of an operation on the share.
    MismatchWithShare,
    /// An id was named, and nobody holds a lease.
    NotPresentWithShare,
}

/// The state of what may be a lease.
pub fn lease_state(lease: Option<&ShareLease>, now: LeaseTime) -> LeaseState {
    lease.map_or(LeaseState::Available, |lease| lease.state(now))
}

/// Whether who names `id`, or nothing, may do with a leased share what only the lease's holder may.
pub fn may_change(lease: Option<&ShareLease>, id: Option<&str>, now: LeaseTime) -> Result<(), LeaseRefusal> {
    let held = lease.filter(|lease| matches!(lease.state(now), LeaseState::Leased | LeaseState::Breaking));
    match (held, id) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(LeaseRefusal::NotPresentWithShare),
        (Some(_), None) => Err(LeaseRefusal::IdMissing),
        (Some(held), Some(id)) if held.is(id) => Ok(()),
        (Some(_), Some(_)) => Err(LeaseRefusal::MismatchWithShare),
    }
}

/// Whether who names `id`, or nothing, may do with a share what everybody may: an id that is named has to be that of the lease.
pub fn may_use(lease: Option<&ShareLease>, id: Option<&str>, now: LeaseTime) -> Result<(), LeaseRefusal> {
    id.map_or(Ok(()), |id| may_change(lease, Some(id), now))
}

/// Does what is asked of `lease`; gives the seconds that are left until it can be acquired, where it is broken.
pub fn lease_by(lease: &mut Option<ShareLease>, action: &LeaseAction, now: LeaseTime) -> Result<u32, LeaseRefusal> {
    let state = lease_state(lease.as_ref(), now);
    match action {
        LeaseAction::Acquire { id, seconds } => {
            match (state, &lease) {
                (LeaseState::Leased, Some(held)) if !held.is(id) => return Err(LeaseRefusal::AlreadyPresent),
                (LeaseState::Breaking, _) => return Err(LeaseRefusal::BreakingNotAcquired),
                _ => {}
            }
            *lease = Some(ShareLease::new(id.clone(), *seconds, now));
        }
        LeaseAction::Renew { id } => {
            let held = of_id(lease, id)?;
            if matches!(state, LeaseState::Breaking | LeaseState::Broken) {
                return Err(LeaseRefusal::BrokenNotRenewed);
            }
            *held = ShareLease::new(held.id.clone(), held.seconds, now);
        }
        LeaseAction::Change { id, to } => {
            let held = lease.as_mut().ok_or(LeaseRefusal::NotPresentWithLease)?;
            match state {
                LeaseState::Breaking => return Err(LeaseRefusal::BreakingNotChanged),
                LeaseState::Available | LeaseState::Expired | LeaseState::Broken => {
                    return Err(LeaseRefusal::NotPresentWithLease);
                }
                // It has been changed so already.
                LeaseState::Leased if held.is(to) => {}
                LeaseState::Leased if held.is(id) => held.id.clone_from(to),
                LeaseState::Leased => return Err(LeaseRefusal::MismatchWithLease),
            }
        }
        LeaseAction::Release { id } => {
            of_id(lease, id)?;
            *lease = None;
        }
        LeaseAction::Break { period } => {
            let held = lease.as_mut().ok_or(LeaseRefusal::NotPresentWithLease)?;
            return Ok(held.breaks(state, *period, now));
        }
    }
    Ok(0)
}

fn of_id<'a>(lease: &'a mut Option<ShareLease>, id: &str) -> Result<&'a mut ShareLease, LeaseRefusal> {
    let held = lease.as_mut().ok_or(LeaseRefusal::NotPresentWithLease)?;
    if held.is(id) { Ok(held) } else { Err(LeaseRefusal::MismatchWithLease) }
}

impl ShareLease {
    fn new(id: String, seconds: Option<u32>, now: LeaseTime) -> Self {
        let ends = seconds.map(|seconds| after(now, seconds));
        ShareLease { id, seconds, ends, broken: None, noted: Some(now) }
    }

    /// What its holder names it by.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// True where it has no end.
    pub fn is_infinite(&self) -> bool {
        self.seconds.is_none()
    }

    fn is(&self, id: &str) -> bool {
        self.id.eq_ignore_ascii_case(id)
    }

    /// What the clock by which its times were said says at `now`, in milliseconds since 1970.
    fn clock(&self, now: LeaseTime) -> i64 {
        self.noted.map_or(now.clock(), |noted| noted.clock().saturating_add(now.since(noted)))
    }

    /// Says its times by the clock as it is at `now`.
    fn note(&mut self, now: LeaseTime) {
        let ahead = now.clock().saturating_sub(self.clock(now));
        for time in [&mut self.ends, &mut self.broken].into_iter().flatten() {
            *time = time.saturating_add(ahead);
        }
        self.noted = Some(now);
    }

    /// How it stands at `now`.
    pub fn state(&self, now: LeaseTime) -> LeaseState {
        let now = self.clock(now);
        match (self.broken, self.ends) {
            (Some(broken), _) if now < broken => LeaseState::Breaking,
            (Some(_), _) => LeaseState::Broken,
            (None, Some(ends)) if now >= ends => LeaseState::Expired,
            (None, _) => LeaseState::Leased,
        }
    }

    /// Has it broken after `period` seconds at most; gives those that are left.
    fn breaks(&mut self, state: LeaseState, period: Option<u32>, now: LeaseTime) -> u32 {
        self.note(now);
        let own_end = match state {
            LeaseState::Leased => self.ends,
            LeaseState::Breaking => self.broken,
            LeaseState::Available | LeaseState::Expired | LeaseState::Broken => Some(now.clock()),
        };
        let asked = period.map(|period| after(now, period));
        let broken = match (own_end, asked) {
            (Some(one), Some(other)) => one.min(other),
            (one, other) => one.or(other).unwrap_or(now.clock()),
        };
        self.broken = Some(broken);
        let left = broken.saturating_sub(now.clock()).max(0);
        u32::try_from((left + 999) / 1000).unwrap_or(BREAK_SECONDS_MAX)
    }
}

/// So many seconds after `now`, in milliseconds since 1970.
fn after(now: LeaseTime, seconds: u32) -> i64 {
    now.clock().saturating_add(i64::from(seconds) * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: i64 = 1_800_000_000;

    fn at(second: i64) -> LeaseTime {
        LeaseTime::at(BASE + second, (1, 100 + second))
    }

    fn acquire(id: &str, seconds: Option<u32>) -> LeaseAction {
        LeaseAction::Acquire { id: id.to_owned(), seconds }
    }

    fn renew(id: &str) -> LeaseAction {
        LeaseAction::Renew { id: id.to_owned() }
    }

    fn change(id: &str, to: &str) -> LeaseAction {
        LeaseAction::Change { id: id.to_owned(), to: to.to_owned() }
    }

    fn release(id: &str) -> LeaseAction {
        LeaseAction::Release { id: id.to_owned() }
    }

    fn break_in(period: Option<u32>) -> LeaseAction {
        LeaseAction::Break { period }
    }

    /// A lease in each state, as seen at `at(20)`.
    fn in_state(state: LeaseState) -> Option<ShareLease> {
        let mut lease = None;
        let actions: &[(LeaseAction, i64)] = match state {
            LeaseState::Available => &[],
            LeaseState::Leased => &[(acquire("a", Some(60)), 0)],
            LeaseState::Expired => &[(acquire("a", Some(15)), 0)],
            LeaseState::Breaking => &[(acquire("a", None), 0), (break_in(Some(60)), 0)],
            LeaseState::Broken => &[(acquire("a", None), 0), (break_in(Some(5)), 0)],
        };
        for (action, second) in actions {
            lease_by(&mut lease, action, at(*second)).unwrap();
        }
        assert_eq!(lease_state(lease.as_ref(), at(20)), state);
        lease
    }

    #[test]
    fn each_state_takes_what_the_services_table_says() {
        use LeaseRefusal::{
            AlreadyPresent, BreakingNotAcquired, BreakingNotChanged, BrokenNotRenewed, MismatchWithLease,
            NotPresentWithLease,
        };
        use LeaseState::{Available, Breaking, Broken, Expired, Leased};
        // The states are Available, Leased, Expired, Breaking, Broken; then what becomes of them.
        let table = [
            (acquire("a", Some(15)), [Ok(Leased), Ok(Leased), Ok(Leased), Err(BreakingNotAcquired), Ok(Leased)]),
            (acquire("b", None), [Ok(Leased), Err(AlreadyPresent), Ok(Leased), Err(BreakingNotAcquired), Ok(Leased)]),
            (
                renew("A"),
                [Err(NotPresentWithLease), Ok(Leased), Ok(Leased), Err(BrokenNotRenewed), Err(BrokenNotRenewed)],
            ),
            (
                renew("b"),
                [
                    Err(NotPresentWithLease),
                    Err(MismatchWithLease),
                    Err(MismatchWithLease),
                    Err(MismatchWithLease),
                    Err(MismatchWithLease),
                ],
            ),
            (
                change("a", "b"),
                [
                    Err(NotPresentWithLease),
                    Ok(Leased),
                    Err(NotPresentWithLease),
                    Err(BreakingNotChanged),
                    Err(NotPresentWithLease),
                ],
            ),
            (
                change("b", "c"),
                [
                    Err(NotPresentWithLease),
                    Err(MismatchWithLease),
                    Err(NotPresentWithLease),
                    Err(BreakingNotChanged),
                    Err(NotPresentWithLease),
                ],
            ),
            (release("a"), [Err(NotPresentWithLease), Ok(Available), Ok(Available), Ok(Available), Ok(Available)]),
            (break_in(None), [Err(NotPresentWithLease), Ok(Breaking), Ok(Broken), Ok(Breaking), Ok(Broken)]),
            (break_in(Some(0)), [Err(NotPresentWithLease), Ok(Broken), Ok(Broken), Ok(Broken), Ok(Broken)]),
        ];
        for (action, wanted) in table {
            for (state, wanted) in [Available, Leased, Expired, Breaking, Broken].into_iter().zip(wanted) {
                let mut lease = in_state(state);
                let done = lease_by(&mut lease, &action, at(20));
                let now = done.map(|_| lease_state(lease.as_ref(), at(20)));
                assert_eq!(now, wanted, "{action:?} where it is {state:?}");
            }
        }
    }

    #[test]
    fn a_lease_breaks_at_its_own_end_or_before() {
        let left = |seconds, period| {
            let mut lease = None;
            lease_by(&mut lease, &acquire("a", seconds), at(0)).unwrap();
            lease_by(&mut lease, &break_in(period), at(10)).unwrap()
        };
        assert_eq!(left(Some(60), None), 50);
        assert_eq!(left(Some(60), Some(7)), 7);
        assert_eq!(left(Some(15), Some(60)), 5);
        assert_eq!((left(None, None), left(None, Some(60))), (0, 60));
        let mut lease = None;
        lease_by(&mut lease, &acquire("a", None), at(0)).unwrap();
        lease_by(&mut lease, &break_in(Some(30)), at(0)).unwrap();
        // A second break shortens the first, and never makes it longer.
        assert_eq!(lease_by(&mut lease, &break_in(Some(60)), at(10)), Ok(20));
        assert_eq!(lease_by(&mut lease, &break_in(Some(1)), at(10)), Ok(1));
    }

    #[test]
    fn nobody_but_its_holder_changes_a_leased_share() {
        let leased = in_state(LeaseState::Leased);
        let asked = |lease: &Option<ShareLease>, id| may_change(lease.as_ref(), id, at(20));
        assert_eq!(asked(&leased, Some("A")), Ok(()));
        assert_eq!(asked(&leased, None), Err(LeaseRefusal::IdMissing));
        assert_eq!(asked(&leased, Some("b")), Err(LeaseRefusal::MismatchWithShare));
        assert_eq!(asked(&in_state(LeaseState::Breaking), None), Err(LeaseRefusal::IdMissing));
        for state in [LeaseState::Available, LeaseState::Expired, LeaseState::Broken] {
            assert_eq!(asked(&in_state(state), None), Ok(()), "{state:?}");
            assert_eq!(asked(&in_state(state), Some("a")), Err(LeaseRefusal::NotPresentWithShare), "{state:?}");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_makes_no_lease_longer() {
        let (mut lease, mut breaking) = (None, None);
        lease_by(&mut lease, &acquire("a", Some(15)), at(0)).unwrap();
        lease_by(&mut breaking, &acquire("a", None), at(0)).unwrap();
        lease_by(&mut breaking, &break_in(Some(30)), at(0)).unwrap();
        let seen = |lease: &Option<ShareLease>, second, start| {
            lease_state(lease.as_ref(), LeaseTime::at(BASE + second, start))
        };
        assert_eq!(seen(&lease, -3600, (1, 114)), LeaseState::Leased);
        assert_eq!(seen(&lease, -3600, (1, 115)), LeaseState::Expired);
        assert_eq!(seen(&lease, 3600, (1, 114)), LeaseState::Leased, "nor shorter, where it is set forward");
        assert_eq!(seen(&breaking, -3600, (1, 129)), LeaseState::Breaking);
        assert_eq!(seen(&breaking, -3600, (1, 130)), LeaseState::Broken);
        // The machine was started again, with a clock that is behind.
        assert_eq!(seen(&lease, -3600, (2, 14)), LeaseState::Leased);
        assert_eq!(seen(&lease, -3600, (2, 15)), LeaseState::Expired);
        assert_eq!(seen(&lease, 15, (2, 1)), LeaseState::Expired, "its clock says that it is over");
    }

    #[test]
    fn a_lease_that_is_broken_after_the_clock_was_set_back_has_its_own_end() {
        let mut lease = None;
        lease_by(&mut lease, &acquire("a", Some(60)), at(0)).unwrap();
        let later = LeaseTime::at(BASE - 3600, (1, 110));
        assert_eq!(lease_by(&mut lease, &break_in(None), later), Ok(50));
        assert_eq!(lease_by(&mut lease, &break_in(Some(20)), later), Ok(20));
        assert_eq!(lease_state(lease.as_ref(), LeaseTime::at(BASE, (1, 129))), LeaseState::Breaking);
        assert_eq!(lease_state(lease.as_ref(), LeaseTime::at(BASE - 3600, (1, 130))), LeaseState::Broken);
    }

    #[test]
    fn a_lease_is_kept_with_when_it_was_noted() {
        let mut lease = None;
        lease_by(&mut lease, &acquire("a", Some(15)), at(0)).unwrap();
        let text = serde_json::to_string(&lease).unwrap();
        assert_eq!(serde_json::from_str::<Option<ShareLease>>(&text).unwrap(), lease);
        let ends = (BASE + 15) * 1000;
        let older = format!(r#"{{"id":"a","seconds":15,"ends":{ends},"broken":null}}"#);
        let older = serde_json::from_str(&older).unwrap();
        assert_eq!(lease_state(Some(&older), at(14)), LeaseState::Leased);
        assert_eq!(lease_state(Some(&older), at(15)), LeaseState::Expired);
    }
}
