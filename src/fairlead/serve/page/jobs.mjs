// The jobs of a fleet: all of them as a table, or one with what it has done so far.

import { ApiError, backoff, call, request, wait } from "./api.mjs";
import { listen } from "./connection.mjs";
import { announce, byId, el, fill, icon, notice, problem, sentenceOf } from "./dom.mjs";
import { diffLines } from "./highlight.mjs";
import { renderMarkdown } from "./markdown.mjs";
import { diffBlock, reveal, textOf, titleOf } from "./tools.mjs";

/** How often the table is fetched, in milliseconds, and how many rows it has at first. */
const REFRESH = 3_000;
const ROWS = 200;
/** How many lines of events, and how many characters of one, are shown. */
const MOST_EVENTS = 500;
const LONGEST = 20_000;
const PICTURES = { queued: "clock", running: "play", done: "check", failed: "alert", cancelled: "close", parked: "stop" };
const ENDED = ["done", "failed", "cancelled", "parked"];

export const jobPath = (id, ...rest) => ["/fleet/jobs", encodeURIComponent(id), ...rest].join("/");

export class JobsView {
  constructor() {
    this._jobs = [];
    this._rows = ROWS;
    this._stop = null;
    byId("job-search").addEventListener("input", () => this._draw());
    byId("job-status").addEventListener("change", () => this._draw());
    byId("more-jobs").addEventListener("click", () => {
      this._rows *= 4;
      this._draw();
    });
    byId("job-cancel").addEventListener("click", () => this._change("cancel"));
    byId("job-retry").addEventListener("click", () => this._change("retry"));
    byId("job-patch").addEventListener("toggle", () => this._showPatch());
  }

  /** Show one job, or all of them. */
  open(id) {
    this.close();
    this._id = id;
    byId("jobs").hidden = false;
    byId("job-list").hidden = Boolean(id);
    byId("job").hidden = !id;
    this._stop = new AbortController();
    if (id) {
      byId("job-facts").replaceChildren();
      byId("job-result").replaceChildren();
      byId("job-events").replaceChildren();
      byId("job-patch").hidden = true;
      byId("job-patch").open = false;
      byId("job-session").hidden = byId("job-cancel").hidden = byId("job-retry").hidden = true;
      this._last = 0;
      this._follow(this._stop.signal);
    } else this._poll(this._stop.signal);
  }

  close() {
    this._stop?.abort();
    this._stop = null;
    byId("jobs").hidden = true;
  }

  async _poll(signal) {
    while (!signal.aborted) {
      const since = performance.now();
      if (!document.hidden) {
        try {
          const jobs = await call("GET", "/fleet/jobs");
          if (signal.aborted) return;
          this._jobs = jobs.reverse(); // the newest first
          byId("job-trouble").textContent = "";
          this._draw();
        } catch (error) {
          if (signal.aborted) return;
          byId("job-trouble").textContent = error.message;
        }
      }
      // All jobs come at once, so a slow network gets its time.
      await wait(Math.max(REFRESH, 10 * (performance.now() - since)));
    }
  }

  _draw() {
    const [status, words] = [byId("job-status").value, byId("job-search").value.toLowerCase()];
    const text = (job) => `${job.id} ${job.session} ${Object.entries(job.labels).flat().join(" ")}`.toLowerCase();
    const found = this._jobs.filter((job) => (!status || job.status === status) && text(job).includes(words));
    const shown = found.slice(0, this._rows);
    const drawn = JSON.stringify(shown.map(({ answer, ...job }) => job));
    const count = found.length === this._jobs.length ? `${found.length}` : `${found.length} of ${this._jobs.length}`;
    byId("job-count").textContent = `${count} ${this._jobs.length === 1 ? "job" : "jobs"}`;
    byId("no-jobs").hidden = found.length > 0;
    byId("more-jobs").hidden = shown.length === found.length;
    if (drawn === this._drawn && byId("job-rows").children.length === shown.length) return;
    this._drawn = drawn;
    const focused = document.activeElement?.dataset?.job;
    fill(byId("job-rows"), shown.map(rowOf));
    if (focused) byId("job-rows").querySelector(`[data-job="${CSS.escape(focused)}"]`)?.focus();
  }

  // One job

  async _load() {
    const id = this._id;
    const job = await call("GET", jobPath(id));
    if (id !== this._id || !this._stop) return null;
    const names = Object.entries(job.labels).map(([name, value]) => [name, value]);
    const facts = [["Status", statusOf(job)], ["Attempts", String(job.attempts)], ["Turns", String(job.turns)], ["Tokens", job.tokens.toLocaleString()], ["Cost", cost(job)], ["Time", time(job.seconds)], ...names];
    fill(byId("job-facts"), facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
    fill(byId("job-result"), [job.error ? problem(job.error) : "", job.answer ? el("div", { className: "markdown" }, renderMarkdown(job.answer)) : ""]);
    byId("job-session").hidden = false;
    byId("job-session").href = `#${encodeURIComponent(job.session)}`;
    byId("job-cancel").hidden = ENDED.includes(job.status);
    byId("job-retry").hidden = !ENDED.includes(job.status) || job.status === "done";
    byId("job-patch").hidden = !job.snapshot;
    return job;
  }

  /** Show what the job does until it has ended, across lost connections. */
  async _follow(signal) {
    // Its time goes on between events.
    const timer = setInterval(() => !document.hidden && this._load().catch(() => {}), REFRESH);
    try {
      await this._listen(signal);
    } finally {
      clearInterval(timer);
    }
  }

  async _listen(signal) {
    for (let attempt = 0; !signal.aborted; attempt++) {
      try {
        const job = await this._load();
        byId("job-trouble").textContent = "";
        if (!job || signal.aborted) return;
        const stop = new AbortController();
        signal.addEventListener("abort", () => stop.abort(), { once: true });
        for await (const { number, event } of listen(`${jobPath(this._id, "events")}?after=${this._last}`, stop)) {
          if (signal.aborted) return;
          attempt = 0;
          this._last = number;
          this._add(event);
          if (event.type === "started" || event.type === "turn_end") this._load().catch(() => {});
        }
        if (signal.aborted) return;
        if (ENDED.includes((await this._load())?.status)) return;
      } catch (error) {
        if (signal.aborted) return;
        byId("job-trouble").textContent = error.message;
        if (error instanceof ApiError && error.status === 404) return;
      }
      await wait(backoff(attempt));
    }
  }

  /** Add a line for an event. Pieces of one text are one line. */
  _add(event) {
    const list = byId("job-events");
    if (event.type === "text") {
      const key = `${event.entry} ${event.block}`;
      if (list.lastElementChild?.dataset.text !== key) this._line("chat", "", el("span", { className: "text" }), { "data-text": key });
      const shown = list.lastElementChild.querySelector(".text");
      if (shown.textContent.length < LONGEST) shown.append(event.text);
      return;
    }
    if (event.type === "tool_end") {
      const line = list.querySelector(`[data-call="${CSS.escape(event.call)}"]`);
      if (event.is_error) line?.append(el("span", { className: "problem" }, " failed"));
      return;
    }
    const made = describe(event);
    if (made) this._line(...made);
  }

  _line(picture, name, text, attributes = {}) {
    const list = byId("job-events");
    list.append(el("li", attributes, icon(picture), el("div", {}, name && el("strong", {}, name), name && " ", text)));
    while (list.children.length > MOST_EVENTS) list.firstElementChild.remove();
  }

  async _change(action) {
    const button = byId(`job-${action}`);
    button.disabled = true;
    try {
      const id = this._id;
      const job = await call("POST", jobPath(id, action));
      announce(`The job is ${job.status}.`);
      if (id === this._id) this.open(id);
    } catch (error) {
      notice(error.message, "error");
    } finally {
      button.disabled = false;
    }
  }

  async _showPatch() {
    if (!byId("job-patch").open) return;
    const body = byId("job-patch").querySelector("div");
    try {
      const text = await (await request(jobPath(this._id, "patch"), {})).text();
      const lines = diffLines(reveal(text));
      const more = lines.length > 5_000 ? [`… ${lines.length - 5_000} more lines`] : [];
      body.replaceChildren(text ? diffBlock([...lines.slice(0, 5_000), ...more]) : el("p", {}, "The job has changed no file."));
    } catch (error) {
      notice(error.message, "error");
    }
  }
}

/** Return the icon, the name and the text of an event; null if it is not worth a line. */
function describe(event) {
  switch (event.type) {
    case "queued":
      return ["clock", "Queued", ""];
    case "started":
      return ["play", "Started", `attempt ${event.attempt} on ${event.worker}`];
    case "recovered":
      return ["undo", "Recovered", "after its worker died"];
    case "message":
      return event.message?.role === "user" ? ["chat", "Prompt", el("span", { className: "text" }, textOf(event.message.content).slice(0, LONGEST))] : null;
    case "tool": {
      const { verb, about, picture } = titleOf(event.name, event.arguments);
      return [picture, verb, el("code", {}, about), { "data-call": event.call }];
    }
    case "retry":
      return ["undo", "Retry", `${sentenceOf(String(event.error ?? "")).sentence} Attempt ${event.attempt} of ${event.of} follows.`];
    case "compaction":
      return ["compact", "Summarising older messages", ""];
    default:
      return ENDED.includes(event.type) ? [PICTURES[event.type], event.type[0].toUpperCase() + event.type.slice(1), event.error ? sentenceOf(event.error).sentence : ""] : null;
  }
}

function rowOf(job) {
  const link = el("a", { href: `#/jobs/${encodeURIComponent(job.id)}`, "data-job": job.id }, job.id);
  const number = (value, className = "number") => el("td", { className }, String(value));
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, link, job.error && el("span", { className: "faint" }, sentenceOf(job.error).sentence.slice(0, 200))),
    el("td", {}, statusOf(job)),
    number(job.attempts, "number wide"),
    number(job.turns, "number wide"),
    number(job.tokens.toLocaleString(), "number wide"),
    number(cost(job)),
    number(time(job.seconds)),
  );
}

function statusOf(job) {
  return el("span", { className: "job-status", "data-status": job.status }, icon(PICTURES[job.status] ?? "question"), job.status);
}

const cost = (job) => `$${job.cost.toFixed(job.cost && job.cost < 1 ? 4 : 2)}`;

function time(seconds) {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  return whole < 3600 ? `${Math.floor(whole / 60)} min ${whole % 60} s` : `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}
