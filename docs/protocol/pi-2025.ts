// The protocol of pi-2025, as fairlead speaks it.
export type Command = Prompt2025Command | AbortCommand | CompactCommand;

export type Event = AgentStartEvent | AgentEndEvent | TurnStartEvent | TurnEndEvent | MessageStartEvent | MessageUpdateEvent | MessageEndEvent | ToolExecutionStartEvent | ToolExecutionEndEvent | CompactionEvent | ErrorEvent;

/**
 * Start a run with a message from the user. The model sees attached images, and the texts of attached documents
 * under their file names.
 */
export interface Prompt2025Command {
  type: "prompt";
  id?: unknown;
  message: string;
  attachments?: Attachment[] | null;
}

/**
 * Stop the run. The response follows the last event of the run. The part of the answer that has arrived is kept,
 * and so are the queues.
 */
export interface AbortCommand {
  type: "abort";
  id?: unknown;
}

/**
 * Replace the older part of the conversation with a summary. `customInstructions` tell the model what to focus
 * on. The response arrives at the end. Meanwhile prompts are refused, and `abort` stops the compaction.
 */
export interface CompactCommand {
  type: "compact";
  id?: unknown;
  customInstructions?: string | null;
}

/** A run started. */
export interface AgentStartEvent {
  type: "agent_start";
}

/**
 * A run ended. `messages` are the messages that it added. If they exceed the frame limit, the list is empty and
 * `messageCount` has their number: each of them had its own `message_end`.
 */
export interface AgentEndEvent {
  type: "agent_end";
  messages: Message[];
  willRetry?: boolean;
  /** Always true: the end of a run is held back until nothing more will happen (omp). */
  isTerminal?: boolean;
  messageCount?: number;
}

/** A turn started: one model call and the tools that it asks for. */
export interface TurnStartEvent {
  type: "turn_start";
}

/** The turn ended. */
export interface TurnEndEvent {
  type: "turn_end";
  message: AssistantMessage;
  toolResults: ToolResultMessage[];
}

/** A message started. An assistant message is empty at first. */
export interface MessageStartEvent {
  type: "message_start";
  message: Message;
}

/** Part of an assistant message arrived. Build the message from the deltas: `message` is absent in delta form. */
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
  /** The call that this one was made for, if a tool made it. */
  parentToolCallId?: string;
}

/**
 * A tool call ended. Without `durationMs`, the tool did not run. In pi-2025 the `result` of a failed call is its
 * text.
 */
export interface ToolExecutionEndEvent {
  type: "tool_execution_end";
  toolCallId: string;
  toolName: string;
  result: ToolOutcome | string;
  isError: boolean;
  durationMs?: number;
  /** The call that this one was made for, if a tool made it. */
  parentToolCallId?: string;
}

/** A summary has replaced the older part of the conversation. `auto` if fairlead decided to compact. */
export interface CompactionEvent {
  type: "compaction";
  summary: string;
  tokensBefore: number;
  auto?: boolean;
}

/** A command is invalid or failed, or a compaction failed. */
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
  /** Why the answer ended, in the words of the provider. */
  rawStopReason?: string;
  /** How long the model call took, from the request to the end of the answer. */
  durationMs?: number;
  /** The thinking level of the model call. */
  thinkingLevel?: string;
}

export type AssistantMessageEvent = TextStart | TextDelta | TextEnd | ThinkingStart | ThinkingDelta | ThinkingEnd | ToolcallStart | ToolcallDelta | ToolcallEnd;

/**
 * A file that comes with a message, as base64. The model sees an image; of a document its `extractedText`, or
 * its content if that is text. Of any other document it gets the name, the type and the size.
 */
export interface Attachment {
  type: "document" | "image";
  content: string;
  id?: string | null;
  fileName?: string | null;
  mimeType?: string | null;
  size?: number | null;
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
  /** Whether the provider reported the total. Otherwise it comes from the prices of the model. */
  totalFromProvider?: boolean;
}

/** A message that an extension or the agent itself adds to the conversation. */
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

/**
 * What the session keeps about a call that a tool made. `arguments` are left out, and only their size is kept,
 * if they are too long.
 */
export interface NestedCallNote {
  id: string;
  name: string;
  status: "error" | "ok" | "unfinished";
  arguments?: Record<string, unknown>;
  argumentsBytes?: number;
  durationMs?: number;
  error?: string;
}

/**
 * The calls that a tool made, its own and those of the tools that it called. `complete` says whether nothing is
 * missing.
 */
export interface NestedCallNotes {
  calls: NestedCallNote[];
  complete: boolean;
}

export interface TextContent {
  type: "text";
  text: string;
  textSignature?: string;
}

export interface TextDelta {
  type: "text_delta";
  delta: string;
  contentIndex: number;
  /** The message so far; absent in delta form. */
  partial?: AssistantMessage;
}

export interface TextEnd {
  type: "text_end";
  content: string;
  contentIndex: number;
  /** The message so far; absent in delta form. */
  partial?: AssistantMessage;
}

export interface TextStart {
  type: "text_start";
  contentIndex: number;
  /** The message so far; absent in delta form. */
  partial?: AssistantMessage;
}

/** A model's reasoning. `thinking_signature` proves to the provider that its own model wrote it. */
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
  /** The message so far; absent in delta form. */
  partial?: AssistantMessage;
}

export interface ThinkingEnd {
  type: "thinking_end";
  content: string;
  contentIndex: number;
  /** The message so far; absent in delta form. */
  partial?: AssistantMessage;
}

export interface ThinkingStart {
  type: "thinking_start";
  contentIndex: number;
  /** The message so far; absent in delta form. */
  partial?: AssistantMessage;
}

export interface ToolCall {
  type: "toolCall";
  id: string;
  name: string;
  arguments: Record<string, unknown>;
  thoughtSignature?: string;
}

/**
 * The result of a tool call. `structuredContent` is the whole result as data, for hosts of pi 1.5 and for tools
 * that have one (bash, read, tools of MCP servers and of extensions). `isError` is there if the tool did its
 * work and called the result an error.
 */
export interface ToolOutcome {
  content: UserBlock[];
  details?: unknown;
  structuredContent?: unknown;
  isError?: boolean;
  /** The model need not be asked again, if all results of the turn say so. */
  terminate?: boolean;
  /** What model calls of the tool have used. */
  usage?: Usage;
}

export interface ToolResultMessage {
  role: "toolResult";
  toolCallId: string;
  toolName: string;
  content: UserBlock[];
  isError: boolean;
  timestamp: number;
  details?: unknown;
  /** How long the tool ran; null if it did not run. */
  durationMs?: number;
  /** The calls of other tools that the tool made. */
  nestedCalls?: NestedCallNotes;
  /** What model calls of the tool, and of the tools that it called, have used. */
  usage?: Usage;
}

/** `delta` is part of the arguments as JSON. */
export interface ToolcallDelta {
  type: "toolcall_delta";
  delta: string;
  contentIndex: number;
  /** The message so far; absent in delta form. */
  partial?: AssistantMessage;
}

export interface ToolcallEnd {
  type: "toolcall_end";
  toolCall: ToolCall;
  contentIndex: number;
  /** The message so far; absent in delta form. */
  partial?: AssistantMessage;
}

export interface ToolcallStart {
  type: "toolcall_start";
  id: string;
  toolName: string;
  contentIndex: number;
  /** The message so far; absent in delta form. */
  partial?: AssistantMessage;
}

/** The tokens of one model call, and their cost. */
export interface Usage {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  totalTokens: number;
  cost: Cost;
  /** The part of `cache_write` that the provider keeps for an hour. */
  cacheWrite1h?: number;
}

export type UserBlock = TextContent | ImageContent;

export interface UserMessage {
  role: "user";
  content: string | UserBlock[];
  timestamp: number;
  attribution?: "agent" | "user";
  /**
   * Files that came with the prompt, as JSON objects. They are kept as they came; see
   * `fairlead.session.context.tokens`.
   */
  attachments?: (Record<string, unknown>)[];
}
