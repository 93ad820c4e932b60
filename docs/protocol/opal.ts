// The protocol of opal, as fairlead speaks it.
/** Begin a session, or go on with a saved one. */
export interface SessionStartParams {
  /** The model to use; without it, the default of the settings. */
  model?: WantedModel | null;
  /** Instructions for the model, in the place of the usual ones. */
  system_prompt?: string | null;
  /** Where the session works; without it, where the server was started. */
  working_dir?: string | null;
  features?: FeatureChanges | null;
  /** The tools that the model may use, and no others. */
  tools?: string[] | null;
  /** Save the session, so that it can be gone on with. */
  session?: boolean | null;
  /** Go on with the session of this id, or begin it. It is saved. */
  session_id?: string | null;
}

/**
 * Give the agent something to do. Answered when the prompt is accepted; while the agent is busy the prompt is
 * queued and heard between turns.
 */
export interface AgentPromptParams {
  /** The session that is meant. */
  session_id: string;
  text: string;
}

/**
 * Stop the run: its model call, its tools and their processes. `agent_abort` follows, also when nothing was
 * running.
 */
export interface AgentAbortParams {
  /** The session that is meant. */
  session_id: string;
}

/** How the session stands. */
export interface AgentStateParams {
  /** The session that is meant. */
  session_id: string;
}

/** The saved sessions, those that changed last first. */
export type SessionListParams = Record<string, never>;

/** Go on from an earlier message of the conversation. What came after it stays in the file. */
export interface SessionBranchParams {
  /** The session that is meant. */
  session_id: string;
  /** The id of that message in `session/history`. */
  entry_id: string;
}

/** Replace the older part of the conversation by a summary. Answered when it is done and saved. */
export interface SessionCompactParams {
  /** The session that is meant. */
  session_id: string;
  /** How many of the latest messages stay as they are; 10 if not given. */
  keep_recent?: number | null;
}

/** The conversation, from its first message to where it stands. */
export interface SessionHistoryParams {
  /** The session that is meant. */
  session_id: string;
}

/** Delete a saved session. */
export interface SessionDeleteParams {
  /** The session that is meant. */
  session_id: string;
}

/** The models that can be chosen. */
export type ModelsListParams = Record<string, never>;

/** Use another model from the next turn on. */
export interface ModelSetParams {
  /** The session that is meant. */
  session_id: string;
  /** The id alone, or `provider/id`. */
  model_id: string;
  /** As in `thinking/set`; without it, what suits the model. */
  thinking_level?: string | null;
}

/** How much the model thinks. */
export interface ThinkingSetParams {
  /** The session that is meant. */
  session_id: string;
  /** `off`, `low`, `medium`, `high` or `max`. */
  level: string;
}

/** Whether there are credentials, after a look at every place that may have some. */
export type AuthStatusParams = Record<string, never>;

/** Begin a login with a code that the user enters on a page of the provider's. */
export type AuthLoginParams = Record<string, never>;

/** Wait until the user has entered the code of `auth/login`, and keep the credentials that come of it. */
export interface AuthPollParams {
  device_code: string;
  /** As `auth/login` gave it. */
  interval: number;
}

/** Keep the key of a provider. */
export interface AuthSetKeyParams {
  provider: string;
  api_key: string;
}

/** What there is to do: the tasks that are not done. */
export interface TasksListParams {
  /** The session that is meant. */
  session_id: string;
}

/** The user's settings. */
export type SettingsGetParams = Record<string, never>;

/** Change settings of the user's. Keys that are not given stay as they are; the answer has all. */
export interface SettingsSaveParams {
  settings: Record<string, unknown>;
}

/** What a session may do, and with which tools. */
export interface ConfigGetParams {
  /** The session that is meant. */
  session_id: string;
}

/** Change what a session may do. What is not given stays as it is. */
export interface ConfigSetParams {
  /** The session that is meant. */
  session_id: string;
  features?: FeatureChanges | null;
  /** The tools that the model may use, and no others. */
  tools?: string[] | null;
  /** Null stops the Erlang node, of which there is none; one cannot be started. */
  distribution?: WantedDistribution | null;
}

/** Answered at once, whatever else is going on. */
export type PingParams = Record<string, never>;

/** The versions of the server and of the protocol. */
export type VersionParams = Record<string, never>;

export interface ConfirmResult {
  /** One of the actions. */
  action: string;
}

export interface InputResult {
  text: string;
}

export interface AskUserResult {
  answer: string;
}

export interface SessionStartResult {
  session_id: string;
  /** The folder for files of this session's own. */
  session_dir: string;
  /** The paths of the files with instructions that the model is told of. */
  context_files: string[];
  /** The names of the skills that were found. */
  available_skills: string[];
  /** The name of the server, for people. */
  node_name: string;
  auth: Auth;
}

export interface AgentPromptResult {
  /** Whether the agent was busy, so that the prompt waits. */
  queued: boolean;
}

/** An empty object: the request was carried out. */
export type AgentAbortResult = Record<string, never>;

export interface AgentStateResult {
  session_id: string;
  /** `idle`, `running`, `streaming` or `executing_tools`. */
  status: string;
  model: ModelInUse;
  /** Messages of the conversation, without the system prompt. */
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
  /** What the user enters. */
  user_code: string;
  /** Where. */
  verification_uri: string;
  /** What to give to `auth/poll`. */
  device_code: string;
  /** Seconds between two looks at whether it was entered. */
  interval: number;
}

export interface AuthPollResult {
  /** Always true: everything else is an error. */
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
  /** Always null here: there is no Erlang node. */
  distribution: Distribution | null;
}

export interface ConfigSetResult {
  features: Features;
  tools: ToolNames;
  /** Always null here: there is no Erlang node. */
  distribution: Distribution | null;
}

/** An empty object: the request was carried out. */
export type PingResult = Record<string, never>;

export interface VersionResult {
  server_version: string;
  protocol_version: string;
}

/** Ask the user whether something may be done. */
export interface ConfirmParams {
  session_id: string;
  /** A few words about what is asked. */
  title: string;
  /** All that the user needs to know in order to decide. */
  message: string;
  /** What the user may answer: `allow`, `deny`, `allow_session`. */
  actions: string[];
}

/** Ask the user for a text. */
export interface InputParams {
  session_id: string;
  prompt: string;
  /** Whether the text is a secret, not to be shown while it is entered. */
  sensitive?: boolean;
}

/** Ask the user a question of the model's. */
export interface AskUserParams {
  session_id: string;
  question: string;
  /** Answers to choose from; the user may give another one. */
  choices?: string[];
}

/** A run begins. */
export interface AgentStartEvent {
  type: "agent_start";
  /** The session that it happened in. */
  session_id: string;
}

/** A run is over; the session is idle. */
export interface AgentEndEvent {
  type: "agent_end";
  /** The session that it happened in. */
  session_id: string;
  usage?: TokenUsage;
}

/** A run was stopped; the session is idle. */
export interface AgentAbortEvent {
  type: "agent_abort";
  /** The session that it happened in. */
  session_id: string;
}

/** A run ended because of a fault of the server's. The conversation is as it was, and the session is idle. */
export interface AgentRecoveredEvent {
  type: "agent_recovered";
  /** The session that it happened in. */
  session_id: string;
}

/** A run failed; the session is idle. */
export interface ErrorEvent {
  type: "error";
  /** The session that it happened in. */
  session_id: string;
  reason: string;
}

/** A prompt waits, since the agent is busy. */
export interface MessageQueuedEvent {
  type: "message_queued";
  /** The session that it happened in. */
  session_id: string;
  text: string;
}

/** A prompt is part of the conversation now. Every prompt gets one, also one that did not wait. */
export interface MessageAppliedEvent {
  type: "message_applied";
  /** The session that it happened in. */
  session_id: string;
  text: string;
}

/** The model begins to answer. */
export interface MessageStartEvent {
  type: "message_start";
  /** The session that it happened in. */
  session_id: string;
}

/** More of the answer. */
export interface MessageDeltaEvent {
  type: "message_delta";
  /** The session that it happened in. */
  session_id: string;
  delta: string;
}

/** The model begins to think. */
export interface ThinkingStartEvent {
  type: "thinking_start";
  /** The session that it happened in. */
  session_id: string;
}

/** More of what it thinks. */
export interface ThinkingDeltaEvent {
  type: "thinking_delta";
  /** The session that it happened in. */
  session_id: string;
  delta: string;
}

/** An answer is complete, and the run goes on: with the tools that it asks for, or with prompts that waited. */
export interface TurnEndEvent {
  type: "turn_end";
  /** The session that it happened in. */
  session_id: string;
  /** The text of the answer; empty if it had none. */
  message: string;
}

/** The tokens so far, after each answer of the model's. */
export interface UsageUpdateEvent {
  type: "usage_update";
  /** The session that it happened in. */
  session_id: string;
  usage: TokenUsage;
}

/** What the agent is doing, in a few words. */
export interface StatusUpdateEvent {
  type: "status_update";
  /** The session that it happened in. */
  session_id: string;
  message: string;
}

/** A tool call begins. */
export interface ToolExecutionStartEvent {
  type: "tool_execution_start";
  /** The session that it happened in. */
  session_id: string;
  tool: string;
  call_id: string;
  args: Record<string, unknown>;
  /** The call in a few words, for people. */
  meta: string;
}

/** More of the output of a tool that is running. */
export interface ToolOutputEvent {
  type: "tool_output";
  /** The session that it happened in. */
  session_id: string;
  tool: string;
  call_id: string;
  chunk: string;
}

/** A tool call has its result. */
export interface ToolExecutionEndEvent {
  type: "tool_execution_end";
  /** The session that it happened in. */
  session_id: string;
  tool: string;
  call_id: string;
  result: ToolOutcome;
}

/** There are files with instructions, which the model is told of. */
export interface ContextDiscoveredEvent {
  type: "context_discovered";
  /** The session that it happened in. */
  session_id: string;
  /** Their paths. */
  files: string[];
}

/** The model has read a skill. */
export interface SkillLoadedEvent {
  type: "skill_loaded";
  /** The session that it happened in. */
  session_id: string;
  name: string;
  description: string;
}

/** Something happened in the run of a sub-agent. `sub_agent_start` is the first such event, `agent_end` the last. */
export interface SubAgentEvent {
  type: "sub_agent_event";
  /** The session that it happened in. */
  session_id: string;
  /** The call of the tool `sub_agent` that started it. */
  parent_call_id: string;
  sub_session_id: string;
  /** The event, as made by `inner`. */
  inner: InnerEvent;
}

/** A run begins. */
export interface InnerAgentStartEvent {
  type: "agent_start";
}

/** A run is over; the session is idle. */
export interface InnerAgentEndEvent {
  type: "agent_end";
  usage?: TokenUsage;
}

/** A run was stopped; the session is idle. */
export interface InnerAgentAbortEvent {
  type: "agent_abort";
}

/** A run ended because of a fault of the server's. The conversation is as it was, and the session is idle. */
export interface InnerAgentRecoveredEvent {
  type: "agent_recovered";
}

/** A run failed; the session is idle. */
export interface InnerErrorEvent {
  type: "error";
  reason: string;
}

/** A prompt waits, since the agent is busy. */
export interface InnerMessageQueuedEvent {
  type: "message_queued";
  text: string;
}

/** A prompt is part of the conversation now. Every prompt gets one, also one that did not wait. */
export interface InnerMessageAppliedEvent {
  type: "message_applied";
  text: string;
}

/** The model begins to answer. */
export interface InnerMessageStartEvent {
  type: "message_start";
}

/** More of the answer. */
export interface InnerMessageDeltaEvent {
  type: "message_delta";
  delta: string;
}

/** The model begins to think. */
export interface InnerThinkingStartEvent {
  type: "thinking_start";
}

/** More of what it thinks. */
export interface InnerThinkingDeltaEvent {
  type: "thinking_delta";
  delta: string;
}

/** An answer is complete, and the run goes on: with the tools that it asks for, or with prompts that waited. */
export interface InnerTurnEndEvent {
  type: "turn_end";
  /** The text of the answer; empty if it had none. */
  message: string;
}

/** The tokens so far, after each answer of the model's. */
export interface InnerUsageUpdateEvent {
  type: "usage_update";
  usage: TokenUsage;
}

/** What the agent is doing, in a few words. */
export interface InnerStatusUpdateEvent {
  type: "status_update";
  message: string;
}

/** A tool call begins. */
export interface InnerToolExecutionStartEvent {
  type: "tool_execution_start";
  tool: string;
  call_id: string;
  args: Record<string, unknown>;
  /** The call in a few words, for people. */
  meta: string;
}

/** More of the output of a tool that is running. */
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

/** There are files with instructions, which the model is told of. */
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

/** Something happened in the run of a sub-agent. `sub_agent_start` is the first such event, `agent_end` the last. */
export interface InnerSubAgentEvent {
  type: "sub_agent_event";
  /** The call of the tool `sub_agent` that started it. */
  parent_call_id: string;
  sub_session_id: string;
  /** The event, as made by `inner`. */
  inner: InnerEvent;
}

/** A sub-agent begins. It is told of inside `sub_agent_event` only. */
export interface SubAgentStart {
  type: "sub_agent_start";
  model: string;
  /** What it is to do, in a few words. */
  label: string;
  tools: string[];
}

export type Event = AgentStartEvent | AgentEndEvent | AgentAbortEvent | AgentRecoveredEvent | ErrorEvent | MessageQueuedEvent | MessageAppliedEvent | MessageStartEvent | MessageDeltaEvent | ThinkingStartEvent | ThinkingDeltaEvent | TurnEndEvent | UsageUpdateEvent | StatusUpdateEvent | ToolExecutionStartEvent | ToolOutputEvent | ToolExecutionEndEvent | ContextDiscoveredEvent | SkillLoadedEvent | SubAgentEvent;

export type InnerEvent = InnerAgentStartEvent | InnerAgentEndEvent | InnerAgentAbortEvent | InnerAgentRecoveredEvent | InnerErrorEvent | InnerMessageQueuedEvent | InnerMessageAppliedEvent | InnerMessageStartEvent | InnerMessageDeltaEvent | InnerThinkingStartEvent | InnerThinkingDeltaEvent | InnerTurnEndEvent | InnerUsageUpdateEvent | InnerStatusUpdateEvent | InnerToolExecutionStartEvent | InnerToolOutputEvent | InnerToolExecutionEndEvent | InnerContextDiscoveredEvent | InnerSkillLoadedEvent | InnerSubAgentEvent | SubAgentStart;

/** Whether there are credentials for a model. */
export interface Auth {
  status: "ready" | "setup_required";
  /** The provider that is used, or would be; empty if there is none. */
  provider: string;
  /** Every place that was looked at. */
  providers?: AuthProvider[];
}

/** A provider, and how one comes to have credentials for it. */
export interface AuthProvider {
  id: string;
  name: string;
  method: "api_key" | "device_code";
  /** Whether there are credentials for it. */
  ready: boolean;
  /** The environment variable that may hold its key. */
  env_var?: string;
}

/** What a tool changed in a file. */
export interface Diff {
  path: string;
  lines_added: number;
  lines_removed: number;
  hunks: DiffHunk[];
  /** Whether the hunks have only the beginning of a long change. The counts are exact all the same. */
  truncated?: boolean;
}

/** Changes that are near each other, with three lines around them. */
export interface DiffHunk {
  old_start: number;
  new_start: number;
  lines: DiffLine[];
}

/** A line that stays (`eq`), goes (`del`) or comes (`ins`). */
export interface DiffLine {
  op: "del" | "eq" | "ins";
  text: string;
  /** Its number before and after the change, where it has one. */
  old_no?: number;
  new_no?: number;
}

/** The Erlang node of a server that is one. */
export interface Distribution {
  node: string;
  cookie: string;
}

/** Features to turn on or off; the others stay as they are. */
export interface FeatureChanges {
  sub_agents?: boolean | null;
  skills?: boolean | null;
  debug?: boolean | null;
}

/** What a session may do beside talking and using its tools. */
export interface Features {
  sub_agents: boolean;
  skills: boolean;
  /** Whether the model may look into the state of the session. */
  debug: boolean;
}

/** A message of the conversation. */
export interface HistoryMessage {
  /** What `session/branch` calls it by. */
  id: string;
  role: "assistant" | "system" | "tool_call" | "tool_result" | "user";
  content: string;
  is_error: boolean;
  /** What the model thought before it answered. */
  thinking?: string;
  tool_calls?: HistoryToolCall[];
  /** Of a `tool_result`: the call that it answers, and the tool. */
  call_id?: string;
  name?: string;
  metadata?: Record<string, unknown>;
}

/** A tool that the model asked for. */
export interface HistoryToolCall {
  call_id: string;
  name: string;
  arguments: Record<string, unknown>;
}

/** A model that can be chosen. */
export interface ListedModel {
  id: string;
  /** What people call it. */
  name: string;
  provider: string;
  supports_thinking: boolean;
  /** Empty for a model that does not think. */
  thinking_levels: string[];
}

/** A session that was saved. */
export interface ListedSession {
  id: string;
  /** Null until it has one. */
  title: string | null;
  /** When it last changed: UTC, as in `2026-11-15T06:27:18`. */
  modified: string;
}

/** Something to do. Every value is a text; what is not known is empty. */
export interface ListedTask {
  id: string;
  label: string;
  /** `open`, `in_progress` or `blocked`. */
  status: string;
  prompt: string;
  result: string;
  notes: string;
  /** The ids of the tasks that have to be done before, with commas between them. */
  blocked_by: string;
  parent_id: string;
  created_at: string;
  updated_at: string;
}

/** The model that answers. */
export interface ModelInUse {
  provider: string;
  id: string;
  thinking_level: string;
}

/** What a client may show of a result. The model is not told of it. */
export interface ResultMeta {
  diff?: Diff;
}

/** Tokens so far. The first three grow for as long as the session is in this process. */
export interface TokenUsage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  context_window: number;
  /** The prompt of the latest request to the model. */
  current_context_tokens: number;
}

/** Which tools there are, and which of them the model may use. */
export interface ToolNames {
  all: string[];
  enabled: string[];
  disabled: string[];
}

/** What came of a tool call: with `ok`, its `output`; else the `error`. */
export interface ToolOutcome {
  ok: boolean;
  /** A text; the tool `tasks` gives an object. */
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
  /** Whose model it is. Clients of Opal send it; without it, the id decides. */
  provider?: string | null;
  /** `off`, `low`, `medium`, `high` or `max`; fitted to what the model can. */
  thinking_level?: string | null;
}

/** The requests of a client. */
export interface Methods {
  "session/start": { params: SessionStartParams; result: SessionStartResult };
  "agent/prompt": { params: AgentPromptParams; result: AgentPromptResult };
  "agent/abort": { params: AgentAbortParams; result: AgentAbortResult };
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
