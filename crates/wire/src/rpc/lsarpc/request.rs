//! What clients ask (MS-LSAT 3.1.4).

use crate::codec::{Malformed, Utf16};
use crate::rpc::Syntax;
use crate::rpc::handles::Handle;
use crate::rpc::lsarpc::{Form, LookupLevel, Operation, PolicyClass};
use crate::rpc::ndr::NdrReader;
use crate::rpc::srvsvc::Unreadable;
use crate::security::Sid;

/// The most SIDs that one call looks up: as many as names. The specification has room for more (MS-LSAT 2.2.18), which no client of ours sends.
pub const SIDS_MAX: u32 = 1000;
/// The most names in one call (MS-LSAT 3.1.4.5 note 24).
const NAMES_MAX: u32 = 1000;
/// What the specification lets a client send back to us (MS-LSAT 2.2.20).
const TRANSLATED_MAX: u32 = 20_480;
/// LookupOptions: names without a domain are those of this server (MS-LSAT 3.1.4.5).
const ISOLATED_AS_LOCAL: u32 = 0x8000_0000;

/// A call with its parameters. SystemName is left out: there is one server here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call<'a> {
    /// LsarClose.
    Close {
        /// What is closed.
        handle: Handle,
    },
    /// LsarOpenPolicy and LsarOpenPolicy2.
    OpenPolicy {
        /// DesiredAccess.
        access: u32,
    },
    /// LsarQueryInformationPolicy and LsarQueryInformationPolicy2.
    QueryPolicy {
        /// The policy.
        handle: Handle,
        /// What of it.
        class: PolicyClass,
    },
    /// LsarGetUserName.
    GetUserName {
        /// Whether the client wants to know the domain, too.
        wants_domain: bool,
    },
    /// LsarLookupSids and LsarLookupSids2.
    LookupSids {
        /// The policy.
        handle: Handle,
        /// Which form the answer has: the first or the second.
        form: Form,
        /// How far to look.
        level: LookupLevel,
        /// What is looked up.
        sids: Vec<Sid>,
    },
    /// LsarLookupNames, LsarLookupNames2 and LsarLookupNames3.
    LookupNames {
        /// The policy.
        handle: Handle,
        /// Which form the answer has.
        form: Form,
        /// How far to look.
        level: LookupLevel,
        /// False for options that go with another level.
        is_valid: bool,
        /// What is looked up.
        names: Vec<Utf16<'a>>,
    },
    /// LsarLookupSids3 and LsarLookupNames4, whose parameters do not matter to us.
    OfDomainController(Form),
}

impl<'a> Call<'a> {
    /// Reads the stub of a request.
    pub fn decode(operation: Operation, stub: &'a [u8], syntax: Syntax) -> Result<Call<'a>, Unreadable> {
        let mut ndr = NdrReader::new(stub, syntax);
        let call = match operation {
            Operation::CLOSE => Call::Close { handle: Handle::read(&mut ndr)? },
            Operation::OPEN_POLICY => {
                if ndr.pointer()? {
                    ndr.u16()?;
                }
                open_policy(&mut ndr)?
            }
            Operation::OPEN_POLICY2 => {
                ndr.unique_string()?;
                open_policy(&mut ndr)?
            }
            Operation::QUERY_INFORMATION_POLICY | Operation::QUERY_INFORMATION_POLICY2 => {
                let handle = Handle::read(&mut ndr)?;
                Call::QueryPolicy { handle, class: PolicyClass(ndr.enumeration()?) }
            }
            Operation::GET_USER_NAME => get_user_name(&mut ndr)?,
            Operation::LOOKUP_SIDS => lookup_sids(&mut ndr, Form::First)?,
            Operation::LOOKUP_SIDS2 => lookup_sids(&mut ndr, Form::Second)?,
            Operation::LOOKUP_NAMES => lookup_names(&mut ndr, Form::First)?,
            Operation::LOOKUP_NAMES2 => lookup_names(&mut ndr, Form::Second)?,
            Operation::LOOKUP_NAMES3 => lookup_names(&mut ndr, Form::Third)?,
            Operation::LOOKUP_SIDS3 => Call::OfDomainController(Form::Second),
            Operation::LOOKUP_NAMES4 => Call::OfDomainController(Form::Third),
            _ => return Err(Unreadable::Operation),
        };
        Ok(call)
    }
}

/// LSAPR_OBJECT_ATTRIBUTES, of which nothing matters (MS-LSAD 2.2.2.4), and the access that is asked for.
fn open_policy<'a>(ndr: &mut NdrReader<'a>) -> Result<Call<'a>, Malformed> {
    ndr.align_word()?;
    ndr.u32()?;
    let (has_root, has_name) = (ndr.pointer()?, ndr.pointer()?);
    ndr.u32()?;
    let (has_descriptor, has_quality) = (ndr.pointer()?, ndr.pointer()?);
    if has_root {
        ndr.u8()?;
    }
    if has_name || has_descriptor {
        // No client sends these: they would name an object and protect it.
        return Err(Malformed("name or descriptor of a policy"));
    }
    if has_quality {
        ndr.u32()?;
        ndr.enumeration()?;
        ndr.u8()?;
        ndr.u8()?;
    }
    Ok(Call::OpenPolicy { access: ndr.u32()? })
}

/// The names that a client sends are told, not read.
fn get_user_name<'a>(ndr: &mut NdrReader<'a>) -> Result<Call<'a>, Malformed> {
    ndr.unique_string()?;
    skip_string_pointer(ndr)?;
    let wants_domain = ndr.pointer()?;
    if wants_domain {
        skip_string_pointer(ndr)?;
    }
    Ok(Call::GetUserName { wants_domain })
}

fn skip_string_pointer(ndr: &mut NdrReader<'_>) -> Result<(), Malformed> {
    if ndr.pointer()? {
        let string = ndr.counted_string()?;
        ndr.text_of(string)?;
    }
    Ok(())
}

fn lookup_sids<'a>(ndr: &mut NdrReader<'a>, form: Form) -> Result<Call<'a>, Malformed> {
    let handle = Handle::read(ndr)?;
    let sids = read_sids(ndr)?;
    skip_translated_names(ndr, form)?;
    let level = LookupLevel(ndr.enumeration()?);
    Ok(Call::LookupSids { handle, form, level, sids })
}

/// LSAPR_SID_ENUM_BUFFER (MS-LSAT 2.2.18).
fn read_sids(ndr: &mut NdrReader<'_>) -> Result<Vec<Sid>, Malformed> {
    ndr.align_word()?;
    let entries = ndr.u32()?;
    if !ndr.pointer()? {
        return if entries == 0 { Ok(Vec::new()) } else { Err(Malformed("SIDs that are not there")) };
    }
    let entries = ndr.elements(entries, SIDS_MAX)?;
    for _ in 0..entries {
        if !ndr.pointer()? {
            return Err(Malformed("a SID that is not there"));
        }
    }
    (0..entries).map(|_| ndr.sid()).collect()
}

/// LSAPR_TRANSLATED_NAMES and LSAPR_TRANSLATED_NAMES_EX (MS-LSAT 2.2.20, 2.2.22), which are ignored on input.
fn skip_translated_names(ndr: &mut NdrReader<'_>, form: Form) -> Result<(), Malformed> {
    let mut strings = Vec::new();
    for _ in 0..translated(ndr)? {
        ndr.align_word()?;
        ndr.enumeration()?;
        strings.push(ndr.counted_string()?);
        ndr.u32()?;
        if form != Form::First {
            ndr.u32()?;
        }
    }
    strings.into_iter().try_for_each(|string| ndr.text_of(string).map(drop))
}

/// LSAPR_TRANSLATED_SIDS and its like (MS-LSAT 2.2.15, 2.2.24, 2.2.26), which are ignored on input.
fn skip_translated_sids(ndr: &mut NdrReader<'_>, form: Form) -> Result<(), Malformed> {
    let mut pointers = 0;
    for _ in 0..translated(ndr)? {
        if form == Form::Third {
            ndr.align_word()?;
        }
        ndr.enumeration()?;
        match form {
            Form::First | Form::Second => drop(ndr.u32()?),
            Form::Third => pointers += u32::from(ndr.pointer()?),
        }
        ndr.u32()?;
        if form != Form::First {
            ndr.u32()?;
        }
    }
    (0..pointers).try_for_each(|_| ndr.sid().map(drop))
}

/// How many translations a client sends back.
fn translated(ndr: &mut NdrReader<'_>) -> Result<u32, Malformed> {
    ndr.align_word()?;
    let entries = ndr.u32()?;
    if ndr.pointer()? { ndr.elements(entries, TRANSLATED_MAX) } else { Ok(0) }
}

fn lookup_names<'a>(ndr: &mut NdrReader<'a>, form: Form) -> Result<Call<'a>, Malformed> {
    let handle = Handle::read(ndr)?;
    let announced = ndr.u32()?;
    let count = ndr.elements(announced, NAMES_MAX)?;
    let strings = (0..count).map(|_| ndr.counted_string()).collect::<Result<Vec<_>, _>>()?;
    let names = strings.into_iter().map(|string| ndr.text_of(string)).collect::<Result<Vec<_>, _>>()?;
    skip_translated_sids(ndr, form)?;
    let level = LookupLevel(ndr.enumeration()?);
    ndr.u32()?;
    // The first two forms do as if there were no options.
    let options = if form == Form::Third { ndr.u32()? } else { 0 };
    let is_valid = options & ISOLATED_AS_LOCAL == 0 || level == LookupLevel::WORKSTATION;
    Ok(Call::LookupNames { handle, form, level, is_valid, names })
}
