// What is asked of the server. Reading changes nothing; what changes something brings the session's token.

let token = null;
let touched = true;
for (const event of ["pointerdown", "keydown"]) {
  addEventListener(event, () => { touched = true; }, { capture: true, passive: true });
}

// How long an answer may take.
const PATIENCE = 15000;

// Why something was not answered, or not done.
export class Refused extends Error {
  constructor(status, what, remedy) {
    super(what);
    this.status = status;
    this.remedy = remedy;
  }
}

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (!touched) headers["X-Untouched"] = "1";
  touched = false;
  let answer;
  try {
    answer = await fetch(path, { ...options, headers, credentials: "same-origin", cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
  } catch {
    throw new Refused(0, "The server does not answer.", "It is asked again by itself.");
  }
  const said = await answer.json().catch(() => null);
  if (answer.ok && said !== null) return said;
  throw new Refused(answer.status, said?.what ?? `The server answers ${answer.status}.`, said?.remedy ?? "");
}

function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  if (token) headers["X-Request-Token"] = token;
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
  const known = await ask("/api/session");
  token = known.token;
  return known.operator;
}

export async function signIn(name, password) {
  const known = await post("/api/sign-in", { name, password });
  token = known.token;
  return known.operator;
}

export async function signOut() {
  await post("/api/sign-out", {});
  token = null;
}
