// The protocol of acp, as fairlead speaks it.
/** Authentication-related capabilities supported by the agent. */
export interface AgentAuthCapabilities {
  /** Whether the agent supports the logout method. */
  logout?: LogoutCapabilities;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Capabilities supported by the agent. */
export interface AgentCapabilities {
  /** Whether the agent supports `session/load`. */
  loadSession?: boolean;
  /** Prompt capabilities supported by the agent. */
  promptCapabilities?: PromptCapabilities;
  /** MCP capabilities supported by the agent. */
  mcpCapabilities?: McpCapabilities;
  /** Session lifecycle and prompt capabilities advertised by the agent. */
  sessionCapabilities?: SessionCapabilities;
  /** Authentication-related capabilities supported by the agent. */
  auth?: AgentAuthCapabilities;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** A streamed item of content. */
export interface AgentMessageChunk {
  sessionUpdate: "agent_message_chunk";
  /** A single item of content. */
  content: ContentBlock;
  /** A unique identifier for the message this chunk belongs to. */
  messageId?: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** A streamed item of content. */
export interface AgentThoughtChunk {
  sessionUpdate: "agent_thought_chunk";
  /** A single item of content. */
  content: ContentBlock;
  /** A unique identifier for the message this chunk belongs to. */
  messageId?: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Optional annotations for the client. */
export interface Annotations {
  /** Intended recipients for this content, such as the user or assistant. */
  audience?: ("assistant" | "user")[] | null;
  /** Timestamp indicating when the underlying resource was last modified. */
  lastModified?: string | null;
  /** Relative importance of this content when clients choose what to surface. */
  priority?: number | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Audio provided to or from an LLM. */
export interface AudioContent {
  type: "audio";
  /** Base64-encoded media payload. */
  data: string;
  /** MIME type describing the encoded media payload. */
  mimeType: string;
  /** Optional annotations that help clients decide how to display or route this content. */
  annotations?: Annotations | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Authentication capabilities supported by the client. */
export interface AuthCapabilities {
  /** Whether the client supports `terminal` authentication methods. */
  terminal?: boolean;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Agent handles authentication itself through `authenticate`. */
export interface AuthMethodAgent {
  /** Unique identifier for this authentication method. */
  id: string;
  /** Human-readable name of the authentication method. */
  name: string;
  /** Optional human-readable description of this authentication method. */
  description?: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Terminal-based authentication method. */
export interface AuthMethodTerminal {
  type: "terminal";
  /** Unique identifier for this authentication method. */
  id: string;
  /** Human-readable name of the authentication method. */
  name: string;
  /** Optional human-readable description of this authentication method. */
  description?: string;
  /** Additional arguments to append to the configured agent invocation for terminal auth. */
  args?: string[];
  /** Additional environment variables to set on the configured agent invocation for terminal auth. */
  env?: Record<string, string>;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Request parameters for the authenticate method. */
export interface AuthenticateRequest {
  /** The ID of the authentication method to use. */
  methodId: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Response to the `authenticate` method. */
export interface AuthenticateResponse {
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Information about a command. */
export interface AvailableCommand {
  /** Command name (e.g., `create_plan`, `research_codebase`). */
  name: string;
  /** Human-readable description of what the command does. */
  description: string;
  /** Input for the command if required. */
  input?: UnstructuredCommandInput;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Available commands are ready or have changed. */
export interface AvailableCommandsUpdate {
  sessionUpdate: "available_commands_update";
  /** Commands the agent can execute. */
  availableCommands: AvailableCommand[];
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Binary resource contents. */
export interface BlobResourceContents {
  /** Base64-encoded bytes for a binary resource payload. */
  blob: string;
  /** URI associated with this resource or media payload. */
  uri: string;
  /** MIME type describing the encoded media payload. */
  mimeType?: string | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Capabilities for boolean session configuration options. */
export interface BooleanConfigOptionCapabilities {
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Schema for boolean properties in an elicitation form. */
export interface BooleanPropertySchema {
  type: "boolean";
  /** Optional title for the property. */
  title?: string;
  /** Human-readable description. */
  description?: string;
  /** Default value. */
  default?: boolean;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Notification to cancel ongoing operations for a session. */
export interface CancelNotification {
  /** The ID of the session to cancel operations for. */
  sessionId: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Notification to cancel an ongoing request. */
export interface CancelRequestNotification {
  /** The ID of the request to cancel. */
  requestId: number | string | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** The turn was cancelled before the user answered. */
export interface CancelledPermission {
  outcome: "cancelled";
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Capabilities supported by the client. */
export interface ClientCapabilities {
  /** File system capabilities supported by the client. */
  fs?: FileSystemCapabilities;
  /** Whether the Client support all `terminal/*` methods. */
  terminal?: boolean;
  /** Session-related capabilities supported by the client. */
  session?: ClientSessionCapabilities | null;
  /** Authentication capabilities supported by the client. */
  auth?: AuthCapabilities;
  /** Elicitation capabilities supported by the client. */
  elicitation?: ElicitationCapabilities | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Session-related capabilities supported by the client. */
export interface ClientSessionCapabilities {
  /** Support for ID-addressed context compaction updates. */
  compaction?: CompactionCapabilities | null;
  /** Config option capabilities supported by the client. */
  configOptions?: SessionConfigOptionsCapabilities | null;
  /** Support for live user-facing `notice` session updates. */
  notices?: NoticeCapabilities | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Request parameters for closing an active session. */
export interface CloseSessionRequest {
  /** The ID of the session to close. */
  sessionId: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Response from closing a session. */
export interface CloseSessionResponse {
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Client support for ID-addressed context compaction updates. */
export interface CompactionCapabilities {
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** A content block appended to a compaction's summary. */
export interface CompactionSummaryChunk {
  sessionUpdate: "compaction_summary_chunk";
  /** ID of the compaction whose summary receives this content. */
  compactionId: string;
  /** One content block to append. */
  content: ContentBlock;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** A context compaction upsert. */
export interface CompactionUpdate {
  sessionUpdate: "compaction_update";
  /** The Agent-owned ID of this compaction, unique within the session. */
  compactionId: string;
  /** Current lifecycle status. */
  status: string;
  /** Complete replacement user-displayable summary content for the compaction. */
  summary?: ContentBlock[] | null;
  /** Human-readable error details for the compaction. */
  error?: string | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Notification sent by the agent when a URL-based elicitation is complete. */
export interface CompleteElicitationNotification {
  /** The ID of the elicitation that completed. */
  elicitationId: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Session configuration options have been updated. */
export interface ConfigOptionUpdate {
  sessionUpdate: "config_option_update";
  /** The full set of configuration options and their current values. */
  configOptions: SessionConfigOption[];
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Standard content block (text, images, resources). */
export interface Content {
  type: "content";
  /** The actual content block. */
  content: ContentBlock;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

export type ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource;

/** Cost information for a session. */
export interface Cost {
  /** Total cumulative cost for session. */
  amount: number;
  /**
   * Unit of `amount`: an ISO 4217 currency code (e.g., "USD", "EUR") for money, or another unit such as
   * "credits".
   */
  currency: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Response from the client to an elicitation request. */
export interface CreateElicitationResponse {
  /** `accept`, `decline` or `cancel`. */
  action: string;
  /** The user-provided content, if any, as an object matching the requested schema. */
  content?: Record<string, unknown> | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Request to create a new terminal and execute a command. */
export interface CreateTerminalRequest {
  /** The session ID for this request. */
  sessionId: string;
  /** The command to execute. */
  command: string;
  /** Array of command arguments. */
  args?: string[];
  /** Environment variables for the command. */
  env?: EnvVariable[];
  /** Working directory for the command. */
  cwd?: string;
  /** Maximum number of output bytes to retain. */
  outputByteLimit?: number;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Response containing the ID of the created terminal. */
export interface CreateTerminalResponse {
  /** The unique identifier for the created terminal. */
  terminalId: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** The current mode of the session has changed. */
export interface CurrentModeUpdate {
  sessionUpdate: "current_mode_update";
  /** The ID of the current mode. */
  currentModeId: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Request parameters for deleting an existing session from `session/list`. */
export interface DeleteSessionRequest {
  /** The ID of the session to delete. */
  sessionId: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Response from deleting a session. */
export interface DeleteSessionResponse {
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** A diff representing file modifications. */
export interface Diff {
  type: "diff";
  /** The absolute file path being modified. */
  path: string;
  /** The new content after modification. */
  newText: string;
  /** The original content (omitted or `null` for new files). */
  oldText?: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Elicitation capabilities supported by the client. */
export interface ElicitationCapabilities {
  /** Whether the client supports form-based elicitation. */
  form?: ElicitationFormCapabilities | null;
  /** Whether the client supports URL-based elicitation. */
  url?: ElicitationUrlCapabilities | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Request from the agent to elicit structured user input. */
export interface ElicitationForm {
  mode: "form";
  /** A human-readable message describing what input is needed. */
  message: string;
  /** A JSON Schema describing the form fields to present to the user. */
  requestedSchema: ElicitationSchema;
  /** The session this elicitation is tied to. */
  sessionId?: string;
  /** Optional tool call within the session. */
  toolCallId?: string;
  /** The request this elicitation is tied to. */
  requestId?: number | string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Form-based elicitation capabilities. */
export interface ElicitationFormCapabilities {
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

export type ElicitationPropertySchema = StringPropertySchema | NumberPropertySchema | IntegerPropertySchema | BooleanPropertySchema | MultiSelectPropertySchema;

/** Type-safe elicitation schema for requesting structured user input. */
export interface ElicitationSchema {
  /** Type discriminator. */
  type?: "object";
  /** Optional title for the schema. */
  title?: string;
  /** Property definitions (must be primitive types). */
  properties?: Record<string, ElicitationPropertySchema>;
  /** List of required property names. */
  required?: string[];
  /** Optional description of what this schema represents. */
  description?: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Request from the agent to elicit structured user input. */
export interface ElicitationUrl {
  mode: "url";
  /** A human-readable message describing what input is needed. */
  message: string;
  /** The unique identifier for this elicitation. */
  elicitationId: string;
  /** The URL to direct the user to. */
  url: string;
  /** The session this elicitation is tied to. */
  sessionId?: string;
  /** Optional tool call within the session. */
  toolCallId?: string;
  /** The request this elicitation is tied to. */
  requestId?: number | string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** URL-based elicitation capabilities. */
export interface ElicitationUrlCapabilities {
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** The contents of a resource, embedded into a prompt or tool call result. */
export interface EmbeddedResource {
  type: "resource";
  /** Embedded resource payload, either text or binary data. */
  resource: TextResourceContents | BlobResourceContents;
  /** Optional annotations that help clients decide how to display or route this content. */
  annotations?: Annotations | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** A titled enum option with a const value, human-readable title, and optional description. */
export interface EnumOption {
  /** The constant value for this option. */
  const: string;
  /** Human-readable title for this option. */
  title: string;
  /** Human-readable description. */
  description?: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** An environment variable to set when launching an MCP server. */
export interface EnvVariable {
  /** The name of the environment variable. */
  name: string;
  /** The value to set for the environment variable. */
  value: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** File system capabilities that a client may support. */
export interface FileSystemCapabilities {
  /** Whether the Client supports `fs/read_text_file` requests. */
  readTextFile?: boolean;
  /** Whether the Client supports `fs/write_text_file` requests. */
  writeTextFile?: boolean;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** An HTTP header to set when making requests to the MCP server. */
export interface HttpHeader {
  /** The name of the HTTP header. */
  name: string;
  /** The value to set for the HTTP header. */
  value: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** An image provided to or from an LLM. */
export interface ImageContent {
  type: "image";
  /** Base64-encoded media payload. */
  data: string;
  /** MIME type describing the encoded media payload. */
  mimeType: string;
  /** Optional annotations that help clients decide how to display or route this content. */
  annotations?: Annotations | null;
  /** URI associated with this resource or media payload. */
  uri?: string | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Metadata about the implementation of the client or agent. */
export interface Implementation {
  /** Intended for programmatic or logical use, but can be used as a display name fallback if title isn't present. */
  name: string;
  /** Version of the implementation. */
  version: string;
  /** Intended for UI and end-user contexts and optimized to be human-readable and easily understood. */
  title?: string | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Request parameters for the initialize method. */
export interface InitializeRequest {
  /** The latest protocol version supported by the client. */
  protocolVersion: number;
  /** Capabilities supported by the client. */
  clientCapabilities?: ClientCapabilities;
  /** Information about the Client name and version sent to the Agent. */
  clientInfo?: Implementation | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Response to the `initialize` method. */
export interface InitializeResponse {
  /**
   * The protocol version the client specified if supported by the agent, or the latest protocol version
   * supported by the agent.
   */
  protocolVersion: number;
  /** Capabilities supported by the agent. */
  agentCapabilities?: AgentCapabilities;
  /** Authentication methods supported by the agent. */
  authMethods?: (AuthMethodTerminal | AuthMethodAgent)[];
  /** Information about the Agent name and version sent to the Client. */
  agentInfo?: Implementation;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Schema for integer properties in an elicitation form. */
export interface IntegerPropertySchema {
  type: "integer";
  /** Optional title for the property. */
  title?: string;
  /** Human-readable description. */
  description?: string;
  /** Minimum value (inclusive). */
  minimum?: number;
  /** Maximum value (inclusive). */
  maximum?: number;
  /** Default value. */
  default?: number;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Request to kill a terminal without releasing it. */
export interface KillTerminalRequest {
  /** The session ID for this request. */
  sessionId: string;
  /** The ID of the terminal to kill. */
  terminalId: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Response to `terminal/kill` method. */
export interface KillTerminalResponse {
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Request parameters for listing existing sessions. */
export interface ListSessionsRequest {
  /** Filter sessions by working directory. */
  cwd?: string | null;
  /** Opaque cursor token from a previous response's nextCursor field for cursor-based pagination. */
  cursor?: string | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Response from listing sessions. */
export interface ListSessionsResponse {
  /** Array of session information objects. */
  sessions: SessionInfo[];
  /** Opaque cursor token. */
  nextCursor?: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Request parameters for loading an existing session. */
export interface LoadSessionRequest {
  /** List of MCP servers to connect to for this session. */
  mcpServers: (McpServerHttp | McpServerSse | McpServerStdio)[];
  /** The working directory for this session. */
  cwd: string;
  /** The ID of the session to load. */
  sessionId: string;
  /** Additional workspace roots to activate for this session. */
  additionalDirectories?: string[];
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Response from loading an existing session. */
export interface LoadSessionResponse {
  /** Initial mode state if supported by the Agent. */
  modes?: SessionModeState;
  /** Initial session configuration options if supported by the Agent. */
  configOptions?: SessionConfigOption[];
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Logout capabilities supported by the agent. */
export interface LogoutCapabilities {
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Request parameters for the logout method. */
export interface LogoutRequest {
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Response to the `logout` method. */
export interface LogoutResponse {
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** MCP capabilities supported by the agent. */
export interface McpCapabilities {
  /** Agent supports `http` MCP servers. */
  http?: boolean;
  /** Agent supports `sse` MCP servers. */
  sse?: boolean;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** HTTP transport configuration for MCP. */
export interface McpServerHttp {
  type: "http";
  /** Human-readable name identifying this MCP server. */
  name: string;
  /** URL to the MCP server. */
  url: string;
  /** HTTP headers to set when making requests to the MCP server. */
  headers: HttpHeader[];
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** SSE transport configuration for MCP. */
export interface McpServerSse {
  type: "sse";
  /** Human-readable name identifying this MCP server. */
  name: string;
  /** URL to the MCP server. */
  url: string;
  /** HTTP headers to set when making requests to the MCP server. */
  headers: HttpHeader[];
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Stdio transport configuration for MCP. */
export interface McpServerStdio {
  /** Human-readable name identifying this MCP server. */
  name: string;
  /** Absolute path to the MCP server executable. */
  command: string;
  /** Command-line arguments to pass to the MCP server. */
  args: string[];
  /** Environment variables to set when launching the MCP server. */
  env: EnvVariable[];
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Schema for multi-select (array) properties in an elicitation form. */
export interface MultiSelectPropertySchema {
  type: "array";
  /** The items definition describing allowed values. */
  items: StringMultiSelectItems | TitledMultiSelectItems;
  /** Optional title for the property. */
  title?: string;
  /** Human-readable description. */
  description?: string;
  /** Minimum number of items to select. */
  minItems?: number;
  /** Maximum number of items to select. */
  maxItems?: number;
  /** Default selected values. */
  default?: string[];
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Request parameters for creating a new session. */
export interface NewSessionRequest {
  /** The working directory for this session. */
  cwd: string;
  /** List of MCP (Model Context Protocol) servers the agent should connect to. */
  mcpServers: (McpServerHttp | McpServerSse | McpServerStdio)[];
  /** Additional workspace roots for this session. */
  additionalDirectories?: string[];
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Response from creating a new session. */
export interface NewSessionResponse {
  /** Unique identifier for the created session. */
  sessionId: string;
  /** Initial mode state if supported by the Agent. */
  modes?: SessionModeState;
  /** Initial session configuration options if supported by the Agent. */
  configOptions?: SessionConfigOption[];
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Fire-and-forget information for the user. */
export interface Notice {
  sessionUpdate: "notice";
  /** Presentation severity hint. */
  severity: string;
  /** Required non-empty plain-text title that can stand alone. */
  title: string;
  /** Optional plain-text detail or guidance. */
  description?: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Client support for presenting live notices to the user. */
export interface NoticeCapabilities {
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Schema for number (floating-point) properties in an elicitation form. */
export interface NumberPropertySchema {
  type: "number";
  /** Optional title for the property. */
  title?: string;
  /** Human-readable description. */
  description?: string;
  /** Minimum value (inclusive). */
  minimum?: number;
  /** Maximum value (inclusive). */
  maximum?: number;
  /** Default value. */
  default?: number;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** An option presented to the user when requesting permission. */
export interface PermissionOption {
  /** Unique identifier for this permission option. */
  optionId: string;
  /** Human-readable label to display to the user. */
  name: string;
  /** Hint about the nature of this permission option. */
  kind: "allow_always" | "allow_once" | "reject_always" | "reject_once";
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** An execution plan for accomplishing complex tasks. */
export interface Plan {
  sessionUpdate: "plan";
  /** The list of tasks to be accomplished. */
  entries: PlanEntry[];
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** A single entry in the execution plan. */
export interface PlanEntry {
  /** Human-readable description of what this task aims to accomplish. */
  content: string;
  /** The relative importance of this task. */
  priority: "high" | "low" | "medium";
  /** Current execution status of this task. */
  status: "completed" | "in_progress" | "pending";
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Prompt capabilities supported by the agent in `session/prompt` requests. */
export interface PromptCapabilities {
  /** Agent supports `image` content blocks. */
  image?: boolean;
  /** Agent supports `audio` content blocks. */
  audio?: boolean;
  /** Agent supports embedded context in `session/prompt` requests. */
  embeddedContext?: boolean;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Request parameters for sending a user prompt to the agent. */
export interface PromptRequest {
  /** The ID of the session to send this user message to. */
  sessionId: string;
  /** The blocks of content that compose the user's message. */
  prompt: ContentBlock[];
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Response from processing a user prompt. */
export interface PromptResponse {
  /** Indicates why the agent stopped processing the turn. */
  stopReason: "cancelled" | "end_turn" | "max_tokens" | "max_turn_requests" | "refusal";
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Request to read content from a text file. */
export interface ReadTextFileRequest {
  /** The session ID for this request. */
  sessionId: string;
  /** Absolute path to the file to read. */
  path: string;
  /** Line number to start reading from (1-based). */
  line?: number;
  /** Maximum number of lines to read. */
  limit?: number;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Response containing the contents of a text file. */
export interface ReadTextFileResponse {
  /** Content payload returned by this response. */
  content: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Request to release a terminal and free its resources. */
export interface ReleaseTerminalRequest {
  /** The session ID for this request. */
  sessionId: string;
  /** The ID of the terminal to release. */
  terminalId: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Response to terminal/release method. */
export interface ReleaseTerminalResponse {
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Request for user permission to execute a tool call. */
export interface RequestPermissionRequest {
  /** The session ID for this request. */
  sessionId: string;
  /** Details about the tool call requiring permission. */
  toolCall: ToolCallUpdate;
  /** Available permission options for the user to choose from. */
  options: PermissionOption[];
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Response to a permission request. */
export interface RequestPermissionResponse {
  /** The user's decision on the permission request. */
  outcome: CancelledPermission | SelectedPermissionOutcome;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** A resource that the server is capable of reading, included in a prompt or tool call result. */
export interface ResourceLink {
  type: "resource_link";
  /** Human-readable name shown for this protocol object. */
  name: string;
  /** URI associated with this resource or media payload. */
  uri: string;
  /** Optional annotations that help clients decide how to display or route this content. */
  annotations?: Annotations | null;
  /** Optional human-readable details shown with this protocol object. */
  description?: string | null;
  /** MIME type describing the encoded media payload. */
  mimeType?: string | null;
  /** Optional size of the linked resource in bytes, if known. */
  size?: number | null;
  /** Optional display title for end-user UI. */
  title?: string | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Request parameters for resuming an existing session. */
export interface ResumeSessionRequest {
  /** The ID of the session to resume. */
  sessionId: string;
  /** The working directory for this session. */
  cwd: string;
  /** Additional workspace roots to activate for this session. */
  additionalDirectories?: string[];
  /** List of MCP servers to connect to for this session. */
  mcpServers?: (McpServerHttp | McpServerSse | McpServerStdio)[];
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Response from resuming an existing session. */
export interface ResumeSessionResponse {
  /** Initial mode state if supported by the Agent. */
  modes?: SessionModeState;
  /** Initial session configuration options if supported by the Agent. */
  configOptions?: SessionConfigOption[];
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** The user selected an option. */
export interface SelectedPermissionOutcome {
  outcome: "selected";
  /** The ID of the option the user selected. */
  optionId: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Capabilities for additional session directories support. */
export interface SessionAdditionalDirectoriesCapabilities {
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Session capabilities supported by the agent. */
export interface SessionCapabilities {
  /** Whether the agent supports `session/list`. */
  list?: SessionListCapabilities;
  /** Whether the agent supports `session/delete`. */
  delete?: SessionDeleteCapabilities;
  /** Whether the agent supports `additionalDirectories` on supported session lifecycle requests. */
  additionalDirectories?: SessionAdditionalDirectoriesCapabilities;
  /** Whether the agent supports `session/resume`. */
  resume?: SessionResumeCapabilities;
  /** Whether the agent supports `session/close`. */
  close?: SessionCloseCapabilities;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Capabilities for the `session/close` method. */
export interface SessionCloseCapabilities {
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** A boolean on/off toggle session configuration option payload. */
export interface SessionConfigBoolean {
  type: "boolean";
  /** Unique identifier for the configuration option. */
  id: string;
  /** Human-readable label for the option. */
  name: string;
  /** The current value of the boolean option. */
  currentValue: boolean;
  /** Optional description for the Client to display to the user. */
  description?: string;
  /** Optional semantic category for this option (UX only). */
  category?: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

export type SessionConfigOption = SessionConfigSelect | SessionConfigBoolean;

/** Session configuration option capabilities supported by the client. */
export interface SessionConfigOptionsCapabilities {
  /** Whether the client supports boolean session configuration options. */
  boolean?: BooleanConfigOptionCapabilities | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** A single-value selector (dropdown) session configuration option payload. */
export interface SessionConfigSelect {
  type: "select";
  /** Unique identifier for the configuration option. */
  id: string;
  /** Human-readable label for the option. */
  name: string;
  /** The currently selected value. */
  currentValue: string;
  /** The set of selectable options. */
  options: (SessionConfigSelectOption | SessionConfigSelectGroup)[];
  /** Optional description for the Client to display to the user. */
  description?: string;
  /** Optional semantic category for this option (UX only). */
  category?: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** A group of possible values for a session configuration option. */
export interface SessionConfigSelectGroup {
  /** Unique identifier for this group. */
  group: string;
  /** Human-readable label for this group. */
  name: string;
  /** The set of option values in this group. */
  options: SessionConfigSelectOption[];
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** A possible value for a session configuration option. */
export interface SessionConfigSelectOption {
  /** Unique identifier for this option value. */
  value: string;
  /** Human-readable label for this option value. */
  name: string;
  /** Optional description for this option value. */
  description?: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Capabilities for the `session/delete` method. */
export interface SessionDeleteCapabilities {
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Information about a session returned by session/list. */
export interface SessionInfo {
  /** Unique identifier for the session. */
  sessionId: string;
  /** The working directory for this session. */
  cwd: string;
  /** Additional workspace roots reported for this session. */
  additionalDirectories?: string[];
  /** Human-readable title for the session. */
  title?: string;
  /** ISO 8601 timestamp of last activity. */
  updatedAt?: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Update to session metadata. */
export interface SessionInfoUpdate {
  sessionUpdate: "session_info_update";
  /** Human-readable title for the session. */
  title?: string | null;
  /** ISO 8601 timestamp of last activity. */
  updatedAt?: string | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Capabilities for the `session/list` method. */
export interface SessionListCapabilities {
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** A mode the agent can operate in. */
export interface SessionMode {
  /** Stable identifier used to refer to this protocol object in later messages. */
  id: string;
  /** Human-readable name shown for this protocol object. */
  name: string;
  /** Optional human-readable details shown with this protocol object. */
  description?: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** The set of modes and the one currently active. */
export interface SessionModeState {
  /** The current mode the Agent is in. */
  currentModeId: string;
  /** The set of modes that the Agent can operate in. */
  availableModes: SessionMode[];
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Notification containing a session update from the agent. */
export interface SessionNotification {
  /** The ID of the session this update pertains to. */
  sessionId: string;
  /** The actual update content. */
  update: UserMessageChunk | AgentMessageChunk | AgentThoughtChunk | ToolCall | ToolCallChanged | Plan | AvailableCommandsUpdate | CurrentModeUpdate | ConfigOptionUpdate | SessionInfoUpdate | UsageUpdate | Notice | CompactionUpdate | CompactionSummaryChunk;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Capabilities for the `session/resume` method. */
export interface SessionResumeCapabilities {
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Request parameters for setting a session configuration option. */
export interface SetSessionConfigOptionRequest {
  /** The ID of the session to set the configuration option for. */
  sessionId: string;
  /** The ID of the configuration option to set. */
  configId: string;
  /** The new value: one of the select option, or true or false. */
  value: string | boolean;
  /** `boolean` if the value is one. */
  type?: string | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Response to `session/set_config_option` method. */
export interface SetSessionConfigOptionResponse {
  /** The full set of configuration options and their current values. */
  configOptions: SessionConfigOption[];
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Request parameters for setting a session mode. */
export interface SetSessionModeRequest {
  /** The ID of the session to set the mode for. */
  sessionId: string;
  /** The ID of the mode to set. */
  modeId: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Response to `session/set_mode` method. */
export interface SetSessionModeResponse {
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** String item schema for multi-select enum properties. */
export interface StringMultiSelectItems {
  type: "string";
  /** Allowed enum values. */
  enum: string[];
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Schema for string properties in an elicitation form. */
export interface StringPropertySchema {
  type: "string";
  /** Optional title for the property. */
  title?: string;
  /** Human-readable description. */
  description?: string;
  /** Minimum string length. */
  minLength?: number;
  /** Maximum string length. */
  maxLength?: number;
  /** Pattern the string must match. */
  pattern?: string;
  /** String format. */
  format?: "date" | "date-time" | "email" | "uri";
  /** Default value. */
  default?: string;
  /** Enum values for untitled single-select enums. */
  enum?: string[];
  /** Titled enum options for titled single-select enums. */
  oneOf?: EnumOption[];
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Embed a terminal created with `terminal/create` by its id. */
export interface Terminal {
  type: "terminal";
  /** Identifier of the terminal instance to embed in the content stream. */
  terminalId: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Exit status of a terminal command. */
export interface TerminalExitStatus {
  /** The process exit code (may be null if terminated by signal). */
  exitCode?: number | null;
  /** The signal that terminated the process (may be null if exited normally). */
  signal?: string | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Request to get the current output and status of a terminal. */
export interface TerminalOutputRequest {
  /** The session ID for this request. */
  sessionId: string;
  /** The ID of the terminal to get output from. */
  terminalId: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Response containing the terminal output and exit status. */
export interface TerminalOutputResponse {
  /** The terminal output captured so far. */
  output: string;
  /** Whether the output was truncated due to byte limits. */
  truncated: boolean;
  /** Exit status if the command has completed. */
  exitStatus?: TerminalExitStatus | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Text provided to or from an LLM. */
export interface TextContent {
  type: "text";
  /** Text payload carried by this content block. */
  text: string;
  /** Optional annotations that help clients decide how to display or route this content. */
  annotations?: Annotations | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Text-based resource contents. */
export interface TextResourceContents {
  /** Text payload carried by this content block. */
  text: string;
  /** URI associated with this resource or media payload. */
  uri: string;
  /** MIME type describing the encoded media payload. */
  mimeType?: string | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Items definition for titled multi-select enum properties. */
export interface TitledMultiSelectItems {
  /** Titled enum options. */
  anyOf: EnumOption[];
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Represents a tool call that the language model has requested. */
export interface ToolCall {
  sessionUpdate: "tool_call";
  /** Unique identifier for this tool call within the session. */
  toolCallId: string;
  /** Human-readable title describing what the tool is doing. */
  title: string;
  /** Programmatic name of the tool being invoked. */
  name?: string;
  /** The category of tool being invoked. */
  kind?: "delete" | "edit" | "execute" | "fetch" | "move" | "other" | "read" | "search" | "switch_mode" | "think";
  /** Current execution status of the tool call. */
  status?: "completed" | "failed" | "in_progress" | "pending";
  /** Content produced by the tool call. */
  content?: (Content | Diff | Terminal)[];
  /** File locations affected by this tool call. */
  locations?: ToolCallLocation[];
  /** Raw input parameters sent to the tool. */
  rawInput?: unknown;
  /** Raw output returned by the tool. */
  rawOutput?: unknown;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** An update to a tool call that has been announced. */
export interface ToolCallChanged {
  sessionUpdate: "tool_call_update";
  /** The ID of the tool call being updated. */
  toolCallId: string;
  /** Update the tool kind. */
  kind?: "delete" | "edit" | "execute" | "fetch" | "move" | "other" | "read" | "search" | "switch_mode" | "think";
  /** Update the execution status. */
  status?: "completed" | "failed" | "in_progress" | "pending";
  /** Update the human-readable title. */
  title?: string;
  /** Update the programmatic name of the tool being invoked. */
  name?: string;
  /** Replace the content collection. */
  content?: (Content | Diff | Terminal)[];
  /** Replace the locations collection. */
  locations?: ToolCallLocation[];
  /** Update the raw input. */
  rawInput?: unknown;
  /** Update the raw output. */
  rawOutput?: unknown;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** A file location being accessed or modified by a tool. */
export interface ToolCallLocation {
  /** The absolute file path being accessed or modified. */
  path: string;
  /** Optional 1-based line number within the file. */
  line?: number;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** An update to an existing tool call. */
export interface ToolCallUpdate {
  /** The ID of the tool call being updated. */
  toolCallId: string;
  /** Update the tool kind. */
  kind?: "delete" | "edit" | "execute" | "fetch" | "move" | "other" | "read" | "search" | "switch_mode" | "think";
  /** Update the execution status. */
  status?: "completed" | "failed" | "in_progress" | "pending";
  /** Update the human-readable title. */
  title?: string;
  /** Update the programmatic name of the tool being invoked. */
  name?: string;
  /** Replace the content collection. */
  content?: (Content | Diff | Terminal)[];
  /** Replace the locations collection. */
  locations?: ToolCallLocation[];
  /** Update the raw input. */
  rawInput?: unknown;
  /** Update the raw output. */
  rawOutput?: unknown;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** All text that was typed after the command name is provided as input. */
export interface UnstructuredCommandInput {
  /** A hint to display when the input hasn't been provided yet. */
  hint: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Context window and cost update for a session. */
export interface UsageUpdate {
  sessionUpdate: "usage_update";
  /** Tokens currently in context. */
  used: number;
  /** Total context window size in tokens. */
  size: number;
  /** Cumulative session cost (optional). */
  cost?: Cost;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** A streamed item of content. */
export interface UserMessageChunk {
  sessionUpdate: "user_message_chunk";
  /** A single item of content. */
  content: ContentBlock;
  /** A unique identifier for the message this chunk belongs to. */
  messageId?: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Request to wait for a terminal command to exit. */
export interface WaitForTerminalExitRequest {
  /** The session ID for this request. */
  sessionId: string;
  /** The ID of the terminal to wait for. */
  terminalId: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Response containing the exit status of a terminal command. */
export interface WaitForTerminalExitResponse {
  /** The process exit code (may be null if terminated by signal). */
  exitCode?: number | null;
  /** The signal that terminated the process (may be null if exited normally). */
  signal?: string | null;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** Request to write content to a text file. */
export interface WriteTextFileRequest {
  /** The session ID for this request. */
  sessionId: string;
  /** Absolute path to the file to write. */
  path: string;
  /** The text content to write to the file. */
  content: string;
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown>;
}

/** Response to `fs/write_text_file`. */
export interface WriteTextFileResponse {
  /** Additional data that clients and agents agree on. */
  _meta?: Record<string, unknown> | null;
}

/** The requests of a client. */
export interface AgentRequests {
  initialize: { params: InitializeRequest; result: InitializeResponse };
  authenticate: { params: AuthenticateRequest; result: AuthenticateResponse };
  logout: { params: LogoutRequest; result: LogoutResponse };
  "session/new": { params: NewSessionRequest; result: NewSessionResponse };
  "session/load": { params: LoadSessionRequest; result: LoadSessionResponse };
  "session/resume": { params: ResumeSessionRequest; result: ResumeSessionResponse };
  "session/list": { params: ListSessionsRequest; result: ListSessionsResponse };
  "session/close": { params: CloseSessionRequest; result: CloseSessionResponse };
  "session/delete": { params: DeleteSessionRequest; result: DeleteSessionResponse };
  "session/set_mode": { params: SetSessionModeRequest; result: SetSessionModeResponse };
  "session/set_config_option": { params: SetSessionConfigOptionRequest; result: SetSessionConfigOptionResponse };
  "session/prompt": { params: PromptRequest; result: PromptResponse };
}

/** The notifications of a client. */
export interface AgentNotifications {
  "session/cancel": CancelNotification;
  "$/cancel_request": CancelRequestNotification;
}

/** The requests of the agent. */
export interface ClientRequests {
  "session/request_permission": { params: RequestPermissionRequest; result: RequestPermissionResponse };
  "elicitation/create": { params: ElicitationForm | ElicitationUrl; result: CreateElicitationResponse };
  "fs/read_text_file": { params: ReadTextFileRequest; result: ReadTextFileResponse };
  "fs/write_text_file": { params: WriteTextFileRequest; result: WriteTextFileResponse };
  "terminal/create": { params: CreateTerminalRequest; result: CreateTerminalResponse };
  "terminal/output": { params: TerminalOutputRequest; result: TerminalOutputResponse };
  "terminal/release": { params: ReleaseTerminalRequest; result: ReleaseTerminalResponse };
  "terminal/wait_for_exit": { params: WaitForTerminalExitRequest; result: WaitForTerminalExitResponse };
  "terminal/kill": { params: KillTerminalRequest; result: KillTerminalResponse };
}

/** The notifications of the agent. */
export interface ClientNotifications {
  "session/update": SessionNotification;
  "elicitation/complete": CompleteElicitationNotification;
  "$/cancel_request": CancelRequestNotification;
}
