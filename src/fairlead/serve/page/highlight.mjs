// Colours code: comments, strings, numbers and keywords. It works by line patterns that most languages share.

const LONGEST = 60_000;

const words = (text) => new Set(text.split(" "));
const C_LIKE = words(
  "abstract as async await bool boolean break byte case catch char class const continue crate debugger default defer delete do " +
    "double else enum export extends extern false final finally float fn for from func function go goto if impl implements " +
    "import in instanceof int interface let long loop match mod move mut namespace new nil null of operator override package " +
    "private protected pub public range ref return self short signed sizeof static struct super switch template this throw " +
    "trait true try type typedef typeof undefined union unsafe unsigned use using var virtual void volatile where while with yield",
);
const PYTHON = words(
  "False None True and as assert async await break case class continue def del elif else except finally for from global if import " +
    "in is lambda match nonlocal not or pass raise return self try while with yield",
);
const SHELL = words("case do done elif else esac export fi for function if in local return set then unset until while");
const SQL = words(
  "add all alter and as asc between by case create delete desc distinct drop else end exists foreign from group having in index " +
    "inner insert into is join key left like limit not null on or order outer primary references select set table then union " +
    "update values view when where with",
);
const RUBY = words(
  "alias and begin break case class def do else elsif end ensure false for if in module next nil not or redo rescue retry return " +
    "self super then true undef unless until when while yield",
);
const VALUES = words("true false null yes no on off");

const SLASH = String.raw`\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`;
const HASH = String.raw`#[^\n]*`;
const DASH = String.raw`--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`;
const MARKUP = String.raw`<!--[\s\S]*?(?:-->|$)`;
const STRINGS = String.raw`"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?`;
const BACKTICKS = "`(?:[^`\\\\]|\\\\[\\s\\S])*`?";
const TRIPLE = String.raw`"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)`;

const NUMBER = String.raw`\b\d[\w.]*`;
const WORD = String.raw`[A-Za-z_$][\w$]*`;

function language(keywords, comment, strings = STRINGS, ignoreCase = false) {
  return { keywords, ignoreCase, pattern: new RegExp(`(${comment})|(${strings})|(${NUMBER})|(${WORD})`, "g") };
}

const C = language(C_LIKE, SLASH, `${STRINGS}|${BACKTICKS}`);
const PY = language(PYTHON, HASH, `${TRIPLE}|${STRINGS}`);
const SH = language(SHELL, String.raw`(?<![^\s;])#[^\n]*`);
const DATA = language(VALUES, HASH);
const HTML = language(words(""), MARKUP);
const LANGUAGES = new Map();
const add = (made, names) => names.split(" ").forEach((name) => LANGUAGES.set(name, made));
add(C, "js javascript mjs cjs jsx ts typescript tsx c h cpp c++ cc cs csharp java kotlin kt go rust rs swift php scala dart zig css scss");
add(PY, "py python python3 pyi");
add(SH, "sh bash shell zsh console fish dockerfile make makefile");
add(DATA, "json json5 jsonc yaml yml toml ini");
add(language(RUBY, HASH), "rb ruby");
add(language(SQL, DASH, STRINGS, true), "sql");
add(HTML, "html xml svg vue");

const KINDS = ["", "comment", "string", "number"];

/** Return nodes for code in a language. Unknown languages stay plain. */
export function highlighted(code, name) {
  if (/^(diff|patch)$/i.test(name)) return diffLines(code);
  const found = LANGUAGES.get(name.toLowerCase());
  if (!found || code.length > LONGEST) return [code];
  const nodes = [];
  let end = 0;
  for (const match of code.matchAll(found.pattern)) {
    let kind = KINDS[[1, 2, 3].find((group) => match[group] !== undefined) ?? 0];
    if (match[4] !== undefined) {
      if (found.keywords.has(found.ignoreCase ? match[4].toLowerCase() : match[4])) kind = "keyword";
      else if (code[match.index + match[0].length] === "(") kind = "call";
    }
    if (!kind) continue;
    if (match.index > end) nodes.push(code.slice(end, match.index));
    const span = document.createElement("span");
    span.className = `hl-${kind}`;
    span.textContent = match[0];
    nodes.push(span);
    end = match.index + match[0].length;
  }
  if (end < code.length) nodes.push(code.slice(end));
  return nodes;
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;
const KIND_OF = { "+": "added", "-": "removed", " ": "same" };

/** Return the lines of a diff, each in its colour. Those of a unified diff get their numbers; `isBare` leaves out the names of its files. */
export function diffLines(text, isBare = false) {
  const lines = text.replace(/\n$/, "").split("\n");
  let [oldAt, newAt, oldLeft, newLeft] = [0, 0, 0, 0];
  let wasHunk = false;
  const leavesOutNames = isBare && lines.some((line) => HUNK.test(line));
  return lines.flatMap((line) => {
    const isInHunk = oldLeft > 0 || newLeft > 0;
    const hunk = isInHunk ? null : HUNK.exec(line);
    if (hunk) {
      [oldAt, oldLeft, newAt, newLeft] = [hunk[1], hunk[2] ?? 1, hunk[3], hunk[4] ?? 1].map(Number);
      wasHunk = true;
      return [diffLine("head", line)];
    }
    if (!isInHunk) {
      if (leavesOutNames && !wasHunk && /^(---|\+\+\+) /.test(line)) return [];
      return [diffLine(/^(\+\+\+|---|@@|diff |index |\\ )/.test(line) ? "head" : (KIND_OF[line[0]] ?? "same"), line)];
    }
    const kind = line === "" ? "same" : KIND_OF[line[0]];
    if (!kind) return [diffLine("head", line)]; // "\ No newline at end of file"
    const number = kind === "removed" ? oldAt : newAt;
    if (kind !== "added") oldAt++, oldLeft--;
    if (kind !== "removed") newAt++, newLeft--;
    return [diffLine(kind, line, number)];
  });
}

/** Return the lines of a change of one text to another: what both begin and end with is the same. New lines of a whole file get numbers. */
export function changeLines(before, after, isWhole = false) {
  const [old, fresh] = [before, after].map((text) => (text === "" ? [] : text.replace(/\n$/, "").split("\n")));
  const shorter = Math.min(old.length, fresh.length);
  let [first, last] = [0, 0];
  while (first < shorter && old[first] === fresh[first]) first++;
  while (last < shorter - first && old[old.length - 1 - last] === fresh[fresh.length - 1 - last]) last++;
  const made = (lines, from, to, kind, sign) =>
    lines.slice(from, to).map((line, index) => diffLine(kind, sign + line, isWhole ? from + index + 1 : undefined));
  return [
    ...made(old, 0, first, "same", " "),
    ...made(old, first, old.length - last, "removed", "-"),
    ...made(fresh, first, fresh.length - last, "added", "+"),
    ...made(old, old.length - last, old.length, "same", " "),
  ];
}

function diffLine(kind, text, number) {
  const span = document.createElement("span");
  span.className = `diff-line diff-${kind}`;
  if (number !== undefined) span.dataset.number = number;
  span.textContent = `${text}\n`;
  return span;
}
