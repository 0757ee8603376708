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
    /// Nobody has granted anything yet: what everyone has ends with the first right that is granted by name.
    is_unsaid: bool,
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
    let Grants { share, account, grants, closed: _, is_unsaid } = grants;
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
    output.print(&Shown { share, account, grants: grants.collect(), is_unsaid }, text)
}

fn text(shown: &Shown) -> String {
    if shown.grants.is_empty() {
        return format!("nobody but the keys of account {} may connect to {}\n", shown.account, shown.share);
    }
    let mut table = Table::new(["WHO", "KIND", "RIGHT"]);
    for grant in &shown.grants {
        table.row([grant.who.clone(), grant.kind.to_owned(), grant.right.to_owned()]);
    }
    let note =
        if shown.is_unsaid { "nothing was granted yet: with the first right by name, everyone has none\n" } else { "" };
    format!("{}{note}", table.text())
}

/// Who may connect by these rights, in words.
pub(super) fn who_may(rights: &Grants) -> String {
    let granted = rights.grants.iter().map(|grant| match grant.who.as_str() {
        "everyone" => format!("everyone of account {} ({})", rights.account, grant.right),
        who => format!("{who} ({})", grant.right),
    });
    let granted: Vec<String> = granted.collect();
    if granted.is_empty() { format!("nobody but the keys of account {}", rights.account) } else { granted.join(", ") }
}
