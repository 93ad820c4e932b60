// What is known about the session and can be changed: name, model, thinking, approval, context and cost.

import { call, sessionPath } from "./api.mjs";
import { byId, el, entitle, notice } from "./dom.mjs";

const LEVELS = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];

export class Panel {
  /** `titleOf(id)` returns the title of a session without a name. */
  constructor({ onDeleted, onTree, titleOf }) {
    this._titleOf = titleOf;
    this._session = null;
    this._models = [];
    byId("settings").addEventListener("click", () => {
      const isOpen = byId("panel").classList.toggle("open");
      byId("settings").setAttribute("aria-expanded", String(isOpen));
    });
    const change = (id, name) => byId(id).addEventListener("change", (event) => this._change({ [name]: event.target.value }));
    change("model", "model");
    change("thinking", "thinking");
    change("approval", "approval");
    byId("tree").addEventListener("click", onTree);
    byId("rename").addEventListener("click", () => this._rename());
    byId("cancel-rename").addEventListener("click", () => byId("rename-dialog").close(""));
    byId("compact").addEventListener("click", () => this._compact());
    byId("delete").addEventListener("click", () => this._delete(onDeleted));
    const danger = byId("danger");
    danger.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !danger.open) return;
      danger.open = false;
      danger.querySelector("summary").focus();
    });
    document.addEventListener("click", ({ target }) => {
      if (!danger.contains(target)) danger.open = false;
    });
  }

  set models(models) {
    this._models = models;
    if (this._session) this.show(this._session);
  }

  show(session) {
    this._session = session;
    byId("where").textContent = session.cwd;
    this.showTitle();
    this._showModels(session.model);
    const levels = LEVELS.filter((level) => level === session.thinking || this._hasLevel(session.model, level));
    fill(byId("thinking"), levels.map((level) => [level, level]), session.thinking);
    byId("approval").value = session.approval;
    const { tokens, window } = session.context ?? {};
    const known = tokens !== undefined && tokens !== null && window;
    byId("context").value = known ? Math.min(1, tokens / window) : 0;
    byId("context-text").textContent = known ? `${Math.round((100 * tokens) / window)} % of ${short(window)}` : "–";
    byId("cost").textContent = `$${(session.cost ?? 0).toFixed(session.cost >= 1 || !session.cost ? 2 : 4)}`;
    this.onShown?.(session);
  }

  showTitle() {
    if (!this._session) return;
    const title = this._session.name || this._titleOf(this._session.id) || "New session";
    byId("title").textContent = title;
    entitle({ title: `${title} – fairlead` });
  }

  _showModels(model) {
    const names = this._models.map((each) => [`${each.provider}/${each.id}`, each.name || each.id]);
    const current = model ? `${model.provider}/${model.id}` : "";
    if (!names.some(([value]) => value === current)) names.unshift([current, model ? model.name || model.id : "No model"]);
    fill(byId("model"), names, current);
  }

  _hasLevel(model, level) {
    if (!model?.reasoning) return level === "off";
    return model.thinkingLevelMap?.[level] !== null;
  }

  /** Fetch the state again. Several calls in a short time make one request. */
  refresh() {
    const id = this._session?.id;
    this._timer ??= setTimeout(async () => {
      this._timer = null;
      try {
        const snapshot = await call("GET", `${sessionPath(id)}?messages=0`);
        if (this._session?.id === id) this.show(snapshot.session);
      } catch {
        // The next refresh, or a snapshot after a lost connection, brings it.
      }
    }, 200);
  }

  async _change(changes) {
    try {
      this.show(await call("PATCH", sessionPath(this._session.id), changes));
    } catch (error) {
      notice(error.message, "error");
      this.show(this._session);
    }
  }

  async _rename() {
    const name = await ask("rename-dialog", "name", this._session.name ?? "");
    if (name?.trim()) this._change({ name: name.trim() });
  }

  async _compact() {
    byId("compact").disabled = true;
    try {
      await call("POST", sessionPath(this._session.id, "compact"), {});
    } catch (error) {
      notice(error.message, "error");
    } finally {
      byId("compact").disabled = false;
    }
  }

  async _delete(onDeleted) {
    byId("danger").open = false;
    byId("delete-title").textContent = byId("title").textContent;
    if ((await ask("delete-dialog", null)) === null) return;
    try {
      await call("DELETE", sessionPath(this._session.id));
      onDeleted(this._session.id);
    } catch (error) {
      notice(error.message, "error");
    }
  }
}

/** Open a dialog and return the text of its field, or null if it was cancelled. */
function ask(id, field, value = "") {
  const dialog = byId(id);
  if (field) byId(field).value = value;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((done) => {
    dialog.addEventListener("close", () => done(dialog.returnValue === "ok" ? (field ? byId(field).value : "ok") : null), { once: true });
  });
}

/** Fill a select, unless it has these options already: the user may have it open. */
function fill(select, options, value) {
  const wanted = JSON.stringify(options);
  if (select.dataset.options !== wanted) {
    select.dataset.options = wanted;
    select.replaceChildren(...options.map(([each, text]) => el("option", { value: each }, text)));
  }
  select.value = value;
}

function short(number) {
  return number >= 1e6 ? `${number / 1e6}M` : `${Math.round(number / 1000)}k`;
}
