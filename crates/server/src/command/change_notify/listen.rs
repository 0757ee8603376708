//! Has a share's store tell of what other programs change in a watched directory.

use std::ops::ControlFlow;
use std::sync::Arc;

use store::{Guard, Reach};
use wire::status::Status;

use crate::command::context::Context;
use crate::state::notify::{Asking, Ear, Listen, Watch, Where};
use crate::state::open::FileOpen;
use crate::state::refusal::Refusal;

/// Has the store tell of what other programs do, from the first request of a watch on.
pub(super) async fn listen(context: &Context, watch: &Watch, file: &FileOpen) -> Result<(), Refusal> {
    let is_first = watch.asks_first();
    for place in [Where::Here, Where::Below].into_iter().filter(|place| watch.reaches(*place)) {
        loop {
            match watch.ask_store(place, is_first) {
                Listen::Nothing => break,
                Listen::Ask(asking) => break ask(context, asking, file).await?,
                // It ends with an error when what sends is gone. Then it is looked at anew: who asked may have been refused.
                Listen::Wait(mut done) => drop(done.changed().await),
            }
        }
    }
    Ok(())
}

async fn ask(context: &Context, asking: Asking, file: &FileOpen) -> Result<(), Refusal> {
    let kept = context.session()?.budgets.lasting.charge(0).ok_or(Status::INSUFFICIENT_RESOURCES)?;
    let listener = context.server().watches.listener(&asking, kept);
    let reach = match asking.place {
        Where::Here => Reach::Directory,
        Where::Below => Reach::Tree,
    };
    let (store, path) = (Arc::clone(context.store()?), file.path.now());
    let of = file.node.identity();
    let begin = move || {
        let mut guard = store.watch(&path, of, reach, listener)?;
        let has_more = guard.as_mut().is_some_and(Guard::go_on);
        Ok::<_, store::Error>((guard, has_more))
    };
    match context.work_by_name(begin).await? {
        Ok((guard, true)) => go_through(context, asking, guard).await?,
        Ok((guard, false)) => asking.answer(Ear::Listens(guard)),
        Err(error) => {
            // The server's own changes are told all the same. The next watch asks again.
            tracing::warn!(name: "changes_not_watched", %error, "what other programs change in a watched directory is not told");
            asking.answer(Ear::Deaf);
        }
    }
    Ok(())
}

/// Has the store listen to all of a tree, a slice at a time. Where nobody waits for that any more, whoever watches next has it begun anew.
async fn go_through(context: &Context, asking: Asking, mut guard: Option<Guard>) -> Result<(), Refusal> {
    let watched = Arc::clone(&asking.directory);
    let step = move || {
        if !watched.is_watched() {
            return ControlFlow::Break(None);
        }
        let has_more = guard.as_mut().is_some_and(Guard::go_on);
        if has_more { ControlFlow::Continue(()) } else { ControlFlow::Break(guard.take()) }
    };
    if let Some(all) = context.work_in_steps(u64::MAX, step).await? {
        asking.answer(Ear::Listens(Some(all)));
    }
    Ok(())
}
