// `make generate` writes this file from the declarations in src/fairlead/protocol. Do not edit.
import type { Operations } from "./http.js";
import type { RequestOptions } from "../pending.js";

export type OperationName = keyof Operations;

/** How to send each operation: its method, its path and the status of a success. */
export const OPERATIONS: Readonly<Record<OperationName, { method: string; path: string; status: number }>> = {
  create_session: { method: "POST", path: "/v1/sessions", status: 201 },
  list_sessions: { method: "GET", path: "/v1/sessions", status: 200 },
  get_session: { method: "GET", path: "/v1/sessions/{id}", status: 200 },
  change_session: { method: "PATCH", path: "/v1/sessions/{id}", status: 200 },
  delete_session: { method: "DELETE", path: "/v1/sessions/{id}", status: 204 },
  prompt: { method: "POST", path: "/v1/sessions/{id}/prompt", status: 202 },
  steer: { method: "POST", path: "/v1/sessions/{id}/steer", status: 202 },
  follow_up: { method: "POST", path: "/v1/sessions/{id}/follow_up", status: 202 },
  abort: { method: "POST", path: "/v1/sessions/{id}/abort", status: 200 },
  compact: { method: "POST", path: "/v1/sessions/{id}/compact", status: 200 },
  get_tree: { method: "GET", path: "/v1/sessions/{id}/tree", status: 200 },
  fork: { method: "POST", path: "/v1/sessions/{id}/fork", status: 201 },
  listen: { method: "GET", path: "/v1/sessions/{id}/events", status: 200 },
  answer: { method: "POST", path: "/v1/sessions/{id}/questions/{question}", status: 204 },
  list_models: { method: "GET", path: "/v1/models", status: 200 },
  create_login_code: { method: "POST", path: "/v1/login_codes", status: 201 },
  log_in: { method: "POST", path: "/login", status: 204 },
  log_out: { method: "POST", path: "/logout", status: 204 },
  healthz: { method: "GET", path: "/healthz", status: 200 },
  readyz: { method: "GET", path: "/readyz", status: 200 },
  metrics: { method: "GET", path: "/metrics", status: 200 },
  openapi: { method: "GET", path: "/openapi.json", status: 200 },
};

/** A method for each operation. */
export abstract class HttpMethods {
  /** Sends a request and returns its result. `ids` are the parts of the path. */
  abstract request<N extends OperationName>(
    name: N,
    ids: readonly string[],
    params: Operations[N]["params"],
    options?: RequestOptions,
  ): Promise<Operations[N]["result"]>;

  /** Begin a session. */
  createSession(params: Operations["create_session"]["params"] = {}, options?: RequestOptions): Promise<Operations["create_session"]["result"]> {
    return this.request("create_session", [], params, options);
  }

  /** List the sessions, the last changed first. */
  listSessions(params: Operations["list_sessions"]["params"] = {}, options?: RequestOptions): Promise<Operations["list_sessions"]["result"]> {
    return this.request("list_sessions", [], params, options);
  }

  /** Get a snapshot of a session. The events after `lastEvent` continue the snapshot without a gap. */
  getSession(sessionId: string, params: Operations["get_session"]["params"] = {}, options?: RequestOptions): Promise<Operations["get_session"]["result"]> {
    return this.request("get_session", [sessionId], params, options);
  }

  /** Change the model, the thinking level, the name or the approval mode. */
  changeSession(sessionId: string, params: Operations["change_session"]["params"] = {}, options?: RequestOptions): Promise<Operations["change_session"]["result"]> {
    return this.request("change_session", [sessionId], params, options);
  }

  /** Stop a session, close it and delete its file. */
  deleteSession(sessionId: string, params: Operations["delete_session"]["params"] = {}, options?: RequestOptions): Promise<Operations["delete_session"]["result"]> {
    return this.request("delete_session", [sessionId], params, options);
  }

  /**
   * Send a message of the user. It starts a run. The answer comes at once. `prompt_result` reports the end of
   * the work.
   */
  prompt(sessionId: string, params: Operations["prompt"]["params"], options?: RequestOptions): Promise<Operations["prompt"]["result"]> {
    return this.request("prompt", [sessionId], params, options);
  }

  /** Queue a message for the next turn of the run. */
  steer(sessionId: string, params: Operations["steer"]["params"], options?: RequestOptions): Promise<Operations["steer"]["result"]> {
    return this.request("steer", [sessionId], params, options);
  }

  /** Queue a message for when the run would stop. */
  followUp(sessionId: string, params: Operations["follow_up"]["params"], options?: RequestOptions): Promise<Operations["follow_up"]["result"]> {
    return this.request("follow_up", [sessionId], params, options);
  }

  /** Stop the run or the compaction, and wait until the session has settled. */
  abort(sessionId: string, params: Operations["abort"]["params"] = {}, options?: RequestOptions): Promise<Operations["abort"]["result"]> {
    return this.request("abort", [sessionId], params, options);
  }

  /** Replace older messages by a summary. The response comes when the summary is written. */
  compact(sessionId: string, params: Operations["compact"]["params"] = {}, options?: RequestOptions): Promise<Operations["compact"]["result"]> {
    return this.request("compact", [sessionId], params, options);
  }

  /** Get the messages of all branches, from each of which `fork` can begin a session. */
  getTree(sessionId: string, params: Operations["get_tree"]["params"] = {}, options?: RequestOptions): Promise<Operations["get_tree"]["result"]> {
    return this.request("get_tree", [sessionId], params, options);
  }

  /** Begin a session with what this one has up to an entry. */
  fork(sessionId: string, params: Operations["fork"]["params"] = {}, options?: RequestOptions): Promise<Operations["fork"]["result"]> {
    return this.request("fork", [sessionId], params, options);
  }

  /** Answer a question. The first answer of any client counts. */
  answer(sessionId: string, questionId: string, params: Operations["answer"]["params"] = {}, options?: RequestOptions): Promise<Operations["answer"]["result"]> {
    return this.request("answer", [sessionId, questionId], params, options);
  }

  /** List the models that can be used. */
  listModels(params: Operations["list_models"]["params"] = {}, options?: RequestOptions): Promise<Operations["list_models"]["result"]> {
    return this.request("list_models", [], params, options);
  }

  /** Make a code with which a browser can log in once. */
  createLoginCode(params: Operations["create_login_code"]["params"] = {}, options?: RequestOptions): Promise<Operations["create_login_code"]["result"]> {
    return this.request("create_login_code", [], params, options);
  }

  /** Whether the process works. */
  healthz(params: Operations["healthz"]["params"] = {}, options?: RequestOptions): Promise<Operations["healthz"]["result"]> {
    return this.request("healthz", [], params, options);
  }

  /** Whether the server accepts work. The status is 503 while it shuts down. */
  readyz(params: Operations["readyz"]["params"] = {}, options?: RequestOptions): Promise<Operations["readyz"]["result"]> {
    return this.request("readyz", [], params, options);
  }
}
