// The tree of a session: all entries and branches, moves to any of them, and forks.

import { call, sessionPath } from "./api.mjs";
import { byId, el, fill, notice } from "./dom.mjs";

const NAMES = { user: "You", assistant: "Assistant", toolResult: "Tool", compaction: "Summary", branch_summary: "Summary" };

export class TreeDialog {
  /**
   * `onFork(id, text)` is called with the new session and what its user may send again, `onMove(text)` after a move within the
   * session.
   */
  constructor(onFork, onMove) {
    this._onFork = onFork;
    this._onMove = onMove;
    byId("close-tree").addEventListener("click", () => byId("tree-dialog").close());
  }

  async open(session) {
    this._session = session;
    try {
      this._draw(await call("GET", sessionPath(session, "tree")));
      byId("tree-dialog").showModal();
      byId("tree-list").querySelector("[aria-current]")?.scrollIntoView({ block: "center" });
    } catch (error) {
      notice(error.message, "error");
    }
  }

  _draw(tree) {
    const children = new Map();
    for (const entry of tree.entries) {
      const parent = entry.parentId ?? null;
      if (children.has(parent)) children.get(parent).push(entry);
      else children.set(parent, [entry]);
    }
    const path = new Set();
    const byEntry = new Map(tree.entries.map((entry) => [entry.id, entry]));
    for (let at = byEntry.get(tree.leafId); at; at = byEntry.get(at.parentId)) path.add(at.id);
    fill(byId("tree-list"), this._branch(children.get(null) ?? [], children, path, tree.leafId));
    byId("tree-empty").hidden = tree.entries.length > 0;
  }

  /** Make the items from some entries on. A line without branches stays flat; each branch is a list of its own. */
  _branch(entries, children, path, leaf) {
    const items = [];
    let next = entries;
    while (next.length === 1) {
      items.push(this._item(next[0], path, leaf));
      next = children.get(next[0].id) ?? [];
    }
    for (const entry of next) {
      const list = this._branch([entry], children, path, leaf);
      const label = `Branch: ${entry.text.slice(0, 60)}`;
      items.push(el("li", { className: "branch" }, el("ul", { "aria-label": label }, list)));
    }
    return items;
  }

  _item(entry, path, leaf) {
    const name = NAMES[entry.kind] ?? entry.kind;
    const isUser = entry.kind === "user";
    const about = `${name}, ${entry.text.slice(0, 60)}`;
    const button = (text, label, className, work) =>
      el("button", { type: "button", className, "aria-label": `${label}: ${about}`, onclick: () => this._do(() => work(entry)) }, text);
    const isHere = entry.id === leaf && !isUser;
    const move = isUser ? button("Edit", "Edit", "move", (each) => this._move(each)) : button("Go", "Continue after", "move", (each) => this._move(each));
    const fork = button("Fork", isUser ? "Edit in a new session" : "Fork after", "fork", (each) => this._fork(each));
    const text = el("span", { className: "tree-text" }, el("strong", {}, name), ` ${entry.text}`);
    const marks = { className: path.has(entry.id) ? "on-path" : "", "aria-current": entry.id === leaf ? "true" : undefined };
    return el("li", marks, el("div", { className: "tree-row" }, text, isHere ? null : move, fork));
  }

  async _fork(entry) {
    const position = entry.kind === "user" ? "before" : "at";
    const forked = await call("POST", sessionPath(this._session, "fork"), { entryId: entry.id, position });
    byId("tree-dialog").close();
    this._onFork(forked.session.id, forked.text ?? "");
  }

  async _move(entry) {
    const summarize = byId("tree-summarize").checked;
    const moved = await call("POST", sessionPath(this._session, "move"), { entryId: entry.id, summarize });
    byId("tree-dialog").close();
    this._onMove(moved.text ?? "");
  }

  /** Do something with an entry. It may take long, and can be done once at a time. */
  async _do(work) {
    if (this._isBusy) return;
    this._isBusy = true;
    byId("tree-dialog").setAttribute("aria-busy", "true");
    try {
      await work();
    } catch (error) {
      byId("tree-dialog").close();
      notice(error.message, "error");
    } finally {
      this._isBusy = false;
      byId("tree-dialog").removeAttribute("aria-busy");
    }
  }
}
