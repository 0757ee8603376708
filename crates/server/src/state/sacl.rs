//! A SACL holds more than what is audited: integrity labels, resource attributes and central policies are asked for and set by
//! themselves (MS-DTYP 2.4.7, MS-FSA 2.1.5.14.1).

use wire::security::{Ace, AceKind, Acl, Control, SecurityInformation};

/// The parts of a descriptor that stand in its SACL.
const PARTS: SecurityInformation = SecurityInformation::SACL
    .union(SecurityInformation::LABEL)
    .union(SecurityInformation::ATTRIBUTE)
    .union(SecurityInformation::SCOPE);
/// What a backup asks for.
const ALL: SecurityInformation =
    PARTS.union(SecurityInformation::OWNER).union(SecurityInformation::GROUP).union(SecurityInformation::DACL);

/// The control bits of a descriptor that speak of its SACL.
pub(crate) const CONTROL: Control = Control::SACL_PRESENT
    .union(Control::SACL_DEFAULTED)
    .union(Control::SACL_AUTO_INHERIT_REQ)
    .union(Control::SACL_AUTO_INHERITED)
    .union(Control::SACL_PROTECTED);

/// BACKUP spelled out.
pub(crate) fn with_backup(which: SecurityInformation) -> SecurityInformation {
    if which.contains(SecurityInformation::BACKUP) { which | ALL } else { which }
}

/// True where some part of the SACL is meant.
pub(crate) fn touches(which: SecurityInformation) -> bool {
    which.intersects(PARTS)
}

/// True where an entry of this kind is of a part that is meant.
pub(crate) fn belongs(kind: AceKind, which: SecurityInformation) -> bool {
    which.contains(match kind {
        AceKind::SYSTEM_MANDATORY_LABEL => SecurityInformation::LABEL,
        AceKind::SYSTEM_RESOURCE_ATTRIBUTE => SecurityInformation::ATTRIBUTE,
        AceKind::SYSTEM_SCOPED_POLICY_ID => SecurityInformation::SCOPE,
        _ => SecurityInformation::SACL,
    })
}

/// The list `old` once the parts that are meant are those of `new`.
pub(crate) fn replaced(old: Option<&Acl>, new: Option<&Acl>, which: SecurityInformation) -> Option<Acl> {
    let of = |list: Option<&Acl>, keep: &dyn Fn(&Ace) -> bool| -> Vec<Ace> {
        list.map(|list| list.aces.iter().filter(|ace| keep(ace)).cloned().collect()).unwrap_or_default()
    };
    let mut aces = of(new, &|ace| belongs(ace.kind, which));
    aces.extend(of(old, &|ace| !belongs(ace.kind, which)));
    (!aces.is_empty() || new.is_some()).then_some(Acl { aces })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::security::{AceBody, AceFlags, Sid};

    fn ace(kind: AceKind, mask: u32) -> Ace {
        Ace { kind, flags: AceFlags::NONE, body: AceBody::Plain { mask, sid: Sid::EVERYONE } }
    }

    #[test]
    fn a_label_is_set_without_touching_what_is_audited() {
        let old = Acl { aces: vec![ace(AceKind::SYSTEM_AUDIT, 1), ace(AceKind::SYSTEM_MANDATORY_LABEL, 2)] };
        let new = Acl { aces: vec![ace(AceKind::SYSTEM_AUDIT, 3), ace(AceKind::SYSTEM_MANDATORY_LABEL, 4)] };
        let masks = |which| {
            let list = replaced(Some(&old), Some(&new), which).unwrap();
            list.aces.iter().filter_map(|ace| ace.mask_and_sid().map(|(mask, _)| mask)).collect::<Vec<_>>()
        };
        assert_eq!(masks(SecurityInformation::LABEL), [4, 1]);
        assert_eq!(masks(SecurityInformation::SACL), [3, 2]);
        assert_eq!(masks(with_backup(SecurityInformation::BACKUP)), [3, 4]);
        assert_eq!(replaced(None, None, SecurityInformation::SACL), None);
    }
}
