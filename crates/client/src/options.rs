//! How a name is to be opened, in an application's words.

use wire::command::create::{CreateDisposition, CreateOptions, ShareAccess};
use wire::fscc::FileAttributes;
use wire::security::access;

/// What an open may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Look at attributes and times.
    Attributes,
    /// Look at attributes and times, and change them.
    ChangeAttributes,
    /// Read data, or list a directory.
    Read,
    /// Read and write data.
    Write,
    /// Delete or rename.
    Delete,
    /// Read and write data, and delete or rename.
    WriteAndDelete,
}

/// What an open does where the name exists, and where it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Opens what exists.
    Open,
    /// Makes what does not exist.
    Create,
    /// Opens, or makes.
    OpenOrCreate,
    /// Makes, and empties what exists. A file keeps its attributes and streams.
    Overwrite,
}

/// What others may do with a file while an open is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Open it for whatever they like.
    Everything,
    /// Open it for reading.
    Reading,
    /// Open it for reading, or to delete or rename it.
    ReadingAndDeleting,
    /// Not open it.
    Nothing,
}

/// What an open may do with a security descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// Nothing.
    #[default]
    Nothing,
    /// Read it.
    Read,
    /// Read and change it.
    Change,
    /// Read it, and what of it is audited, too (`SeSecurityPrivilege`).
    ReadAudited,
    /// Read and change all that.
    ChangeAudited,
}

/// How to open a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// What the open may do.
    pub access: Access,
    /// Whether to make the name.
    pub disposition: Disposition,
    /// A directory, and nothing else (`true`); a file, and nothing else (`false`); or whatever it is.
    pub directory: Option<bool>,
    /// What others may do meanwhile.
    pub sharing: Sharing,
    /// The server keeps the open for a while when every connection is lost.
    pub durable: bool,
    /// What a link says rather than where it leads.
    pub link_itself: bool,
    /// The server answers a write once it is on its disk.
    pub write_through: bool,
    /// The server is to keep nothing of the file in memory.
    pub unbuffered: bool,
    /// In which order it will be read, as far as is known.
    pub scan: Scan,
    /// What the open may do with its security descriptor.
    pub security: Security,
    /// The attributes of what is made.
    pub attributes: FileAttributes,
    /// The server is to tell its number for the file.
    pub wants_id: bool,
    /// Where the file of a stream is missing it is not made. Our own server alone knows this.
    pub stream_alone: bool,
}

/// In which order a file will be read; the server may read ahead, or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scan {
    /// Nobody knows.
    #[default]
    Unknown,
    /// From its beginning to its end.
    Sequential,
    /// Here and there.
    Random,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            access: Access::Read,
            disposition: Disposition::Open,
            directory: None,
            sharing: Sharing::Everything,
            durable: false,
            link_itself: false,
            write_through: false,
            unbuffered: false,
            scan: Scan::Unknown,
            security: Security::Nothing,
            attributes: FileAttributes::NONE,
            wants_id: false,
            stream_alone: false,
        }
    }
}

impl OpenOptions {
    pub(crate) fn access_mask(&self) -> u32 {
        // No SYNCHRONIZE: a directory lends the right to see attributes, and nothing can be waited for over the network.
        let look = access::READ_ATTRIBUTES;
        let write = access::READ_DATA | access::WRITE_DATA | access::APPEND_DATA | access::WRITE_ATTRIBUTES;
        let access = match self.access {
            Access::Attributes => look,
            Access::ChangeAttributes => look | access::WRITE_ATTRIBUTES,
            Access::Read => look | access::READ_DATA | access::READ_EA,
            Access::Write => look | write,
            Access::Delete => look | access::DELETE,
            Access::WriteAndDelete => look | write | access::DELETE,
        };
        let read = access::READ_CONTROL;
        let change = read | access::WRITE_DAC | access::WRITE_OWNER;
        access
            | match self.security {
                Security::Nothing => 0,
                Security::Read => read,
                Security::Change => change,
                Security::ReadAudited => read | access::ACCESS_SYSTEM_SECURITY,
                Security::ChangeAudited => change | access::ACCESS_SYSTEM_SECURITY,
            }
    }

    pub(crate) fn share_access(&self) -> ShareAccess {
        match self.sharing {
            Sharing::Everything => ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
            Sharing::Reading => ShareAccess::READ,
            Sharing::ReadingAndDeleting => ShareAccess::READ | ShareAccess::DELETE,
            Sharing::Nothing => ShareAccess::NONE,
        }
    }

    pub(crate) fn create_disposition(&self) -> CreateDisposition {
        match self.disposition {
            Disposition::Open => CreateDisposition::OPEN,
            Disposition::Create => CreateDisposition::CREATE,
            // What exists is emptied through the open, see [`File::open`](crate::file::File).
            Disposition::OpenOrCreate | Disposition::Overwrite => CreateDisposition::OPEN_IF,
        }
    }

    pub(crate) fn create_options(&self) -> CreateOptions {
        let kind = match self.directory {
            Some(true) => CreateOptions::DIRECTORY_FILE,
            Some(false) => CreateOptions::NON_DIRECTORY_FILE,
            None => CreateOptions::NONE,
        };
        let scan = match self.scan {
            Scan::Unknown => CreateOptions::NONE,
            Scan::Sequential => CreateOptions::SEQUENTIAL_ONLY,
            Scan::Random => CreateOptions::RANDOM_ACCESS,
        };
        let flags = [
            (self.link_itself, CreateOptions::OPEN_REPARSE_POINT),
            (self.write_through, CreateOptions::WRITE_THROUGH),
            (self.unbuffered, CreateOptions::NO_INTERMEDIATE_BUFFERING),
        ];
        flags.into_iter().filter(|(is_set, _)| *is_set).fold(kind | scan, |options, (_, flag)| options | flag)
    }
}
