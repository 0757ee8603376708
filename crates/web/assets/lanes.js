// The channels of a session, each a lane between an interface of the client and one of the server.

import { h, s } from "./dom.js";
import { bytes, speed } from "./format.js";

const LANE = 66;
const BAR = 10;

// The address without its port.
export function host(endpoint) {
  return endpoint.slice(0, endpoint.lastIndexOf(":"));
}

// `lanes` have `peer`, `local`, `state` (alive, silent or dead), `words` for it, and `rate` in bytes per second, or none.
export class Lanes {
  constructor() {
    this.element = h("div", { class: "lanes" });
    this.resized = new ResizeObserver(() => { if (this.shown) this.set(...this.shown); });
    this.resized.observe(this.element);
  }

  end() {
    this.resized.disconnect();
  }

  set(lanes, interfaces) {
    this.shown = [lanes, interfaces];
    const width = Math.max(240, this.element.clientWidth);
    const sorted = [...lanes].sort((a, b) => host(a.peer).localeCompare(host(b.peer)) || a.local.localeCompare(b.local) || a.peer.localeCompare(b.peer));
    const same = JSON.stringify([width, sorted, interfaces]);
    if (same === this.same) return;
    this.same = same;
    const most = Math.max(1, ...sorted.map((lane) => lane.rate ?? 0));
    const height = sorted.length * LANE + 8;
    const drawing = s("svg", { role: "img", width, height, viewBox: `0 0 ${width} ${height}`, "aria-label": summary(sorted) });
    drawing.append(...bars(sorted, (lane) => host(lane.peer), 0), ...bars(sorted, (lane) => host(lane.local), width - BAR));
    sorted.forEach((lane, at) => drawing.append(...drawn(lane, at * LANE + 8, width, most, interfaces)));
    this.element.replaceChildren(drawing);
  }
}

function summary(lanes) {
  const dead = lanes.filter((lane) => lane.state !== "alive").length;
  return `${lanes.length} lanes between client and server, ${dead} of them not alive; the table below says the same`;
}

// A bar for each interface, beside the lanes that begin or end there.
function bars(lanes, of, x) {
  const found = [];
  lanes.forEach((lane, at) => {
    const last = found.at(-1);
    if (last && last.name === of(lane)) last.end = at;
    else found.push({ name: of(lane), begin: at, end: at });
  });
  return found.map(({ begin, end }) => s("rect", { class: "interface", x, y: begin * LANE + 6, width: BAR, height: (end - begin + 1) * LANE - 6, rx: 4 }));
}

function drawn(lane, y, width, most, interfaces) {
  const known = interfaces.find((one) => one.address === host(lane.local).replace(/^\[|\]$/g, ""));
  const link = known ? `, ${speed(known.bits_per_second)}` : "";
  const thick = lane.state === "alive" ? 2 + 6 * ((lane.rate ?? 0) / most) : 3;
  const rate = lane.state !== "alive" || lane.rate === null ? lane.words : `${lane.words}, ${bytes(lane.rate)}/s`;
  const text = (x, below, anchor, kind, words) => s("text", { x, y: y + below, "text-anchor": anchor, class: kind }, words);
  return [
    text(BAR + 8, 16, "start", "end", lane.peer),
    s("line", { class: `lane ${lane.state}`, x1: BAR, x2: width - BAR, y1: y + 28, y2: y + 28, "stroke-width": thick.toFixed(1) }),
    text(BAR + 8, 47, "start", `words ${lane.state}`, rate),
    text(width - BAR - 8, width < 520 ? 47 : 16, "end", "end", `${lane.local}${width < 520 ? "" : link}`),
  ];
}
