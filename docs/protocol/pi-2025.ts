// The protocol of pi-2025, as fairlead speaks it.
export type Command = Prompt2025Command | AbortCommand | CompactCommand;

export type Event = AgentStartEvent | AgentEndEvent | TurnStartEvent | TurnEndEvent | MessageStartEvent | MessageUpdateEvent | MessageEndEvent | ToolExecutionStartEvent | ToolExecutionEndEvent | CompactionEvent | ErrorEvent;

/**
 * Give the agent something to do. Images among the attachments are shown to the model, of documents it is told
 * the `extractedText`, under the file's name.
 */
export interface Prompt2025Command {
  type: "prompt";
  id?: unknown;
  message: string;
  attachments?: Attachment[] | null;
}

/** Stop the run. Answered after the run's last event; what had arrived is kept, and so are the queues. */
export interface AbortCommand {
  type: "abort";
  id?: unknown;
}

/**
 * Replace the older part of the conversation by a summary. `customInstructions` say what it should pay attention
 * to. Answered when it is done; prompts are refused meanwhile, and `abort` stops it.
 */
export interface CompactCommand {
  type: "compact";
  id?: unknown;
  customInstructions?: string | null;
}

/** A run begins. */
export interface AgentStartEvent {
  type: "agent_start";
}

/**
 * A run ends. `messages` are those it added. If that exceeds the frame limit they are left out, since each had
 * its own `message_end`, and `messageCount` says how many they are.
 */
export interface AgentEndEvent {
  type: "agent_end";
  messages: Message[];
  willRetry?: boolean;
  messageCount?: number;
}

/** One model call, and the tools it asks for, begin. */
export interface TurnStartEvent {
  type: "turn_start";
}

/** They end. */
export interface TurnEndEvent {
  type: "turn_end";
  message: AssistantMessage;
  toolResults: ToolResultMessage[];
}

/** A message begins. An assistant's is empty at first. */
export interface MessageStartEvent {
  type: "message_start";
  message: Message;
}

/** Part of an assistant message arrived. The deltas are what to rely on; `message` is left out in delta form. */
export interface MessageUpdateEvent {
  type: "message_update";
  assistantMessageEvent: AssistantMessageEvent;
  usage: Usage;
  message?: AssistantMessage;
}

/** A message is complete. */
export interface MessageEndEvent {
  type: "message_end";
  message: Message;
}

/** A tool call is about to run. */
export interface ToolExecutionStartEvent {
  type: "tool_execution_start";
  toolCallId: string;
  toolName: string;
  args: Record<string, unknown>;
}

/** A tool call has its result; pi in 2025 has the text alone, if it failed. */
export interface ToolExecutionEndEvent {
  type: "tool_execution_end";
  toolCallId: string;
  toolName: string;
  result: ToolResult | string;
  isError: boolean;
}

/** The older part of the conversation was replaced by a summary; `auto` if that happened by itself. */
export interface CompactionEvent {
  type: "compaction";
  summary: string;
  tokensBefore: number;
  auto?: boolean;
}

/** A command could not be understood or carried out, or a compaction failed. */
export interface ErrorEvent {
  type: "error";
  error: string;
}

export type AssistantBlock = TextContent | ThinkingContent | ToolCall;

export interface AssistantMessage {
  role: "assistant";
  content: AssistantBlock[];
  api: string;
  provider: string;
  model: string;
  usage: Usage;
  stopReason: "aborted" | "error" | "length" | "stop" | "toolUse";
  timestamp: number;
  responseId?: string;
  errorMessage?: string;
}

export type AssistantMessageEvent = TextStart | TextDelta | TextEnd | ThinkingStart | ThinkingDelta | ThinkingEnd | ToolcallStart | ToolcallDelta | ToolcallEnd;

/**
 * A file that came with a prompt, as base64 (pi in 2025). Of a document the model is told the text, of an image
 * all.
 */
export interface Attachment {
  id: string;
  type: "document" | "image";
  fileName: string;
  mimeType: string;
  size: number;
  content: string;
  extractedText?: string | null;
  preview?: string | null;
}

/** A command that the host ran with `bash`; the model sees it with the next prompt. */
export interface BashExecutionMessage {
  role: "bashExecution";
  command: string;
  output: string;
  cancelled: boolean;
  truncated: boolean;
  timestamp: number;
  exitCode?: number;
  fullOutputPath?: string;
  excludeFromContext?: boolean;
}

export interface BranchSummaryMessage {
  role: "branchSummary";
  summary: string;
  fromId: string;
  timestamp: number;
}

export interface CompactionSummaryMessage {
  role: "compactionSummary";
  summary: string;
  tokensBefore: number;
  timestamp: number;
}

/** US dollars. */
export interface Cost {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  total: number;
}

/** What an extension or the agent itself adds to the conversation. */
export interface CustomMessage {
  role: "custom";
  customType: string;
  content: string | UserBlock[];
  display: boolean;
  timestamp: number;
  details?: unknown;
}

/** An image as base64 `data`. */
export interface ImageContent {
  type: "image";
  data: string;
  mimeType: string;
}

export type Message = UserMessage | AssistantMessage | ToolResultMessage | BashExecutionMessage | CustomMessage | BranchSummaryMessage | CompactionSummaryMessage;

export interface TextContent {
  type: "text";
  text: string;
  textSignature?: string;
}

export interface TextDelta {
  type: "text_delta";
  delta: string;
  contentIndex: number;
  /** The message so far; left out in delta form. */
  partial?: AssistantMessage;
}

export interface TextEnd {
  type: "text_end";
  content: string;
  contentIndex: number;
  /** The message so far; left out in delta form. */
  partial?: AssistantMessage;
}

export interface TextStart {
  type: "text_start";
  contentIndex: number;
  /** The message so far; left out in delta form. */
  partial?: AssistantMessage;
}

/** A model's reasoning. `thinking_signature` proves to the provider that it is the provider's own. */
export interface ThinkingContent {
  type: "thinking";
  thinking: string;
  thinkingSignature?: string;
  redacted?: boolean;
}

export interface ThinkingDelta {
  type: "thinking_delta";
  delta: string;
  contentIndex: number;
  /** The message so far; left out in delta form. */
  partial?: AssistantMessage;
}

export interface ThinkingEnd {
  type: "thinking_end";
  content: string;
  contentIndex: number;
  /** The message so far; left out in delta form. */
  partial?: AssistantMessage;
}

export interface ThinkingStart {
  type: "thinking_start";
  contentIndex: number;
  /** The message so far; left out in delta form. */
  partial?: AssistantMessage;
}

export interface ToolCall {
  type: "toolCall";
  id: string;
  name: string;
  arguments: Record<string, unknown>;
  thoughtSignature?: string;
}

/** What a tool gives back: `content` for the model, `details` for the host. */
export interface ToolResult {
  content: UserBlock[];
  details?: Record<string, unknown>;
}

export interface ToolResultMessage {
  role: "toolResult";
  toolCallId: string;
  toolName: string;
  content: UserBlock[];
  isError: boolean;
  timestamp: number;
  details?: Record<string, unknown>;
}

/** `delta` is a piece of the arguments' JSON. */
export interface ToolcallDelta {
  type: "toolcall_delta";
  delta: string;
  contentIndex: number;
  /** The message so far; left out in delta form. */
  partial?: AssistantMessage;
}

export interface ToolcallEnd {
  type: "toolcall_end";
  toolCall: ToolCall;
  contentIndex: number;
  /** The message so far; left out in delta form. */
  partial?: AssistantMessage;
}

export interface ToolcallStart {
  type: "toolcall_start";
  id: string;
  toolName: string;
  contentIndex: number;
  /** The message so far; left out in delta form. */
  partial?: AssistantMessage;
}

/** Tokens of one model call, and what they cost. */
export interface Usage {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  totalTokens: number;
  cost: Cost;
}

export type UserBlock = TextContent | ImageContent;

export interface UserMessage {
  role: "user";
  content: string | UserBlock[];
  timestamp: number;
  attribution?: "agent" | "user";
  attachments?: Attachment[];
}
