// Elements. Whatever a text says, it stays text: names come from strangers. What a browser would hide of it, or be led by, is written out.

const SVG = "http://www.w3.org/2000/svg";

// Characters that change how others are shown, or are not shown at all: those that commands write out, too.
const OBEYED = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/gu;

// A text for people, with such characters as \u{202e}.
export function visible(text) {
  return String(text).replace(OBEYED, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);
}

// A name within a sentence: in whichever direction it is written, the rest keeps its own.
export function named(name) {
  return h("bdi", {}, name);
}

// Makes an element with attributes (`on` has listeners) and children: elements and texts. What is null is left out.
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

// The same for drawings.
export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (value !== null && value !== false && value !== undefined) {
      element.setAttribute(name, value === true ? "" : name === "aria-label" ? visible(value) : String(value));
    }
  }
  const there = children.flat(2).filter((child) => child !== null && child !== undefined);
  element.append(...there.map((child) => (child instanceof Node ? child : visible(child))));
  return element;
}

// Changes a text where it is another one, so that nothing is read out or selected anew for nothing.
export function say(element, text) {
  const wanted = visible(text);
  if (element.textContent !== wanted) element.textContent = wanted;
  return element;
}

export function show(element, isShown) {
  if (element.hidden === isShown) element.hidden = !isShown;
  return element;
}

// Tells who listens to the page, politely.
export function tell(text) {
  const said = document.getElementById("said");
  said.textContent = "";
  requestAnimationFrame(() => { said.textContent = text; });
}

// A heading of the view, which gets the focus when the view is entered.
export function heading(...text) {
  return h("h1", { tabindex: "-1" }, text);
}

// A button that says what it does.
export function button(text, action, attributes = {}) {
  return h("button", { type: "button", ...attributes, on: { click: action } }, text);
}

// Names and values, which change in place.
export class Facts {
  constructor(...names) {
    this.values = new Map(names.map((name) => [name, h("dd")]));
    const pairs = [...this.values].map(([name, value]) => h("div", {}, h("dt", {}, name), value));
    this.element = h("dl", { class: "facts" }, pairs);
  }

  set(name, text, kind = "") {
    const value = this.values.get(name);
    say(value, text);
    value.className = kind;
  }
}
