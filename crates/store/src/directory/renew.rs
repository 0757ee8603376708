//! Makes a file as good as new (MS-FSA 2.1.5.1.2): it is empty, and nothing of what was kept with it is left. What may fail comes first, and what was
//! done is undone where it does; the cut, which cannot be undone, comes last. Behind it the side files go, which nothing leads to any more by then.

use rustix::fd::BorrowedFd;

use crate::directory::extended::{self, Rest};
use crate::directory::file::OpenFile;
use crate::directory::streams::Going;
use crate::directory::subject::Subject;
use crate::directory::undo::Undo;
use crate::directory::{metadata, space};
use crate::{AttributeChange, Error, Failed, Kind, Left, Renewal};

pub(super) fn renew(file: &OpenFile, new: &Renewal<'_>) -> Result<(), Failed> {
    if file.kind != Kind::File {
        return Err(Failed::untouched(Error::Invalid));
    }
    let fd = file.writable().map_err(Failed::untouched)?;
    let (undo, rest) = if new.extended.is_empty() { Default::default() } else { give(file, new)? };
    // What is reserved cannot be given back while others may write there: so it comes behind what can be undone.
    if new.reserved > 0
        && let Err(error) = space::reserve(file, fd, new.reserved)
    {
        return Err(put_back(file, undo, error));
    }
    empty(file, fd, new, (undo, rest))?;
    if new.reserved > 0
        && let Err(error) = space::reserve(file, fd, new.reserved)
    {
        // It was there a moment ago: who took it meanwhile leaves this file empty, as was asked for, and without it.
        tracing::debug!(%error, "the space that a file had reserved was not there any more once it was empty");
    }
    Ok(())
}

/// Gives a file what takes room of the extended attributes that are asked for, and then the other attributes, which are kept beside them. That may
/// not fit, and needs not wait for the data to go. What is left makes room, and comes once nothing more takes some.
fn give(file: &OpenFile, new: &Renewal<'_>) -> Result<(Undo, Rest), Failed> {
    let _turn = file.begin("renew").map_err(Failed::untouched)?;
    let _held = file.volume.lock_file(file.identity);
    let subject = file.subject();
    let (mut undo, rest) = extended::begin_to_replace(&subject, new.extended)?;
    match metadata::change_attributes(file, &subject, new.attributes, &mut undo) {
        Ok(()) => Ok((undo, rest)),
        Err(error) => Err(Failed { error: metadata::lacks_room(error), left: undo.put_back(&subject) }),
    }
}

fn put_back(file: &OpenFile, undo: Undo, error: Error) -> Failed {
    let _held = file.volume.lock_file(file.identity);
    Failed { error, left: undo.put_back(&file.subject()) }
}

/// Takes away the streams, the extended attributes that are not asked for, other attributes where no other ones were given, and the data.
fn empty(file: &OpenFile, fd: BorrowedFd<'_>, new: &Renewal<'_>, (mut undo, rest): (Undo, Rest)) -> Result<(), Failed> {
    let cut = match space::Cut::begin(file, fd, 0) {
        Ok(cut) => cut,
        Err(error) => return Err(put_back(file, undo, error)),
    };
    let _held = file.volume.lock_file(file.identity);
    let subject = file.subject();
    let going = match Going::all(&subject) {
        Ok(going) => going,
        Err(error) => return Err(Failed { error, left: undo.put_back(&subject) }),
    };
    let bare = new.extended.is_empty().then_some(new.attributes);
    let emptied = rest.make(&subject, &mut undo).and_then(|()| take_away(file, &subject, (&going, bare), &mut undo));
    let emptied = emptied.and_then(|()| cut.make());
    match emptied {
        Ok(()) => {
            going.remove();
            Ok(())
        }
        Err(error) => {
            let left = undo.put_back(&subject);
            if left == Left::Changed {
                going.leave();
            }
            Err(Failed { error, left })
        }
    }
}

/// Of a file that is to be `bare` extended attributes go, too, and others change. These come first: they may take room, and where there is none
/// nothing has to be put back that needs some. Only where the file itself has no more room for them does what goes make some.
fn take_away(
    file: &OpenFile,
    subject: &Subject<'_>,
    (going, bare): (&Going<'_>, Option<AttributeChange>),
    undo: &mut Undo,
) -> Result<(), Error> {
    let Some(attributes) = bare else { return going.erase(subject, undo) };
    let changed = metadata::change_attributes(file, subject, attributes, undo);
    match changed {
        Ok(()) | Err(Error::TooLarge) => {}
        Err(error) => return Err(error),
    }
    going.erase(subject, undo)?;
    extended::remove_all(subject, undo)?;
    match changed {
        Ok(()) => Ok(()),
        Err(_) => metadata::change_attributes(file, subject, attributes, undo).map_err(metadata::lacks_room),
    }
}
