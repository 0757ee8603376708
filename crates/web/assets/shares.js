// Shares: how full they are, what they may do and do, and why they are slow.

import { read, why } from "./api.js";
import { confirmed, resultPlace } from "./dialog.js";
import { Facts, h, heading, named, say, show } from "./dom.js";
import { bytes, many, mibs, millis, whole } from "./format.js";
import { Paged, Table } from "./list.js";

// How often it is asked why something is slow.
const WHY_EVERY = 10000;
const PARTS = [["limit", "waiting for a limit"], ["store", "waiting for the store"], ["client", "waiting for another client"], ["work", "the server's own work"]];

export function shares(main) {
  const table = new Table("Shares", [
    { name: "Share", make: () => h("a"), fill: link },
    { name: "Room", make: used, fill: fillUsed },
    { name: "Limits", text: allowed },
    { name: "Burst credits", text: credits },
    { name: "Requests/s", number: true, text: (share) => whole(share.figures.iops) },
    { name: "Read", number: true, text: (share) => mibs(share.figures.read) },
    { name: "Written", number: true, text: (share) => mibs(share.figures.written) },
    { name: "99 % within", number: true, text: (share) => millis(share.figures.p99_ms) },
    { name: "A request's time", make: () => h("div", { class: "used" }, h("span"), bar()), fill: fillTime },
    { name: "State", make: () => h("span"), fill: fillState },
  ], (share) => share.name, true);
  const paged = new Paged(table, "shares", (text, after) => read("shares", { text, after }));
  main.replaceChildren(heading("Shares"), h("div", { class: "panel" }, paged.element));
  return { every: 2000, refresh: () => paged.refresh(), end() {} };
}

function link(element, share) {
  say(element, share.name);
  element.href = `#/share/${encodeURIComponent(share.name)}`;
}

// What its own files take, where they are counted, and what may still be written to it.
function room(share) {
  const used = share.used === null ? [] : [`${bytes(share.used)} used`];
  const left = share.space ? [`${bytes(share.space.left)} left`] : [];
  return [...used, ...left].join(", ") || "unknown";
}

function used() {
  return h("div", { class: "used" }, h("span"), h("div", { class: "bar", "aria-hidden": "true" }, h("div")));
}

function fillUsed(element, share) {
  const all = share.space?.total;
  const part = all ? Math.min(1, Math.max(0, 1 - share.space.left / all)) : 0;
  say(element.firstChild, room(share));
  const bar = element.lastChild.firstChild;
  bar.style.width = `${part * 100}%`;
  show(element.lastChild, Boolean(all));
  bar.className = part > 0.9 ? "full" : "";
}

// What a share as a whole may do.
function allowed(share) {
  const of = share.provisioned;
  return of ? `${whole(of.iops)} IOPS, ${whole(of.mibps)} MiB/s` : limits(share.limits);
}

// Parts of a request's time, side by side.
function bar() {
  return h("div", { class: "split", "aria-hidden": "true" }, PARTS.map(([name]) => h("div", { class: name })));
}

// Gives them their widths; a list of what each is: its words, its milliseconds and its part.
function fillBar(element, each) {
  const sum = PARTS.reduce((all, [name]) => all + each[name], 0);
  show(element, sum > 0);
  return PARTS.map(([name, words], at) => {
    const part = sum ? each[name] / sum : 0;
    element.children[at].style.width = `${part * 100}%`;
    show(element.children[at], part > 0);
    return { words, millis: each[name], part };
  });
}

function fillTime(element, share) {
  const parts = fillBar(element.lastChild, share.figures.each_ms);
  const most = parts.reduce((most, part) => (part.part > most.part ? part : most));
  const all = parts.reduce((sum, part) => sum + part.millis, 0);
  say(element.firstChild, most.part > 0 ? `${millis(all)}, ${whole(most.part * 100)} % ${most.words}` : "-");
}

function credits(share) {
  const of = share.provisioned;
  return of ? `${whole(of.burst_credits)} of ${whole(of.burst_credits_max)}` : "-";
}

function fillState(element, share) {
  const throttled = share.figures.throttled > 0;
  say(element, share.problem ? (share.served ? "faulty folder" : "not served") : throttled ? "at its limit" : "served");
  element.className = share.problem ? "bad" : throttled ? "warn" : "good";
}

// Where the time of a share, a session or the server's slowest share went.
export class Why {
  constructor(about) {
    this.about = about;
    this.asked = 0;
    this.summary = h("p");
    this.causes = h("ol", { class: "causes" });
    this.element = h("section", { class: "panel" }, h("h2", {}, "Where the time of the last minute went"), this.summary, this.causes);
  }

  async refresh() {
    if (Date.now() - this.asked < WHY_EVERY) return;
    this.asked = Date.now();
    let answer;
    try {
      answer = await why(this.about);
    } catch (refused) {
      if (refused.status === 401 || refused.status === 0) throw refused;
      say(this.summary, refused.message);
      return;
    }
    const whom = answer.about;
    const short = answer.is_short ? `The server has run for less than a minute: this is about the last ${whole(answer.seconds)} seconds. ` : "";
    const found = whom === null ? "Nothing was done on any share."
      : answer.causes.length === 0 ? `Nothing makes ${whom} slow: ${many(answer.requests, "request")}.`
        : `Of the time of ${whom}:`;
    say(this.summary, short + found);
    const same = JSON.stringify(answer.causes);
    if (same === this.causes.dataset.same) return;
    this.causes.dataset.same = same;
    this.causes.replaceChildren(...answer.causes.map((cause) => h("li", {},
      h("strong", {}, `${whole(cause.share * 100)} %`), ` ${cause.sentences.join(" ")} `, h("code", {}, cause.command))));
  }
}

export function share(main, name) {
  const facts = new Facts("State", "Account", "Comment", "Room", "Provisioned", "Burst credits", "Limits", "Waited for limits",
    "Requests", "Read", "Written", "Latency of 50 %", "Latency of 99 %", "Errors just now");
  const split = new Split();
  const reasons = new Why(name);
  const form = new LimitsForm(name);
  main.replaceChildren(h("p", {}, h("a", { href: "#/shares" }, "All shares")), heading("Share ", named(name)),
    h("div", { class: "panel" }, facts.element), split.element, reasons.element, form.element);

  async function refresh() {
    const share = await read("share", { name });
    const state = h("span");
    fillState(state, share);
    facts.set("State", share.problem ? `${state.textContent}: ${share.problem}` : state.textContent, state.className);
    facts.set("Account", share.account ?? "-");
    facts.set("Comment", share.comment || "none");
    facts.set("Room", share.space ? `${room(share)} of ${bytes(share.space.total)}` : room(share));
    const of = share.provisioned;
    facts.set("Provisioned", of ? `${of.model}, ${whole(of.gib)} GiB, ${whole(of.iops)} IOPS, ${whole(of.mibps)} MiB/s, bursts of ${whole(of.burst_iops)} IOPS` : "no");
    facts.set("Burst credits", credits(share));
    facts.set("Limits", limits(share.limits));
    facts.set("Waited for limits", waited(share.waited));
    facts.set("Requests", `${whole(share.figures.iops)}/s`);
    facts.set("Read", mibs(share.figures.read));
    facts.set("Written", mibs(share.figures.written));
    facts.set("Latency of 50 %", millis(share.figures.p50_ms));
    facts.set("Latency of 99 %", millis(share.figures.p99_ms));
    facts.set("Errors just now", whole(share.figures.errors));
    split.set(share.figures.each_ms);
    form.know(share);
    await reasons.refresh();
  }

  return { every: 2000, refresh, end() {} };
}

function limits({ iops_max, mibps_max, user_iops_max, user_mibps_max }) {
  const set = [[iops_max, "IOPS"], [mibps_max, "MiB/s"], [user_iops_max, "IOPS for each user"], [user_mibps_max, "MiB/s for each user"]];
  return set.filter(([limit]) => limit).map(([limit, unit]) => `${whole(limit)} ${unit}`).join(", ") || "none";
}

function waited({ iops, read, write, metadata }) {
  const counts = [[iops, "for IOPS"], [metadata, "for metadata IOPS"], [read, "to read"], [write, "to write"]];
  return counts.filter(([count]) => count).map(([count, what]) => `${whole(count)} ${what}`).join(", ") || "none";
}

// What the time of a request is made of.
class Split {
  constructor() {
    this.bar = bar();
    this.words = PARTS.map(([name]) => h("li", { class: name }));
    this.element = h("section", { class: "panel" }, h("h2", {}, "What a request's time is made of"),
      this.bar, h("ul", { class: "split-words" }, this.words));
  }

  set(each) {
    fillBar(this.bar, each).forEach(({ words, millis: time, part }, at) => {
      say(this.words[at], `${words}: ${millis(time)}, ${whole(part * 100)} %`);
    });
  }
}

// Changes the limits of a share.
class LimitsForm {
  constructor(name) {
    this.name = name;
    // What the last reading said, and what each field said of it when it was last filled.
    this.before = null;
    this.shown = new Map();
    const of = (key, label, most) => [key, h("input", { id: key, type: "number", min: 1, max: most, step: 1, inputmode: "numeric", placeholder: "none" }), label];
    this.fields = [of("iops_max", "IOPS of the share", 1e7), of("mibps_max", "MiB/s of the share", 1e6),
      of("user_iops_max", "IOPS of each user", 1e7), of("user_mibps_max", "MiB/s of each user", 1e6)];
    this.result = resultPlace();
    this.note = h("p", { hidden: true }, "This share is provisioned: as a whole it has no other limits.");
    const rows = this.fields.map(([key, input, label]) => h("div", {}, h("label", { for: key }, label), input));
    this.element = h("section", { class: "panel" }, h("h2", {}, "Limits"), this.note,
      h("form", { class: "limits", on: { submit: (event) => this.submitted(event) } }, rows,
        h("button", { type: "submit", class: "primary" }, "Change limits")), this.result);
  }

  know(share) {
    this.fields.slice(0, 2).forEach(([, input]) => { input.disabled = Boolean(share.provisioned); });
    show(this.note, Boolean(share.provisioned));
    this.before = share.limits;
    // A field that nobody has changed here says what is so now.
    for (const [key, input] of this.fields) {
      const now = String(share.limits[key] ?? "");
      if (this.shown.has(key) && input.value !== this.shown.get(key)) continue;
      input.value = now;
      this.shown.set(key, now);
    }
  }

  async submitted(event) {
    event.preventDefault();
    const touched = this.fields.filter(([key, input]) => this.before && input.value !== this.shown.get(key));
    const all = touched.map(([key, input, label]) => ({ key, label, from: this.before[key] ?? null, to: input.value === "" ? null : Number(input.value) }));
    // What somebody else has changed to the same since is no change.
    const changes = all.filter(({ from, to }) => to !== from);
    if (changes.length === 0) {
      say(show(this.result, true), "No limit is another one.").className = "result";
      return;
    }
    const wanted = Object.fromEntries(changes.map(({ key, to }) => [key, to]));
    const limit = (number) => (number === null ? "no limit" : whole(number));
    const words = changes.map(({ label, to }) => `${label}: ${limit(to)}`).join(", ");
    const before = changes.map(({ label, from }) => `${label}: ${limit(from)}`).join(", ");
    const isDone = await confirmed({
      title: ["Change the limits of ", named(this.name), "?"],
      text: `${words}. Until now: ${before}. Requests beyond a limit wait.`,
      action: "Change limits",
      operation: { do: "change-limits", share: this.name, ...wanted },
      done: `${words}, from now on.`,
      place: this.result,
    });
    if (!isDone) return;
    this.before = { ...this.before, ...wanted };
    changes.forEach(({ key, to }) => this.shown.set(key, String(to ?? "")));
  }
}
