// The messages of a session, as they were and as they arrive.

import { el, problem } from "./dom.mjs";
import { MarkdownStream, renderMarkdown } from "./markdown.mjs";
import { ToolCard, imagesOf, textOf } from "./tools.mjs";

/** How near the end the reader must be for the page to follow the answer, in pixels. */
const NEAR = 120;

export class Transcript {
  constructor(root, scroller) {
    this._root = root;
    this._scroller = scroller;
    this._cards = new Map();
    this._open = null;
    this._follows = true;
    this._position = 0;
    scroller.addEventListener("scroll", () => this._scrolled(), { passive: true });
    // Questions and a long message make the room smaller.
    new ResizeObserver(() => this.follow()).observe(scroller);
  }

  /** Show a snapshot instead of what there was. */
  load(snapshot, onOlder) {
    this._cards.clear();
    this._open = null;
    const kept = this._follows ? null : this._scroller.scrollHeight - this._scroller.scrollTop;
    this._root.replaceChildren();
    this._follows = false; // each message would be laid out by itself
    if (snapshot.skippedMessages) {
      const text = `Show older messages (${snapshot.skippedMessages})`;
      this._root.append(el("button", { type: "button", className: "older", onclick: onOlder }, text));
    }
    snapshot.messages.forEach((message) => this.add(message));
    if (snapshot.openMessage) this.start(snapshot.openMessage);
    for (const tool of snapshot.runningTools) {
      const card = this._card(tool.toolCallId, tool.toolName, tool.args);
      card.start();
      if (tool.partialResult) card.update(tool.partialResult);
    }
    if (kept === null) this.toEnd();
    else this._scroller.scrollTop = this._scroller.scrollHeight - kept;
  }

  get isEmpty() {
    return !this._root.querySelector("article");
  }

  toEnd() {
    this._follows = true;
    this.follow();
  }

  follow() {
    if (!this._follows) return;
    this._scroller.scrollTop = this._scroller.scrollHeight;
    this._position = this._scroller.scrollTop;
  }

  /** Follow the end while the reader is near it, until they scroll up. What arrives may be tall, and is no reason to stop. */
  _scrolled() {
    const { scrollHeight, scrollTop, clientHeight } = this._scroller;
    if (scrollHeight - scrollTop - clientHeight < NEAR) this._follows = true;
    else if (scrollTop < this._position) this._follows = false;
    this._position = scrollTop;
  }

  /** Add a message that is complete. */
  add(message) {
    switch (message.role) {
      case "assistant":
        new OpenMessage(this, message).end(message);
        break;
      case "toolResult":
        this._card(message.toolCallId, message.toolName).end(message, message.isError);
        break;
      case "user":
        this._append("user", "You", el("div", { className: "text" }, textOf(message.content)), imagesOf(message.content, "Attached image"));
        break;
      case "bashExecution":
        this._append("note", "Command", el("pre", { tabIndex: 0 }, el("code", {}, `$ ${message.command}\n${message.output}`)));
        break;
      case "compactionSummary":
      case "branchSummary":
        this._append("note", "Summary", el("details", {}, el("summary", {}, "Older messages were summarised"), renderMarkdown(message.summary ?? "")));
        break;
      case "custom":
        if (message.display) this._append("note", "Note", renderMarkdown(textOf(message.content)));
        break;
      default:
        break;
    }
    this.follow();
  }

  _append(kind, name, ...children) {
    const article = el("article", { className: `message ${kind}` }, el("h2", { className: "who" }, name), children);
    this._root.append(article);
    return article;
  }

  /** Add a note of the page itself. */
  note(text, kind = "") {
    this._append(`note ${kind}`, "Note", el("p", {}, text));
    this.follow();
  }

  // Events

  start(message) {
    if (message.role !== "assistant") {
      this.add(message);
      return;
    }
    this._open = new OpenMessage(this, message);
  }

  update(event) {
    this._open?.update(event);
  }

  end(message) {
    if (message.role !== "assistant") return;
    (this._open ?? new OpenMessage(this, message)).end(message);
    this._open = null;
    this.follow();
  }

  toolStarted(event) {
    this._card(event.toolCallId, event.toolName, event.args).start();
    this.follow();
  }

  /** Show that a call waits for the user, or no longer does. */
  toolAsks(id, isAsking) {
    this._cards.get(id)?.ask(isAsking);
  }

  /** Show which calls have no result: the run has ended, or was cut off. */
  giveUpCalls() {
    for (const card of this._cards.values()) card.giveUp();
  }

  toolUpdated(event) {
    this._card(event.toolCallId, event.toolName).update(event.partialResult);
    this.follow();
  }

  toolEnded(event) {
    this._card(event.toolCallId, event.toolName).end(event.result, event.isError);
    this.follow();
  }

  /** Return the card of a call. A call that no message has, as one that a tool made, gets one at the end. */
  _card(id, name, args) {
    let card = this._cards.get(id);
    if (!card) {
      card = this.newCard(id, name);
      this._append("assistant", "Tool", card.element);
    }
    if (args) card.describe(name, args);
    return card;
  }

  newCard(id, name) {
    const known = this._cards.get(id);
    if (known) return known;
    const card = new ToolCard(id, name);
    this._cards.set(id, card);
    return card;
  }

  newAnswer() {
    return this._append("assistant", "Assistant");
  }
}

/** An answer that may still be arriving. */
class OpenMessage {
  constructor(transcript, message) {
    this._transcript = transcript;
    this._article = transcript.newAnswer();
    this._blocks = new Map();
    (message.content ?? []).forEach((block, index) => this._begin(index, block));
  }

  update(event) {
    const index = event.contentIndex;
    switch (event.type) {
      case "text_delta":
        this._stream(index, "text").append(event.delta);
        break;
      case "thinking_delta":
        this._stream(index, "thinking").append(event.delta);
        break;
      case "toolcall_start":
        this._begin(index, { type: "toolCall", id: event.id, name: event.toolName });
        break;
      case "toolcall_end":
        this._begin(index, event.toolCall);
        break;
      default:
        break;
    }
  }

  /** Finish the message with what it is in the end. */
  end(message) {
    (message.content ?? []).forEach((block, index) => {
      const text = block.type === "text" ? block.text : block.type === "thinking" ? block.thinking : null;
      const stream = this._blocks.get(index)?.stream;
      if (text === null || !stream) this._begin(index, block);
      else if (stream.text !== text) this._replace(index, block);
    });
    for (const block of this._blocks.values()) block.stream?.finish();
    if (message.stopReason === "aborted") this._article.append(el("p", { className: "problem" }, "Stopped."));
    else if (message.errorMessage) this._article.append(problem(message.errorMessage));
    else if (message.stopReason === "length") this._article.append(el("p", { className: "problem" }, "The answer reached its longest length."));
    if (this._article.children.length === 1) this._article.remove();
  }

  _replace(index, block) {
    const known = this._blocks.get(index);
    const marker = document.createComment("");
    known.element.replaceWith(marker);
    this._blocks.delete(index);
    this._begin(index, block);
    marker.replaceWith(this._blocks.get(index).element);
  }

  _begin(index, block) {
    if (block.type === "toolCall") {
      const card = this._transcript.newCard(block.id, block.name);
      if (block.arguments) card.describe(block.name, block.arguments);
      if (!this._blocks.has(index)) this._article.append(card.element);
      this._blocks.set(index, { element: card.element });
    } else if (block.type === "text" || block.type === "thinking") {
      const text = block.type === "text" ? block.text : block.thinking;
      const stream = this._stream(index, block.type);
      if (text) stream.append(text);
    }
  }

  _stream(index, kind) {
    const known = this._blocks.get(index);
    if (known) return known.stream;
    const body = el("div", { className: "markdown" });
    const element = kind === "text" ? body : el("details", { className: "thinking" }, el("summary", {}, "Thinking"), body);
    const stream = new MarkdownStream(body, () => this._transcript.follow());
    this._article.append(element);
    this._blocks.set(index, { element, stream });
    return stream;
  }
}
