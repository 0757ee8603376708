//! Security descriptors: decoded, encoded, evaluated and inherited.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::security::access::{GENERIC_ALL, GenericMapping, MAXIMUM_ALLOWED};
use wire::security::evaluate::{Privileges, Token, check};
use wire::security::inherit::{Creator, ObjectKind, create};
use wire::security::{Control, SecurityDescriptor, Sid};

fuzz_target!(|input: &[u8]| {
    let Ok(descriptor) = SecurityDescriptor::decode(input) else { return };
    let bytes = descriptor.encode().expect("what was decoded can be encoded");
    let again = SecurityDescriptor::decode(&bytes).expect("what was encoded can be decoded");
    let expected = SecurityDescriptor { control: again.control, ..descriptor.clone() };
    assert_eq!(again, expected);
    assert_eq!(again.control, descriptor.control.without(Control::RM_CONTROL_VALID));

    let sids = [Sid::EVERYONE, Sid::AUTHENTICATED_USERS, descriptor.owner.unwrap_or(Sid::SYSTEM)];
    let token = Token { sids: &sids, privileges: Privileges::NONE };
    let ask = |desired| check(&descriptor, &token, desired, &GenericMapping::FILE);
    let maximum = ask(MAXIMUM_ALLOWED).expect("asking for what there is");
    assert_eq!(ask(maximum), Ok(maximum));
    assert_eq!(ask(GENERIC_ALL).is_ok(), maximum == GenericMapping::FILE.all);

    let creator = Creator { owner: Sid::SYSTEM, group: Sid::BUILTIN_USERS, default_dacl: None };
    for kind in [ObjectKind::Leaf, ObjectKind::Container] {
        create(Some(&descriptor), None, kind, &creator, &GenericMapping::FILE);
        create(None, Some(&descriptor), kind, &creator, &GenericMapping::FILE);
        create(Some(&descriptor), Some(&descriptor), kind, &creator, &GenericMapping::FILE);
    }
});
