// Where operators sign in.

import { session, signIn } from "./api.js";
import { h, heading, say, show } from "./dom.js";

// Shows the form; `entered` hears who has signed in. `refused` says why nobody has.
export function signInView(main, refused, entered) {
  const nobody = refused.status === 403;
  const name = h("input", { id: "name", name: "name", autocomplete: "username", required: true, maxlength: 64, autocapitalize: "none", spellcheck: "false" });
  const password = h("input", { id: "password", name: "password", type: "password", autocomplete: "current-password", required: true, maxlength: 1024 });
  const problem = h("p", { class: "result bad", role: "alert", hidden: true });
  const send = h("button", { type: "submit", class: "primary" }, "Sign in");
  const form = h("form", { class: "sign-in", on: { submit: submitted } },
    h("label", { for: "name" }, "Operator"), name,
    h("label", { for: "password" }, "Password"), password,
    send, problem);
  const none = h("div", { class: "panel" },
    h("p", {}, refused.message),
    h("p", {}, refused.remedy),
    h("p", {}, "This page notices when there is one."));
  main.replaceChildren(h("div", { class: "narrow" }, heading("Sign in to Multilane"), nobody ? none : form));
  if (!nobody) name.focus();

  async function submitted(event) {
    event.preventDefault();
    send.disabled = true;
    say(send, "Signing in");
    show(problem, false);
    try {
      entered(await signIn(name.value, password.value));
    } catch (error) {
      say(problem, `${error.message} ${error.remedy ?? ""}`);
      show(problem, true);
      password.value = "";
      password.focus();
    } finally {
      send.disabled = false;
      say(send, "Sign in");
    }
  }

  // Where there was no operator, there may be one by now.
  return { every: nobody ? 2000 : null, refresh: async () => { entered(await session()); }, end() {} };
}
