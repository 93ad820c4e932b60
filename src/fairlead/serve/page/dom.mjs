// Builds elements. Text is always set as text: no function of the page parses HTML.

/** Make an element. Properties that start with "on" are listeners; `aria-*`, `data-*`, `role` and the like are attributes. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && !name.includes("-")) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  // One at a time: a call does not take a hundred thousand arguments.
  for (const child of children.flat(3)) if (child !== null && child !== undefined && child !== false) element.append(child);
  return element;
}

/** Replace what is in an element by any number of children. */
export function fill(element, children) {
  element.replaceChildren();
  for (const child of children) element.append(child);
}

/** Make a picture from those in index.html. A label beside it says what it means. */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(svg.namespaceURI, "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

export const byId = (id) => document.getElementById(id);

/** Whether the user has no mouse: then the keyboard covers half of the screen, and Enter begins a new line. */
export const isTouched = () => matchMedia("(pointer: coarse)").matches;

/** A random id. `crypto.randomUUID` exists only over TLS and on loopback. */
export function randomId() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Copy the text of an element, and return whether that worked. `navigator.clipboard` exists only over TLS and on loopback. */
export async function copied(element) {
  try {
    await navigator.clipboard.writeText(element.textContent);
    return true;
  } catch {
    const selection = getSelection();
    selection.selectAllChildren(element);
    const isCopied = document.execCommand("copy");
    selection.removeAllRanges();
    return isCopied;
  }
}

/** Return an address if it is safe to link to: http and https only. */
export function safeUrl(text) {
  try {
    const url = new URL(text);
    return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
  } catch {
    return null;
  }
}

export function link(url, ...children) {
  return el("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, ...children);
}

const REFUSED = { 401: "The provider refused the API key", 403: "The provider refused the API key", 413: "The request is too large for the provider", 429: "The provider refuses more requests for now" };

/** Return what an error of a provider says in one sentence, and the whole of it if that is more. */
export function sentenceOf(error) {
  const page = /<(?:!doctype html|html)\b(?:[^]*?<title>([^]*?)<\/title>)?/i.exec(error);
  if (page) {
    const title = (page[1] ?? "").replace(/\s+/g, " ").replace(/^ *\d{3}\b */, "").trim();
    return { ...sentenceOf(`${error.slice(0, page.index).trim()} ${title}`.trim()), details: error };
  }
  const start = error.search(/[{[]/);
  const end = error.lastIndexOf(error[start] === "{" ? "}" : "]") + 1;
  let body;
  try {
    body = JSON.parse(error.slice(start, end));
  } catch {
    // It was cut off, which says nothing to a person, or it is text in brackets.
  }
  const hasJson = start >= 0 && end > start && (body !== undefined || error[start] === "{");
  const head = (hasJson ? error.slice(0, start) : error).trim();
  const status = /^\d{3}\b/.exec(head)?.[0];
  let said = status ? head.slice(3).replace(/^[:\s]+/, "") : head;
  if (hasJson) {
    const message = messageIn(body);
    said = [said.replace(/[:,-]$/, ""), message, error.slice(end).trim()].filter((each) => typeof each === "string" && each).join(": ");
  }
  const lead = status && (REFUSED[status] ?? (status >= 500 ? "The provider failed" : "The provider refused the request"));
  const text = lead ? `${lead} (${status})${said && `: ${said}`}` : said || "The model failed";
  return { sentence: /[.!?…]$/.test(text) ? text : `${text}.`, details: hasJson ? error : "" };
}

/** Find the message in the JSON of an error. Brokers put the error of another provider into the message or beside it. */
function messageIn(body, depth = 0) {
  if (depth === 12 || body === null || body === undefined) return "";
  if (typeof body === "string") {
    try {
      return (/^[{[]/.test(body) && messageIn(JSON.parse(body), depth + 1)) || body.trim();
    } catch {
      return body.trim();
    }
  }
  if (typeof body !== "object") return "";
  if (!Array.isArray(body) && typeof body.metadata?.raw === "string" && body.metadata.raw) return messageIn(body.metadata.raw, depth + 1);
  const parts = Array.isArray(body) ? body : [body.error, body.message, body.detail, body.msg, body.errors];
  for (const part of parts) {
    const found = messageIn(part, depth + 1);
    if (found) return found;
  }
  return "";
}

/** Show an error of a provider: a sentence, and the details for those who want them. */
export function problem(error) {
  const { sentence, details } = sentenceOf(error);
  const whole = details && el("details", {}, el("summary", {}, "Details"), el("pre", { tabIndex: 0, role: "region", "aria-label": "Details of the error" }, el("code", {}, details)));
  return el("div", { className: "problem" }, el("p", {}, sentence), whole || null);
}

/** Tell users of screen readers something. */
export function announce(text, { urgent = false } = {}) {
  const region = byId(urgent ? "alerts" : "announcements");
  region.textContent = "";
  requestAnimationFrame(() => (region.textContent = text));
}

let pageTitle = "fairlead";
let waitingSessions = 0;

/** Set the title of the tab: what the page shows, and how many sessions wait for the user. */
export function entitle({ title = pageTitle, waiting = waitingSessions }) {
  [pageTitle, waitingSessions] = [title, waiting];
  document.title = waiting ? `(${waiting}) ${title}` : title;
}

/** Show a notice for a while, and perhaps a link. Errors stay until they are closed. */
export function notice(text, kind = "info", url = null, more = null) {
  const close = () => shown.remove();
  const shown = el(
    "div",
    { className: `notice ${kind}` },
    el("p", {}, text, url && [" ", link(url, url)], more && [" ", more]),
    el("button", { type: "button", className: "quiet", onclick: close, "aria-label": "Close notice" }, "×"),
  );
  byId("notices").append(shown);
  announce(text, { urgent: kind === "error" });
  if (kind !== "error" && !url) setTimeout(close, 8000);
}
