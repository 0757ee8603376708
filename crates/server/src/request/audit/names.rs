//! What the audit log calls the parts of a request.

use wire::codec::Utf16;
use wire::command::create::{CreateAction, CreateDisposition};
use wire::command::ioctl::CtlCode;
use wire::command::set_info::SecurityInformation;
use wire::fscc::FileClass;

use crate::state::audit::AuditClass;

/// What a CREATE did.
pub(super) fn action_name(action: CreateAction, is_directory: bool) -> &'static str {
    match (action, is_directory) {
        (CreateAction::CREATED, true) => "DirectoryCreate",
        (CreateAction::CREATED, false) => "FileCreate",
        (CreateAction::OVERWRITTEN, _) => "FileOverwrite",
        (CreateAction::SUPERSEDED, _) => "FileSupersede",
        (_, true) => "DirectoryOpen",
        (_, false) => "FileOpen",
    }
}

/// What a CREATE would have done.
pub(super) fn disposition_name(disposition: CreateDisposition) -> &'static str {
    match disposition {
        CreateDisposition::SUPERSEDE => "Supersede",
        CreateDisposition::OPEN => "Open",
        CreateDisposition::CREATE => "Create",
        CreateDisposition::OPEN_IF => "OpenOrCreate",
        CreateDisposition::OVERWRITE => "Overwrite",
        CreateDisposition::OVERWRITE_IF => "OverwriteOrCreate",
        _ => "",
    }
}

/// The name of a class that changes a file, and of what that is; `None` for others.
pub(super) fn set_information(class: FileClass) -> Option<(&'static str, AuditClass)> {
    Some(match class {
        FileClass::RENAME => ("FileRenameInformation", AuditClass::Write),
        FileClass::RENAME_EX => ("FileRenameInformationEx", AuditClass::Write),
        FileClass::LINK => ("FileLinkInformation", AuditClass::Write),
        FileClass::DISPOSITION => ("FileDispositionInformation", AuditClass::Delete),
        FileClass::DISPOSITION_EX => ("FileDispositionInformationEx", AuditClass::Delete),
        FileClass::BASIC => ("FileBasicInformation", AuditClass::Write),
        FileClass::ALLOCATION => ("FileAllocationInformation", AuditClass::Write),
        FileClass::END_OF_FILE => ("FileEndOfFileInformation", AuditClass::Write),
        FileClass::VALID_DATA_LENGTH => ("FileValidDataLengthInformation", AuditClass::Write),
        FileClass::FULL_EA => ("FileFullEaInformation", AuditClass::Write),
        _ => return None,
    })
}

/// A control code's name.
pub(super) fn text_of(code: CtlCode) -> String {
    format!("FSCTL_{code:?}")
}

/// The parts of a security descriptor that a request sets.
pub(super) fn parts_of_descriptor(parts: SecurityInformation) -> String {
    let names = [
        (SecurityInformation::OWNER, "owner"),
        (SecurityInformation::GROUP, "group"),
        (SecurityInformation::DACL, "dacl"),
        (SecurityInformation::SACL, "sacl"),
        (SecurityInformation::LABEL, "label"),
        (SecurityInformation::ATTRIBUTE, "attributes"),
        (SecurityInformation::SCOPE, "scope"),
        (SecurityInformation::BACKUP, "backup"),
    ];
    let set = names.into_iter().filter_map(|(part, name)| parts.intersects(part).then_some(name));
    set.collect::<Vec<_>>().join(",")
}

/// A text that a client chose, whatever it is: U+FFFD stands for what is none.
pub(super) fn in_text(text: Utf16<'_>) -> String {
    char::decode_utf16(text.units()).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}
