// A small Markdown renderer. It builds nodes and never parses HTML, so raw HTML shows as text. Links are http and https only.

import { copied, el, link, safeUrl } from "./dom.mjs";
import { highlighted } from "./highlight.mjs";

// The patterns take time in proportion to the line, also if the model writes a line to make them slow.
// `(?=(...))\1` takes a run as a whole, and `[^]*` always reaches the end: nothing is tried again with less.
const FENCE = /^ {0,3}(?=(`{3,}|~{3,}))\1([^`\n]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s([^]*)$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(\s+|$)([^]*)$/;
const QUOTE = /^ {0,3}>\s?/;
const DEEPEST = 12;
const LONGEST_LABEL = 1000;
// After drawing, the page rests for this many times as long, so that a long block that is drawn again and again leaves time for the rest.
const REST = 4;

// Blocks

/** Split lines into blocks. Each has `first` and `last` (exclusive) lines; a fence that is still open has `isOpen`. */
export function blocksOf(lines) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) {
      at++;
      continue;
    }
    const block = blockAt(lines, at);
    blocks.push(block);
    at = block.last;
  }
  return blocks;
}

function blockAt(lines, first) {
  const line = lines[first];
  let match = FENCE.exec(line);
  if (match) return fenceAt(lines, first, match);
  match = HEADING.exec(line);
  if (match) return { kind: "heading", level: match[1].length, text: headingText(match[2]), first, last: first + 1 };
  if (RULE.test(line)) return { kind: "rule", first, last: first + 1 };
  if (QUOTE.test(line)) {
    let last = first;
    while (last < lines.length && lines[last].trim() && (QUOTE.test(lines[last]) || !startsBlock(lines[last]))) last++;
    return { kind: "quote", first, last };
  }
  if (ITEM.test(line)) return listAt(lines, first);
  if (line.includes("|") && first + 1 < lines.length && isTableRule(lines[first + 1])) {
    let last = first + 2;
    while (last < lines.length && lines[last].includes("|")) last++;
    return { kind: "table", first, last };
  }
  let last = first + 1;
  while (last < lines.length && lines[last].trim() && !startsBlock(lines[last])) last++;
  return { kind: "paragraph", first, last };
}

function isTableRule(line) {
  if (!/^[\s|:-]+$/.test(line)) return false;
  return line.trim().replace(/^\|/, "").replace(/\|$/, "").split("|").every((cell) => /^:?-+:?$/.test(cell.trim()));
}

/** Remove spaces around a heading, and the marks that may close it. */
function headingText(text) {
  const trimmed = text.trim();
  let end = trimmed.length;
  while (end > 0 && trimmed[end - 1] === "#") end--;
  return end === 0 || /\s/.test(trimmed[end - 1]) ? trimmed.slice(0, end).trimEnd() : trimmed;
}

function startsBlock(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || /^\s*([-*+]|1[.)])\s+\S/.test(line);
}

function fenceAt(lines, first, match) {
  let last = first + 1;
  while (last < lines.length && !closesFence(lines[last], match[1])) last++;
  const isOpen = last >= lines.length;
  return { kind: "fence", language: match[2].trim().split(/\s/)[0], body: [first + 1, last], isOpen, first, last: isOpen ? last : last + 1 };
}

function closesFence(line, fence) {
  const text = line.trim();
  return text.startsWith(fence) && /^ {0,3}\S/.test(line) && (text[0] === "~" ? /^~+$/ : /^`+$/).test(text);
}

function listAt(lines, first) {
  const indent = ITEM.exec(lines[first])[1].length;
  const isOrdered = /\d/.test(ITEM.exec(lines[first])[2]);
  let last = first + 1;
  while (last < lines.length) {
    const line = lines[last];
    if (!line.trim()) {
      let next = last;
      while (next < lines.length && !lines[next].trim()) next++;
      if (next >= lines.length || !continues(lines[next], indent, isOrdered)) break;
      last = next;
    } else if (line.search(/\S/) <= indent && startsBlock(line) && !continues(line, indent, isOrdered)) break;
    last++;
  }
  return { kind: "list", indent, isOrdered, first, last };
}

function continues(line, indent, isOrdered) {
  const item = ITEM.exec(line);
  if (line.search(/\S/) > indent + 1) return true;
  return Boolean(item) && /\d/.test(item[2]) === isOrdered;
}

/** Make the nodes of Markdown text. */
export function renderMarkdown(text, depth = 0) {
  const lines = text.split("\n");
  if (depth > DEEPEST) return [text];
  return blocksOf(lines).map((block) => renderBlock(block, lines, depth));
}

function renderBlock(block, lines, depth = 0) {
  const part = lines.slice(block.first, block.last);
  switch (block.kind) {
    case "fence":
      return codeBlock(lines.slice(...block.body).join("\n"), block.language, !block.isOpen);
    case "heading":
      // The page and the messages have the headings of the first two levels. Answers often begin with the second.
      return el(`h${Math.max(3, Math.min(6, block.level + 1))}`, {}, inline(block.text));
    case "rule":
      return el("hr");
    case "quote":
      return el("blockquote", {}, renderMarkdown(part.map((line) => line.replace(QUOTE, "")).join("\n"), depth + 1));
    case "list":
      return list(block, part, depth);
    case "table":
      return table(part);
    default:
      return el("p", {}, inline(part.map((line) => line.trimStart()).join("\n")));
  }
}

function list(block, lines, depth) {
  const items = [];
  let current = null;
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item && item[1].length <= block.indent + 1) {
      current = { lines: [item[4]], strip: item[1].length + item[2].length + Math.max(1, Math.min(4, item[3].length)) };
      items.push(current);
    } else current?.lines.push(line.slice(Math.min(current.strip, Math.max(0, line.search(/\S/)))));
  }
  const start = block.isOrdered ? Number.parseInt(lines[0].trim(), 10) : undefined;
  const made = items.map(({ lines: parts }) => {
    const task = /^\[([ xX])\]\s+/.exec(parts[0]);
    if (task) parts[0] = parts[0].slice(task[0].length);
    const nodes = renderMarkdown(parts.join("\n"), depth + 1);
    // A tight item has no paragraph of its own.
    const first = nodes[0]?.tagName === "P" ? [...nodes[0].childNodes] : nodes.slice(0, 1);
    return el("li", {}, task && (task[1] === " " ? "☐ " : "☑ "), first, nodes.slice(1));
  });
  return el(block.isOrdered ? "ol" : "ul", start === undefined || start === 1 ? {} : { start }, made);
}

const NUMBER = /^[-+−]?[$€£]?\d[\d\s.,_']*(?:%|[a-zA-Zµ]{1,3})?$/;

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
  const rows = lines.slice(2).map(cells);
  // A column stands where its rule says. One of numbers is read from the right, whatever it says.
  const sides = cells(lines[1]).map((rule, column) => {
    const given = rows.map((row) => row[column] ?? "").filter(Boolean);
    const isNumeric = given.length > 0 && given.every((cell) => NUMBER.test(cell));
    if (rule.endsWith(":")) return rule.startsWith(":") ? "center" : "number";
    return isNumeric && !rule.startsWith(":") ? "number" : "";
  });
  const rowOf = (tag, row, properties = {}) =>
    el("tr", {}, row.map((cell, column) => el(tag, { className: sides[column] ?? "", ...properties }, inline(cell))));
  const head = rowOf("th", cells(lines[0]), { scope: "col" });
  const made = el("table", {}, el("thead", {}, head), el("tbody", {}, rows.map((row) => rowOf("td", row))));
  return el("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Table" }, made);
}

/** Make a block of code with a button that copies it. */
export function codeBlock(code, language, isFinished = true) {
  const body = el("code", {}, isFinished ? highlighted(code, language) : code);
  const copy = el("button", { type: "button", className: "copy quiet", "aria-label": "Copy code" }, "Copy");
  copy.addEventListener("click", async () => {
    copy.textContent = (await copied(body)) ? "Copied" : "Not copied";
    setTimeout(() => (copy.textContent = "Copy"), 1500);
  });
  const label = language ? `Code, ${language}` : "Code";
  return el(
    "div",
    { className: "code" },
    el("div", { className: "code-bar" }, el("span", {}, language), copy),
    el("pre", { tabIndex: 0, role: "region", "aria-label": label }, body),
  );
}

// Inline

const SPECIAL = /[\\`*_~[\]<!\n]|https?:\/\//g;
const DELIMITERS = { "**": "strong", __: "strong", "~~": "del", "*": "em", _: "em" };

/** Make the nodes of text within a block. */
export function inline(text, depth = 0) {
  const nodes = [];
  // Delimiters that have no end after this point, so that no text is searched twice.
  const endless = new Set();
  let plain = "";
  let at = 0;
  const push = (...made) => {
    if (plain) nodes.push(plain);
    plain = "";
    nodes.push(...made);
  };
  while (at < text.length) {
    SPECIAL.lastIndex = at;
    const next = SPECIAL.exec(text);
    if (!next) break;
    plain += text.slice(at, next.index);
    at = next.index;
    const found = depth < DEEPEST ? special(text, at, endless, depth) : null;
    if (found) {
      push(...found.nodes);
      at = found.end;
    } else if (text[at] === "\\" && /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "")) {
      plain += text[at + 1];
      at += 2;
    } else {
      const run = /^([*_~`])\1*/.exec(text.slice(at, at + 64));
      plain += run ? run[0] : text[at];
      at += run ? run[0].length : 1;
    }
  }
  plain += text.slice(at);
  push();
  return nodes;
}

function special(text, at, endless, depth) {
  const char = text[at];
  if (char === "\n") {
    const isHard = /( {2,}|\\)$/.test(text.slice(Math.max(0, at - 3), at));
    return isHard ? { nodes: [el("br")], end: at + 1 } : null;
  }
  if (char === "`") return codeSpan(text, at, endless);
  if (char === "[" || (char === "!" && text[at + 1] === "[")) return linkAt(text, at, depth);
  if (char === "<") {
    const match = /^<(https?:\/\/[^\s<>]+)>/.exec(text.slice(at, at + 2048));
    return match && linked(match[1], [match[1]], at + match[0].length);
  }
  if (char === "h") {
    if (/\w/.test(text[at - 1] ?? "")) return null;
    const match = /^https?:\/\/[^\s<>"'`|]+/.exec(text.slice(at, at + 2048));
    if (!match) return null;
    let end = match[0].length;
    while (".,;:!?*_~]".includes(match[0][end - 1])) end--;
    const url = match[0].slice(0, end).replace(/^([^(]*)\)+.*$/, "$1");
    // What is not an address is plain text as a whole, so that its end is not searched again from within.
    return linked(url, [url], at + url.length) || { nodes: [url], end: at + url.length };
  }
  return emphasis(text, at, endless, depth);
}

function linked(target, children, end) {
  const url = safeUrl(target);
  return url && { nodes: [link(url, children)], end };
}

function codeSpan(text, at, endless) {
  const ticks = /^`+/.exec(text.slice(at, at + 64))[0];
  if (endless.has(ticks)) return null;
  let end = at + ticks.length;
  for (;;) {
    end = text.indexOf(ticks, end);
    if (end < 0) {
      endless.add(ticks);
      return null;
    }
    if (text[end + ticks.length] !== "`" && text[end - 1] !== "`") break;
    while (text[end] === "`") end++;
  }
  const body = text.slice(at + ticks.length, end).replaceAll("\n", " ");
  const isPadded = body.startsWith(" ") && body.endsWith(" ") && body.trim() !== "";
  return { nodes: [el("code", {}, isPadded ? body.slice(1, -1) : body)], end: end + ticks.length };
}

/** Return how long the label of a link is that begins here; -1 if none does. */
function labelLength(text, start) {
  for (let at = start; at <= start + LONGEST_LABEL && at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === "]") return text[at + 1] === "(" ? at - start : -1;
    else if (text[at] === "[") return -1;
  }
  return -1;
}

function linkAt(text, at, depth) {
  const start = text.indexOf("[", at) + 1;
  const length = labelLength(text, start);
  if (length < 0) return null;
  const label = text.slice(start, start + length);
  const close = start + length;
  const match = /^\(\s*<?([^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/.exec(text.slice(close + 1, close + 4096));
  if (!match) return null;
  return linked(match[1], inline(label, depth + 1), close + 1 + match[0].length);
}

function emphasis(text, at, endless, depth) {
  const double = text.slice(at, at + 2);
  const mark = DELIMITERS[double] ? double : text[at];
  const tag = DELIMITERS[mark];
  const start = at + mark.length;
  if (!tag || endless.has(mark) || !/\S/.test(text[start] ?? " ") || text[start] === mark[0]) return null;
  if (mark[0] === "_" && /\w/.test(text[at - 1] ?? "")) return null;
  let end = start;
  for (;;) {
    end = text.indexOf(mark, end + 1);
    if (end < 0) {
      endless.add(mark);
      return null;
    }
    const after = text[end + mark.length] ?? "";
    if (mark.length === 1 && (after === mark || text[end - 1] === mark)) {
      while (text[end + 1] === mark) end++;
      continue;
    }
    if (/\s/.test(text[end - 1]) || (mark[0] === "_" && /\w/.test(after))) continue;
    break;
  }
  return { nodes: [el(tag, {}, inline(text.slice(start, end), depth + 1))], end: end + mark.length };
}

// Streaming

/** Shows Markdown while it arrives. A finished block is rendered once; the open one at most once per frame, less often if it is long. */
export class MarkdownStream {
  constructor(root, onDraw = () => {}) {
    this._root = root;
    this._onDraw = onDraw;
    this._pending = "";
    this._open = [];
    this._frame = 0;
    this._timer = 0;
    this._restsUntil = 0;
    this.text = "";
  }

  append(text) {
    this.text += text;
    this._pending += text;
    if (this._frame || this._timer) return;
    const rest = this._restsUntil - performance.now();
    if (rest > 0) this._timer = setTimeout(() => this._ask(), rest);
    else this._ask();
  }

  _ask() {
    this._timer = 0;
    this._frame = requestAnimationFrame(() => this._draw(false));
  }

  finish() {
    clearTimeout(this._timer);
    cancelAnimationFrame(this._frame);
    this._draw(true);
  }

  _draw(isEnd) {
    this._frame = 0;
    const began = performance.now();
    const lines = this._pending.split("\n");
    const blocks = blocksOf(lines);
    const finished = isEnd ? blocks.length : Math.max(0, blocks.length - 1);
    const open = blocks[finished];
    if (finished || !this._growFence(open, lines)) {
      this._open.forEach((node) => node.remove());
      const nodes = blocks.map((block) => renderBlock(block, lines));
      for (const node of nodes) this._root.append(node);
      this._open = nodes.slice(finished);
      this._fence = open?.kind === "fence" && open.isOpen ? nodes[finished].querySelector("code") : null;
      this._pending = open ? lines.slice(open.first).join("\n") : isEnd ? "" : this._pending.slice(-1) === "\n" ? "" : this._pending;
    }
    this._onDraw();
    const ended = performance.now();
    this._restsUntil = ended + REST * (ended - began);
  }

  /** Add to a block of code that is still open, instead of making it again. */
  _growFence(open, lines) {
    if (!this._fence || open?.kind !== "fence" || !open.isOpen) return false;
    const code = lines.slice(...open.body).join("\n");
    const shown = this._fence.textContent.length;
    if (!this._fence.firstChild) this._fence.append("");
    if (code.length > shown) this._fence.firstChild.appendData(code.slice(shown));
    return true;
  }
}
