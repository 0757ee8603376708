//! What SMB knows of files as the service's headers have it: attributes, times, and permissions.

use client::{Access, Basic, Facts, File, FileAttributes, FileTime, OpenOptions, Security, SecurityDescriptor};
use jiff::Timestamp;

use super::opening::Place;
use super::permission;
use super::{Ask, Operation, Service};
use crate::failure::Failure;

const ATTRIBUTES: &str = "x-ms-file-attributes";
const CREATED: &str = "x-ms-file-creation-time";
const WRITTEN: &str = "x-ms-file-last-write-time";
const CHANGED: &str = "x-ms-file-change-time";

/// The attributes that there are, by the service's names.
const NAMES: [(&str, FileAttributes); 8] = [
    ("ReadOnly", FileAttributes::READONLY),
    ("Hidden", FileAttributes::HIDDEN),
    ("System", FileAttributes::SYSTEM),
    ("Archive", FileAttributes::ARCHIVE),
    ("Temporary", FileAttributes::TEMPORARY),
    ("Offline", FileAttributes::OFFLINE),
    ("NotContentIndexed", FileAttributes::NOT_CONTENT_INDEXED),
    ("NoScrubData", FileAttributes::NO_SCRUB_DATA),
];

/// What a request sets; what is not named stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SmbProperties {
    basic: Basic,
    permission: Option<SecurityDescriptor>,
}

impl SmbProperties {
    /// What a request says. `copied` is what `source` stands for.
    pub(super) fn asked(service: &Service, ask: &Ask, share: i64, copied: Option<&Facts>) -> Result<Self, Failure> {
        let now = FileTime::from(std::time::SystemTime::now());
        let time = |name, of: fn(&Facts) -> FileTime| {
            ask.header(name).map_or(Ok(FileTime::default()), |text| match (text, copied) {
                (text, Some(facts)) if text.eq_ignore_ascii_case("source") => Ok(of(facts)),
                _ => when(name, text, now),
            })
        };
        let is_directory = matches!(
            ask.operation,
            Operation::CreateDirectory | Operation::SetDirectoryProperties | Operation::RenameDirectory
        );
        let attributes = match (ask.header(ATTRIBUTES), copied) {
            (Some(text), Some(facts)) if text.eq_ignore_ascii_case("source") => settable(facts.attributes),
            (Some(text), _) => attributes(text, is_directory)?,
            (None, _) => FileAttributes::NONE,
        };
        let basic = Basic {
            creation: time(CREATED, |facts| facts.created)?,
            access: FileTime::default(),
            write: time(WRITTEN, |facts| facts.written)?,
            change: time(CHANGED, |facts| facts.changed)?,
            attributes,
        };
        Ok(SmbProperties { basic, permission: permission::asked(service, ask, share)? })
    }

    /// For a file that is made anew under its old name: it is as old as the request, unless that says otherwise.
    pub(super) fn made_anew(mut self) -> Self {
        if self.basic.creation == FileTime::default() {
            self.basic.creation = FileTime::from(std::time::SystemTime::now());
        }
        if self.basic.attributes.is_empty() {
            self.basic.attributes = FileAttributes::ARCHIVE;
        }
        self
    }

    /// For a new file: whatever attributes are named, it is one that is to be archived.
    pub(super) fn of_new(self) -> Self {
        if self.basic.attributes.is_empty() { self } else { self.archived() }
    }

    /// For a file that has these attributes and no others.
    pub(super) fn alone(mut self) -> Self {
        if self.basic.attributes.is_empty() {
            self.basic.attributes = FileAttributes::NORMAL;
        }
        self
    }

    /// The same, and whatever the request says the file has that descriptor where none was named.
    pub(super) fn or_permission(mut self, of: Option<SecurityDescriptor>) -> Self {
        self.permission = self.permission.or(of);
        self
    }

    /// Sets the archive attribute, too.
    pub(super) fn archived(mut self) -> Self {
        self.basic.attributes = self.basic.attributes.without(FileAttributes::NORMAL) | FileAttributes::ARCHIVE;
        self
    }

    /// Who may do what with it is set.
    pub(super) fn has_permission(&self) -> bool {
        self.permission.is_some()
    }

    fn is_empty(&self) -> bool {
        *self == SmbProperties::default()
    }

    /// Sets who may do what, through an open that may.
    pub(super) async fn set_permission(&self, file: &File) -> Result<(), Failure> {
        match &self.permission {
            Some(permission) => permission::set(file, permission).await,
            None => Ok(()),
        }
    }

    /// Sets all but that, through an open that may.
    pub(super) async fn set_basic(&self, file: &File) -> Result<(), Failure> {
        if self.basic != Basic::default() {
            file.set_basic(self.basic).await?;
        }
        Ok(())
    }

    /// For a file that may still have to go: it is not read-only yet.
    pub(super) fn deletable(&self) -> Self {
        let mut basic = self.basic;
        if basic.attributes.contains(FileAttributes::READONLY) {
            basic.attributes = basic.attributes.without(FileAttributes::READONLY);
            if basic.attributes.is_empty() {
                basic.attributes = FileAttributes::NORMAL;
            }
        }
        SmbProperties { basic, permission: self.permission.clone() }
    }

    /// Sets them through an open of its own, if there is anything to set. It is the last that is done to a file: what is done later would change its times.
    pub(super) async fn set_at(&self, place: &Place, is_directory: bool) -> Result<(), Failure> {
        if self.is_empty() {
            return Ok(());
        }
        let security = if self.has_permission() { Security::Change } else { Security::Nothing };
        let options = OpenOptions {
            access: Access::ChangeAttributes,
            directory: Some(is_directory),
            security,
            ..OpenOptions::default()
        };
        let work = async |file: &File| {
            self.set_permission(file).await?;
            self.set_basic(file).await
        };
        place.with(options, work).await.map(drop)
    }
}

/// The parts of a descriptor that are set: those that it has.
pub(super) fn parts(descriptor: &SecurityDescriptor) -> client::SecurityInformation {
    let has = [
        (descriptor.owner.is_some(), client::SecurityInformation::OWNER),
        (descriptor.group.is_some(), client::SecurityInformation::GROUP),
        (descriptor.control.contains(client::Control::DACL_PRESENT), client::SecurityInformation::DACL),
    ];
    has.into_iter()
        .filter(|(is_there, _)| *is_there)
        .fold(client::SecurityInformation::NONE, |all, (_, part)| all | part)
}

/// A time: now, preserved (zero, which leaves it), or told.
fn when(name: &str, text: &str, now: FileTime) -> Result<FileTime, Failure> {
    if text.eq_ignore_ascii_case("now") {
        return Ok(now);
    }
    if text.eq_ignore_ascii_case("preserve") {
        return Ok(FileTime::default());
    }
    let wrong = || Failure::header(name, "now, preserve, or a time such as 2026-11-30T05:00:00.0000000Z");
    let time: Timestamp = text.parse().map_err(|_| wrong())?;
    let time = FileTime::from_unix(time.as_second(), u32::try_from(time.subsec_nanosecond()).map_err(|_| wrong())?);
    // What is before 1601 nobody can say.
    if time == FileTime::default() { Err(wrong()) } else { Ok(time) }
}

/// Reads a time, and names of attributes, for who tests what reads them.
pub(super) fn read(text: &str) -> Result<(), Failure> {
    when("a header", text, FileTime(1)).and(attributes(text, true)).map(drop)
}

/// Attributes by their names; none where they are preserved.
fn attributes(text: &str, is_directory: bool) -> Result<FileAttributes, Failure> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("preserve") || text.is_empty() {
        return Ok(FileAttributes::NONE);
    }
    if text.eq_ignore_ascii_case("none") {
        return Ok(FileAttributes::NORMAL);
    }
    let mut found = FileAttributes::NONE;
    for name in text.split(['|', ',']).map(str::trim) {
        // What is a directory stays one.
        if name.eq_ignore_ascii_case("directory") || name.eq_ignore_ascii_case("normal") {
            continue;
        }
        let known = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let wrong =
            || Failure::header(ATTRIBUTES, "names of attributes with | between them, None by itself, or preserve");
        found |= known.ok_or_else(wrong)?.1;
    }
    if is_directory && found.contains(FileAttributes::TEMPORARY) {
        return Err(Failure::header(ATTRIBUTES, "those of a directory, which is never Temporary"));
    }
    Ok(if found.is_empty() { FileAttributes::NORMAL } else { found })
}

/// Those of a file that may be set again.
fn settable(attributes: FileAttributes) -> FileAttributes {
    let all = NAMES.iter().fold(FileAttributes::NONE, |all, (_, bit)| all | *bit);
    let found = attributes & all;
    if found.is_empty() { FileAttributes::NORMAL } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Code;

    #[test]
    fn attributes_are_named_in_any_case() {
        assert_eq!(attributes("ReadOnly|hidden", false), Ok(FileAttributes::READONLY | FileAttributes::HIDDEN));
        assert_eq!(attributes("Directory | System", false), Ok(FileAttributes::SYSTEM));
        assert_eq!(attributes("None", false), Ok(FileAttributes::NORMAL));
        assert_eq!(attributes("preserve", false), Ok(FileAttributes::NONE));
        for wrong in ["Sparse", "None|ReadOnly"] {
            assert_eq!(
                attributes(wrong, false).map_err(|failure| failure.code),
                Err(Code::InvalidHeaderValue),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_directory_is_never_temporary() {
        assert_eq!(attributes("Hidden|Temporary", false), Ok(FileAttributes::HIDDEN | FileAttributes::TEMPORARY));
        let refused = attributes("Hidden|Temporary", true).map_err(|failure| failure.code);
        assert_eq!(refused, Err(Code::InvalidHeaderValue));
        assert_eq!(attributes("Hidden|Directory", true), Ok(FileAttributes::HIDDEN));
    }

    #[test]
    fn times_are_now_kept_or_told() {
        let now = FileTime(7);
        assert_eq!(when("t", "NOW", now), Ok(now));
        assert_eq!(when("t", "preserve", now), Ok(FileTime(0)));
        let told = when("t", "2025-11-30T05:00:00.1234567Z", now).unwrap();
        assert_eq!(crate::answer::precise(told), "2025-11-30T05:00:00.1234567Z");
        for wrong in ["", "yesterday", "2025-11-30", "1500-01-01T00:00:00Z", "12345"] {
            assert_eq!(when("t", wrong, now).map_err(|failure| failure.code), Err(Code::InvalidHeaderValue), "{wrong}");
        }
    }

    #[test]
    fn what_is_copied_is_what_may_be_set() {
        let sparse = FileAttributes::SPARSE_FILE | FileAttributes::HIDDEN;
        assert_eq!(settable(sparse), FileAttributes::HIDDEN);
        assert_eq!(settable(FileAttributes::SPARSE_FILE), FileAttributes::NORMAL);
    }
}
