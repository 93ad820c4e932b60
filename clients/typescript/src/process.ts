// Agents as processes of Node or Bun.

import { spawn as spawnProcess, execFile, type ChildProcessByStdio } from "node:child_process";
import { statSync } from "node:fs";
import type { Readable, Writable } from "node:stream";

import { Client, type ClientOptions } from "./client.js";
import { ClientError, type Exit } from "./errors.js";
import { OpalClient, type OpalClientOptions } from "./opal-client.js";
import { written, type Transport } from "./transport.js";

export interface ProcessOptions {
    /** The program, and arguments that must come first: `["node", "cli.js"]`. By default `fairlead`. */
    command?: string | readonly string[];
    /** More arguments, such as `["--model", "anthropic/claude-sonnet-4-5"]`. */
    args?: readonly string[];
    cwd?: string;
    /** The environment. By default that of this process. */
    env?: Readonly<Record<string, string | undefined>>;
    /** Gets what the agent writes to standard error. Errors of the client contain the end of it either way. */
    onStderr?: (text: string) => void;
    /** Milliseconds that `stop` gives the agent to end by itself, and again after SIGTERM (2,000). */
    stopTimeoutMs?: number;
}

export interface SpawnOptions extends ProcessOptions, ClientOptions {}

/** How much of standard error an error message contains. */
const KEPT_STDERR = 8192;
/** How long the output may stay open after the agent has ended, because a process that it left behind holds it. */
const OUTPUT_MS = 1000;

type Child = ChildProcessByStdio<Writable, Readable, Readable>;

/** Starts an agent in RPC mode, and returns a client of it when it responds. */
export function spawnAgent(options: SpawnOptions = {}): Promise<Client> {
    return Client.connect(() => startProcess(["--mode", "rpc"], options), options);
}

/** Starts a server that speaks Opal's protocol, and returns a client of it. The command is complete: no flag is added. */
export function spawnOpalServer(options: ProcessOptions & OpalClientOptions = {}): Promise<OpalClient> {
    const command = options.command ?? ["fairlead", "--mode", "opal"];
    return OpalClient.connect(() => startProcess([], { ...options, command }), options);
}

/** Starts a program and returns the transport to it. `flags` come before the arguments of the options. */
export async function startProcess(flags: readonly string[], options: ProcessOptions): Promise<ProcessTransport> {
    const given = options.command ?? "fairlead";
    const [program = "fairlead", ...first] = typeof given === "string" ? [given] : given;
    const child = spawnProcess(program, [...first, ...flags, ...(options.args ?? [])], {
        cwd: options.cwd,
        env: options.env as NodeJS.ProcessEnv | undefined,
        stdio: ["pipe", "pipe", "pipe"],
        // A process group of its own: Ctrl-C in the terminal reaches only this program, and `stop` reaches all processes.
        detached: process.platform !== "win32",
        windowsHide: true,
    });
    await new Promise<void>((resolve, reject) => {
        child.once("spawn", resolve);
        child.once("error", (error) => reject(spawnError(program, options.cwd, error)));
    });
    return new ProcessTransport(child, options);
}

function spawnError(program: string, cwd: string | undefined, error: NodeJS.ErrnoException): ClientError {
    if (cwd !== undefined && !statSync(cwd, { throwIfNoEntry: false })?.isDirectory()) {
        return new ClientError(`Could not start ${program}: the working directory ${cwd} does not exist.`, { cause: error });
    }
    const advice = error.code === "ENOENT" ? " Is it installed, and on the PATH? If not, set `command`." : "";
    return new ClientError(`Could not start ${program}: ${error.message}.${advice}`, { cause: error });
}

/** The connection to a process. */
export class ProcessTransport implements Transport {
    readonly input: AsyncIterable<Uint8Array>;
    readonly exited: Promise<Exit>;
    #child: Child;
    #patience: number;
    #stderr = "";
    #isReading = false;

    /** @internal */
    constructor(child: Child, options: ProcessOptions) {
        this.#child = child;
        this.#patience = options.stopTimeoutMs ?? 2000;
        this.input = this.#chunks();
        child.stdin.on("error", () => {}); // `send` reports it
        child.stderr.setEncoding("utf8").on("data", (text: string) => {
            this.#stderr = (this.#stderr + text).slice(-KEPT_STDERR);
            options.onStderr?.(text);
        });
        this.exited = new Promise((resolve) => {
            child.once("exit", (code, signal) => {
                this.#signalGroup("SIGKILL"); // what it left behind
                this.#endOutput();
                const done = (): void => resolve({ code, signal, stderr: this.#stderr });
                const timer = setTimeout(done, OUTPUT_MS);
                child.stderr.once("close", () => (clearTimeout(timer), done()));
                if (child.stderr.closed) (clearTimeout(timer), done());
            });
        });
    }

    get pid(): number {
        return this.#child.pid!;
    }

    send(text: string): Promise<void> {
        return written(this.#child.stdin, text);
    }

    async close(): Promise<void> {
        // Some agents leave their commands behind, each in a process group of its own.
        const descendants = await descendantsOf(this.pid);
        this.#child.stdin.end(); // agents end when their input does
        if (!(await this.#endsWithin(this.#patience))) {
            this.#signalGroup("SIGTERM");
            if (!(await this.#endsWithin(this.#patience))) {
                descendants.push(...(await descendantsOf(this.pid)));
                this.#signalGroup("SIGKILL");
            }
        }
        await this.exited;
        for (const pid of descendants) kill(pid, "SIGKILL");
    }

    async *#chunks(): AsyncGenerator<Uint8Array> {
        try {
            this.#isReading = true;
            for await (const chunk of this.#child.stdout) {
                this.#isReading = false;
                yield chunk as Uint8Array;
                this.#isReading = true;
            }
        } catch (error) {
            if ((error as NodeJS.ErrnoException).code !== "ERR_STREAM_PREMATURE_CLOSE") throw error;
        } finally {
            this.#isReading = false;
        }
    }

    /** Closes the output when the agent has ended and a process that it left behind holds it open. What is buffered is read first. */
    #endOutput(): void {
        const { stdout } = this.#child;
        let quiet = 0;
        const timer = setInterval(() => {
            quiet = this.#isReading && stdout.readableLength === 0 ? quiet + 1 : 0;
            if (stdout.closed || stdout.readableEnded) clearInterval(timer);
            else if (quiet >= 10) stdout.destroy();
        }, OUTPUT_MS / 10);
        timer.unref();
    }

    async #endsWithin(ms: number): Promise<boolean> {
        let timer: NodeJS.Timeout | undefined;
        const late = new Promise<false>((resolve) => (timer = setTimeout(() => resolve(false), ms)));
        const ended = await Promise.race([this.exited.then(() => true), late]);
        clearTimeout(timer);
        return ended;
    }

    #signalGroup(signal: NodeJS.Signals): void {
        const { pid } = this.#child;
        if (pid === undefined) return;
        if (process.platform === "win32") {
            if (signal === "SIGKILL") execFile("taskkill", ["/pid", String(pid), "/t", "/f"], () => {});
            return;
        }
        kill(-pid, signal);
    }
}

function kill(pid: number, signal: NodeJS.Signals): void {
    try {
        process.kill(pid, signal);
    } catch {
        // it is gone already
    }
}

/** The processes that a process started, directly or not, including those in other process groups. */
async function descendantsOf(root: number): Promise<number[]> {
    if (process.platform === "win32") return [];
    const table = await new Promise<string>((resolve) => {
        execFile("ps", ["-A", "-o", "pid=,ppid="], (error, text) => resolve(error ? "" : text));
    });
    const children = new Map<number, number[]>();
    for (const line of table.split("\n")) {
        const [pid, parent] = line.trim().split(/\s+/).map(Number);
        if (pid && parent) children.set(parent, [...(children.get(parent) ?? []), pid]);
    }
    const found: number[] = [];
    for (let left = [root]; left.length; ) {
        left = left.flatMap((pid) => children.get(pid) ?? []);
        found.push(...left);
    }
    return found;
}
