// Suggests files after `@`, and slash commands and their arguments, while the user writes a message. The server knows them.

import { announce, byId, el } from "./dom.mjs";

/** How much of the text before the cursor the server wants to see. */
const LONGEST = 4_000;
/** Whether the text may ask for suggestions. The server decides. */
const MAY_ASK = /(?:^|\s)@(?:"[^"\n]*|[^\s"]*)$|^\/\S*(?: [^\n]*)?$/;

export class Completion {
  /** `fetchFor(text)` returns the suggestions for the text before the cursor, as the server gives them. */
  constructor(field, fetchFor) {
    this._field = field;
    this._fetchFor = fetchFor;
    this._menu = byId("suggestions");
    this._items = [];
    this._asked = null;
    this._isAsking = false;
    field.addEventListener("input", () => this.ask());
    field.addEventListener("click", () => this.close());
    field.addEventListener("blur", () => this.close());
    // Choosing must not take the focus, which on a phone would close the keyboard.
    this._menu.addEventListener("pointerdown", (event) => event.preventDefault());
    this._menu.addEventListener("click", ({ target }) => {
      const index = [...this._menu.children].indexOf(target.closest("li"));
      if (index >= 0) this._choose(index);
    });
  }

  get isOpen() {
    return !this._menu.hidden;
  }

  /** Ask the server for suggestions, one request at a time. */
  async ask() {
    const before = this._before();
    this._asked = before !== null && MAY_ASK.test(before) ? before : null;
    if (this._asked === null) this.close();
    if (this._isAsking) return;
    this._isAsking = true;
    try {
      while (this._asked !== null) {
        const asked = this._asked;
        this._asked = null;
        const found = await this._fetchFor(asked).catch(() => null); // suggestions are not worth a notice
        if (this._asked === null && this._before() === asked && document.activeElement === this._field) this._show(found);
      }
    } finally {
      this._isAsking = false;
    }
  }

  /** Return the text before the cursor; null if text is selected. A text that begins earlier has no command in it. */
  _before() {
    const { selectionStart, selectionEnd, value } = this._field;
    if (selectionStart !== selectionEnd) return null;
    const before = value.slice(Math.max(0, selectionStart - LONGEST), selectionStart);
    return selectionStart > LONGEST ? before.replace(/^\S*/, "") : before;
  }

  _show(found) {
    const items = found?.items ?? [];
    const typed = this._before();
    // What is already written in full needs no suggestion, so that Enter sends it.
    if (!items.length || (items.length === 1 && found.kind !== "file" && typed.endsWith(items[0].text.trimEnd()))) {
      this.close();
      return;
    }
    this._items = items;
    this._kind = found.kind;
    this._replaces = found.replaces ?? 0;
    this._hasMoved = false;
    const options = items.map((item, index) =>
      el("li", { role: "option", id: `suggestion-${index}` }, el("span", { className: "label" }, item.label || item.text), item.detail && el("span", { className: "faint" }, item.detail)),
    );
    this._menu.replaceChildren(...options);
    const wasOpen = this.isOpen;
    this._menu.hidden = false;
    this._field.setAttribute("aria-controls", this._menu.id);
    this._select(0);
    if (!wasOpen) announce(`${items.length} ${items.length === 1 ? "suggestion" : "suggestions"}. The arrow keys choose, Tab inserts.`);
  }

  close() {
    this._asked = null;
    if (!this.isOpen) return;
    this._menu.hidden = true;
    this._field.removeAttribute("aria-controls");
    this._field.removeAttribute("aria-activedescendant");
  }

  _select(index) {
    this._selected = index;
    [...this._menu.children].forEach((each, at) => each.setAttribute("aria-selected", String(at === index)));
    this._menu.children[index].scrollIntoView({ block: "nearest" });
    this._field.setAttribute("aria-activedescendant", `suggestion-${index}`);
  }

  /** Handle a key in the field, and return whether it was for the menu. */
  key(event) {
    if (!this.isOpen || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return false;
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move) {
      this._hasMoved = true;
      this._select((this._selected + move + this._items.length) % this._items.length);
    } else if (event.key === "Escape") this.close();
    else if (event.key === "Tab" && !event.shiftKey) this._choose(this._selected);
    // Arguments are suggested unasked: Enter sends the message unless the user has moved to one of them.
    else if (event.key === "Enter" && !event.shiftKey && (this._kind !== "argument" || this._hasMoved)) this._choose(this._selected);
    else return false;
    event.preventDefault();
    return true;
  }

  _choose(index) {
    const at = this._field.selectionStart;
    this.close();
    this._field.setRangeText(this._items[index].text, Math.max(0, at - this._replaces), at, "end");
    this._field.dispatchEvent(new Event("input")); // a directory or a command may continue
  }
}
