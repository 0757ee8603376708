//! Counts requests of the slow path when their answers are decided ([`crate::state::counters`]).

use std::sync::Arc;

use wire::ids::{Command, TreeId};
use wire::status::Status;

use crate::command::connection::Connection;
use crate::command::context::Outcome;
use crate::request::admission::{Request, payload_bytes};
use crate::request::fast_path::BODY_BYTES;
use crate::resource::slice::Slice;
use crate::state::counters::{Answered, Api, ResponseType, Throttle};
use crate::state::in_flight::InFlight;
use crate::state::session::Channel;
use crate::state::tree::Tree;

/// Counts requests on a connection: for a channel of it, and by that for a session, where they were carried out in one. A sign-in is not, nor is a
/// bind, even where there is a channel when it has ended.
pub(super) fn count(connection: &Connection, channel: Option<&Channel>, tree: Option<&Tree>, answered: &Answered) {
    match channel {
        Some(channel) => channel.count(tree, answered),
        None => connection.server.counters.count_outside(connection.shard, answered),
    }
}

/// One request that had a final response with `status`, and may have waited for a limit of its share.
pub(super) fn answered(api: Api, status: Status, throttle: Option<Throttle>) -> Answered {
    let response = ResponseType::of(status, throttle);
    let error = Some(status).filter(|_| !response.is_success());
    Answered { response, error, ..Answered::one(api) }
}

impl Request {
    /// What is counted of it beside its time and its response's length. `frame` has its message.
    pub(super) fn answered(&self, frame: &Slice, outcome: &Outcome, in_flight: &InFlight) -> Answered {
        let status = outcome.as_ref().map_or_else(|refusal| refusal.status, |reply| reply.status);
        let mut answered = answered(Api::of(self.header.command), status, in_flight.throttle());
        match (self.header.command, outcome) {
            (Command::READ, Ok(reply)) => {
                answered.read_bytes = reply.body.len().saturating_sub(BODY_BYTES) as u64;
            }
            (Command::WRITE, Ok(_)) => {
                answered.written_bytes = payload_bytes(Command::WRITE, &frame[self.range.clone()]);
            }
            _ => {}
        }
        answered.received_bytes = self.range.len() as u64;
        answered.waits = in_flight.waited();
        answered
    }

    /// The tree connect that it has made: it counts for that share.
    pub(super) fn connected(&self, outcome: &Outcome) -> Option<Arc<Tree>> {
        self.tree(outcome.as_ref().ok()?.tree)
    }

    /// The tree connect of this id in its session.
    pub(super) fn tree(&self, id: Option<TreeId>) -> Option<Arc<Tree>> {
        self.channel.as_ref()?.session.tree(id?)
    }

    /// Counts it as lost with its connection before it began.
    pub(super) fn count_lost(&self, connection: &Connection) {
        let received_bytes = self.range.len() as u64;
        let api = Api::of(self.header.command);
        let lost = Answered { response: ResponseType::NetworkError, received_bytes, ..Answered::one(api) };
        count(connection, self.channel.as_deref(), None, &lost);
    }
}
