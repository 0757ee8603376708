//! Who asks for what in which way, and random cases of that.

use super::descriptor::*;
use super::rights::*;
use crate::tests::random::Random;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Asks {
    Tester,
    Other,
    Keeper,
}

impl Asks {
    pub(crate) fn is(self, who: Who) -> bool {
        let groups = [DOMAIN_USERS, ANYBODY, SIGNED_IN, OVER_NETWORK, USERS];
        groups.contains(&who)
            || match self {
                Asks::Tester => who == TESTER,
                Asks::Other => who == OTHER,
                Asks::Keeper => who == ADMINISTRATORS,
            }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Way {
    Open,
    OpenStream,
    MakeStream,
    Make,
    MakeOwned,
    Overwrite,
    Supersede,
    DeleteOnClose,
    Disposition,
    Rename,
    Link,
    SetList,
    SetOwner,
    SetAudit,
    List,
}

pub(crate) const WAYS: [Way; 15] = [
    Way::Open,
    Way::OpenStream,
    Way::MakeStream,
    Way::Make,
    Way::MakeOwned,
    Way::Overwrite,
    Way::Supersede,
    Way::DeleteOnClose,
    Way::Disposition,
    Way::Rename,
    Way::Link,
    Way::SetList,
    Way::SetOwner,
    Way::SetAudit,
    Way::List,
];

/// One case: a folder, a file or directory in it, another folder, perhaps with a file of the new name.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) asks: Asks,
    pub(crate) way: Way,
    pub(crate) desired: u32,
    pub(crate) is_directory: bool,
    pub(crate) read_only: bool,
    pub(crate) folder: Stored,
    pub(crate) own: Stored,
    pub(crate) target: Stored,
    pub(crate) taken: Option<Stored>,
    pub(crate) new_owner: Who,
}

impl Case {
    pub(crate) fn from(seed: u64) -> Case {
        let random = &mut Random::new(seed.wrapping_mul(0x2545_F491_4F6C_DD1D));
        let way = random.of(&WAYS);
        let may_be_read_only = matches!(
            way,
            Way::Open | Way::OpenStream | Way::MakeStream | Way::Overwrite | Way::Supersede | Way::DeleteOnClose
        );
        let only_files = matches!(way, Way::OpenStream | Way::Overwrite | Way::Supersede | Way::Link);
        Case {
            asks: random.of(&[Asks::Tester, Asks::Tester, Asks::Tester, Asks::Other, Asks::Keeper]),
            way,
            desired: desired(random, way),
            is_directory: !only_files && random.percent(25),
            read_only: may_be_read_only && random.percent(15),
            folder: stored(random),
            own: stored(random),
            target: stored(random),
            taken: random.percent(40).then(|| stored(random)),
            new_owner: random.of(&EVERY),
        }
    }
}

impl Case {
    /// The case of this seed, as far as a client can have it: what no server lets be set is left out or stands as something else.
    pub(crate) fn that_can_be_set(seed: u64) -> Case {
        let case = Case::from(seed);
        let settable = |stored: &Stored| Stored::Whole(stored.that_can_be_set(seed));
        Case {
            read_only: false,
            folder: settable(&case.folder),
            own: settable(&case.own),
            target: settable(&case.target),
            taken: case.taken.as_ref().map(settable),
            new_owner: user_instead_of(case.new_owner, seed),
            ..case
        }
    }
}

pub(crate) fn desired(random: &mut Random, way: Way) -> u32 {
    let needed = match way {
        Way::Disposition | Way::DeleteOnClose | Way::Rename => DELETE_RIGHT,
        Way::SetList => WRITE_DAC_RIGHT,
        Way::SetOwner => WRITE_OWNER_RIGHT,
        Way::SetAudit => SYSTEM_SECURITY,
        _ => 0x80,
    };
    let mut desired = match random.below(10) {
        0..=2 => MAXIMUM,
        3 => random.of(&[1 << 31, 1 << 30, 1 << 29, 1 << 28]),
        _ => mask(random),
    };
    if random.percent(60) {
        desired |= needed;
    }
    if random.percent(10) {
        desired |= MAXIMUM;
    }
    if random.percent(4) {
        desired |= SYSTEM_SECURITY;
    }
    if desired == 0 { 0x80 } else { desired }
}
