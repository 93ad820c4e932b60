// Follows one session: a snapshot, then every event after it exactly once, across lost connections.

import { ApiError, backoff, call, request, sessionPath } from "./api.mjs";

/** Without a byte for so long, the connection is dead: the server sends something every 15 seconds. */
const SILENCE = 40_000;

/** Yield the server-sent events of an address, each with its number, until they end, nothing comes any more, or `stop` is aborted. */
export async function* listen(path, stop, onOpen = () => {}) {
  let timer = null;
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(() => stop.abort(), SILENCE);
  };
  alive();
  try {
    const response = await request(path, { signal: stop.signal, headers: { accept: "text/event-stream" } });
    onOpen();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let buffer = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      alive();
      buffer += value;
      const records = buffer.split("\n\n");
      buffer = records.pop();
      for (const record of records) {
        let number = null;
        let data = "";
        for (const line of record.split("\n")) {
          if (line.startsWith("id: ")) number = Number(line.slice(4));
          else if (line.startsWith("data: ")) data += line.slice(6);
        }
        if (data) yield { number, event: JSON.parse(data) };
      }
    }
  } finally {
    clearTimeout(timer);
    stop.abort();
  }
}

export class Connection {
  /** `handlers` has `snapshot(snapshot)`, `event(event)`, `state("connecting" | "live" | "lost")` and `failed(error)`. */
  constructor(id, handlers, messages = 100) {
    this.id = id;
    this.messages = messages;
    this.last = null;
    this._handlers = handlers;
    this._stop = new AbortController();
    this._retry = null;
    this._online = () => this.hurry();
    this._offline = () => this._attempt?.abort();
    addEventListener("online", this._online);
    addEventListener("offline", this._offline);
    document.addEventListener("visibilitychange", this._online);
    this._run();
  }

  close() {
    this._stop.abort();
    this._attempt?.abort();
    this._retry?.();
    removeEventListener("online", this._online);
    removeEventListener("offline", this._offline);
    document.removeEventListener("visibilitychange", this._online);
  }

  /** Do not wait for the next attempt. */
  hurry() {
    if (!document.hidden) this._retry?.();
  }

  get closed() {
    return this._stop.signal.aborted;
  }

  async _run() {
    for (let attempt = 0; !this.closed; attempt++) {
      this._handlers.state(attempt ? "lost" : "connecting");
      const since = Date.now();
      try {
        if (this.last === null) await this._load();
        if (!this.closed) await this._listen();
      } catch (error) {
        if (this.closed) return;
        if (error instanceof ApiError && error.status < 500 && error.status !== 429) {
          this._handlers.failed(error);
          return;
        }
      }
      if (this.closed) return;
      if (this.last === null && this._resync) {
        this._resync = false;
        attempt = -1;
        continue;
      }
      if (Date.now() - since > 10_000) attempt = 0;
      this._handlers.state("lost");
      await this._pause(backoff(attempt));
    }
  }

  async _load() {
    const snapshot = await call("GET", `${sessionPath(this.id)}?messages=${this.messages}`);
    if (this.closed) return;
    this.last = snapshot.lastEvent;
    this._handlers.snapshot(snapshot);
  }

  async _listen() {
    this._attempt = new AbortController();
    const path = `${sessionPath(this.id, "events")}?after=${this.last}`;
    for await (const { number, event } of listen(path, this._attempt, () => this._handlers.state("live"))) {
      if (this.closed || !this._take(number, event)) return;
    }
  }

  /** Handle an event. Returns false if the connection has to start anew. */
  _take(number, event) {
    if (event.type === "resync") {
      this.last = null;
      this._resync = true;
      return false;
    }
    if (number !== null) {
      if (number <= this.last) return true;
      this.last = number;
    }
    this._handlers.event(event);
    return true;
  }

  _pause(milliseconds) {
    return new Promise((done) => {
      const timer = setTimeout(done, milliseconds);
      this._retry = () => {
        clearTimeout(timer);
        done();
      };
    });
  }
}
