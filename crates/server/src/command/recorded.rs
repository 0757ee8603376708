//! What a request changes of persistent opens is recorded before it is answered (MS-SMB2 3.3.5.9.10).

use std::sync::Arc;

use store::{SharePath, Store};

use crate::command::context::Context;
use crate::state::durable::{RecordedName, give_back, meaning};
use crate::state::lock_wait::UnderWay;
use crate::state::locks::{LockRefusal, RangeLock};
use crate::state::open::{FileOpen, Open};
use crate::state::refusal::Refusal;

/// Persists a change of a persistent open before its client is told of it.
pub(crate) async fn note_change(context: &Context, open: &Arc<Open>) -> Result<(), Refusal> {
    if !open.file()?.durability.keeping().is_persistent() {
        return Ok(());
    }
    let (durables, changed) = (Arc::clone(&context.server().durables), Arc::clone(open));
    let written = context.on_own_folder(move || durables.write_record(&changed)).await?;
    Ok(written.map_err(|error| meaning(&error))?)
}

/// Persists what the open has `locked` and that the request of `sequence` is done, which it is then. Where that fails the locks are released.
pub(crate) async fn note_locks(
    context: &Context,
    open: &Arc<Open>,
    locked: Vec<RangeLock>,
    under_way: Option<UnderWay>,
) -> Result<(), Refusal> {
    let file = open.file()?;
    let sequence = under_way.as_ref().map(|under_way| under_way.sequence);
    if !file.durability.keeping().is_persistent() {
        sequence.into_iter().for_each(|sequence| file.lock_sequences.done(sequence));
        return Ok(());
    }
    let (durables, locking) = (Arc::clone(&context.server().durables), Arc::clone(open));
    let change = open.begin_change(0..0).inspect_err(|_| give_back(file, &locked))?;
    let locked: Arc<[RangeLock]> = locked.into();
    let taken = Arc::clone(&locked);
    let record = move || {
        let (_change, _under_way) = (change, under_way);
        durables.record_locks(&locking, &locked, sequence)
    };
    // Where the pool does not take it nothing is recorded.
    let recorded = context.on_own_folder(record).await.inspect_err(|_| give_back(file, &taken))?;
    Ok(recorded.map_err(|error| meaning(&error))?)
}

/// Releases what a persistent open has locked once that is persisted, and nothing where it cannot be.
pub(crate) async fn release(
    context: &Context,
    open: &Arc<Open>,
    ranges: Vec<(u64, u64)>,
    under_way: Option<UnderWay>,
) -> Result<Result<(), LockRefusal>, Refusal> {
    let sequence = under_way.as_ref().map(|under_way| under_way.sequence);
    let (durables, releasing) = (Arc::clone(&context.server().durables), Arc::clone(open));
    let change = open.begin_change(0..0)?;
    let release = move || {
        let (_change, _under_way) = (change, under_way);
        durables.release(&releasing, &ranges, sequence)
    };
    Ok(context.on_own_folder(release).await?.map_err(|error| meaning(&error))?)
}

/// What is to go of the file of the request's open has changed: the records of all its persistent opens say so, as each may be the last one. Where one
/// of them cannot, `undo` is done, and no record says that anything goes that did not before.
pub(crate) async fn note_deletion(context: &Context, undo: impl FnOnce() + Send + 'static) -> Result<(), Refusal> {
    let (_, file) = context.file()?;
    if !file.file.is_recorded() {
        return Ok(());
    }
    let (durables, entry) = (Arc::clone(&context.server().durables), Arc::clone(&file.file));
    let record = move || {
        durables.record_deletion(&entry).map_err(|halfway| {
            undo();
            durables.unrecord_deletion(&halfway.recorded);
            halfway.error
        })
    };
    Ok(context.on_own_folder(record).await??)
}

/// Persists that these opens cache no writes any more, before others get at what they cached.
pub(crate) async fn note_caching(context: &Context, opens: &[Arc<Open>]) -> Result<(), Refusal> {
    let (durables, opens) = (Arc::clone(&context.server().durables), opens.to_vec());
    let record = move || opens.iter().try_for_each(|open| durables.record_caching(open));
    Ok(context.on_own_folder(record).await?.map_err(|error| meaning(&error))?)
}

/// A lease caches writes now that another open of it has been made: the other records of it say so, too. Where one cannot, its open has less after a
/// kill than it had.
pub(crate) async fn note_growth(context: &Context, file: &FileOpen) {
    for recorded in file.file.recorded_before_growth(file.actor) {
        let _ = Box::pin(note_change(context, &recorded)).await;
    }
}

/// Opens whose file gets another name, and that name, as each one's share has it. Dropped before its time it leaves them both.
pub(crate) struct Renaming(Vec<(Arc<Open>, RecordedName)>);

/// The file of the request's open is about to get the name `asked`: the records of all its persistent opens have that, too, so that they are found
/// whatever the server is killed between. Fails where one of them cannot.
pub(crate) async fn before_rename(context: &Context, asked: &str) -> Result<Renaming, Refusal> {
    let (_, file) = context.file()?;
    let opens = file.file.recorded();
    if opens.is_empty() {
        return Ok(Renaming(Vec::new()));
    }
    let renaming = match asked.strip_prefix(':') {
        Some(stream) => {
            let own = file.stream_name();
            let of_stream = opens.into_iter().filter(|open| open.file().is_ok_and(|file| file.stream_name() == own));
            let name = RecordedName {
                path: file.path.now().as_str().to_owned(),
                stream: stream.split(':').next().unwrap_or_default().to_owned(),
            };
            Renaming(of_stream.map(|open| (open, name.clone())).collect())
        }
        None => match SharePath::parse(asked) {
            Ok(path) => {
                let store = Arc::clone(context.store()?);
                let followed = path.clone();
                context.work_along(&path, move || Renaming::of_file(&store, &followed, opens)).await?
            }
            // The rename says what is wrong with it.
            Err(_) => Renaming(Vec::new()),
        },
    };
    for (position, (open, name)) in renaming.0.iter().enumerate() {
        open.file()?.durability.add_name(name.clone());
        if let Err(refusal) = note_change(context, open).await {
            // A record with a name too many is true, too.
            for (open, name) in &renaming.0[..=position] {
                open.file()?.durability.remove_name(name);
            }
            return Err(refusal);
        }
    }
    Ok(renaming)
}

/// The rename was done, or was not: the records have the name that the file has now. One that could not be written has both.
pub(crate) async fn after_rename(context: &Context, renaming: Renaming) {
    for (open, name) in renaming.0 {
        if let Ok(file) = open.file() {
            file.durability.remove_name(&name);
        }
        let _ = note_change(context, &open).await;
    }
}

impl Renaming {
    /// May wait for stores, where the file is open in several shares.
    fn of_file(store: &Arc<dyn Store>, path: &SharePath, opens: Vec<Arc<Open>>) -> Self {
        let name_of = |open: &Arc<Open>| {
            let own = open.tree.store()?;
            let path = match Arc::ptr_eq(own, store) {
                true => path.clone(),
                false => own.path_at(&store.place_of(path)?)?,
            };
            Some(RecordedName { path: path.as_str().to_owned(), stream: String::new() })
        };
        Renaming(opens.into_iter().filter_map(|open| name_of(&open).map(|name| (open, name))).collect())
    }
}
