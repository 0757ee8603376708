// Which view is shown, and keeping it up to date while somebody sees the page.

import { accounts } from "./accounts.js";
import { session as whoIsThere, signOut } from "./api.js";
import { dismiss } from "./dialog.js";
import { button, h, say, show, tell } from "./dom.js";
import { events } from "./events.js";
import { files } from "./files.js";
import { metrics } from "./metrics.js";
import { overview } from "./overview.js";
import { session, sessions } from "./sessions.js";
import { share, shares } from "./shares.js";
import { signInView } from "./sign_in.js";

const VIEWS = [["overview", "Overview"], ["shares", "Shares"], ["sessions", "Sessions"], ["files", "Files"], ["metrics", "Metrics"], ["events", "Events"], ["accounts", "Accounts"]];
const MAKERS = { overview, shares, share, sessions, session, files, metrics, events, accounts };
// The list that a view with a name is of.
const LISTS = { share: "shares", session: "sessions" };

const main = document.getElementById("main");
const nav = document.getElementById("views");
const who = document.getElementById("who");
const trouble = document.getElementById("trouble");
let operator = null;
let view = null;
let timer = null;
let turn = 0;

nav.append(h("ul", {}, VIEWS.map(([name, title]) => h("li", {}, h("a", { href: `#/${name}`, id: `view-${name}` }, title)))));
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  (main.querySelector("h1") ?? main).focus();
});
addEventListener("hashchange", () => enter(true));
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
begin();

async function begin() {
  try {
    entered(await whoIsThere());
  } catch (refused) {
    left(refused);
  }
}

function entered(name) {
  operator = name;
  const out = button("Sign out", async () => {
    await signOut().catch(() => {});
    begin();
  });
  who.replaceChildren(h("span", {}, name), out);
  show(nav, true);
  show(who, true);
  enter(true);
}

// Nobody has signed in, or nobody any more.
function left(refused) {
  if (refused.status !== 401 && refused.status !== 403) {
    complain(refused);
    timer = setTimeout(begin, 2000);
    return;
  }
  // It answers.
  show(trouble, false);
  const expired = operator !== null;
  operator = null;
  show(nav, false);
  show(who, false);
  document.title = "Sign in - Multilane";
  change(signInView(main, refused, entered));
  if (expired) tell("You have been signed out.");
}

// Shows what the address says.
function enter(isWanted) {
  if (operator === null) return;
  const [, name = "", rest = ""] = location.hash.match(/^#\/(\w*)\/?(.*)$/) ?? [];
  const known = Object.hasOwn(MAKERS, name) ? name : "overview";
  let words = "";
  try {
    words = decodeURIComponent(rest);
  } catch {
    // Somebody has typed it.
  }
  change(MAKERS[known](main, words));
  for (const [one] of VIEWS) {
    const link = document.getElementById(`view-${one}`);
    if (one === (LISTS[known] ?? known)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const title = main.querySelector("h1");
  document.title = `${title.textContent} - Multilane`;
  scrollTo(0, 0);
  if (isWanted) title.focus({ preventScroll: true });
}

function change(next) {
  clearTimeout(timer);
  dismiss();
  view?.end();
  view = next;
  turn += 1;
  refresh();
}

// Has the view look again, and once more after a while; one at a time.
async function refresh() {
  clearTimeout(timer);
  const [now, shown] = [turn, view];
  if (!shown?.every || document.hidden) return;
  try {
    await shown.refresh();
    if (now === turn) show(trouble, false);
  } catch (refused) {
    if (now !== turn) return;
    const isOut = refused.status === 401 || refused.status === 403;
    if (isOut && (operator !== null || refused.status === 401)) return left(refused);
    if (isOut) show(trouble, false);
    else complain(refused);
  }
  if (now === turn) {
    clearTimeout(timer);
    timer = setTimeout(refresh, shown.every);
  }
}

function complain(refused) {
  say(trouble, `${refused.message} ${refused.remedy ?? ""}`);
  show(trouble, true);
}
