//! What a file of a RAM disk has beside its data.

use std::ops::Bound;
use std::sync::Arc;

use crate::ram::heap_bytes;
use crate::ram::inode::{Inode, Spelling, Stream};
use crate::ram::node::{PIECE_NAMES, RamNode};
use crate::{
    ChangeExtended, ChangeSecurity, Error, ExtendedAttribute, Extras, Failed, NamedNode, Node, Replace, StreamEntry,
    TakeStream, copy, fold,
};

impl Extras for Arc<Inode> {
    fn security(&self) -> Result<Option<Vec<u8>>, Error> {
        self.may_wait_to_look("security");
        Ok(self.extras.read().security.clone())
    }

    fn security_within(&self, bytes_max: usize) -> Result<Option<Vec<u8>>, Error> {
        self.may_wait_to_look("security");
        let extras = self.extras.read();
        let is_long = extras.security.as_ref().is_some_and(|stored| stored.len() > bytes_max);
        if is_long { Err(Error::WouldBlock) } else { Ok(extras.security.clone()) }
    }

    fn change_security(&self, change: ChangeSecurity<'_>) -> Result<(), Error> {
        self.may_wait("change_security");
        let mut extras = self.extras.write();
        let Some(descriptor) = change(Ok(extras.security.clone())) else { return Ok(()) };
        extras.charge.grow(heap_bytes(descriptor.len()))?;
        if let Some(old) = extras.security.replace(descriptor) {
            extras.charge.shrink(heap_bytes(old.len()));
        }
        self.changed();
        Ok(())
    }

    fn extended(&self) -> Result<Vec<ExtendedAttribute>, Error> {
        self.may_wait_to_look("extended");
        Ok(self.extras.read().all_extended())
    }

    fn set_extended(&self, name: &str, value: &[u8]) -> Result<(), Error> {
        self.may_wait("set_extended");
        let asked = [(name.to_owned(), value.to_vec())];
        self.extras.write().set_all_extended(&asked, Spelling::AsThere)?;
        self.changed();
        Ok(())
    }

    fn change_extended(&self, change: ChangeExtended<'_>) -> Result<(), Failed> {
        self.may_wait("change_extended");
        let mut extras = self.extras.write();
        let Some(asked) = change(&extras.all_extended()) else { return Ok(()) };
        extras.set_all_extended(&asked, Spelling::AsThere).map_err(Failed::untouched)?;
        self.changed();
        Ok(())
    }

    fn list_streams(&self, take: TakeStream<'_>) -> Result<(), Error> {
        self.may_wait_to_look("list_streams");
        let mut after: Option<Box<str>> = None;
        loop {
            // Others have the lock between two pieces.
            let extras = self.extras.read();
            let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let mut piece = extras.streams.range::<str, _>((from, Bound::Unbounded)).take(PIECE_NAMES);
            let mut last = None;
            for (folded, stream) in piece.by_ref() {
                let data = stream.data.read();
                let entry =
                    StreamEntry { name: stream.name.to_string(), length: data.length(), allocated: data.allocated() };
                if take(entry).is_break() {
                    return Ok(());
                }
                last = Some(folded);
            }
            let Some(last) = last.cloned() else { return Ok(()) };
            drop(extras);
            after = Some(last);
        }
    }

    fn stream(&self, name: &str) -> Result<Option<NamedNode>, Error> {
        self.may_wait_to_look("stream");
        let extras = self.extras.read();
        let found = extras.streams.get(fold(name).as_str());
        Ok(found.map(|stream| (stream.name.to_string(), RamNode::open_stream(self, &stream.data))))
    }

    fn create_stream(&self, name: &str) -> Result<Arc<dyn Node>, Error> {
        self.may_wait("create_stream");
        copy::check_stream_name(name)?;
        let mut extras = self.extras.write();
        let folded = fold(name);
        if extras.streams.contains_key(folded.as_str()) {
            return Err(Error::Exists);
        }
        let stream = Stream::new(extras.charge.ledger(), &folded, name)?;
        let data = Arc::clone(&stream.data);
        extras.streams.insert(folded.into_boxed_str(), stream);
        self.changed();
        Ok(RamNode::open_stream(self, &data))
    }

    fn rename_stream(&self, from: &str, to: &str, replace: Replace) -> Result<(), Error> {
        self.may_wait("rename_stream");
        copy::check_stream_name(to)?;
        let (from, target) = (fold(from), fold(to));
        // Freed once the lock is let go of, which is done first.
        let mut _gone = None;
        let mut extras = self.extras.write();
        let is_taken = from != target && extras.streams.contains_key(target.as_str());
        let stream = extras.streams.get_mut(from.as_str()).ok_or(Error::NotFound)?;
        if is_taken && replace == Replace::No {
            return Err(Error::Exists);
        }
        stream.rename(&from, &target, to)?;
        if let Some(stream) = extras.streams.remove(from.as_str()) {
            _gone = extras.streams.insert(target.into_boxed_str(), stream);
        }
        self.changed();
        Ok(())
    }

    fn remove_stream(&self, name: &str) -> Result<(), Error> {
        self.may_wait("remove_stream");
        // It is freed once the lock is let go of.
        let gone = self.extras.write().streams.remove(fold(name).as_str());
        gone.ok_or(Error::NotFound)?;
        self.changed();
        Ok(())
    }
}
