//! CHANGE_NOTIFY (MS-SMB2 3.3.5.19, MS-FSA 2.1.5.11): waits until something changes in a directory, or below it.

mod listen;

use std::ops::ControlFlow;

use store::{Kind, Reach};
use wire::command::change_notify::{ChangeNotifyFlags, ChangeNotifyRequest, ChangeNotifyResponse};
use wire::command::create::CreateOptions;
use wire::security::access::READ_DATA;
use wire::status::Status;

use crate::command::context::{Context, Outcome, Reply};
use crate::command::proof::SealingNeed;
use crate::state::notify::{self, News, Sight, Told, Watch, WatchWait, Wish};
use crate::state::refusal::Refusal;

pub(crate) async fn handle(context: &Context, request: ChangeNotifyRequest) -> Outcome {
    let (open, file) = context.file()?;
    if request.output_buffer_length > context.connection.negotiation.borrow().payload_bytes_max() {
        return Err(Status::INVALID_PARAMETER.into());
    }
    if file.kind != Kind::Directory {
        return Err(Status::INVALID_PARAMETER.into());
    }
    open.require(READ_DATA)?;
    let watches = &context.server().watches;
    let reach = match request.flags.contains(ChangeNotifyFlags::WATCH_TREE) {
        true => Reach::Tree,
        false => Reach::Directory,
    };
    let (directory, room) = (file.node.identity(), request.output_buffer_length as usize);
    let session = context.session()?;
    let is_judged = notify::is_judged(open, reach);
    let wish = Wish { open: open.id, directory, filter: request.completion_filter, reach, room, is_judged };
    let watch = watches.watch(wish, &session.budgets)?;
    if open.is_closed() {
        watches.close(open.id);
        return Err(Status::FILE_CLOSED.into());
    }
    if file.options & CreateOptions::DELETE_ON_CLOSE.0 != 0 || file.file.is_delete_pending(open.id, "") {
        return Err(Status::DELETE_PENDING.into());
    }
    // Requests of one open are answered in their order: it stands in the queue before it waits for anything, and where it is told something no
    // later one overtakes it until it is answered.
    let mut taken = watch.take(room);
    if let Err(refusal) = listen::listen(context, &watch, file).await {
        if taken.is_ok() {
            watch.lose();
        }
        return Err(refusal);
    }
    loop {
        let (told, answering) = match taken {
            Ok(news) => news,
            Err(wait) => until_told(context, &watch, wait).await?,
        };
        if let Some(seen) = seen(context, &watch, told).await? {
            return reply(seen, room);
        }
        taken = watch.take_more(answering, room);
    }
}

/// Waits until there is something to tell, or the request is cancelled.
async fn until_told(context: &Context, watch: &Watch, mut wait: WatchWait) -> Result<News, Refusal> {
    context.in_flight.announce_wait()?;
    let news = context.in_flight.unless_cancelled(wait.end()).await?;
    // The share may have become one that is sealed: what was asked in plain is not told any more. Nor is anything where the share may no longer be used
    // from there.
    context.tree.iter().try_for_each(|tree| context.check_host(tree)).inspect_err(|_| watch.lose())?;
    let sealing = SealingNeed::required_where(context.tree.as_ref().is_some_and(|tree| tree.requires_sealing()));
    context.proof.check(context.session()?, sealing).inspect_err(|_| watch.lose())?;
    Ok(news)
}

/// Leaves of what a request was told what its user may see; `None` where that is nothing.
async fn seen(context: &Context, watch: &Watch, told: Told) -> Result<Option<Told>, Refusal> {
    let changes = match told {
        Told::Changes(changes) => changes,
        told @ (Told::TooMany | Told::Ended(_)) => return Ok(Some(told)),
    };
    let open = context.open()?;
    if Sight::is_whole(open, &changes) {
        return Ok(Some(Told::Changes(changes)));
    }
    let mut sight = Sight::of(&context.server().watches, open, changes)?;
    // Many may watch, and descriptors be long: it comes behind what others wait for.
    let judged = loop {
        let step = context.on_long_work(move || (sight.go_on(), sight)).await;
        match step.inspect_err(|_| watch.lose())? {
            (ControlFlow::Break(judged), _) => break judged,
            (ControlFlow::Continue(()), rest) => sight = rest,
        }
    };
    Ok(match judged {
        Some(seen) if seen.is_empty() => None,
        Some(seen) => Some(Told::Changes(seen)),
        None => Some(Told::TooMany),
    })
}

fn reply(told: Told, room: usize) -> Outcome {
    let (status, output) = told.encode(room);
    if !status.is_success() {
        return Err(status.into());
    }
    let mut body = Vec::new();
    ChangeNotifyResponse { output: &output }.encode(&mut body);
    Ok(Reply::with_status(status, body))
}
