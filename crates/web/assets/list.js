// Tables whose rows change in place, so that what has the focus keeps it; and lists of which a part is shown at a time.

import { button, h, say, show } from "./dom.js";
import { many, whole } from "./format.js";

// Columns have a `name` and say what a cell has: `text(item)`, or `make()` an element that `fill(element, item)` keeps up to date.
export class Table {
  // A caption that only says what the heading says is for who listens.
  constructor(caption, columns, key, isQuiet = false) {
    this.columns = columns;
    this.key = key;
    this.rows = new Map();
    this.body = h("tbody", { role: "rowgroup" });
    this.none = h("p", { class: "none", hidden: true }, "There are none.");
    const head = columns.map((column) => h("th", { scope: "col", role: "columnheader", class: kindOf(column) }, column.name));
    this.table = h("table", { role: "table" }, h("caption", { class: isQuiet ? "unseen" : null }, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head)), this.body);
    this.element = h("div", { class: "table" }, this.table, this.none);
  }

  update(items) {
    const seen = new Set();
    let before = null;
    for (const item of items) {
      const key = String(this.key(item));
      seen.add(key);
      let row = this.rows.get(key);
      if (!row) {
        row = this.made();
        this.rows.set(key, row);
      }
      this.columns.forEach((column, at) => this.fill(row.cells[at], column, item));
      const place = before ? before.nextSibling : this.body.firstChild;
      if (place !== row.element) this.body.insertBefore(row.element, place);
      before = row.element;
    }
    for (const [key, row] of this.rows) {
      if (!seen.has(key)) this.drop(key, row);
    }
    show(this.none, items.length === 0);
    show(this.table, items.length > 0);
  }

  // A row that had the focus leaves it to its neighbour.
  drop(key, row) {
    if (row.element.contains(document.activeElement)) {
      const next = row.element.nextElementSibling ?? row.element.previousElementSibling;
      const target = next?.querySelector("a, button") ?? document.querySelector("h1");
      target?.focus();
    }
    row.element.remove();
    this.rows.delete(key);
  }

  made() {
    const cells = this.columns.map((column, at) => {
      const content = column.make ? column.make() : null;
      const kind = at === 0 ? ["th", { scope: "row", role: "rowheader" }] : ["td", { role: "cell" }];
      const attributes = { ...kind[1], class: kindOf(column), "data-name": column.name };
      return { element: h(kind[0], attributes, content), content };
    });
    return { cells, element: h("tr", { role: "row" }, cells.map((cell) => cell.element)) };
  }

  fill(cell, column, item) {
    if (column.make) column.fill(cell.content, item);
    else say(cell.element, column.text(item));
  }
}

// Numbers stand at the right; what is `short` is not broken.
function kindOf(column) {
  return column.number ? "number" : column.short ? "short" : null;
}

// A list that is searched, and shown part by part. `load(text, after)` gives `items`, `total` and `next`.
export class Paged {
  constructor(table, what, load) {
    this.table = table;
    this.what = what;
    this.load = load;
    this.after = null;
    this.next = null;
    this.search = h("input", { type: "search", id: `search-${what}`, autocomplete: "off", maxlength: 200, on: { input: () => this.searched() } });
    this.count = h("p", { class: "count" });
    this.first = button("First part", () => this.turn(null));
    this.more = button("Next part", () => this.turn(this.next));
    this.element = h("div", {},
      h("div", { class: "search" }, h("label", { for: `search-${what}` }, `Search ${what}`), this.search, this.count),
      table.element,
      h("div", { class: "buttons" }, this.first, this.more));
    this.turned = 0;
  }

  async refresh() {
    const turn = this.turned;
    const part = await this.load(this.search.value.trim(), this.after);
    if (turn !== this.turned) return this.refresh();
    this.next = part.next;
    this.table.update(part.items);
    const shown = part.items.length < part.total ? `, ${whole(part.items.length)} of them here` : "";
    say(this.count, `${many(part.total, this.what.replace(/s$/, ""), this.what)}${shown}`);
    show(this.first, this.after !== null);
    show(this.more, part.next !== null);
    return part;
  }

  searched() {
    this.turn(null);
  }

  turn(after) {
    this.after = after;
    this.turned += 1;
    this.refresh().catch(() => {});
  }
}
