// What a host serves to the model: tools and URIs, as functions.

import type { Connection } from "./connection.js";
import type {
    HostToolCallEvent,
    HostToolDefinition,
    HostUriRequestEvent,
    HostUriScheme,
    ToolResult,
} from "./generated/family.js";

export interface ToolContext {
    /** Fires when the call is cancelled: the run was aborted, or the tool took too long. */
    signal: AbortSignal;
    /** Reports the whole output so far, not only what is new. */
    progress(output: string | ToolResult): void;
    /** The id of the model's tool call. */
    toolCallId: string;
}

/** A tool that runs in the host. */
export interface HostTool<A = Record<string, unknown>> extends HostToolDefinition {
    /**
     * Does the work. The arguments match `parameters`. A text or a `ToolResult` is the output, another value becomes JSON, and an
     * exception becomes the error that the model sees.
     */
    run(args: A, context: ToolContext): unknown;
}

/** URIs that the host serves. */
export interface UriHandler extends Omit<HostUriScheme, "scheme" | "writable"> {
    /** Returns the content of a URI. */
    read(url: string, context: { signal: AbortSignal }): string | Promise<string>;
    /** Replaces the content of a URI. Without this function the model can only read. */
    write?(url: string, content: string, context: { signal: AbortSignal }): void | Promise<void>;
}

/** Declares a tool. It exists for its types: `hostTool<{ path: string }>({...})` gives `run` typed arguments. */
export function hostTool<A>(tool: HostTool<A>): HostTool {
    return tool as unknown as HostTool;
}

/** Runs the calls that arrive, and answers them. */
export class HostTools {
    #tools = new Map<string, HostTool>();
    #schemes = new Map<string, UriHandler>();
    #running = new Map<string, AbortController>();

    setTools(tools: readonly HostTool[]): HostToolDefinition[] {
        this.#tools = new Map(tools.map((tool) => [tool.name, tool]));
        return this.definitions;
    }

    setSchemes(schemes: Readonly<Record<string, UriHandler>>): HostUriScheme[] {
        this.#schemes = new Map(Object.entries(schemes).map(([name, handler]) => [name.toLowerCase(), handler]));
        return this.schemes;
    }

    get definitions(): HostToolDefinition[] {
        return [...this.#tools.values()].map(({ run: _, ...definition }) => definition);
    }

    get schemes(): HostUriScheme[] {
        return [...this.#schemes].map(([scheme, { read: _, write, ...rest }]) => ({
            ...rest,
            scheme,
            writable: write !== undefined,
        }));
    }

    /** Runs a tool, and sends its result unless the call was cancelled. */
    async call(event: HostToolCallEvent, connection: Connection<never>): Promise<void> {
        const { id, toolName, toolCallId } = event;
        const signal = this.#start(id);
        const tool = this.#tools.get(toolName);
        const progress = (output: string | ToolResult): void => {
            if (!signal.aborted) connection.post({ type: "host_tool_update", id, partialResult: toResult(output) });
        };
        let answer: { result: ToolResult; isError?: true };
        try {
            if (!tool) throw new Error(`The host has no tool named ${toolName}.`);
            answer = { result: toResult(await tool.run(event.arguments, { signal, progress, toolCallId })) };
        } catch (error) {
            answer = { result: toResult(messageOf(error)), isError: true };
        }
        this.#running.delete(id);
        if (!signal.aborted) connection.post({ type: "host_tool_result", id, ...answer });
    }

    /** Reads or writes a URI, and sends the result unless the request was cancelled. */
    async serve(event: HostUriRequestEvent, connection: Connection<never>): Promise<void> {
        const { id, url, operation } = event;
        const signal = this.#start(id);
        const handler = this.#schemes.get(url.slice(0, url.indexOf(":")).toLowerCase());
        let answer: { content?: string; isError?: true; error?: string };
        try {
            if (!handler) throw new Error(`The host does not serve ${url}.`);
            if (operation === "read") answer = { content: await handler.read(url, { signal }) };
            else if (handler.write) answer = (await handler.write(url, event.content ?? "", { signal }), {});
            else throw new Error(`${url} is read-only.`);
        } catch (error) {
            answer = { isError: true, error: messageOf(error) };
        }
        this.#running.delete(id);
        if (!signal.aborted) connection.post({ type: "host_uri_result", id, ...answer });
    }

    cancel(id: string): void {
        this.#running.get(id)?.abort();
        this.#running.delete(id);
    }

    cancelAll(): void {
        for (const id of [...this.#running.keys()]) this.cancel(id);
    }

    #start(id: string): AbortSignal {
        const controller = new AbortController();
        this.#running.set(id, controller);
        return controller.signal;
    }
}

function toResult(output: unknown): ToolResult {
    if (typeof output === "object" && output !== null && Array.isArray((output as ToolResult).content))
        return output as ToolResult;
    const text = typeof output === "string" ? output : (JSON.stringify(output) ?? "");
    return { content: [{ type: "text", text }] };
}

export function messageOf(error: unknown): string {
    return error instanceof Error ? error.message : String(error);
}
