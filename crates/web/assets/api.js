// What is asked of the server, with the session's secret. Cookies go to every port of this machine; what a tab keeps for its session stays at this one.

const KEPT = "multilane-secret";
let secret = kept();
let touched = true;
for (const event of ["pointerdown", "keydown"]) {
  addEventListener(event, () => { touched = true; }, { capture: true, passive: true });
}

// How long an answer may take.
const PATIENCE = 15000;
// How often something is asked where the server has no place for it just now.
const TRIES = 4;

// Why something was not answered, or not done.
export class Refused extends Error {
  constructor(status, what, remedy) {
    super(what);
    this.status = status;
    this.remedy = remedy;
  }
}

function kept() {
  try {
    return sessionStorage.getItem(KEPT);
  } catch {
    return null;
  }
}

function keep(what) {
  secret = what;
  try {
    if (what) sessionStorage.setItem(KEPT, what);
    else sessionStorage.removeItem(KEPT);
  } catch {
    // A browser that keeps nothing asks anew when the page is loaded anew.
  }
}

// Asks, and once more where there was no place: then nothing was done.
async function ask(path, options = {}) {
  for (let tried = 1; ; tried += 1) {
    try {
      return await asked(path, options);
    } catch (refused) {
      if (refused.status !== 503 || tried === TRIES) throw refused;
      await new Promise((go) => { setTimeout(go, 1000); });
    }
  }
}

async function asked(path, options) {
  const headers = { ...options.headers };
  if (secret) headers["X-Page-Secret"] = secret;
  if (!touched) headers["X-Untouched"] = "1";
  touched = false;
  let answer;
  try {
    answer = await fetch(path, { ...options, headers, credentials: "same-origin", cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
  } catch {
    const remedy = options.method === "POST" ? "It may have been done or not: look." : "It is asked again by itself.";
    throw new Refused(0, "The server does not answer.", remedy);
  }
  const said = await answer.json().catch(() => null);
  if (answer.ok && said !== null) return said;
  throw new Refused(answer.status, said?.what ?? `The server answers ${answer.status}.`, said?.remedy ?? "");
}

function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  touched = true;
  return ask(path, { method: "POST", headers, body: JSON.stringify(body) });
}

function query(words) {
  const known = Object.entries(words).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return known.length ? `?${new URLSearchParams(known)}` : "";
}

export const read = (what, words = {}) => ask(`/api/read/${what}${query(words)}`);
export const why = (about) => ask(`/api/why${query({ about })}`);
export const metrics = (words = {}) => ask(`/api/metrics${query(words)}`);
export const operate = (operation) => post("/api/operation", operation);

// Who has signed in.
export async function session() {
  return (await ask("/api/session")).operator;
}

export async function signIn(name, password) {
  const known = await post("/api/sign-in", { name, password });
  keep(known.secret);
  return known.operator;
}

export async function signOut() {
  await post("/api/sign-out", {});
  keep(null);
}
