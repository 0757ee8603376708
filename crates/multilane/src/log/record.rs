//! One event: a line for people, a line of JSON, or an entry of the journal.

use std::fmt::{self, Write};

use jiff::Timestamp;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata};

use crate::table::printable;

/// Bytes for what an event tells, as JSON writes them: with names and time a line has less than 4 KiB. The rest is cut off.
const TEXT_BYTES_MAX: usize = 3 << 10;
/// What stands for the rest.
const CUT: &str = "...";
/// Fields whose numbers use all 64 bits, which many readers of JSON round: they are written as text, as `sessions --json` does.
const IDS: [&str; 2] = ["open", "session"];

/// An event, taken apart.
pub(super) struct Record {
    time: Timestamp,
    level: Level,
    /// The event's name, where it has one.
    event: Option<&'static str>,
    target: &'static str,
    message: String,
    fields: Vec<(&'static str, Value)>,
    left: usize,
}

/// What a field says.
#[derive(Serialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Flag(bool),
}

impl Record {
    pub(super) fn of(event: &Event<'_>) -> Self {
        let metadata = event.metadata();
        let mut record = Record {
            time: Timestamp::now(),
            level: *metadata.level(),
            event: name_of(metadata),
            target: metadata.target(),
            message: String::new(),
            fields: Vec::new(),
            left: TEXT_BYTES_MAX,
        };
        event.record(&mut record);
        record
    }

    /// A line of JSON.
    pub(super) fn json(&self) -> Vec<u8> {
        // What has texts and numbers alone is written without fail.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }

    /// A line for people: time, level, the event's name, or the module where it has none, the message, and the fields.
    pub(super) fn text(&self) -> Vec<u8> {
        self.line(&format!("{:.6}", self.time), &format!("{:>5}", self.level.as_str()))
    }

    /// The same for a terminal.
    pub(super) fn coloured_text(&self) -> Vec<u8> {
        let colour = match self.level {
            Level::ERROR => 31,
            Level::WARN => 33,
            Level::INFO => 32,
            Level::DEBUG | Level::TRACE => 34,
        };
        self.line(
            &format!("\u{1b}[2m{:.6}\u{1b}[0m", self.time),
            &format!("\u{1b}[{colour}m{:>5}\u{1b}[0m", self.level.as_str()),
        )
    }

    fn line(&self, time: &str, level: &str) -> Vec<u8> {
        let mut line = format!("{time} {level} {}: {}", self.event.unwrap_or(self.target), printable(&self.message));
        for (name, value) in &self.fields {
            let value = printable(&value.to_string());
            // In quotes where it could look like more than one field.
            let is_plain = !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || "\"=".contains(c));
            // It writes to memory.
            let _ = if is_plain {
                write!(line, " {name}={value}")
            } else {
                write!(line, " {name}=\"{}\"", value.replace('"', "\\\""))
            };
        }
        line.push('\n');
        line.into_bytes()
    }

    /// An entry of the journal, in its native protocol. The message has the fields, too: it is all that `journalctl` shows.
    pub(super) fn journal(&self) -> Vec<u8> {
        let priority = match self.level {
            Level::ERROR => "3",
            Level::WARN => "4",
            Level::INFO => "6",
            Level::DEBUG | Level::TRACE => "7",
        };
        let mut message = printable(&self.message);
        for (name, value) in &self.fields {
            // It writes to memory. Texts stand in quotes, so that none looks like more fields.
            let _ = match value {
                Value::Text(text) => write!(message, " {name}={:?}", printable(text)),
                value => write!(message, " {name}={value}"),
            };
        }
        let mut entry = Vec::new();
        put(&mut entry, "MESSAGE", &message);
        put(&mut entry, "PRIORITY", priority);
        put(&mut entry, "SYSLOG_IDENTIFIER", "multilane");
        put(&mut entry, "MULTILANE_TARGET", self.target);
        if let Some(event) = self.event {
            put(&mut entry, "MULTILANE_EVENT", event);
        }
        for (name, value) in &self.fields {
            put(&mut entry, &format!("MULTILANE_{}", name.to_ascii_uppercase()), &printable(&value.to_string()));
        }
        entry
    }

    fn add(&mut self, field: &Field, value: Value) {
        self.fields.push((field.name(), value));
    }

    /// As much of `value` as there is still room for.
    fn bounded(&mut self, value: fmt::Arguments<'_>) -> String {
        let mut text = Bounded { text: String::new(), left: self.left, is_cut: false };
        // An error: there is no more room.
        let _ = text.write_fmt(value);
        self.left = text.left;
        if text.is_cut {
            text.text.push_str(CUT);
        }
        text.text
    }
}

/// An event's name, where it has one: else it is named after its place.
pub(super) fn name_of(metadata: &'static Metadata<'static>) -> Option<&'static str> {
    Some(metadata.name()).filter(|name| !name.starts_with("event "))
}

impl Visit for Record {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = self.bounded(format_args!("{value:?}"));
        if field.name() == "message" { self.message = text } else { self.add(field, Value::Text(text)) }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let text = self.bounded(format_args!("{value}"));
        self.add(field, Value::Text(text));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        let is_id = IDS.contains(&field.name());
        self.add(field, if is_id { Value::Text(value.to_string()) } else { Value::Unsigned(value) });
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, Value::Signed(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, Value::Float(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, Value::Flag(value));
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("timestamp", &format!("{:.6}", self.time))?;
        map.serialize_entry("level", self.level.as_str())?;
        if let Some(event) = self.event {
            map.serialize_entry("event", event)?;
        }
        map.serialize_entry("target", self.target)?;
        map.serialize_entry("message", &self.message)?;
        for (name, value) in &self.fields {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => out.write_str(text),
            Value::Signed(number) => number.fmt(out),
            Value::Unsigned(number) => number.fmt(out),
            Value::Float(number) => number.fmt(out),
            Value::Flag(flag) => flag.fmt(out),
        }
    }
}

/// A text that grows no longer than there is room for.
struct Bounded {
    text: String,
    left: usize,
    is_cut: bool,
}

impl Bounded {
    fn push(&mut self, character: char) -> fmt::Result {
        let bytes = json_bytes(character);
        self.is_cut |= bytes > self.left;
        if self.is_cut {
            return Err(fmt::Error);
        }
        self.left -= bytes;
        self.text.push(character);
        Ok(())
    }
}

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            if is_for_terminals(character) {
                character.escape_unicode().try_for_each(|escaped| self.push(escaped))?;
            } else {
                self.push(character)?;
            }
        }
        Ok(())
    }
}

/// True for what JSON leaves as it is, and a terminal may obey.
fn is_for_terminals(character: char) -> bool {
    character > '\u{7e}' && printable(character.encode_utf8(&mut [0; 4])).len() > character.len_utf8()
}

/// Bytes of a character in a text of JSON, at most.
fn json_bytes(character: char) -> usize {
    match character {
        '"' | '\\' => 2,
        '\0'..='\u{1f}' => 6,
        other => other.len_utf8(),
    }
}

/// Adds a field of an entry of the journal: a value of several lines has its length before it.
fn put(entry: &mut Vec<u8>, name: &str, value: &str) {
    entry.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        entry.push(b'\n');
        entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        entry.push(b'=');
    }
    entry.extend_from_slice(value.as_bytes());
    entry.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::Value as Json;
    use tracing::Subscriber;
    use tracing_subscriber::Layer;
    use tracing_subscriber::layer::{Context, SubscriberExt};

    use super::*;

    /// Keeps what `render` makes of events.
    struct Kept(fn(&Record) -> Vec<u8>, Arc<Mutex<Vec<Vec<u8>>>>);

    impl<S: Subscriber> Layer<S> for Kept {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            self.1.lock().unwrap().push(self.0(&Record::of(event)));
        }
    }

    fn rendered(render: fn(&Record) -> Vec<u8>, events: impl FnOnce()) -> Vec<Vec<u8>> {
        let kept = Arc::default();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(Kept(render, Arc::clone(&kept))), events);
        kept.lock().unwrap().clone()
    }

    #[test]
    fn json_has_an_event_on_one_line() {
        let lines = rendered(Record::json, || {
            tracing::warn!(name: "share_full", session = u64::MAX, bytes = 5, ok = true, path = "a\n\"b\"", "no room\u{1b}");
            tracing::debug!("of no name");
        });
        assert!(
            lines.iter().all(|line| line.iter().filter(|byte| **byte == b'\n').count() == 1 && line.ends_with(b"\n"))
        );
        let line: Json = serde_json::from_slice(&lines[0]).unwrap();
        assert!(line["timestamp"].as_str().unwrap().parse::<Timestamp>().is_ok());
        for (name, value) in [
            ("level", Json::from("WARN")),
            ("event", "share_full".into()),
            ("target", module_path!().into()),
            ("message", "no room\u{1b}".into()),
            ("session", "18446744073709551615".into()),
            ("bytes", 5.into()),
            ("ok", true.into()),
            ("path", "a\n\"b\"".into()),
        ] {
            assert_eq!(line[name], value, "{name}");
        }
        assert_eq!(serde_json::from_slice::<Json>(&lines[1]).unwrap().get("event"), None);
    }

    #[test]
    fn a_line_for_people_has_the_name_of_its_event() {
        let events = || {
            tracing::info!(name: "sign_in_refused", peer = "192.0.2.1:5", user = "a b\n\u{1b}[1m", opens = 3, "sign-in refused");
            tracing::debug!(reason = "", "of no name");
        };
        let said = |render| {
            let lines = rendered(render, events);
            lines.into_iter().map(|line| String::from_utf8(line).unwrap()).collect::<Vec<_>>()
        };
        let lines = said(Record::text);
        let (time, rest) = lines[0].split_once(' ').unwrap();
        assert!(time.parse::<Timestamp>().is_ok(), "{time}");
        assert_eq!(
            rest,
            " INFO sign_in_refused: sign-in refused peer=192.0.2.1:5 user=\"a b\\u{a}\\u{1b}[1m\" opens=3\n"
        );
        assert!(lines[1].ends_with(&format!("DEBUG {}: of no name reason=\"\"\n", module_path!())), "{}", lines[1]);
        let coloured = said(Record::coloured_text);
        assert!(coloured[0].contains("\u{1b}[32m INFO\u{1b}[0m sign_in_refused: "), "{}", coloured[0]);
    }

    #[test]
    fn what_terminals_obey_is_escaped() {
        let lines = rendered(Record::json, || tracing::info!(user = "a\u{9b}2J\u{202e}\u{7f}é", "said"));
        let line: Json = serde_json::from_slice(&lines[0]).unwrap();
        assert_eq!(line["user"], "a\\u{9b}2J\\u{202e}\\u{7f}é");
    }

    #[test]
    fn long_events_are_cut_and_stay_json() {
        for text in ["x".repeat(100_000), "\u{1}\"\\\n".repeat(20_000), "\u{1f600}".repeat(20_000)] {
            let lines = rendered(Record::json, || {
                tracing::info!(name: "long", path = text, other = "gone", count = 7, "what is said comes first");
            });
            assert!(lines[0].len() < 4 << 10, "{}", lines[0].len());
            let line: Json = serde_json::from_slice(&lines[0]).unwrap();
            assert!(line["path"].as_str().unwrap().ends_with("..."));
            assert_eq!((&line["message"], &line["count"]), (&"what is said comes first".into(), &7.into()));
        }
    }

    #[test]
    fn the_journal_gets_fields_and_a_message_with_them() {
        let entries = rendered(Record::journal, || {
            tracing::error!(name: "two_lines", peer = "192.0.2.1:5", path = "a\nb \"c\"=d", "failed");
        });
        let mut wanted =
            b"MESSAGE=failed peer=\"192.0.2.1:5\" path=\"a\\\\u{a}b \\\"c\\\"=d\"\nPRIORITY=3\nSYSLOG_IDENTIFIER=multilane\n"
                .to_vec();
        wanted.extend_from_slice(format!("MULTILANE_TARGET={}\n", module_path!()).as_bytes());
        wanted.extend_from_slice(b"MULTILANE_EVENT=two_lines\nMULTILANE_PEER=192.0.2.1:5\n");
        wanted.extend_from_slice(b"MULTILANE_PATH=a\\u{a}b \"c\"=d\n");
        assert_eq!(String::from_utf8_lossy(&entries[0]), String::from_utf8_lossy(&wanted));
    }
}
