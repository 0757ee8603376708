//! What clients are told (MS-LSAT 3.1.4).

use std::borrow::Cow;

use crate::codec::Utf16;
use crate::rpc::Syntax;
use crate::rpc::access::Rights;
use crate::rpc::handles::{Handle, Object};
use crate::rpc::lsarpc::{Call, Form, LookupLevel, PolicyClass};
use crate::rpc::names::{Domain, Found, NAME_UNITS_MAX, Names, SidUse, find_name, find_sid};
use crate::rpc::ndr::NdrWriter;
use crate::rpc::pdu::FaultStatus;
use crate::rpc::service::{Service, close, find, open, write_opened};
use crate::security::Sid;
use crate::security::access::READ_CONTROL;
use crate::status::Status;

/// POLICY_VIEW_LOCAL_INFORMATION and POLICY_LOOKUP_NAMES (MS-LSAD 2.2.1.1.2): what everybody has who signed in.
const VIEW_LOCAL_INFORMATION: u32 = 0x0000_0001;
const LOOKUP_NAMES: u32 = 0x0000_0800;
/// Nothing of a policy can be changed, whoever asks.
const POLICY: Rights = Rights {
    granted: READ_CONTROL | VIEW_LOCAL_INFORMATION | LOOKUP_NAMES,
    read: READ_CONTROL | 0x6,
    write: READ_CONTROL | 0x7F8,
    execute: READ_CONTROL | VIEW_LOCAL_INFORMATION | LOOKUP_NAMES,
    all: 0x000F_0FFF,
};
/// PolicyServerRolePrimary (MS-LSAD 2.2.4.9).
const ROLE_PRIMARY: u32 = 3;
/// DomainIndex of what is in no domain.
const NO_DOMAIN: u32 = u32::MAX;
/// RelativeId of a domain (MS-LSAT 3.1.4.7).
const NO_RELATIVE_ID: u32 = u32::MAX;
/// How many SIDs or names one step looks up: some hundred microseconds.
const LOOKED_UP_AT_ONCE: usize = 64;
/// Bytes of work that a lookup costs, and each letter of a name.
const LOOKUP_COST: usize = 1024;
const LETTER_COST: usize = 16;

/// Appends the stub that answers `call` to `out`.
pub fn answer(call: &Call<'_>, service: &dyn Service, syntax: Syntax, out: &mut Vec<u8>) -> Result<(), FaultStatus> {
    let mut ndr = NdrWriter::new(out, syntax);
    match call {
        Call::Close { handle } => close(service, *handle, &mut ndr)?,
        Call::OpenPolicy { access } => {
            let opened = POLICY.grant(service, *access).and_then(|granted| open(service, Object::Policy, granted));
            write_opened(&mut ndr, opened);
        }
        Call::QueryPolicy { handle, class } => {
            let allowed = check(service, *handle, VIEW_LOCAL_INFORMATION)?;
            write_policy(&mut ndr, service, *class, allowed);
        }
        Call::GetUserName { wants_domain } => write_user_name(&mut ndr, service, *wants_domain),
        Call::LookupSids { .. } | Call::LookupNames { .. } | Call::OfDomainController(_) => {
            let Some(mut lookup) = Lookup::of(call, service, syntax)? else { return Ok(()) };
            out.extend(std::iter::repeat_with(|| lookup.step(service)).find_map(|stub| stub).unwrap_or_default());
        }
    }
    Ok(())
}

/// Whether the policy of `handle` may be asked for what needs these rights.
fn check(service: &dyn Service, handle: Handle, needed: u32) -> Result<Result<(), Status>, FaultStatus> {
    let opened = find(service, handle)?;
    Ok(match opened.object {
        Object::Policy if opened.granted & needed == needed && service.may_ask() => Ok(()),
        Object::Policy => Err(Status::ACCESS_DENIED),
        Object::AccountServer | Object::Domain(_) | Object::User(_) | Object::Group(_) | Object::Alias(..) => {
            return Err(FaultStatus::CONTEXT_MISMATCH);
        }
    })
}

/// Who is no domain controller knows one level alone (3.1.4.10).
fn check_level(level: LookupLevel) -> Result<(), Status> {
    match level {
        LookupLevel::WORKSTATION => Ok(()),
        LookupLevel(0) | LookupLevel(8..) => Err(Status::INVALID_PARAMETER),
        LookupLevel(_) => Err(Status::INVALID_SERVER_STATE),
    }
}

/// LsarQueryInformationPolicy's answer (MS-LSAD 2.2.4.2).
fn write_policy(ndr: &mut NdrWriter<'_>, names: &dyn Names, class: PolicyClass, allowed: Result<(), Status>) {
    let known = match class {
        PolicyClass::PRIMARY_DOMAIN
        | PolicyClass::ACCOUNT_DOMAIN
        | PolicyClass::SERVER_ROLE
        | PolicyClass::DNS_DOMAIN
        | PolicyClass::DNS_DOMAIN_INTERNAL
        | PolicyClass::LOCAL_ACCOUNT_DOMAIN => Ok(()),
        _ => Err(Status::INVALID_PARAMETER),
    };
    let status = allowed.and(known).err().unwrap_or(Status::SUCCESS);
    ndr.pointer(status == Status::SUCCESS);
    if status == Status::SUCCESS {
        ndr.enumeration_tag(class.0);
        match class {
            PolicyClass::ACCOUNT_DOMAIN | PolicyClass::LOCAL_ACCOUNT_DOMAIN => {
                let domain = Domain::of_accounts(names);
                write_domain_pointers(ndr, &domain.name, true);
                ndr.text_of(&domain.name);
                ndr.sid(&domain.sid);
            }
            PolicyClass::SERVER_ROLE => ndr.enumeration(ROLE_PRIMARY),
            // The server is in a workgroup, which has no SID.
            PolicyClass::PRIMARY_DOMAIN => {
                let workgroup = names.workgroup();
                write_domain_pointers(ndr, &workgroup, false);
                ndr.text_of(&workgroup);
            }
            _ => {
                let texts = [names.workgroup(), String::new(), String::new()];
                texts.iter().for_each(|text| ndr.counted_string(text));
                ndr.align_long();
                ndr.bytes(&[0; 16]);
                ndr.pointer(false);
                texts.iter().for_each(|text| ndr.text_of(text));
            }
        }
    }
    ndr.u32(status.0);
}

/// LSAPR_TRUST_INFORMATION (MS-LSAT 2.2.11), what it points to left for later.
fn write_domain_pointers(ndr: &mut NdrWriter<'_>, name: &str, has_sid: bool) {
    ndr.counted_string(name);
    ndr.pointer(has_sid);
}

/// LsarGetUserName's answer (MS-LSAT 3.1.4.4).
fn write_user_name(ndr: &mut NdrWriter<'_>, names: &dyn Names, wants_domain: bool) {
    let account = if names.may_ask() { names.account(names.caller()) } else { None };
    let write = |ndr: &mut NdrWriter<'_>, text: Option<&str>| {
        ndr.pointer(text.is_some());
        if let Some(text) = text {
            ndr.counted_string(text);
            ndr.text_of(text);
        }
    };
    write(ndr, account.as_ref().map(|account| account.name.as_str()));
    ndr.pointer(wants_domain);
    if wants_domain {
        let domain = account.is_some().then(|| names.domain_name());
        write(ndr, domain.as_deref());
    }
    ndr.u32(if account.is_some() { Status::SUCCESS } else { Status::ACCESS_DENIED }.0);
}

/// The domains of an answer, each once (3.1.4.5).
#[derive(Debug, Default)]
struct Domains(Vec<Domain>);

impl Domains {
    fn index(&mut self, domain: Domain) -> u32 {
        let known = self.0.iter().position(|known| *known == domain);
        let index = known.unwrap_or(self.0.len());
        if known.is_none() {
            self.0.push(domain);
        }
        index as u32
    }

    /// A pointer to LSAPR_REFERENCED_DOMAIN_LIST (MS-LSAT 2.2.12), and that.
    fn write(&self, ndr: &mut NdrWriter<'_>) {
        ndr.pointer(true);
        ndr.u32(self.0.len() as u32);
        ndr.pointer(!self.0.is_empty());
        ndr.u32(self.0.len() as u32);
        if self.0.is_empty() {
            return;
        }
        ndr.count(self.0.len());
        self.0.iter().for_each(|domain| write_domain_pointers(ndr, &domain.name, true));
        for domain in &self.0 {
            ndr.text_of(&domain.name);
            ndr.sid(&domain.sid);
        }
    }
}

/// How a lookup ends, and how many it found.
fn mapped(found: usize, asked: usize) -> Status {
    match found {
        _ if found == asked => Status::SUCCESS,
        0 => Status::NONE_MAPPED,
        _ => Status::SOME_NOT_MAPPED,
    }
}

/// The start of an array of translations.
fn write_translations(ndr: &mut NdrWriter<'_>, count: usize) {
    ndr.align_word();
    ndr.u32(count as u32);
    ndr.pointer(count != 0);
    if count != 0 {
        ndr.count(count);
    }
}

/// A SID's translation.
#[derive(Debug)]
struct Translated {
    sid_use: SidUse,
    name: Cow<'static, str>,
    domain: u32,
}

/// A name's translation: what it is of, its SID, and its domain.
type Located = (SidUse, Option<Sid>, u32);

/// A lookup. It is answered in steps, so that others have their turn between them.
#[derive(Debug)]
pub(crate) struct Lookup {
    syntax: Syntax,
    form: Form,
    refused: Option<Status>,
    domains: Domains,
    asked: Asked,
}

/// What is looked up, and what was found of it so far.
#[derive(Debug)]
enum Asked {
    Sids(Vec<Sid>, Vec<Translated>),
    /// Nothing stands for what can be nobody's name.
    Names(Vec<Option<String>>, Vec<Located>),
}

impl Lookup {
    /// The answer to `call`, where it is a lookup.
    pub(crate) fn of(call: &Call<'_>, service: &dyn Service, syntax: Syntax) -> Result<Option<Lookup>, FaultStatus> {
        let (form, allowed) = match call {
            Call::LookupSids { handle, form, level, .. } => {
                (*form, check(service, *handle, LOOKUP_NAMES)?.and_then(|()| check_level(*level)))
            }
            Call::LookupNames { handle, form, level, is_valid, .. } => {
                let allowed = check(service, *handle, LOOKUP_NAMES)?.and_then(|()| check_level(*level));
                (*form, allowed.and(if *is_valid { Ok(()) } else { Err(Status::INVALID_PARAMETER) }))
            }
            // "The RPC server MUST return STATUS_INVALID_SERVER_STATE if it is not a domain controller" (3.1.4.5, 3.1.4.9).
            Call::OfDomainController(form) => (*form, Err(Status::INVALID_SERVER_STATE)),
            Call::Close { .. } | Call::OpenPolicy { .. } | Call::QueryPolicy { .. } | Call::GetUserName { .. } => {
                return Ok(None);
            }
        };
        let asked = match call {
            Call::LookupSids { sids, .. } if allowed.is_ok() => Asked::Sids(sids.clone(), Vec::new()),
            Call::LookupNames { names, .. } if allowed.is_ok() => {
                Asked::Names(names.iter().map(name_of).collect(), Vec::new())
            }
            Call::LookupNames { .. } | Call::OfDomainController(Form::Third) => Asked::Names(Vec::new(), Vec::new()),
            _ => Asked::Sids(Vec::new(), Vec::new()),
        };
        Ok(Some(Lookup { syntax, form, refused: allowed.err(), domains: Domains::default(), asked }))
    }

    /// Goes on a step; gives the stub once it is complete.
    pub(crate) fn step(&mut self, service: &dyn Service) -> Option<Vec<u8>> {
        let domains = &mut self.domains;
        let is_done = match &mut self.asked {
            Asked::Sids(asked, found) => {
                for sid in asked.iter().skip(found.len()).take(LOOKED_UP_AT_ONCE) {
                    found.push(translate(service, sid, domains));
                    service.note_work(LOOKUP_COST);
                }
                found.len() == asked.len()
            }
            Asked::Names(asked, found) => {
                for name in asked.iter().skip(found.len()).take(LOOKED_UP_AT_ONCE) {
                    found.push(locate(service, name.as_deref(), domains));
                    service.note_work(LOOKUP_COST + LETTER_COST * name.as_ref().map_or(0, String::len));
                }
                found.len() == asked.len()
            }
        };
        is_done.then(|| self.encode())
    }

    /// What is held for it, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.asked {
            Asked::Sids(asked, found) => {
                let names: usize = found.iter().map(|one| one.name.len()).sum();
                size_of_val(asked.as_slice()) + size_of_val(found.as_slice()) + names
            }
            Asked::Names(asked, found) => {
                let names: usize = asked.iter().flatten().map(String::len).sum();
                size_of_val(asked.as_slice()) + size_of_val(found.as_slice()) + names
            }
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut ndr = NdrWriter::new(&mut out, self.syntax);
        if self.refused.is_none() {
            self.domains.write(&mut ndr);
        } else {
            ndr.pointer(false);
        }
        let (found, asked) = match &self.asked {
            Asked::Sids(_, translated) => {
                let found = translated.iter().filter(|one| one.sid_use != SidUse::UNKNOWN).count();
                write_names(&mut ndr, self.form, translated);
                (found, translated.len())
            }
            Asked::Names(_, located) => {
                let found = located.iter().filter(|(sid_use, ..)| *sid_use != SidUse::UNKNOWN).count();
                write_sids(&mut ndr, self.form, located);
                (found, located.len())
            }
        };
        ndr.u32(found as u32);
        ndr.u32(self.refused.unwrap_or(mapped(found, asked)).0);
        out
    }
}

/// What a lookup of SIDs found (MS-LSAT 3.1.4.9).
fn write_names(ndr: &mut NdrWriter<'_>, form: Form, translated: &[Translated]) {
    write_translations(ndr, translated.len());
    for one in translated {
        ndr.align_word();
        ndr.enumeration(one.sid_use.0);
        ndr.counted_string(&one.name);
        ndr.u32(one.domain);
        if form != Form::First {
            ndr.u32(0);
        }
    }
    translated.iter().for_each(|one| ndr.text_of(&one.name));
}

fn translate(names: &dyn Names, sid: &Sid, domains: &mut Domains) -> Translated {
    match find_sid(names, sid) {
        Found::Principal(principal) => {
            Translated { sid_use: principal.sid_use, name: principal.name, domain: domains.index(principal.domain) }
        }
        // "A textual representation of the last 32 bits of the SID in hexadecimal format."
        Found::Domain(domain) => {
            let last = sid.sub_authorities().last().copied().unwrap_or(0);
            Translated { sid_use: SidUse::UNKNOWN, name: format!("{last:08x}").into(), domain: domains.index(domain) }
        }
        Found::Nothing => Translated { sid_use: SidUse::UNKNOWN, name: sid.to_string().into(), domain: NO_DOMAIN },
    }
}

/// What a lookup of names found (MS-LSAT 3.1.4.5).
fn write_sids(ndr: &mut NdrWriter<'_>, form: Form, found: &[Located]) {
    write_translations(ndr, found.len());
    for (sid_use, sid, domain) in found {
        if form == Form::Third {
            ndr.align_word();
        }
        ndr.enumeration(sid_use.0);
        match form {
            Form::First | Form::Second => ndr.u32(relative_id(*sid_use, sid.as_ref())),
            Form::Third => ndr.pointer(sid.is_some()),
        }
        ndr.u32(*domain);
        if form != Form::First {
            ndr.u32(0);
        }
    }
    if form == Form::Third {
        found.iter().filter_map(|(_, sid, _)| sid.as_ref()).for_each(|sid| ndr.sid(sid));
    }
}

/// What is no text is nobody's name, nor is what is longer than any: it is not even looked at.
fn name_of(text: &Utf16<'_>) -> Option<String> {
    let fits = text.as_bytes().len() <= 2 * NAME_UNITS_MAX;
    fits.then(|| text.decode()).flatten()
}

fn locate(names: &dyn Names, name: Option<&str>, domains: &mut Domains) -> Located {
    match name.map_or(Found::Nothing, |name| find_name(names, name)) {
        Found::Principal(principal) => (principal.sid_use, Some(principal.sid), domains.index(principal.domain)),
        Found::Domain(domain) => (SidUse::UNKNOWN, None, domains.index(domain)),
        Found::Nothing => (SidUse::UNKNOWN, None, NO_DOMAIN),
    }
}

/// The last number of a SID that is in a domain (MS-LSAT 3.1.4.7).
fn relative_id(sid_use: SidUse, sid: Option<&Sid>) -> u32 {
    match sid {
        Some(_) if sid_use == SidUse::DOMAIN => NO_RELATIVE_ID,
        Some(sid) => sid.sub_authorities().last().copied().unwrap_or(0),
        None => 0,
    }
}
