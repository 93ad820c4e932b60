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
  resume: { method: "POST", path: "/v1/sessions/{id}/resume", status: 202 },
  compact: { method: "POST", path: "/v1/sessions/{id}/compact", status: 200 },
  get_tree: { method: "GET", path: "/v1/sessions/{id}/tree", status: 200 },
  fork: { method: "POST", path: "/v1/sessions/{id}/fork", status: 201 },
  move: { method: "POST", path: "/v1/sessions/{id}/move", status: 200 },
  clear_queue: { method: "DELETE", path: "/v1/sessions/{id}/queue", status: 200 },
  complete: { method: "POST", path: "/v1/sessions/{id}/complete", status: 200 },
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
  list_jobs: { method: "GET", path: "/fleet/jobs", status: 200 },
  submit_jobs: { method: "POST", path: "/fleet/jobs", status: 200 },
  get_job: { method: "GET", path: "/fleet/jobs/{id}", status: 200 },
  job_events: { method: "GET", path: "/fleet/jobs/{id}/events", status: 200 },
  job_patch: { method: "GET", path: "/fleet/jobs/{id}/patch", status: 200 },
  cancel_job: { method: "POST", path: "/fleet/jobs/{id}/cancel", status: 200 },
  retry_job: { method: "POST", path: "/fleet/jobs/{id}/retry", status: 200 },
  session_jobs: { method: "GET", path: "/fleet/sessions/{id}", status: 200 },
  prompt_session: { method: "POST", path: "/fleet/sessions/{id}/prompts", status: 200 },
  session_transcript: { method: "GET", path: "/fleet/sessions/{id}/transcript", status: 200 },
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

  /**
   * Continue the last run if it was interrupted. No message is repeated. The response comes at once, and the
   * events report the run. In a session whose prompts workers run, the last job is retried if it failed or is
   * parked.
   */
  resume(sessionId: string, params: Operations["resume"]["params"] = {}, options?: RequestOptions): Promise<Operations["resume"]["result"]> {
    return this.request("resume", [sessionId], params, options);
  }

  /** Replace older messages with a summary. The response comes when the summary is written. */
  compact(sessionId: string, params: Operations["compact"]["params"] = {}, options?: RequestOptions): Promise<Operations["compact"]["result"]> {
    return this.request("compact", [sessionId], params, options);
  }

  /** Get the messages of all branches. `move` continues from any of them, and `fork` begins a session there. */
  getTree(sessionId: string, params: Operations["get_tree"]["params"] = {}, options?: RequestOptions): Promise<Operations["get_tree"]["result"]> {
    return this.request("get_tree", [sessionId], params, options);
  }

  /** Begin a session with what this one has up to an entry. */
  fork(sessionId: string, params: Operations["fork"]["params"] = {}, options?: RequestOptions): Promise<Operations["fork"]["result"]> {
    return this.request("fork", [sessionId], params, options);
  }

  /**
   * Continue from another entry of the same session. The run is stopped first. All clients get `branch_changed`.
   * The new place is saved with the next message.
   */
  move(sessionId: string, params: Operations["move"]["params"], options?: RequestOptions): Promise<Operations["move"]["result"]> {
    return this.request("move", [sessionId], params, options);
  }

  /** Remove the messages that wait for the run, and return their texts. `prompt_result` reports them as aborted. */
  clearQueue(sessionId: string, params: Operations["clear_queue"]["params"] = {}, options?: RequestOptions): Promise<Operations["clear_queue"]["result"]> {
    return this.request("clear_queue", [sessionId], params, options);
  }

  /**
   * Suggest how the text before the cursor continues. Files of the working directory after `@`, slash commands
   * after `/`, and arguments of slash commands.
   */
  complete(sessionId: string, params: Operations["complete"]["params"], options?: RequestOptions): Promise<Operations["complete"]["result"]> {
    return this.request("complete", [sessionId], params, options);
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

  /** List all jobs, in the order of submission. Only with `--db`. */
  listJobs(params: Operations["list_jobs"]["params"] = {}, options?: RequestOptions): Promise<Operations["list_jobs"]["result"]> {
    return this.request("list_jobs", [], params, options);
  }

  /** Submit a job or a list of jobs. Only with `--db`. */
  submitJobs(params: Operations["submit_jobs"]["params"], options?: RequestOptions): Promise<Operations["submit_jobs"]["result"]> {
    return this.request("submit_jobs", [], params, options);
  }

  /** Get what is known of a job. Only with `--db`. */
  getJob(jobId: string, params: Operations["get_job"]["params"] = {}, options?: RequestOptions): Promise<Operations["get_job"]["result"]> {
    return this.request("get_job", [jobId], params, options);
  }

  /** Get what a job has changed in its repository. Only with `--db`. */
  jobPatch(jobId: string, params: Operations["job_patch"]["params"] = {}, options?: RequestOptions): Promise<Operations["job_patch"]["result"]> {
    return this.request("job_patch", [jobId], params, options);
  }

  /** Cancel a job. Only with `--db`. */
  cancelJob(jobId: string, params: Operations["cancel_job"]["params"] = {}, options?: RequestOptions): Promise<Operations["cancel_job"]["result"]> {
    return this.request("cancel_job", [jobId], params, options);
  }

  /** Queue a job again that has ended without success. Only with `--db`. */
  retryJob(jobId: string, params: Operations["retry_job"]["params"] = {}, options?: RequestOptions): Promise<Operations["retry_job"]["result"]> {
    return this.request("retry_job", [jobId], params, options);
  }

  /** List the jobs of a session. Only with `--db`. */
  sessionJobs(sessionId: string, params: Operations["session_jobs"]["params"] = {}, options?: RequestOptions): Promise<Operations["session_jobs"]["result"]> {
    return this.request("session_jobs", [sessionId], params, options);
  }

  /** Send a prompt to a session. Only with `--db`. */
  promptSession(sessionId: string, params: Operations["prompt_session"]["params"], options?: RequestOptions): Promise<Operations["prompt_session"]["result"]> {
    return this.request("prompt_session", [sessionId], params, options);
  }

  /** Get a session as the lines of a session file. Only with `--db`. */
  sessionTranscript(sessionId: string, params: Operations["session_transcript"]["params"] = {}, options?: RequestOptions): Promise<Operations["session_transcript"]["result"]> {
    return this.request("session_transcript", [sessionId], params, options);
  }
}
