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
