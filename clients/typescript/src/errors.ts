// Every error that the client throws on purpose:
//
//     ClientError
//       CommandError            the agent refused a command
//       CommandTimeoutError     the agent did not respond in time
//       RunError                a run failed
//       ConnectionClosedError   the agent exited, or the connection was closed
//       ProtocolError           the agent sent something that is not a frame

import type { RunResult } from "./run.js";

/** How an agent ended. */
export interface Exit {
    /** The exit code; null if a signal ended the process, or if there is no process. */
    code: number | null;
    /** The signal that ended the process. */
    signal: string | null;
    /** The end of what the agent wrote to standard error. */
    stderr: string;
}

/** The base of all errors of this package. */
export class ClientError extends Error {
    constructor(message: string, options?: ErrorOptions) {
        super(message, options);
        this.name = new.target.name;
    }
}

/** The agent refused a command. The command changed nothing. */
export class CommandError extends ClientError {
    constructor(
        /** The name of the command or method. */
        readonly command: string,
        message: string,
        /** A short name or number, for errors that programs need to tell apart. */
        readonly code?: string | number,
    ) {
        super(message);
    }
}

/** The agent did not respond in time. The client ignores a later response. */
export class CommandTimeoutError extends ClientError {
    constructor(
        readonly command: string,
        readonly timeoutMs: number,
    ) {
        super(`The agent did not respond to ${command} within ${timeoutMs} ms.`);
    }
}

/** A run failed. `result` is what there was until then. */
export class RunError extends ClientError {
    constructor(
        message: string,
        readonly result: RunResult,
        /** Whether the same prompt may succeed later; undefined if the agent did not say. */
        readonly retryable?: boolean,
    ) {
        super(message);
    }
}

/** The agent exited, or the connection was closed. */
export class ConnectionClosedError extends ClientError {
    constructor(
        message: string,
        /** How the agent ended, if it is a process that the client started. */
        readonly exit?: Exit,
        /** Whether this program closed the connection, with `stop`. */
        readonly isOwn = false,
    ) {
        super(message);
    }
}

/** The agent sent something that is not a frame. */
export class ProtocolError extends ClientError {}

/** Returns the error of a provider without the JSON or the HTML around its message: `529 Overloaded`. @internal */
export function readableError(error: string): string {
    const at = error.search(/[[{]|<(?:!doctype html|html)\b/i);
    if (at < 0) return error;
    const head = error.slice(0, at);
    if (error.charAt(at) === "<") return head + pageTitle(error.slice(at), head);
    let end = error.length;
    for (let attempt = 0; attempt < 4; attempt++) {
        end = error.lastIndexOf(error.charAt(at) === "{" ? "}" : "]", end - 1);
        if (end < at) break;
        let body: unknown;
        try {
            body = JSON.parse(error.slice(at, end + 1));
        } catch {
            continue;
        }
        let message = messageIn(body);
        if (!message) break;
        if (message.startsWith("<")) message = pageTitle(message, head) || message;
        const more = error.slice(end + 1).trim();
        const stop = /^\p{Lu}/u.test(more) && !/[.!?]$/.test(message) ? "." : "";
        return `${head}${message}${stop} ${more}`.trimEnd();
    }
    const title = pageTitle(error.slice(at), head); // the JSON around a page may be cut off
    return title ? head + title : error;
}

/** Returns the title of the page in HTML that a text contains, without the status; "" if it contains none. */
function pageTitle(text: string, status: string): string {
    const page = /<(?:!doctype html|html)\b(?:[^]*?<title>([^]*?)<\/title>)?/i.exec(text);
    if (!page) return "";
    const title = (page[1] ?? "").split(/\s+/).filter(Boolean).join(" ");
    const rest = title.startsWith(status.trim()) ? title.slice(status.trim().length) : title;
    return rest.trim() || "The server answered with a page for people.";
}

/** Finds the message in the JSON of an error. Brokers put the error of another provider into the message or beside it. */
function messageIn(body: unknown, depth = 0): string {
    if (depth === 12) return "";
    if (typeof body === "string") return innerMessage(body, depth) || body.trim();
    if (Array.isArray(body)) {
        for (const each of body) {
            const found = messageIn(each, depth + 1);
            if (found) return found;
        }
    } else if (isObject(body)) {
        const raw = isObject(body.metadata) && body.metadata.raw;
        if (typeof raw === "string" && raw) return messageIn(raw, depth + 1);
        return messageIn([body.error, body.message, body.detail, body.msg, body.errors], depth + 1);
    }
    return "";
}

/** Finds the message in a text that is JSON itself. */
function innerMessage(text: string, depth: number): string {
    if (!/^[[{]/.test(text)) return "";
    try {
        return messageIn(JSON.parse(text), depth + 1);
    } catch {
        return "";
    }
}

function isObject(value: unknown): value is Record<string, unknown> {
    return typeof value === "object" && value !== null;
}
