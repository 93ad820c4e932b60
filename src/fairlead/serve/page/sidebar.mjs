// The list of sessions: search and open.

import { call } from "./api.mjs";
import { byId, el, entitle, fill, isTouched, notice } from "./dom.mjs";

/** How often the list is fetched, in milliseconds: other sessions may begin to work, or ask something. */
const REFRESH = 5_000;

export class Sidebar {
  /** `isHidden(id)` says which sessions are not listed. */
  constructor(isHidden) {
    this._isHidden = isHidden;
    this._sessions = [];
    this._cursor = null;
    this._current = null;
    this._isSearching = false;
    byId("search").addEventListener("input", () => this._search());
    byId("more").addEventListener("click", () => this._more());
    for (const id of ["new", "jobs-link"]) byId(id).addEventListener("click", () => this.toggle(false));
    byId("menu").addEventListener("click", () => this.toggle());
    byId("close-menu").addEventListener("click", () => this.toggle(false));
    byId("sidebar").addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this._isDrawer) this.toggle(false);
    });
    document.addEventListener("click", ({ target }) => {
      const isOutside = !byId("sidebar").contains(target) && !byId("menu").contains(target);
      if (isOutside && document.body.classList.contains("menu-open")) this.toggle(false);
    });
    this._waiting = null;
    this._notifies = isNotified();
    byId("notify").hidden = !("Notification" in window && isSecureContext);
    byId("notify").addEventListener("click", () => this._switchNotifications());
    this._showNotifications();
    setInterval(() => (document.hidden && !this._notifies) || this.refresh(), REFRESH);
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
    if (isOpen) byId(isTouched() ? "close-menu" : "search").focus(); // a field would open the keyboard over the list
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
      byId("jobs-link").hidden = !page.hasJobs;
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

  /** Show at once what a session does, before the list is fetched again. */
  showStatus(id, status, waiting) {
    const session = this._sessions.find((each) => each.id === id);
    if (!session || (session.status === status && Boolean(session.waiting) === waiting)) return;
    Object.assign(session, { status, waiting });
    this._draw();
  }

  /** Fetch the list if a session is missing there, or has no title yet. */
  expect(id) {
    if (!this.titleOf(id)) this.refresh();
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

  /** Tell which sessions have begun to wait for the user: in the title, by a notice, and by a notification if the user is elsewhere. */
  _tell() {
    if (this._cursor === null) return; // the list was not fetched yet
    const waiting = this._sessions.filter((session) => session.waiting);
    const count = waiting.length;
    entitle({ waiting: count });
    byId("badge").hidden = !count;
    byId("badge").textContent = count;
    byId("menu").setAttribute("aria-label", count ? `Sessions, ${count} waiting for you` : "Sessions");
    const known = this._waiting;
    this._waiting = new Set(waiting.map((session) => session.id));
    if (!known) return; // the page was just opened, and the list shows them
    for (const session of waiting.filter(({ id }) => !known.has(id))) {
      const title = session.title?.split("\n")[0].slice(0, 100) || "A session";
      const isAway = document.hidden || !document.hasFocus();
      if (isAway && this._notifies) notify(session.id, title);
      else if (session.id !== this._current) notice(`${title} waits for your answer.`, "info", null, el("a", { href: `#${session.id}` }, "Open it"));
    }
  }

  async _switchNotifications() {
    const isOn = !this._notifies && (await Notification.requestPermission()) === "granted";
    if (!this._notifies && !isOn) notice("The browser does not allow this page to show notifications. Its settings for this site change that.", "error");
    localStorage.setItem("notify", isOn ? "on" : "off");
    this._notifies = isOn;
    this._showNotifications();
  }

  _showNotifications() {
    byId("notify").setAttribute("aria-pressed", String(this._notifies));
    byId("notify-text").textContent = this._notifies ? "Notifications are on" : "Notify me";
  }

  _draw() {
    this._tell();
    const wanted = byId("search").value.toLowerCase();
    const matches = this._sessions.filter((session) => !this._isHidden(session.id) && `${session.title ?? ""} ${session.cwd}`.toLowerCase().includes(wanted));
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
    const doing = session.waiting ? "Waiting for you" : works && "Working";
    const title = session.title?.split("\n")[0] || "New session";
    return el(
      "li",
      {},
      el(
        "a",
        { href: `#${session.id}`, "data-session": session.id, "aria-current": isCurrent ? "page" : undefined, onclick: () => this.toggle(false) },
        el("span", { className: "title" }, doing && el("span", { className: session.waiting ? "working waiting" : "working" }, doing, el("span", { className: "hidden" }, ": ")), title),
        el("span", { className: "where" }, [shortFolder(session.cwd), when(session.updatedAt)].filter(Boolean).join(" · ")),
      ),
    );
  }
}

/** Whether the user wants notifications, and the browser shows them. */
function isNotified() {
  return "Notification" in window && Notification.permission === "granted" && localStorage.getItem("notify") === "on";
}

/** Show a notification of the system. Tabs that show the same session replace each other's. */
function notify(id, title) {
  try {
    const shown = new Notification(title, { body: "It waits for your answer.", tag: `fairlead-${id}`, icon: "/page/icon.svg" });
    shown.addEventListener("click", () => {
      window.focus();
      location.hash = id;
      shown.close();
    });
  } catch {
    // Some browsers allow them only in installed apps. The title of the tab has the number.
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
