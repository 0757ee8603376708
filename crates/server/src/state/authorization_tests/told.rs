//! The model's cases as lines of JSON, for `conformance/access.py`, which plays them over the network.

use std::io::Write;

use super::model::{Asks, Case, Difference, EVERY, Outcome, Rules, Stored, Who};

/// The principals as the lines name them, in the order of [`EVERY`].
const NAMES: [&str; 12] = [
    "tester",
    "other",
    "domain users",
    "everyone",
    "authenticated users",
    "network",
    "users",
    "administrators",
    "system",
    "creator owner",
    "owner rights",
    "self",
];

fn name_of(who: Who) -> &'static str {
    NAMES[EVERY.iter().position(|other| *other == who).unwrap()]
}

fn descriptor(stored: &Stored) -> String {
    let Stored::Whole(descriptor) = stored else { unreachable!("it can be set") };
    let list = descriptor.list.as_ref().map_or("null".to_owned(), |entries| {
        let entries = entries
            .iter()
            .map(|entry| format!(r#"[{},{},{},"{}"]"#, entry.kind, entry.flags, entry.mask, name_of(entry.who)));
        format!("[{}]", entries.collect::<Vec<_>>().join(","))
    });
    format!(r#"{{"owner":"{}","list":{list}}}"#, name_of(descriptor.owner.unwrap()))
}

fn outcome(outcome: &Outcome) -> String {
    let granted = outcome.granted.map_or("null".to_owned(), |granted| granted.to_string());
    format!(r#"{{"status":{},"granted":{granted},"changed":{}}}"#, outcome.status.0, outcome.changed)
}

/// What the documents say, what they say but for all known differences, and but for all others than each of these, where that matters.
fn verdicts(case: &Case) -> String {
    let all = case.judged_by(Rules(&Difference::EVERY));
    let mut told = format!(r#"{{"documents":{},"samba":{}"#, outcome(&case.expected()), outcome(&all));
    for difference in Difference::EVERY {
        let others: Vec<Difference> = Difference::EVERY.into_iter().filter(|other| *other != difference).collect();
        let without = case.judged_by(Rules(&others));
        if without != all {
            told += &format!(r#","{difference:?}":{}"#, outcome(&without));
        }
    }
    told + "}"
}

fn line(seed: u64) -> String {
    let case = Case::that_can_be_set(seed);
    let asks = match case.asks {
        Asks::Tester => "tester",
        Asks::Other => "other",
        Asks::Keeper => "keeper",
    };
    let taken = case.taken.as_ref().map_or("null".to_owned(), descriptor);
    format!(
        r#"{{"seed":{seed},"way":"{:?}","asks":"{asks}","desired":{},"directory":{},"folder":{},"own":{},"target":{},"taken":{taken},"new_owner":"{}","verdicts":{}}}"#,
        case.way,
        case.desired,
        case.is_directory,
        descriptor(&case.folder),
        descriptor(&case.own),
        descriptor(&case.target),
        name_of(case.new_owner),
        verdicts(&case),
    )
}

/// `MULTILANE_RIGHTS_CASES=0..1000 MULTILANE_RIGHTS_FILE=cases.json` writes those cases there.
#[test]
#[ignore = "writes cases for conformance/access.py"]
fn random_cases_are_told() {
    let wanted = |name| std::env::var(name).unwrap_or_else(|_| panic!("{name} is to be set"));
    let seeds = wanted("MULTILANE_RIGHTS_CASES");
    let (first, end) = seeds.split_once("..").unwrap();
    let mut file = std::fs::File::create(wanted("MULTILANE_RIGHTS_FILE")).unwrap();
    for seed in first.parse().unwrap()..end.parse().unwrap() {
        writeln!(file, "{}", line(seed)).unwrap();
    }
}
