// The last events of the log, and what has become of what was to be audited.

import { read } from "./api.js";
import { Facts, h, heading, say } from "./dom.js";
import { date, whole } from "./format.js";
import { Table } from "./list.js";

const KNOWN = ["timestamp", "level", "event", "target", "message"];

export function events(main) {
  const facts = new Facts("Audit log", "Events written", "Events lost", "The log has");
  const kind = h("select", { id: "kind", on: { change: () => refresh().catch(() => {}) } });
  const about = h("p", { class: "count" });
  const table = new Table("Events, the newest first", [
    { name: "Time", short: true, text: (event) => date(Date.parse(event.timestamp)) },
    { name: "Event", short: true, text: (event) => event.event },
    { name: "Level", make: () => h("span"), fill: (element, event) => { say(element, event.level.toLowerCase()).className = event.level === "INFO" ? "" : event.level === "WARN" ? "warn" : "bad"; } },
    { name: "What", text: (event) => event.message },
    { name: "Details", text: details },
  ], (event) => event.key, true);
  main.replaceChildren(heading("Events"), h("section", { class: "panel" }, h("h2", {}, "Audit"), facts.element),
    h("section", { class: "panel" }, h("h2", {}, "Log"), h("div", { class: "search" }, h("label", { for: "kind" }, "Event"), kind, about), table.element));

  async function refresh() {
    const seen = await read("events");
    facts.set("Audit log", seen.audit_log);
    facts.set("Events written", whole(seen.audit.written));
    facts.set("Events lost", whole(seen.audit.lost), seen.audit.lost ? "bad" : "");
    facts.set("The log has", seen.filter);
    const all = keyed(seen.events);
    offer([...new Set(all.map((event) => event.event))].sort());
    const shown = all.filter((event) => !kind.value || event.event === kind.value);
    say(about, `${whole(shown.length)} of the last ${whole(all.length)}`);
    table.update(shown);
  }

  function offer(names) {
    const same = names.join(" ");
    if (kind.dataset.same === same) return;
    kind.dataset.same = same;
    const before = kind.value;
    kind.replaceChildren(h("option", { value: "" }, "all"), ...names.map((name) => h("option", { value: name }, name)));
    kind.value = names.includes(before) ? before : "";
  }

  return { every: 2000, refresh, end() {} };
}

// Each with a name of its own: several of one moment may be alike.
function keyed(all) {
  const seen = new Map();
  return all.map((event) => {
    const text = JSON.stringify(event);
    const count = (seen.get(text) ?? 0) + 1;
    seen.set(text, count);
    return { ...event, key: `${count} ${text}` };
  });
}

function details(event) {
  return Object.entries(event).filter(([name]) => !KNOWN.includes(name) && name !== "key").map(([name, value]) => `${name}: ${value}`).join(", ");
}
