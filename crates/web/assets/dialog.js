// Asking before something is done, and doing it.

import { operate } from "./api.js";
import { button, h, tell } from "./dom.js";

// Asks; true where that is to be done. The dialog keeps the focus and gives it back.
function asked(title, text, action) {
  return new Promise((decide) => {
    const dialog = h("dialog", { "aria-labelledby": "dialog-title", "aria-describedby": "dialog-text" },
      h("h2", { id: "dialog-title" }, title),
      h("p", { id: "dialog-text" }, text),
      h("div", { class: "buttons" },
        button("Cancel", () => dialog.close(), { autofocus: true }),
        button(action, () => dialog.close("yes"), { class: "danger", "data-confirm": true })));
    dialog.addEventListener("close", () => {
      dialog.remove();
      decide(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

// Asks, and does it; false where it was not done. What came of it stands in `place`, and is told.
export async function confirmed({ title, text, action, operation, done, place }) {
  if (!(await asked(title, text, action))) return false;
  try {
    await operate(operation);
  } catch (refused) {
    result(place, `${refused.message} ${refused.remedy ?? ""}`, "bad");
    return false;
  }
  result(place, done, "good");
  return true;
}

function result(place, text, kind) {
  place.replaceChildren(...h("p", {}, text).childNodes);
  place.className = `result ${kind}`;
  place.hidden = false;
  tell(place.textContent);
}

// The question is about what is shown: with another view it is taken back.
export function dismiss() {
  document.querySelector("dialog")?.close();
}

// Where results are told.
export function resultPlace() {
  return h("p", { class: "result", hidden: true });
}
