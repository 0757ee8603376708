//! Sets parts of a security descriptor (MS-SMB2 3.3.5.21.3, MS-FSA 2.1.5.17).

use store::Kind;
use wire::command::change_notify::CompletionFilter;
use wire::command::set_info::SetInfoRequest;
use wire::security::access::{ACCESS_SYSTEM_SECURITY, GenericMapping, WRITE_DAC, WRITE_OWNER};
use wire::security::{Ace, AceBody, AceFlags, Control, SecurityDescriptor, SecurityInformation};
use wire::status::Status;

use super::change_slowly;
use crate::command::breaking;
use crate::command::context::Context;
use crate::state::descriptors::{At, Reading};
use crate::state::open::Target;
use crate::state::refusal::Refusal;
use crate::state::user::User;
use crate::state::{attributes, descriptors, sacl};

pub(super) async fn set(context: &Context, request: &SetInfoRequest<'_>) -> Result<(), Refusal> {
    let open = context.open()?;
    let which = SecurityInformation(request.additional_information);
    open.require(needed_access(which))?;
    if matches!(open.target, Target::Pipe(_)) {
        return Err(Status::ACCESS_DENIED.into());
    }
    // What it is made of takes many times as much as it does, and is not kept while the request waits.
    if Reading::Quick.takes(request.buffer) {
        decoded(request.buffer)?;
    }
    let asked = context.message.holding(request.buffer);
    if needed_access(which) == 0 {
        // No part is meant, and nothing was asked of the open.
        return Ok(());
    }
    context.require_writable()?;
    breaking::before_change_of_name(context).await?;
    change_slowly(context, move |job| {
        let (file, asked) = (job.file()?, decoded(&asked)?);
        let base = file.base();
        let path = file.path.now();
        let at = At { store: &*job.store, node: &**base, path: &path };
        let (descriptors, share) = (&job.server.descriptors, &job.open.tree.share);
        // What it has from its directory is asked for before the file is held.
        let before = match base.extras().security()? {
            None => Some(descriptors.passed_on(at, Reading::Whole)?.readable()?),
            Some(_) => None,
        };
        let mut outcome = Err(Status::INVALID_SECURITY_DESCR.into());
        // Others may change other parts at the same moment: none of them is to be undone.
        base.extras().change_security(&mut |stored| {
            let old = descriptors.understand(stored, at, share).map_err(Refusal::from);
            let new = old.and_then(|old| {
                let old = old.or_else(|| before.clone()).ok_or(Status::FILE_INVALID)?.readable()?.into_effective();
                check_owner(&job.user, &old, &asked, which)?;
                Ok(combined(&old, &asked, which).encode().ok_or(Status::INVALID_SECURITY_DESCR)?)
            });
            let (new, done) = match new {
                Ok(new) => (Some(new), Ok(())),
                Err(refusal) => (None, Err(refusal)),
            };
            outcome = done;
            new
        })?;
        if base.kind() == Kind::Directory {
            descriptors.inheritance.directory_changed();
        }
        outcome?;
        job.server.watches.changed(&job.open, CompletionFilter::SECURITY);
        if base.kind() != Kind::Directory {
            attributes::archive_changed(&**base);
        }
        Ok(())
    })
    .await
}

fn decoded(bytes: &[u8]) -> Result<SecurityDescriptor, Status> {
    descriptors::decode(bytes).map_err(|_| Status::INVALID_SECURITY_DESCR)
}

fn needed_access(which: SecurityInformation) -> u32 {
    let which = sacl::with_backup(which);
    let rights = [
        (SecurityInformation::OWNER, WRITE_OWNER),
        (SecurityInformation::GROUP, WRITE_OWNER),
        (SecurityInformation::LABEL, WRITE_OWNER),
        (SecurityInformation::DACL, WRITE_DAC),
        (SecurityInformation::ATTRIBUTE, WRITE_DAC),
        (SecurityInformation::PROTECTED_DACL, WRITE_DAC),
        (SecurityInformation::UNPROTECTED_DACL, WRITE_DAC),
        (SecurityInformation::SACL, ACCESS_SYSTEM_SECURITY),
        (SecurityInformation::SCOPE, ACCESS_SYSTEM_SECURITY),
        (SecurityInformation::PROTECTED_SACL, ACCESS_SYSTEM_SECURITY),
        (SecurityInformation::UNPROTECTED_SACL, ACCESS_SYSTEM_SECURITY),
    ];
    rights.into_iter().filter(|(part, _)| which.contains(*part)).fold(0, |needed, (_, right)| needed | right)
}

/// A user may give a file to itself and to its groups, and leave the owner there is; who holds an account's key may give it to anybody.
fn check_owner(
    user: &User,
    old: &SecurityDescriptor,
    asked: &SecurityDescriptor,
    which: SecurityInformation,
) -> Result<(), Status> {
    if !sacl::with_backup(which).contains(SecurityInformation::OWNER) {
        return if old.owner.is_some() { Ok(()) } else { Err(Status::INVALID_OWNER) };
    }
    let owner = asked.owner.ok_or(Status::INVALID_OWNER)?;
    let allowed = user.may_own_as(&owner) || old.owner == Some(owner);
    if allowed { Ok(()) } else { Err(Status::INVALID_OWNER) }
}

/// The descriptor `old` with those parts of `asked` that are meant.
fn combined(old: &SecurityDescriptor, asked: &SecurityDescriptor, which: SecurityInformation) -> SecurityDescriptor {
    let which = sacl::with_backup(which);
    let mut new = old.clone();
    new.replace(asked, which);
    if which.contains(SecurityInformation::DACL) {
        new.control |= Control::DACL_PRESENT;
        new.dacl.iter_mut().flat_map(|list| &mut list.aces).for_each(map_generic);
    }
    if sacl::touches(which) {
        new.sacl = sacl::replaced(old.sacl.as_ref(), asked.sacl.as_ref(), which);
    }
    new
}

/// What counts for the file itself is kept as the rights that it means; what is only passed on keeps its generic bits, which mean other
/// things for files and directories.
fn map_generic(ace: &mut Ace) {
    if let AceBody::Plain { mask, .. } = &mut ace.body
        && !ace.flags.contains(AceFlags::INHERIT_ONLY)
    {
        *mask = GenericMapping::FILE.map(*mask);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::configuration::{Principal, PrincipalKind, Standing};
    use wire::security::access::{FILE_GENERIC_READ, GENERIC_READ};
    use wire::security::{Acl, Sid};

    fn user(kind: PrincipalKind) -> User {
        let principal = Principal {
            name: "u".into(),
            account: "a".into(),
            kind,
            relative_id: 1000,
            secrets: Vec::new(),
            former: Vec::new(),
            unix_owner: None,
            groups: Vec::new(),
            standing: Standing::Good,
        };
        User::new(&principal, [1, 2, 3])
    }

    fn owned_by(owner: Sid) -> SecurityDescriptor {
        SecurityDescriptor { owner: Some(owner), ..SecurityDescriptor::default() }
    }

    #[test]
    fn files_are_given_to_oneself_and_ones_groups() {
        let user = user(PrincipalKind::User);
        let (old, which) = (owned_by(Sid::SYSTEM), SecurityInformation::OWNER);
        assert_eq!(check_owner(&user, &old, &owned_by(*user.sid()), which), Ok(()));
        assert_eq!(check_owner(&user, &old, &owned_by(Sid::SYSTEM), which), Ok(()), "as it is");
        assert_eq!(check_owner(&user, &old, &owned_by(*user.group()), which), Ok(()));
        assert_eq!(check_owner(&user, &old, &owned_by(Sid::BUILTIN_ADMINISTRATORS), which), Err(Status::INVALID_OWNER));
        assert_eq!(check_owner(&user, &old, &SecurityDescriptor::default(), which), Err(Status::INVALID_OWNER));
        assert_eq!(check_owner(&user, &old, &owned_by(Sid::EVERYONE), SecurityInformation::DACL), Ok(()));
    }

    #[test]
    fn account_keys_give_files_to_anybody() {
        let user = user(PrincipalKind::Account);
        let asked = owned_by(Sid::new(5, &[21, 9, 9, 9, 500]).unwrap());
        assert_eq!(check_owner(&user, &owned_by(Sid::SYSTEM), &asked, SecurityInformation::OWNER), Ok(()));
    }

    #[test]
    fn only_what_is_meant_changes() {
        let old = owned_by(Sid::SYSTEM);
        let mut asked = owned_by(Sid::EVERYONE);
        asked.group = Some(Sid::BUILTIN_USERS);
        asked.control = Control::DACL_PRESENT | Control::DACL_AUTO_INHERIT_REQ | Control::DACL_AUTO_INHERITED;
        let new = combined(&old, &asked, SecurityInformation::GROUP);
        assert_eq!((new.owner, new.group, new.control), (Some(Sid::SYSTEM), Some(Sid::BUILTIN_USERS), Control::NONE));
        let new = combined(&old, &asked, SecurityInformation::DACL);
        assert_eq!(new.control, Control::DACL_PRESENT | Control::DACL_AUTO_INHERITED);
    }

    #[test]
    fn generic_rights_of_the_file_itself_are_spelled_out() {
        let aces = [AceFlags::NONE, AceFlags::INHERIT_ONLY | AceFlags::OBJECT_INHERIT];
        let aces = aces.map(|flags| Ace::allow(Sid::EVERYONE, GENERIC_READ, flags)).to_vec();
        let asked = SecurityDescriptor { dacl: Some(Acl { aces }), ..SecurityDescriptor::default() };
        let new = combined(&SecurityDescriptor::default(), &asked, SecurityInformation::DACL);
        let masks: Vec<_> = new.dacl.iter().flat_map(|list| &list.aces).filter_map(Ace::mask_and_sid).collect();
        assert_eq!(masks, [(FILE_GENERIC_READ, Sid::EVERYONE), (GENERIC_READ, Sid::EVERYONE)]);
    }

    #[test]
    fn no_list_is_a_null_list_once_it_was_set() {
        let old = SecurityDescriptor { dacl: Some(Acl::default()), ..SecurityDescriptor::default() };
        let new = combined(&old, &SecurityDescriptor::default(), SecurityInformation::DACL);
        assert_eq!((new.dacl, new.control), (None, Control::DACL_PRESENT));
    }

    #[test]
    fn each_part_needs_its_right() {
        assert_eq!(needed_access(SecurityInformation::OWNER | SecurityInformation::DACL), WRITE_OWNER | WRITE_DAC);
        assert_eq!(needed_access(SecurityInformation::SACL), ACCESS_SYSTEM_SECURITY);
        assert_eq!(needed_access(SecurityInformation::NONE), 0);
        assert_eq!(needed_access(SecurityInformation::UNPROTECTED_DACL), WRITE_DAC);
        assert_eq!(needed_access(SecurityInformation::PROTECTED_SACL), ACCESS_SYSTEM_SECURITY);
    }
}
