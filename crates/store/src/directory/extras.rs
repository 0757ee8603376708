//! What an open file, or the file of an open stream, has beside its data.

use std::sync::Arc;

use crate::directory::file::OpenFile;
use crate::directory::{extended, security, stream, streams};
use crate::{
    ChangeExtended, ChangeSecurity, Error, ExtendedAttribute, Extras, Failed, NamedNode, Node, Replace, TakeStream,
};

impl Extras for OpenFile {
    fn security(&self) -> Result<Option<Vec<u8>>, Error> {
        self.may_wait_to_look("security");
        security::load(self)
    }

    fn security_within(&self, bytes_max: usize) -> Result<Option<Vec<u8>>, Error> {
        self.may_wait_to_look("security");
        security::load_within(self, bytes_max)
    }

    fn change_security(&self, change: ChangeSecurity<'_>) -> Result<(), Error> {
        let _turn = self.begin("change_security")?;
        security::change(self, change)
    }

    fn extended(&self) -> Result<Vec<ExtendedAttribute>, Error> {
        self.may_wait_to_look("extended");
        extended::all(self)
    }

    fn set_extended(&self, name: &str, value: &[u8]) -> Result<(), Error> {
        let _turn = self.begin("set_extended")?;
        extended::set(self, name, value)
    }

    fn change_extended(&self, change: ChangeExtended<'_>) -> Result<(), Failed> {
        let _turn = self.begin("change_extended").map_err(Failed::untouched)?;
        extended::change(self, change)
    }

    fn list_streams(&self, take: TakeStream<'_>) -> Result<(), Error> {
        self.may_wait_to_look("list_streams");
        streams::list(self, take)
    }

    fn stream(&self, name: &str) -> Result<Option<NamedNode>, Error> {
        self.may_wait_to_look("stream");
        stream::open(self, name)
    }

    fn create_stream(&self, name: &str) -> Result<Arc<dyn Node>, Error> {
        let _turn = self.begin("create_stream")?;
        stream::create(self, name)
    }

    fn rename_stream(&self, from: &str, to: &str, replace: Replace) -> Result<(), Error> {
        let _turn = self.begin("rename_stream")?;
        streams::rename(self, from, to, replace)
    }

    fn remove_stream(&self, name: &str) -> Result<(), Error> {
        let _turn = self.begin("remove_stream")?;
        streams::remove(self, name)
    }
}
