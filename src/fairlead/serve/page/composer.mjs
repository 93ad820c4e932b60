// Where the user writes: the first message of a session, those that follow, images, steering and queued messages while a run works.
// A run that was cut off is resumed here.

import { call, persist, request, sessionPath } from "./api.mjs";
import { Completion } from "./completion.mjs";
import { announce, byId, el, icon, isTouched, notice, randomId } from "./dom.mjs";

const IMAGE = /^image\/(png|jpeg|gif|webp)$/;
const LARGEST_IMAGE = 5 << 20;
/** Commands of the page: each presses the button with its name. */
const COMMANDS = { "/compact": "Summarise older messages", "/new": "Begin a new session", "/rename": "Name the session", "/tree": "Show all branches of the session" };

export class Composer {
  /** `onBegun(id)` is called with a session that the first message began. */
  constructor(onBegun) {
    this._onBegun = onBegun;
    this.session = null;
    this._begun = null;
    this._images = [];
    this._field = byId("message");
    this._isRunning = false;
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this._send("steer");
    });
    byId("queue").addEventListener("click", () => this._send("followUp"));
    byId("stop").addEventListener("click", () => this.abort());
    byId("resume").addEventListener("click", () => this._resume());
    byId("take-back").addEventListener("click", () => this._takeBack());
    byId("attach").addEventListener("click", () => byId("files").click());
    byId("files").addEventListener("change", (event) => {
      this._attach(event.target.files);
      event.target.value = "";
    });
    this._completion = new Completion(this._field, (text) => this._complete(text));
    this._field.addEventListener("keydown", (event) => this._key(event));
    this._field.addEventListener("input", () => {
      sessionStorage.setItem(this._draftKey, this._field.value);
      this._grow();
    });
    this._field.addEventListener("paste", (event) => this._attach(event.clipboardData.files));
    addEventListener("pagehide", () => this._discard());
    const main = byId("main");
    main.addEventListener("dragover", (event) => event.preventDefault());
    main.addEventListener("drop", (event) => {
      event.preventDefault();
      this._attach(event.dataTransfer.files);
    });
  }

  /** Write to a session. Without one, the first message begins it. */
  open(session, draft = "") {
    if (session !== this._begun?.id) this._discard();
    this._begun = null;
    this.session = session;
    this._completion.close();
    byId("start").hidden = Boolean(session);
    this._field.value = draft || (sessionStorage.getItem(this._draftKey) ?? "");
    this._images = [];
    this._showImages();
    this._grow();
    this.queue([], []);
    this.isInterrupted = false;
  }

  /** Where the tab keeps what is written and not sent, for a reload. */
  get _draftKey() {
    return `draft ${this.session ?? "new"}`;
  }

  /** The models that a session may begin with. */
  set models(models) {
    const options = models.map((model) => el("option", { value: `${model.provider}/${model.id}` }, model.name || model.id));
    byId("start-model").replaceChildren(el("option", { value: "" }, "Default"), ...options);
  }

  /** Return the session to write to. If there is none, begin it as the user chose, once. */
  async _begin() {
    if (this.session) return this.session;
    const wanted = { cwd: byId("folder").value.trim(), model: byId("start-model").value, approval: byId("start-approval").value };
    const body = Object.fromEntries(Object.entries(wanted).filter(([, value]) => value));
    const key = JSON.stringify(body);
    if (this._begun?.key !== key) {
      this._discard();
      const begun = { key, id: null };
      begun.coming = call("POST", "/v1/sessions", body).then(
        (session) => (begun.id = session.id),
        (error) => {
          if (this._begun === begun) this._begun = null;
          throw error;
        },
      );
      this._begun = begun;
    }
    return this._begun.coming;
  }

  /** The session that was begun for suggestions and has got no message yet. */
  get begun() {
    return this._begun?.isSent ? null : (this._begun?.id ?? null);
  }

  /** Delete that session. */
  _discard() {
    if (!this._begun?.isSent) this._begun?.coming.then((id) => request(sessionPath(id), { method: "DELETE", keepalive: true })).catch(() => {});
    this._begun = null;
  }

  set isRunning(value) {
    this._isRunning = value;
    byId("send-text").textContent = value ? "Steer" : "Send";
    byId("send").title = value ? "The model gets it in its next turn" : "";
    byId("queue").hidden = !value;
    byId("stop").hidden = !value;
  }

  /** Offer to continue the last run, or stop offering it. */
  set isInterrupted(value) {
    const section = byId("interrupted");
    const isOffered = value && !this._isRunning;
    if (section.hidden === !isOffered) return;
    const hadFocus = section.contains(document.activeElement);
    section.hidden = !isOffered;
    if (isOffered) announce("The last run was interrupted. The button Resume continues it.");
    else if (hadFocus) this._field.focus();
  }

  setText(text) {
    if (!this._field.value) this._field.value = text;
    this._grow();
  }

  /** Show what waits. */
  queue(steering, followUp) {
    const item = (kind) => (text) => el("li", {}, el("span", { className: "kind" }, kind), ` ${text}`);
    byId("waiting-list").replaceChildren(...steering.map(item("Next turn:")), ...followUp.map(item("Queued:")));
    byId("waiting").hidden = !steering.length && !followUp.length;
  }

  /** Remove what waits, and write it into the field again. */
  async _takeBack() {
    try {
      const { steering, followUp } = await call("DELETE", sessionPath(this.session, "queue"));
      this._field.value = [this._field.value, ...steering, ...followUp].filter((text) => text.trim()).join("\n\n");
      this._field.dispatchEvent(new Event("input"));
      announce("The messages are in the field again.");
    } catch (error) {
      notice(error.message, "error");
    } finally {
      this._field.focus();
    }
  }

  async abort() {
    byId("stop").disabled = true;
    try {
      await call("POST", sessionPath(this.session, "abort"));
      announce("Stopped.");
    } catch (error) {
      notice(error.message, "error");
    } finally {
      byId("stop").disabled = false;
      this._field.focus();
    }
  }

  async _resume() {
    byId("resume").disabled = true;
    try {
      await call("POST", sessionPath(this.session, "resume"));
      this.isInterrupted = false;
      this.onSent?.();
    } catch (error) {
      notice(error.message, "error");
    } finally {
      byId("resume").disabled = false;
      (byId("interrupted").hidden ? this._field : byId("resume")).focus(); // a disabled button loses the focus
    }
  }

  _key(event) {
    if (this._completion.key(event)) return;
    if (event.key === "Escape" && this._isRunning) this.abort();
    if (event.key !== "Enter" || event.isComposing || event.shiftKey) return;
    if (isTouched() && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    this._send(event.altKey ? "followUp" : "steer");
  }

  /** Return suggestions: those of the server, and commands of the page. */
  async _complete(text) {
    const found = await call("POST", sessionPath(await this._begin(), "complete"), { text });
    if (!this.session || found.kind !== "command") return found;
    const own = Object.keys(COMMANDS).filter((name) => name.startsWith(text)).map((name) => ({ text: name, label: name, detail: COMMANDS[name] }));
    return { ...found, items: [...own, ...(found.items ?? []).filter(({ label }) => !Object.hasOwn(COMMANDS, label))] };
  }

  async _send(behavior) {
    const text = this._field.value;
    if ((!text.trim() && !this._images.length) || this._isSending) return;
    if (this.session && Object.hasOwn(COMMANDS, text.trim())) {
      this._field.value = "";
      this._field.dispatchEvent(new Event("input"));
      byId(text.trim().slice(1)).click();
      return;
    }
    this._isSending = true;
    const images = this._images.map(({ data, mimeType }) => ({ type: "image", data, mimeType }));
    this._completion.close();
    const session = this.session;
    const draftKey = this._draftKey;
    byId("send").disabled = true;
    const body = { text, id: randomId(), behavior, ...(images.length ? { images } : {}) };
    let told = false;
    this.onSending?.(true);
    try {
      const id = await this._begin();
      if (this._begun) this._begun.isSent = true; // from now on the session may have the message, and is never deleted
      const { status } = await persist("POST", sessionPath(id, "prompt"), body, () => {
        if (!told) notice("The server cannot be reached. The message is sent when it can.");
        told = true;
      });
      if (sessionStorage.getItem(draftKey) === text) sessionStorage.removeItem(draftKey);
      if (session === this.session) {
        if (this._field.value === text) this._field.value = "";
        this._images = [];
        this._showImages();
        this._grow();
        this.onSent?.(status);
        if (!session) this._onBegun(id);
      }
    } catch (error) {
      notice(error.message, "error");
    } finally {
      this._isSending = false;
      byId("send").disabled = false;
      this.onSending?.(false);
    }
  }

  _grow() {
    this._field.style.height = "auto";
    this._field.style.height = `${Math.min(this._field.scrollHeight + 2, innerHeight * 0.4)}px`;
  }

  async _attach(files) {
    for (const file of files) {
      if (!IMAGE.test(file.type)) notice(`${file.name} is not an image that models read (PNG, JPEG, GIF or WebP).`, "error");
      else if (file.size > LARGEST_IMAGE) notice(`${file.name} is larger than 5 MB.`, "error");
      else {
        const url = await new Promise((done, failed) => {
          const reader = new FileReader();
          reader.onload = () => done(reader.result);
          reader.onerror = () => failed(reader.error);
          reader.readAsDataURL(file);
        });
        this._images.push({ name: file.name, mimeType: file.type, data: url.slice(url.indexOf(",") + 1), url });
        announce(`${file.name} attached.`);
      }
    }
    this._showImages();
  }

  _showImages() {
    const shown = this._images.map((image) =>
      el(
        "li",
        {},
        el("img", { src: image.url, alt: image.name }),
        el("button", {
          type: "button",
          className: "quiet",
          "aria-label": `Remove ${image.name}`,
          onclick: () => {
            this._images = this._images.filter((each) => each !== image);
            this._showImages();
            byId("attach").focus();
          },
        }, icon("close")),
      ),
    );
    byId("attachments").replaceChildren(...shown);
    byId("attachments").hidden = !shown.length;
  }
}
