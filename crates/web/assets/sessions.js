// Sessions, and one of them with its channels.

import { read } from "./api.js";
import { confirmed, resultPlace } from "./dialog.js";
import { Facts, button, h, heading, say } from "./dom.js";
import { bytes, clock, many, millis, span, whole } from "./format.js";
import { Lanes } from "./lanes.js";
import { Paged, Table } from "./list.js";
import { Why } from "./shares.js";

export function sessions(main) {
  const table = new Table("Sessions", [
    { name: "Session", make: () => h("a"), fill: link },
    { name: "User", text: (session) => session.user },
    { name: "Account", text: (session) => session.account },
    { name: "Client", text: (session) => session.peer },
    { name: "Dialect", text: (session) => session.dialect },
    { name: "Channels", make: () => h("span"), fill: fillChannels },
    { name: "Open files", number: true, text: (session) => whole(session.opens) },
    { name: "Age", number: true, text: (session) => span(session.connected_seconds) },
    { name: "Idle", number: true, text: (session) => span(session.idle_seconds) },
  ], (session) => session.id, true);
  const paged = new Paged(table, "sessions", (text, after) => read("sessions", { text, after }));
  main.replaceChildren(heading("Sessions"), h("div", { class: "panel" }, paged.element));
  return { every: 2000, refresh: () => paged.refresh(), end() {} };
}

function link(element, session) {
  say(element, session.id);
  element.href = `#/session/${session.id}`;
}

function fillChannels(element, session) {
  const lost = session.lost.length;
  say(element, lost ? `${session.channels.length}, ${lost} lost` : session.channels.length);
  element.className = lost ? "bad" : "";
}

export function session(main, id) {
  const facts = new Facts("User", "Account", "Client", "Dialect", "Signing", "Sealing", "Multichannel", "Shares", "Open files", "Age", "Idle");
  const lanes = new Lanes();
  const rates = new Rates();
  const reasons = new Why(id);
  const result = resultPlace();
  const close = button("Close session", ask, { class: "danger" });
  const table = new Table("Channels", [
    { name: "Client's end", text: (lane) => lane.peer },
    { name: "Server's end", text: (lane) => lane.local },
    { name: "State", make: () => h("span"), fill: (element, lane) => { say(element, lane.words).className = lane.state === "alive" ? "good" : "bad"; } },
    { name: "Bytes/s", number: true, text: (lane) => size(lane.rate) },
    { name: "Received", number: true, text: (lane) => size(lane.received) },
    { name: "Sent", number: true, text: (lane) => size(lane.sent) },
    { name: "Requests", number: true, text: (lane) => whole(lane.requests) },
    { name: "Round trip", number: true, text: (lane) => millis(lane.round_trip_ms) },
    { name: "Shard", number: true, text: (lane) => lane.shard ?? "-" },
  ], (lane) => `${lane.peer} ${lane.local} ${lane.state === "dead" ? lane.at : ""}`);
  main.replaceChildren(h("p", {}, h("a", { href: "#/sessions" }, "All sessions")), heading(`Session ${id}`),
    h("div", { class: "buttons" }, close, h("a", { class: "button", href: `#/files/${id}` }, "Its open files")), result,
    h("section", { class: "panel" }, h("h2", {}, "Channels"), lanes.element, table.element),
    h("div", { class: "panel" }, facts.element), reasons.element);

  async function ask() {
    const closed = await confirmed({
      title: `Close session ${id}?`,
      text: "All its channels end, and its open files are closed. Its client may connect anew.",
      action: "Close session",
      operation: { do: "close-session", id },
      done: `Session ${id} is closed.`,
      place: result,
    });
    if (closed) close.disabled = true;
  }

  async function refresh() {
    if (close.disabled) return;
    const { session, paths, interfaces, now } = await read("session", { id });
    facts.set("User", session.user);
    facts.set("Account", session.account);
    facts.set("Client", session.peer);
    facts.set("Dialect", session.dialect);
    facts.set("Signing", session.signing);
    facts.set("Sealing", session.cipher ?? "none");
    facts.set("Multichannel", session.multichannel ? "on" : "off");
    facts.set("Shares", session.shares.join(", ") || "none");
    facts.set("Open files", whole(session.opens));
    facts.set("Age", span(session.connected_seconds));
    facts.set("Idle", span(session.idle_seconds));
    const alive = session.channels.map((channel, at) => living(channel, paths[at], rates.of(channel, now)));
    const dead = session.lost.map((lost) => ({ ...lost, state: "dead", words: `lost at ${clock(lost.at)}`, rate: null, received: null, sent: null, requests: null }));
    lanes.set([...alive, ...dead].map(({ peer, local, state, words, rate }) => ({ peer, local, state, words, rate })), interfaces);
    table.update([...alive, ...dead]);
    const silent = alive.filter((lane) => lane.state === "silent").length;
    say(table.table.caption, [many(alive.length, "channel"), silent ? many(silent, "does not answer", "do not answer") : null, dead.length ? `${dead.length} lost` : null].filter(Boolean).join(", "));
    await reasons.refresh();
  }

  return { every: 2000, refresh, end: () => lanes.end() };
}

function size(number) {
  return number === null ? "-" : bytes(number);
}

function living(channel, path, rate) {
  const silent = path?.dead === true;
  return {
    peer: channel.peer, local: channel.local, shard: channel.shard, rate,
    received: channel.bytes_received, sent: channel.bytes_sent, requests: channel.requests,
    round_trip_ms: path?.round_trip_ms ?? null,
    state: silent ? "silent" : "alive",
    words: silent ? "does not answer" : "alive",
  };
}

// Bytes a second, by what a channel has moved between two looks.
class Rates {
  constructor() {
    this.known = new Map();
  }

  of(channel, now) {
    const name = `${channel.peer} ${channel.local}`;
    const moved = channel.bytes_received + channel.bytes_sent;
    const before = this.known.get(name);
    if (before && now - before.now < 500) return before.rate;
    const rate = before ? Math.max(0, (moved - before.moved) / ((now - before.now) / 1000)) : null;
    this.known.set(name, { moved, now, rate });
    return rate;
  }
}
