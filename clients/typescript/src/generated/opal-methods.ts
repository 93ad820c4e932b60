// `make generate` writes this file from the declarations in src/fairlead/protocol. Do not edit.
import type { Methods } from "./opal.js";
import type { RequestOptions } from "../pending.js";

export type OpalMethod = keyof Methods;
export type OpalParams<N extends OpalMethod> = Methods[N]["params"];
export type OpalResult<N extends OpalMethod> = Methods[N]["result"];

/** A method for each request. */
export abstract class OpalMethods {
  /** Sends a request and returns its result. */
  abstract request<N extends OpalMethod>(name: N, params: OpalParams<N>, options?: RequestOptions): Promise<OpalResult<N>>;

  /** Begin a session, or resume a saved one. */
  sessionStart(params: OpalParams<"session/start"> = {}, options?: RequestOptions): Promise<OpalResult<"session/start">> {
    return this.request("session/start", params, options);
  }

  /**
   * Start a run with a prompt. The response comes when the prompt is accepted. If the agent is busy, the prompt
   * is queued and delivered between turns.
   */
  agentPrompt(params: OpalParams<"agent/prompt">, options?: RequestOptions): Promise<OpalResult<"agent/prompt">> {
    return this.request("agent/prompt", params, options);
  }

  /**
   * Stop the run: its model call, its tools and their processes. `agent_abort` follows, even if nothing was
   * running.
   */
  agentAbort(params: OpalParams<"agent/abort">, options?: RequestOptions): Promise<OpalResult<"agent/abort">> {
    return this.request("agent/abort", params, options);
  }

  /**
   * Continue the last run if it was interrupted, without another prompt. Refused if it has ended. An addition of
   * fairlead.
   */
  agentResume(params: OpalParams<"agent/resume">, options?: RequestOptions): Promise<OpalResult<"agent/resume">> {
    return this.request("agent/resume", params, options);
  }

  /** The state of a session. */
  agentState(params: OpalParams<"agent/state">, options?: RequestOptions): Promise<OpalResult<"agent/state">> {
    return this.request("agent/state", params, options);
  }

  /** The saved sessions, last changed first. */
  sessionList(params: OpalParams<"session/list"> = {}, options?: RequestOptions): Promise<OpalResult<"session/list">> {
    return this.request("session/list", params, options);
  }

  /** Continue from an earlier message of the conversation. Later messages stay in the file. */
  sessionBranch(params: OpalParams<"session/branch">, options?: RequestOptions): Promise<OpalResult<"session/branch">> {
    return this.request("session/branch", params, options);
  }

  /** Replace the older part of the conversation with a summary. The response comes when the summary is saved. */
  sessionCompact(params: OpalParams<"session/compact">, options?: RequestOptions): Promise<OpalResult<"session/compact">> {
    return this.request("session/compact", params, options);
  }

  /** The conversation, from its first message to the current one. */
  sessionHistory(params: OpalParams<"session/history">, options?: RequestOptions): Promise<OpalResult<"session/history">> {
    return this.request("session/history", params, options);
  }

  /** Delete a saved session. */
  sessionDelete(params: OpalParams<"session/delete">, options?: RequestOptions): Promise<OpalResult<"session/delete">> {
    return this.request("session/delete", params, options);
  }

  /** The models that can be chosen. */
  modelsList(params: OpalParams<"models/list"> = {}, options?: RequestOptions): Promise<OpalResult<"models/list">> {
    return this.request("models/list", params, options);
  }

  /** Use another model from the next turn on. */
  modelSet(params: OpalParams<"model/set">, options?: RequestOptions): Promise<OpalResult<"model/set">> {
    return this.request("model/set", params, options);
  }

  /** Set how much the model thinks. */
  thinkingSet(params: OpalParams<"thinking/set">, options?: RequestOptions): Promise<OpalResult<"thinking/set">> {
    return this.request("thinking/set", params, options);
  }

  /** Whether there are credentials, and for which providers. */
  authStatus(params: OpalParams<"auth/status"> = {}, options?: RequestOptions): Promise<OpalResult<"auth/status">> {
    return this.request("auth/status", params, options);
  }

  /** Begin a login with a code that the user enters on the provider's page. */
  authLogin(params: OpalParams<"auth/login"> = {}, options?: RequestOptions): Promise<OpalResult<"auth/login">> {
    return this.request("auth/login", params, options);
  }

  /** Wait until the user has entered the code of `auth/login`, and save the new credentials. */
  authPoll(params: OpalParams<"auth/poll">, options?: RequestOptions): Promise<OpalResult<"auth/poll">> {
    return this.request("auth/poll", params, options);
  }

  /** Save the key of a provider. */
  authSetKey(params: OpalParams<"auth/set_key">, options?: RequestOptions): Promise<OpalResult<"auth/set_key">> {
    return this.request("auth/set_key", params, options);
  }

  /** The tasks that are not done. */
  tasksList(params: OpalParams<"tasks/list">, options?: RequestOptions): Promise<OpalResult<"tasks/list">> {
    return this.request("tasks/list", params, options);
  }

  /** The user's settings. */
  settingsGet(params: OpalParams<"settings/get"> = {}, options?: RequestOptions): Promise<OpalResult<"settings/get">> {
    return this.request("settings/get", params, options);
  }

  /** Change the user's settings. Other keys stay unchanged. The result has all settings. */
  settingsSave(params: OpalParams<"settings/save">, options?: RequestOptions): Promise<OpalResult<"settings/save">> {
    return this.request("settings/save", params, options);
  }

  /** The features and the tools of a session. */
  opalConfigGet(params: OpalParams<"opal/config/get">, options?: RequestOptions): Promise<OpalResult<"opal/config/get">> {
    return this.request("opal/config/get", params, options);
  }

  /** Change the features and the tools of a session. What is left out stays unchanged. */
  opalConfigSet(params: OpalParams<"opal/config/set">, options?: RequestOptions): Promise<OpalResult<"opal/config/set">> {
    return this.request("opal/config/set", params, options);
  }

  /** Check the connection. The response comes at once, whatever else is running. */
  opalPing(params: OpalParams<"opal/ping"> = {}, options?: RequestOptions): Promise<OpalResult<"opal/ping">> {
    return this.request("opal/ping", params, options);
  }

  /** The versions of the server and of the protocol. */
  opalVersion(params: OpalParams<"opal/version"> = {}, options?: RequestOptions): Promise<OpalResult<"opal/version">> {
    return this.request("opal/version", params, options);
  }
}
