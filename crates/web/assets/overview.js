// How the server does just now, and in the last quarter of an hour.

import { read } from "./api.js";
import { Chart } from "./chart.js";
import { Facts, h, heading, named, say, show } from "./dom.js";
import { bytes, clock, mibs, millis, rounded, whole } from "./format.js";
import { Table } from "./list.js";
import { Why } from "./shares.js";

// Points that are kept: a quarter of an hour.
const POINTS_MAX = 450;

export function overview(main) {
  const points = [];
  const time = (seconds) => clock(seconds * 1000);
  const charts = {
    moved: new Chart("Throughput, MiB/s", ["Read", "Written"], rounded, time),
    iops: new Chart("Requests per second", ["Requests"], rounded, time),
    latency: new Chart("Latency of 99 %, ms", ["99 %"], rounded, time),
  };
  const facts = new Facts("Read", "Written", "Requests", "Latency of 99 %", "Sessions", "Open files", "Connections", "Memory");
  facts.element.classList.add("tiles");
  const about = h("p", { class: "about" });
  const problems = h("ul", { class: "problems" });
  const busy = new Table("Shares that do most just now", [
    { name: "Share", make: () => h("a"), fill: link },
    { name: "Requests/s", number: true, text: (share) => whole(share.figures.iops) },
    { name: "Read", number: true, text: (share) => mibs(share.figures.read) },
    { name: "Written", number: true, text: (share) => mibs(share.figures.written) },
    { name: "99 % within", number: true, text: (share) => millis(share.figures.p99_ms) },
  ], (share) => share.name);
  const doing = h("div", { class: "panel", hidden: true }, busy.element);
  const why = new Why(null);
  main.replaceChildren(heading("Overview"), about, problems, facts.element,
    h("div", { class: "charts" }, charts.moved.element, charts.iops.element, charts.latency.element),
    doing, why.element);

  async function refresh() {
    const seen = await read("overview", { after: points.length ? points.at(-1).at : 0 });
    // A server that started anew begins anew.
    points.push(...seen.points);
    points.splice(0, Math.max(0, points.length - POINTS_MAX));
    say(about, `Version ${seen.version}, serving since ${seen.since}.`);
    const hanging = seen.silent_shards.map((shard) => `Shard ${shard} does not answer: its clients wait.`);
    const faulty = seen.problems.map((problem) => ["The share ", named(problem.share), ` ${problem.served ? "is served with a problem" : "is not served"}: `, named(problem.problem), "."]);
    const lines = [...hanging, ...faulty];
    const same = JSON.stringify([hanging, seen.problems]);
    if (same !== problems.dataset.same) {
      problems.dataset.same = same;
      problems.replaceChildren(...lines.map((line) => h("li", {}, line)));
    }
    const last = points.at(-1);
    facts.set("Read", last ? mibs(last.read) : "-");
    facts.set("Written", last ? mibs(last.written) : "-");
    facts.set("Requests", last ? `${whole(last.iops)}/s` : "-");
    facts.set("Latency of 99 %", last ? millis(last.p99_ms) : "-");
    facts.set("Sessions", whole(seen.sessions));
    facts.set("Open files", whole(seen.opens));
    facts.set("Connections", whole(seen.connections));
    facts.set("Memory", `${bytes(seen.memory.used)} of ${bytes(seen.memory.allowed)}`);
    const times = points.map((point) => point.at / 1000);
    charts.moved.set([times, points.map((point) => point.read), points.map((point) => point.written)]);
    charts.iops.set([times, points.map((point) => point.iops)]);
    charts.latency.set([times, points.map((point) => point.p99_ms)]);
    busy.update(seen.busy);
    show(doing, seen.busy.length > 0);
    await why.refresh();
  }

  return { every: 2000, refresh, end: () => Object.values(charts).forEach((chart) => chart.end()) };
}

function link(element, share) {
  say(element, share.name);
  element.href = `#/share/${encodeURIComponent(share.name)}`;
}
