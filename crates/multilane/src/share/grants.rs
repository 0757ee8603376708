//! `multilane share grant`, `revoke` and `grants`.

use control::{DataFolder, Error, Grants};
use serde::Serialize;

use crate::data;
use crate::output::Output;
use crate::table::Table;

/// The rights on a share as `--json` prints them.
#[derive(Serialize)]
struct Shown {
    share: String,
    account: String,
    grants: Vec<ShownGrant>,
}

#[derive(Serialize)]
struct ShownGrant {
    who: String,
    kind: &'static str,
    right: &'static str,
}

/// Has the server take up what was changed, and tells how it is now.
pub(super) fn changed(folder: &DataFolder, grants: Grants, output: Output) -> Result<(), Error> {
    data::reload(folder)?;
    let closed = grants.closed;
    print(grants, output)?;
    if closed {
        eprintln!("note: everybody of the account might connect until now; from now on only those who are listed may");
    }
    Ok(())
}

/// Tells who may connect to a share.
pub(super) fn print(grants: Grants, output: Output) -> Result<(), Error> {
    let Grants { share, account, grants, closed: _ } = grants;
    let kind = |who: &str, is_group| match (who, is_group) {
        ("everyone", _) => "everyone",
        (_, true) => "group",
        (_, false) => "user",
    };
    let grants = grants.into_iter().map(|grant| ShownGrant {
        kind: kind(&grant.who, grant.is_group),
        who: grant.who,
        right: grant.right.name(),
    });
    output.print(&Shown { share, account, grants: grants.collect() }, text)
}

fn text(shown: &Shown) -> String {
    if shown.grants.is_empty() {
        return format!("nobody but the keys of account {} may connect to {}\n", shown.account, shown.share);
    }
    let mut table = Table::new(["WHO", "KIND", "RIGHT"]);
    for grant in &shown.grants {
        table.row([grant.who.clone(), grant.kind.to_owned(), grant.right.to_owned()]);
    }
    table.text()
}
