// The protocol of pi, as fairlead speaks it.
export type Command = PromptCommand | SteerCommand | FollowUpCommand | AbortCommand | AbortAndPromptCommand | ClearQueueCommand | GetStateCommand | GetSessionStatsCommand | GetMessagesCommand | GetLastAssistantTextCommand | SetModelCommand | CycleModelCommand | GetAvailableModelsCommand | SetThinkingLevelCommand | CycleThinkingLevelCommand | GetAvailableThinkingLevelsCommand | SetSteeringModeCommand | SetFollowUpModeCommand | SetInterruptModeCommand | BashCommand | AbortBashCommand | SetAutoRetryCommand | AbortRetryCommand | GetToolsCommand | SetActiveToolsCommand | GetCommandsCommand | GetAvailableCommandsCommand | SetUpdatesCommand | ShutdownCommand | NewSessionCommand | SwitchSessionCommand | ForkCommand | BranchCommand | CloneCommand | ListSessionsCommand | DeleteSessionCommand | SetSessionNameCommand | GetForkMessagesCommand | GetBranchMessagesCommand | GetEntriesCommand | GetTreeCommand | NavigateTreeCommand | SetLabelCommand | GetMessagesPageCommand | CompactCommand | SetAutoCompactionCommand | ExportHtmlCommand | ReloadCommand | SetSubagentSubscriptionCommand | GetSubagentsCommand | GetSubagentMessagesCommand | SetHostToolsCommand | SetHostUriSchemesCommand | NegotiateProtocolCommand | SetEventFilterCommand | OpenSessionCommand | HandoffCommand | SetTodosCommand | SetFastModeCommand | GetLoginProvidersCommand | LoginCommand | SetLocaleCommand | GetIntegrationsCommand;

export type Answer = HostToolUpdateAnswer | HostToolResultAnswer | HostUriResultAnswer | ExtensionUiResponseAnswer;

export type Response = PromptResponse | SteerResponse | FollowUpResponse | AbortResponse | AbortAndPromptResponse | ClearQueueResponse | GetStateResponse | GetSessionStatsResponse | GetMessagesResponse | GetLastAssistantTextResponse | SetModelResponse | CycleModelResponse | GetAvailableModelsResponse | SetThinkingLevelResponse | CycleThinkingLevelResponse | GetAvailableThinkingLevelsResponse | SetSteeringModeResponse | SetFollowUpModeResponse | SetInterruptModeResponse | BashResponse | AbortBashResponse | SetAutoRetryResponse | AbortRetryResponse | GetToolsResponse | SetActiveToolsResponse | GetCommandsResponse | GetAvailableCommandsResponse | SetUpdatesResponse | ShutdownResponse | NewSessionResponse | SwitchSessionResponse | ForkResponse | BranchResponse | CloneResponse | ListSessionsResponse | DeleteSessionResponse | SetSessionNameResponse | GetForkMessagesResponse | GetBranchMessagesResponse | GetEntriesResponse | GetTreeResponse | NavigateTreeResponse | SetLabelResponse | GetMessagesPageResponse | CompactResponse | SetAutoCompactionResponse | ExportHtmlResponse | ReloadResponse | SetSubagentSubscriptionResponse | GetSubagentsResponse | GetSubagentMessagesResponse | SetHostToolsResponse | SetHostUriSchemesResponse | NegotiateProtocolResponse | SetEventFilterResponse | OpenSessionResponse | HandoffResponse | SetTodosResponse | SetFastModeResponse | GetLoginProvidersResponse | LoginResponse | SetLocaleResponse | GetIntegrationsResponse | ErrorResponse;

export type Event = RpcChunkEvent | AgentStartEvent | AgentEndEvent | AgentSettledEvent | TurnStartEvent | TurnEndEvent | MessageStartEvent | MessageUpdateEvent | MessageEndEvent | ToolExecutionStartEvent | ToolExecutionUpdateEvent | ToolExecutionEndEvent | AutoRetryStartEvent | AutoRetryEndEvent | CompactionStartEvent | CompactionEndEvent | BashExecutionUpdateEvent | HostToolCallEvent | HostToolCancelEvent | HostUriRequestEvent | HostUriCancelEvent | ExtensionUiRequestEvent | TtsrTriggeredEvent | TodoReminderEvent | TodoAutoClearEvent | EntryAppendedEvent | SessionInfoChangedEvent | QueueUpdateEvent | ThinkingLevelChangedEvent | SubagentLifecycleEvent | SubagentProgressEvent | SubagentEvent | ExtensionErrorEvent;

/**
 * Give the agent something to do. Answered when the prompt is accepted; its work is over at `agent_settled`.
 * While the agent is busy, `streamingBehavior` says how to queue the message: `followUp`, or `steer` (any other
 * text means `steer`).
 */
export interface PromptCommand {
  type: "prompt";
  id?: unknown;
  message: string;
  images?: ImageContent[] | null;
  streamingBehavior?: string | null;
  /** xcsh: as in `set_locale`. */
  locale?: string | null;
}

/**
 * Queue a message that the agent hears as soon as it can listen: after the current turn, or with the interrupt
 * mode `immediate` after the tool that runs. While the agent is idle the message waits for the next prompt.
 */
export interface SteerCommand {
  type: "steer";
  id?: unknown;
  message: string;
  images?: ImageContent[] | null;
}

/** Queue a message that the agent hears when it would otherwise stop. */
export interface FollowUpCommand {
  type: "follow_up";
  id?: unknown;
  message: string;
  images?: ImageContent[] | null;
}

/** Stop the run. Answered after the run's last event; what had arrived is kept, and so are the queues. */
export interface AbortCommand {
  type: "abort";
  id?: unknown;
}

/** Stop the run, if there is one, then start another with this message. */
export interface AbortAndPromptCommand {
  type: "abort_and_prompt";
  id?: unknown;
  message: string;
  images?: ImageContent[] | null;
}

/** Forget all queued messages; the answer has their texts. */
export interface ClearQueueCommand {
  type: "clear_queue";
  id?: unknown;
}

/** How the session stands. `verbose` adds the system prompt and the tools as the model is told of them. */
export interface GetStateCommand {
  type: "get_state";
  id?: unknown;
  verbose?: boolean | null;
}

/** What the conversation came to: messages, tokens, cost. */
export interface GetSessionStatsCommand {
  type: "get_session_stats";
  id?: unknown;
}

/** The conversation. */
export interface GetMessagesCommand {
  type: "get_messages";
  id?: unknown;
}

/** The text of the last answer; null if there is none. */
export interface GetLastAssistantTextCommand {
  type: "get_last_assistant_text";
  id?: unknown;
}

/** Use another model from the next model call on. The thinking level is fitted to it. */
export interface SetModelCommand {
  type: "set_model";
  id?: unknown;
  /** Also write the value to the user's settings; without it, only this session changes. */
  persist?: boolean | null;
  provider: string;
  modelId: string;
}

/** Use the next of the models given with `--models`, else of all available ones. Null if there is no other. */
export interface CycleModelCommand {
  type: "cycle_model";
  id?: unknown;
}

/** The models for which there are credentials. */
export interface GetAvailableModelsCommand {
  type: "get_available_models";
  id?: unknown;
}

/** How much the model thinks; fitted to what it can. */
export interface SetThinkingLevelCommand {
  type: "set_thinking_level";
  id?: unknown;
  /** Also write the value to the user's settings; without it, only this session changes. */
  persist?: boolean | null;
  level: "high" | "low" | "medium" | "minimal" | "off" | "xhigh";
}

/** The next thinking level; null for a model without reasoning. */
export interface CycleThinkingLevelCommand {
  type: "cycle_thinking_level";
  id?: unknown;
}

/** The thinking levels of the current model. */
export interface GetAvailableThinkingLevelsCommand {
  type: "get_available_thinking_levels";
  id?: unknown;
}

/** How many steering messages a turn takes. */
export interface SetSteeringModeCommand {
  type: "set_steering_mode";
  id?: unknown;
  /** Also write the value to the user's settings; without it, only this session changes. */
  persist?: boolean | null;
  mode: "all" | "one-at-a-time";
}

/** How many follow-ups a turn takes. */
export interface SetFollowUpModeCommand {
  type: "set_follow_up_mode";
  id?: unknown;
  /** Also write the value to the user's settings; without it, only this session changes. */
  persist?: boolean | null;
  mode: "all" | "one-at-a-time";
}

/** Whether steering waits for all tools of a turn, or skips those that have not started. */
export interface SetInterruptModeCommand {
  type: "set_interrupt_mode";
  id?: unknown;
  /** Also write the value to the user's settings; without it, only this session changes. */
  persist?: boolean | null;
  mode: "immediate" | "wait";
}

/**
 * Run a shell command for the user, beside whatever the agent does. Its output comes as `bash_execution_update`
 * while it runs. The model sees it with the next prompt, unless `excludeFromContext` is set. Answered when the
 * command ends.
 */
export interface BashCommand {
  type: "bash";
  id?: unknown;
  command: string;
  excludeFromContext?: boolean | null;
}

/** Stop the latest of the running `bash` commands. */
export interface AbortBashCommand {
  type: "abort_bash";
  id?: unknown;
}

/** Whether a model call that failed in a way that may pass is tried again by itself. */
export interface SetAutoRetryCommand {
  type: "set_auto_retry";
  id?: unknown;
  /** Also write the value to the user's settings; without it, only this session changes. */
  persist?: boolean | null;
  enabled: boolean;
}

/** Give up waiting for the next attempt of a failed model call, if one is waited for. */
export interface AbortRetryCommand {
  type: "abort_retry";
  id?: unknown;
}

/** All tools, and which of them the model may use. */
export interface GetToolsCommand {
  type: "get_tools";
  id?: unknown;
}

/** Choose the tools that the model may use from its next call on. */
export interface SetActiveToolsCommand {
  type: "set_active_tools";
  id?: unknown;
  tools: string[];
}

/**
 * The slash commands: those of extensions, prompt templates, skills. A message that begins with one stands for
 * what it is made of, or runs it.
 */
export interface GetCommandsCommand {
  type: "get_commands";
  id?: unknown;
}

/** The name of `get_commands` in omp. */
export interface GetAvailableCommandsCommand {
  type: "get_available_commands";
  id?: unknown;
}

/** The form of `message_update`: `full` repeats the message so far, `delta` has only what is new. */
export interface SetUpdatesCommand {
  type: "set_updates";
  id?: unknown;
  updates: "delta" | "full";
}

/** Stop the run, answer, and exit with code 0. */
export interface ShutdownCommand {
  type: "shutdown";
  id?: unknown;
}

/** Begin a new session. `parentSession` is the file of the one it comes from, for the record. */
export interface NewSessionCommand {
  type: "new_session";
  id?: unknown;
  parentSession?: string | null;
}

/** Go on with the session in a file. If there is none, a new one will be kept there. */
export interface SwitchSessionCommand {
  type: "switch_session";
  id?: unknown;
  sessionPath: string;
}

/** Go on in a new session with all that came before a message of the user's, whose text is returned. */
export interface ForkCommand {
  type: "fork";
  id?: unknown;
  entryId: string;
}

/** The name of `fork` in omp and xcsh. */
export interface BranchCommand {
  type: "branch";
  id?: unknown;
  entryId: string;
}

/** Go on in a new session that has everything up to here. */
export interface CloneCommand {
  type: "clone";
  id?: unknown;
}

/** The sessions of this working directory, or with `all` of every directory, those that changed last first. */
export interface ListSessionsCommand {
  type: "list_sessions";
  id?: unknown;
  all?: boolean | null;
}

/** Delete a session's file, and the conversations of its sub-agents. One that is in use is not deleted. */
export interface DeleteSessionCommand {
  type: "delete_session";
  id?: unknown;
  sessionPath: string;
}

/** Give the session a name; blanks around it are dropped. */
export interface SetSessionNameCommand {
  type: "set_session_name";
  id?: unknown;
  name: string;
}

/** The messages of the user's on the present branch: where `fork` can go. */
export interface GetForkMessagesCommand {
  type: "get_fork_messages";
  id?: unknown;
}

/** The name of `get_fork_messages` in omp and xcsh. */
export interface GetBranchMessagesCommand {
  type: "get_branch_messages";
  id?: unknown;
}

/** All entries of all branches in the order in which they were added, or those added after the entry `since`. */
export interface GetEntriesCommand {
  type: "get_entries";
  id?: unknown;
  since?: string | null;
}

/** All entries as a tree, and where in it the conversation stands. */
export interface GetTreeCommand {
  type: "get_tree";
  id?: unknown;
}

/**
 * Go on from another entry of the same session; null is its beginning. A message of the user's is gone before,
 * and its text returned. With `summarize` the model is told what happened on the branch that is left. The move
 * lasts with the next entry that is added.
 */
export interface NavigateTreeCommand {
  type: "navigate_tree";
  id?: unknown;
  targetId: string | null;
  summarize?: boolean | null;
  customInstructions?: string | null;
}

/** Bookmark an entry; without a label, take its bookmark away. The answer names the entry that says so. */
export interface SetLabelCommand {
  type: "set_label";
  id?: unknown;
  targetId: string;
  label?: string | null;
}

/**
 * A part of the conversation, oldest messages first: at most `limit` messages (1 to 256, 100 if not given) and
 * about 768 KiB. `nextCursor`, if there is more, is the `cursor` of the next part, for as long as the
 * conversation stays as it is.
 */
export interface GetMessagesPageCommand {
  type: "get_messages_page";
  id?: unknown;
  cursor?: string | null;
  limit?: number | null;
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

/** Whether the conversation is compacted by itself when the model's context is nearly full, or overflows. */
export interface SetAutoCompactionCommand {
  type: "set_auto_compaction";
  id?: unknown;
  /** Also write the value to the user's settings; without it, only this session changes. */
  persist?: boolean | null;
  enabled: boolean;
}

/**
 * Write the session as a page to read: to `outputPath`, or to a file in the working directory. The answer says
 * where.
 */
export interface ExportHtmlCommand {
  type: "export_html";
  id?: unknown;
  outputPath?: string | null;
}

/** Load all extensions anew, without leaving the session. Refused while a run is going on. */
export interface ReloadCommand {
  type: "reload";
  id?: unknown;
}

/**
 * What to be told of sub-agents: nothing (`off`, as in the beginning), `subagent_lifecycle` and
 * `subagent_progress` (`progress`), or also everything that happens in their runs, as `subagent_event`
 * (`events`).
 */
export interface SetSubagentSubscriptionCommand {
  type: "set_subagent_subscription";
  id?: unknown;
  level: string;
}

/**
 * The sub-agents of this session since it was opened, also those that have ended, and those of sub-agents: their
 * ids begin with the id of the one that started them, and a dot.
 */
export interface GetSubagentsCommand {
  type: "get_subagents";
  id?: unknown;
}

/**
 * The conversation of a sub-agent as far as it is written, or what came after the byte `fromByte`. The sub-agent
 * is named by its id, or by its `sessionFile`, also if it ended before this session was opened. Other files are
 * not read.
 */
export interface GetSubagentMessagesCommand {
  type: "get_subagent_messages";
  id?: unknown;
  subagentId?: string | null;
  sessionFile?: string | null;
  fromByte?: number | null;
}

/**
 * Replace the tools that the host runs. They are there from the next model call on, also during a run. A new one
 * is active unless it is `hidden`; one that was there by that name before stays as active as it was. When the
 * model calls one, the host gets `host_tool_call`, and answers with `host_tool_result`.
 */
export interface SetHostToolsCommand {
  type: "set_host_tools";
  id?: unknown;
  tools: HostToolDefinition[];
}

/**
 * Replace the schemes of the URIs that the host answers for. When the model uses `read` or `write` on one, the
 * host gets `host_uri_request`, and answers with `host_uri_result`.
 */
export interface SetHostUriSchemesCommand {
  type: "set_host_uri_schemes";
  id?: unknown;
  schemes: HostUriScheme[];
}

/**
 * Choose version 2 of the protocol: no frame is longer than 1 MiB; longer ones come as `rpc_chunk` frames, and
 * `agent_end` leaves out messages that were told already. Version 1, in which nothing is cut, needs no choosing.
 */
export interface NegotiateProtocolCommand {
  type: "negotiate_protocol";
  id?: unknown;
  protocolVersion: number;
}

/**
 * Send only events of these types; null sends all again. Responses, `prompt_result`, `session_settled` and
 * questions to the host are always sent.
 */
export interface SetEventFilterCommand {
  type: "set_event_filter";
  id?: unknown;
  events: string[] | null;
}

/** Keep sessions in another folder from here on, and go on with the one there that changed last, or begin one. */
export interface OpenSessionCommand {
  type: "open_session";
  id?: unknown;
  sessionDir: string;
}

/** Have the model write down all that matters, and go on in a new session that begins with it. */
export interface HandoffCommand {
  type: "handoff";
  id?: unknown;
  customInstructions?: string | null;
}

/**
 * Put a list in the place of the model's todos: phases `{id?, name, tasks: [{id?, content, status?, notes?,
 * details?}]}`. Missing ids and statuses are filled in, one task at most is in progress. The answer has the list
 * as it is then.
 */
export interface SetTodosCommand {
  type: "set_todos";
  id?: unknown;
  phases: GivenPhase[];
}

/**
 * Ask for faster answers where the provider sells them. No model here has such a mode, so it cannot be turned
 * on.
 */
export interface SetFastModeCommand {
  type: "set_fast_mode";
  id?: unknown;
  enabled: boolean;
}

/** The providers of models, and which of them have a key. */
export interface GetLoginProvidersCommand {
  type: "get_login_providers";
  id?: unknown;
}

/**
 * Log in at a provider: the user enters a code on the page that an `open_url` request names. Answered when they
 * have, and the token is kept. For a provider without a login, an error that says how to give its key.
 */
export interface LoginCommand {
  type: "login";
  id?: unknown;
  providerId: string;
}

/**
 * The language tag of the user, such as `ja` or `pt-BR`: the model is told to answer in that language. An empty
 * one takes it back. `locale` in a prompt does the same.
 */
export interface SetLocaleCommand {
  type: "set_locale";
  id?: unknown;
  locale: string;
}

/** The services that xcsh is connected to; there are none here. */
export interface GetIntegrationsCommand {
  type: "get_integrations";
  id?: unknown;
}

/** How far a `host_tool_call` has come. It is passed on as `tool_execution_update`. */
export interface HostToolUpdateAnswer {
  type: "host_tool_update";
  /** That of the frame which asked. */
  id: string;
  /** All there is so far, not only what is new. */
  partialResult: ToolResult;
}

/** What came of a `host_tool_call`. With `isError`, the texts of the content, a line each, are the error. */
export interface HostToolResultAnswer {
  type: "host_tool_result";
  /** That of the frame which asked. */
  id: string;
  result: ToolResult;
  isError?: boolean | null;
}

/** What came of a `host_uri_request`. With `isError`, `error` (or else `content`) says why it failed. */
export interface HostUriResultAnswer {
  type: "host_uri_result";
  /** That of the frame which asked. */
  id: string;
  /** Required after a `read`. */
  content?: string | null;
  /** `text/plain`, if left out. */
  contentType?: string | null;
  /** Remarks for the model, shown after the tool's result. */
  notes?: string[] | null;
  /** Instead of what the scheme says. */
  immutable?: boolean | null;
  isError?: boolean | null;
  error?: string | null;
}

/**
 * The answer to an `extension_ui_request`: `value` to `select`, `input` and `editor`, `confirmed` to `confirm`,
 * or `cancelled` to any of them. One without any of these counts as `cancelled`, and a response says what is
 * wrong with it.
 */
export interface ExtensionUiResponseAnswer {
  type: "extension_ui_response";
  /** That of the frame which asked. */
  id: string;
  value?: string | null;
  confirmed?: boolean | null;
  /** The question was dismissed. */
  cancelled?: boolean | null;
  /** With `cancelled`: because nobody answered it in time. */
  timedOut?: boolean | null;
}

/** `prompt` was carried out. */
export interface PromptResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "prompt";
  success: true;
}

/** `steer` was carried out. */
export interface SteerResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "steer";
  success: true;
}

/** `follow_up` was carried out. */
export interface FollowUpResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "follow_up";
  success: true;
}

/** `abort` was carried out. */
export interface AbortResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "abort";
  success: true;
}

/** `abort_and_prompt` was carried out. */
export interface AbortAndPromptResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "abort_and_prompt";
  success: true;
}

/** `clear_queue` was carried out. */
export interface ClearQueueResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "clear_queue";
  success: true;
  data: ClearedQueue;
}

/** `get_state` was carried out. */
export interface GetStateResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "get_state";
  success: true;
  data: State;
}

/** `get_session_stats` was carried out. */
export interface GetSessionStatsResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "get_session_stats";
  success: true;
  data: SessionStats;
}

/** `get_messages` was carried out. */
export interface GetMessagesResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "get_messages";
  success: true;
  data: Messages;
}

/** `get_last_assistant_text` was carried out. */
export interface GetLastAssistantTextResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "get_last_assistant_text";
  success: true;
  data: LastText;
}

/** `set_model` was carried out. */
export interface SetModelResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "set_model";
  success: true;
  data: Model;
}

/** `cycle_model` was carried out. */
export interface CycleModelResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "cycle_model";
  success: true;
  data: CycledModel | null;
}

/** `get_available_models` was carried out. */
export interface GetAvailableModelsResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "get_available_models";
  success: true;
  data: AvailableModels;
}

/** `set_thinking_level` was carried out. */
export interface SetThinkingLevelResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "set_thinking_level";
  success: true;
}

/** `cycle_thinking_level` was carried out. */
export interface CycleThinkingLevelResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "cycle_thinking_level";
  success: true;
  data: CycledLevel | null;
}

/** `get_available_thinking_levels` was carried out. */
export interface GetAvailableThinkingLevelsResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "get_available_thinking_levels";
  success: true;
  data: ThinkingLevels;
}

/** `set_steering_mode` was carried out. */
export interface SetSteeringModeResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "set_steering_mode";
  success: true;
}

/** `set_follow_up_mode` was carried out. */
export interface SetFollowUpModeResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "set_follow_up_mode";
  success: true;
}

/** `set_interrupt_mode` was carried out. */
export interface SetInterruptModeResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "set_interrupt_mode";
  success: true;
}

/** `bash` was carried out. */
export interface BashResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "bash";
  success: true;
  data: BashResult;
}

/** `abort_bash` was carried out. */
export interface AbortBashResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "abort_bash";
  success: true;
}

/** `set_auto_retry` was carried out. */
export interface SetAutoRetryResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "set_auto_retry";
  success: true;
}

/** `abort_retry` was carried out. */
export interface AbortRetryResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "abort_retry";
  success: true;
}

/** `get_tools` was carried out. */
export interface GetToolsResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "get_tools";
  success: true;
  data: Tools;
}

/** `set_active_tools` was carried out. */
export interface SetActiveToolsResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "set_active_tools";
  success: true;
  data: ActiveTools;
}

/** `get_commands` was carried out. */
export interface GetCommandsResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "get_commands";
  success: true;
  data: SlashCommands;
}

/** `get_available_commands` was carried out. */
export interface GetAvailableCommandsResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "get_available_commands";
  success: true;
  data: SlashCommands;
}

/** `set_updates` was carried out. */
export interface SetUpdatesResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "set_updates";
  success: true;
}

/** `shutdown` was carried out. */
export interface ShutdownResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "shutdown";
  success: true;
}

/** `new_session` was carried out. */
export interface NewSessionResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "new_session";
  success: true;
  data: Switched;
}

/** `switch_session` was carried out. */
export interface SwitchSessionResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "switch_session";
  success: true;
  data: Switched;
}

/** `fork` was carried out. */
export interface ForkResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "fork";
  success: true;
  data: Forked;
}

/** `branch` was carried out. */
export interface BranchResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "branch";
  success: true;
  data: Forked;
}

/** `clone` was carried out. */
export interface CloneResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "clone";
  success: true;
  data: Switched;
}

/** `list_sessions` was carried out. */
export interface ListSessionsResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "list_sessions";
  success: true;
  data: SessionList;
}

/** `delete_session` was carried out. */
export interface DeleteSessionResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "delete_session";
  success: true;
}

/** `set_session_name` was carried out. */
export interface SetSessionNameResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "set_session_name";
  success: true;
}

/** `get_fork_messages` was carried out. */
export interface GetForkMessagesResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "get_fork_messages";
  success: true;
  data: ForkMessages;
}

/** `get_branch_messages` was carried out. */
export interface GetBranchMessagesResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "get_branch_messages";
  success: true;
  data: ForkMessages;
}

/** `get_entries` was carried out. */
export interface GetEntriesResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "get_entries";
  success: true;
  data: Entries;
}

/** `get_tree` was carried out. */
export interface GetTreeResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "get_tree";
  success: true;
  data: Tree;
}

/** `navigate_tree` was carried out. */
export interface NavigateTreeResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "navigate_tree";
  success: true;
  data: Navigated;
}

/** `set_label` was carried out. */
export interface SetLabelResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "set_label";
  success: true;
  data: Labelled;
}

/** `get_messages_page` was carried out. */
export interface GetMessagesPageResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "get_messages_page";
  success: true;
  data: MessagesPage;
}

/** `compact` was carried out. */
export interface CompactResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "compact";
  success: true;
  data: CompactionResult;
}

/** `set_auto_compaction` was carried out. */
export interface SetAutoCompactionResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "set_auto_compaction";
  success: true;
}

/** `export_html` was carried out. */
export interface ExportHtmlResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "export_html";
  success: true;
  data: Exported;
}

/** `reload` was carried out. */
export interface ReloadResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "reload";
  success: true;
  data: Reloaded;
}

/** `set_subagent_subscription` was carried out. */
export interface SetSubagentSubscriptionResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "set_subagent_subscription";
  success: true;
  data: SubagentSubscription;
}

/** `get_subagents` was carried out. */
export interface GetSubagentsResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "get_subagents";
  success: true;
  data: Subagents;
}

/** `get_subagent_messages` was carried out. */
export interface GetSubagentMessagesResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "get_subagent_messages";
  success: true;
  data: SubagentMessages;
}

/** `set_host_tools` was carried out. */
export interface SetHostToolsResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "set_host_tools";
  success: true;
  data: HostToolNames;
}

/** `set_host_uri_schemes` was carried out. */
export interface SetHostUriSchemesResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "set_host_uri_schemes";
  success: true;
  data: HostUriSchemes;
}

/** `negotiate_protocol` was carried out. */
export interface NegotiateProtocolResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "negotiate_protocol";
  success: true;
  data: Negotiated;
}

/** `set_event_filter` was carried out. */
export interface SetEventFilterResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "set_event_filter";
  success: true;
  data: EventFilter;
}

/** `open_session` was carried out. */
export interface OpenSessionResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "open_session";
  success: true;
  data: OpenedSession;
}

/** `handoff` was carried out. */
export interface HandoffResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "handoff";
  success: true;
  data: HandedOff;
}

/** `set_todos` was carried out. */
export interface SetTodosResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "set_todos";
  success: true;
  data: TodoPhases;
}

/** `set_fast_mode` was carried out. */
export interface SetFastModeResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "set_fast_mode";
  success: true;
  data: FastMode;
}

/** `get_login_providers` was carried out. */
export interface GetLoginProvidersResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "get_login_providers";
  success: true;
  data: LoginProviders;
}

/** `login` was carried out. */
export interface LoginResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "login";
  success: true;
}

/** `set_locale` was carried out. */
export interface SetLocaleResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "set_locale";
  success: true;
  data: Locale;
}

/** `get_integrations` was carried out. */
export interface GetIntegrationsResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  command: "get_integrations";
  success: true;
  data: Integrations;
}

/** A command was not carried out, and changed nothing. */
export interface ErrorResponse {
  type: "response";
  /** That of the command, if it had one. */
  id?: unknown;
  /** Its name; `parse` if the line could not be read. */
  command: string;
  success: false;
  /** What went wrong, for people. */
  error: string;
  /** A short name of that, where programs are expected to tell it apart. */
  code?: string;
}

/**
 * A piece of a frame that exceeds `--max-frame-bytes`: decode the `data` (base64) of all `count` pieces of a
 * `chunkId` and join them; the result is the frame, of `byteLength` bytes.
 */
export interface RpcChunkEvent {
  type: "rpc_chunk";
  chunkId: string;
  index: number;
  count: number;
  byteLength: number;
  data: string;
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

/** Nothing more will happen by itself. */
export interface AgentSettledEvent {
  type: "agent_settled";
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

/** All of a running tool's output so far, not only what is new. */
export interface ToolExecutionUpdateEvent {
  type: "tool_execution_update";
  toolCallId: string;
  toolName: string;
  args: Record<string, unknown>;
  partialResult: ToolResult;
}

/** A tool call has its result; pi in 2025 has the text alone, if it failed. */
export interface ToolExecutionEndEvent {
  type: "tool_execution_end";
  toolCallId: string;
  toolName: string;
  result: ToolResult | string;
  isError: boolean;
}

/** A model call failed in a way that may pass; after `delayMs` it is tried again. */
export interface AutoRetryStartEvent {
  type: "auto_retry_start";
  attempt: number;
  maxAttempts: number;
  delayMs: number;
  errorMessage: string;
}

/** The attempts are over: one of them succeeded, or all failed, or they were called off. */
export interface AutoRetryEndEvent {
  type: "auto_retry_end";
  success: boolean;
  attempt: number;
  finalError?: string;
}

/** The older part of the conversation is being replaced by a summary (pi). */
export interface CompactionStartEvent {
  type: "compaction_start";
  reason: "manual" | "overflow" | "threshold";
}

/** It was replaced, or, without a `result`, is as it was. With `willRetry` the run goes on (pi). */
export interface CompactionEndEvent {
  type: "compaction_end";
  reason: "manual" | "overflow" | "threshold";
  aborted: boolean;
  willRetry: boolean;
  result?: CompactionResult;
  errorMessage?: string;
}

/** New output of a `bash` command of the host's; `id` is that command's. */
export interface BashExecutionUpdateEvent {
  type: "bash_execution_update";
  id?: unknown;
  delta: string;
}

/** The model calls a tool of the host's. The arguments satisfy the tool's schema. Answer with `host_tool_result`. */
export interface HostToolCallEvent {
  type: "host_tool_call";
  id: string;
  toolCallId: string;
  toolName: string;
  arguments: Record<string, unknown>;
}

/**
 * The `host_tool_call` with the id `targetId` has been given up: the run was aborted, or the tool's time is
 * over. An answer comes too late from here on, and is ignored.
 */
export interface HostToolCancelEvent {
  type: "host_tool_cancel";
  id: string;
  targetId: string;
}

/** The model reads, or writes `content` to, a URI of the host's. Answer with `host_uri_result`. */
export interface HostUriRequestEvent {
  type: "host_uri_request";
  id: string;
  operation: "read" | "write";
  url: string;
  content?: string;
}

/** The `host_uri_request` with the id `targetId` has been given up. */
export interface HostUriCancelEvent {
  type: "host_uri_cancel";
  id: string;
  targetId: string;
}

/**
 * Something for the person behind the host. `method` says what, and which of the fields there are. `select`,
 * `confirm`, `input` and `editor` ask: answer with `extension_ui_response`. The others show, and are not
 * answered.
 */
export interface ExtensionUiRequestEvent {
  type: "extension_ui_request";
  id: string;
  method: "cancel" | "confirm" | "editor" | "input" | "notify" | "open_url" | "select" | "setStatus" | "setTitle" | "setWidget" | "set_editor_text";
  /** select, confirm, input, editor: what to ask. setTitle: what to call the window. */
  title?: string;
  /** select: what to choose from. */
  options?: string[];
  /** confirm: more about it; may be empty. notify: what to show. */
  message?: string;
  /** input: shown while nothing has been typed. */
  placeholder?: string;
  /** editor: the text to begin with. */
  prefill?: string;
  /**
   * select, confirm, input: milliseconds after which nobody waits for an answer any more; none: as long as it
   * takes.
   */
  timeout?: number;
  /** cancel: the request that nobody waits for any more. */
  targetId?: string;
  /** notify: `info`, if left out. */
  notifyType?: "error" | "info" | "warning";
  /** setStatus: which part of the status. */
  statusKey?: string;
  /** setStatus: what to show there; left out, nothing is shown there any more. */
  statusText?: string;
  /** setWidget: which of the widgets. */
  widgetKey?: string;
  /** setWidget: what it shows; left out, it goes away. */
  widgetLines?: string[];
  /** setWidget: `aboveEditor`, if left out. */
  widgetPlacement?: "aboveEditor" | "belowEditor";
  /** set_editor_text: what the editor is to hold. */
  text?: string;
  /** open_url: a page to open. */
  url?: string;
  /** open_url: what to do there. */
  instructions?: string;
}

/** What the model wrote broke these stream rules. The answer ends here; the model is told and asked again. */
export interface TtsrTriggeredEvent {
  type: "ttsr_triggered";
  rules: Rule[];
}

/** The model stopped although there is something left to do. It is told so, and the run goes on. */
export interface TodoReminderEvent {
  type: "todo_reminder";
  todos: TodoTask[];
  attempt: number;
  maxAttempts: number;
}

/** Todos that had been done for a while went from the list. */
export interface TodoAutoClearEvent {
  type: "todo_auto_clear";
}

/** The session has an entry that no other event tells of, such as one that hides a failed answer from the model. */
export interface EntryAppendedEvent {
  type: "entry_appended";
  entry: SessionEntry;
}

/** The session has another name. */
export interface SessionInfoChangedEvent {
  type: "session_info_changed";
  name?: string;
}

/**
 * The texts of all queued messages, after a change. While they are long, changes that follow each other closely
 * share one.
 */
export interface QueueUpdateEvent {
  type: "queue_update";
  steering: string[];
  followUp: string[];
}

export interface ThinkingLevelChangedEvent {
  type: "thinking_level_changed";
  level: "high" | "low" | "medium" | "minimal" | "off" | "xhigh";
}

/** A sub-agent started or ended. Sent to hosts that asked for it with `set_subagent_subscription`. */
export interface SubagentLifecycleEvent {
  type: "subagent_lifecycle";
  payload: LifecyclePayload;
}

/** What a sub-agent has done so far: five times a second at most, and once more at its end. Sent on request only. */
export interface SubagentProgressEvent {
  type: "subagent_progress";
  payload: ProgressPayload;
}

/** Something happened in the run of a sub-agent. Sent on request only. */
export interface SubagentEvent {
  type: "subagent_event";
  payload: SubagentEventPayload;
}

/**
 * An extension failed; the run goes on. `extensionPath` is `session` when the session itself has something to
 * report: its file could not be written (`event` is `write`; what could not be written is kept and tried again),
 * or something was wrong with the file that was opened (`open`).
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
  extractedText?: string;
  preview?: string;
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

/** What happened on the branch that ended at `from_id`, before the conversation moved elsewhere. */
export interface BranchSummaryEntry {
  type: "branch_summary";
  id: string;
  /** The entry before this one; null begins a conversation. */
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

export interface ClearedQueue {
  steering: string[];
  followUp: string[];
}

/** What came before `first_kept_entry_id` is told to the model as a summary. Its own id there: nothing is kept. */
export interface CompactionEntry {
  type: "compaction";
  id: string;
  /** The entry before this one; null begins a conversation. */
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

/** A finished compaction. Its JSON is the CompactionResult of pi; `shortSummary` is an addition of omp's. */
export interface CompactionResult {
  summary: string;
  firstKeptEntryId: string;
  tokensBefore: number;
  /** FileLists; an extension that wrote the summary may keep something else there. */
  details: unknown;
  /** For the summary and the messages that stay. */
  estimatedTokensAfter?: number;
  /** Of all requests that the summary took. */
  usage?: Usage;
  shortSummary?: string;
}

export interface CompactionSummaryMessage {
  role: "compactionSummary";
  summary: string;
  tokensBefore: number;
  timestamp: number;
}

/** The model no longer sees the content of an earlier entry, but `replacement`; without one, nothing. */
export interface ContextEditEntry {
  type: "context_edit";
  id: string;
  /** The entry before this one; null begins a conversation. */
  parentId: string | null;
  /** ISO 8601 with milliseconds, in UTC. */
  timestamp: string;
  targetId: string;
  replacement: Replacement | null;
}

/** How full the model's context is; null while that is not known. */
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
}

/** State of an extension or of the agent itself; the model is not told. */
export interface CustomEntry {
  type: "custom";
  id: string;
  /** The entry before this one; null begins a conversation. */
  parentId: string | null;
  /** ISO 8601 with milliseconds, in UTC. */
  timestamp: string;
  customType: string;
  data?: unknown;
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

/** What an extension tells the model. */
export interface CustomMessageEntry {
  type: "custom_message";
  id: string;
  /** The entry before this one; null begins a conversation. */
  parentId: string | null;
  /** ISO 8601 with milliseconds, in UTC. */
  timestamp: string;
  customType: string;
  content?: unknown;
  display: boolean;
  details?: unknown;
}

export interface CycledLevel {
  level: "high" | "low" | "medium" | "minimal" | "off" | "xhigh";
}

export interface CycledModel {
  model: Model;
  isScoped: boolean;
  thinkingLevel?: "high" | "low" | "medium" | "minimal" | "off" | "xhigh";
}

/** Entries as in the session's file. */
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
  /** Whether the present model has such a mode. */
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
  /** What the user said at that place; left out if an extension forbade to go there. */
  text?: string;
}

/** Tasks that belong together, as a host gives them. */
export interface GivenPhase {
  name: string;
  tasks: GivenTask[];
  id?: string | null;
}

/** A task as a host gives it. An id that is missing or was given before is exchanged for a new one. */
export interface GivenTask {
  content: string;
  id?: string | null;
  status?: "abandoned" | "completed" | "in_progress" | "pending" | null;
  notes?: string | null;
  details?: string | null;
}

export interface HandedOff {
  /** The file of the new session; absent if sessions are not kept. */
  savedPath?: string;
}

/** The first line of a session file. `parent_session` is the file this one was forked from. */
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
  /** Not empty, and not that of any other tool. */
  name: string;
  /** What the model is told of it; not empty. */
  description: string;
  /** The JSON Schema of its arguments. They are checked against it before the host is asked. */
  parameters: Record<string, unknown>;
  /** A few words for people; the name, if left out. */
  label?: string | null;
  /** Keep it from the model until `set_active_tools` names it. */
  hidden?: boolean | null;
  /** Milliseconds after which a call is given up; 0, or left out: never. */
  timeoutMs?: number | null;
}

export interface HostToolNames {
  toolNames: string[];
}

/** URIs that the host answers for. */
export interface HostUriScheme {
  /**
   * What stands before `://`: a letter, then letters, digits, `+`, `.` and `-`. Upper and lower case are the
   * same.
   */
  scheme: string;
  /** A few words for people. */
  description?: string | null;
  /** Whether `write` may be used on them, and not only `read`. */
  writable?: boolean | null;
  /** Whether what is there never changes; the result's `details` say so. */
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

export interface Integrations {
  integrations: (Record<string, unknown>)[];
}

/** A bookmark on an entry; without a label it takes an earlier one away. */
export interface LabelEntry {
  type: "label";
  id: string;
  /** The entry before this one; null begins a conversation. */
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
  /** Whether one can log in with `login`. Keys of others are given in the environment or in auth.json. */
  available: boolean;
  /** Whether there is a key for it. */
  authenticated: boolean;
}

export interface LoginProviders {
  providers: LoginProvider[];
}

export type Message = UserMessage | AssistantMessage | ToolResultMessage | BashExecutionMessage | CustomMessage | BranchSummaryMessage | CompactionSummaryMessage;

export interface MessageEntry {
  type: "message";
  id: string;
  /** The entry before this one; null begins a conversation. */
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
  /** How each thinking level is called by this model's provider; null marks a level it lacks. */
  thinkingLevelMap?: Record<string, string | null>;
  /** Departures of an imitator from the API it imitates; read by the adapter. */
  compat?: Record<string, unknown>;
}

export interface ModelChangeEntry {
  type: "model_change";
  id: string;
  /** The entry before this one; null begins a conversation. */
  parentId: string | null;
  /** ISO 8601 with milliseconds, in UTC. */
  timestamp: string;
  provider: string;
  modelId: string;
}

export interface Navigated {
  /** True if the summary was aborted; then the conversation stands where it stood. */
  cancelled: boolean;
  leafId: string | null;
  /** What the user said at the target, to be said anew. */
  editorText?: string;
  /** The entry of the branch's summary. */
  summaryEntryId?: string;
}

export interface Negotiated {
  protocolVersion: number;
}

export interface OpenedSession {
  /** True if an extension forbade it. Then nothing has changed, and the rest is left out. */
  cancelled: boolean;
  /** True if the folder had a session to go on with. */
  resumed?: boolean;
  sessionId?: string;
  sessionFile?: string;
}

/** An entry of a type, or in a form, that is not known here. It keeps its place and its JSON. */
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

/** A tool call that has ended. `args` is a short form of its arguments. */
export interface RecentTool {
  tool: string;
  args: string;
  endMs: number;
}

export interface Reloaded {
  /** The names of the extensions that there are now. */
  extensions: string[];
}

export interface Replacement {
  content: unknown;
}

/** A rule as hosts see it in `ttsr_triggered`. What its file does not say is left out. */
export interface Rule {
  name: string;
  path: string;
  /** What the model is told. */
  content: string;
  _source: RuleSource;
  alwaysApply: boolean;
  description?: string;
  /** The files it is about: with globs, only calls of tools that name such a file can match. */
  globs?: string[];
  /**
   * Regular expressions, one of which has to match. A rule without any is never compared with what a model
   * writes.
   */
  condition?: string[];
  scope?: string[];
  interruptMode?: "always" | "never" | "prose-only" | "tool-only";
  repeatMode?: "after-gap" | "once";
  repeatGap?: number;
}

/** Where a rule comes from, as hosts of omp know it. */
export interface RuleSource {
  provider: string;
  providerName: string;
  path: string;
  level: "project" | "user";
}

export type SessionEntry = MessageEntry | ModelChangeEntry | ThinkingLevelChangeEntry | CompactionEntry | BranchSummaryEntry | CustomEntry | CustomMessageEntry | LabelEntry | SessionInfoEntry | UsageEntry | ContextEditEntry | OtherEntry;

/** A session as a listing shows it. Times are milliseconds since the epoch. */
export interface SessionInfo {
  path: string;
  id?: string;
  cwd?: string;
  name?: string;
  created?: number;
  modified?: number;
  /** How many messages all branches have together; null for a file too long to be read whole. */
  messageCount?: number;
  /** What the user said first. */
  firstMessage?: string;
  parentSession?: string;
  /** Why the file cannot be read; then only its path and the time of its last change are known. */
  problem?: string;
}

export interface SessionInfoEntry {
  type: "session_info";
  id: string;
  /** The entry before this one; null begins a conversation. */
  parentId: string | null;
  /** ISO 8601 with milliseconds, in UTC. */
  timestamp: string;
  name?: string | null;
}

export interface SessionList {
  sessions: SessionInfo[];
}

/** Sums over the conversation; `cost` is in US dollars. */
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

/** What a prompt can begin with, such as `/name`. */
export interface SlashCommand {
  name: string;
  description: string;
  /** `extension`: it runs code of an extension; `prompt`: a template; `skill`. */
  source: string;
  sourceInfo: SourceInfo;
}

export interface SlashCommands {
  commands: SlashCommand[];
}

/** Where something of the user's comes from. */
export interface SourceInfo {
  path: string;
  /** `auto`: found in a usual folder; `local`: named in the settings; `cli`: named on the command line. */
  source: string;
  scope: "project" | "temporary" | "user";
  origin: "package" | "top-level";
  /** The folder of configuration that it belongs to. */
  baseDir?: string;
}

export interface State {
  model: Model | null;
  isStreaming: boolean;
  /**
   * Whether nothing more will happen by itself: the last event about that was `session_settled`, or there was
   * none yet.
   */
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
  thinkingLevel?: "high" | "low" | "medium" | "minimal" | "off" | "xhigh";
  sessionFile?: string;
  sessionName?: string;
  systemPrompt?: string;
  dumpTools?: ToolSpec[];
}

/** What a sub-agent has done so far. Long texts are cut. */
export interface SubagentActivity {
  index: number;
  id: string;
  agent: string;
  agentSource: "bundled" | "project" | "user";
  status: "aborted" | "completed" | "failed" | "pending" | "running";
  /** What it was told, and the part of that which is its own. */
  task: string;
  assignment: string;
  description: string;
  /** Its last tool calls, oldest first. */
  recentTools: RecentTool[];
  /** The last lines that it said. */
  recentOutput: string[];
  toolCount: number;
  /** Model calls that were answered. */
  requests: number;
  /** Tokens and US dollars, those of its own sub-agents included. */
  tokens: number;
  cost: number;
  durationMs: number;
  /** `provider/id` of its model; absent before it starts. */
  resolvedModel?: string;
}

export interface SubagentEventPayload {
  id: string;
  /** The frame, as it would be if the sub-agent's run were that of the session itself. */
  event: Event;
}

/**
 * `entries` are complete lines of the file, its header included; `messages` those that they hold. `nextByte` is
 * the `fromByte` of the next piece.
 */
export interface SubagentMessages {
  sessionFile: string;
  fromByte: number;
  nextByte: number;
  /** Whether the file was shorter than `fromByte`, so that this begins with its first line. */
  reset: boolean;
  entries: (Header | MessageEntry | ModelChangeEntry | ThinkingLevelChangeEntry | CompactionEntry | BranchSummaryEntry | CustomEntry | CustomMessageEntry | LabelEntry | SessionInfoEntry | UsageEntry | ContextEditEntry | OtherEntry)[];
  messages: Message[];
}

/** How a sub-agent stands. `last_update` is in milliseconds since the epoch. */
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
  level: string;
}

export interface Subagents {
  subagents: SubagentSnapshot[];
}

export interface Switched {
  /** True if an extension forbade it; then nothing has changed. */
  cancelled: boolean;
  /** True if there was no session in that file, so that a new one will be kept there. */
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

export interface ThinkingLevelChangeEntry {
  type: "thinking_level_change";
  id: string;
  /** The entry before this one; null begins a conversation. */
  parentId: string | null;
  /** ISO 8601 with milliseconds, in UTC. */
  timestamp: string;
  thinkingLevel: string;
}

export interface ThinkingLevels {
  levels: ("high" | "low" | "medium" | "minimal" | "off" | "xhigh")[];
}

export interface ThinkingStart {
  type: "thinking_start";
  contentIndex: number;
  /** The message so far; left out in delta form. */
  partial?: AssistantMessage;
}

export interface TodoPhase {
  id: string;
  name: string;
  tasks: TodoTask[];
}

export interface TodoPhases {
  todoPhases: TodoPhase[];
}

export interface TodoTask {
  id: string;
  content: string;
  status: "abandoned" | "completed" | "in_progress" | "pending";
  /** Context worth remembering. */
  notes?: string;
  /** How it is to be done; of interest while it is in progress. */
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

/** What a tool gives back: `content` for the model, `details` for the host. */
export interface ToolResult {
  content: UserBlock[];
  details?: Record<string, unknown> | null;
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

/** A tool as the model is told of it. */
export interface ToolSpec {
  name: string;
  description: string;
  parameters: Record<string, unknown>;
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

export interface Tools {
  tools: ToolInfo[];
}

/** Nodes `{entry, children, label?, labelTimestamp?}`, nested as deeply as the conversation is long. */
export interface Tree {
  tree: TreeNode[];
  leafId: string | null;
}

/** An entry, with those that came after it, oldest first. */
export interface TreeNode {
  entry: SessionEntry;
  children: TreeNode[];
  label?: string;
  labelTimestamp?: string;
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

/** Tokens that were spent beside the model's answers, such as those of a sub-agent. `note` says for what. */
export interface UsageEntry {
  type: "usage";
  id: string;
  /** The entry before this one; null begins a conversation. */
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
  attachments?: Attachment[];
}

/** By the name of a command: the command, and the response if it was carried out. */
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
