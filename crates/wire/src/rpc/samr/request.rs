//! What clients ask (MS-SAMR 3.1.5).

use crate::codec::{Malformed, Utf16};
use crate::rpc::Syntax;
use crate::rpc::handles::Handle;
use crate::rpc::names::AccountKind;
use crate::rpc::ndr::NdrReader;
use crate::rpc::samr::{DisplayClass, Operation};
use crate::rpc::srvsvc::Unreadable;
use crate::security::Sid;

/// The most names or relative ids in one call (MS-SAMR 3.1.5.11.2).
const LOOKUPS_MAX: u32 = 1000;
/// The most SIDs in one call (MS-SAMR 2.2.7.5).
const SIDS_MAX: u32 = 1024;

/// What is opened, or told about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A domain.
    Domain,
    /// A user.
    User,
    /// A group.
    Group,
    /// A local group.
    Alias,
}

/// A call with its parameters. ServerName is left out: there is one server here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call<'a> {
    /// SamrConnect, SamrConnect2 and SamrConnect4.
    Connect {
        /// DesiredAccess.
        access: u32,
    },
    /// SamrConnect5.
    Connect5 {
        /// DesiredAccess.
        access: u32,
        /// InVersion.
        version: u32,
    },
    /// SamrCloseHandle.
    Close {
        /// What is closed.
        handle: Handle,
    },
    /// SamrLookupDomainInSamServer.
    LookupDomain {
        /// The database.
        handle: Handle,
        /// The domain's name.
        name: Utf16<'a>,
    },
    /// SamrEnumerateDomainsInSamServer.
    EnumerateDomains {
        /// The database.
        handle: Handle,
        /// Where to go on.
        from: u32,
    },
    /// SamrOpenDomain.
    OpenDomain {
        /// The database.
        handle: Handle,
        /// DesiredAccess.
        access: u32,
        /// Which domain.
        sid: Sid,
    },
    /// SamrOpenUser, SamrOpenGroup and SamrOpenAlias.
    Open {
        /// What is opened.
        target: Target,
        /// The domain.
        handle: Handle,
        /// DesiredAccess.
        access: u32,
        /// Which one.
        relative_id: u32,
    },
    /// SamrQueryInformationDomain, SamrQueryInformationUser, and so on.
    Query {
        /// What is told about.
        target: Target,
        /// It.
        handle: Handle,
        /// Information class.
        class: u32,
    },
    /// SamrEnumerateUsersInDomain, SamrEnumerateGroupsInDomain and SamrEnumerateAliasesInDomain.
    Enumerate {
        /// What is listed.
        kind: AccountKind,
        /// The domain.
        handle: Handle,
        /// Where to go on: the last relative id that was told.
        after: u32,
        /// UserAccountControl, where users are listed: what they are to be.
        control: u32,
        /// How much data the client would like at most, in bytes.
        preferred_bytes: u32,
    },
    /// SamrQueryDisplayInformation and its successors.
    Display {
        /// The domain.
        handle: Handle,
        /// What is listed.
        class: DisplayClass,
        /// Where to begin.
        from: u32,
        /// The most entries.
        count: u32,
        /// How much data the client would like at most, in bytes.
        preferred_bytes: u32,
    },
    /// SamrLookupNamesInDomain.
    LookupNames {
        /// The domain.
        handle: Handle,
        /// What is looked up.
        names: Vec<Utf16<'a>>,
    },
    /// SamrLookupIdsInDomain.
    LookupIds {
        /// The domain.
        handle: Handle,
        /// What is looked up.
        relative_ids: Vec<u32>,
    },
    /// SamrGetGroupsForUser.
    GroupsOfUser {
        /// The user.
        handle: Handle,
    },
    /// SamrGetAliasMembership.
    AliasMembership {
        /// The domain.
        handle: Handle,
        /// Of whom.
        sids: Vec<Sid>,
    },
    /// SamrGetMembersInGroup and SamrGetMembersInAlias.
    Members {
        /// Which of them.
        target: Target,
        /// The group.
        handle: Handle,
    },
    /// SamrRidToSid.
    RidToSid {
        /// A domain, or something in it.
        handle: Handle,
        /// The relative id.
        relative_id: u32,
    },
}

impl<'a> Call<'a> {
    /// Reads the stub of a request.
    pub fn decode(operation: Operation, stub: &'a [u8], syntax: Syntax) -> Result<Call<'a>, Unreadable> {
        let mut ndr = NdrReader::new(stub, syntax);
        let call = match operation {
            Operation::CONNECT => {
                if ndr.pointer()? {
                    ndr.u16()?;
                }
                Call::Connect { access: ndr.u32()? }
            }
            Operation::CONNECT2 => {
                ndr.unique_string()?;
                Call::Connect { access: ndr.u32()? }
            }
            Operation::CONNECT4 => {
                ndr.unique_string()?;
                ndr.u32()?;
                Call::Connect { access: ndr.u32()? }
            }
            // The revision that follows says what the client can, which is not asked for here.
            Operation::CONNECT5 => {
                ndr.unique_string()?;
                Call::Connect5 { access: ndr.u32()?, version: ndr.u32()? }
            }
            Operation::OPEN_USER => open(&mut ndr, Target::User)?,
            Operation::OPEN_GROUP => open(&mut ndr, Target::Group)?,
            Operation::OPEN_ALIAS => open(&mut ndr, Target::Alias)?,
            Operation::QUERY_DOMAIN | Operation::QUERY_DOMAIN2 => query(&mut ndr, Target::Domain)?,
            Operation::QUERY_USER | Operation::QUERY_USER2 => query(&mut ndr, Target::User)?,
            Operation::QUERY_GROUP => query(&mut ndr, Target::Group)?,
            Operation::QUERY_ALIAS => query(&mut ndr, Target::Alias)?,
            Operation::ENUMERATE_USERS => enumerate(&mut ndr, AccountKind::User)?,
            Operation::ENUMERATE_GROUPS => enumerate(&mut ndr, AccountKind::Group)?,
            Operation::ENUMERATE_ALIASES => enumerate(&mut ndr, AccountKind::Alias)?,
            _ => with_handle(operation, &mut ndr)?,
        };
        Ok(call)
    }
}

/// The calls that begin with a handle and are like no others.
fn with_handle<'a>(operation: Operation, ndr: &mut NdrReader<'a>) -> Result<Call<'a>, Unreadable> {
    let known = Operation::name(operation).is_some();
    if !known {
        return Err(Unreadable::Operation);
    }
    let handle = Handle::read(ndr)?;
    let call = match operation {
        Operation::CLOSE => Call::Close { handle },
        Operation::LOOKUP_DOMAIN => {
            let name = ndr.counted_string()?;
            Call::LookupDomain { handle, name: ndr.text_of(name)? }
        }
        Operation::ENUMERATE_DOMAINS => Call::EnumerateDomains { handle, from: ndr.u32()? },
        Operation::OPEN_DOMAIN => Call::OpenDomain { handle, access: ndr.u32()?, sid: ndr.sid()? },
        Operation::QUERY_DISPLAY | Operation::QUERY_DISPLAY2 | Operation::QUERY_DISPLAY3 => Call::Display {
            handle,
            class: DisplayClass(ndr.enumeration()?),
            from: ndr.u32()?,
            count: ndr.u32()?,
            preferred_bytes: ndr.u32()?,
        },
        Operation::LOOKUP_NAMES => {
            let announced = ndr.u32()?;
            let count = ndr.varying_elements(announced, LOOKUPS_MAX)?;
            let strings = (0..count).map(|_| ndr.counted_string()).collect::<Result<Vec<_>, _>>()?;
            let names = strings.into_iter().map(|string| ndr.text_of(string)).collect::<Result<Vec<_>, _>>()?;
            Call::LookupNames { handle, names }
        }
        Operation::LOOKUP_IDS => {
            let announced = ndr.u32()?;
            let count = ndr.varying_elements(announced, LOOKUPS_MAX)?;
            let relative_ids = (0..count).map(|_| ndr.u32()).collect::<Result<Vec<_>, _>>()?;
            Call::LookupIds { handle, relative_ids }
        }
        Operation::GET_GROUPS_FOR_USER => Call::GroupsOfUser { handle },
        Operation::GET_ALIAS_MEMBERSHIP => Call::AliasMembership { handle, sids: read_sids(ndr)? },
        Operation::GET_MEMBERS_IN_GROUP => Call::Members { target: Target::Group, handle },
        Operation::GET_MEMBERS_IN_ALIAS => Call::Members { target: Target::Alias, handle },
        Operation::RID_TO_SID => Call::RidToSid { handle, relative_id: ndr.u32()? },
        _ => return Err(Unreadable::Operation),
    };
    Ok(call)
}

fn open<'a>(ndr: &mut NdrReader<'a>, target: Target) -> Result<Call<'a>, Malformed> {
    let handle = Handle::read(ndr)?;
    Ok(Call::Open { target, handle, access: ndr.u32()?, relative_id: ndr.u32()? })
}

fn query<'a>(ndr: &mut NdrReader<'a>, target: Target) -> Result<Call<'a>, Malformed> {
    let handle = Handle::read(ndr)?;
    Ok(Call::Query { target, handle, class: ndr.enumeration()? })
}

fn enumerate<'a>(ndr: &mut NdrReader<'a>, kind: AccountKind) -> Result<Call<'a>, Malformed> {
    let handle = Handle::read(ndr)?;
    let after = ndr.u32()?;
    let control = match kind {
        AccountKind::User => ndr.u32()?,
        AccountKind::Group | AccountKind::Alias => 0,
    };
    Ok(Call::Enumerate { kind, handle, after, control, preferred_bytes: ndr.u32()? })
}

/// SAMPR_PSID_ARRAY (MS-SAMR 2.2.7.5).
fn read_sids(ndr: &mut NdrReader<'_>) -> Result<Vec<Sid>, Malformed> {
    ndr.align_word()?;
    let count = ndr.u32()?;
    if !ndr.pointer()? {
        return if count == 0 { Ok(Vec::new()) } else { Err(Malformed("SIDs that are not there")) };
    }
    let count = ndr.elements(count, SIDS_MAX)?;
    for _ in 0..count {
        if !ndr.pointer()? {
            return Err(Malformed("a SID that is not there"));
        }
    }
    (0..count).map(|_| ndr.sid()).collect()
}
