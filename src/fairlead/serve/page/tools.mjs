// Cards of tool calls: what is called, its live output, its result, and what it changed.

import { el, fill } from "./dom.mjs";
import { diffLines, highlighted } from "./highlight.mjs";

/** How much of an output is shown. The model sees the rest. */
const LONGEST = 40_000;
const SUBJECTS = ["command", "path", "file_path", "filePath", "pattern", "query", "url", "task", "description", "name"];
/** Characters without ink, except spaces, tabs and line feeds; and marks beyond three on one character. */
const HIDING =
  /(?![ \n\t])[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\p{Zs}\p{Default_Ignorable_Code_Point}\u2800\ufffc\u{1d159}\u{16fe4}]|(?<=[\p{Mn}\p{Me}]{3})[\p{Mn}\p{Me}]|(?<=^|\s)[\p{Mn}\p{Me}]/gu;
const STATES = { waiting: "waiting", running: "running", done: "done", failed: "failed" };

/** Return the text of content blocks. */
export function textOf(content) {
  if (typeof content === "string") return content;
  return (content ?? []).filter((block) => block.type === "text").map((block) => block.text).join("\n");
}

/** Make the images of content blocks. */
export function imagesOf(content, label) {
  const blocks = Array.isArray(content) ? content.filter((block) => block.type === "image") : [];
  return blocks.filter((block) => /^image\/(png|jpeg|gif|webp)$/.test(block.mimeType)).map((block, index) =>
    el("img", { src: `data:${block.mimeType};base64,${block.data}`, alt: `${label} ${index + 1}`, loading: "lazy" }),
  );
}

export function diffBlock(text, label = "Changes") {
  return el("pre", { className: "diff", tabIndex: 0, role: "region", "aria-label": label }, el("code", {}, diffLines(text)));
}

/** Show nothing invisible: characters that hide, move or cover others become escapes, as the server does it in diffs. */
export function reveal(text) {
  return text.replace(HIDING, (found) => [...found].map((each) => `\\u{${each.codePointAt(0).toString(16)}}`).join(""));
}

/** Return what a call is about, in one line. */
export function subjectOf(args) {
  const key = SUBJECTS.find((name) => typeof args?.[name] === "string" && args[name]);
  return key ? args[key].split("\n")[0].slice(0, 200) : "";
}

/** One tool call. */
export class ToolCard {
  constructor(id, name) {
    this.id = id;
    this._name = el("span", { className: "tool-name" }, name);
    this._subject = el("span", { className: "tool-subject" });
    this._state = el("span", { className: "tool-state" });
    this._input = el("div", { className: "tool-input" });
    this._output = el("div", { className: "tool-output" });
    this.element = el(
      "details",
      { className: "tool" },
      el("summary", {}, this._name, " ", this._subject, " ", this._state),
      this._input,
      this._output,
    );
    this._frame = 0;
    this._setState("waiting");
  }

  /** Show what the tool is called with. */
  describe(name, args) {
    this._name.textContent = name;
    this._subject.textContent = reveal(subjectOf(args));
    fill(this._input, this._arguments(args ?? {}));
  }

  _arguments(args) {
    if (typeof args.command === "string") {
      const rest = Object.entries(args).filter(([key]) => key !== "command");
      const code = el("code", {}, highlighted(reveal(args.command), "bash"));
      return [labelled("Command", code), ...(rest.length ? [labelled("Arguments", el("code", {}, JSON.stringify(Object.fromEntries(rest), null, 2)))] : [])];
    }
    if (typeof args.content === "string" && typeof args.path === "string") {
      const language = args.path.split(".").pop();
      return [labelled("Content", el("code", {}, highlighted(args.content.slice(0, LONGEST), language)))];
    }
    if (!Object.keys(args).length) return [];
    const text = JSON.stringify(args, null, 2).slice(0, LONGEST);
    return [labelled("Arguments", el("code", {}, highlighted(text, "json")))];
  }

  start() {
    this._setState("running");
  }

  /** Show the output so far, at most once per frame. */
  update(partial) {
    this._setState("running");
    this._partial = partial;
    this._frame ||= requestAnimationFrame(() => {
      this._frame = 0;
      this._show(this._partial);
    });
    this.element.open = this._isUntouched() || this.element.open;
  }

  /** Show the result. `result` has `content` and `details`, or is a text. */
  end(result, isError) {
    cancelAnimationFrame(this._frame);
    this._frame = 0;
    const given = typeof result === "string" ? { content: result } : (result ?? {});
    this._setState(isError ? "failed" : "done");
    const diff = given.details?.patch ?? given.details?.diff;
    const shown = this._show(given, typeof diff === "string" && !isError ? diff : null);
    if (shown.hasDiff || isError) this.element.open = true;
    else if (this._opened) this.element.open = false;
  }

  _isUntouched() {
    if (this._opened) return false;
    this._opened = true;
    return true;
  }

  _show(result, diff = null) {
    const text = textOf(result.content);
    const parts = [];
    if (diff) parts.push(diffBlock(diff));
    else if (text) {
      const cut = text.length > LONGEST ? `… ${text.length - LONGEST} characters before this are not shown\n${text.slice(-LONGEST)}` : text;
      parts.push(labelled("Output", el("code", {}, cut)));
    }
    parts.push(...imagesOf(result.content, "Image from the tool"));
    fill(this._output, parts);
    const box = this._output.querySelector("pre");
    if (box && this._state.dataset.state === "running") box.scrollTop = box.scrollHeight;
    return { hasDiff: Boolean(diff) };
  }

  _setState(state) {
    this._state.dataset.state = state;
    this._state.textContent = STATES[state];
  }
}

function labelled(label, code) {
  return el("pre", { tabIndex: 0, role: "region", "aria-label": label }, code);
}
