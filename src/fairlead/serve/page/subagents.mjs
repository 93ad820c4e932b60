// The sub-agents that work for the session: what each of them is doing.

import { announce, el } from "./dom.mjs";

export class Subagents {
  constructor(root) {
    this._root = root;
    this._items = new Map();
  }

  /** Show these instead of what there was. */
  load(working) {
    this._items.clear();
    this._root.replaceChildren();
    working.forEach((each) => this.progress(each));
    this._root.hidden = !this._items.size;
  }

  /** Show what one has done so far. */
  progress(activity) {
    if (!["pending", "running"].includes(activity.status)) {
      this._remove(activity.id);
      return;
    }
    let item = this._items.get(activity.id);
    if (!item) {
      item = el("li", {});
      this._items.set(activity.id, item);
      this._root.append(item);
      this._root.hidden = false;
    }
    const last = activity.recentTools.at(-1);
    const doing = activity.status === "pending" ? "waits" : last ? `${last.tool} ${last.args}` : "thinks";
    item.replaceChildren(
      el("span", { className: "spinner", "aria-hidden": "true" }),
      el("strong", {}, activity.agent),
      el("span", { className: "subagent-about" }, activity.description || activity.assignment.slice(0, 100)),
      el("span", { className: "subagent-doing faint" }, doing.slice(0, 200)),
      el("span", { className: "faint" }, `${activity.toolCount} ${activity.toolCount === 1 ? "call" : "calls"}, ${Math.round(activity.durationMs / 1000)} s`),
    );
  }

  /** Remove one that has ended. */
  end({ id, agent, description, status }) {
    this._remove(id);
    announce(`The sub-agent ${agent} (${description}) has ${status === "completed" ? "finished" : status}.`);
  }

  _remove(id) {
    this._items.get(id)?.remove();
    this._items.delete(id);
    this._root.hidden = !this._items.size;
  }
}
