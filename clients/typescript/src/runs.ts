// Decides when the run of each prompt has ended. The members of the family report it in different ways:
//
//     omp            `prompt_result` for each prompt
//     pi since 0.80  `agent_settled`; `agent_end` comes before retries and compactions
//     pi 0.73, xcsh  `agent_end`, after which a retry or a compaction may follow without notice
//
//     pi of 2025     `agent_end`, and no response to anything
//
// For those of pi 0.73 and xcsh, and for a prompt that may never start a run, the client asks for the state of the session.

import { CommandError } from "./errors.js";
import type { Event, PromptResultEvent, RpcSessionState } from "./generated/family.js";
import type { ClientEvent } from "./messages.js";
import type { Outcome, Run } from "./run.js";

/** An agent may need a moment after `agent_end` before it sends `agent_settled`, or starts a compaction. */
const GRACE_MS = 250;
const LONGEST_PAUSE_MS = 1000;

type State = Partial<RpcSessionState>;

export class RunTracker {
    #open = new Map<string, Run>();
    /** Whether this agent sends `agent_settled`, or its like. */
    #settles = false;
    /** Grows with each sign of work, which makes an earlier look at the state worthless. */
    #activity = 0;

    /** Without `getState` the agent sends no responses. */
    constructor(private readonly getState: (() => Promise<State>) | undefined) {}

    get isEmpty(): boolean {
        return this.#open.size === 0;
    }

    add(run: Run): void {
        this.#open.set(run.id, run);
    }

    /** Handles a response to a prompt. Returns false if the id belongs to no open prompt. */
    respond(id: string, success: boolean, data: unknown, error: Error | undefined): boolean {
        const run = this.#open.get(id);
        if (!run) return false;
        if (!success) {
            this.#open.delete(id);
            run.fail(error ?? new CommandError("prompt", "The agent refused the prompt."));
            return true;
        }
        run.accept();
        const { disposition, agentInvoked } = (data ?? {}) as { disposition?: string; agentInvoked?: boolean };
        if (disposition === "handled" || agentInvoked === false) this.#settle(run, { status: "handled" });
        // An agent that does not say so may have run a command of an extension, and then no event follows.
        else if (disposition === undefined && run.message.startsWith("/")) void this.#look(0);
        return true;
    }

    /** Takes note of an event, after it was given to the readers. */
    observe(event: ClientEvent | Event): void {
        if (!this.getState) this.#observeAlone(event as { type: string; error?: unknown });
        switch (event.type) {
            case "agent_start":
                this.#activity += 1;
                for (const run of this.#accepted()) run.isStarted = true;
                break;
            case "message_end":
                for (const run of this.#accepted()) run.collect(event.message);
                break;
            case "auto_retry_start":
            case "compaction_start":
            case "auto_compaction_start":
                this.#activity += 1;
                break;
            case "agent_end":
                if (!event.willRetry && !this.#settles) void this.#look(GRACE_MS);
                break;
            case "auto_retry_end":
                if (!event.success && !this.#settles) void this.#look(GRACE_MS);
                break;
            case "compaction_end":
            case "auto_compaction_end":
                if (!event.willRetry && !this.#settles) void this.#look(GRACE_MS);
                break;
            case "prompt_result":
                this.#report(event);
                break;
            case "agent_settled":
            case "session_settled":
                this.#settled((event as { aborted?: boolean }).aborted === true);
                break;
        }
    }

    /** Ends prompts by the events of an agent that sends no responses. An error belongs to the newest prompt that has no run. */
    #observeAlone(event: { type: string; error?: unknown }): void {
        if (event.type === "agent_end") this.#settled(false);
        const refused = event.type === "error" ? this.#accepted().findLast((run) => !run.isStarted) : undefined;
        if (refused) this.respond(refused.id, false, undefined, new CommandError("prompt", String(event.error)));
    }

    /** Ends all prompts with an error. */
    fail(error: Error): void {
        this.#activity += 1;
        for (const run of this.#open.values()) run.fail(error);
        this.#open.clear();
    }

    #settled(aborted: boolean): void {
        this.#settles = true;
        let isLeft = false;
        for (const run of this.#accepted()) {
            // A prompt that was accepted while the run before it ended has a run of its own, which begins with `agent_start`.
            if (run.isStarted || run.mayJoin) this.#settle(run, aborted ? { status: "aborted" } : {});
            else isLeft = true;
        }
        if (isLeft) void this.#look(0);
    }

    #report(event: PromptResultEvent): void {
        const run = this.#open.get(String(event.id));
        if (!run) return;
        if (!event.agentInvoked && event.status !== "error" && event.status !== "aborted")
            this.#settle(run, { status: "handled" });
        else if (event.status === "error") {
            this.#settle(run, { status: "failed", error: event.error?.message, retryable: event.error?.retryable });
        } else this.#settle(run, { status: event.status });
    }

    /** Settles the prompts that are accepted now, if the state says twice that nothing happens, and nothing happens in between. */
    async #look(grace: number): Promise<void> {
        if (!this.getState) return;
        const activity = ++this.#activity;
        const runs = this.#accepted();
        const isCurrent = (): boolean => activity === this.#activity && runs.some((run) => !run.isSettled);
        if (!(await this.#isIdle(isCurrent))) return;
        if (grace) {
            await delay(grace);
            if (!(await this.#isIdle(isCurrent))) return;
        }
        for (const run of runs) this.#settle(run, {});
    }

    /** Waits until the session is idle. Returns false if something else happened in the meantime. */
    async #isIdle(isCurrent: () => boolean): Promise<boolean> {
        for (let pause = 20; isCurrent(); pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
            let state: State;
            try {
                state = (await this.getState?.()) ?? {};
            } catch {
                return false; // the end of the connection ends the prompts
            }
            if (!state.isStreaming && !state.isCompacting && state.isSettled !== false) return isCurrent();
            await delay(pause);
        }
        return false;
    }

    #accepted(): Run[] {
        return [...this.#open.values()].filter((run) => run.isAccepted);
    }

    #settle(run: Run, outcome: Outcome): void {
        this.#open.delete(run.id);
        run.settle(outcome);
    }
}

function delay(ms: number): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, ms));
}
