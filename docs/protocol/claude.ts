// The protocol of claude, as fairlead speaks it.
export type HostLine = UserLine | ControlRequestLine | ControlResponseLine | ControlCancelRequestLine | KeepAliveLine | UpdateEnvironmentVariablesLine;

export type AgentLine = InitFrame | AssistantFrame | UserFrame | StreamEventFrame | ResultFrame | StatusFrame | CompactBoundaryFrame | ApiRetryFrame | ModelFallbackFrame | PermissionDeniedFrame | InformationalFrame | HookStartedFrame | HookResponseFrame | SessionStateChangedFrame | TaskStartedFrame | TaskProgressFrame | TaskUpdatedFrame | TaskNotificationFrame | SessionTitleChangedFrame | ConversationResetFrame | CommandLifecycleFrame | TranscriptMirrorFrame | ControlRequestLine | ControlResponseLine | ControlCancelRequestLine;

export type HostRequest = InitializeRequest | InterruptRequest | SetPermissionModeRequest | SetModelRequest | SetMaxThinkingTokensRequest | GetSettingsRequest | ApplyFlagSettingsRequest | McpStatusRequest | McpToggleRequest | McpReconnectRequest | McpSetServersRequest | McpServerMessageRequest | McpCallRequest | McpReadResourceRequest | GetContextUsageRequest | CancelAsyncMessageRequest | StopTaskRequest | BackgroundTasksRequest | RenameSessionRequest | GenerateSessionTitleRequest | ListPermissionRulesRequest | GetSessionCostRequest | GetUsageRequest | ReadFileRequest | ReloadSkillsRequest | GetBinaryVersionRequest | ListModelsRequest | EndSessionRequest;

export type AgentRequest = CanUseToolRequest | McpMessageRequest;

/** A prompt. During a tool call it joins the running turn, otherwise it waits for the end of the turn. */
export interface UserLine {
  type: "user";
  message: PromptMessage;
  parent_tool_use_id?: string | null;
  /** Not looked at: a process has one session. */
  session_id?: string | null;
  /**
   * Comes back in `user_message_uuids` of the frames that answer the prompt. A prompt with a uuid that was used
   * before does not run again: its result is sent again.
   */
  uuid?: string | null;
  priority?: string | null;
  origin?: Record<string, unknown> | null;
  /** Whether the host wrote the text, so that it is not a slash command. */
  client_composed?: boolean | null;
  shouldQuery?: boolean | null;
}

/** A request of either side. The other side answers with a `control_response`. */
export interface ControlRequestLine {
  type: "control_request";
  request_id: string;
  /** The request, with its name in `subtype`. */
  request: Record<string, unknown>;
}

/** The answer to a control request, of either side. */
export interface ControlResponseLine {
  type: "control_response";
  response: ControlResponseBody;
}

/** Withdraws a control request, of either side. No answer is needed any more. */
export interface ControlCancelRequestLine {
  type: "control_cancel_request";
  request_id: string;
}

/** Does nothing. */
export interface KeepAliveLine {
  type: "keep_alive";
}

/** Changes variables of the environment of later commands. */
export interface UpdateEnvironmentVariablesLine {
  type: "update_environment_variables";
  variables: Record<string, string>;
}

/** Say what the host brings, and learn what the agent has. It is optional, and may come again. */
export interface InitializeRequest {
  subtype: "initialize";
  /** The host's hooks, by event. */
  hooks?: Record<string, HookMatcher[] | null> | null;
  /** Kinds of sub-agents, by name: `{description, prompt, tools, model}`. */
  agents?: Record<string, Record<string, unknown>> | null;
  /** Replaces the system prompt; a list with one empty text leaves it out. */
  systemPrompt?: string | string[] | null;
  appendSystemPrompt?: string | null;
  /** The schema of the structured output. */
  jsonSchema?: Record<string, unknown> | null;
  /** The names of the MCP servers that live in the host. */
  sdkMcpServers?: string[] | null;
  /** Other MCP servers by name, as in `--mcp-config`. */
  mcpServers?: Record<string, unknown> | null;
  title?: string | null;
  /** Whether frames of sub-agents include their texts. */
  forwardSubagentText?: boolean | null;
}

/** Stop the running turn. The answer comes at once, the turn's last frames and its result later. */
export interface InterruptRequest {
  subtype: "interrupt";
  /** Whether to drop the prompts that wait. */
  cancel_queued?: boolean | null;
}

/** Change when tool calls need consent. `system/status` follows. */
export interface SetPermissionModeRequest {
  subtype: "set_permission_mode";
  mode: string;
}

/** Use another model from the next model call on; null means the default model. */
export interface SetModelRequest {
  subtype: "set_model";
  model?: string | null;
}

/** Change how much the model thinks; 0 turns thinking off, null restores the level of the start. */
export interface SetMaxThinkingTokensRequest {
  subtype: "set_max_thinking_tokens";
  max_thinking_tokens?: number | null;
  thinking_display?: string | null;
}

/** Return the settings. */
export interface GetSettingsRequest {
  subtype: "get_settings";
}

/**
 * Merge settings over those of `--settings`: `model`, `effortLevel`, `env`, and `permissions` with rules and
 * `defaultMode` take effect. Rules replace those of earlier requests.
 */
export interface ApplyFlagSettingsRequest {
  subtype: "apply_flag_settings";
  settings: Record<string, unknown>;
}

/** Return the MCP servers and their tools. */
export interface McpStatusRequest {
  subtype: "mcp_status";
}

/** Disconnect an MCP server, or connect it again. */
export interface McpToggleRequest {
  subtype: "mcp_toggle";
  serverName: string;
  enabled: boolean;
}

/** Connect to an MCP server again. An error says why that failed. */
export interface McpReconnectRequest {
  subtype: "mcp_reconnect";
  serverName: string;
}

/** Replace the MCP servers that earlier requests of this kind have brought. */
export interface McpSetServersRequest {
  subtype: "mcp_set_servers";
  /** The servers by name, as in `--mcp-config`; `{type: "sdk", name}` for one in the host. */
  servers: Record<string, unknown>;
}

/** Pass on a message that an MCP server in the host sends by itself, such as a notification. */
export interface McpServerMessageRequest {
  subtype: "mcp_message";
  server_name: string;
  message: Record<string, unknown>;
}

/** Call a tool of an MCP server for the host. The model learns nothing of it, and no consent is asked for. */
export interface McpCallRequest {
  subtype: "mcp_call";
  /** `mcp__server__tool`. */
  tool: string;
  arguments?: Record<string, unknown> | null;
  timeout_ms?: number | null;
}

/** Read a resource of an MCP server. */
export interface McpReadResourceRequest {
  subtype: "mcp_read_resource";
  serverName: string;
  uri: string;
}

/** Return how much of the model's context is in use. */
export interface GetContextUsageRequest {
  subtype: "get_context_usage";
}

/** Drop a prompt that waits. */
export interface CancelAsyncMessageRequest {
  subtype: "cancel_async_message";
  message_uuid: string;
}

/** Stop a sub-agent. `task_updated` and `task_notification` come before the answer. */
export interface StopTaskRequest {
  subtype: "stop_task";
  task_id: string;
}

/** Move running calls to the background. Nothing can be moved yet, so it is an error while calls run. */
export interface BackgroundTasksRequest {
  subtype: "background_tasks";
  tool_use_id?: string | null;
}

/** Give the session a title. */
export interface RenameSessionRequest {
  subtype: "rename_session";
  title: string;
}

/** Make a title of the first words of a description. */
export interface GenerateSessionTitleRequest {
  subtype: "generate_session_title";
  description: string;
  /** Whether the session gets the title. */
  persist?: boolean | null;
}

/** Return the rules about consent that hold now. */
export interface ListPermissionRulesRequest {
  subtype: "list_permission_rules";
}

/** Return what the session has cost, as text. */
export interface GetSessionCostRequest {
  subtype: "get_session_cost";
}

/** Return what the session has used and cost. */
export interface GetUsageRequest {
  subtype: "get_usage";
  skip_behaviors?: boolean | null;
}

/** Return the text of a file in the working directory, or in a directory that counts as inside. */
export interface ReadFileRequest {
  subtype: "read_file";
  path: string;
  /** The most bytes to read; not more than 128 KiB. */
  max_bytes?: number | null;
}

/** Read the files of skills and commands again, and return the skills. */
export interface ReloadSkillsRequest {
  subtype: "reload_skills";
}

/** Return the version of the program. */
export interface GetBinaryVersionRequest {
  subtype: "get_binary_version";
}

/** Return the models that can be used. */
export interface ListModelsRequest {
  subtype: "list_models";
}

/** End the process, with exit code 0. */
export interface EndSessionRequest {
  subtype: "end_session";
}

/** What a host can do with the agent. */
export interface Initialized {
  commands: SlashCommand[];
  agents: AgentInfo[];
  models: ModelInfo[];
  account: Account;
  output_style: string;
  available_output_styles: string[];
  pid: number;
  claude_code_version: string;
  current_permission_mode: string;
  hook_on_failure_supported: boolean;
  session_state: "idle" | "requires_action" | "running";
  capabilities: string[];
}

export interface Interrupted {
  /** The uuids of the prompts that still wait. */
  still_queued: string[];
  /** The uuids of the prompts that were dropped. */
  cancelled?: string[];
}

export interface PermissionModeSet {
  mode: string;
}

export interface ModelSet {
  model: string;
}

export interface SettingsInUse {
  /** All settings, merged. */
  effective: Record<string, unknown>;
  /** The settings by source, the weakest first. */
  sources: (Record<string, unknown>)[];
  applied: AppliedSettings;
}

export interface McpServers {
  mcpServers: McpServerStatus[];
}

export interface McpServersSet {
  added: string[];
  removed: string[];
  /** Why servers could not be connected, by name. */
  errors: Record<string, string>;
}

/** What a tool of an MCP server has answered, as MCP defines it. */
export interface McpCallResult {
  content: (Record<string, unknown>)[];
  structuredContent?: Record<string, unknown>;
  isError?: boolean;
}

export interface McpResource {
  contents: (Record<string, unknown>)[];
}

/** How much of the model's context is in use. */
export interface ContextUsage {
  categories: ContextCategory[];
  totalTokens: number;
  maxTokens: number;
  rawMaxTokens: number;
  percentage: number;
  gridRows: unknown[];
  model: string;
  memoryFiles: unknown[];
  mcpTools: ContextPart[];
  agents: unknown[];
  isAutoCompactEnabled: boolean;
}

export interface Cancelled {
  cancelled: boolean;
}

export interface SessionTitle {
  title: string | null;
}

export interface PermissionRulesListed {
  state: PermissionRulesState;
}

export interface SessionCost {
  /** For people to read. */
  text: string;
}

export interface UsageSoFar {
  session: SpentInSession;
  /** There are no subscriptions and no limits of them. */
  subscription_type: null;
  rate_limits_available: boolean;
  rate_limits: null;
  behaviors: null;
}

export interface FileRead {
  contents: string;
  absPath: string;
  /** Whether something is missing: the file is longer, or is not text. */
  lossy: boolean;
  requested_path: string;
}

export interface SkillsReloaded {
  skills: SlashCommand[];
}

export interface BinaryVersion {
  version: string;
}

export interface Models {
  models: ModelInfo[];
}

/** A turn begins. It comes with every turn. */
export interface InitFrame {
  type: "system";
  session_id: string;
  uuid: string;
  subtype: "init";
  cwd: string;
  tools: string[];
  mcp_servers: McpServerName[];
  model: string;
  permissionMode: string;
  slash_commands: string[];
  apiKeySource: string;
  claude_code_version: string;
  output_style: string;
  agents: string[];
  skills: string[];
  plugins: (Record<string, unknown>)[];
  capabilities: string[];
  fast_mode_state: string;
}

/** A block of the model's answer has ended, or a model call has failed. */
export interface AssistantFrame {
  type: "assistant";
  session_id: string;
  uuid: string;
  message: ModelMessage;
  /** The `Agent` call that it belongs to; null outside sub-agents. */
  parent_tool_use_id: string | null;
  timestamp: string;
  /** The prompt or prompts that are answered, in the first frame after them. */
  user_message_uuid?: string;
  user_message_uuids?: string[];
  /**
   * Why the model call failed: authentication_failed, rate_limit, overloaded, server_error, invalid_request,
   * model_not_found, unknown.
   */
  error?: string;
  is_api_error_message?: boolean;
  api_error_status?: number | null;
  /** Whether an interrupt cut the block off. */
  aborted?: boolean;
  /** The sub-agent that it comes from. */
  agent_id?: string;
  subagent_type?: string;
  task_description?: string;
}

/**
 * The result of a tool call, or a message that stands in the conversation: a prompt that comes back, an
 * interruption.
 */
export interface UserFrame {
  type: "user";
  session_id: string;
  uuid: string;
  message: UserContent;
  parent_tool_use_id: string | null;
  timestamp: string;
  /** The result as data, in a shape that depends on the tool; a text for an error. */
  tool_use_result?: unknown;
  /** Whether it is a prompt of the host that comes back. */
  isReplay?: boolean;
  /** Whether the agent wrote it. */
  isSynthetic?: boolean;
  /** The sub-agent that it comes from. */
  agent_id?: string;
  subagent_type?: string;
  task_description?: string;
}

/** A piece of an answer, as an event of the Messages API. Only with `--include-partial-messages`. */
export interface StreamEventFrame {
  type: "stream_event";
  session_id: string;
  uuid: string;
  event: Record<string, unknown>;
  parent_tool_use_id: string | null;
}

/** A turn has ended. The last result of a process decides its exit code: 1 if it is an error. */
export interface ResultFrame {
  type: "result";
  session_id: string;
  uuid: string;
  subtype: "error_during_execution" | "error_max_budget_usd" | "error_max_structured_output_retries" | "error_max_turns" | "success";
  is_error: boolean;
  /** The last text, for `success`: also the text of the error if the provider failed. */
  result?: string;
  /** What went wrong, for the other subtypes. */
  errors?: string[];
  num_turns: number;
  duration_ms: number;
  duration_api_ms: number;
  stop_reason: string | null;
  /** Of the session, in US dollars. */
  total_cost_usd: number;
  /** Of this turn, in the form of the Messages API. */
  usage: Record<string, unknown>;
  /** Of the session, by model. */
  modelUsage: Record<string, ModelUsage>;
  permission_denials: (Record<string, unknown>)[];
  /**
   * Why it ended: completed, api_error, aborted_streaming, aborted_tools, max_turns, budget_exhausted,
   * hook_stopped, stop_hook_prevented, tool_deferred.
   */
  terminal_reason?: string;
  /** The call that a hook has put off, as `{id, name, input}`. */
  deferred_tool_use?: Record<string, unknown>;
  structured_output?: unknown;
  api_error_status?: number | null;
  user_message_uuid?: string;
  user_message_uuids?: string[];
  /** How many prompts still wait. */
  queued_turn_count: number;
  /** The number of the result in this process, from 0. */
  result_index: number;
  /** Whether a slash command was carried out without the model. */
  local_command?: boolean;
}

/** What happens now: a model call that begins (with partial messages), a compaction, or another permission mode. */
export interface StatusFrame {
  type: "system";
  session_id: string;
  uuid: string;
  subtype: "status";
  status: "compacting" | "requesting" | null;
  permissionMode?: string;
  compact_result?: string;
}

/** A summary has replaced what came before. */
export interface CompactBoundaryFrame {
  type: "system";
  session_id: string;
  uuid: string;
  subtype: "compact_boundary";
  compact_metadata: CompactMetadata;
}

/** A model call failed, and is made again after a while. */
export interface ApiRetryFrame {
  type: "system";
  session_id: string;
  uuid: string;
  subtype: "api_retry";
  attempt: number;
  max_retries: number;
  retry_delay_ms: number;
  /** The status of HTTP; null if there was no response. */
  error_status: number | null;
  error: string;
}

/** A model was overloaded several times, so another one answers until the turn ends. */
export interface ModelFallbackFrame {
  type: "system";
  session_id: string;
  uuid: string;
  subtype: "model_fallback";
  trigger: string;
  original_model: string;
  fallback_model: string;
  /** For people to read. */
  content: string;
}

/** A tool call was refused without asking anyone. */
export interface PermissionDeniedFrame {
  type: "system";
  session_id: string;
  uuid: string;
  subtype: "permission_denied";
  tool_name: string;
  tool_use_id: string;
  message: string;
}

/** Something that people may want to know, such as a line that could not be read. */
export interface InformationalFrame {
  type: "system";
  session_id: string;
  uuid: string;
  subtype: "informational";
  level: "error" | "info" | "notice" | "warning";
  content: string;
}

/** A command of the settings runs as a hook. Sent with `--include-hook-events`, and always for SessionStart. */
export interface HookStartedFrame {
  type: "system";
  session_id: string;
  uuid: string;
  subtype: "hook_started";
  hook_id: string;
  /** The event, and what it is about: `PreToolUse:Bash`. */
  hook_name: string;
  hook_event: string;
}

/** The command has ended. */
export interface HookResponseFrame {
  type: "system";
  session_id: string;
  uuid: string;
  subtype: "hook_response";
  hook_id: string;
  hook_name: string;
  hook_event: string;
  output: string;
  stdout: string;
  stderr: string;
  exit_code?: number;
  outcome: "cancelled" | "error" | "success";
}

/** Whether a turn runs. Sent if the environment asks for it. */
export interface SessionStateChangedFrame {
  type: "system";
  session_id: string;
  uuid: string;
  subtype: "session_state_changed";
  state: "idle" | "requires_action" | "running";
  sdk_host_only?: boolean;
}

/** A sub-agent has started. */
export interface TaskStartedFrame {
  type: "system";
  session_id: string;
  uuid: string;
  subtype: "task_started";
  task_id: string;
  tool_use_id: string;
  description: string;
  task_type: string;
  subagent_type?: string;
  /** Whether the call ends before the sub-agent does. */
  is_backgrounded?: boolean;
  prompt?: string;
}

/** A sub-agent has made progress. */
export interface TaskProgressFrame {
  type: "system";
  session_id: string;
  uuid: string;
  subtype: "task_progress";
  task_id: string;
  tool_use_id: string;
  description: string;
  subagent_type?: string;
  usage: TaskUsage;
  last_tool_name?: string;
}

/** The state of a sub-agent has changed. */
export interface TaskUpdatedFrame {
  type: "system";
  session_id: string;
  uuid: string;
  subtype: "task_updated";
  task_id: string;
  patch: Record<string, unknown>;
}

/** A sub-agent has ended. */
export interface TaskNotificationFrame {
  type: "system";
  session_id: string;
  uuid: string;
  subtype: "task_notification";
  task_id: string;
  tool_use_id: string;
  status: "completed" | "failed" | "stopped";
  output_file: string;
  summary: string;
  usage?: TaskUsage;
}

/** The session has another title. */
export interface SessionTitleChangedFrame {
  type: "system";
  session_id: string;
  uuid: string;
  subtype: "session_title_changed";
  title: string;
}

/** `/clear` has begun another session. Later frames have its id. */
export interface ConversationResetFrame {
  type: "conversation_reset";
  session_id: string;
  uuid: string;
  new_conversation_id: string;
  trigger: string;
}

/** What happens to a prompt that has a uuid. */
export interface CommandLifecycleFrame {
  type: "command_lifecycle";
  session_id: string;
  uuid: string;
  command_uuid: string;
  state: "cancelled" | "completed" | "queued" | "started";
}

/** Lines that were written to a session file, for hosts that keep sessions themselves (`--session-mirror`). */
export interface TranscriptMirrorFrame {
  type: "transcript_mirror";
  session_id: string;
  uuid: string;
  filePath: string;
  entries: unknown[];
}

/** Ask for consent to a tool call. The answer is `PermissionResult`; everything else refuses the call. */
export interface CanUseToolRequest {
  subtype: "can_use_tool";
  tool_name: string;
  display_name: string;
  input: Record<string, unknown>;
  tool_use_id: string;
  /** Changes of the rules or of the mode that an answer may return in `updatedPermissions`. */
  permission_suggestions?: (AddRules | ReplaceRules | RemoveRules | SetMode | AddDirectories | RemoveDirectories)[];
  /** What the call is about, for people. */
  description?: string;
  /** The path that is not inside. */
  blocked_path?: string;
  /** Why it is asked about, if a hook or a rule wants that. */
  decision_reason?: string;
  decision_reason_type?: "hook" | "mode" | "rule";
  agent_id?: string;
  mcp_server?: McpServerOfTool;
  /** Whether the call is a question to the user, so that no rule can answer it. */
  requires_user_interaction?: boolean;
}

/** A message to an MCP server that lives in the host. The answer is `McpMessageResult`. */
export interface McpMessageRequest {
  subtype: "mcp_message";
  server_name: string;
  /** A message of MCP: a request, or a notification, which any answer confirms. */
  message: Record<string, unknown>;
}

/** The answer to `can_use_tool`. */
export interface PermissionResult {
  behavior: "allow" | "deny";
  /** Run the tool with this input instead. */
  updatedInput?: Record<string, unknown> | null;
  /** Change the rules, the mode or the folders that count as inside, with effect at once. */
  updatedPermissions?: (AddRules | ReplaceRules | RemoveRules | SetMode | AddDirectories | RemoveDirectories)[] | null;
  /** Why the call is refused; the model sees it. */
  message?: string | null;
  /** Whether to stop the turn too. */
  interrupt?: boolean | null;
}

/** The answer to `mcp_message`. */
export interface McpMessageResult {
  /** The server's answer to the message. */
  mcp_response: Record<string, unknown>;
}

/** Where the key of the provider comes from. */
export interface Account {
  apiKeySource: string;
  apiProvider: string;
  tokenSource: string;
}

export interface AddDirectories {
  type: "addDirectories";
  destination?: "cliArg" | "localSettings" | "projectSettings" | "session" | "userSettings";
  directories: string[];
}

export interface AddRules {
  type: "addRules";
  destination?: "cliArg" | "localSettings" | "projectSettings" | "session" | "userSettings";
  rules: RuleValue[];
  behavior: "allow" | "ask" | "deny";
}

/** A kind of sub-agent. */
export interface AgentInfo {
  name: string;
  description: string;
  model?: string;
}

export interface AppliedSettings {
  model: string;
  effort: string | null;
}

export interface CompactMetadata {
  trigger: "auto" | "manual";
  pre_tokens: number;
  post_tokens?: number;
}

export interface ContextCategory {
  id: string;
  name: string;
  tokens: number;
  color: string;
  kind: string;
}

/** Something that takes a part of the context: a tool, a file with instructions or a kind of sub-agent. */
export interface ContextPart {
  name: string;
  tokens: number;
}

/** An answer to a control request. */
export interface ControlResponseBody {
  subtype: "error" | "success";
  request_id: string;
  /** The result; absent if there is none. */
  response?: unknown;
  /** What went wrong, for people to read. */
  error?: string;
  /** A short name, for errors that programs need to tell apart. */
  error_code?: string;
  /** The questions that wait for an answer, beside the result of `initialize`. */
  pending_permission_requests?: unknown[];
}

/** Callbacks of the host for an event. */
export interface HookMatcher {
  /** What they are about: names separated by `|`, or a regular expression. Absent, empty or `*`: everything. */
  matcher?: string | null;
  hookCallbackIds: string[];
  /** Seconds that each callback has; 60 if absent. */
  timeout?: number | null;
  /** `block`: a callback that fails refuses what it was asked about. */
  onFailure?: string | null;
}

export interface McpServerName {
  name: string;
  status: string;
  source: string;
}

export interface McpServerOfTool {
  name: string;
  source: string;
}

/** An MCP server. `status` is connected, failed, needs-auth, pending or disabled. */
export interface McpServerStatus {
  name: string;
  status: string;
  /** The name and the version that the server gives itself. */
  serverInfo?: Record<string, string>;
  /** Why it is not connected. */
  error?: string;
  /** How it was configured, without secrets. */
  config?: Record<string, unknown>;
  /** stdio, http, sse, or sdk if it lives in the host. */
  transport?: string;
  /** Where it was configured: dynamic for the command line and the host, project or user for files. */
  scope?: string;
  source?: string;
  /** The names of its tools and what they say about themselves. */
  tools?: (Record<string, unknown>)[];
}

/** A model to choose. `value` is what `set_model` and `--model` take. */
export interface ModelInfo {
  value: string;
  displayName: string;
  description: string;
  resolvedModel?: string;
  supportsEffort?: boolean;
  supportedEffortLevels?: string[];
}

/** One block of an answer. All blocks of an answer have the same `id`; hosts put them together. */
export interface ModelMessage {
  id: string;
  type: "message";
  role: "assistant";
  model: string;
  /** One block of the Messages API: `text`, `thinking` or `tool_use`. */
  content: (Record<string, unknown>)[];
  /** Always null: the frame is sent when the block ends. */
  stop_reason: null;
  stop_sequence: string | null;
  usage: Record<string, unknown>;
}

/** The tokens of one model in the session, and their cost in US dollars. */
export interface ModelUsage {
  inputTokens: number;
  outputTokens: number;
  cacheReadInputTokens: number;
  cacheCreationInputTokens: number;
  webSearchRequests: number;
  costUSD: number;
  contextWindow: number;
  maxOutputTokens: number;
}

export interface PermissionRule {
  behavior: "allow" | "ask" | "deny";
  /** Where it comes from: cliArg, session, or the settings. */
  source: string;
  rule: string;
  editability: "persistent" | "readonly" | "session";
}

export interface PermissionRulesState {
  rules: PermissionRule[];
  workspaceDirectories: (Record<string, string>)[];
  originalCwd: string;
  managedOnly: boolean;
}

/** The message of a prompt. */
export interface PromptMessage {
  role: "user";
  /** A text, or blocks of the Messages API: `text`, and `image` with a base64 source. */
  content: string | (Record<string, unknown>)[];
}

export interface RemoveDirectories {
  type: "removeDirectories";
  destination?: "cliArg" | "localSettings" | "projectSettings" | "session" | "userSettings";
  directories: string[];
}

export interface RemoveRules {
  type: "removeRules";
  destination?: "cliArg" | "localSettings" | "projectSettings" | "session" | "userSettings";
  rules: RuleValue[];
  behavior: "allow" | "ask" | "deny";
}

/** Replaces all rules of the destination with that behavior. */
export interface ReplaceRules {
  type: "replaceRules";
  destination?: "cliArg" | "localSettings" | "projectSettings" | "session" | "userSettings";
  rules: RuleValue[];
  behavior: "allow" | "ask" | "deny";
}

/** A rule: `Bash(git *)` is the tool `Bash` with the content `git *`. */
export interface RuleValue {
  toolName: string;
  ruleContent?: string | null;
}

export interface SetMode {
  type: "setMode";
  destination?: "cliArg" | "localSettings" | "projectSettings" | "session" | "userSettings";
  mode: string;
}

/** A prompt that begins with a slash and this name. */
export interface SlashCommand {
  name: string;
  description: string;
  argumentHint: string;
  aliases?: string[];
}

export interface SpentInSession {
  total_cost_usd: number;
  total_api_duration_ms: number;
  total_duration_ms: number;
  /** Not counted: always 0. */
  total_lines_added: number;
  total_lines_removed: number;
  /** As in results. */
  model_usage: Record<string, unknown>;
}

export interface TaskUsage {
  total_tokens: number;
  tool_uses: number;
  duration_ms: number;
}

export interface UserContent {
  role: "user";
  content: string | (Record<string, unknown>)[];
}

/** The control requests of a host. */
export interface HostRequests {
  initialize: { request: InitializeRequest; response: Initialized };
  interrupt: { request: InterruptRequest; response: Interrupted };
  set_permission_mode: { request: SetPermissionModeRequest; response: PermissionModeSet };
  set_model: { request: SetModelRequest; response: ModelSet };
  set_max_thinking_tokens: { request: SetMaxThinkingTokensRequest; response: undefined };
  get_settings: { request: GetSettingsRequest; response: SettingsInUse };
  apply_flag_settings: { request: ApplyFlagSettingsRequest; response: undefined };
  mcp_status: { request: McpStatusRequest; response: McpServers };
  mcp_toggle: { request: McpToggleRequest; response: undefined };
  mcp_reconnect: { request: McpReconnectRequest; response: undefined };
  mcp_set_servers: { request: McpSetServersRequest; response: McpServersSet };
  mcp_message: { request: McpServerMessageRequest; response: undefined };
  mcp_call: { request: McpCallRequest; response: McpCallResult };
  mcp_read_resource: { request: McpReadResourceRequest; response: McpResource };
  get_context_usage: { request: GetContextUsageRequest; response: ContextUsage };
  cancel_async_message: { request: CancelAsyncMessageRequest; response: Cancelled };
  stop_task: { request: StopTaskRequest; response: undefined };
  background_tasks: { request: BackgroundTasksRequest; response: undefined };
  rename_session: { request: RenameSessionRequest; response: undefined };
  generate_session_title: { request: GenerateSessionTitleRequest; response: SessionTitle };
  list_permission_rules: { request: ListPermissionRulesRequest; response: PermissionRulesListed };
  get_session_cost: { request: GetSessionCostRequest; response: SessionCost };
  get_usage: { request: GetUsageRequest; response: UsageSoFar };
  read_file: { request: ReadFileRequest; response: FileRead };
  reload_skills: { request: ReloadSkillsRequest; response: SkillsReloaded };
  get_binary_version: { request: GetBinaryVersionRequest; response: BinaryVersion };
  list_models: { request: ListModelsRequest; response: Models };
  end_session: { request: EndSessionRequest; response: undefined };
}
