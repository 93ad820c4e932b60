// Where the user writes: messages, images, steering and queued messages while a run works. A run that was cut off is resumed here.

import { call, persist, sessionPath } from "./api.mjs";
import { announce, byId, el, notice, randomId } from "./dom.mjs";

const IMAGE = /^image\/(png|jpeg|gif|webp)$/;
const LARGEST_IMAGE = 5 << 20;

export class Composer {
  constructor() {
    this.session = null;
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
    this._field.addEventListener("keydown", (event) => this._key(event));
    this._field.addEventListener("input", () => {
      sessionStorage.setItem(this._draftKey, this._field.value);
      this._grow();
    });
    this._field.addEventListener("paste", (event) => this._attach(event.clipboardData.files));
    const main = byId("main");
    main.addEventListener("dragover", (event) => event.preventDefault());
    main.addEventListener("drop", (event) => {
      event.preventDefault();
      this._attach(event.dataTransfer.files);
    });
  }

  open(session, draft = "") {
    this.session = session;
    this._field.value = draft || (sessionStorage.getItem(this._draftKey) ?? "");
    this._images = [];
    this._showImages();
    this._grow();
    this.queue([], []);
    this.isInterrupted = false;
  }

  /** Where the tab keeps what is written and not sent, for a reload. */
  get _draftKey() {
    return `draft ${this.session}`;
  }

  set isRunning(value) {
    this._isRunning = value;
    byId("send").textContent = value ? "Steer" : "Send";
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
    if (event.key === "Escape" && this._isRunning) this.abort();
    if (event.key !== "Enter" || event.isComposing || event.shiftKey) return;
    if (matchMedia("(pointer: coarse)").matches && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    this._send(event.altKey ? "followUp" : "steer");
  }

  async _send(behavior) {
    const text = this._field.value;
    if ((!text.trim() && !this._images.length) || !this.session || this._isSending) return;
    this._isSending = true;
    const images = this._images.map(({ data, mimeType }) => ({ type: "image", data, mimeType }));
    const session = this.session;
    byId("send").disabled = true;
    const body = { text, id: randomId(), behavior, ...(images.length ? { images } : {}) };
    let told = false;
    try {
      await persist("POST", sessionPath(session, "prompt"), body, () => {
        if (!told) notice("The server cannot be reached. The message is sent when it can.");
        told = true;
      });
      if (session === this.session) {
        if (this._field.value === text) {
          this._field.value = "";
          sessionStorage.removeItem(this._draftKey);
        }
        this._images = [];
        this._showImages();
        this._grow();
        this.onSent?.();
      }
    } catch (error) {
      notice(error.message, "error");
    } finally {
      this._isSending = false;
      byId("send").disabled = false;
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
        }, "×"),
      ),
    );
    byId("attachments").replaceChildren(...shown);
    byId("attachments").hidden = !shown.length;
  }
}
