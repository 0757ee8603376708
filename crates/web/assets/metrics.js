// The numbers of the last thirty days by Azure Monitor's names, and what was asked since the server started.

import { metrics as ask, read } from "./api.js";
import { Chart } from "./chart.js";
import { h, heading, say } from "./dom.js";
import { bytes, clock, date, many, millis, rounded, whole } from "./format.js";
import { Table } from "./list.js";

// How often numbers that come each minute are asked for.
const EVERY = 10000;
const SPANS = [["hour", "the last hour, by minute"], ["day", "the last day, by quarter of an hour"], ["month", "the last 30 days, by six hours"]];

export function metrics(main) {
  let known = [];
  let chart = null;
  let asked = 0;
  const select = (id, options) => h("select", { id, on: { change: () => changed() } }, options.map(([value, text]) => h("option", { value }, text)));
  const name = select("metric", []);
  const by = select("by", []);
  const span = select("span", SPANS);
  const share = h("input", { id: "share", type: "text", maxlength: 80, autocomplete: "off", placeholder: "all", on: { change: () => changed() } });
  const about = h("p", { class: "about" });
  const place = h("div");
  const field = (id, label, input) => h("div", {}, h("label", { for: id }, label), input);
  const table = new Table("Requests since the server started", [
    { name: "API", text: (api) => api.name },
    { name: "Requests", number: true, text: (api) => whole(api.requests) },
    { name: "Mean", number: true, text: (api) => millis(api.mean_ms) },
    { name: "Received", number: true, text: (api) => bytes(api.received) },
    { name: "Sent", number: true, text: (api) => bytes(api.sent) },
    { name: "Responses", text: (api) => api.responses.map((one) => `${one.name} ${whole(one.requests)}`).join(", ") },
  ], (api) => api.name);
  main.replaceChildren(heading("Metrics"),
    h("section", { class: "panel" }, h("h2", {}, "Over time"),
      h("div", { class: "fields" }, field("metric", "Metric", name), field("by", "By", by), field("share", "Share", share), field("span", "Time", span)), about, place),
    h("section", { class: "panel" }, h("h2", {}, "By API and response"), table.element));

  function changed() {
    asked = 0;
    offer();
    refresh().catch(() => {});
  }

  // What a metric can be told apart by.
  function offer() {
    const dimensions = known.find((one) => one.name === name.value)?.dimensions ?? [];
    const before = by.value;
    by.replaceChildren(h("option", { value: "" }, "nothing"), ...dimensions.map((one) => h("option", { value: one }, one)));
    by.value = dimensions.includes(before) ? before : "";
  }

  async function refresh() {
    if (known.length === 0) {
      known = await ask();
      name.replaceChildren(...known.map((one) => h("option", { value: one.name }, one.name)));
      offer();
      by.value = "ApiName";
    }
    if (Date.now() - asked >= EVERY) {
      asked = Date.now();
      draw(await ask({ name: name.value, by: by.value, share: share.value, span: span.value }));
    }
    table.update((await read("counted", { share: share.value })).apis);
  }

  function draw(answer) {
    const names = answer.series.map((series) => series.of || answer.name);
    const left = answer.total > names.length ? ` The ${names.length} largest of ${many(answer.total, "series", "series")} are shown.` : "";
    const few = names.length === 0 ? " Nothing was counted in this time; numbers come each minute." : "";
    say(about, `${answer.description} ${answer.aggregation}, in ${answer.unit}.${left}${few}`);
    const same = JSON.stringify([answer.name, names, answer.unit, span.value]);
    if (!chart || chart.same !== same) {
      chart?.end();
      const moment = (seconds) => (span.value === "hour" ? clock(seconds * 1000) : date(seconds * 1000));
      const format = answer.unit === "Bytes" ? bytes : rounded;
      chart = new Chart(answer.name, names, (number) => (number === null ? "-" : format(number)), moment);
      chart.same = same;
      place.replaceChildren(chart.element);
    }
    chart.set([answer.begins, ...answer.series.map((series) => series.numbers)]);
  }

  return { every: 2000, refresh, end: () => chart?.end() };
}
