// The list of sessions: search, open, begin.

import { call } from "./api.mjs";
import { byId, el, fill, notice } from "./dom.mjs";

export class Sidebar {
  /** `onOpen(id)` is called for a session that the user begins. */
  constructor(onOpen) {
    this._onOpen = onOpen;
    this._sessions = [];
    this._cursor = null;
    this._current = null;
    this._isSearching = false;
    byId("search").addEventListener("input", () => this._search());
    byId("more").addEventListener("click", () => this._more());
    byId("new-session").addEventListener("submit", (event) => {
      event.preventDefault();
      this._begin();
    });
    byId("menu").addEventListener("click", () => this.toggle());
    byId("close-menu").addEventListener("click", () => this.toggle(false));
    byId("sidebar").addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this._isDrawer) this.toggle(false);
    });
    document.addEventListener("click", ({ target }) => {
      const isOutside = !byId("sidebar").contains(target) && !byId("menu").contains(target);
      if (isOutside && document.body.classList.contains("menu-open")) this.toggle(false);
    });
    setInterval(() => document.hidden || this.refresh(), 15_000);
    matchMedia("(max-width: 50rem)").addEventListener("change", () => this.toggle(false));
    this.toggle(false);
  }

  get _isDrawer() {
    return matchMedia("(max-width: 50rem)").matches;
  }

  /** Open or close the list on a narrow screen, where it covers the page. */
  toggle(isOpen = !document.body.classList.contains("menu-open")) {
    const wasOpen = document.body.classList.contains("menu-open");
    document.body.classList.toggle("menu-open", isOpen);
    byId("menu").setAttribute("aria-expanded", String(isOpen));
    byId("sidebar").inert = this._isDrawer && !isOpen;
    byId("main").inert = this._isDrawer && isOpen;
    if (isOpen) byId("search").focus();
    else if (wasOpen) byId("menu").focus();
  }

  set current(id) {
    this._current = id;
    this._draw();
  }

  /** Fetch the newest sessions. Those of later pages stay. */
  async refresh() {
    try {
      const page = await call("GET", "/v1/sessions");
      const fresh = new Set(page.sessions.map((session) => session.id));
      if (this._cursor === null) this._cursor = page.nextCursor ?? "";
      const known = page.nextCursor ? this._sessions.filter((session) => !fresh.has(session.id)) : [];
      this._sessions = [...page.sessions, ...known];
      this._draw();
      this.onRefreshed?.();
    } catch {
      // The connection of the open session shows that the server is away.
    }
  }

  /** Remove a session that was deleted. */
  forget(id) {
    this._sessions = this._sessions.filter((session) => session.id !== id);
    this._draw();
  }

  titleOf(id) {
    return this._sessions.find((session) => session.id === id)?.title?.split("\n")[0];
  }

  async _more() {
    if (!this._cursor) return;
    const page = await call("GET", `/v1/sessions?cursor=${encodeURIComponent(this._cursor)}`);
    const known = new Set(this._sessions.map((session) => session.id));
    this._sessions.push(...page.sessions.filter((session) => !known.has(session.id)));
    this._cursor = page.nextCursor ?? "";
    this._draw();
  }

  async _search() {
    this._draw();
    if (this._isSearching) return; // the search that runs looks for what the field holds
    this._isSearching = true;
    try {
      while (byId("search").value && this._cursor) await this._more();
    } catch {
      // The connection of the open session shows that the server is away.
    } finally {
      this._isSearching = false;
    }
  }

  _draw() {
    const wanted = byId("search").value.toLowerCase();
    const matches = this._sessions.filter((session) => `${session.title ?? ""} ${session.cwd}`.toLowerCase().includes(wanted));
    const focused = document.activeElement?.dataset?.session;
    fill(byId("sessions"), matches.map((session) => this._item(session)));
    if (focused) byId("sessions").querySelector(`[data-session="${CSS.escape(focused)}"]`)?.focus();
    byId("no-sessions").hidden = matches.length > 0;
    byId("more").hidden = !this._cursor;
    const folders = new Set(this._sessions.map((session) => session.cwd));
    fill(byId("folders"), [...folders].map((folder) => el("option", { value: folder })));
  }

  _item(session) {
    const isCurrent = session.id === this._current;
    const works = session.status === "running" || session.status === "compacting";
    const title = session.title?.split("\n")[0] || "New session";
    return el(
      "li",
      {},
      el(
        "a",
        { href: `#${session.id}`, "data-session": session.id, "aria-current": isCurrent ? "page" : undefined, onclick: () => this.toggle(false) },
        el("span", { className: "title" }, works && el("span", { className: "working" }, "Working: "), title),
        el("span", { className: "where" }, [shortFolder(session.cwd), when(session.updatedAt)].filter(Boolean).join(" · ")),
      ),
    );
  }

  async _begin() {
    const cwd = byId("folder").value.trim();
    byId("begin").disabled = true;
    try {
      const session = await call("POST", "/v1/sessions", cwd ? { cwd } : {});
      this.toggle(false);
      this._onOpen(session.id);
      this.refresh();
    } catch (error) {
      notice(error.message, "error");
    } finally {
      byId("begin").disabled = false;
    }
  }
}

function shortFolder(path) {
  return path.split(/[\\/]/).filter(Boolean).slice(-2).join("/") || path;
}

function when(text) {
  if (!text) return "";
  const date = new Date(text);
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : date.toLocaleDateString();
}
