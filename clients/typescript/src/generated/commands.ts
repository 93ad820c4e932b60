// `make generate` writes this file from the declarations in src/fairlead/protocol. Do not edit.
import type { Commands } from "./family.js";
import type { RequestOptions } from "../pending.js";

export type CommandName = keyof Commands;
/** The fields of a command, without its name and its id. */
export type CommandParams<N extends CommandName> = Omit<Commands[N]["command"], "type" | "id">;
/** The `data` of a successful response. */
export type CommandData<N extends CommandName> = Commands[N]["response"] extends { data: infer D } ? D : void;

/** A method for each command. */
export abstract class CommandMethods {
  /** Sends a command and returns the `data` of its response. */
  abstract request<N extends CommandName>(name: N, params: CommandParams<N>, options?: RequestOptions): Promise<CommandData<N>>;

  /**
   * Queue a message for the current run. The model gets it after the current turn or, with the interrupt mode
   * `immediate`, after the tool that is running. If no run is in progress, the message waits for the next
   * prompt.
   */
  steer(params: CommandParams<"steer">, options?: RequestOptions): Promise<CommandData<"steer">> {
    return this.request("steer", params, options);
  }

  /** Queue a message that the model gets when the run would otherwise end. */
  followUp(params: CommandParams<"follow_up">, options?: RequestOptions): Promise<CommandData<"follow_up">> {
    return this.request("follow_up", params, options);
  }

  /**
   * Stop the run. The response follows the last event of the run. The part of the answer that has arrived is
   * kept, and so are the queues.
   */
  abort(params: CommandParams<"abort"> = {}, options?: RequestOptions): Promise<CommandData<"abort">> {
    return this.request("abort", params, options);
  }

  /** Remove all queued messages. The response contains their texts. */
  clearQueue(params: CommandParams<"clear_queue"> = {}, options?: RequestOptions): Promise<CommandData<"clear_queue">> {
    return this.request("clear_queue", params, options);
  }

  /** Get the state of the session. `verbose` adds the system prompt and the tools as the model sees them. */
  getState(params: CommandParams<"get_state"> = {}, options?: RequestOptions): Promise<CommandData<"get_state">> {
    return this.request("get_state", params, options);
  }

  /** Get totals of the session: messages, tokens, cost. */
  getSessionStats(params: CommandParams<"get_session_stats"> = {}, options?: RequestOptions): Promise<CommandData<"get_session_stats">> {
    return this.request("get_session_stats", params, options);
  }

  /** Get the messages of the conversation. */
  getMessages(params: CommandParams<"get_messages"> = {}, options?: RequestOptions): Promise<CommandData<"get_messages">> {
    return this.request("get_messages", params, options);
  }

  /** Get the text of the last answer, or null if there is none. */
  getLastAssistantText(params: CommandParams<"get_last_assistant_text"> = {}, options?: RequestOptions): Promise<CommandData<"get_last_assistant_text">> {
    return this.request("get_last_assistant_text", params, options);
  }

  /**
   * Use another model, starting with the next model call. A thinking level that the model lacks becomes the
   * nearest one.
   */
  setModel(params: CommandParams<"set_model">, options?: RequestOptions): Promise<CommandData<"set_model">> {
    return this.request("set_model", params, options);
  }

  /**
   * Switch to the next model of `--models` or, without that flag, of all available ones. Null if there is no
   * other.
   */
  cycleModel(params: CommandParams<"cycle_model"> = {}, options?: RequestOptions): Promise<CommandData<"cycle_model">> {
    return this.request("cycle_model", params, options);
  }

  /** List the models for which there are credentials. */
  getAvailableModels(params: CommandParams<"get_available_models"> = {}, options?: RequestOptions): Promise<CommandData<"get_available_models">> {
    return this.request("get_available_models", params, options);
  }

  /**
   * Set how much the model thinks. A level that the model lacks becomes the nearest one, which the response
   * names. `auto` is the default level.
   */
  setThinkingLevel(params: CommandParams<"set_thinking_level">, options?: RequestOptions): Promise<CommandData<"set_thinking_level">> {
    return this.request("set_thinking_level", params, options);
  }

  /** Switch to the next thinking level. Null for a model without reasoning. */
  cycleThinkingLevel(params: CommandParams<"cycle_thinking_level"> = {}, options?: RequestOptions): Promise<CommandData<"cycle_thinking_level">> {
    return this.request("cycle_thinking_level", params, options);
  }

  /** List the thinking levels of the current model. */
  getAvailableThinkingLevels(params: CommandParams<"get_available_thinking_levels"> = {}, options?: RequestOptions): Promise<CommandData<"get_available_thinking_levels">> {
    return this.request("get_available_thinking_levels", params, options);
  }

  /** Set how many steering messages a turn takes from the queue. */
  setSteeringMode(params: CommandParams<"set_steering_mode">, options?: RequestOptions): Promise<CommandData<"set_steering_mode">> {
    return this.request("set_steering_mode", params, options);
  }

  /** Set how many follow-up messages a turn takes from the queue. */
  setFollowUpMode(params: CommandParams<"set_follow_up_mode">, options?: RequestOptions): Promise<CommandData<"set_follow_up_mode">> {
    return this.request("set_follow_up_mode", params, options);
  }

  /** Set whether a steering message waits for all tools of a turn or skips those that have not started. */
  setInterruptMode(params: CommandParams<"set_interrupt_mode">, options?: RequestOptions): Promise<CommandData<"set_interrupt_mode">> {
    return this.request("set_interrupt_mode", params, options);
  }

  /**
   * Run a shell command for the user, independently of any run. `bash_execution_update` events carry its output
   * while it runs. The model sees the output with the next prompt, unless `excludeFromContext` is set. The
   * response arrives when the command ends.
   */
  bash(params: CommandParams<"bash">, options?: RequestOptions): Promise<CommandData<"bash">> {
    return this.request("bash", params, options);
  }

  /** Stop the `bash` command that was started last. */
  abortBash(params: CommandParams<"abort_bash"> = {}, options?: RequestOptions): Promise<CommandData<"abort_bash">> {
    return this.request("abort_bash", params, options);
  }

  /** Turn automatic retries of failed model calls on or off. */
  setAutoRetry(params: CommandParams<"set_auto_retry">, options?: RequestOptions): Promise<CommandData<"set_auto_retry">> {
    return this.request("set_auto_retry", params, options);
  }

  /** Cancel the wait for the next retry, if there is one. The run ends with the error. */
  abortRetry(params: CommandParams<"abort_retry"> = {}, options?: RequestOptions): Promise<CommandData<"abort_retry">> {
    return this.request("abort_retry", params, options);
  }

  /** List all tools, and which of them the model may use. */
  getTools(params: CommandParams<"get_tools"> = {}, options?: RequestOptions): Promise<CommandData<"get_tools">> {
    return this.request("get_tools", params, options);
  }

  /** Choose the tools that the model may use, starting with the next model call. */
  setActiveTools(params: CommandParams<"set_active_tools">, options?: RequestOptions): Promise<CommandData<"set_active_tools">> {
    return this.request("set_active_tools", params, options);
  }

  /**
   * List the slash commands of extensions, prompt templates and skills. A message that begins with one is
   * expanded to its text, or runs it.
   */
  getCommands(params: CommandParams<"get_commands"> = {}, options?: RequestOptions): Promise<CommandData<"get_commands">> {
    return this.request("get_commands", params, options);
  }

  /** The name that omp has for `get_commands`. */
  getAvailableCommands(params: CommandParams<"get_available_commands"> = {}, options?: RequestOptions): Promise<CommandData<"get_available_commands">> {
    return this.request("get_available_commands", params, options);
  }

  /** Set the form of `message_update`: `full` repeats the message so far, `delta` has only the new part. */
  setUpdates(params: CommandParams<"set_updates">, options?: RequestOptions): Promise<CommandData<"set_updates">> {
    return this.request("set_updates", params, options);
  }

  /** Stop the run, respond, and exit with code 0. */
  shutdown(params: CommandParams<"shutdown"> = {}, options?: RequestOptions): Promise<CommandData<"shutdown">> {
    return this.request("shutdown", params, options);
  }

  /** Start a new session. `parentSession` is recorded as the file of the session that it came from. */
  newSession(params: CommandParams<"new_session"> = {}, options?: RequestOptions): Promise<CommandData<"new_session">> {
    return this.request("new_session", params, options);
  }

  /** Resume the session in a file. If the file contains none, save a new session there. */
  switchSession(params: CommandParams<"switch_session">, options?: RequestOptions): Promise<CommandData<"switch_session">> {
    return this.request("switch_session", params, options);
  }

  /** Start a new session with everything before a user message, and return the text of that message. */
  fork(params: CommandParams<"fork">, options?: RequestOptions): Promise<CommandData<"fork">> {
    return this.request("fork", params, options);
  }

  /** The name that omp and xcsh have for `fork`. */
  branch(params: CommandParams<"branch">, options?: RequestOptions): Promise<CommandData<"branch">> {
    return this.request("branch", params, options);
  }

  /** Start a new session with a copy of the whole conversation. */
  clone(params: CommandParams<"clone"> = {}, options?: RequestOptions): Promise<CommandData<"clone">> {
    return this.request("clone", params, options);
  }

  /**
   * List the sessions of this working directory or, with `all`, of every directory. The latest change comes
   * first.
   */
  listSessions(params: CommandParams<"list_sessions"> = {}, options?: RequestOptions): Promise<CommandData<"list_sessions">> {
    return this.request("list_sessions", params, options);
  }

  /** Delete the file of a session and the conversations of its sub-agents. A session in use is not deleted. */
  deleteSession(params: CommandParams<"delete_session">, options?: RequestOptions): Promise<CommandData<"delete_session">> {
    return this.request("delete_session", params, options);
  }

  /** Name the session. Surrounding spaces are removed. */
  setSessionName(params: CommandParams<"set_session_name">, options?: RequestOptions): Promise<CommandData<"set_session_name">> {
    return this.request("set_session_name", params, options);
  }

  /** List the user messages of the current branch, which `fork` accepts. */
  getForkMessages(params: CommandParams<"get_fork_messages"> = {}, options?: RequestOptions): Promise<CommandData<"get_fork_messages">> {
    return this.request("get_fork_messages", params, options);
  }

  /** The name that omp and xcsh have for `get_fork_messages`. */
  getBranchMessages(params: CommandParams<"get_branch_messages"> = {}, options?: RequestOptions): Promise<CommandData<"get_branch_messages">> {
    return this.request("get_branch_messages", params, options);
  }

  /**
   * List the entries of all branches in the order in which they were added, or those added after the entry
   * `since`.
   */
  getEntries(params: CommandParams<"get_entries"> = {}, options?: RequestOptions): Promise<CommandData<"get_entries">> {
    return this.request("get_entries", params, options);
  }

  /** Get all entries as a tree, and the entry at which the conversation continues (`leafId`). */
  getTree(params: CommandParams<"get_tree"> = {}, options?: RequestOptions): Promise<CommandData<"get_tree">> {
    return this.request("get_tree", params, options);
  }

  /**
   * Continue from another entry of the same session; null is its beginning. If the entry is a message of the
   * user or of an extension, the conversation continues before it, and the response contains its text. With
   * `summarize`, the model gets a summary of the abandoned branch. The new position is saved with the next
   * entry.
   */
  navigateTree(params: CommandParams<"navigate_tree">, options?: RequestOptions): Promise<CommandData<"navigate_tree">> {
    return this.request("navigate_tree", params, options);
  }

  /** Label an entry, or remove its label. The response names the entry that records the change. */
  setLabel(params: CommandParams<"set_label">, options?: RequestOptions): Promise<CommandData<"set_label">> {
    return this.request("set_label", params, options);
  }

  /**
   * Get a page of the conversation, oldest messages first: at most `limit` messages (1 to 256, default 100) and
   * about 768 KiB. If there is more, `nextCursor` is the `cursor` of the next page. A cursor is valid until the
   * conversation changes.
   */
  getMessagesPage(params: CommandParams<"get_messages_page"> = {}, options?: RequestOptions): Promise<CommandData<"get_messages_page">> {
    return this.request("get_messages_page", params, options);
  }

  /**
   * Replace the older part of the conversation with a summary. `customInstructions` tell the model what to focus
   * on. The response arrives at the end. Meanwhile prompts are refused, and `abort` stops the compaction.
   */
  compact(params: CommandParams<"compact"> = {}, options?: RequestOptions): Promise<CommandData<"compact">> {
    return this.request("compact", params, options);
  }

  /** Turn automatic compaction on or off. It happens when the context of the model is nearly full, or overflows. */
  setAutoCompaction(params: CommandParams<"set_auto_compaction">, options?: RequestOptions): Promise<CommandData<"set_auto_compaction">> {
    return this.request("set_auto_compaction", params, options);
  }

  /**
   * Write the session as an HTML page to `outputPath`, or to a file in the working directory. The response has
   * the path.
   */
  exportHtml(params: CommandParams<"export_html"> = {}, options?: RequestOptions): Promise<CommandData<"export_html">> {
    return this.request("export_html", params, options);
  }

  /**
   * Continue the last run if it was interrupted: the agent was killed or closed during it, or the model failed.
   * No message is repeated. Tool calls that had ended keep their results. Calls of idempotent tools, and calls
   * that had not started, are made now; any other call gets a result that says that it may have run. Refused if
   * the last run has ended.
   */
  resume(params: CommandParams<"resume"> = {}, options?: RequestOptions): Promise<CommandData<"resume">> {
    return this.request("resume", params, options);
  }

  /** Reload all extensions without closing the session. Refused during a run. */
  reload(params: CommandParams<"reload"> = {}, options?: RequestOptions): Promise<CommandData<"reload">> {
    return this.request("reload", params, options);
  }

  /**
   * Choose the events about sub-agents: none (`off`, the default), `subagent_lifecycle` and `subagent_progress`
   * (`progress`), or these and every event of their runs as `subagent_event` (`events`).
   */
  setSubagentSubscription(params: CommandParams<"set_subagent_subscription">, options?: RequestOptions): Promise<CommandData<"set_subagent_subscription">> {
    return this.request("set_subagent_subscription", params, options);
  }

  /**
   * List the sub-agents that started since this session was opened, including finished ones. A nested sub-
   * agent's id begins with the id of its parent and a dot.
   */
  getSubagents(params: CommandParams<"get_subagents"> = {}, options?: RequestOptions): Promise<CommandData<"get_subagents">> {
    return this.request("get_subagents", params, options);
  }

  /**
   * Get the conversation of a sub-agent as written so far, or the part after the byte `fromByte`. Name the sub-
   * agent by its id or by its `sessionFile`, which also finds those from before this session was opened. Other
   * files are refused.
   */
  getSubagentMessages(params: CommandParams<"get_subagent_messages"> = {}, options?: RequestOptions): Promise<CommandData<"get_subagent_messages">> {
    return this.request("get_subagent_messages", params, options);
  }

  /**
   * Switch to version 2 of the protocol. In it no frame is longer than 1 MiB: longer ones arrive as `rpc_chunk`
   * frames, and `agent_end` omits messages that were sent before. Version 1, the default, has no limit.
   */
  negotiateProtocol(params: CommandParams<"negotiate_protocol">, options?: RequestOptions): Promise<CommandData<"negotiate_protocol">> {
    return this.request("negotiate_protocol", params, options);
  }

  /**
   * Send only events of these types; null sends all again. The host always gets responses, `prompt_result`,
   * `session_settled` and requests that expect a reply.
   */
  setEventFilter(params: CommandParams<"set_event_filter">, options?: RequestOptions): Promise<CommandData<"set_event_filter">> {
    return this.request("set_event_filter", params, options);
  }

  /** Save sessions in another folder from now on, and resume its latest session or start a new one. */
  openSession(params: CommandParams<"open_session">, options?: RequestOptions): Promise<CommandData<"open_session">> {
    return this.request("open_session", params, options);
  }

  /** Ask the model for a summary of everything that matters, and start a new session with it. */
  handoff(params: CommandParams<"handoff"> = {}, options?: RequestOptions): Promise<CommandData<"handoff">> {
    return this.request("handoff", params, options);
  }

  /**
   * Replace the todos: phases `{id?, name, tasks: [{id?, content, status?, notes?, details?}]}`. fairlead adds
   * missing ids and statuses, and keeps at most one task in progress. The response contains the new list.
   */
  setTodos(params: CommandParams<"set_todos">, options?: RequestOptions): Promise<CommandData<"set_todos">> {
    return this.request("set_todos", params, options);
  }

  /**
   * Turn a faster service tier on or off. The choice is kept, but fairlead asks no provider for it: `active`
   * stays false.
   */
  setFastMode(params: CommandParams<"set_fast_mode">, options?: RequestOptions): Promise<CommandData<"set_fast_mode">> {
    return this.request("set_fast_mode", params, options);
  }

  /** List the model providers, and which of them have a key. */
  getLoginProviders(params: CommandParams<"get_login_providers"> = {}, options?: RequestOptions): Promise<CommandData<"get_login_providers">> {
    return this.request("get_login_providers", params, options);
  }

  /**
   * Log in to a provider: the user enters a code on the page of an `open_url` request. The response arrives when
   * the user is done and the token is saved. A provider without login gets an error that says how to set its
   * key.
   */
  login(params: CommandParams<"login">, options?: RequestOptions): Promise<CommandData<"login">> {
    return this.request("login", params, options);
  }

  /**
   * Set the language of the user, such as `ja` or `pt-BR`, which the model will answer in. An empty text unsets
   * it. `locale` in a prompt does the same.
   */
  setLocale(params: CommandParams<"set_locale">, options?: RequestOptions): Promise<CommandData<"set_locale">> {
    return this.request("set_locale", params, options);
  }

  /** List the services that xcsh is connected to. fairlead has none. */
  getIntegrations(params: CommandParams<"get_integrations"> = {}, options?: RequestOptions): Promise<CommandData<"get_integrations">> {
    return this.request("get_integrations", params, options);
  }
}
