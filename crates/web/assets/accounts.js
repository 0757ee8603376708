// Accounts, and whether their sessions may have several channels.

import { read } from "./api.js";
import { confirmed, resultPlace } from "./dialog.js";
import { button, h, heading, named, say, show, visible } from "./dom.js";
import { whole } from "./format.js";
import { Table } from "./list.js";

export function accounts(main) {
  const result = resultPlace();
  const table = new Table("Accounts", [
    { name: "Account", text: (account) => account.name },
    { name: "Kind", text: (account) => account.kind },
    { name: "Shares", number: true, text: (account) => whole(account.shares) },
    { name: "Users", number: true, text: (account) => whole(account.users) },
    { name: "Multichannel", text: (account) => (account.multichannel ? "on" : account.can_multichannel ? "off" : "not for this kind") },
    { name: "Switch", make: switcher, fill: fillSwitcher },
  ], (account) => account.name, true);
  main.replaceChildren(heading("Accounts"), result, h("div", { class: "panel" }, table.element));

  function switcher() {
    const element = button("", () => ask(element.account));
    return element;
  }

  function fillSwitcher(element, account) {
    element.account = account;
    show(element, account.multichannel || account.can_multichannel);
    say(element, account.multichannel ? "Switch off" : "Switch on");
    element.setAttribute("aria-label", visible(`Switch multichannel ${account.multichannel ? "off" : "on"} for ${account.name}`));
  }

  async function ask(account) {
    const to = account.multichannel ? "off" : "on";
    await confirmed({
      title: [`Switch multichannel ${to} for `, named(account.name), "?"],
      text: to === "on" ? "From now on each session of this account may use several connections at once." : "The sessions of this account keep their first connection; the others end.",
      action: `Switch ${to}`,
      operation: { do: "switch-multichannel", account: account.name, on: to === "on" },
      done: [`Multichannel is ${to} for `, named(account.name), "."],
      place: result,
    });
    await refresh().catch(() => {});
  }

  async function refresh() {
    table.update((await read("accounts")).items);
  }

  return { every: 4000, refresh, end() {} };
}
