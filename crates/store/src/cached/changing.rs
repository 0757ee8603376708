//! What this server changes, while it does.

use super::kept::Home;
use super::known::Known;
use crate::{Identity, fold};

/// How much of what is known of a file is to be forgotten.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Times, length, number of names.
    Metadata,
    Everything,
    /// It has lost a name: nothing keeps it.
    Existence,
}

/// Something is being changed: what is known of it is forgotten, and what is asked for meanwhile is not kept.
pub(super) struct Changing<'a> {
    known: &'a Known,
    /// The store that changes it.
    by: Home,
    files: Vec<(Identity, Part)>,
    names: Vec<(Identity, String)>,
}

impl<'a> Changing<'a> {
    pub(super) fn of(known: &'a Known, by: Home) -> Self {
        Changing { known, by, files: Vec::with_capacity(4), names: Vec::with_capacity(2) }
    }

    /// This file is.
    pub(super) fn file(mut self, file: Identity, part: Part) -> Self {
        self.known.stripes.begin(self.known.slot(file));
        self.files.push((file, part));
        self.forget_file(file, part);
        self
    }

    /// A name in a directory is, and with it the directory.
    pub(super) fn name(mut self, directory: Identity, name: &str) -> Self {
        let folded = fold(name);
        self.known.stripes.begin(self.known.slot_of_name(directory, &folded));
        self.known.forget_name(directory, &folded);
        self.names.push((directory, folded));
        self.file(directory, Part::Metadata)
    }

    /// A file was made, whose number another may have had.
    pub(super) fn made(&self, file: Identity) {
        self.names.iter().for_each(|(directory, folded)| self.known.unmark(*directory, folded));
        self.known.stripes.changed(self.known.slot(file));
        self.known.forget_file(file, self.by);
    }

    /// This file loses a name, if there is one.
    pub(super) fn gone(self, file: Option<Identity>) -> Self {
        match file {
            Some(file) => self.file(file, Part::Existence),
            None => self,
        }
    }

    fn forget_file(&self, file: Identity, part: Part) {
        match part {
            Part::Existence => self.known.forget_file(file, self.by),
            Part::Metadata | Part::Everything => self.known.forget_facts(file, part),
        }
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        for (directory, folded) in &self.names {
            self.known.forget_name(*directory, folded);
            self.known.stripes.end(self.known.slot_of_name(*directory, folded));
        }
        for (file, part) in &self.files {
            self.forget_file(*file, *part);
            self.known.stripes.end(self.known.slot(*file));
        }
    }
}
