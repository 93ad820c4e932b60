// The questions of the agent: approvals of tool calls, and dialogs of extensions. The first answer of any client counts.

import { call, sessionPath } from "./api.mjs";
import { announce, el, icon, isTouched, notice } from "./dom.mjs";
import { codeBlock } from "./markdown.mjs";
import { diffBlock, reveal } from "./tools.mjs";

const LONGEST = 20_000;
/** How long no key must have been pressed before one answers, in milliseconds: nobody approves by typing on. */
const QUIET = 600;
const CLOSED = { answered: "Another client has answered.", expired: "It was not answered in time." };

export class Questions {
  /** `onAsking(id, isAsking)` is called when a tool call begins and ceases to wait for the user. */
  constructor(root, onAsking) {
    this._root = root;
    this._onAsking = onAsking;
    this._shown = new Map();
    this._timer = 0;
    this._isArmed = false;
    this.session = null;
    document.addEventListener("keydown", (event) => this._key(event), true);
  }

  /** Let single keys answer when the user has pressed none for a while. */
  _arm() {
    clearTimeout(this._timer);
    this._isArmed = false;
    delete this._root.dataset.armed;
    if (!this._shown.size) return;
    this._timer = setTimeout(() => {
      this._isArmed = true;
      this._root.dataset.armed = "true";
    }, QUIET);
  }

  /** Answer with one key, if a question has the focus and not a field in it. */
  _key(event) {
    const wasArmed = this._isArmed;
    this._arm();
    const { activeElement } = document;
    const form = activeElement?.closest("#questions form");
    const isTyping = activeElement?.matches("input, textarea, select");
    if (!wasArmed || !form || isTyping || event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.key.length !== 1) return;
    const button = form.querySelector(`[aria-keyshortcuts="${CSS.escape(event.key.toUpperCase())}"]`);
    if (!button || button.disabled) return;
    event.preventDefault();
    button.click();
  }

  clear() {
    this._shown.clear();
    this._root.replaceChildren();
    this._root.hidden = true;
  }

  /** Whether the agent waits for an answer. */
  get isWaiting() {
    return this._shown.size > 0;
  }

  load(questions) {
    this.clear();
    questions.forEach((question) => this.show(question));
  }

  show(question) {
    if (this._shown.has(question.id)) return;
    const form = el("form", { className: "question", "aria-label": question.title, tabIndex: -1 });
    form.append(el("h2", {}, question.title));
    if (question.message && question.message.trim() !== reveal(question.approval?.subject ?? "").trim()) form.append(el("p", { className: "text" }, question.message));
    form.append(...this._fields(question, form));
    form.addEventListener("submit", (event) => event.preventDefault());
    this._shown.set(question.id, form);
    form.dataset.call = question.approval?.toolCallId ?? "";
    this._onAsking(form.dataset.call, true);
    this._root.append(form);
    this._root.hidden = false;
    const keys = question.kind === "approval" ? " Y allows it once, N denies it." : "";
    announce(`The agent asks: ${question.title}${keys}`, { urgent: true });
    this._arm();
    this.takeFocus();
  }

  /** Give the focus to a question that keys can answer, if the user writes nothing. */
  takeFocus() {
    const form = this._root.querySelector("form:has([aria-keyshortcuts])");
    const { activeElement } = document;
    const isFree = activeElement === document.body || (activeElement.id === "message" && !activeElement.value);
    if (form && isFree && !document.querySelector("dialog[open]")) form.focus({ preventScroll: true });
  }

  /** Close a question because the server says so: another client may have been faster. */
  closed({ id, reason }) {
    const form = this._shown.get(id);
    if (form && !form.dataset.isAnswered && CLOSED[reason]) notice(`${form.getAttribute("aria-label")} ${CLOSED[reason]}`);
    this.close(id);
  }

  close(id) {
    const form = this._shown.get(id);
    if (!form) return;
    const hadFocus = form.contains(document.activeElement) || form.dataset.hadFocus;
    form.remove();
    this._shown.delete(id);
    this._onAsking(form.dataset.call, false);
    this._root.hidden = !this._shown.size;
    const next = this._root.querySelector("form") ?? (isTouched() ? null : document.getElementById("message"));
    if (hadFocus) next?.focus();
  }

  _fields(question, form) {
    const answer = (body) => this._answer(question.id, body, form);
    const button = (text, body, className = "", key = "", picture = "") =>
      el(
        "button",
        { type: "button", className, "aria-keyshortcuts": key || undefined, onclick: () => answer(typeof body === "function" ? body() : body) },
        picture && icon(picture),
        text,
        key && el("kbd", { "aria-hidden": "true" }, key),
      );
    const skip = button("Skip", { cancelled: true }, "quiet");
    switch (question.kind) {
      case "approval":
        return this._approval(question.approval, button);
      case "confirm":
        return [row(button("Yes", { confirmed: true }, "primary"), button("No", { confirmed: false }))];
      case "select":
        return [row(question.options.map((option) => button(option, { value: option })), skip)];
      default: {
        const isLong = question.kind === "editor";
        const field = el(isLong ? "textarea" : "input", {
          "aria-label": question.title,
          value: question.prefill ?? "",
          placeholder: question.placeholder ?? "",
          ...(isLong ? { rows: 6 } : {}),
        });
        form.addEventListener("submit", () => answer({ value: field.value }));
        return [field, row(el("button", { className: "primary" }, "Send"), skip)];
      }
    }
  }

  _approval(approval, button) {
    const parts = [];
    if (approval.subagentId) parts.push(el("p", {}, `Asked by the sub-agent ${approval.subagentId}.`));
    if (approval.diff) parts.push(diffBlock(approval.diff, "What would change"));
    else if (approval.subject) {
      const isCommand = approval.arguments?.command !== undefined;
      const subject = reveal(approval.subject);
      parts.push(isCommand ? codeBlock(subject, "bash") : codeBlock(subject.replaceAll("\n", "\\u{a}"), "")); // a name has one line
      const others = Object.entries(approval.arguments ?? {}).filter(([, value]) => value !== approval.subject);
      const isShown = isCommand || approval.subject.startsWith("{");
      if (others.length && !isShown) parts.push(codeBlock(reveal(shortened(JSON.stringify(Object.fromEntries(others), null, 2))), "json"));
    }
    const reason = el("input", { className: "reason", "aria-label": "Reason for denying", placeholder: "Reason for denying (optional)" });
    parts.push(
      row(
        button("Allow once", { decision: "allow" }, "primary allow", "Y", "check"),
        button("Deny", () => ({ decision: "deny", reason: reason.value.trim() }), "danger deny", "N", "close"),
        button(`Allow for this session${approval.scope ? `: ${approval.scope}` : ""}`, { decision: "allow", forSession: true }, "allow-session", "A"),
      ),
      el("details", {}, el("summary", {}, approval.rules?.length ? "Always allow, or deny with a reason" : "Deny with a reason"), this._always(approval, button), row(reason)),
    );
    return parts;
  }

  /** The rule that an answer can write: its pattern, which the user can edit, and where it holds. */
  _always(approval, button) {
    if (!approval.rules?.length) return null;
    const list = el("datalist", { id: `rules-${approval.toolCallId}` }, ...approval.rules.map((value) => el("option", { value })));
    const pattern = el("input", { className: "rule", "aria-label": `Rule for ${approval.toolName}`, value: approval.rules[0] });
    pattern.setAttribute("list", list.id);
    const place = el(
      "select",
      { "aria-label": "Where the rule holds" },
      el("option", { value: "project" }, `in ${reveal(approval.project)}`),
      el("option", { value: "everywhere" }, "in every project"),
    );
    const body = () => ({ decision: "allow", rule: pattern.value.trim(), everywhere: place.value === "everywhere" });
    return row(pattern, list, place, button("Always allow", body, "allow-always"));
  }

  async _answer(id, body, form) {
    if (form.contains(document.activeElement)) form.dataset.hadFocus = "true"; // a button that is disabled loses it
    form.querySelectorAll("button").forEach((each) => (each.disabled = true));
    form.dataset.isAnswered = "true";
    try {
      await call("POST", sessionPath(this.session, "questions", encodeURIComponent(id)), body);
      this.close(id);
    } catch (error) {
      if (error.status === 409 || error.status === 404) this.close(id);
      else {
        delete form.dataset.isAnswered;
        form.querySelectorAll("button").forEach((each) => (each.disabled = false));
      }
      notice(error.message, "error");
    }
  }
}

function shortened(text) {
  if (text.length <= LONGEST) return text;
  const half = LONGEST / 2;
  return `${text.slice(0, half)}\n… ${text.length - LONGEST} characters are left out here …\n${text.slice(-half)}`;
}

function row(...children) {
  return el("div", { className: "row" }, ...children);
}
