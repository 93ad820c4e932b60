// Renders hostile Markdown with the page's own code, and prints what took more than linear time, or failed.
// Usage: node markdown_work.mjs FOLDER_OF_THE_PAGE

// Only what the page uses of a document. Like a browser, it refuses calls with too many arguments.
class Element {
  constructor(name) {
    this.tagName = name.toUpperCase();
    this.childNodes = [];
    this.dataset = {};
  }
  append(...children) {
    if (children.length > 10_000) throw new RangeError("too many arguments");
    for (const child of children) this.childNodes.push(child);
  }
  replaceChildren() {
    this.childNodes = [];
  }
  get textContent() {
    const texts = [];
    const left = [this];
    while (left.length) {
      const node = left.pop();
      if (typeof node === "string") texts.push(node);
      else for (let at = node.childNodes.length - 1; at >= 0; at--) left.push(node.childNodes[at]);
    }
    return texts.join("");
  }
  set textContent(text) {
    this.childNodes = [text];
  }
  get firstChild() {
    return { appendData: (text) => this.childNodes.push(text) };
  }
  querySelector() {
    return this.childNodes[1]?.childNodes[0] ?? this;
  }
  setAttribute() {}
  addEventListener() {}
  remove() {}
}

globalThis.document = { createElement: (name) => new Element(name) };
const frames = [];
globalThis.requestAnimationFrame = (draw) => frames.push(draw);
globalThis.cancelAnimationFrame = () => {};

const { renderMarkdown, MarkdownStream } = await import(`${process.argv[2]}/markdown.mjs`);
const { diffLines, highlighted } = await import(`${process.argv[2]}/highlight.mjs`);

const SMALL = 30_000;
const FACTOR = 8;
// A garbage collection may take this long.
const SLACK = 250;
const many = (text) => (size) => text.repeat(Math.ceil(size / text.length));
const around = (before, text, after) => (size) => before + many(text)(size) + after;
const PIECES = [
  "--- a\n", "+++ a\n--- a\n", "@@ -1 +1 @@\n",
  ..."[]*`_|<>(){}!~#+-=\\:.\"'&^$h1\n\t \r\u2028\u00a0",
  "**", "__", "~~", "](", "[](", "[a](", "![", "![](", "![a](b", "> ", ">", "> > ", "- ", "* ", "+ ", "1. ", "1) ", "- - ", "- a\n", "- a\n\n",
  "- a\n  ", "  - a\n", "- a\n1. b\n", "> a\n", "> - ", "**a", "*a ", "a*", "_a ", "a_", "a **", "*_", "_*", "**a** ", "` ", "``a`", "a`", "```\n",
  "~~~\n", "```` ", "# ", "#\n", "# a #\n", "---\n", "- - -\n", "***\n", "|a", "|-", "| - ", "|a|\n", "|-|\n", "|a|\n|-|\n", "\\|", ":-", "<http://",
  "<https://a", "http://", "https://a.", "http://a)", "http://a(", "http://[", "https://a*", "http://a http://", "\\[", "\\*", "\\`", "[\\", "]]",
  "[[a](b)", "x](y) [", "[a](b \"", "[a](b '", "[a](<", "[a](b(", "[a](http://b) ", "a  \n", "a\\\n", "a\n\n", "\r\n", "    a\n", "$$", "<a>", "<!--",
];
const CASES = [
  ...PIECES.map((piece) => [JSON.stringify(piece), many(piece)]),
  ["a table rule with spaces", around("a|b\n-", " ", "x")],
  ["a table rule with an end", around("a|b\n|-", " ", "x|")],
  ["a fence with a backtick", around("", "~", "`")],
  ["a fence of backticks with another", around("", "`", " `")],
  ["an item with a line separator", around("- ", " ", "a\u2028b")],
  ["an item with a return", around("- ", " ", "a\rb")],
  ["a heading with a separator", around("# ", " ", "a\u2028b")],
  ["a rule that is none", around("", "* ", "x")],
  ["a rule with spaces", around("-", " ", "- x")],
  ["brackets before a link", around("", "[", "](http://a)")],
  ["labels before a link", around("", "[a ", "](http://a)")],
  ["stars before an end", around("", "*a ", "a*")],
  ["underscores before an end", around("", "_a ", "a_")],
  ["ticks before an end", around("", "` ", "``")],
  ["a link with a long target", around("[a](", "b", ")")],
  ["a link with parentheses", around("[a](", "(b)", "x")],
  ["a link with spaces", around("[a](b", " ", "x")],
  ["an address with dots", around("http://a", ".", "b")],
  ["an address with parentheses", around("http://a", ")", "(")],
  ["an address in angles", around("<http://", "a", "")],
  ["a fence that is long", (size) => `${many("`")(size)}\n${many("`")(size - 1)}\n`],
  ["a list with blank lines", around("- a\n", "\n", "b")],
  ["cells of one row", (size) => `|${many("a|")(size * 2)}\n|-|\n`],
  ["rows of a table", (size) => `|a|\n|-|\n${many("|a|\n")(size * 2)}`],
];

function stream(text) {
  const shown = new MarkdownStream(new Element("div"));
  for (let at = 0; at < text.length; at += 512) {
    shown.append(text.slice(at, at + 512));
    frames.splice(0).forEach((draw) => draw());
  }
  shown.finish();
}

const WORK = [
  ["render", CASES, renderMarkdown],
  ["stream", CASES.filter((_, number) => number % 4 === 0), stream],
  ["diff", CASES, diffLines],
  ["diff without names", CASES, (text) => diffLines(text, true)],
  ["colour", CASES, (text) => highlighted(text.slice(0, 60_000), "js") && highlighted(text.slice(0, 60_000), "py")],
];

function cost(work, text) {
  const before = process.cpuUsage();
  work(text);
  const used = process.cpuUsage(before);
  return (used.user + used.system) / 1000;
}

const problems = [];
for (const [what, cases, work] of WORK) {
  for (const [name, make] of cases) {
    try {
      const small = Math.min(cost(work, make(SMALL)), cost(work, make(SMALL)));
      const large = cost(work, make(SMALL * FACTOR));
      if (large > FACTOR * 2.5 * small + SLACK) problems.push(`${what} ${name}: ${small.toFixed()} and ${large.toFixed()} ms`);
    } catch (error) {
      problems.push(`${what} ${name}: ${error}`);
    }
  }
}
console.log(JSON.stringify(problems));
