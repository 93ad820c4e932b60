// `make generate` writes this file from the declarations in src/fairlead/protocol. Do not edit.
// The protocol of Opal.
/** Begin a session, or resume a saved one. */
export interface SessionStartParams {
  /** The model to use; the default of the settings if left out. */
  model?: WantedModel | null;
  /** Instructions for the model that replace the usual ones. */
  system_prompt?: string | null;
  /** The working directory; that of the server if left out. */
  working_dir?: string | null;
  features?: FeatureChanges | null;
  /** The only tools that the model may use. */
  tools?: string[] | null;
  /** Save the session so it can be resumed. */
  session?: boolean | null;
  /** Resume the session with this id, or begin it. It is saved. */
  session_id?: string | null;
}

/**
 * Start a run with a prompt. The response comes when the prompt is accepted. If the agent is busy, the prompt is
 * queued and delivered between turns.
 */
export interface AgentPromptParams {
  /** The session. */
  session_id: string;
  text: string;
}

/**
 * Stop the run: its model call, its tools and their processes. `agent_abort` follows, even if nothing was
 * running.
 */
export interface AgentAbortParams {
  /** The session. */
  session_id: string;
}

/**
 * Continue the last run if it was interrupted, without another prompt. Refused if it has ended. An addition of
 * fairlead.
 */
export interface AgentResumeParams {
  /** The session. */
  session_id: string;
}

/** The state of a session. */
export interface AgentStateParams {
  /** The session. */
  session_id: string;
}

/** The saved sessions, last changed first. */
export type SessionListParams = Record<string, never>;

/** Continue from an earlier message of the conversation. Later messages stay in the file. */
export interface SessionBranchParams {
  /** The session. */
  session_id: string;
  /** The id of that message in `session/history`. */
  entry_id: string;
}

/** Replace the older part of the conversation with a summary. The response comes when the summary is saved. */
export interface SessionCompactParams {
  /** The session. */
  session_id: string;
  /** How many of the latest messages to keep; 10 if left out. */
  keep_recent?: number | null;
}

/** The conversation, from its first message to the current one. */
export interface SessionHistoryParams {
  /** The session. */
  session_id: string;
}

/** Delete a saved session. */
export interface SessionDeleteParams {
  /** The session. */
  session_id: string;
}

/** The models that can be chosen. */
export type ModelsListParams = Record<string, never>;

/** Use another model from the next turn on. */
export interface ModelSetParams {
  /** The session. */
  session_id: string;
  /** The id alone, or `provider/id`. */
  model_id: string;
  /** As in `thinking/set`; the present level, as far as the model has it, if left out. */
  thinking_level?: string | null;
}

/** Set how much the model thinks. */
export interface ThinkingSetParams {
  /** The session. */
  session_id: string;
  /** `off`, `low`, `medium`, `high` or `max`. */
  level: string;
}

/** Whether there are credentials, and for which providers. */
export type AuthStatusParams = Record<string, never>;

/** Begin a login with a code that the user enters on the provider's page. */
export type AuthLoginParams = Record<string, never>;

/** Wait until the user has entered the code of `auth/login`, and save the new credentials. */
export interface AuthPollParams {
  device_code: string;
  /** As returned by `auth/login`. */
  interval: number;
}

/** Save the key of a provider. */
export interface AuthSetKeyParams {
  provider: string;
  api_key: string;
}

/** The tasks that are not done. */
export interface TasksListParams {
  /** The session. */
  session_id: string;
}

/** The user's settings. */
export type SettingsGetParams = Record<string, never>;

/** Change the user's settings. Other keys stay unchanged. The result has all settings. */
export interface SettingsSaveParams {
  settings: Record<string, unknown>;
}

/** The features and the tools of a session. */
export interface ConfigGetParams {
  /** The session. */
  session_id: string;
}

/** Change the features and the tools of a session. What is left out stays unchanged. */
export interface ConfigSetParams {
  /** The session. */
  session_id: string;
  features?: FeatureChanges | null;
  /** The only tools that the model may use. */
  tools?: string[] | null;
  /** Only null is allowed: fairlead cannot start an Erlang node. */
  distribution?: WantedDistribution | null;
}

/** Check the connection. The response comes at once, whatever else is running. */
export type PingParams = Record<string, never>;

/** The versions of the server and of the protocol. */
export type VersionParams = Record<string, never>;

export interface ConfirmResult {
  /** One of the actions. */
  action: string;
  /** With `deny`, if a tool call needs approval: why. The model sees it. */
  reason?: string;
}

export interface InputResult {
  text: string;
}

export interface AskUserResult {
  answer: string;
}

export interface SessionStartResult {
  session_id: string;
  /** The folder for this session's own files. */
  session_dir: string;
  /** The paths of the context files whose instructions the model gets. */
  context_files: string[];
  /** The names of the available skills. */
  available_skills: string[];
  /** The Erlang node of the server, for debugging. There is none, which Erlang calls `nonode@nohost`. */
  node_name: string;
  auth: Auth;
}

export interface AgentPromptResult {
  /** Whether the prompt was queued because the agent is busy. */
  queued: boolean;
}

/** An empty object: the request was carried out. */
export type AgentAbortResult = Record<string, never>;

/** An empty object: the request was carried out. */
export type AgentResumeResult = Record<string, never>;

export interface AgentStateResult {
  session_id: string;
  /** `idle`, `running`, `streaming` or `executing_tools`. */
  status: string;
  model: ModelInUse;
  /** The number of messages in the conversation, without the system prompt. */
  message_count: number;
  /** The names of the tools that the model may use. */
  tools: string[];
  token_usage?: TokenUsage;
}

export interface SessionListResult {
  sessions: ListedSession[];
}

/** An empty object: the request was carried out. */
export type SessionBranchResult = Record<string, never>;

/** An empty object: the request was carried out. */
export type SessionCompactResult = Record<string, never>;

export interface SessionHistoryResult {
  messages: HistoryMessage[];
}

export interface SessionDeleteResult {
  ok: boolean;
}

export interface ModelsListResult {
  models: ListedModel[];
}

export interface ModelSetResult {
  model: ModelInUse;
}

export interface ThinkingSetResult {
  thinking_level: string;
}

export interface AuthStatusResult {
  authenticated: boolean;
  auth: Auth;
}

export interface AuthLoginResult {
  /** The code that the user enters. */
  user_code: string;
  /** The page on which the user enters it. */
  verification_uri: string;
  /** The parameter for `auth/poll`. */
  device_code: string;
  /** Seconds between two checks of whether the user has entered it. */
  interval: number;
}

export interface AuthPollResult {
  /** Always true: every failure is an error. */
  authenticated: boolean;
}

export interface AuthSetKeyResult {
  ok: boolean;
}

export interface TasksListResult {
  tasks: ListedTask[];
}

export interface SettingsGetResult {
  /** All settings, by key. */
  settings: Record<string, unknown>;
}

export interface SettingsSaveResult {
  /** All settings, by key. */
  settings: Record<string, unknown>;
}

export interface ConfigGetResult {
  features: Features;
  tools: ToolNames;
  /** Always null: there is no Erlang node. */
  distribution: Distribution | null;
}

export interface ConfigSetResult {
  features: Features;
  tools: ToolNames;
  /** Always null: there is no Erlang node. */
  distribution: Distribution | null;
}

/** An empty object: the request was carried out. */
export type PingResult = Record<string, never>;

export interface VersionResult {
  server_version: string;
  protocol_version: string;
}

/** Ask the user for approval. */
export interface ConfirmParams {
  session_id: string;
  /** The question, in a few words. */
  title: string;
  /** What the user needs to know to decide. */
  message: string;
  /**
   * What the user may answer: `allow`, `deny`, `allow_session`, and `allow_always` if that can write the rule in
   * the message.
   */
  actions: string[];
  /** If a tool call needs approval: the tool, its call and its arguments. Absent otherwise. */
  tool?: string;
  call_id?: string;
  args?: Record<string, unknown>;
  /** What the call would change, as a unified diff; absent if it changes no file or the change is not known. */
  diff?: string;
}

/** Ask the user for a text. */
export interface InputParams {
  session_id: string;
  prompt: string;
  /** Whether the text is a secret that must not be shown while the user types it. */
  sensitive?: boolean;
}

/** Ask the user a question from the model. */
export interface AskUserParams {
  session_id: string;
  question: string;
  /** Answers to choose from; the user may give another one. */
  choices?: string[];
}

/** A run has started. */
export interface AgentStartEvent {
  type: "agent_start";
  /** The session that the event belongs to. */
  session_id: string;
}

/** A run has ended, and the session is idle. */
export interface AgentEndEvent {
  type: "agent_end";
  /** The session that the event belongs to. */
  session_id: string;
  usage?: TokenUsage;
}

/** A run was stopped, and the session is idle. */
export interface AgentAbortEvent {
  type: "agent_abort";
  /** The session that the event belongs to. */
  session_id: string;
}

/**
 * The session has recovered, after a fault in the server or from its file. The conversation is intact, and it is
 * idle.
 */
export interface AgentRecoveredEvent {
  type: "agent_recovered";
  /** The session that the event belongs to. */
  session_id: string;
}

/** A run has failed, and the session is idle. */
export interface ErrorEvent {
  type: "error";
  /** The session that the event belongs to. */
  session_id: string;
  reason: string;
}

/** A prompt was queued, because the agent is busy. */
export interface MessageQueuedEvent {
  type: "message_queued";
  /** The session that the event belongs to. */
  session_id: string;
  text: string;
}

/** A prompt is part of the conversation now. Every prompt gets this event, whether it was queued or not. */
export interface MessageAppliedEvent {
  type: "message_applied";
  /** The session that the event belongs to. */
  session_id: string;
  text: string;
}

/** The model starts to answer. */
export interface MessageStartEvent {
  type: "message_start";
  /** The session that the event belongs to. */
  session_id: string;
}

/** More of the answer. */
export interface MessageDeltaEvent {
  type: "message_delta";
  /** The session that the event belongs to. */
  session_id: string;
  delta: string;
}

/** The model starts to think. */
export interface ThinkingStartEvent {
  type: "thinking_start";
  /** The session that the event belongs to. */
  session_id: string;
}

/** More of the thinking. */
export interface ThinkingDeltaEvent {
  type: "thinking_delta";
  /** The session that the event belongs to. */
  session_id: string;
  delta: string;
}

/** An answer is complete, and the run continues: with the tools that the answer calls, or with queued prompts. */
export interface TurnEndEvent {
  type: "turn_end";
  /** The session that the event belongs to. */
  session_id: string;
  /** The text of the answer; empty if it had none. */
  message: string;
}

/** The tokens so far, after each answer. */
export interface UsageUpdateEvent {
  type: "usage_update";
  /** The session that the event belongs to. */
  session_id: string;
  usage: TokenUsage;
}

/** What the agent is doing, in a few words. */
export interface StatusUpdateEvent {
  type: "status_update";
  /** The session that the event belongs to. */
  session_id: string;
  message: string;
}

/** A tool call starts. */
export interface ToolExecutionStartEvent {
  type: "tool_execution_start";
  /** The session that the event belongs to. */
  session_id: string;
  tool: string;
  call_id: string;
  args: Record<string, unknown>;
  /** A short description of the call, for people. */
  meta: string;
}

/** More output of a running tool. */
export interface ToolOutputEvent {
  type: "tool_output";
  /** The session that the event belongs to. */
  session_id: string;
  tool: string;
  call_id: string;
  chunk: string;
}

/** A tool call has its result. */
export interface ToolExecutionEndEvent {
  type: "tool_execution_end";
  /** The session that the event belongs to. */
  session_id: string;
  tool: string;
  call_id: string;
  result: ToolOutcome;
}

/** The context files whose instructions the model gets. */
export interface ContextDiscoveredEvent {
  type: "context_discovered";
  /** The session that the event belongs to. */
  session_id: string;
  /** Their paths. */
  files: string[];
}

/** The model has read a skill. */
export interface SkillLoadedEvent {
  type: "skill_loaded";
  /** The session that the event belongs to. */
  session_id: string;
  name: string;
  description: string;
}

/** An event of a sub-agent's run. The first is `sub_agent_start`, the last is `agent_end`. */
export interface SubAgentEvent {
  type: "sub_agent_event";
  /** The session that the event belongs to. */
  session_id: string;
  /** The `sub_agent` tool call that started it. */
  parent_call_id: string;
  sub_session_id: string;
  /** The event, as made by `inner`. */
  inner: InnerEvent;
}

/** A run has started. */
export interface InnerAgentStartEvent {
  type: "agent_start";
}

/** A run has ended, and the session is idle. */
export interface InnerAgentEndEvent {
  type: "agent_end";
  usage?: TokenUsage;
}

/** A run was stopped, and the session is idle. */
export interface InnerAgentAbortEvent {
  type: "agent_abort";
}

/**
 * The session has recovered, after a fault in the server or from its file. The conversation is intact, and it is
 * idle.
 */
export interface InnerAgentRecoveredEvent {
  type: "agent_recovered";
}

/** A run has failed, and the session is idle. */
export interface InnerErrorEvent {
  type: "error";
  reason: string;
}

/** A prompt was queued, because the agent is busy. */
export interface InnerMessageQueuedEvent {
  type: "message_queued";
  text: string;
}

/** A prompt is part of the conversation now. Every prompt gets this event, whether it was queued or not. */
export interface InnerMessageAppliedEvent {
  type: "message_applied";
  text: string;
}

/** The model starts to answer. */
export interface InnerMessageStartEvent {
  type: "message_start";
}

/** More of the answer. */
export interface InnerMessageDeltaEvent {
  type: "message_delta";
  delta: string;
}

/** The model starts to think. */
export interface InnerThinkingStartEvent {
  type: "thinking_start";
}

/** More of the thinking. */
export interface InnerThinkingDeltaEvent {
  type: "thinking_delta";
  delta: string;
}

/** An answer is complete, and the run continues: with the tools that the answer calls, or with queued prompts. */
export interface InnerTurnEndEvent {
  type: "turn_end";
  /** The text of the answer; empty if it had none. */
  message: string;
}

/** The tokens so far, after each answer. */
export interface InnerUsageUpdateEvent {
  type: "usage_update";
  usage: TokenUsage;
}

/** What the agent is doing, in a few words. */
export interface InnerStatusUpdateEvent {
  type: "status_update";
  message: string;
}

/** A tool call starts. */
export interface InnerToolExecutionStartEvent {
  type: "tool_execution_start";
  tool: string;
  call_id: string;
  args: Record<string, unknown>;
  /** A short description of the call, for people. */
  meta: string;
}

/** More output of a running tool. */
export interface InnerToolOutputEvent {
  type: "tool_output";
  tool: string;
  call_id: string;
  chunk: string;
}

/** A tool call has its result. */
export interface InnerToolExecutionEndEvent {
  type: "tool_execution_end";
  tool: string;
  call_id: string;
  result: ToolOutcome;
}

/** The context files whose instructions the model gets. */
export interface InnerContextDiscoveredEvent {
  type: "context_discovered";
  /** Their paths. */
  files: string[];
}

/** The model has read a skill. */
export interface InnerSkillLoadedEvent {
  type: "skill_loaded";
  name: string;
  description: string;
}

/** An event of a sub-agent's run. The first is `sub_agent_start`, the last is `agent_end`. */
export interface InnerSubAgentEvent {
  type: "sub_agent_event";
  /** The `sub_agent` tool call that started it. */
  parent_call_id: string;
  sub_session_id: string;
  /** The event, as made by `inner`. */
  inner: InnerEvent;
}

/** A sub-agent starts. Sent only inside `sub_agent_event`. */
export interface SubAgentStart {
  type: "sub_agent_start";
  model: string;
  /** Its task, in a few words. */
  label: string;
  tools: string[];
}

export type Event = AgentStartEvent | AgentEndEvent | AgentAbortEvent | AgentRecoveredEvent | ErrorEvent | MessageQueuedEvent | MessageAppliedEvent | MessageStartEvent | MessageDeltaEvent | ThinkingStartEvent | ThinkingDeltaEvent | TurnEndEvent | UsageUpdateEvent | StatusUpdateEvent | ToolExecutionStartEvent | ToolOutputEvent | ToolExecutionEndEvent | ContextDiscoveredEvent | SkillLoadedEvent | SubAgentEvent;

export type InnerEvent = InnerAgentStartEvent | InnerAgentEndEvent | InnerAgentAbortEvent | InnerAgentRecoveredEvent | InnerErrorEvent | InnerMessageQueuedEvent | InnerMessageAppliedEvent | InnerMessageStartEvent | InnerMessageDeltaEvent | InnerThinkingStartEvent | InnerThinkingDeltaEvent | InnerTurnEndEvent | InnerUsageUpdateEvent | InnerStatusUpdateEvent | InnerToolExecutionStartEvent | InnerToolOutputEvent | InnerToolExecutionEndEvent | InnerContextDiscoveredEvent | InnerSkillLoadedEvent | InnerSubAgentEvent | SubAgentStart;

/** Whether there are credentials for a model. */
export interface Auth {
  status: "ready" | "setup_required";
  /** The provider in use, or the default one; empty if there is none. */
  provider: string;
  /** All providers: in `auth/status`, and wherever the status is `setup_required`. */
  providers?: AuthProvider[];
}

/** A provider, and how to get credentials for it. */
export interface AuthProvider {
  id: string;
  /** Its name for people. */
  name: string;
  method: "api_key" | "device_code";
  /** Whether it has credentials. */
  ready: boolean;
  /** The environment variable for its key. */
  env_var?: string;
}

/** What a tool changed in a file. */
export interface Diff {
  path: string;
  lines_added: number;
  lines_removed: number;
  hunks: DiffHunk[];
  /** Whether the hunks have only the beginning of a long change. The counts are still exact. */
  truncated?: boolean;
}

/** Neighbouring changes, with three lines of context. */
export interface DiffHunk {
  old_start: number;
  new_start: number;
  lines: DiffLine[];
}

/** A line that was kept (`eq`), deleted (`del`) or inserted (`ins`). */
export interface DiffLine {
  op: "del" | "eq" | "ins";
  text: string;
  /** Its number before and after the change, if it has one. */
  old_no?: number;
  new_no?: number;
}

/** The Erlang node of a server that runs as one. */
export interface Distribution {
  node: string;
  cookie: string;
}

/** Features to turn on or off. The others stay unchanged. */
export interface FeatureChanges {
  sub_agents?: boolean | null;
  skills?: boolean | null;
  debug?: boolean | null;
}

/** The optional features of a session. */
export interface Features {
  sub_agents: boolean;
  skills: boolean;
  /** Whether the model may inspect the state of the session. */
  debug: boolean;
}

/** A message of the conversation. */
export interface HistoryMessage {
  /** The id for `session/branch`. */
  id: string;
  role: "assistant" | "system" | "tool_call" | "tool_result" | "user";
  content: string;
  is_error: boolean;
  /** The model's thinking before the answer. */
  thinking?: string;
  tool_calls?: HistoryToolCall[];
  /** For a `tool_result`: the id of its call, and the tool. */
  call_id?: string;
  name?: string;
  metadata?: Record<string, unknown>;
}

/** A tool call of the model. */
export interface HistoryToolCall {
  call_id: string;
  name: string;
  arguments: Record<string, unknown>;
}

/** A model that can be chosen. */
export interface ListedModel {
  id: string;
  /** Its name for people. */
  name: string;
  provider: string;
  supports_thinking: boolean;
  /** Empty for a model without thinking. */
  thinking_levels: string[];
}

/** A saved session. */
export interface ListedSession {
  id: string;
  /** Its name, else the beginning of its first message. Null if it has neither. */
  title: string | null;
  /** The time of its last change in UTC, such as `2026-11-15T06:27:18`. */
  modified: string;
}

/** A task. Every value is a string; unknown values are empty. */
export interface ListedTask {
  id: string;
  label: string;
  /** `open`, `in_progress` or `blocked`. */
  status: string;
  prompt: string;
  result: string;
  notes: string;
  /** The ids of the tasks that must be done first, separated by commas. */
  blocked_by: string;
  parent_id: string;
  created_at: string;
  updated_at: string;
}

/** The model in use. */
export interface ModelInUse {
  provider: string;
  id: string;
  thinking_level: string;
}

/** Details of a result for the client. The model does not see them. */
export interface ResultMeta {
  diff?: Diff;
}

/** Tokens so far. The first three count all requests of the session in this process. */
export interface TokenUsage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  context_window: number;
  /** The tokens of the prompt in the latest model request. */
  current_context_tokens: number;
}

/** All tools, and which of them the model may use. */
export interface ToolNames {
  all: string[];
  enabled: string[];
  disabled: string[];
}

/** The result of a tool call: the `output` if `ok` is true, else the `error`. */
export interface ToolOutcome {
  ok: boolean;
  /** A string; an object from the tool `tasks`. */
  output?: string | Record<string, unknown>;
  error?: string;
  meta?: ResultMeta;
}

/** An Erlang node to start. */
export interface WantedDistribution {
  name: string;
  cookie?: string | null;
}

/** A model to use. */
export interface WantedModel {
  /** The id alone, or `provider/id`. */
  id: string;
  /** The provider of the model. If left out, the id decides. */
  provider?: string | null;
  /** `off`, `low`, `medium`, `high` or `max`; the model uses the nearest level it has. */
  thinking_level?: string | null;
}

/** The requests of a client. */
export interface Methods {
  "session/start": { params: SessionStartParams; result: SessionStartResult };
  "agent/prompt": { params: AgentPromptParams; result: AgentPromptResult };
  "agent/abort": { params: AgentAbortParams; result: AgentAbortResult };
  "agent/resume": { params: AgentResumeParams; result: AgentResumeResult };
  "agent/state": { params: AgentStateParams; result: AgentStateResult };
  "session/list": { params: SessionListParams; result: SessionListResult };
  "session/branch": { params: SessionBranchParams; result: SessionBranchResult };
  "session/compact": { params: SessionCompactParams; result: SessionCompactResult };
  "session/history": { params: SessionHistoryParams; result: SessionHistoryResult };
  "session/delete": { params: SessionDeleteParams; result: SessionDeleteResult };
  "models/list": { params: ModelsListParams; result: ModelsListResult };
  "model/set": { params: ModelSetParams; result: ModelSetResult };
  "thinking/set": { params: ThinkingSetParams; result: ThinkingSetResult };
  "auth/status": { params: AuthStatusParams; result: AuthStatusResult };
  "auth/login": { params: AuthLoginParams; result: AuthLoginResult };
  "auth/poll": { params: AuthPollParams; result: AuthPollResult };
  "auth/set_key": { params: AuthSetKeyParams; result: AuthSetKeyResult };
  "tasks/list": { params: TasksListParams; result: TasksListResult };
  "settings/get": { params: SettingsGetParams; result: SettingsGetResult };
  "settings/save": { params: SettingsSaveParams; result: SettingsSaveResult };
  "opal/config/get": { params: ConfigGetParams; result: ConfigGetResult };
  "opal/config/set": { params: ConfigSetParams; result: ConfigSetResult };
  "opal/ping": { params: PingParams; result: PingResult };
  "opal/version": { params: VersionParams; result: VersionResult };
}

/** The requests of the server. */
export interface ServerRequests {
  "client/confirm": { params: ConfirmParams; result: ConfirmResult };
  "client/input": { params: InputParams; result: InputResult };
  "client/ask_user": { params: AskUserParams; result: AskUserResult };
}

/** The notification that carries an event. */
export interface Notification {
  jsonrpc: "2.0";
  method: "agent/event";
  params: Event;
}

/** The names of all requests. */
export const Methods = {
  SESSION_START: "session/start",
  AGENT_PROMPT: "agent/prompt",
  AGENT_ABORT: "agent/abort",
  AGENT_RESUME: "agent/resume",
  AGENT_STATE: "agent/state",
  SESSION_LIST: "session/list",
  SESSION_BRANCH: "session/branch",
  SESSION_COMPACT: "session/compact",
  SESSION_HISTORY: "session/history",
  SESSION_DELETE: "session/delete",
  MODELS_LIST: "models/list",
  MODEL_SET: "model/set",
  THINKING_SET: "thinking/set",
  AUTH_STATUS: "auth/status",
  AUTH_LOGIN: "auth/login",
  AUTH_POLL: "auth/poll",
  AUTH_SET_KEY: "auth/set_key",
  TASKS_LIST: "tasks/list",
  SETTINGS_GET: "settings/get",
  SETTINGS_SAVE: "settings/save",
  OPAL_CONFIG_GET: "opal/config/get",
  OPAL_CONFIG_SET: "opal/config/set",
  OPAL_PING: "opal/ping",
  OPAL_VERSION: "opal/version",
  CLIENT_CONFIRM: "client/confirm",
  CLIENT_INPUT: "client/input",
  CLIENT_ASK_USER: "client/ask_user",
} as const;

/** The params and the result of every request, by its name. */
export interface MethodTypes extends Methods, ServerRequests {}

/** An event, under Opal's name. */
export type AgentEvent = Event;
