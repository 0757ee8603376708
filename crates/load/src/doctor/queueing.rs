//! What `tc` tells: the queueing disciplines of each network interface.

use std::collections::HashMap;

use serde::Deserialize;

use super::facts::Card;
use super::tool::ask;

/// One of `tc -j qdisc show`.
#[derive(Deserialize)]
struct Shown {
    kind: String,
    dev: String,
}

/// Adds to each card the kinds of the disciplines that its packets pass, those of the interfaces below it included; `below` names
/// these. They stay unknown without the tool.
pub(crate) async fn describe(cards: &mut [Card], below: impl Fn(&str) -> Vec<String>) {
    if let Ok(Some(text)) = ask("tc", &["-j", "qdisc", "show"]).await {
        add(cards, &text, below);
    }
}

fn add(cards: &mut [Card], text: &str, below: impl Fn(&str) -> Vec<String>) {
    let Ok(all) = serde_json::from_str::<Vec<Shown>>(text) else { return };
    let mut kinds: HashMap<String, Vec<String>> = HashMap::new();
    for Shown { kind, dev } in all {
        let of_card = kinds.entry(dev).or_default();
        // A card with many queues has as many disciplines, most often alike.
        if !of_card.contains(&kind) {
            of_card.push(kind);
        }
    }
    for card in cards {
        let mut found: Vec<String> = Vec::new();
        for name in with_those_below(&card.name, &below) {
            found.extend(kinds.get(&name).into_iter().flatten().cloned());
        }
        card.queueing_disciplines = (!found.is_empty()).then_some(found);
    }
}

/// An interface, what a bond, bridge or VLAN hands its packets on to, and so on, each once.
fn with_those_below(name: &str, below: impl Fn(&str) -> Vec<String>) -> Vec<String> {
    let mut names = vec![name.to_owned()];
    let mut next = 0;
    while let Some(name) = names.get(next) {
        for lower in below(name) {
            if !names.contains(&lower) {
                names.push(lower);
            }
        }
        next += 1;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disciplines(shown: &str) -> Vec<Option<Vec<String>>> {
        let card = |name: &str| Card { name: name.to_owned(), ..Card::default() };
        let mut cards = ["eth0", "eth1", "bond0.5"].map(card);
        add(&mut cards, shown, |name| {
            let lower: &[&str] = match name {
                "bond0.5" => &["bond0"],
                "bond0" => &["eth0", "eth1"],
                _ => &[],
            };
            lower.iter().map(|name| (*name).to_owned()).collect()
        });
        cards.map(|card| card.queueing_disciplines).to_vec()
    }

    #[test]
    fn disciplines_are_those_of_a_card_and_of_what_is_below_it() {
        let shown = r#"[{"kind":"noqueue","handle":"0:","dev":"lo","root":true,"refcnt":2,"options":{}},
            {"kind":"mq","handle":"0:","dev":"eth0","root":true,"options":{}},
            {"kind":"fq","handle":"0:","dev":"eth0","parent":":2","options":{"limit":10000}},
            {"kind":"fq","handle":"0:","dev":"eth0","parent":":1","options":{"limit":10000}},
            {"kind":"pfifo_fast","handle":"0:","dev":"eth1","root":true,"options":{"bands":3}},
            {"kind":"noqueue","handle":"0:","dev":"bond0.5","root":true,"options":{}}]"#;
        let kinds = |kinds: &[&str]| Some(kinds.iter().map(|kind| (*kind).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            disciplines(shown),
            [kinds(&["mq", "fq"]), kinds(&["pfifo_fast"]), kinds(&["noqueue", "mq", "fq", "pfifo_fast"])]
        );
    }

    #[test]
    fn what_is_not_told_stays_unknown() {
        for shown in ["", "[]", "qdisc fq 0: dev eth0 root", r#"[{"kind":"fq"}]"#] {
            assert_eq!(disciplines(shown), [None, None, None], "{shown}");
        }
    }
}
