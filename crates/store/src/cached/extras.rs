//! What a file has beside its data, as far as it is known.

use std::sync::Arc;

use super::changing::Part;
use super::entry::{Dated, KEPT_BYTES_MAX, bytes_of};
use super::node::CachedNode;
use crate::{
    ChangeExtended, ChangeSecurity, Error, ExtendedAttribute, Extras, Failed, NamedNode, Node, Replace, TakeStream,
};

impl CachedNode {
    fn security_by(
        &self,
        bytes_max: usize,
        ask: impl FnOnce(&dyn Extras) -> Result<Option<Vec<u8>>, Error>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let extras = self.own().extras();
        let Some(entry) = self.believed() else {
            self.check_may_ask()?;
            return ask(extras);
        };
        if let Some(security) = entry.security(self.shared.belief()) {
            return match security {
                Some(security) if security.len() > bytes_max => Err(Error::WouldBlock),
                security => Ok(security.map(|security| security.to_vec())),
            };
        }
        self.check_may_ask()?;
        self.learn(
            entry,
            || ask(extras),
            |facts, security, at| {
                if security.as_ref().is_none_or(|found| found.len() + facts.extended_bytes() <= KEPT_BYTES_MAX) {
                    facts.security = Some(Dated::new(security.as_deref().map(Arc::from), at));
                }
            },
        )
    }
}

impl Extras for CachedNode {
    fn security(&self) -> Result<Option<Vec<u8>>, Error> {
        self.security_by(usize::MAX, |extras| extras.security())
    }

    fn security_within(&self, bytes_max: usize) -> Result<Option<Vec<u8>>, Error> {
        self.security_by(bytes_max, |extras| extras.security_within(bytes_max))
    }

    fn change_security(&self, change: ChangeSecurity<'_>) -> Result<(), Error> {
        self.changes(Part::Everything, |node| node.extras().change_security(change))
    }

    fn extended(&self) -> Result<Vec<ExtendedAttribute>, Error> {
        let extras = self.own().extras();
        let Some(entry) = self.believed() else {
            self.check_may_ask()?;
            return extras.extended();
        };
        if let Some(extended) = entry.extended(self.shared.belief()) {
            return Ok(extended.to_vec());
        }
        self.check_may_ask()?;
        self.learn(
            entry,
            || extras.extended(),
            |facts, extended, at| {
                if bytes_of(extended) + facts.security_bytes() <= KEPT_BYTES_MAX {
                    facts.extended = Some(Dated::new(Arc::from(extended.as_slice()), at));
                }
            },
        )
    }

    fn set_extended(&self, name: &str, value: &[u8]) -> Result<(), Error> {
        self.changes(Part::Everything, |node| node.extras().set_extended(name, value))
    }

    fn change_extended(&self, change: ChangeExtended<'_>) -> Result<(), Failed> {
        self.changes(Part::Everything, |node| node.extras().change_extended(change))
    }

    fn list_streams(&self, take: TakeStream<'_>) -> Result<(), Error> {
        let extras = self.own().extras();
        let Some(entry) = self.believed() else {
            self.check_may_ask()?;
            return extras.list_streams(take);
        };
        if entry.has_no_streams(self.shared.belief()) {
            return Ok(());
        }
        self.check_may_ask()?;
        let mut is_none = true;
        let list = || {
            extras.list_streams(&mut |stream| {
                is_none = false;
                take(stream)
            })?;
            Ok(is_none)
        };
        self.learn(entry, list, |facts, is_none, at| {
            if *is_none {
                facts.has_no_streams = Some(Dated::new((), at));
            }
        })
        .map(drop)
    }

    fn stream(&self, name: &str) -> Result<Option<NamedNode>, Error> {
        if self.believed().is_some_and(|entry| entry.has_no_streams(self.shared.belief())) {
            return Ok(None);
        }
        self.check_may_ask()?;
        let found = self.own().extras().stream(name)?;
        Ok(found.map(|(name, stream)| (name, self.stream_of(stream))))
    }

    fn create_stream(&self, name: &str) -> Result<Arc<dyn Node>, Error> {
        let made = self.changes(Part::Everything, |node| node.extras().create_stream(name))?;
        Ok(self.stream_of(made))
    }

    fn rename_stream(&self, from: &str, to: &str, replace: Replace) -> Result<(), Error> {
        self.changes(Part::Everything, |node| node.extras().rename_stream(from, to, replace))
    }

    fn remove_stream(&self, name: &str) -> Result<(), Error> {
        self.changes(Part::Everything, |node| node.extras().remove_stream(name))
    }
}
