//! What answers by HTTP beside the SMB server: metrics, the page, and Azure Files' REST interface.

use std::net::SocketAddr;
use std::sync::Arc;

use azure::Rest;
use control::{DataFolder, Error};
use server::admin::Configuration;
use web::{Metrics, Page, PageSource, Push};

use super::ready::of_data;
use super::running::Running;
use super::unable;
use crate::arguments::Serve;
use crate::exposition;
use crate::page;
use crate::recorder;
use crate::rest::{self, Endpoint};
use crate::why;

/// Where it listens, before anybody is answered.
pub(super) struct Listening {
    metrics: Option<Metrics>,
    page: Option<Page>,
    rest: Option<Endpoint>,
}

/// What people and programs are told of that.
pub(super) struct Places {
    pub(super) metrics: Option<SocketAddr>,
    pub(super) page: Option<SocketAddr>,
    pub(super) rest: Option<rest::Told>,
}

impl Listening {
    /// Listens where that is wanted. `published` is an account whose key everybody knows, if there is one.
    pub(super) fn begin(arguments: &Serve, folder: &DataFolder, published: Option<&str>) -> Result<Self, Error> {
        Ok(Listening {
            metrics: exposition::listen(arguments.metrics)?,
            page: page::listen(arguments.page)?,
            rest: rest::listen(arguments, folder, published)?,
        })
    }

    /// Where it is; of an account whose key everybody knows, with the connection string.
    pub(super) fn places(&self, published: Option<&str>) -> Places {
        Places {
            metrics: self.metrics.as_ref().map(Metrics::address),
            page: self.page.as_ref().map(page::address),
            rest: self.rest.as_ref().map(|endpoint| endpoint.told(published)),
        }
    }
}

/// What answers, and what sends metrics.
pub(super) struct Http {
    metrics: Option<Metrics>,
    push: Option<Push>,
    page: Option<Page>,
    rest: Option<Rest>,
}

impl Http {
    /// Answers from now on.
    pub(super) fn serve(
        Listening { metrics, page, rest }: Listening,
        running: &Running<'_>,
        configuration: &Configuration,
    ) -> Result<Self, Error> {
        let Running { arguments, log, .. } = running;
        if let Some(metrics) = &metrics {
            exposition::serve(metrics, running.admin(), running.shares(), running.since, log);
        }
        let collector = arguments.otlp.as_ref().map(|collector| (collector, arguments.otlp_every));
        let instance = (running.since, configuration.settings.server_guid);
        let push = collector
            .map(|to| exposition::push(to, running.admin(), running.shares(), instance, log))
            .transpose()
            .map_err(|cause| unable("start a thread to send metrics", &cause))?;
        if let Some(page) = &page {
            page::serve(page, page_source(running))?;
        }
        let operations = running.operations();
        // Everybody knows its secret, whatever keys the account has.
        if arguments.dev && rest.as_ref().is_some_and(Endpoint::is_for_machine) {
            running.catalog.add_development_principal();
        }
        let kept = (recorder::path(running.folder), rest::unfinished(running.folder));
        let (catalog, tally) = (running.catalog.clone(), Arc::clone(&running.rest));
        let rest = rest::start(rest, running.server(), catalog, operations, kept, tally, &arguments.rest_group)?;
        Ok(Http { metrics, push, page, rest })
    }

    /// Ends what operators and REST's clients ask. Metrics say that the server ends as long as they are kept, and what sends them does so once more
    /// when it is dropped.
    pub(super) fn end(self) -> (Option<Metrics>, Option<Push>) {
        let Http { metrics, push, page, rest } = self;
        metrics.iter().for_each(Metrics::end);
        drop((page, rest));
        (metrics, push)
    }
}

fn page_source(running: &Running<'_>) -> PageSource {
    let recent = running.log.recent();
    PageSource {
        admin: running.admin(),
        shares: running.gauges.clone(),
        catalog: running.catalog.clone(),
        operations: running.operations(),
        explain: running.observer.explains(),
        log_filter: running.log.levels(),
        events: Box::new(move || recent.newest_first()),
        path: Box::new(why::path),
        archive: recorder::path(running.folder),
        audit_log: page::audit_place(running.folder, running.arguments.audit_log.as_deref()),
        version: env!("CARGO_PKG_VERSION"),
        since: page::since(running.since),
        of_data: of_data(running.folder.path()),
    }
}
