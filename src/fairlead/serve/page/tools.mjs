// Cards of tool calls: what is called, its live output, its result, and what it changed.

import { el, fill, icon } from "./dom.mjs";
import { changeLines, diffLines, highlighted } from "./highlight.mjs";

/** How much of an output is shown. The model sees the rest. */
const LONGEST = 40_000;
const MOST_LINES = 2_000;
const SUBJECTS = ["command", "pattern", "path", "file_path", "filePath", "query", "url", "question", "task", "description", "agent", "name"];
/** Characters without ink, except spaces, tabs and line feeds; those that join or stack letters; and marks beyond three on one character. */
const HIDING =
  /(?![ \n\t])[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\p{Zs}\p{Default_Ignorable_Code_Point}\u2800\ufffc\u{1d159}\u{16fe4}\u{13440}-\u{13442}\u1039\u17d2\u1a60\u1bab\u2d7f\uaaf6\u{10a3f}\u{1107f}\u{11133}\u{113d0}\u{1193e}\u{11a47}\u{11a99}\u{11d45}\u{11d97}\u{11f42}\u{1bc9d}]|(?<=[\p{Mn}\p{Me}]{3})[\p{Mn}\p{Me}]|(?<=^|\s)[\p{Mn}\p{Me}]/gu;
const STATES = { waiting: "waiting", asking: "waiting for your answer", running: "running", done: "done", failed: "failed", denied: "denied", unfinished: "not finished" };

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

/** Show a diff: a text, or lines that were made of one. */
export function diffBlock(diff, label = "Changes") {
  const lines = typeof diff === "string" ? diffLines(diff) : diff;
  return el("pre", { className: "diff", tabIndex: 0, role: "region", "aria-label": label }, el("code", {}, lines));
}

/** Show nothing invisible: characters that hide, move or cover others become escapes, as the server does it in diffs. */
export function reveal(text) {
  return text.replace(HIDING, (found) => [...found].map((each) => `\\u{${each.codePointAt(0).toString(16)}}`).join(""));
}

const VERBS = {
  bash: ["Run", "terminal"],
  read: ["Read", "file"],
  edit: ["Edit", "pencil"],
  write: ["Write", "file"],
  grep: ["Search", "search"],
  find: ["Find", "search"],
  ls: ["List", "folder"],
  task: ["Sub-agents", "people"],
  todo_write: ["Todo list", "list"],
  ask: ["Question", "question"],
};

/** Return what a call does, what it is about, and its icon. The arguments are the model's: they may be anything. */
export function titleOf(name, args) {
  const [verb, picture] = Object.hasOwn(VERBS, name) ? VERBS[name] : [name.replace(/^mcp__(.+?)__/, "$1: "), /web|fetch|browse/.test(name) ? "globe" : "tool"];
  return { verb: reveal(verb), about: reveal(subjectOf(name, args ?? {})), picture };
}

function subjectOf(name, args) {
  const key = SUBJECTS.find((each) => typeof args[each] === "string" && args[each]);
  const first = key ? args[key].trim().split("\n")[0].slice(0, 200) : "";
  if (name === "read" && first && (args.offset || args.limit)) {
    const from = Number(args.offset) || 1;
    return `${first} (${args.limit ? `${from}-${from + Number(args.limit) - 1}` : `from line ${from}`})`;
  }
  if (["grep", "find"].includes(name) && typeof args.path === "string" && args.path !== ".") return `${first} in ${args.path}`;
  if (name === "ls") return first || ".";
  if (name === "task" && Array.isArray(args.tasks)) return listOf(args.tasks, "description");
  if (name === "ask" && Array.isArray(args.questions)) return listOf(args.questions, "question");
  return first;
}

/** Return the texts under a name, in one line. */
function listOf(items, name) {
  return items.map((each) => each?.[name]).filter((text) => typeof text === "string" && text).join(", ").slice(0, 200);
}

/** Return the changes that a call asks for, as lines of a diff; null if it asks for something else. */
function proposedLines(args) {
  const text = (...names) => names.map((name) => args?.[name]).find((value) => typeof value === "string");
  if (Array.isArray(args.edits)) return args.edits.flatMap((edit) => proposedLines(edit ?? {}) ?? []);
  const [before, after] = [text("oldText", "old_string", "old_text"), text("newText", "new_string", "new_text")];
  if (before !== undefined && after !== undefined) return changeLines(reveal(before), reveal(after));
  if (text("content") !== undefined && text("path", "file_path", "filePath")) return changeLines("", reveal(args.content), true);
  const patch = text("patch", "diff");
  return patch === undefined ? null : diffLines(reveal(patch));
}

/** Cut a long diff. */
function shortened(lines) {
  if (lines.length <= MOST_LINES) return lines;
  return [...lines.slice(0, MOST_LINES), `… ${lines.length - MOST_LINES} more lines`];
}

/** One tool call. */
export class ToolCard {
  constructor(id, name) {
    this.id = id;
    this._picture = el("span", {});
    this._name = el("span", { className: "tool-name" });
    this._subject = el("span", { className: "tool-subject" });
    this._count = el("span", { className: "tool-count" });
    this._state = el("span", { className: "tool-state" });
    this._input = el("div", { className: "tool-input" });
    this._output = el("div", { className: "tool-output" });
    this.element = el(
      "details",
      { className: "tool" },
      el("summary", {}, this._picture, " ", this._name, " ", this._subject, " ", this._count, " ", this._state),
      this._input,
      this._output,
    );
    this._frame = 0;
    this._setState("waiting");
    this._entitle(name);
  }

  _entitle(name, args) {
    const { verb, about, picture } = titleOf(name, args);
    this._picture.replaceChildren(icon(picture));
    this._name.textContent = verb;
    this._subject.textContent = about;
  }

  /** Show what the tool is called with. */
  describe(name, args) {
    this._entitle(name, args);
    fill(this._input, this._arguments(name, args ?? {}));
  }

  /** Show the lines of a diff, and how many it adds and removes. */
  _changes(lines, label) {
    const count = (kind) => lines.filter((line) => line.classList.contains(`diff-${kind}`)).length;
    const [added, removed] = [count("added"), count("removed")];
    const text = removed ? `+${added} -${removed}` : `+${added}`;
    this._count.replaceChildren(el("span", { "aria-hidden": "true" }, text), el("span", { className: "hidden" }, `${added} lines added, ${removed} removed`));
    return diffBlock(shortened(lines), label);
  }

  _arguments(name, args) {
    this._hasChanges = false;
    if (typeof args.command === "string") {
      const rest = Object.entries(args).filter(([key]) => key !== "command");
      const code = el("code", {}, highlighted(reveal(args.command), "bash"));
      return [labelled("Command", code), ...listed(rest)];
    }
    const lines = proposedLines(args);
    if (lines?.length) {
      this._hasChanges = true;
      return [this._changes(lines, "Proposed changes")];
    }
    if (name === "task" && Array.isArray(args.tasks)) {
      const item = (task) => el("li", {}, el("strong", {}, reveal(String(task?.description ?? ""))), ` ${reveal(String(task?.assignment ?? ""))}`);
      return [el("ol", { className: "tool-tasks" }, args.tasks.map(item))];
    }
    return listed(Object.entries(args));
  }

  start() {
    this._setState("running");
  }

  /** Show that the call waits for the user, or no longer does. */
  ask(isAsking) {
    if (isAsking) this._setState("asking");
    else if (this._state.dataset.state === "asking") this._setState("running");
  }

  /** Show that nothing more comes of the call, if it has no result. */
  giveUp() {
    if (["waiting", "asking", "running"].includes(this._state.dataset.state)) this._setState("unfinished");
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
    this._setState(given.details?.deniedBy ? "denied" : isError ? "failed" : "done");
    const diff = given.details?.patch ?? given.details?.diff;
    this._show(given, typeof diff === "string" && !isError ? diff : null);
    if (this._hasChanges || isError) this.element.open = true;
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
    if (diff) {
      this._hasChanges = true;
      fill(this._input, []); // it was what the model asked for
      parts.push(this._changes(diffLines(reveal(diff), true), "Changes"));
    } else if (text) {
      const cut = text.length > LONGEST ? `… ${text.length - LONGEST} characters before this are not shown\n${text.slice(-LONGEST)}` : text;
      parts.push(labelled("Output", el("code", {}, cut)));
    }
    parts.push(...imagesOf(result.content, "Image from the tool"));
    fill(this._output, parts);
    const box = this._output.querySelector("pre");
    if (box && this._state.dataset.state === "running") box.scrollTop = box.scrollHeight;
  }

  _setState(state) {
    this._state.dataset.state = state;
    this._state.textContent = STATES[state];
  }
}

function labelled(label, code) {
  return el("pre", { tabIndex: 0, role: "region", "aria-label": label }, code);
}

/** Show arguments: short ones by name, others as JSON. */
function listed(entries) {
  if (!entries.length) return [];
  const isSimple = ([, value]) => ["number", "boolean"].includes(typeof value) || (typeof value === "string" && value.length <= 200 && !value.includes("\n"));
  if (entries.every(isSimple)) return [el("dl", { className: "tool-arguments" }, entries.map(([key, value]) => [el("dt", {}, reveal(key)), el("dd", {}, reveal(String(value)))]))];
  const text = reveal(JSON.stringify(Object.fromEntries(entries), null, 2)).slice(0, LONGEST);
  return [labelled("Arguments", el("code", {}, highlighted(text, "json")))];
}
