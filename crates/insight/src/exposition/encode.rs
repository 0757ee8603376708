//! What was observed as samples of metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry;
use server::admin::{Api, Counts, LatencyKind, ResponseType, Scope, StoreWait, Sum, Wait, status_name};

use crate::exposition::families::{self as family, Family, Kind, Unit};
use crate::exposition::histogram::{Histogram, seconds};
use crate::exposition::observed::{Observed, ObservedLimits, ObservedShare, ObservedSpace};
use crate::exposition::shares::{Row, is_inside};

/// Whose fault it is not that a request failed: these are told from the start, so that the first one is an increase.
const OF_SERVER: [ResponseType; 3] =
    [ResponseType::ServerBusyError, ResponseType::ServerTimeoutError, ResponseType::ServerOtherError];
/// Errors whose status has no name, or no place any more.
const OTHER_STATUS: &str = "other";

/// A server, and its shares by name.
#[derive(Debug)]
pub(super) struct Samples {
    pub(super) server: Arc<Observed>,
    pub(super) shares: BTreeMap<String, Row>,
}

type Encoded = Result<(), fmt::Error>;

impl Collector for Samples {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Encoded {
        let mut out = Out(encoder);
        self.encode_server(&mut out)?;
        self.encode_events(&mut out)?;
        self.encode_requests(&mut out)?;
        self.encode_bytes(&mut out)?;
        self.encode_shares(&mut out)
    }
}

impl Samples {
    fn encode_server(&self, out: &mut Out<'_>) -> Encoded {
        let Observed { version, since, sessions, opens, memory, log, audit, .. } = &*self.server;
        out.family(&family::BUILD)?.encode_info(&[("version", *version)])?;
        out.one(&family::START_TIME, since.as_secs_f64())?;
        out.one(&family::SESSIONS, number(*sessions as u64))?;
        out.one(&family::OPEN_FILES, number(*opens as u64))?;
        let connections = self.server.connections.iter().enumerate();
        out.all(
            &family::CONNECTIONS,
            connections.map(|(shard, count)| ([("shard", shard.to_string())], number(*count as u64))),
        )?;
        out.one(&family::SILENT_SHARDS, number(self.server.silent_shards as u64))?;
        out.one(&family::MEMORY_USED, number(memory.used_bytes))?;
        out.one(&family::MEMORY_ALLOWED, number(memory.allowed_bytes))?;
        match self.server.data_available {
            Some(bytes) => out.one(&family::DATA_AVAILABLE, number(bytes))?,
            None => _ = out.family(&family::DATA_AVAILABLE)?,
        }
        out.one(&family::CATALOG_DAMAGED, number(self.server.catalog_is_damaged.into()))?;
        out.one(&family::LOCKED_USERS, number(self.server.locked_users as u64))?;
        out.one(&family::LOG_LINES_LEFT_OUT, number(log.left_out))?;
        out.one(&family::LOG_LINES_LOST, number(log.lost))?;
        out.one(&family::AUDIT_WRITTEN, number(audit.written))?;
        let lost = [("done", audit.lost.saturating_sub(audit.lost_refused)), ("refused", audit.lost_refused)];
        out.all(&family::AUDIT_LOST, lost.into_iter().map(|(kind, count)| ([("kind", kind)], number(count))))
    }

    fn encode_events(&self, out: &mut Out<'_>) -> Encoded {
        let events = &self.server.counters.events;
        out.one(&family::SIGN_INS, number(events.sign_ins))?;
        out.one(&family::SIGN_INS_REFUSED, number(events.sign_ins_refused))?;
        out.one(&family::BREAKS, number(events.breaks))?;
        out.one(&family::CHANNELS_BOUND, number(events.channels_bound))?;
        out.one(&family::CHANNELS_LOST, number(events.channels_lost))?;
        let errors = errors(&self.server);
        out.all(&family::ERRORS, errors.into_iter().map(|(status, count)| ([("status", status)], number(count))))
    }

    fn encode_requests(&self, out: &mut Out<'_>) -> Encoded {
        let requests = self.shares.iter().flat_map(|(share, row)| {
            let pairs = Api::ALL.iter().flat_map(|api| ResponseType::ALL.iter().map(move |response| (*api, *response)));
            let of_clients =
                |api, response| row.counts.requests(api, response).saturating_sub(row.inside.requests(api, response));
            let counted = pairs.map(move |(api, response)| (api, response, of_clients(api, response)));
            counted.filter(|(.., count)| *count > 0).map(|(api, response, count)| {
                ([("share", share.as_str()), ("api", api.name()), ("response", response.name())], number(count))
            })
        });
        out.all(&family::REQUESTS, requests)?;
        let by_rest = self.shares.iter().flat_map(|(share, row)| {
            row.rest.iter().map(|((api, response), count)| {
                ([("share", share.as_str()), ("api", *api), ("response", response.name())], number(*count))
            })
        });
        out.all(&family::REST_REQUESTS, by_rest)?;
        let failed = self.shares.iter().flat_map(|(share, row)| {
            OF_SERVER.iter().map(|response| {
                let count = row.counts.requests_with(*response);
                ([("share", share.as_str()), ("response", response.name())], number(count))
            })
        });
        out.all(&family::SERVER_ERRORS, failed)?;
        let mut durations = out.family(&family::DURATION)?;
        for (share, row) in &self.shares {
            for kind in LatencyKind::ALL {
                let Some(Histogram { seconds, count, buckets }) = Histogram::of(&row.counts, *kind) else { continue };
                let labels = [("share", share.as_str()), ("kind", kind_name(*kind))];
                let mut of_kind = durations.encode_family(&labels)?;
                of_kind.encode_histogram::<NoLabelSet>(seconds, count, &buckets, None)?;
            }
        }
        let waited = self.shares.iter().flat_map(|(share, row)| {
            Wait::ALL.iter().map(|wait| {
                let nanos = row.counts.total(Sum::from(*wait));
                ([("share", share.as_str()), ("reason", reason(*wait))], seconds(nanos))
            })
        });
        out.all(&family::WAITED, waited)
    }

    fn encode_bytes(&self, out: &mut Out<'_>) -> Encoded {
        let families = [
            (&family::READ, Sum::ReadBytes),
            (&family::WRITTEN, Sum::WrittenBytes),
            (&family::RECEIVED, Sum::ReceivedBytes),
            (&family::SENT, Sum::SentBytes),
        ];
        for (family, of) in families {
            let bytes =
                self.shares.iter().map(|(share, row)| ([("share", share.as_str())], number(row.counts.total(of))));
            out.all(family, bytes)?;
        }
        Ok(())
    }

    fn encode_shares(&self, out: &mut Out<'_>) -> Encoded {
        let throttled = self.known().flat_map(|(name, share)| {
            let used = &share.used;
            let limits = [
                ("iops", used.delayed_by_requests),
                ("read", used.delayed_reads),
                ("write", used.delayed_writes),
                ("metadata", used.delayed_by_metadata),
            ];
            limits.map(|(limit, count)| ([("share", name), ("limit", limit)], number(count)))
        });
        out.all(&family::THROTTLED, throttled)?;
        self.of_known(out, &family::SERVED, |share| Some(share.is_served.into()))?;
        self.of_known(out, &family::FAULTY, |share| Some(share.is_faulty.into()))?;
        let waits = |share: &ObservedShare| share.waits.unwrap_or(StoreWait { count: 0, longest: Duration::ZERO });
        self.of_known(out, &family::STORE_WAITING, |share| Some(waits(share).count as u64))?;
        let longest = self.known().map(|(name, share)| ([("share", name)], waits(share).longest.as_secs_f64()));
        out.all(&family::STORE_WAIT, longest)?;
        self.of_limits(out, &family::LIMIT_IOPS, |limits| limits.iops)?;
        self.of_limits(out, &family::BURST_IOPS, |limits| limits.burst_iops)?;
        self.of_limits(out, &family::LIMIT_BYTES, |limits| limits.bytes)?;
        self.of_limits(out, &family::USER_LIMIT_IOPS, |limits| limits.user_iops)?;
        self.of_limits(out, &family::USER_LIMIT_BYTES, |limits| limits.user_bytes)?;
        // Who has no bursts has no credits for them.
        self.of_known(out, &family::BURST_CREDITS, |share| share.limits.burst_credits_max.map(|_| share.used.credits))?;
        self.of_limits(out, &family::BURST_CREDITS_MAX, |limits| limits.burst_credits_max)?;
        self.of_limits(out, &family::PROVISIONED, |limits| limits.provisioned_bytes)?;
        self.of_space(out, &family::CAPACITY, |space| space.total)?;
        self.of_known(out, &family::USED, |share| share.used_bytes)?;
        self.of_space(out, &family::AVAILABLE, |space| space.free)
    }

    fn of_limits(
        &self,
        out: &mut Out<'_>,
        family: &'static Family,
        of: impl Fn(&ObservedLimits) -> Option<u64>,
    ) -> Encoded {
        self.of_known(out, family, |share| of(&share.limits))
    }

    fn of_space(&self, out: &mut Out<'_>, family: &'static Family, of: impl Fn(&ObservedSpace) -> u64) -> Encoded {
        self.of_known(out, family, |share| share.space.as_ref().map(&of))
    }

    fn of_known(
        &self,
        out: &mut Out<'_>,
        family: &'static Family,
        of: impl Fn(&ObservedShare) -> Option<u64>,
    ) -> Encoded {
        let values = self.known().filter_map(|(name, share)| Some(([("share", name)], number(of(share)?))));
        out.all(family, values)
    }

    /// The shares that the configuration has.
    fn known(&self) -> impl Iterator<Item = (&str, &ObservedShare)> {
        self.shares.iter().filter_map(|(name, row)| Some((name.as_str(), row.share.as_ref()?)))
    }
}

/// Errors by the name of their status.
fn errors(server: &Observed) -> BTreeMap<String, u64> {
    let of = |is_it: &dyn Fn(&Scope) -> bool| {
        let mut counts = Counts::default();
        server.counters.rows.iter().filter(|row| is_it(&row.scope)).for_each(|row| counts.add(&row.counts));
        counts
    };
    let mut errors = BTreeMap::new();
    // What REST looks for and does not find is no error of anybody's.
    for (status, count) in of(&|scope| *scope == Scope::Server).since(&of(&is_inside)).errors() {
        let name = status_name(*status).unwrap_or_else(|| OTHER_STATUS.to_owned());
        *errors.entry(name).or_default() += count;
    }
    errors
}

fn kind_name(kind: LatencyKind) -> &'static str {
    match kind {
        LatencyKind::Read => "read",
        LatencyKind::Write => "write",
        LatencyKind::Metadata => "metadata",
        LatencyKind::Other => "other",
    }
}

fn reason(wait: Wait) -> &'static str {
    match wait {
        Wait::Budget => "budget",
        Wait::Store => "store",
        Wait::OtherClient => "other_client",
    }
}

/// Where samples go.
struct Out<'a>(DescriptorEncoder<'a>);

/// A whole number or seconds.
enum Value {
    Whole(u64),
    Seconds(f64),
}

fn number(value: u64) -> Value {
    Value::Whole(value)
}

impl From<f64> for Value {
    fn from(seconds: f64) -> Self {
        Value::Seconds(seconds)
    }
}

impl Out<'_> {
    /// Begins a metric.
    fn family(&mut self, family: &'static Family) -> Result<MetricEncoder<'_>, fmt::Error> {
        let kind = match family.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
            Kind::Info => MetricType::Info,
        };
        let unit = family.unit.map(|unit| match unit {
            Unit::Seconds => &registry::Unit::Seconds,
            Unit::Bytes => &registry::Unit::Bytes,
        });
        self.0.encode_descriptor(family.stem, family.help, unit, kind)
    }

    /// A metric that has one value.
    fn one(&mut self, family: &'static Family, value: impl Into<Value>) -> Encoded {
        encode(&mut self.family(family)?, family.kind, value.into())
    }

    /// A metric that has a value for each of some labels.
    fn all<L: EncodeLabelSet, V: Into<Value>>(
        &mut self,
        family: &'static Family,
        values: impl Iterator<Item = (L, V)>,
    ) -> Encoded {
        let mut metric = self.family(family)?;
        for (labels, value) in values {
            encode(&mut metric.encode_family(&labels)?, family.kind, value.into())?;
        }
        Ok(())
    }
}

fn encode(metric: &mut MetricEncoder<'_>, kind: Kind, value: Value) -> Encoded {
    match (kind, value) {
        (Kind::Counter, Value::Whole(value)) => metric.encode_counter::<NoLabelSet, u64, u64>(&value, None),
        (Kind::Counter, Value::Seconds(value)) => metric.encode_counter::<NoLabelSet, f64, u64>(&value, None),
        (_, Value::Whole(value)) => metric.encode_gauge(&(value.min(i64::MAX as u64) as i64)),
        (_, Value::Seconds(value)) => metric.encode_gauge(&value),
    }
}
