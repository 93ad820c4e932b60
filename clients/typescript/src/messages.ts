// Messages: their text, and how to build one from the deltas of an agent.

import type { AssistantMessage, Event, Message, MessageUpdateEvent, ToolCall, ToolResult } from "./generated/family.js";

/** A `message_update` with the message so far. Its `message` is one object that grows until the message ends. */
export type AssembledUpdate = MessageUpdateEvent & { message: AssistantMessage };
/** The events that a client gives to its reader. */
export type ClientEvent = Exclude<Event, { type: "message_update" | "rpc_chunk" }> | AssembledUpdate;

/** Builds assistant messages from updates, whether they repeat the message or carry only what is new. */
export class MessageAssembler {
    #message: AssistantMessage | undefined;

    /** Takes an event, and adds the message so far to a `message_update` that lacks it. */
    assemble(event: Event): ClientEvent | undefined {
        switch (event.type) {
            case "rpc_chunk":
                return undefined;
            case "message_start":
                this.#message =
                    event.message.role === "assistant" ? { ...event.message, content: [...event.message.content] } : undefined;
                return event;
            case "message_end":
                this.#message = undefined;
                return event;
            case "message_update":
                return this.#update(event);
            default:
                return event;
        }
    }

    #update(event: MessageUpdateEvent): AssembledUpdate {
        if (event.message) {
            this.#message = event.message;
        } else {
            this.#message ??= emptyMessage(event);
            apply(this.#message, event);
            event.message = this.#message;
        }
        return event as AssembledUpdate;
    }
}

function apply(message: AssistantMessage, { assistantMessageEvent: part, usage }: MessageUpdateEvent): void {
    if (usage) message.usage = usage;
    const content = message.content;
    while (content.length < part.contentIndex) content.push({ type: "text", text: "" });
    const block = content[part.contentIndex];
    switch (part.type) {
        case "text_start":
            if (block?.type !== "text") content[part.contentIndex] = { type: "text", text: "" };
            break;
        case "text_delta":
            if (block?.type === "text") block.text += part.delta;
            else content[part.contentIndex] = { type: "text", text: part.delta };
            break;
        case "text_end":
            if (block?.type === "text") block.text = part.content ?? block.text;
            break;
        case "thinking_start":
            if (block?.type !== "thinking") content[part.contentIndex] = { type: "thinking", thinking: "" };
            break;
        case "thinking_delta":
            if (block?.type === "thinking") block.thinking += part.delta;
            else content[part.contentIndex] = { type: "thinking", thinking: part.delta };
            break;
        case "thinking_end":
            if (block?.type === "thinking") block.thinking = part.content ?? block.thinking;
            break;
        case "toolcall_start":
            content[part.contentIndex] = { type: "toolCall", id: part.id ?? "", name: part.toolName ?? "", arguments: {} };
            break;
        case "toolcall_end":
            content[part.contentIndex] = part.toolCall;
            break;
    }
}

/** For a client that joined in the middle of a message. */
function emptyMessage(event: MessageUpdateEvent): AssistantMessage {
    return {
        role: "assistant",
        content: [],
        api: "",
        provider: "",
        model: "",
        usage: event.usage,
        stopReason: "stop",
        timestamp: Date.now(),
    };
}

/** Returns the text of a message or of a tool's result, without thinking, tool calls and images. */
export function textOf(value: Message | ToolResult | string): string {
    if (typeof value === "string") return value;
    const content = "content" in value ? value.content : [];
    if (typeof content === "string") return content;
    return content.map((block) => (block.type === "text" ? block.text : "")).join("");
}

/** Returns the tool calls of an assistant message. */
export function toolCallsOf(message: AssistantMessage): ToolCall[] {
    return message.content.filter((block): block is ToolCall => block.type === "toolCall");
}
