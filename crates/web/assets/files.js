// What is open, and who holds it.

import { read } from "./api.js";
import { confirmed, resultPlace } from "./dialog.js";
import { button, h, heading, named, say, visible } from "./dom.js";
import { rights, span } from "./format.js";
import { Paged, Table } from "./list.js";

export function files(main, session) {
  const result = resultPlace();
  const table = new Table("Open files", [
    { name: "File", make: () => h("span", { class: "path" }), fill: (element, file) => { say(element, `\\${file.path}`); } },
    { name: "Share", text: (file) => file.share },
    { name: "Held by", text: (file) => file.user },
    { name: "Session", make: () => h("span", {}, h("a"), h("span")), fill: fillSession },
    { name: "Access", text: (file) => rights(file.access) },
    { name: "Age", number: true, text: (file) => span(file.open_seconds) },
    { name: "Close", make: closer, fill: (element, file) => { element.file = file; element.setAttribute("aria-label", visible(`Close \\${file.path} of ${file.user}`)); } },
  ], (file) => file.id, true);
  const paged = new Paged(table, "open files", (text, after) => read("opens", { text, after, session }));
  const back = session ? h("p", {}, h("a", { href: `#/session/${session}` }, `Session ${session}`)) : null;
  main.replaceChildren(...[back, heading(session ? `Open files of session ${session}` : "Open files"), result, h("div", { class: "panel" }, paged.element)].filter(Boolean));

  function closer() {
    const element = button("Close", () => ask(element.file));
    return element;
  }

  async function ask(file) {
    await confirmed({
      title: "Close this file?",
      text: [named(`\\${file.path}`), " of the share ", named(file.share), ", which ", named(file.user), " has open. What its client has not written yet is lost."],
      action: "Close file",
      operation: { do: "close-open", id: file.id },
      done: [named(`\\${file.path}`), " is closed."],
      place: result,
    });
    await paged.refresh().catch(() => {});
  }

  return { every: 2000, refresh: () => paged.refresh(), end() {} };
}

function fillSession(element, file) {
  const [link, words] = element.children;
  const waits = file.session === "0";
  say(link, waits ? "" : file.session);
  link.href = waits ? "#/files" : `#/session/${file.session}`;
  link.hidden = waits;
  say(words, waits ? "waits for its client" : "");
}
