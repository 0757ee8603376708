//! Security identifiers, lists and descriptors: round trips, every truncation, descriptors that lie.

use proptest::prelude::*;
use wire::security::{Ace, AceBody, AceFlags, AceKind, Acl, Control, SecurityDescriptor, SecurityInformation, Sid};

fn encoded(sid: Sid) -> Vec<u8> {
    let mut bytes = Vec::new();
    sid.encode(&mut bytes);
    bytes
}

fn user() -> Sid {
    "S-1-5-21-397955417-626881126-188441444-3101017".parse().unwrap()
}

fn descriptor() -> SecurityDescriptor {
    SecurityDescriptor {
        control: Control::SELF_RELATIVE | Control::DACL_PRESENT | Control::SACL_PRESENT | Control::DACL_PROTECTED,
        owner: Some(user()),
        group: Some(Sid::BUILTIN_USERS),
        sacl: Some(Acl { aces: vec![] }),
        dacl: Some(Acl {
            aces: vec![
                Ace::deny(Sid::ANONYMOUS, 0x001F_01FF, AceFlags::NONE),
                Ace::allow(Sid::EVERYONE, 0x0012_0089, AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT),
            ],
        }),
    }
}

#[test]
fn sids_have_their_known_text_and_bytes() {
    // The example of MS-DTYP 2.4.2: builtin administrators.
    let bytes = [1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 0x20, 2, 0, 0];
    assert_eq!(Sid::decode(&bytes), Ok(Sid::BUILTIN_ADMINISTRATORS));
    assert_eq!(encoded(Sid::BUILTIN_ADMINISTRATORS), bytes);
    for (sid, text) in [
        (Sid::EVERYONE, "S-1-1-0"),
        (Sid::CREATOR_OWNER, "S-1-3-0"),
        (Sid::CREATOR_GROUP, "S-1-3-1"),
        (Sid::OWNER_RIGHTS, "S-1-3-4"),
        (Sid::NETWORK, "S-1-5-2"),
        (Sid::ANONYMOUS, "S-1-5-7"),
        (Sid::AUTHENTICATED_USERS, "S-1-5-11"),
        (Sid::SYSTEM, "S-1-5-18"),
        (Sid::BUILTIN_ADMINISTRATORS, "S-1-5-32-544"),
        (Sid::BUILTIN_USERS, "S-1-5-32-545"),
        (Sid::new(0x0001_0000_0000, &[1]).unwrap(), "S-1-0x000100000000-1"),
        (Sid::new(5, &[]).unwrap(), "S-1-5"),
    ] {
        assert_eq!((sid.to_string().as_str(), text.parse()), (text, Ok(sid)));
    }
}

#[test]
fn sids_that_lie_are_refused() {
    let bytes = encoded(user());
    (0..bytes.len()).for_each(|length| assert!(Sid::decode(&bytes[..length]).is_err()));
    for (at, byte) in [(0, 0), (0, 2), (1, 6), (1, 16), (1, 255)] {
        let mut hostile = bytes.clone();
        hostile[at] = byte;
        assert!(Sid::decode(&hostile).is_err(), "byte {at} = {byte}");
    }
    assert!(Sid::decode(&[&[1, 16][..], &[0; 100]].concat()).is_err());
    let longest = Sid::new(5, &[9; 15]).unwrap();
    assert_eq!((longest.length(), longest.join(1), Sid::new(5, &[9; 16])), (68, None, None));
    assert_eq!(Sid::new(1 << 48, &[]), None);
}

#[test]
fn text_that_is_no_sid_is_refused() {
    let too_many = format!("S-1-5{}", "-1".repeat(16));
    for text in [
        "",
        "S",
        "S-1",
        "S-1-",
        "S-2-5-1",
        "S-1-5-",
        "S-1-5--1",
        "S-1-5-4294967296",
        "S-1-+5",
        "S-1-5-0x1",
        "S-1-0x",
        "S-1-0x1000000000000",
        &too_many,
    ] {
        assert!(text.parse::<Sid>().is_err(), "{text}");
    }
}

#[test]
fn a_descriptor_goes_both_ways() {
    let bytes = descriptor().encode().unwrap();
    assert_eq!(SecurityDescriptor::decode(&bytes), Ok(descriptor()));
    (0..bytes.len()).for_each(|length| assert!(SecurityDescriptor::decode(&bytes[..length]).is_err(), "{length}"));
}

#[test]
fn null_empty_and_absent_lists_differ() {
    let null = SecurityDescriptor { control: Control::DACL_PRESENT, ..SecurityDescriptor::default() };
    let bytes = null.encode().unwrap();
    assert_eq!(bytes, [1, 0, 4, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let decoded = SecurityDescriptor::decode(&bytes).unwrap();
    assert!(decoded.dacl.is_none() && decoded.control.contains(Control::DACL_PRESENT));
    let empty = SecurityDescriptor { dacl: Some(Acl::default()), ..SecurityDescriptor::default() };
    let bytes = empty.encode().unwrap();
    assert_eq!(bytes[16..], [20, 0, 0, 0, 2, 0, 8, 0, 0, 0, 0, 0]);
    assert_eq!(SecurityDescriptor::decode(&bytes).unwrap().dacl, Some(Acl::default()));
    // An offset without its flag means nothing.
    let mut absent = bytes;
    absent[2] = 0;
    assert_eq!(SecurityDescriptor::decode(&absent).unwrap().dacl, None);
}

#[test]
fn descriptors_that_lie_are_refused() {
    let bytes = descriptor().encode().unwrap();
    let offset = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (owner, sacl, dacl) = (offset(4), offset(12), offset(16));
    let length = bytes.len() as u32;
    let mut lies: Vec<(usize, u32)> = Vec::new();
    for field in [4, 8, 12, 16] {
        lies.extend([1, 4, 19, length - 1, length, length + 1, u32::MAX, u32::MAX - 3].map(|lie| (field, lie)));
    }
    lies.extend([(4, dacl), (8, sacl), (12, dacl), (16, owner), (16, sacl), (8, owner + 4), (4, owner - 4)]);
    for (field, lie) in lies {
        let mut hostile = bytes.clone();
        hostile[field..field + 4].copy_from_slice(&lie.to_le_bytes());
        assert!(SecurityDescriptor::decode(&hostile).is_err(), "offset at {field} = {lie}");
    }
    let at = dacl as usize;
    for (place, lie) in [
        (0, 1),
        (0, 5),
        (2, 0),
        (2, 7),
        (3, 0xFF),
        (4, 3),
        (5, 0xFF),
        (10, 0),
        (10, 3),
        (10, 4),
        (10, 21),
        (11, 0xFF),
        (17, 16),
    ] {
        let mut hostile = bytes.clone();
        hostile[at + place] = lie;
        assert!(SecurityDescriptor::decode(&hostile).is_err(), "dacl byte {place} = {lie}");
    }
    assert!(SecurityDescriptor::decode(&vec![1; 0x1_0001]).is_err());
    let mut absolute = bytes.clone();
    absolute[3] &= 0x7F;
    assert!(SecurityDescriptor::decode(&absolute).is_err());
}

#[test]
fn owner_and_group_may_be_one_sid() {
    let shared = SecurityDescriptor { owner: Some(user()), ..SecurityDescriptor::default() };
    let mut bytes = shared.encode().unwrap();
    bytes.copy_within(4..8, 8);
    assert_eq!(SecurityDescriptor::decode(&bytes).unwrap().group, Some(user()));
}

#[test]
fn opaque_entries_come_back_as_they_were() {
    let object =
        Ace { kind: AceKind::ACCESS_ALLOWED_OBJECT, flags: AceFlags::NONE, body: AceBody::Opaque(vec![7; 36]) };
    let mut conditional = vec![1, 0, 0, 0];
    Sid::EVERYONE.encode(&mut conditional);
    conditional.extend(*b"artx");
    let callback =
        Ace { kind: AceKind::ACCESS_ALLOWED_CALLBACK, flags: AceFlags::NONE, body: AceBody::Opaque(conditional) };
    assert_eq!(callback.mask_and_sid(), Some((1, Sid::EVERYONE)));
    let with = SecurityDescriptor { dacl: Some(Acl { aces: vec![object, callback] }), ..SecurityDescriptor::default() };
    let bytes = with.encode().unwrap();
    assert_eq!(bytes[20], 4);
    assert_eq!(SecurityDescriptor::decode(&bytes).unwrap().dacl, with.dacl);
}

#[test]
fn lists_too_long_for_their_length_are_not_encoded() {
    let long = Acl { aces: vec![Ace::allow(user(), 1, AceFlags::NONE); 3000] };
    let with = SecurityDescriptor { dacl: Some(long), ..SecurityDescriptor::default() };
    assert_eq!(with.encode(), None);
}

#[test]
fn parts_are_selected_and_replaced() {
    let mut stored = descriptor();
    let only = stored.select(SecurityInformation::OWNER | SecurityInformation::DACL);
    assert_eq!((only.owner, only.group, only.sacl), (stored.owner, None, None));
    assert!(only.control.contains(Control::DACL_PROTECTED) && !only.control.contains(Control::SACL_PRESENT));

    let new = SecurityDescriptor {
        control: Control::DACL_PRESENT | Control::DACL_AUTO_INHERITED | Control::DACL_AUTO_INHERIT_REQ,
        owner: Some(Sid::SYSTEM),
        dacl: Some(Acl::default()),
        ..SecurityDescriptor::default()
    };
    stored.replace(&new, SecurityInformation::DACL);
    assert_eq!((stored.owner, &stored.dacl), (Some(user()), &new.dacl));
    assert!(stored.control.contains(Control::DACL_AUTO_INHERITED | Control::SACL_PRESENT));
    assert!(!stored.control.intersects(Control::DACL_AUTO_INHERIT_REQ | Control::DACL_PROTECTED));
    let unasked = SecurityDescriptor { control: new.control.without(Control::DACL_AUTO_INHERIT_REQ), ..new };
    stored.replace(&unasked, SecurityInformation::DACL);
    assert!(!stored.control.contains(Control::DACL_AUTO_INHERITED));
}

fn sids() -> impl Strategy<Value = Sid> {
    (0u64..1 << 48, prop::collection::vec(any::<u32>(), 0..=15))
        .prop_map(|(authority, rest)| Sid::new(authority, &rest).unwrap())
}

fn aces() -> impl Strategy<Value = Ace> {
    let plain = (0u8..=3, any::<u8>(), any::<u32>(), sids()).prop_map(|(kind, flags, mask, sid)| Ace {
        kind: AceKind(kind),
        flags: AceFlags(flags),
        body: AceBody::Plain { mask, sid },
    });
    let opaque =
        (0x14u8..=0xFF, any::<u8>(), prop::collection::vec(any::<[u8; 4]>(), 0..9)).prop_map(|(kind, flags, body)| {
            Ace { kind: AceKind(kind), flags: AceFlags(flags), body: AceBody::Opaque(body.concat()) }
        });
    prop_oneof![plain, opaque]
}

fn lists() -> impl Strategy<Value = Option<Acl>> {
    prop::option::of(prop::collection::vec(aces(), 0..12).prop_map(|aces| Acl { aces }))
}

fn descriptors() -> impl Strategy<Value = SecurityDescriptor> {
    (any::<u16>(), prop::option::of(sids()), prop::option::of(sids()), lists(), lists()).prop_map(
        |(control, owner, group, sacl, dacl)| {
            let mut control = Control(control).without(Control::RM_CONTROL_VALID) | Control::SELF_RELATIVE;
            if sacl.is_some() {
                control |= Control::SACL_PRESENT;
            }
            if dacl.is_some() {
                control |= Control::DACL_PRESENT;
            }
            SecurityDescriptor { control, owner, group, sacl, dacl }
        },
    )
}

proptest! {
    #[test]
    fn every_sid_goes_both_ways(sid in sids()) {
        prop_assert_eq!(Sid::decode(&encoded(sid)), Ok(sid));
        prop_assert_eq!(sid.to_string().parse(), Ok(sid));
    }

    #[test]
    fn every_descriptor_goes_both_ways(descriptor in descriptors()) {
        let bytes = descriptor.encode().unwrap();
        prop_assert_eq!(SecurityDescriptor::decode(&bytes), Ok(descriptor));
    }

    #[test]
    fn a_changed_byte_never_breaks_the_decoder(
        descriptor in descriptors(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = descriptor.encode().unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(decoded) = SecurityDescriptor::decode(&bytes) {
            prop_assert!(decoded.encode().is_some());
        }
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = SecurityDescriptor::decode(&bytes);
        let _ = Acl::decode(&bytes);
        let _ = Sid::decode(&bytes);
    }
}
