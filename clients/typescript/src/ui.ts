// Questions to the user of the host. Without a handler, a question is dismissed and an approval is denied.

import type { Connection } from "./connection.js";
import type {
    ConfirmUiRequest,
    EditorUiRequest,
    ExtensionUiRequestEvent,
    InputUiRequest,
    SelectUiRequest,
} from "./generated/family.js";
import { messageOf } from "./host-tools.js";
import { LONGEST_TIMER } from "./pending.js";

type Maybe<T> = T | null | undefined | Promise<T | null | undefined>;

export interface UiContext {
    /** Fires when the question is withdrawn or expires. A later answer is ignored. */
    signal: AbortSignal;
}

/** May a tool run? Fields other than `title` are present if the agent sends them. */
export interface ApprovalRequest {
    /** What is about to happen, for people to read. */
    title: string;
    toolName?: string;
    toolCallId?: string;
    arguments?: Record<string, unknown>;
    /** What `edit` or `write` would change, as a unified diff. */
    diff?: string;
    /** The sub-agent that makes the call; absent if the session itself does. */
    subagentId?: string;
    /** The patterns of the rules that an answer may write to the user's settings, the narrowest first. */
    rules?: string[];
    /** The request itself. */
    request: SelectUiRequest;
}

/** The answer to an approval. `forSession` and `allow_for_session` also cover later calls of the same kind. */
export type ApprovalDecision =
    | "allow"
    | "allow_for_session"
    | "deny"
    /**
     * `arguments` are used instead of those of the call. The agent checks them. `rule` is the pattern of a rule that allows calls
     * like this one from now on, in this project or with `everywhere` in all. An agent other than fairlead runs nothing then.
     */
    | { allow: true; forSession?: boolean; arguments?: Record<string, unknown>; rule?: string; everywhere?: boolean }
    /** The model sees the reason. */
    | { allow: false; forSession?: boolean; reason?: string };

/** The requests that expect no answer. */
export type DisplayUiRequest = Exclude<ExtensionUiRequestEvent, { method: "select" | "confirm" | "input" | "editor" | "cancel" }>;

/** How the host asks its user. Null or undefined dismisses a question, and so does an exception. */
export interface UiHandlers {
    /** May a tool run? Without this function every approval is denied, even if there is `select`. */
    approve?(request: ApprovalRequest, context: UiContext): Maybe<ApprovalDecision>;
    /** Returns one of the options. */
    select?(request: SelectUiRequest, context: UiContext): Maybe<string>;
    confirm?(request: ConfirmUiRequest, context: UiContext): Maybe<boolean>;
    input?(request: InputUiRequest, context: UiContext): Maybe<string>;
    editor?(request: EditorUiRequest, context: UiContext): Maybe<string>;
    /** Shows a notification, a status, a widget, a title, a text for the editor, or a page. */
    show?(request: DisplayUiRequest): void;
}

/** What fairlead offers when it asks for an approval. Only the exact text of one of the first two is consent; rules follow. */
const OPTIONS = {
    allow: "Approve",
    allow_for_session: "Approve for session",
    deny: "Deny",
};

/** Tells whether a question asks for the approval of a tool call. */
export function isApproval(request: ExtensionUiRequestEvent): request is SelectUiRequest {
    return request.method === "select" && Object.values(OPTIONS).every((option, index) => request.options[index] === option);
}

/** Answers the questions that arrive. */
export class UserInterface {
    #open = new Map<string, AbortController>();

    constructor(
        readonly handlers: UiHandlers,
        readonly diagnose: (text: string) => void,
    ) {}

    async receive(request: ExtensionUiRequestEvent, connection: Connection<never>): Promise<void> {
        if (request.method === "cancel") return this.#withdraw(request.targetId);
        const { id } = request;
        const controller = new AbortController();
        this.#open.set(id, controller);
        const limit = "timeout" in request ? request.timeout : undefined;
        const timer = limit !== undefined && limit <= LONGEST_TIMER ? setTimeout(() => this.#withdraw(id), limit) : undefined;
        let answer: object | undefined = { cancelled: true };
        try {
            answer = await this.#ask(request, { signal: controller.signal });
        } catch (error) {
            this.diagnose(`the handler of a ${request.method} request failed: ${messageOf(error)}`);
        }
        clearTimeout(timer);
        this.#open.delete(id);
        if (answer && !controller.signal.aborted) connection.post({ type: "extension_ui_response", id, ...answer });
    }

    withdrawAll(): void {
        for (const id of [...this.#open.keys()]) this.#withdraw(id);
    }

    async #ask(request: ExtensionUiRequestEvent, context: UiContext): Promise<object | undefined> {
        switch (request.method) {
            case "select":
                if (isApproval(request)) return this.#approve(request, context);
                return toAnswer("value", await this.handlers.select?.(request, context));
            case "confirm":
                return toAnswer("confirmed", await this.handlers.confirm?.(request, context));
            case "input":
                return toAnswer("value", await this.handlers.input?.(request, context));
            case "editor":
                return toAnswer("value", await this.handlers.editor?.(request, context));
            case "cancel":
                return undefined;
            default:
                this.handlers.show?.(request);
                return undefined;
        }
    }

    async #approve(request: SelectUiRequest, context: UiContext): Promise<object> {
        const { title, toolName, toolCallId, arguments: args, diff, rules, subagentId } = request;
        const approval = { title, toolName, toolCallId, arguments: args, diff, rules, subagentId, request };
        const decision = (await this.handlers.approve?.(approval, context)) ?? "deny";
        if (typeof decision === "string") return { value: OPTIONS[decision] ?? OPTIONS.deny };
        const known = request.approval === true;
        if (decision.allow !== true) {
            const { reason, forSession } = decision;
            return { value: OPTIONS.deny, ...(known && reason && { reason }), ...(known && forSession && { forSession }) };
        }
        // Another agent would ignore the rule and the arguments, and run the tool with its own.
        const { arguments: changed, rule, everywhere } = decision;
        if ((changed || rule !== undefined) && !known) return { value: OPTIONS.deny };
        const value = decision.forSession ? OPTIONS.allow_for_session : OPTIONS.allow;
        return { value, ...(changed && { arguments: changed }), ...(rule !== undefined && { rule, ...(everywhere && { everywhere }) }) };
    }

    #withdraw(id: string): void {
        this.#open.get(id)?.abort();
        this.#open.delete(id);
    }
}

function toAnswer(field: "value" | "confirmed", value: string | boolean | null | undefined): object {
    return value === null || value === undefined ? { cancelled: true } : { [field]: value };
}
