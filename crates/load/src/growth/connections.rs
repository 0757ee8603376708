//! Against connections.

use std::path::Path;

use ::client::{Error, Session};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::{Bench, Curve, Steps, session};
use crate::compare::Watch;
use crate::compare::servers::Server;
use crate::engine::{Failure, Stop};

/// Sign-ins on their way at once.
const SIGNING_IN: usize = 16;
const DESCRIPTION: &str = "Sessions of one connection each that have signed in and do nothing, beside one that is not counted. Memory is \
                           the server's proportional set size. CPU time each is what signing in costs; CPU time of a read is that \
                           session's, with 16 reads of 4 KiB in flight on a file in memory, while the others lie idle.";

pub(super) async fn curve(program: &Path, steps: &Steps, watch: &dyn Watch, stop: &Stop) -> Result<Curve, Failure> {
    let bench = Bench::start(program, 0, steps, watch, stop).await?;
    let mut curve = Curve::new(DESCRIPTION);
    let mut idle = Vec::new();
    for count in steps.connections.iter().copied() {
        let before = idle.len();
        let step = bench.step("connections", before, count, add(&bench.server, &mut idle, count)).await;
        if !curve.take(step) {
            break;
        }
    }
    Ok(curve)
}

async fn add(server: &Server, idle: &mut Vec<Session>, count: usize) -> Result<(), Error> {
    let more = stream::iter(idle.len()..count).map(|_| session(server));
    idle.extend(more.buffer_unordered(SIGNING_IN).try_collect::<Vec<Session>>().await?);
    Ok(())
}
