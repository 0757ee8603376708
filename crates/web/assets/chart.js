// Charts over time. What they draw stands in a table, too.

/* global uPlot */
import { h, say } from "./dom.js";
import { clock, date } from "./format.js";

const HEIGHT = 180;
// What the axis goes up to at least: below that its numbers are all alike.
const LEAST = 0.1;
// Rows of the table beside a chart.
const ROWS = 20;
// Colours that lines have; those behind them are dashed.
const COLOURS = 6;
const dark = matchMedia("(prefers-color-scheme: dark)");

// A moment as the axis has it: seconds matter in minutes, the day matters in days.
function label(seconds, times) {
  const length = times.length ? times.at(-1) - times[0] : 0;
  const text = clock(seconds * 1000);
  if (length > 36 * 3600) return date(seconds * 1000).slice(5, 16);
  return length > 600 ? text.slice(0, 5) : text;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// A figure with a chart: `series` are names, `format` says what a number means, `time` what a moment does.
export class Chart {
  constructor(title, series, format, time) {
    this.series = series;
    this.format = format;
    this.time = time;
    this.data = [[], ...series.map(() => [])];
    this.place = h("div", { class: "plot", "aria-hidden": "true" });
    this.latest = h("span", { class: "latest" });
    this.table = h("tbody");
    this.details = h("details", { on: { toggle: () => this.fillTable() } }, h("summary", {}, `${title} as a table`),
      h("div", { class: "scrolls", tabindex: "0", role: "group", "aria-label": `${title} as a table` }, h("table", {},
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Time"), series.map((name) => h("th", { scope: "col", class: "number" }, name)))), this.table)));
    this.keys = series.length > 1 ? series.map((name, at) => h("span", { class: `key key${at % 6}${at >= COLOURS ? " dashed" : ""}` }, name)) : [];
    this.element = h("figure", { class: "chart" },
      h("figcaption", {}, h("span", {}, title), h("span", { class: "keys" }, this.keys), this.latest), this.place, this.details);
    this.resized = new ResizeObserver(() => this.resize());
    this.resized.observe(this.place);
    this.recolour = () => this.draw();
    dark.addEventListener("change", this.recolour);
  }

  // Seconds since 1970, then a list of numbers for each series.
  set(data) {
    this.data = data;
    if (this.plot) this.plot.setData(data);
    else this.draw();
    const last = data.slice(1).map((numbers) => this.format(numbers.at(-1) ?? null));
    if (this.keys.length) this.keys.forEach((key, at) => say(key, `${this.series[at]} ${last[at]}`));
    else say(this.latest, data[0].length ? last[0] : "nothing yet");
    this.fillTable();
  }

  draw() {
    this.plot?.destroy();
    const width = this.place.clientWidth;
    if (!width) return;
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    this.plot = new uPlot({
      width,
      height: HEIGHT,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false } },
      scales: { x: { time: true }, y: { range: (_, least, most) => [0, Math.max(most * 1.1, LEAST) || 1] } },
      axes: [{ ...axis, size: 32, space: 90, values: (_, moments) => moments.map((moment) => label(moment, this.data[0])) }, { ...axis, size: 56, values: (_, numbers) => numbers.map((number) => this.format(number, true)) }],
      series: [{}, ...this.series.map((name, at) => ({ label: name, stroke: colour(`--series${at % 6}`), width: 2, dash: at >= COLOURS ? [5, 4] : undefined, points: { show: false }, spanGaps: false }))],
    }, this.data, this.place);
  }

  resize() {
    const width = this.place.clientWidth;
    if (this.plot && width) this.plot.setSize({ width, height: HEIGHT });
    else this.draw();
  }

  fillTable() {
    if (!this.details.open) return;
    const begin = Math.max(0, this.data[0].length - ROWS);
    const rows = this.data[0].slice(begin).map((time, at) => h("tr", {}, h("th", { scope: "row" }, this.time(time)),
      this.data.slice(1).map((numbers) => h("td", { class: "number" }, this.format(numbers[begin + at])))));
    this.table.replaceChildren(...rows.reverse());
  }

  end() {
    this.resized.disconnect();
    dark.removeEventListener("change", this.recolour);
    this.plot?.destroy();
    this.plot = null;
  }
}
