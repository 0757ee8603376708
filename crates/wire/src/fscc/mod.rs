//! What clients ask of files, directories and file systems, and what they are told (MS-FSCC).

#[macro_use]
mod layout;
mod attributes;
mod chain;
mod class;

pub mod afp;
pub mod directory;
pub mod ea;
pub mod file;
pub mod filesystem;
pub mod ioctl;
pub mod notify;
pub mod pattern;
pub mod pipe;
pub mod rename;
pub mod stream;

pub use attributes::FileAttributes;
pub use class::{FileClass, FileSystemClass};
