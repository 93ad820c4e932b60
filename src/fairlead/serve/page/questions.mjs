// The questions of the agent: approvals of tool calls, and dialogs of extensions. The first answer of any client counts.

import { call, sessionPath } from "./api.mjs";
import { announce, el, notice } from "./dom.mjs";
import { codeBlock } from "./markdown.mjs";
import { diffBlock, reveal } from "./tools.mjs";

const LONGEST = 20_000;
const CLOSED = { answered: "Another client has answered.", expired: "It was not answered in time." };

export class Questions {
  constructor(root) {
    this._root = root;
    this._shown = new Map();
    this.session = null;
  }

  clear() {
    this._shown.clear();
    this._root.replaceChildren();
    this._root.hidden = true;
  }

  load(questions) {
    this.clear();
    questions.forEach((question) => this.show(question));
  }

  show(question) {
    if (this._shown.has(question.id)) return;
    const form = el("form", { className: "question", "aria-label": question.title });
    form.append(el("h2", {}, question.title));
    if (question.message && question.message.trim() !== reveal(question.approval?.subject ?? "").trim()) form.append(el("p", { className: "text" }, question.message));
    form.append(...this._fields(question, form));
    form.addEventListener("submit", (event) => event.preventDefault());
    this._shown.set(question.id, form);
    this._root.append(form);
    this._root.hidden = false;
    announce(`The agent asks: ${question.title}`, { urgent: true });
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
    this._root.hidden = !this._shown.size;
    if (hadFocus) (this._root.querySelector("button") ?? document.getElementById("message")).focus();
  }

  _fields(question, form) {
    const answer = (body) => this._answer(question.id, body, form);
    const button = (text, body, className = "") =>
      el("button", { type: "button", className, onclick: () => answer(typeof body === "function" ? body() : body) }, text);
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
      parts.push(codeBlock(reveal(approval.subject), isCommand ? "bash" : ""));
      const others = Object.entries(approval.arguments ?? {}).filter(([, value]) => value !== approval.subject);
      const isShown = isCommand || approval.subject.startsWith("{");
      if (others.length && !isShown) parts.push(codeBlock(reveal(shortened(JSON.stringify(Object.fromEntries(others), null, 2))), "json"));
    }
    const scope = approval.scope ? `: ${approval.scope}` : "";
    const reason = el("input", { "aria-label": "Reason for denying", placeholder: "Reason for denying (optional)" });
    parts.push(
      row(
        button("Allow once", { decision: "allow" }, "primary allow"),
        button(`Allow for this session${scope}`, { decision: "allow", forSession: true }, "allow-session"),
      ),
      row(reason, button("Deny", () => ({ decision: "deny", reason: reason.value.trim() }), "danger deny")),
    );
    return parts;
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
