"use strict";
// Everything is in the page already. This script shows one branch at a time, searches, follows links within the page
// and listens to the keyboard. It makes no markup out of text.
(() => {
  const byId = (id) => document.getElementById(id);
  const session = JSON.parse(byId("session").textContent);
  const entries = [...document.querySelectorAll("article.entry")];
  const indexes = new Map(entries.map((entry, index) => [entry.id, index]));
  const groups = [...document.querySelectorAll(".group")];
  const rows = [...document.querySelectorAll("#outline li")];
  const { parents } = session;

  // ---- Branches

  // The newest entry at or below each; children always come after their parents.
  const newest = parents.map((_, index) => index);
  for (let index = parents.length - 1; index >= 0; index--) {
    const parent = parents[index];
    if (parent >= 0 && newest[parent] < newest[index]) newest[parent] = newest[index];
  }
  let onPath = new Set();

  function showBranch(leaf) {
    const path = new Set();
    for (let index = leaf; index >= 0; index = parents[index]) path.add(index);
    onPath = path;
    entries.forEach((entry, index) => {
      if (entry.hidden === path.has(index)) entry.hidden = !path.has(index);
    });
    groups.forEach(estimate);
    for (const row of rows) row.classList.toggle("on", path.has(Number(row.dataset.at)));
    showBranchTotal();
  }

  // How high a group is that was not drawn yet, so that the scroll bar tells the truth, more or less.
  function estimate(group) {
    let height = 0;
    for (const entry of group.children) if (!entry.hidden) height += 3.5 + entry.dataset.lines * 1.3;
    group.hidden = !height;
    group.style.containIntrinsicBlockSize = `auto ${Math.round(height)}rem`;
  }

  const showTools = byId("show-tools");
  const showThinking = byId("show-thinking");

  // An entry that is looked for is shown, whatever the toggles say.
  function reveal(index) {
    if (!onPath.has(index)) showBranch(newest[index]);
    if (entries[index].matches(".result, .calls-only")) showTools.checked = true;
  }

  function showBranchTotal() {
    const place = byId("branch-total");
    if (!place) return;
    const sums = [0, 0, 0, 0];
    for (const index of onPath) {
      const use = session.uses[index];
      if (use) use.forEach((amount, kind) => (sums[kind] += amount));
    }
    const names = ["in", "out", "cached"];
    const parts = names.map((name, kind) => sums[kind] && `${tokens(sums[kind])} ${name}`);
    place.textContent = [...parts, sums[3] && dollars(sums[3])].filter(Boolean).join(" · ") || "nothing";
  }

  const tokens = (amount) =>
    amount < 1000 ? amount.toFixed(0) : amount < 999950 ? `${(amount / 1000).toFixed(1)}k` : `${(amount / 1e6).toFixed(1)}M`;
  const dollars = (amount) =>
    amount >= 1 ? `$${amount.toFixed(2)}` : amount >= 0.0001 ? `$${amount.toFixed(4)}` : "<$0.0001";

  // ---- Moving about

  let target = null;

  // Entries off the screen have estimated heights until they are drawn: scroll again once those on the way are.
  function scrollTo(element, block) {
    element.scrollIntoView({ block });
    let rounds = 3;
    const again = () => {
      element.scrollIntoView({ block });
      if (--rounds) requestAnimationFrame(again);
    };
    requestAnimationFrame(again);
  }

  function choose(index, { focus = true } = {}) {
    reveal(index);
    const entry = entries[index];
    target?.classList.remove("target");
    target = entry;
    entry.classList.add("target");
    if (focus) entry.focus({ preventScroll: true });
    scrollTo(entry, "start");
  }

  function followAddress() {
    let name = location.hash.slice(1);
    try {
      name = decodeURIComponent(name);
    } catch {
      // Not an address of ours.
    }
    if (indexes.has(name)) choose(indexes.get(name));
  }

  function entryAt(height) {
    const main = byId("main").getBoundingClientRect();
    return document.elementFromPoint(main.left + main.width / 2, height)?.closest("article.entry") ?? null;
  }

  function currentEntry() {
    const focused = document.activeElement?.closest?.("article.entry");
    if (focused) return focused;
    for (let height = 70; height < innerHeight; height += 24) {
      const entry = entryAt(height);
      if (entry) return entry;
    }
    return null;
  }

  function step(direction) {
    const current = currentEntry();
    let index = current ? indexes.get(current.id) : direction > 0 ? -1 : entries.length;
    do index += direction;
    while (index >= 0 && index < entries.length && (entries[index].hidden || !entries[index].checkVisibility()));
    if (entries[index]) choose(index);
  }

  function toggleFolds(entry) {
    const folds = [...entry.querySelectorAll("details")];
    const open = folds.some((fold) => !fold.open);
    for (const fold of folds) fold.open = open;
  }

  // ---- The outline

  const outline = byId("outline");
  const outlineButton = byId("toggle-outline");
  const places = rows.map((row) => Number(row.dataset.at));
  let currentRow = null;

  function openOutline(open) {
    outline.classList.toggle("open", open);
    outlineButton.setAttribute("aria-expanded", String(open));
  }

  // The last row of this branch at or before the entry at the top of the screen.
  function markCurrentRow() {
    const entry = entryAt(innerHeight / 3) ?? entryAt(innerHeight / 2);
    if (!entry) return;
    const index = indexes.get(entry.id);
    const kind = document.querySelector("input[name=outline]:checked").value;
    let best = -1;
    places.forEach((place, row) => {
      if (place > index || !onPath.has(place) || (best >= 0 && place <= places[best])) return;
      if (kind === "all" || rows[row].classList.contains(`k-${kind}`)) best = row;
    });
    const link = best < 0 ? null : rows[best].firstElementChild;
    if (link === currentRow) return;
    currentRow?.removeAttribute("aria-current");
    currentRow = link;
    if (!link) return;
    link.setAttribute("aria-current", "location");
    if (outline.matches(":hover")) return;
    const room = outline.getBoundingClientRect();
    const box = link.getBoundingClientRect();
    if (box.top < room.top || box.bottom > room.bottom) outline.scrollTop += box.top - room.top - room.height / 2;
  }

  let scrolled = false;
  addEventListener(
    "scroll",
    () => {
      if (scrolled) return;
      scrolled = true;
      requestAnimationFrame(() => {
        scrolled = false;
        markCurrentRow();
      });
    },
    { passive: true },
  );

  // ---- Search

  const query = byId("query");
  const countPlace = byId("count");
  const texts = [];
  const highlights = typeof Highlight === "function" && CSS.highlights;
  let matches = []; // pairs of an entry's index and the place in its text
  let at = -1;
  let searching = 0;

  // Lower case and blanks alone, character by character, so that places stay what they are.
  function folded(text) {
    const lower = text.toLowerCase();
    const same = lower.length === text.length ? lower : Array.from(text, (c) => (c.toLowerCase().length === c.length ? c.toLowerCase() : c)).join("");
    return same.replace(/\s/g, " ");
  }

  const textOf = (index) => (texts[index] ??= folded(entries[index].lastElementChild.textContent));

  function rangesIn(index, starts, length) {
    const walker = document.createTreeWalker(entries[index].lastElementChild, NodeFilter.SHOW_TEXT);
    const ranges = [];
    let node = walker.nextNode();
    let before = 0;
    const locate = (place, isEnd) => {
      while (node && (isEnd ? before + node.length < place : before + node.length <= place)) {
        before += node.length;
        node = walker.nextNode();
      }
      return node && [node, place - before];
    };
    for (const start of starts) {
      const from = locate(start, false);
      const to = from && locate(start + length, true);
      if (!to) break;
      const range = new Range();
      range.setStart(...from);
      range.setEnd(...to);
      ranges.push(range);
    }
    return ranges;
  }

  // Ranges are made for entries as they come into view; a common word may have very many.
  const watcher = new IntersectionObserver((seen) => {
    for (const { target: entry, isIntersecting } of seen) {
      if (!isIntersecting) continue;
      watcher.unobserve(entry);
      const index = indexes.get(entry.id);
      const starts = matches.filter(([owner]) => owner === index).map(([, start]) => start);
      for (const range of rangesIn(index, starts, query.value.length)) CSS.highlights.get("found")?.add(range);
    }
  });

  async function search() {
    const run = ++searching;
    const wanted = folded(query.value);
    matches = [];
    at = -1;
    watcher.disconnect();
    if (highlights) {
      highlights.set("found", new Highlight());
      highlights.delete("found-now");
    }
    let pause = performance.now() + 12;
    for (let index = 0; wanted && index < entries.length; index++) {
      const text = textOf(index);
      let found = false;
      for (let start = text.indexOf(wanted); start >= 0; start = text.indexOf(wanted, start + wanted.length)) {
        matches.push([index, start]);
        found = true;
      }
      if (found && highlights) watcher.observe(entries[index]);
      if (performance.now() > pause) {
        await new Promise((resume) => setTimeout(resume));
        if (run !== searching) return;
        pause = performance.now() + 12;
      }
    }
    showCount();
  }

  function showCount() {
    const total = matches.length.toLocaleString("en");
    countPlace.textContent = !query.value ? "" : !matches.length ? "No matches" : at < 0 ? `${total} found` : `${(at + 1).toLocaleString("en")} of ${total}`;
    byId("next").disabled = byId("previous").disabled = !matches.length;
  }

  // The first match to go to is the nearest one from here on, in the branch that is shown if it has any.
  function firstMatch(direction) {
    const current = currentEntry();
    const here = current ? indexes.get(current.id) : 0;
    const candidates = matches.map((match, place) => [match[0], place]).filter(([index]) => onPath.has(index));
    const ahead = candidates.filter(([index]) => (direction > 0 ? index >= here : index <= here));
    const pool = ahead.length ? ahead : candidates;
    if (!pool.length) return direction > 0 ? 0 : matches.length - 1;
    return pool.at(direction > 0 ? 0 : -1)[1];
  }

  function goToMatch(direction) {
    if (!matches.length) return;
    at = at < 0 ? firstMatch(direction) : (at + direction + matches.length) % matches.length;
    const [index, start] = matches[at];
    choose(index, { focus: false });
    const [range] = rangesIn(index, [start], query.value.length);
    if (range) {
      const holder = range.startContainer.parentElement;
      if (holder.closest(".thinking")) showThinking.checked = true;
      if (holder.closest(".call")) showTools.checked = true;
      for (let fold = holder.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
      if (highlights) highlights.set("found-now", new Highlight(range));
      scrollTo(holder, "center");
    }
    showCount();
  }

  // ---- Times, and the session as a file

  const two = (number) => String(number).padStart(2, "0");
  const dayOf = (time) => `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;

  // Times become those of the reader's zone; the date is left out on the day the session began.
  function localTimes() {
    const began = document.querySelector(".heading time");
    const first = began ? dayOf(new Date(began.dateTime)) : "";
    for (const element of document.querySelectorAll("time")) {
      const time = new Date(element.dateTime);
      const day = dayOf(time);
      const clock = `${two(time.getHours())}:${two(time.getMinutes())}`;
      element.title = `${element.dateTime.slice(0, 16).replace("T", " ")} UTC`;
      element.textContent = element !== began && day === first ? clock : `${day} ${clock}`;
    }
    byId("zone").textContent = `Times are in your time zone, ${Intl.DateTimeFormat().resolvedOptions().timeZone}.`;
  }

  // The link holds the file compressed. Where the browser can unpack it, the reader gets the file itself.
  async function download(link) {
    const packed = Uint8Array.from(atob(link.href.split(",")[1]), (char) => char.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const address = URL.createObjectURL(await new Response(stream).blob());
    const plain = document.createElement("a");
    plain.href = address;
    plain.download = link.download.replace(/\.gz$/, "");
    plain.click();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
  }

  // ---- The theme, printing, the keyboard

  function switchTheme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try {
      localStorage.setItem("fairlead-theme", root.dataset.theme);
    } catch {
      // Pages opened from a file may not be allowed to remember.
    }
  }

  function rememberedTheme() {
    try {
      const theme = localStorage.getItem("fairlead-theme");
      if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    } catch {
      // As above.
    }
  }

  let unfolded = [];
  addEventListener("beforeprint", () => {
    unfolded = [...document.querySelectorAll("article.entry:not([hidden]) details:not([open])")];
    for (const fold of unfolded) fold.open = true;
  });
  addEventListener("afterprint", () => {
    for (const fold of unfolded) fold.open = false;
    unfolded = [];
  });

  const help = byId("help");
  const keys = {
    j: () => step(1),
    k: () => step(-1),
    n: () => goToMatch(1),
    N: () => goToMatch(-1),
    t: switchTheme,
    i: () => showThinking.click(),
    o: () => showTools.click(),
    "/": () => query.select(),
    "?": () => help.showModal(),
    Enter: () => document.activeElement.matches("article.entry") && toggleFolds(document.activeElement),
    Escape: () => openOutline(false),
  };

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open || event.target === query) return;
    const action = Object.hasOwn(keys, event.key) && keys[event.key];
    // Enter belongs to a link, button or fold that has the focus.
    if (!action || (event.key === "Enter" && !event.target.matches?.("article.entry"))) return;
    event.preventDefault();
    action();
  });
  query.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.isComposing) goToMatch(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") currentEntry()?.focus({ preventScroll: true });
    else return;
    event.preventDefault();
  });
  query.addEventListener("input", search);
  byId("next").addEventListener("click", () => goToMatch(1));
  byId("previous").addEventListener("click", () => goToMatch(-1));
  byId("theme").addEventListener("click", switchTheme);
  byId("show-help").addEventListener("click", keys["?"]);
  byId("close-help").addEventListener("click", () => help.close());
  outlineButton.addEventListener("click", () => openOutline(!outline.classList.contains("open")));
  // A click on the link of the address that is shown already is no change of it.
  document.addEventListener("click", (event) => {
    if (event.target.closest?.('#download, a[href="#download"]') && typeof DecompressionStream === "function") {
      event.preventDefault();
      download(byId("download"));
      return;
    }
    const link = event.target.closest?.('a[href^="#entry-"]');
    if (!link) return;
    openOutline(false);
    if (link.hash === location.hash) followAddress();
  });
  addEventListener("hashchange", followAddress);

  for (const choice of document.querySelectorAll("input[name=outline]")) choice.addEventListener("change", markCurrentRow);
  rememberedTheme();
  localTimes();
  showBranch(session.leaf);
  followAddress();
  markCurrentRow();
  document.documentElement.dataset.ready = "";
})();
