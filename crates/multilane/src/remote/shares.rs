//! `ls` of a server: its shares.

use ::client::{ListedShare, ShareKind};
use control::Error;
use serde::Serialize;

use super::arguments::List;
use super::place::Server;
use super::{failed, runtime, sign_in_to};
use crate::output::Output;
use crate::table::{Table, printable};

/// A share as `--json` prints it.
#[derive(Serialize)]
struct Shown {
    name: String,
    kind: &'static str,
    comment: String,
}

pub(super) fn list(server: &Server, arguments: &List, output: Output) -> Result<(), Error> {
    let mut shares: Vec<Shown> = runtime()?.block_on(async {
        let session = sign_in_to(server.user.as_deref(), (&server.host, server.port), &arguments.login).await?;
        let listed = session.shares().await.map_err(failed);
        let _ = session.close().await;
        listed.map(|shares| shares.into_iter().map(shown).collect())
    })?;
    shares.sort_by_cached_key(|share| share.name.to_lowercase());
    output.print(&shares, |shares| if arguments.long { long(shares) } else { short(shares) })
}

fn shown(share: ListedShare) -> Shown {
    let kind = match share.kind {
        ShareKind::DISK_TREE | ShareKind::DISK_TREE_SPECIAL => "files",
        ShareKind::IPC | ShareKind::IPC_SPECIAL => "pipes",
        ShareKind::PRINT_QUEUE => "printer",
        _ => "other",
    };
    Shown { name: share.name, kind, comment: share.comment }
}

/// Those that have files; the others can be seen in a long list.
fn short(shares: &[Shown]) -> String {
    let with_files = shares.iter().filter(|share| share.kind == "files");
    with_files.map(|share| format!("{}\n", printable(&share.name))).collect()
}

fn long(shares: &[Shown]) -> String {
    let mut table = Table::new(["KIND", "NAME", "COMMENT"]);
    for share in shares {
        table.row([share.kind.to_owned(), share.name.clone(), share.comment.clone()]);
    }
    table.text()
}
