// The page: opens the session in the address, and passes its events to the parts that show them.

import { call } from "./api.mjs";
import { Composer } from "./composer.mjs";
import { Connection } from "./connection.mjs";
import { announce, byId, entitle, isTouched, notice, safeUrl, sentenceOf } from "./dom.mjs";
import { JobsView } from "./jobs.mjs";
import { Panel } from "./panel.mjs";
import { Questions } from "./questions.mjs";
import { Sidebar } from "./sidebar.mjs";
import { Subagents } from "./subagents.mjs";
import { Transcript } from "./transcript.mjs";
import { TreeDialog } from "./tree.mjs";

const STATES = { connecting: "Connecting…", live: "Connected", lost: "Connection lost. Trying again…", ended: "Not connected" };
const DOING = { sending: "Sending…", running: "Working…", compacting: "Summarising older messages…", waiting: "Waiting for your answer" };

class App {
  constructor() {
    this._connection = null;
    this._draft = "";
    this._status = "idle";
    this._isSending = false;
    this._isInRun = false;
    this._runs = 0;
    this._widgets = new Map();
    this._transcript = new Transcript(byId("transcript"), byId("scroller"));
    this._questions = new Questions(byId("questions"), (call, isAsking) => this._transcript.toolAsks(call, isAsking));
    this._subagents = new Subagents(byId("subagents"));
    this._composer = new Composer((id) => this._go(id));
    this._composer.onSending = (isSending) => this._showSending(isSending);
    this._composer.onSent = (status) => this._sent(status);
    this._sidebar = new Sidebar((id) => id === this._composer.begun);
    const fork = (id, text) => this._go(id, text);
    this._panel = new Panel({
      onDeleted: (id) => {
        this._sidebar.forget(id);
        this._go("");
      },
      onTree: () => this._tree.open(this._connection.id),
      titleOf: (id) => this._sidebar.titleOf(id),
    });
    this._panel.onShown = ({ interrupted }) => (this._composer.isInterrupted = Boolean(interrupted));
    this._sidebar.onRefreshed = () => this._panel.showTitle();
    this._jobs = new JobsView();
    this._tree = new TreeDialog(fork, (text) => {
      this._composer.setText(text);
      byId("message").focus();
    });
    addEventListener("hashchange", () => this._openFromAddress());
    byId("log-out").addEventListener("click", () => this._logOut());
    byId("skip").addEventListener("click", () => byId(document.body.dataset.view === "jobs" ? "jobs" : "message").focus());
    byId("connection").addEventListener("click", () => this._connection?.hurry());
    this._start();
  }

  async _start() {
    this._loadModels();
    await this._sidebar.refresh();
    this._openFromAddress();
  }

  async _loadModels() {
    try {
      const { models } = await call("GET", "/v1/models");
      this._panel.models = models;
      this._composer.models = models;
    } catch (error) {
      notice(error.message, "error");
    }
  }

  _go(id, draft = "") {
    this._draft = draft;
    if (location.hash === `#${id}`) this._openFromAddress();
    else location.hash = `#${id}`;
  }

  _openFromAddress() {
    const address = idInAddress();
    const job = address === "/jobs" ? "" : address.startsWith("/jobs/") ? address.slice(6) : null;
    const id = job === null ? address : "";
    this._connection?.close();
    this._connection = null;
    this._sidebar.current = id;
    const view = job !== null ? "jobs" : id ? "session" : "start";
    document.body.dataset.view = view;
    byId("welcome").hidden = view !== "start";
    byId("session").hidden = view !== "session";
    byId("composer").hidden = view === "jobs";
    byId("jobs-link").toggleAttribute("aria-current", view === "jobs");
    this._jobs.close();
    this._questions.clear();
    this._subagents.load([]);
    this._widgets.clear();
    this._drawWidgets();
    if (id) this._open(id, 100);
    else if (job !== null) {
      byId("title").textContent = job || "Jobs";
      byId("where").textContent = "";
      entitle({ title: `${job || "Jobs"} – fairlead` });
      this._composer.open(null);
      this._jobs.open(job);
    } else {
      byId("title").textContent = "fairlead";
      entitle({ title: "fairlead" });
      byId("where").textContent = "";
      this._composer.open(null, this._draft);
      this._draft = "";
      if (!isTouched()) byId("message").focus();
    }
  }

  _open(id, messages) {
    this._connection?.close();
    this._questions.session = id;
    if (this._composer.session !== id) this._composer.open(id, this._draft);
    this._draft = "";
    this._connection = new Connection(
      id,
      {
        snapshot: (snapshot) => this._show(snapshot),
        event: (event) => this._observe(event),
        state: (state) => this._showConnection(state),
        failed: (error) => {
          this._showConnection("ended");
          notice(error.message, "error");
          this._sidebar.refresh(); // another client may have deleted the session
        },
      },
      messages,
    );
  }

  _showConnection(state) {
    const button = byId("connection");
    if (button.dataset.state === state) return;
    if (state === "lost" || (state === "live" && button.dataset.state === "lost")) announce(STATES[state]);
    button.dataset.state = state;
    byId("connection-text").textContent = STATES[state];
  }

  _show(snapshot) {
    const { id, messages } = this._connection;
    this._transcript.load(snapshot, () => this._open(id, messages * 4));
    this._questions.load(snapshot.questions);
    this._subagents.load(snapshot.subagents);
    this._showTodos(snapshot.todos);
    this._runs++; // a run that the page has not heard of may have ended
    this._isInRun = snapshot.session.status !== "idle";
    this._showStatus(snapshot.session.status);
    this._panel.show(snapshot.session);
    this._composer.queue(snapshot.session.steering ?? [], snapshot.session.followUp ?? []);
    document.documentElement.dataset.ready = id;
    if (!isTouched() && this._transcript.isEmpty) byId("message").focus();
    this._sidebar.expect(id);
  }

  /** Show what the session does, also in the list. A session that has asked something waits, whatever else it does. */
  _showStatus(status = this._status) {
    this._status = status;
    const isBusy = status !== "idle";
    const { isWaiting } = this._questions;
    const shown = isWaiting ? "waiting" : this._isSending && !isBusy ? "sending" : status;
    this._composer.isRunning = isBusy;
    if (isBusy) this._composer.isInterrupted = false;
    else this._transcript.giveUpCalls();
    byId("working").hidden = shown === "idle";
    byId("working").dataset.state = shown;
    byId("working-text").textContent = DOING[shown] ?? "";
    byId("scroller").setAttribute("aria-busy", String(isBusy));
    this._sidebar.showStatus(this._connection.id, status, isWaiting);
  }

  _showSending(isSending) {
    this._isSending = isSending;
    if (isSending) this._runsBefore = this._runs;
    if (this._connection) this._showStatus();
    if (!isSending) this._questions.takeFocus(); // one may have come before the field was empty
  }

  /** A message was accepted. Its run may have ended already; if it has not begun, the session works from now on. */
  _sent(status) {
    this._transcript.toEnd();
    if (status === "started" && this._connection && this._runs === this._runsBefore) this._showStatus("running");
  }

  _observe(event) {
    const transcript = this._transcript;
    switch (event.type) {
      case "agent_start":
        this._runs++;
        this._isInRun = true;
        this._showStatus("running");
        announce("The agent works.");
        break;
      case "agent_settled":
        this._settled(event);
        break;
      case "turn_end":
        this._panel.refresh();
        break;
      case "message_start":
        transcript.start(event.message);
        if (event.message.role === "user") this._sidebar.expect(this._connection.id);
        break;
      case "message_update":
        transcript.update(event.assistantMessageEvent);
        break;
      case "message_end":
        transcript.end(event.message);
        break;
      case "tool_execution_start":
        transcript.toolStarted(event);
        break;
      case "tool_execution_update":
        transcript.toolUpdated(event);
        break;
      case "tool_execution_end":
        transcript.toolEnded(event);
        break;
      case "question":
        this._questions.show(event);
        this._showStatus();
        transcript.follow(); // the observer of its size notices nothing if one question takes the place of another
        break;
      case "question_closed":
        this._questions.closed(event);
        this._showStatus();
        break;
      case "queue_update":
        this._composer.queue(event.steering, event.followUp);
        break;
      default:
        this._observeRest(event);
    }
  }

  _observeRest(event) {
    switch (event.type) {
      case "compaction_start":
        this._showStatus("compacting");
        break;
      case "compaction_end":
        if (event.errorMessage && event.reason !== "manual") notice(sentenceOf(event.errorMessage).sentence, "error");
        this._open(this._connection.id, this._connection.messages);
        break;
      case "auto_retry_start":
      case "summarization_retry_scheduled":
        this._transcript.note(`${sentenceOf(event.errorMessage).sentence} Attempt ${event.attempt} of ${event.maxAttempts} follows.`);
        break;
      case "prompt_result":
        if (!this._isInRun && this._status === "running") this._showStatus("idle"); // it failed before its run began
        if (event.status === "error" && event.error) announce(sentenceOf(event.error).sentence, { urgent: true });
        break;
      case "session_replaced":
        this._go(event.sessionId);
        break;
      case "model_changed":
      case "approval_mode_changed":
      case "thinking_level_changed":
      case "session_info_changed":
        this._panel.refresh();
        this._sidebar.refresh();
        break;
      case "branch_changed":
        this._open(this._connection.id, this._connection.messages);
        break;
      case "subagent_progress":
        this._subagents.progress(event.payload.progress);
        break;
      case "subagent_lifecycle":
        if (event.payload.status !== "started") this._subagents.end(event.payload);
        break;
      case "todos_changed":
        this._showTodos(event.todos);
        break;
      case "extension_error":
        notice(`${event.extensionPath}: ${event.error}`, "error");
        break;
      case "shown":
        this._shown(event);
        break;
      default:
        break;
    }
  }

  _settled(event) {
    this._isInRun = false;
    this._showStatus("idle");
    this._subagents.load([]);
    this._panel.refresh();
    this._sidebar.refresh();
    const answers = byId("transcript").querySelectorAll("article.assistant > .markdown");
    const last = answers[answers.length - 1]?.textContent ?? "";
    announce(event.aborted ? "Stopped." : `The agent has finished. ${last.slice(0, 300)}`);
  }

  /** Show what an extension shows. */
  _shown(event) {
    switch (event.method) {
      case "notify":
        notice(event.text ?? "", event.kind === "error" ? "error" : "info");
        break;
      case "openUrl":
        notice(event.text ?? "Open this page:", "info", safeUrl(event.url ?? ""));
        break;
      case "setEditorText":
        this._composer.setText(event.text ?? "");
        break;
      case "setStatus":
      case "setWidget": {
        const text = event.lines ? event.lines.join("\n") : (event.text ?? "");
        if (text) this._widgets.set(event.key, text);
        else this._widgets.delete(event.key);
        this._drawWidgets();
        break;
      }
      default:
        break;
    }
  }

  _showTodos(phases) {
    const tasks = phases.flatMap((phase) => phase.tasks ?? []);
    const isOpen = tasks.some((task) => !["completed", "abandoned"].includes(task.status));
    const mark = { completed: "☑", in_progress: "▸", abandoned: "☒" };
    const lines = isOpen ? tasks.map((task) => `${mark[task.status] ?? "☐"} ${task.content}`) : [];
    this._shown({ method: "setWidget", key: "todos of the agent", lines });
  }

  _drawWidgets() {
    byId("widgets").textContent = [...this._widgets.values()].join("\n");
    byId("widgets").hidden = !this._widgets.size;
  }

  async _logOut() {
    this._connection?.close();
    await call("POST", "/logout").catch(() => {});
    sessionStorage.removeItem("return");
    location.replace("/login");
  }
}

/** Return the session in the address. Something that is not encoded well is taken as it is, and found to be missing. */
function idInAddress() {
  const text = location.hash.slice(1);
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

new App();
