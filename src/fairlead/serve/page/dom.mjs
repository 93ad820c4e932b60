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

export const byId = (id) => document.getElementById(id);

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

/** Tell users of screen readers something. */
export function announce(text, { urgent = false } = {}) {
  const region = byId(urgent ? "alerts" : "announcements");
  region.textContent = "";
  requestAnimationFrame(() => (region.textContent = text));
}

/** Show a notice for a while. Errors stay until they are closed. */
export function notice(text, kind = "info", url = null) {
  const close = () => shown.remove();
  const shown = el(
    "div",
    { className: `notice ${kind}` },
    el("p", {}, text, url && [" ", link(url, url)]),
    el("button", { type: "button", className: "quiet", onclick: close, "aria-label": "Close notice" }, "×"),
  );
  byId("notices").append(shown);
  announce(text, { urgent: kind === "error" });
  if (kind !== "error" && !url) setTimeout(close, 8000);
}
