// `make generate` writes this file from the declarations in src/fairlead/protocol. Do not edit.
// The protocol of the pi family.
export type Command = PromptCommand | SteerCommand | FollowUpCommand | AbortCommand | AbortAndPromptCommand | ClearQueueCommand | GetStateCommand | GetSessionStatsCommand | GetMessagesCommand | GetLastAssistantTextCommand | SetModelCommand | CycleModelCommand | GetAvailableModelsCommand | SetThinkingLevelCommand | CycleThinkingLevelCommand | GetAvailableThinkingLevelsCommand | SetSteeringModeCommand | SetFollowUpModeCommand | SetInterruptModeCommand | BashCommand | AbortBashCommand | SetAutoRetryCommand | AbortRetryCommand | GetToolsCommand | SetActiveToolsCommand | GetCommandsCommand | GetAvailableCommandsCommand | SetUpdatesCommand | ShutdownCommand | NewSessionCommand | SwitchSessionCommand | ForkCommand | BranchCommand | CloneCommand | ListSessionsCommand | DeleteSessionCommand | SetSessionNameCommand | GetForkMessagesCommand | GetBranchMessagesCommand | GetEntriesCommand | GetTreeCommand | NavigateTreeCommand | SetLabelCommand | GetMessagesPageCommand | CompactCommand | SetAutoCompactionCommand | ExportHtmlCommand | ResumeCommand | ReloadCommand | SetSubagentSubscriptionCommand | GetSubagentsCommand | GetSubagentMessagesCommand | SetHostToolsCommand | SetHostUriSchemesCommand | NegotiateProtocolCommand | SetEventFilterCommand | OpenSessionCommand | HandoffCommand | SetTodosCommand | SetFastModeCommand | GetLoginProvidersCommand | LoginCommand | SetLocaleCommand | GetIntegrationsCommand;

export type Answer = HostToolUpdateAnswer | HostToolResultAnswer | HostUriResultAnswer | ExtensionUiResponseAnswer;

export type Response = PromptResponse | SteerResponse | FollowUpResponse | AbortResponse | AbortAndPromptResponse | ClearQueueResponse | GetStateResponse | GetSessionStatsResponse | GetMessagesResponse | GetLastAssistantTextResponse | SetModelResponse | CycleModelResponse | GetAvailableModelsResponse | SetThinkingLevelResponse | CycleThinkingLevelResponse | GetAvailableThinkingLevelsResponse | SetSteeringModeResponse | SetFollowUpModeResponse | SetInterruptModeResponse | BashResponse | AbortBashResponse | SetAutoRetryResponse | AbortRetryResponse | GetToolsResponse | SetActiveToolsResponse | GetCommandsResponse | GetAvailableCommandsResponse | SetUpdatesResponse | ShutdownResponse | NewSessionResponse | SwitchSessionResponse | ForkResponse | BranchResponse | CloneResponse | ListSessionsResponse | DeleteSessionResponse | SetSessionNameResponse | GetForkMessagesResponse | GetBranchMessagesResponse | GetEntriesResponse | GetTreeResponse | NavigateTreeResponse | SetLabelResponse | GetMessagesPageResponse | CompactResponse | SetAutoCompactionResponse | ExportHtmlResponse | ResumeResponse | ReloadResponse | SetSubagentSubscriptionResponse | GetSubagentsResponse | GetSubagentMessagesResponse | SetHostToolsResponse | SetHostUriSchemesResponse | NegotiateProtocolResponse | SetEventFilterResponse | OpenSessionResponse | HandoffResponse | SetTodosResponse | SetFastModeResponse | GetLoginProvidersResponse | LoginResponse | SetLocaleResponse | GetIntegrationsResponse | ErrorResponse;

export type Event = ReadyEvent | RpcChunkEvent | AgentStartEvent | AgentEndEvent | AgentSettledEvent | SessionSettledEvent | PromptResultEvent | TurnStartEvent | TurnEndEvent | MessageStartEvent | MessageUpdateEvent | MessageEndEvent | ToolExecutionStartEvent | ToolExecutionUpdateEvent | ToolExecutionEndEvent | AutoRetryStartEvent | AutoRetryEndEvent | SummarizationRetryScheduledEvent | SummarizationRetryAttemptStartEvent | SummarizationRetryFinishedEvent | CompactionStartEvent | CompactionEndEvent | AutoCompactionStartEvent | AutoCompactionEndEvent | BashExecutionUpdateEvent | HostToolCallEvent | HostToolCancelEvent | HostUriRequestEvent | HostUriCancelEvent | ExtensionUiRequestEvent | TtsrTriggeredEvent | TodoReminderEvent | TodoAutoClearEvent | EntryAppendedEvent | SessionInfoChangedEvent | QueueUpdateEvent | ThinkingLevelChangedEvent | ModelChangedEvent | NoticeEvent | AvailableCommandsUpdateEvent | SubagentLifecycleEvent | SubagentProgressEvent | SubagentEvent | ExtensionErrorEvent;

/**
 * Start a run with a message from the user. In pi, the response arrives when the prompt is accepted. In omp and
 * xcsh it does not wait for extensions, or for the command that prints a key: what fails afterwards is a second
 * response, with the same id and the error. The work is over at `agent_settled`. If a run is in progress,
 * `streamingBehavior` says how to queue the message: `followUp`, or `steer` (which any other text means too).
 */
export interface PromptCommand {
  type: "prompt";
  id?: unknown;
  message: string;
  images?: ImageContent[] | null;
  streamingBehavior?: "steer" | "followUp" | null;
  /** The same as `set_locale` (xcsh). */
  locale?: string | null;
  /** Files that come with the message, as in pi-2025. */
  attachments?: Attachment[] | null;
}

/**
 * Queue a message for the current run. The model gets it after the current turn or, with the interrupt mode
 * `immediate`, after the tool that is running. If no run is in progress, the message waits for the next prompt.
 */
export interface SteerCommand {
  type: "steer";
  id?: unknown;
  message: string;
  images?: ImageContent[] | null;
  /** Files that come with the message, as in pi-2025. */
  attachments?: Attachment[] | null;
}

/** Queue a message that the model gets when the run would otherwise end. */
export interface FollowUpCommand {
  type: "follow_up";
  id?: unknown;
  message: string;
  images?: ImageContent[] | null;
  /** Files that come with the message, as in pi-2025. */
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

/** Stop the current run, if any, then start another one with this message. */
export interface AbortAndPromptCommand {
  type: "abort_and_prompt";
  id?: unknown;
  message: string;
  images?: ImageContent[] | null;
  /** Files that come with the message, as in pi-2025. */
  attachments?: Attachment[] | null;
}

/** Remove all queued messages. The response contains their texts. */
export interface ClearQueueCommand {
  type: "clear_queue";
  id?: unknown;
}

/** Get the state of the session. `verbose` adds the system prompt and the tools as the model sees them. */
export interface GetStateCommand {
  type: "get_state";
  id?: unknown;
  verbose?: boolean | null;
}

/** Get totals of the session: messages, tokens, cost. */
export interface GetSessionStatsCommand {
  type: "get_session_stats";
  id?: unknown;
}

/** Get the messages of the conversation. */
export interface GetMessagesCommand {
  type: "get_messages";
  id?: unknown;
}

/** Get the text of the last answer, or null if there is none. */
export interface GetLastAssistantTextCommand {
  type: "get_last_assistant_text";
  id?: unknown;
}

/**
 * Use another model, starting with the next model call. A thinking level that the model lacks becomes the
 * nearest one.
 */
export interface SetModelCommand {
  type: "set_model";
  id?: unknown;
  /** Also write the value to the user's settings. Otherwise only this session changes. */
  persist?: boolean | null;
  provider: string;
  modelId: string;
}

/**
 * Switch to the next model of `--models` or, without that flag, of all available ones. Null if there is no
 * other.
 */
export interface CycleModelCommand {
  type: "cycle_model";
  id?: unknown;
}

/** List the models for which there are credentials. */
export interface GetAvailableModelsCommand {
  type: "get_available_models";
  id?: unknown;
}

/**
 * Set how much the model thinks. A level that the model lacks becomes the nearest one, which the response names.
 * `auto` is the default level.
 */
export interface SetThinkingLevelCommand {
  type: "set_thinking_level";
  id?: unknown;
  /** Also write the value to the user's settings. Otherwise only this session changes. */
  persist?: boolean | null;
  level: "high" | "low" | "max" | "medium" | "minimal" | "off" | "xhigh" | "auto";
}

/** Switch to the next thinking level. Null for a model without reasoning. */
export interface CycleThinkingLevelCommand {
  type: "cycle_thinking_level";
  id?: unknown;
}

/** List the thinking levels of the current model. */
export interface GetAvailableThinkingLevelsCommand {
  type: "get_available_thinking_levels";
  id?: unknown;
}

/** Set how many steering messages a turn takes from the queue. */
export interface SetSteeringModeCommand {
  type: "set_steering_mode";
  id?: unknown;
  /** Also write the value to the user's settings. Otherwise only this session changes. */
  persist?: boolean | null;
  mode: "all" | "one-at-a-time";
}

/** Set how many follow-up messages a turn takes from the queue. */
export interface SetFollowUpModeCommand {
  type: "set_follow_up_mode";
  id?: unknown;
  /** Also write the value to the user's settings. Otherwise only this session changes. */
  persist?: boolean | null;
  mode: "all" | "one-at-a-time";
}

/** Set whether a steering message waits for all tools of a turn or skips those that have not started. */
export interface SetInterruptModeCommand {
  type: "set_interrupt_mode";
  id?: unknown;
  /** Also write the value to the user's settings. Otherwise only this session changes. */
  persist?: boolean | null;
  mode: "immediate" | "wait";
}

/**
 * Run a shell command for the user, independently of any run. `bash_execution_update` events carry its output
 * while it runs. The model sees the output with the next prompt, unless `excludeFromContext` is set. The
 * response arrives when the command ends.
 */
export interface BashCommand {
  type: "bash";
  id?: unknown;
  command: string;
  excludeFromContext?: boolean | null;
}

/** Stop the `bash` command that was started last. */
export interface AbortBashCommand {
  type: "abort_bash";
  id?: unknown;
}

/** Turn automatic retries of failed model calls on or off. */
export interface SetAutoRetryCommand {
  type: "set_auto_retry";
  id?: unknown;
  /** Also write the value to the user's settings. Otherwise only this session changes. */
  persist?: boolean | null;
  enabled: boolean;
}

/** Cancel the wait for the next retry, if there is one. The run ends with the error. */
export interface AbortRetryCommand {
  type: "abort_retry";
  id?: unknown;
}

/** List all tools, and which of them the model may use. */
export interface GetToolsCommand {
  type: "get_tools";
  id?: unknown;
}

/** Choose the tools that the model may use, starting with the next model call. */
export interface SetActiveToolsCommand {
  type: "set_active_tools";
  id?: unknown;
  tools: string[];
}

/**
 * List the slash commands of extensions, prompt templates and skills. A message that begins with one is expanded
 * to its text, or runs it.
 */
export interface GetCommandsCommand {
  type: "get_commands";
  id?: unknown;
}

/** The name that omp has for `get_commands`. */
export interface GetAvailableCommandsCommand {
  type: "get_available_commands";
  id?: unknown;
}

/** Set the form of `message_update`: `full` repeats the message so far, `delta` has only the new part. */
export interface SetUpdatesCommand {
  type: "set_updates";
  id?: unknown;
  updates: "delta" | "full";
}

/** Stop the run, respond, and exit with code 0. */
export interface ShutdownCommand {
  type: "shutdown";
  id?: unknown;
}

/** Start a new session. `parentSession` is recorded as the file of the session that it came from. */
export interface NewSessionCommand {
  type: "new_session";
  id?: unknown;
  parentSession?: string | null;
}

/** Resume the session in a file. If the file contains none, save a new session there. */
export interface SwitchSessionCommand {
  type: "switch_session";
  id?: unknown;
  sessionPath: string;
}

/** Start a new session with everything before a user message, and return the text of that message. */
export interface ForkCommand {
  type: "fork";
  id?: unknown;
  entryId: string;
}

/** The name that omp and xcsh have for `fork`. */
export interface BranchCommand {
  type: "branch";
  id?: unknown;
  entryId: string;
}

/** Start a new session with a copy of the whole conversation. */
export interface CloneCommand {
  type: "clone";
  id?: unknown;
}

/** List the sessions of this working directory or, with `all`, of every directory. The latest change comes first. */
export interface ListSessionsCommand {
  type: "list_sessions";
  id?: unknown;
  all?: boolean | null;
}

/** Delete the file of a session and the conversations of its sub-agents. A session in use is not deleted. */
export interface DeleteSessionCommand {
  type: "delete_session";
  id?: unknown;
  sessionPath: string;
}

/** Name the session. Surrounding spaces are removed. */
export interface SetSessionNameCommand {
  type: "set_session_name";
  id?: unknown;
  name: string;
}

/** List the user messages of the current branch, which `fork` accepts. */
export interface GetForkMessagesCommand {
  type: "get_fork_messages";
  id?: unknown;
}

/** The name that omp and xcsh have for `get_fork_messages`. */
export interface GetBranchMessagesCommand {
  type: "get_branch_messages";
  id?: unknown;
}

/**
 * List the entries of all branches in the order in which they were added, or those added after the entry
 * `since`.
 */
export interface GetEntriesCommand {
  type: "get_entries";
  id?: unknown;
  since?: string | null;
}

/** Get all entries as a tree, and the entry at which the conversation continues (`leafId`). */
export interface GetTreeCommand {
  type: "get_tree";
  id?: unknown;
}

/**
 * Continue from another entry of the same session; null is its beginning. If the entry is a message of the user
 * or of an extension, the conversation continues before it, and the response contains its text. With
 * `summarize`, the model gets a summary of the abandoned branch. The new position is saved with the next entry.
 */
export interface NavigateTreeCommand {
  type: "navigate_tree";
  id?: unknown;
  targetId: string | null;
  summarize?: boolean | null;
  customInstructions?: string | null;
}

/** Label an entry, or remove its label. The response names the entry that records the change. */
export interface SetLabelCommand {
  type: "set_label";
  id?: unknown;
  targetId: string;
  label?: string | null;
}

/**
 * Get a page of the conversation, oldest messages first: at most `limit` messages (1 to 256, default 100) and
 * about 768 KiB. If there is more, `nextCursor` is the `cursor` of the next page. A cursor is valid until the
 * conversation changes.
 */
export interface GetMessagesPageCommand {
  type: "get_messages_page";
  id?: unknown;
  cursor?: string | null;
  limit?: number | null;
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

/** Turn automatic compaction on or off. It happens when the context of the model is nearly full, or overflows. */
export interface SetAutoCompactionCommand {
  type: "set_auto_compaction";
  id?: unknown;
  /** Also write the value to the user's settings. Otherwise only this session changes. */
  persist?: boolean | null;
  enabled: boolean;
}

/**
 * Write the session as an HTML page to `outputPath`, or to a file in the working directory. The response has the
 * path.
 */
export interface ExportHtmlCommand {
  type: "export_html";
  id?: unknown;
  outputPath?: string | null;
}

/**
 * Continue the last run if it was interrupted: the agent was killed or closed during it, or the model failed. No
 * message is repeated. Tool calls that had ended keep their results. Calls of idempotent tools, and calls that
 * had not started, are made now; any other call gets a result that says that it may have run. Refused if the
 * last run has ended.
 */
export interface ResumeCommand {
  type: "resume";
  id?: unknown;
}

/** Reload all extensions without closing the session. Refused during a run. */
export interface ReloadCommand {
  type: "reload";
  id?: unknown;
}

/**
 * Choose the events about sub-agents: none (`off`, the default), `subagent_lifecycle` and `subagent_progress`
 * (`progress`), or these and every event of their runs as `subagent_event` (`events`).
 */
export interface SetSubagentSubscriptionCommand {
  type: "set_subagent_subscription";
  id?: unknown;
  level: "events" | "off" | "progress";
}

/**
 * List the sub-agents that started since this session was opened, including finished ones. A nested sub-agent's
 * id begins with the id of its parent and a dot.
 */
export interface GetSubagentsCommand {
  type: "get_subagents";
  id?: unknown;
}

/**
 * Get the conversation of a sub-agent as written so far, or the part after the byte `fromByte`. Name the sub-
 * agent by its id or by its `sessionFile`, which also finds those from before this session was opened. Other
 * files are refused.
 */
export interface GetSubagentMessagesCommand {
  type: "get_subagent_messages";
  id?: unknown;
  subagentId?: string | null;
  sessionFile?: string | null;
  fromByte?: number | null;
}

/**
 * Replace the host tools, starting with the next model call, even during a run. A new tool is active unless it
 * is `hidden`. A tool whose name was registered before stays active or inactive. When the model calls a host
 * tool, the host gets `host_tool_call` and replies with `host_tool_result`.
 */
export interface SetHostToolsCommand {
  type: "set_host_tools";
  id?: unknown;
  tools: HostToolDefinition[];
}

/**
 * Replace the URI schemes that the host serves. When the model uses `read` or `write` on such a URI, the host
 * gets `host_uri_request` and replies with `host_uri_result`.
 */
export interface SetHostUriSchemesCommand {
  type: "set_host_uri_schemes";
  id?: unknown;
  schemes: HostUriScheme[];
}

/**
 * Switch to version 2 of the protocol. In it no frame is longer than 1 MiB: longer ones arrive as `rpc_chunk`
 * frames, and `agent_end` omits messages that were sent before. Version 1, the default, has no limit.
 */
export interface NegotiateProtocolCommand {
  type: "negotiate_protocol";
  id?: unknown;
  protocolVersion: number;
}

/**
 * Send only events of these types; null sends all again. The host always gets responses, `prompt_result`,
 * `session_settled` and requests that expect a reply.
 */
export interface SetEventFilterCommand {
  type: "set_event_filter";
  id?: unknown;
  events: string[] | null;
}

/** Save sessions in another folder from now on, and resume its latest session or start a new one. */
export interface OpenSessionCommand {
  type: "open_session";
  id?: unknown;
  sessionDir: string;
}

/** Ask the model for a summary of everything that matters, and start a new session with it. */
export interface HandoffCommand {
  type: "handoff";
  id?: unknown;
  customInstructions?: string | null;
}

/**
 * Replace the todos: phases `{id?, name, tasks: [{id?, content, status?, notes?, details?}]}`. fairlead adds
 * missing ids and statuses, and keeps at most one task in progress. The response contains the new list.
 */
export interface SetTodosCommand {
  type: "set_todos";
  id?: unknown;
  phases: GivenPhase[];
}

/**
 * Turn a faster service tier on or off. The choice is kept, but fairlead asks no provider for it: `active` stays
 * false.
 */
export interface SetFastModeCommand {
  type: "set_fast_mode";
  id?: unknown;
  enabled: boolean;
}

/** List the model providers, and which of them have a key. */
export interface GetLoginProvidersCommand {
  type: "get_login_providers";
  id?: unknown;
}

/**
 * Log in to a provider: the user enters a code on the page of an `open_url` request. The response arrives when
 * the user is done and the token is saved. A provider without login gets an error that says how to set its key.
 */
export interface LoginCommand {
  type: "login";
  id?: unknown;
  providerId: string;
}

/**
 * Set the language of the user, such as `ja` or `pt-BR`, which the model will answer in. An empty text unsets
 * it. `locale` in a prompt does the same.
 */
export interface SetLocaleCommand {
  type: "set_locale";
  id?: unknown;
  locale: string;
}

/** List the services that xcsh is connected to. fairlead has none. */
export interface GetIntegrationsCommand {
  type: "get_integrations";
  id?: unknown;
}

/** Report the progress of a `host_tool_call`. It becomes a `tool_execution_update` event. */
export interface HostToolUpdateAnswer {
  type: "host_tool_update";
  /** The id of the request. */
  id: string;
  /** The whole output so far, not only the new part. */
  partialResult: ToolResult;
}

/** The result of a `host_tool_call`. With `isError`, the text of the content is the error message. */
export interface HostToolResultAnswer {
  type: "host_tool_result";
  /** The id of the request. */
  id: string;
  result: ToolResult;
  isError?: boolean | null;
}

/** The result of a `host_uri_request`. With `isError`, `error` (or `content`) says why it failed. */
export interface HostUriResultAnswer {
  type: "host_uri_result";
  /** The id of the request. */
  id: string;
  /** Required after a `read`. */
  content?: string | null;
  /** `text/plain` if absent. */
  contentType?: string | null;
  /** Notes for the model, appended to the result. */
  notes?: string[] | null;
  /** Overrides the value of the scheme. */
  immutable?: boolean | null;
  isError?: boolean | null;
  error?: string | null;
}

/**
 * Reply to an `extension_ui_request`: with `value` to `select`, `input` and `editor`, with `confirmed` to
 * `confirm`, or with `cancelled` to any of them. A reply without any of these counts as `cancelled`, and a
 * response reports the mistake.
 */
export interface ExtensionUiResponseAnswer {
  type: "extension_ui_response";
  /** The id of the request. */
  id: string;
  value?: string | null;
  confirmed?: boolean | null;
  /** The user dismissed the question. */
  cancelled?: boolean | null;
  /** With `cancelled`: the user did not answer in time. */
  timedOut?: boolean | null;
  /** To an approval that denies the call: why. The model sees it. */
  reason?: string | null;
  /**
   * To an approval that allows the call: other arguments for the tool. They must match its schema, and no rule
   * may deny them.
   */
  arguments?: Record<string, unknown> | null;
  /** To an approval: whether the answer covers later calls of the same kind, also if it is a denial. */
  forSession?: boolean | null;
  /**
   * To an approval that allows the call: the pattern of a rule that the user's settings get, so that calls like
   * this one run without a question. It has to cover the call. It may differ from those in `rules`.
   */
  rule?: string | null;
  /** With `rule`: whether the rule holds in every project of the user, and not only in this one. */
  everywhere?: boolean | null;
}

/** `prompt` succeeded. */
export interface PromptResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "prompt";
  success: true;
  data?: Disposition;
}

/** `steer` succeeded. */
export interface SteerResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "steer";
  success: true;
  data?: Disposition;
}

/** `follow_up` succeeded. */
export interface FollowUpResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "follow_up";
  success: true;
  data?: Disposition;
}

/** `abort` succeeded. */
export interface AbortResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "abort";
  success: true;
}

/** `abort_and_prompt` succeeded. */
export interface AbortAndPromptResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "abort_and_prompt";
  success: true;
}

/** `clear_queue` succeeded. */
export interface ClearQueueResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "clear_queue";
  success: true;
  data: ClearedQueue;
}

/** `get_state` succeeded. */
export interface GetStateResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "get_state";
  success: true;
  data: RpcSessionState;
}

/** `get_session_stats` succeeded. */
export interface GetSessionStatsResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "get_session_stats";
  success: true;
  data: SessionStats;
}

/** `get_messages` succeeded. */
export interface GetMessagesResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "get_messages";
  success: true;
  data: Messages;
}

/** `get_last_assistant_text` succeeded. */
export interface GetLastAssistantTextResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "get_last_assistant_text";
  success: true;
  data: LastText;
}

/** `set_model` succeeded. */
export interface SetModelResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "set_model";
  success: true;
  data: Model;
}

/** `cycle_model` succeeded. */
export interface CycleModelResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "cycle_model";
  success: true;
  data: CycledModel | null;
}

/** `get_available_models` succeeded. */
export interface GetAvailableModelsResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "get_available_models";
  success: true;
  data: AvailableModels;
}

/** `set_thinking_level` succeeded. */
export interface SetThinkingLevelResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "set_thinking_level";
  success: true;
  data: ChosenLevel;
}

/** `cycle_thinking_level` succeeded. */
export interface CycleThinkingLevelResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "cycle_thinking_level";
  success: true;
  data: ChosenLevel | null;
}

/** `get_available_thinking_levels` succeeded. */
export interface GetAvailableThinkingLevelsResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "get_available_thinking_levels";
  success: true;
  data: ThinkingLevels;
}

/** `set_steering_mode` succeeded. */
export interface SetSteeringModeResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "set_steering_mode";
  success: true;
}

/** `set_follow_up_mode` succeeded. */
export interface SetFollowUpModeResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "set_follow_up_mode";
  success: true;
}

/** `set_interrupt_mode` succeeded. */
export interface SetInterruptModeResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "set_interrupt_mode";
  success: true;
}

/** `bash` succeeded. */
export interface BashResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "bash";
  success: true;
  data: BashResult;
}

/** `abort_bash` succeeded. */
export interface AbortBashResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "abort_bash";
  success: true;
}

/** `set_auto_retry` succeeded. */
export interface SetAutoRetryResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "set_auto_retry";
  success: true;
}

/** `abort_retry` succeeded. */
export interface AbortRetryResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "abort_retry";
  success: true;
}

/** `get_tools` succeeded. */
export interface GetToolsResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "get_tools";
  success: true;
  data: Tools;
}

/** `set_active_tools` succeeded. */
export interface SetActiveToolsResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "set_active_tools";
  success: true;
  data: ActiveTools;
}

/** `get_commands` succeeded. */
export interface GetCommandsResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "get_commands";
  success: true;
  data: SlashCommands;
}

/** `get_available_commands` succeeded. */
export interface GetAvailableCommandsResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "get_available_commands";
  success: true;
  data: SlashCommands;
}

/** `set_updates` succeeded. */
export interface SetUpdatesResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "set_updates";
  success: true;
}

/** `shutdown` succeeded. */
export interface ShutdownResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "shutdown";
  success: true;
}

/** `new_session` succeeded. */
export interface NewSessionResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "new_session";
  success: true;
  data: Switched;
}

/** `switch_session` succeeded. */
export interface SwitchSessionResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "switch_session";
  success: true;
  data: Switched;
}

/** `fork` succeeded. */
export interface ForkResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "fork";
  success: true;
  data: Forked;
}

/** `branch` succeeded. */
export interface BranchResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "branch";
  success: true;
  data: Forked;
}

/** `clone` succeeded. */
export interface CloneResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "clone";
  success: true;
  data: Switched;
}

/** `list_sessions` succeeded. */
export interface ListSessionsResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "list_sessions";
  success: true;
  data: SessionList;
}

/** `delete_session` succeeded. */
export interface DeleteSessionResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "delete_session";
  success: true;
}

/** `set_session_name` succeeded. */
export interface SetSessionNameResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "set_session_name";
  success: true;
}

/** `get_fork_messages` succeeded. */
export interface GetForkMessagesResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "get_fork_messages";
  success: true;
  data: ForkMessages;
}

/** `get_branch_messages` succeeded. */
export interface GetBranchMessagesResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "get_branch_messages";
  success: true;
  data: ForkMessages;
}

/** `get_entries` succeeded. */
export interface GetEntriesResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "get_entries";
  success: true;
  data: Entries;
}

/** `get_tree` succeeded. */
export interface GetTreeResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "get_tree";
  success: true;
  data: Tree;
}

/** `navigate_tree` succeeded. */
export interface NavigateTreeResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "navigate_tree";
  success: true;
  data: Navigated;
}

/** `set_label` succeeded. */
export interface SetLabelResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "set_label";
  success: true;
  data: Labelled;
}

/** `get_messages_page` succeeded. */
export interface GetMessagesPageResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "get_messages_page";
  success: true;
  data: MessagesPage;
}

/** `compact` succeeded. */
export interface CompactResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "compact";
  success: true;
  data: CompactionResult;
}

/** `set_auto_compaction` succeeded. */
export interface SetAutoCompactionResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "set_auto_compaction";
  success: true;
}

/** `export_html` succeeded. */
export interface ExportHtmlResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "export_html";
  success: true;
  data: Exported;
}

/** `resume` succeeded. */
export interface ResumeResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "resume";
  success: true;
}

/** `reload` succeeded. */
export interface ReloadResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "reload";
  success: true;
  data: Reloaded;
}

/** `set_subagent_subscription` succeeded. */
export interface SetSubagentSubscriptionResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "set_subagent_subscription";
  success: true;
  data: SubagentSubscription;
}

/** `get_subagents` succeeded. */
export interface GetSubagentsResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "get_subagents";
  success: true;
  data: SubagentList;
}

/** `get_subagent_messages` succeeded. */
export interface GetSubagentMessagesResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "get_subagent_messages";
  success: true;
  data: SubagentMessages;
}

/** `set_host_tools` succeeded. */
export interface SetHostToolsResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "set_host_tools";
  success: true;
  data: HostToolNames;
}

/** `set_host_uri_schemes` succeeded. */
export interface SetHostUriSchemesResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "set_host_uri_schemes";
  success: true;
  data: HostUriSchemes;
}

/** `negotiate_protocol` succeeded. */
export interface NegotiateProtocolResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "negotiate_protocol";
  success: true;
  data: Negotiated;
}

/** `set_event_filter` succeeded. */
export interface SetEventFilterResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "set_event_filter";
  success: true;
  data: EventFilter;
}

/** `open_session` succeeded. */
export interface OpenSessionResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "open_session";
  success: true;
  data: OpenedSession;
}

/** `handoff` succeeded. */
export interface HandoffResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "handoff";
  success: true;
  data: HandedOff;
}

/** `set_todos` succeeded. */
export interface SetTodosResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "set_todos";
  success: true;
  data: TodoPhases;
}

/** `set_fast_mode` succeeded. */
export interface SetFastModeResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "set_fast_mode";
  success: true;
  data: FastMode;
}

/** `get_login_providers` succeeded. */
export interface GetLoginProvidersResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "get_login_providers";
  success: true;
  data: LoginProviders;
}

/** `login` succeeded. */
export interface LoginResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "login";
  success: true;
}

/** `set_locale` succeeded. */
export interface SetLocaleResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "set_locale";
  success: true;
  data: Locale;
}

/** `get_integrations` succeeded. */
export interface GetIntegrationsResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  command: "get_integrations";
  success: true;
  data: Integrations;
}

/** A command failed and changed nothing. */
export interface ErrorResponse {
  type: "response";
  /** The id of the command, if it had one. */
  id?: unknown;
  /** The name of the command; `parse` if the line is not valid JSON. */
  command: string;
  success: false;
  /** What went wrong, for people to read. */
  error: string;
  /** A short name, for errors that programs need to tell apart. */
  code?: string;
}

/** The first frame in omp and xcsh: the agent accepts commands. The other fields depend on the dialect. */
export interface ReadyEvent {
  type: "ready";
  version?: string;
  protocolVersion?: number;
  /** The versions that `negotiate_protocol` accepts. The first one is in force until then. */
  supportedProtocolVersions?: number[];
  /** The longest frame in version 2. */
  maxFrameBytes?: number;
  /** The longest frame that is assembled from `rpc_chunk` frames. */
  maxReassembledFrameBytes?: number;
}

/**
 * Part of a frame that exceeds `--max-frame-bytes`. Decode the `data` (base64) of all `count` chunks with the
 * same `chunkId` and join them in the order of `index`. The result is the frame, `byteLength` bytes long.
 */
export interface RpcChunkEvent {
  type: "rpc_chunk";
  chunkId: string;
  index: number;
  count: number;
  byteLength: number;
  data: string;
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

/**
 * The work is over. Nothing more will happen until the host sends something. `aborted` says whether the run was
 * cut off: by `abort`, by another session or by a compaction.
 */
export interface AgentSettledEvent {
  type: "agent_settled";
  aborted: boolean;
}

/** The name that omp has for `agent_settled`. */
export interface SessionSettledEvent {
  type: "session_settled";
}

/** How one accepted prompt ended (omp). */
export interface PromptResultEvent {
  type: "prompt_result";
  id?: unknown;
  agentInvoked: boolean;
  status: "aborted" | "completed" | "error";
  sessionSettled: boolean;
  error?: PromptError;
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

/** The whole output of a running tool so far, not only the new part. */
export interface ToolExecutionUpdateEvent {
  type: "tool_execution_update";
  toolCallId: string;
  toolName: string;
  args: Record<string, unknown>;
  partialResult: ToolResult;
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

/** A model call failed with an error that may be temporary. fairlead tries again after `delayMs`. */
export interface AutoRetryStartEvent {
  type: "auto_retry_start";
  attempt: number;
  maxAttempts: number;
  delayMs: number;
  errorMessage: string;
}

/** The retries are over: one succeeded, all failed, or the host cancelled them. */
export interface AutoRetryEndEvent {
  type: "auto_retry_end";
  success: boolean;
  attempt: number;
  finalError?: string;
}

/** A request for a summary failed with an error that may be temporary. fairlead tries again after `delayMs` (pi). */
export interface SummarizationRetryScheduledEvent {
  type: "summarization_retry_scheduled";
  attempt: number;
  maxAttempts: number;
  delayMs: number;
  errorMessage: string;
}

/** A request for a summary is sent again. `reason` is that of the compaction, if the summary is for one (pi). */
export interface SummarizationRetryAttemptStartEvent {
  type: "summarization_retry_attempt_start";
  source: "branchSummary" | "compaction";
  reason?: "manual" | "overflow" | "threshold";
}

/** The retries for a summary are over: one succeeded, all failed, or the host cancelled them (pi). */
export interface SummarizationRetryFinishedEvent {
  type: "summarization_retry_finished";
}

/** A compaction started: a summary will replace the older part of the conversation (pi). */
export interface CompactionStartEvent {
  type: "compaction_start";
  reason: "manual" | "overflow" | "threshold";
}

/**
 * A compaction ended. Without a `result`, the conversation is unchanged. With `willRetry`, the run continues
 * (pi).
 */
export interface CompactionEndEvent {
  type: "compaction_end";
  reason: "manual" | "overflow" | "threshold";
  aborted: boolean;
  willRetry: boolean;
  result?: CompactionResult;
  errorMessage?: string;
}

/** An automatic compaction started (omp and xcsh). */
export interface AutoCompactionStartEvent {
  type: "auto_compaction_start";
  reason: "manual" | "overflow" | "threshold";
  action: string;
}

/** An automatic compaction ended (omp and xcsh). */
export interface AutoCompactionEndEvent {
  type: "auto_compaction_end";
  action: string;
  aborted: boolean;
  willRetry: boolean;
  result?: CompactionResult;
  errorMessage?: string;
}

/** New output of a `bash` command. `id` is the id of that command. */
export interface BashExecutionUpdateEvent {
  type: "bash_execution_update";
  id?: unknown;
  delta: string;
}

/** The model calls a host tool. The arguments match the schema of the tool. Reply with `host_tool_result`. */
export interface HostToolCallEvent {
  type: "host_tool_call";
  id: string;
  toolCallId: string;
  toolName: string;
  arguments: Record<string, unknown>;
}

/**
 * The `host_tool_call` with the id `targetId` was cancelled: the run was aborted, or the tool timed out. A later
 * reply is ignored.
 */
export interface HostToolCancelEvent {
  type: "host_tool_cancel";
  id: string;
  targetId: string;
}

/** The model reads a host URI, or writes `content` to it. Reply with `host_uri_result`. */
export interface HostUriRequestEvent {
  type: "host_uri_request";
  id: string;
  operation: "read" | "write";
  url: string;
  content?: string;
}

/** The `host_uri_request` with the id `targetId` was cancelled. A later reply is ignored. */
export interface HostUriCancelEvent {
  type: "host_uri_cancel";
  id: string;
  targetId: string;
}

/**
 * Ask or show the user of the host something. `method` says what, and determines which fields are present. Reply
 * to `select`, `confirm`, `input` and `editor` with `extension_ui_response`. The other methods expect no reply.
 */
export type ExtensionUiRequestEvent = SelectUiRequest | ConfirmUiRequest | InputUiRequest | EditorUiRequest | CancelUiRequest | NotifyUiRequest | SetStatusUiRequest | SetWidgetUiRequest | SetTitleUiRequest | SetEditorTextUiRequest | OpenUrlUiRequest;

/** The model broke these stream rules. The answer ends here, and the model gets the rules and another chance. */
export interface TtsrTriggeredEvent {
  type: "ttsr_triggered";
  rules: Rule[];
}

/** The model stopped although todos are left. It gets a reminder, and the run continues. */
export interface TodoReminderEvent {
  type: "todo_reminder";
  todos: TodoTask[];
  attempt: number;
  maxAttempts: number;
}

/** The list no longer contains todos that were completed a while ago. */
export interface TodoAutoClearEvent {
  type: "todo_auto_clear";
}

/**
 * The session has a new entry that no other event describes, such as one that hides a failed answer from the
 * model.
 */
export interface EntryAppendedEvent {
  type: "entry_appended";
  entry: SessionEntry;
}

/** The name of the session changed. */
export interface SessionInfoChangedEvent {
  type: "session_info_changed";
  name?: string;
}

/**
 * The queue changed: the texts of all queued messages. While the queue is long, one event covers several quick
 * changes.
 */
export interface QueueUpdateEvent {
  type: "queue_update";
  steering: string[];
  followUp: string[];
}

/** The thinking level changed. */
export interface ThinkingLevelChangedEvent {
  type: "thinking_level_changed";
  level: "high" | "low" | "max" | "medium" | "minimal" | "off" | "xhigh";
}

/** Another model was chosen. `get_state` names it (omp). */
export interface ModelChangedEvent {
  type: "model_changed";
}

/** Something that the user should know (omp). */
export interface NoticeEvent {
  type: "notice";
  level: "error" | "info" | "warning";
  message: string;
  /** The part of the agent that says so. */
  source?: string;
}

/** The slash commands that there are: sent after `ready`, and whenever they have changed (omp). */
export interface AvailableCommandsUpdateEvent {
  type: "available_commands_update";
  commands: AvailableCommand[];
}

/** A sub-agent started or ended. Sent to hosts that subscribed with `set_subagent_subscription`. */
export interface SubagentLifecycleEvent {
  type: "subagent_lifecycle";
  payload: LifecyclePayload;
}

/** What a sub-agent has done so far, at most five times a second and once at its end. Sent to subscribed hosts. */
export interface SubagentProgressEvent {
  type: "subagent_progress";
  payload: ProgressPayload;
}

/** An event of a sub-agent's run. Sent to subscribed hosts. */
export interface SubagentEvent {
  type: "subagent_event";
  payload: SubagentEventPayload;
}

/**
 * An extension failed; the run continues. If `extensionPath` is `session`, the session reports a problem: with
 * `event` `write`, its file could not be written (fairlead keeps the entries and tries again); with `open`, the
 * file that was opened is damaged.
 */
export interface ExtensionErrorEvent {
  type: "extension_error";
  extensionPath: string;
  event: string;
  error: string;
}

export interface ActiveTools {
  tools: string[];
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

/** A command that a prompt can begin with, such as `/name`. */
export interface AvailableCommand {
  name: string;
  source: "extension" | "file" | "skill";
  description?: string;
  input?: CommandHint;
}

export interface AvailableModels {
  models: Model[];
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

export interface BashResult {
  output: string;
  cancelled: boolean;
  truncated: boolean;
  exitCode?: number;
  fullOutputPath?: string;
  totalLines?: number;
  totalBytes?: number;
  outputLines?: number;
  outputBytes?: number;
}

/** A summary of the branch that ended at `from_id` and that the conversation left. */
export interface BranchSummaryEntry {
  type: "branch_summary";
  id: string;
  /** The id of the entry before this one; null for the first of a conversation. */
  parentId: string | null;
  /** ISO 8601 with milliseconds, in UTC. */
  timestamp: string;
  fromId: string;
  summary: string;
  details?: unknown;
  usage?: unknown;
  fromHook?: boolean;
}

export interface BranchSummaryMessage {
  role: "branchSummary";
  summary: string;
  fromId: string;
  timestamp: number;
}

export interface CancelUiRequest {
  type: "extension_ui_request";
  id: string;
  method: "cancel";
  /** The id of the request to withdraw. */
  targetId: string;
}

/** The level in force. */
export interface ChosenLevel {
  level: "high" | "low" | "max" | "medium" | "minimal" | "off" | "xhigh";
}

export interface ClearedQueue {
  steering: string[];
  followUp: string[];
}

export interface CommandHint {
  hint: string;
}

/**
 * A summary that replaces everything before `first_kept_entry_id` for the model. With its own id there, nothing
 * is kept.
 */
export interface CompactionEntry {
  type: "compaction";
  id: string;
  /** The id of the entry before this one; null for the first of a conversation. */
  parentId: string | null;
  /** ISO 8601 with milliseconds, in UTC. */
  timestamp: string;
  summary: string;
  firstKeptEntryId: string;
  tokensBefore: number;
  details?: unknown;
  usage?: unknown;
  fromHook?: boolean;
  /** pi's system prompt and tools at this point; not used here. */
  systemMessage?: unknown;
}

/** A finished compaction. Its JSON is pi's CompactionResult, with omp's addition `shortSummary`. */
export interface CompactionResult {
  summary: string;
  firstKeptEntryId: string;
  tokensBefore: number;
  /** FileLists, or something else if an extension wrote the summary. */
  details: unknown;
  /** Tokens of the summary and the messages that stay. */
  estimatedTokensAfter?: number;
  /** Of all model requests for the summary. */
  usage?: Usage;
  shortSummary?: string;
}

export interface CompactionSummaryMessage {
  role: "compactionSummary";
  summary: string;
  tokensBefore: number;
  timestamp: number;
}

export interface ConfirmUiRequest {
  type: "extension_ui_request";
  id: string;
  method: "confirm";
  /** The question. */
  title: string;
  /** Details of the question; may be empty. */
  message: string;
  /** Milliseconds until the request expires; absent: never. */
  timeout?: number;
}

/**
 * An edit of what the model sees: `replacement` instead of an earlier entry's content, or nothing if there is
 * none.
 */
export interface ContextEditEntry {
  type: "context_edit";
  id: string;
  /** The id of the entry before this one; null for the first of a conversation. */
  parentId: string | null;
  /** ISO 8601 with milliseconds, in UTC. */
  timestamp: string;
  targetId: string;
  replacement: Replacement | null;
}

/** How full the model's context is. Null while that is unknown. */
export interface ContextUsage {
  tokens: number | null;
  contextWindow: number;
  percent: number | null;
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

/** State of an extension or of the agent itself, which the model does not see. */
export interface CustomEntry {
  type: "custom";
  id: string;
  /** The id of the entry before this one; null for the first of a conversation. */
  parentId: string | null;
  /** ISO 8601 with milliseconds, in UTC. */
  timestamp: string;
  customType: string;
  data?: unknown;
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

/** A message from an extension to the model. */
export interface CustomMessageEntry {
  type: "custom_message";
  id: string;
  /** The id of the entry before this one; null for the first of a conversation. */
  parentId: string | null;
  /** ISO 8601 with milliseconds, in UTC. */
  timestamp: string;
  customType: string;
  content?: unknown;
  display: boolean;
  details?: unknown;
}

export interface CycledModel {
  model: Model;
  isScoped: boolean;
  thinkingLevel?: "high" | "low" | "max" | "medium" | "minimal" | "off" | "xhigh";
}

/** What happened to a message. A message that an extension `handled` starts no run. */
export interface Disposition {
  disposition: "handled" | "queued" | "started";
}

export interface EditorUiRequest {
  type: "extension_ui_request";
  id: string;
  method: "editor";
  /** The question. */
  title: string;
  /** The initial text. */
  prefill?: string;
}

/** Entries in the form of the session file. */
export interface Entries {
  entries: SessionEntry[];
  leafId: string | null;
}

export interface EventFilter {
  events: string[] | null;
}

export interface Exported {
  path: string;
}

export interface FastMode {
  enabled: boolean;
  /** Whether the current model has such a mode. */
  active: boolean;
}

export interface ForkMessage {
  entryId: string;
  text: string;
}

export interface ForkMessages {
  messages: ForkMessage[];
}

export interface Forked {
  cancelled: boolean;
  /** The text of that message; absent if an extension blocked the fork. */
  text?: string;
}

/** A group of tasks in `set_todos`. */
export interface GivenPhase {
  name: string;
  tasks: GivenTask[];
  id?: string | null;
}

/** A task in `set_todos`. A missing or repeated id is replaced with a new one. */
export interface GivenTask {
  content: string;
  id?: string | null;
  status?: "abandoned" | "completed" | "in_progress" | "pending" | null;
  notes?: string | null;
  details?: string | null;
}

export interface HandedOff {
  /** The file of the new session; absent if sessions are not saved. */
  savedPath?: string;
}

/**
 * The first line of a session file. `version` is missing in files of version 1. `cwd` is the working directory.
 * `parent_session` is the path of the session that this one was forked from or, for a sub-agent, that started
 * it.
 */
export interface Header {
  type: "session";
  version?: number;
  id?: string;
  timestamp?: string;
  cwd?: string;
  parentSession?: string;
}

/** A tool that the host runs. */
export interface HostToolDefinition {
  /** Not empty, and different from the name of every other tool. */
  name: string;
  /** The description for the model; not empty. */
  description: string;
  /** The JSON Schema of the arguments. fairlead checks them before it calls the host. */
  parameters: Record<string, unknown>;
  /** A short label for people; the name if absent. */
  label?: string | null;
  /** Hide the tool from the model until `set_active_tools` names it. */
  hidden?: boolean | null;
  /** Milliseconds after which a call is cancelled; 0 or absent: never. */
  timeoutMs?: number | null;
}

export interface HostToolNames {
  toolNames: string[];
}

/** URIs that the host serves. */
export interface HostUriScheme {
  /** The part before `://`: a letter, then letters, digits, `+`, `.` and `-`. Case does not matter. */
  scheme: string;
  /** A short description for people. */
  description?: string | null;
  /** Whether the model may `write` to them, and not only `read`. */
  writable?: boolean | null;
  /** Whether their content never changes. The `details` of a result contain this. */
  immutable?: boolean | null;
}

export interface HostUriSchemes {
  schemes: string[];
}

/** An image as base64 `data`. */
export interface ImageContent {
  type: "image";
  data: string;
  mimeType: string;
}

export interface InputUiRequest {
  type: "extension_ui_request";
  id: string;
  method: "input";
  /** The question. */
  title: string;
  /** Shown while the field is empty. */
  placeholder?: string;
  /** Milliseconds until the request expires; absent: never. */
  timeout?: number;
}

export interface Integrations {
  integrations: (Record<string, unknown>)[];
}

/** A label on another entry. Without a text it removes the label. */
export interface LabelEntry {
  type: "label";
  id: string;
  /** The id of the entry before this one; null for the first of a conversation. */
  parentId: string | null;
  /** ISO 8601 with milliseconds, in UTC. */
  timestamp: string;
  targetId: string;
  label?: string | null;
}

export interface Labelled {
  entryId: string;
}

export interface LastText {
  text: string | null;
}

/** A sub-agent started, or ended in one of three ways. */
export interface LifecyclePayload {
  id: string;
  index: number;
  agent: string;
  agentSource: "bundled" | "project" | "user";
  description: string;
  status: "aborted" | "completed" | "failed" | "started";
  parentToolCallId: string;
  /** Where its conversation is kept; absent if it is in memory. */
  sessionFile?: string;
  /** Always false: the call that started it waits for it. */
  detached: boolean;
}

export interface Locale {
  locale: string;
}

export interface LoginProvider {
  id: string;
  name: string;
  /** Whether `login` works for it. Other providers need a key in the environment or in auth.json. */
  available: boolean;
  /** Whether it has a key. */
  authenticated: boolean;
}

export interface LoginProviders {
  providers: LoginProvider[];
}

export type Message = UserMessage | AssistantMessage | ToolResultMessage | BashExecutionMessage | CustomMessage | BranchSummaryMessage | CompactionSummaryMessage;

/** A message of the user, the model or a tool, as JSON. */
export interface MessageEntry {
  type: "message";
  id: string;
  /** The id of the entry before this one; null for the first of a conversation. */
  parentId: string | null;
  /** ISO 8601 with milliseconds, in UTC. */
  timestamp: string;
  message: Message;
}

export interface Messages {
  messages: Message[];
}

export interface MessagesPage {
  messages: Message[];
  totalMessages: number;
  nextCursor?: string;
}

/** A model as hosts see it. It holds no secret: keys and headers stay in `fairlead.models`. */
export interface Model {
  id: string;
  name: string;
  api: string;
  provider: string;
  baseUrl: string;
  reasoning: boolean;
  input: ("image" | "text")[];
  cost: Price;
  contextWindow: number;
  maxTokens: number;
  /** The provider's name for each thinking level; null for a level that the model lacks. */
  thinkingLevelMap?: Record<string, string | null>;
  /** How a compatible server differs from the original API; read by the adapter. */
  compat?: Record<string, unknown>;
  /** null: not known, so the cache is not kept warm. */
  promptCache?: PromptCache;
}

/** The choice of a model. */
export interface ModelChangeEntry {
  type: "model_change";
  id: string;
  /** The id of the entry before this one; null for the first of a conversation. */
  parentId: string | null;
  /** ISO 8601 with milliseconds, in UTC. */
  timestamp: string;
  provider: string;
  modelId: string;
}

export interface Navigated {
  /** True if the summary was aborted. Then nothing has changed. */
  cancelled: boolean;
  leafId: string | null;
  /** The text of the user message at the target, to edit and send again. */
  editorText?: string;
  /** The entry with the summary of the branch. */
  summaryEntryId?: string;
}

export interface Negotiated {
  protocolVersion: number;
}

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

export interface NotifyUiRequest {
  type: "extension_ui_request";
  id: string;
  method: "notify";
  /** The text to show. */
  message: string;
  /** `info` if absent. */
  notifyType?: "error" | "info" | "success" | "warning";
}

export interface OpenUrlUiRequest {
  type: "extension_ui_request";
  id: string;
  method: "open_url";
  /** The page to open. */
  url: string;
  /** What the user should do there. */
  instructions?: string;
}

export interface OpenedSession {
  /** True if an extension blocked it. Then nothing has changed, and the other fields are absent. */
  cancelled: boolean;
  /** True if the folder contained a session to resume. */
  resumed?: boolean;
  sessionId?: string;
  sessionFile?: string;
}

/** An entry of an unknown type or form. It keeps its place in the tree and its JSON. */
export interface OtherEntry {
  type: string;
  id: string;
  parentId: string | null;
  timestamp: string;
}

/** US dollars per million tokens. */
export interface Price {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
}

/** What a sub-agent has done so far, and which call started it. */
export interface ProgressPayload {
  index: number;
  agent: string;
  agentSource: "bundled" | "project" | "user";
  task: string;
  assignment: string;
  parentToolCallId: string;
  progress: SubagentActivity;
  sessionFile?: string;
  detached: boolean;
}

/**
 * How many seconds a provider keeps the beginning of a request in its cache: usually, and if it is asked to keep
 * it long.
 */
export interface PromptCache {
  short?: number;
  long?: number;
}

export interface PromptError {
  message: string;
  retryable: boolean;
  provider?: string;
  model?: string;
  httpStatus?: number;
}

/** A tool call that has ended. `args` is a short form of its arguments. */
export interface RecentTool {
  tool: string;
  args: string;
  endMs: number;
}

export interface Reloaded {
  /** The names of all extensions that are loaded now. */
  extensions: string[];
}

/** What the model sees instead of the content of an entry. */
export interface Replacement {
  content: unknown;
}

export interface RpcSessionState {
  model: Model | null;
  isStreaming: boolean;
  /** True if nothing more will happen until the host sends something. */
  isSettled: boolean;
  isCompacting: boolean;
  steeringMode: "all" | "one-at-a-time";
  followUpMode: "all" | "one-at-a-time";
  interruptMode: "immediate" | "wait";
  sessionId: string;
  autoCompactionEnabled: boolean;
  messageCount: number;
  pendingMessageCount: number;
  queuedMessageCount: number;
  todoPhases: TodoPhase[];
  contextUsage?: ContextUsage;
  thinkingLevel?: "high" | "low" | "max" | "medium" | "minimal" | "off" | "xhigh";
  /** As `set_fast_mode` has left it, and whether requests are made with it (omp). */
  fastModeEnabled?: boolean;
  fastModeActive?: boolean;
  sessionFile?: string;
  sessionName?: string;
  systemPrompt?: string;
  dumpTools?: ToolSpec[];
}

/** A rule, in the form in which hosts see it. Fields that its file does not set are left out. */
export interface Rule {
  name: string;
  path: string;
  /** The text for the model. */
  content: string;
  _source: RuleSource;
  alwaysApply: boolean;
  description?: string;
  /** The files it applies to. With globs, only tool calls that name such a file can match. */
  globs?: string[];
  /** Regular expressions, one of which has to match. A rule without any is not a stream rule and never matches. */
  condition?: string[];
  scope?: string[];
  interruptMode?: "always" | "never" | "prose-only" | "tool-only";
  repeatMode?: "after-gap" | "once";
  repeatGap?: number;
}

/** Where a rule comes from, in the form that omp's hosts expect. */
export interface RuleSource {
  provider: string;
  providerName: string;
  path: string;
  level: "project" | "user";
}

export interface SelectUiRequest {
  type: "extension_ui_request";
  id: string;
  method: "select";
  /** The question. */
  title: string;
  /** The choices. */
  options: string[];
  /** Milliseconds until the request expires; absent: never. */
  timeout?: number;
  /**
   * Whether this asks if a tool call may run. Only the exact text of an option is consent, and the third denies.
   * Those after it write a rule to the settings of the user.
   */
  approval?: boolean;
  /** The tool. */
  toolName?: string;
  /** The id of the tool call. */
  toolCallId?: string;
  /** What the tool will run with. */
  arguments?: Record<string, unknown>;
  /** What the call would change, as a unified diff; absent if it changes no file or the change is not known. */
  diff?: string;
  /** The patterns of the rules that an answer may write, the narrowest first; absent if it cannot write any. */
  rules?: string[];
  /** The id of the sub-agent that makes the call; absent if the session itself does. */
  subagentId?: string;
}

export type SessionEntry = MessageEntry | ModelChangeEntry | ThinkingLevelChangeEntry | CompactionEntry | BranchSummaryEntry | CustomEntry | CustomMessageEntry | LabelEntry | SessionInfoEntry | UsageEntry | ContextEditEntry | OtherEntry;

/** A session in a list of sessions. Times are milliseconds since the epoch. */
export interface SessionInfo {
  path: string;
  id?: string;
  cwd?: string;
  name?: string;
  created?: number;
  modified?: number;
  /** The number of messages in all branches; null if the file is too long to read completely. */
  messageCount?: number;
  /** The first message from the user. */
  firstMessage?: string;
  parentSession?: string;
  /** Why the file cannot be read. Then only its path and modification time are known. */
  problem?: string;
}

/** A name for the session. */
export interface SessionInfoEntry {
  type: "session_info";
  id: string;
  /** The id of the entry before this one; null for the first of a conversation. */
  parentId: string | null;
  /** ISO 8601 with milliseconds, in UTC. */
  timestamp: string;
  name?: string | null;
}

export interface SessionList {
  sessions: SessionInfo[];
}

/** Totals of the conversation. `cost` is in US dollars. */
export interface SessionStats {
  sessionId: string;
  userMessages: number;
  assistantMessages: number;
  toolCalls: number;
  toolResults: number;
  totalMessages: number;
  tokens: Tokens;
  cost: number;
  sessionFile?: string;
  contextUsage?: ContextUsage;
}

export interface SetEditorTextUiRequest {
  type: "extension_ui_request";
  id: string;
  method: "set_editor_text";
  /** The new text of the editor. */
  text: string;
}

export interface SetStatusUiRequest {
  type: "extension_ui_request";
  id: string;
  method: "setStatus";
  /** The key of the status item. */
  statusKey: string;
  /** The text to show; absent: remove the item. */
  statusText?: string;
}

export interface SetTitleUiRequest {
  type: "extension_ui_request";
  id: string;
  method: "setTitle";
  /** The title of the window. */
  title: string;
}

export interface SetWidgetUiRequest {
  type: "extension_ui_request";
  id: string;
  method: "setWidget";
  /** The key of the widget. */
  widgetKey: string;
  /** The lines to show; absent: remove the widget. */
  widgetLines?: string[];
  /** `aboveEditor` if absent. */
  widgetPlacement?: "aboveEditor" | "belowEditor";
}

/** A command that a prompt can begin with, such as `/name`. */
export interface SlashCommand {
  name: string;
  /** Left out for a command of an extension that has none. */
  description?: string;
  /** `extension`: code of an extension; `prompt`: a prompt template; `skill`: a skill. */
  source: "extension" | "prompt" | "skill";
  sourceInfo: SourceInfo;
}

export interface SlashCommands {
  commands: SlashCommand[];
}

/** Where a slash command comes from. */
export interface SourceInfo {
  path: string;
  /**
   * `auto`: found in a default folder; `local`: named in the settings; `cli`: named on the command line. With
   * `origin` `package`, the package as the settings name it.
   */
  source: string;
  scope: "project" | "temporary" | "user";
  origin: "package" | "top-level";
  /** The configuration folder, or the folder of the package, that contains it. */
  baseDir?: string;
}

/** What a sub-agent has done so far. Long texts are cut. */
export interface SubagentActivity {
  index: number;
  id: string;
  agent: string;
  agentSource: "bundled" | "project" | "user";
  status: "aborted" | "completed" | "failed" | "pending" | "running";
  /** Its whole prompt, and the part that is for it alone. */
  task: string;
  assignment: string;
  description: string;
  /** Its last tool calls, oldest first. */
  recentTools: RecentTool[];
  /** The last lines of its answers. */
  recentOutput: string[];
  toolCount: number;
  /** Model calls that were answered. */
  requests: number;
  /** Tokens and US dollars, including those of its sub-agents. */
  tokens: number;
  cost: number;
  durationMs: number;
  /** `provider/id` of its model; absent before it starts. */
  resolvedModel?: string;
}

export interface SubagentEventPayload {
  id: string;
  /** The frame, in the same form as for the session's own run. */
  event: Event;
}

export interface SubagentList {
  subagents: SubagentSnapshot[];
}

/**
 * `entries` are complete lines of the file, including its header. `messages` are the messages in them.
 * `nextByte` is the `fromByte` of the next part.
 */
export interface SubagentMessages {
  sessionFile: string;
  fromByte: number;
  nextByte: number;
  /** True if the file was shorter than `fromByte`, so that `entries` begins with its first line. */
  reset: boolean;
  entries: (Header | MessageEntry | ModelChangeEntry | ThinkingLevelChangeEntry | CompactionEntry | BranchSummaryEntry | CustomEntry | CustomMessageEntry | LabelEntry | SessionInfoEntry | UsageEntry | ContextEditEntry | OtherEntry)[];
  messages: Message[];
}

/** The state of a sub-agent. `last_update` is in milliseconds since the epoch. */
export interface SubagentSnapshot {
  id: string;
  index: number;
  agent: string;
  agentSource: "bundled" | "project" | "user";
  description: string;
  status: "aborted" | "completed" | "failed" | "pending" | "running";
  task: string;
  assignment: string;
  parentToolCallId: string;
  lastUpdate: number;
  progress: SubagentActivity;
  sessionFile?: string;
}

export interface SubagentSubscription {
  level: "events" | "off" | "progress";
}

export interface Switched {
  /** True if an extension blocked the switch. Then nothing has changed. */
  cancelled: boolean;
  /** True if the file contains no session, so that a new one will be saved there. */
  created?: boolean;
}

export interface TextContent {
  type: "text";
  text: string;
  textSignature?: string | null;
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

/** The choice of a thinking level. */
export interface ThinkingLevelChangeEntry {
  type: "thinking_level_change";
  id: string;
  /** The id of the entry before this one; null for the first of a conversation. */
  parentId: string | null;
  /** ISO 8601 with milliseconds, in UTC. */
  timestamp: string;
  thinkingLevel: string;
}

export interface ThinkingLevels {
  levels: ("high" | "low" | "max" | "medium" | "minimal" | "off" | "xhigh")[];
}

export interface ThinkingStart {
  type: "thinking_start";
  contentIndex: number;
  /** The message so far; absent in delta form. */
  partial?: AssistantMessage;
}

/** A named group of tasks. */
export interface TodoPhase {
  id: string;
  name: string;
  tasks: TodoTask[];
}

export interface TodoPhases {
  todoPhases: TodoPhase[];
}

/** One thing to do. */
export interface TodoTask {
  id: string;
  content: string;
  status: "abandoned" | "completed" | "in_progress" | "pending";
  /** Context worth remembering. */
  notes?: string;
  /** How to do it; shown while it is in progress. */
  details?: string;
}

export interface Tokens {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  total: number;
}

export interface ToolCall {
  type: "toolCall";
  id: string;
  name: string;
  arguments: Record<string, unknown>;
  thoughtSignature?: string;
}

export interface ToolInfo {
  name: string;
  label: string;
  description: string;
  parameters: Record<string, unknown>;
  active: boolean;
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

/** What a tool returns: `content` for the model, `details` for the host. */
export interface ToolResult {
  content: UserBlock[];
  details?: unknown;
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

/** A tool as the model sees it. */
export interface ToolSpec {
  name: string;
  description: string;
  parameters: Record<string, unknown>;
  /** Whether the provider is asked to enforce the schema. */
  strict?: "prefer" | "require";
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

export interface Tools {
  tools: ToolInfo[];
}

/** Nodes `{entry, children, label?, labelTimestamp?}`. The nesting is as deep as the conversation is long. */
export interface Tree {
  tree: TreeNode[];
  leafId: string | null;
}

/** An entry and the entries that follow it, oldest first. */
export interface TreeNode {
  entry: SessionEntry;
  children: TreeNode[];
  label?: string;
  labelTimestamp?: string;
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

/** Tokens that were spent apart from the model's answers, such as those of a sub-agent. `note` says what for. */
export interface UsageEntry {
  type: "usage";
  id: string;
  /** The id of the entry before this one; null for the first of a conversation. */
  parentId: string | null;
  /** ISO 8601 with milliseconds, in UTC. */
  timestamp: string;
  kind: string;
  provider: string;
  model: string;
  usage?: unknown;
  note?: string;
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

/** The command and its successful response, by the name of the command. */
export interface Commands {
  prompt: { command: PromptCommand; response: PromptResponse };
  steer: { command: SteerCommand; response: SteerResponse };
  follow_up: { command: FollowUpCommand; response: FollowUpResponse };
  abort: { command: AbortCommand; response: AbortResponse };
  abort_and_prompt: { command: AbortAndPromptCommand; response: AbortAndPromptResponse };
  clear_queue: { command: ClearQueueCommand; response: ClearQueueResponse };
  get_state: { command: GetStateCommand; response: GetStateResponse };
  get_session_stats: { command: GetSessionStatsCommand; response: GetSessionStatsResponse };
  get_messages: { command: GetMessagesCommand; response: GetMessagesResponse };
  get_last_assistant_text: { command: GetLastAssistantTextCommand; response: GetLastAssistantTextResponse };
  set_model: { command: SetModelCommand; response: SetModelResponse };
  cycle_model: { command: CycleModelCommand; response: CycleModelResponse };
  get_available_models: { command: GetAvailableModelsCommand; response: GetAvailableModelsResponse };
  set_thinking_level: { command: SetThinkingLevelCommand; response: SetThinkingLevelResponse };
  cycle_thinking_level: { command: CycleThinkingLevelCommand; response: CycleThinkingLevelResponse };
  get_available_thinking_levels: { command: GetAvailableThinkingLevelsCommand; response: GetAvailableThinkingLevelsResponse };
  set_steering_mode: { command: SetSteeringModeCommand; response: SetSteeringModeResponse };
  set_follow_up_mode: { command: SetFollowUpModeCommand; response: SetFollowUpModeResponse };
  set_interrupt_mode: { command: SetInterruptModeCommand; response: SetInterruptModeResponse };
  bash: { command: BashCommand; response: BashResponse };
  abort_bash: { command: AbortBashCommand; response: AbortBashResponse };
  set_auto_retry: { command: SetAutoRetryCommand; response: SetAutoRetryResponse };
  abort_retry: { command: AbortRetryCommand; response: AbortRetryResponse };
  get_tools: { command: GetToolsCommand; response: GetToolsResponse };
  set_active_tools: { command: SetActiveToolsCommand; response: SetActiveToolsResponse };
  get_commands: { command: GetCommandsCommand; response: GetCommandsResponse };
  get_available_commands: { command: GetAvailableCommandsCommand; response: GetAvailableCommandsResponse };
  set_updates: { command: SetUpdatesCommand; response: SetUpdatesResponse };
  shutdown: { command: ShutdownCommand; response: ShutdownResponse };
  new_session: { command: NewSessionCommand; response: NewSessionResponse };
  switch_session: { command: SwitchSessionCommand; response: SwitchSessionResponse };
  fork: { command: ForkCommand; response: ForkResponse };
  branch: { command: BranchCommand; response: BranchResponse };
  clone: { command: CloneCommand; response: CloneResponse };
  list_sessions: { command: ListSessionsCommand; response: ListSessionsResponse };
  delete_session: { command: DeleteSessionCommand; response: DeleteSessionResponse };
  set_session_name: { command: SetSessionNameCommand; response: SetSessionNameResponse };
  get_fork_messages: { command: GetForkMessagesCommand; response: GetForkMessagesResponse };
  get_branch_messages: { command: GetBranchMessagesCommand; response: GetBranchMessagesResponse };
  get_entries: { command: GetEntriesCommand; response: GetEntriesResponse };
  get_tree: { command: GetTreeCommand; response: GetTreeResponse };
  navigate_tree: { command: NavigateTreeCommand; response: NavigateTreeResponse };
  set_label: { command: SetLabelCommand; response: SetLabelResponse };
  get_messages_page: { command: GetMessagesPageCommand; response: GetMessagesPageResponse };
  compact: { command: CompactCommand; response: CompactResponse };
  set_auto_compaction: { command: SetAutoCompactionCommand; response: SetAutoCompactionResponse };
  export_html: { command: ExportHtmlCommand; response: ExportHtmlResponse };
  resume: { command: ResumeCommand; response: ResumeResponse };
  reload: { command: ReloadCommand; response: ReloadResponse };
  set_subagent_subscription: { command: SetSubagentSubscriptionCommand; response: SetSubagentSubscriptionResponse };
  get_subagents: { command: GetSubagentsCommand; response: GetSubagentsResponse };
  get_subagent_messages: { command: GetSubagentMessagesCommand; response: GetSubagentMessagesResponse };
  set_host_tools: { command: SetHostToolsCommand; response: SetHostToolsResponse };
  set_host_uri_schemes: { command: SetHostUriSchemesCommand; response: SetHostUriSchemesResponse };
  negotiate_protocol: { command: NegotiateProtocolCommand; response: NegotiateProtocolResponse };
  set_event_filter: { command: SetEventFilterCommand; response: SetEventFilterResponse };
  open_session: { command: OpenSessionCommand; response: OpenSessionResponse };
  handoff: { command: HandoffCommand; response: HandoffResponse };
  set_todos: { command: SetTodosCommand; response: SetTodosResponse };
  set_fast_mode: { command: SetFastModeCommand; response: SetFastModeResponse };
  get_login_providers: { command: GetLoginProvidersCommand; response: GetLoginProvidersResponse };
  login: { command: LoginCommand; response: LoginResponse };
  set_locale: { command: SetLocaleCommand; response: SetLocaleResponse };
  get_integrations: { command: GetIntegrationsCommand; response: GetIntegrationsResponse };
}
