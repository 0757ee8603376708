//! What a new object's descriptor is, given its parent's and what its creator asks for (MS-DTYP 2.5.3.4).
//!
//! Where the specification's pseudocode and its table of flags disagree, the table and what Windows does are
//! followed: an inherit-only entry is inherited like any other; an entry is split in two only where its effective
//! form differs from its inheritable one; and where nothing is inherited the token's default DACL is used.

use crate::security::access::{GENERIC_ALL, GENERIC_EXECUTE, GENERIC_READ, GENERIC_WRITE, GenericMapping};
use crate::security::{Ace, AceBody, AceFlags, Acl, Control, SecurityDescriptor, Sid};

const GENERIC: u32 = GENERIC_READ | GENERIC_WRITE | GENERIC_EXECUTE | GENERIC_ALL;
const INHERITANCE: AceFlags =
    AceFlags::OBJECT_INHERIT.union(AceFlags::CONTAINER_INHERIT).union(AceFlags::NO_PROPAGATE_INHERIT);

/// What the new object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// A file or stream.
    Leaf,
    /// A directory.
    Container,
}

/// Who makes the object.
#[derive(Clone, Debug)]
pub struct Creator {
    /// The owner of what it makes.
    pub owner: Sid,
    /// The group of what it makes.
    pub group: Sid,
    /// Who may do what where neither parent nor creator say so; `None` lets everyone do everything.
    pub default_dacl: Option<Acl>,
}

/// The descriptor of a new object in a directory with descriptor `parent`. `asked` is what the creator asks for
/// (CREATE's security descriptor context).
///
/// A parent whose list was inherited automatically ([`Control::DACL_AUTO_INHERITED`]) adds its inheritable entries to
/// those asked for, unless those are protected, and marks what it passes on as inherited; another's entries count
/// only where none are asked for, and pass unmarked.
pub fn create(
    parent: Option<&SecurityDescriptor>,
    asked: Option<&SecurityDescriptor>,
    kind: ObjectKind,
    creator: &Creator,
    mapping: &GenericMapping,
) -> SecurityDescriptor {
    let owner = asked.and_then(|asked| asked.owner).unwrap_or(creator.owner);
    let group = asked.and_then(|asked| asked.group).unwrap_or(creator.group);
    let heir = Heir { kind, owner, group, mapping };
    let dacl = heir.acl(&DACL, parent, asked, creator.default_dacl.as_ref());
    let sacl = heir.acl(&SACL, parent, asked, None);
    SecurityDescriptor {
        control: dacl.control | sacl.control,
        owner: Some(owner),
        group: Some(group),
        sacl: sacl.acl,
        dacl: dacl.acl,
    }
}

/// What differs between the two lists of a descriptor.
struct ListKind {
    present: Control,
    auto_inherited: Control,
    protected: Control,
    list: fn(&SecurityDescriptor) -> Option<&Acl>,
}

const DACL: ListKind = ListKind {
    present: Control::DACL_PRESENT,
    auto_inherited: Control::DACL_AUTO_INHERITED,
    protected: Control::DACL_PROTECTED,
    list: |descriptor| descriptor.dacl.as_ref(),
};

const SACL: ListKind = ListKind {
    present: Control::SACL_PRESENT,
    auto_inherited: Control::SACL_AUTO_INHERITED,
    protected: Control::SACL_PROTECTED,
    list: |descriptor| descriptor.sacl.as_ref(),
};

/// A list and what is known of it.
struct Computed {
    acl: Option<Acl>,
    control: Control,
}

/// The new object, as far as its entries depend on it.
struct Heir<'a> {
    kind: ObjectKind,
    owner: Sid,
    group: Sid,
    mapping: &'a GenericMapping,
}

impl Heir<'_> {
    /// ComputeACL (MS-DTYP 2.5.3.4.2).
    fn acl(
        &self,
        list: &ListKind,
        parent: Option<&SecurityDescriptor>,
        asked: Option<&SecurityDescriptor>,
        default: Option<&Acl>,
    ) -> Computed {
        let automatic = parent.is_some_and(|parent| parent.control.contains(list.auto_inherited));
        let inherited = parent.and_then(list.list).map(|acl| self.inherited(acl, automatic)).unwrap_or_default();
        let asked_control = asked.map_or(Control::NONE, |asked| asked.control & (list.present | list.protected));
        let asked_acl = asked.and_then(list.list);
        if asked_acl.is_some() || asked_control.contains(list.present) {
            return self.asked(list, asked_acl, asked_control, automatic, inherited);
        }
        if !inherited.is_empty() {
            let control = if automatic { list.present | list.auto_inherited } else { list.present };
            return Computed { acl: Some(Acl { aces: inherited }), control };
        }
        match default {
            Some(default) => Computed { acl: Some(self.explicit(default, false)), control: list.present },
            None => Computed { acl: None, control: Control::NONE },
        }
    }

    /// The creator's list, and behind it what an automatically inheriting parent adds.
    fn asked(
        &self,
        list: &ListKind,
        asked: Option<&Acl>,
        control: Control,
        automatic: bool,
        mut inherited: Vec<Ace>,
    ) -> Computed {
        let protected = control.contains(list.protected);
        let Some(asked) = asked else { return Computed { acl: None, control: control | list.present } };
        if protected || !automatic {
            return Computed { acl: Some(self.explicit(asked, false)), control: control | list.present };
        }
        let mut acl = self.explicit(asked, true);
        acl.aces.append(&mut inherited);
        Computed { acl: Some(acl), control: control | list.present | list.auto_inherited }
    }

    /// The entries of an explicit list in their final form. Entries marked as inherited are left out where
    /// inheritance is computed anew, else they lose the mark.
    fn explicit(&self, acl: &Acl, drop_inherited: bool) -> Acl {
        let mut aces = Vec::new();
        for ace in &acl.aces {
            if drop_inherited && ace.flags.contains(AceFlags::INHERITED) {
                continue;
            }
            let ace = Ace { flags: ace.flags.without(AceFlags::INHERITED), ..ace.clone() };
            let inheritable = ace.flags.intersects(AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT);
            if ace.flags.contains(AceFlags::INHERIT_ONLY) || !self.changes(&ace) {
                aces.push(ace);
            } else {
                aces.push(self.effective(&ace, AceFlags::NONE));
                if self.kind == ObjectKind::Container && inheritable {
                    aces.push(Ace { flags: ace.flags | AceFlags::INHERIT_ONLY, ..ace });
                }
            }
        }
        Acl { aces }
    }

    /// What the object inherits of `acl` (MS-DTYP 2.5.3.4.4), marked as inherited where `automatic`.
    fn inherited(&self, acl: &Acl, automatic: bool) -> Vec<Ace> {
        let mark = if automatic { AceFlags::INHERITED } else { AceFlags::NONE };
        let mut aces = Vec::new();
        for ace in &acl.aces {
            match self.kind {
                ObjectKind::Leaf => {
                    if ace.flags.contains(AceFlags::OBJECT_INHERIT) && !ace.is_for_one_object_type() {
                        aces.push(self.effective(ace, mark));
                    }
                }
                ObjectKind::Container => self.inherit_to_container(ace, mark, &mut aces),
            }
        }
        aces
    }

    fn inherit_to_container(&self, ace: &Ace, mark: AceFlags, aces: &mut Vec<Ace>) {
        let effective = ace.flags.contains(AceFlags::CONTAINER_INHERIT) && !ace.is_for_one_object_type();
        let inheritable = ace.flags.intersects(AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT)
            && !ace.flags.contains(AceFlags::NO_PROPAGATE_INHERIT);
        let passed_on = ace.flags.without(AceFlags::INHERIT_ONLY) | mark;
        match (effective, inheritable) {
            (true, true) if !self.changes(ace) => aces.push(Ace { flags: passed_on, ..ace.clone() }),
            (true, true) => {
                aces.push(self.effective(ace, mark));
                aces.push(Ace { flags: passed_on | AceFlags::INHERIT_ONLY, ..ace.clone() });
            }
            (true, false) => aces.push(self.effective(ace, mark)),
            (false, true) => aces.push(Ace { flags: passed_on | AceFlags::INHERIT_ONLY, ..ace.clone() }),
            (false, false) => {}
        }
    }

    /// True where an entry's effective form names other rights or another principal.
    fn changes(&self, ace: &Ace) -> bool {
        match &ace.body {
            AceBody::Plain { mask, sid } => {
                mask & GENERIC != 0 || *sid == Sid::CREATOR_OWNER || *sid == Sid::CREATOR_GROUP
            }
            AceBody::Opaque(_) => false,
        }
    }

    /// The entry as it counts for the object itself (MS-DTYP 2.5.3.4.7): generic rights mapped, creators named,
    /// nothing passed on.
    fn effective(&self, ace: &Ace, mark: AceFlags) -> Ace {
        let flags = ace.flags.without(INHERITANCE | AceFlags::INHERIT_ONLY | AceFlags::INHERITED) | mark;
        let body = match &ace.body {
            AceBody::Plain { mask, sid } => {
                AceBody::Plain { mask: self.mapping.map(*mask), sid: self.substitute(*sid) }
            }
            AceBody::Opaque(bytes) => AceBody::Opaque(bytes.clone()),
        };
        Ace { kind: ace.kind, flags, body }
    }

    fn substitute(&self, sid: Sid) -> Sid {
        match sid {
            Sid::CREATOR_OWNER => self.owner,
            Sid::CREATOR_GROUP => self.group,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::AceKind;
    use crate::security::access::*;

    const OI: AceFlags = AceFlags::OBJECT_INHERIT;
    const CI: AceFlags = AceFlags::CONTAINER_INHERIT;
    const NP: AceFlags = AceFlags::NO_PROPAGATE_INHERIT;
    const IO: AceFlags = AceFlags::INHERIT_ONLY;
    const ID: AceFlags = AceFlags::INHERITED;
    const NONE: AceFlags = AceFlags::NONE;

    fn owner() -> Sid {
        Sid::new(5, &[21, 1, 2, 3, 1000]).unwrap()
    }

    fn group() -> Sid {
        Sid::new(5, &[21, 1, 2, 3, 513]).unwrap()
    }

    fn default_dacl() -> Acl {
        Acl { aces: vec![Ace::allow(owner(), FILE_ALL, NONE), Ace::allow(Sid::SYSTEM, FILE_ALL, NONE)] }
    }

    fn descriptor(control: Control, aces: Vec<Ace>) -> SecurityDescriptor {
        let control = control | Control::DACL_PRESENT;
        SecurityDescriptor { control, dacl: Some(Acl { aces }), ..SecurityDescriptor::default() }
    }

    fn new(parent: &SecurityDescriptor, asked: Option<&SecurityDescriptor>, kind: ObjectKind) -> SecurityDescriptor {
        let creator = Creator { owner: owner(), group: group(), default_dacl: Some(default_dacl()) };
        create(Some(parent), asked, kind, &creator, &GenericMapping::FILE)
    }

    fn aces(descriptor: &SecurityDescriptor) -> &[Ace] {
        &descriptor.dacl.as_ref().unwrap().aces
    }

    /// The one entry of a list, its flags.
    fn inherited_flags(flags: AceFlags, kind: ObjectKind) -> Option<AceFlags> {
        let ace = Ace::allow(Sid::EVERYONE, WRITE_DATA, flags);
        let child = new(&descriptor(Control::NONE, vec![ace]), None, kind);
        (child.dacl != Some(default_dacl())).then(|| match aces(&child) {
            [only] => only.flags,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn flags_pass_as_the_table_says() {
        let table = [
            (NONE, None, None),
            (OI, Some(NONE), Some(OI | IO)),
            (CI, None, Some(CI)),
            (OI | CI, Some(NONE), Some(OI | CI)),
            (NP, None, None),
            (NP | OI, Some(NONE), None),
            (NP | CI, None, Some(NONE)),
            (NP | OI | CI, Some(NONE), Some(NONE)),
        ];
        for (flags, leaf, container) in table {
            for flags in [flags, flags | IO] {
                assert_eq!(inherited_flags(flags, ObjectKind::Leaf), leaf, "{flags:?} to a file");
                assert_eq!(inherited_flags(flags, ObjectKind::Container), container, "{flags:?} to a directory");
            }
        }
    }

    #[test]
    fn creator_owner_becomes_the_owner_and_is_passed_on() {
        let parent = descriptor(Control::NONE, vec![Ace::allow(Sid::CREATOR_OWNER, WRITE_DATA, OI | CI | IO)]);
        let named = Ace::allow(owner(), WRITE_DATA, NONE);
        let passed = Ace::allow(Sid::CREATOR_OWNER, WRITE_DATA, OI | CI | IO);
        assert_eq!(aces(&new(&parent, None, ObjectKind::Leaf)), std::slice::from_ref(&named));
        assert_eq!(aces(&new(&parent, None, ObjectKind::Container)), [named, passed]);
        let parent = descriptor(Control::NONE, vec![Ace::allow(Sid::CREATOR_GROUP, WRITE_DATA, OI)]);
        assert_eq!(aces(&new(&parent, None, ObjectKind::Leaf)), [Ace::allow(group(), WRITE_DATA, NONE)]);
    }

    #[test]
    fn generic_rights_are_mapped_where_they_count_and_kept_where_they_pass_on() {
        let parent = descriptor(Control::NONE, vec![Ace::allow(Sid::EVERYONE, GENERIC_READ, CI)]);
        let effective = Ace::allow(Sid::EVERYONE, FILE_GENERIC_READ, NONE);
        let passed = Ace::allow(Sid::EVERYONE, GENERIC_READ, CI | IO);
        assert_eq!(aces(&new(&parent, None, ObjectKind::Container)), [effective, passed]);
    }

    #[test]
    fn an_automatic_parent_marks_what_it_passes_on() {
        let parent = descriptor(Control::DACL_AUTO_INHERITED, vec![Ace::allow(Sid::EVERYONE, READ_DATA, OI | CI)]);
        let child = new(&parent, None, ObjectKind::Container);
        assert_eq!(aces(&child), [Ace::allow(Sid::EVERYONE, READ_DATA, OI | CI | ID)]);
        assert!(child.control.contains(Control::DACL_AUTO_INHERITED));
        let plain = descriptor(Control::NONE, parent.dacl.unwrap().aces);
        assert!(!new(&plain, None, ObjectKind::Leaf).control.contains(Control::DACL_AUTO_INHERITED));
    }

    #[test]
    fn an_automatic_parent_adds_to_what_is_asked_for() {
        let parent = descriptor(Control::DACL_AUTO_INHERITED, vec![Ace::allow(Sid::EVERYONE, READ_DATA, OI)]);
        let own = Ace::deny(Sid::ANONYMOUS, FILE_ALL, NONE);
        let stale = Ace::allow(Sid::BUILTIN_USERS, READ_DATA, ID);
        let asked = descriptor(Control::NONE, vec![own.clone(), stale.clone()]);
        let inherited = Ace::allow(Sid::EVERYONE, READ_DATA, ID);
        assert_eq!(aces(&new(&parent, Some(&asked), ObjectKind::Leaf)), [own.clone(), inherited]);

        let asked = descriptor(Control::DACL_PROTECTED, vec![own.clone(), stale]);
        let child = new(&parent, Some(&asked), ObjectKind::Leaf);
        assert_eq!(aces(&child), [own, Ace::allow(Sid::BUILTIN_USERS, READ_DATA, NONE)]);
        assert!(child.control.contains(Control::DACL_PROTECTED));
    }

    #[test]
    fn what_is_asked_for_replaces_what_another_parent_passes_on() {
        let parent = descriptor(Control::NONE, vec![Ace::allow(Sid::EVERYONE, READ_DATA, OI)]);
        let asked = descriptor(Control::NONE, vec![Ace::allow(owner(), GENERIC_ALL, NONE)]);
        let child = new(&parent, Some(&asked), ObjectKind::Leaf);
        assert_eq!(aces(&child), [Ace::allow(owner(), FILE_ALL, NONE)]);
    }

    #[test]
    fn a_null_list_can_be_asked_for() {
        let parent = descriptor(Control::DACL_AUTO_INHERITED, vec![Ace::allow(Sid::EVERYONE, READ_DATA, OI)]);
        let asked = SecurityDescriptor { control: Control::DACL_PRESENT, ..SecurityDescriptor::default() };
        let child = new(&parent, Some(&asked), ObjectKind::Leaf);
        assert_eq!(child.dacl, None);
        assert!(child.control.contains(Control::DACL_PRESENT));
    }

    #[test]
    fn owner_and_group_come_from_the_creator_unless_asked_for() {
        let parent = descriptor(Control::NONE, vec![]);
        let child = new(&parent, None, ObjectKind::Leaf);
        assert_eq!((child.owner, child.group, child.dacl), (Some(owner()), Some(group()), Some(default_dacl())));
        let asked = SecurityDescriptor { owner: Some(Sid::SYSTEM), ..SecurityDescriptor::default() };
        assert_eq!(new(&parent, Some(&asked), ObjectKind::Leaf).owner, Some(Sid::SYSTEM));
    }

    #[test]
    fn audit_entries_are_inherited_too() {
        let body = AceBody::Plain { mask: WRITE_DATA, sid: Sid::EVERYONE };
        let flags = OI | AceFlags::FAILED_ACCESS;
        let audit = Ace { kind: AceKind::SYSTEM_AUDIT, flags, body };
        let parent = SecurityDescriptor { sacl: Some(Acl { aces: vec![audit.clone()] }), ..Default::default() };
        let child = new(&parent, None, ObjectKind::Leaf);
        assert_eq!(child.sacl.unwrap().aces, [Ace { flags: AceFlags::FAILED_ACCESS, ..audit }]);
    }
}
