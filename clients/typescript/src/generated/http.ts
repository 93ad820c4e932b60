// `make generate` writes this file from the declarations in src/fairlead/protocol. Do not edit.
// The HTTP interface of fairlead serve.
/**
 * What happened to a message: it started a run, it is queued, or an extension handled it. `pending` means that
 * an extension has it, and may ask the user first. Then `prompt_result` follows in every case.
 */
export interface AcceptedPrompt {
  status: "handled" | "pending" | "queued" | "started";
  /** The id of the message: that of the client, or a new one. `prompt_result` repeats it. */
  id: string;
}

/** The answer to a question. Which field counts depends on the kind of the question. */
export interface Answer {
  /** For `select`, `input` and `editor`: the option or the text. */
  value?: string | null;
  /** For `confirm`. */
  confirmed?: boolean | null;
  /** For `approval`. */
  decision?: "allow" | "deny" | null;
  /** For `approval`: whether the decision holds for later calls of the same kind. */
  forSession?: boolean;
  /** For `approval`: arguments to run the tool with instead. */
  arguments?: Record<string, unknown> | null;
  /**
   * For `approval`, to allow it: the pattern of a rule that the user's settings get, so that calls like this one
   * run without a question. It has to cover the call. It may differ from those in `rules`.
   */
  rule?: string | null;
  /** With `rule`: whether the rule holds in every project of the user. */
  everywhere?: boolean;
  /** For `approval`: why the call is refused. The model sees it. */
  reason?: string;
  /** Closes the question without an answer. */
  cancelled?: boolean;
}

/** The tool call that needs approval. */
export interface Approval {
  toolName: string;
  toolCallId: string;
  arguments: Record<string, unknown>;
  /** What the call is about: a command line, a path, a URI, or the arguments as JSON. */
  subject?: string;
  /** What the call would change, as a unified diff for people: invisible characters are shown as escapes. */
  diff?: string;
  /** What an answer for the session covers, such as "the same command". */
  scope?: string;
  /** The patterns of the rules that an answer may write to the settings of the user, the narrowest first. */
  rules?: string[];
  /** The directory of the project in which such a rule holds, unless it holds everywhere. */
  project?: string;
  /** The sub-agent that makes the call; absent for the session itself. */
  subagentId?: string;
}

/** The session has another approval mode. */
export interface ApprovalModeChanged {
  type: "approval_mode_changed";
  mode: "ask" | "auto" | "deny" | "write";
}

/** The session has moved to another place in its tree. Fetch a snapshot: it has other messages. */
export interface BranchChanged {
  type: "branch_changed";
  /** The last entry there; null at the beginning. */
  leafId: string | null;
}

/** What to change. Fields that are absent stay as they are. */
export interface Changes {
  /** The provider and the id of a model, such as `anthropic/claude-opus-5-5`. */
  model?: string | null;
  thinking?: "high" | "low" | "max" | "medium" | "minimal" | "off" | "xhigh" | null;
  /** At most 200 characters, not only spaces, and no control characters such as line breaks. */
  name?: string | null;
  approval?: "ask" | "auto" | "deny" | "write" | null;
}

/** The texts that were queued. */
export interface ClearedQueue {
  steering: string[];
  followUp: string[];
}

export interface Compaction {
  /** What the summary should pay attention to. */
  instructions?: string | null;
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

/** A suggestion. */
export interface CompletionItem {
  /** What it inserts. */
  text: string;
  /** What to show instead of the text, and what to show beside it. */
  label?: string;
  detail?: string;
}

/** Suggestions for the text before the cursor. */
export interface Completions {
  /** What they are; null if nothing can be completed there. */
  kind?: "argument" | "command" | "file";
  /** How many characters before the cursor a suggestion replaces. */
  replaces?: number;
  items?: CompletionItem[];
}

/** How full the context of the model is. */
export interface ContextUse {
  /** Null while that is not known. */
  tokens: number | null;
  window: number;
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

/** Every response with a status of 400 or more. */
export interface ErrorBody {
  error: ErrorDetail;
}

export interface ErrorDetail {
  /** A word for programs, such as `not_found`. */
  code: string;
  /** A sentence for people. */
  message: string;
}

/** Where the new session branches off. */
export interface Fork {
  /** An entry of the session; none means where the session stands. */
  entryId?: string | null;
  /** Whether the new session ends before the entry, which then must be a message of the user, or with it. */
  position?: "at" | "before";
}

/** A new session. */
export interface Forked {
  session: SessionState;
  /** The text of the message before which the session was forked. */
  text?: string;
}

export interface Health {
  status: "ok" | "stopping";
}

/** An image as base64 `data`. */
export interface ImageContent {
  type: "image";
  data: string;
  mimeType: string;
}

/**
 * A prompt to run once, wherever a worker has room for it. Its fields are those of a line in a file of tasks. A
 * field that is null counts as left out.
 */
export interface Job {
  /** The name of the job. Submitting the same job again changes nothing. */
  id: string;
  prompt: string;
  /** The directory to work in, which every worker must be able to reach. */
  workdir?: string | null;
  /** A repository of git (a path or an address) and the commit to check out. Each job gets its own worktree. */
  repo?: string | null;
  commit?: string | null;
  /** The model, as `--model` names it. null: the default of the worker. */
  model?: string | null;
  limits?: JobLimits | null;
  /** The provider key whose limits of concurrency and rate apply. */
  key?: string | null;
  /** Jobs of the same key with a higher priority start first. */
  priority?: number | null;
  labels?: Record<string, string> | null;
  /**
   * The session that the prompt continues. Its prompts run one at a time, in the order in which they were
   * submitted. null: its own session, with the id of the job.
   */
  session?: string | null;
  /** The image of a container in which the job's commands run. null: they run beside the worker. */
  container?: string | null;
  /**
   * The directory that holds every place on a disk that the job names, with links resolved. A server with
   * `--root` sets it.
   */
  root?: string | null;
}

/** What a job may use, over all of its attempts. null: no limit. */
export interface JobLimits {
  /** How many model calls. */
  turns?: number | null;
  /** How many seconds it may run. */
  seconds?: number | null;
  /** How many US dollars. */
  cost?: number | null;
  /** How many tokens, of all kinds. */
  tokens?: number | null;
}

/** What is known of a job. */
export interface JobResult {
  id: string;
  status: "cancelled" | "done" | "failed" | "parked" | "queued" | "running";
  /** How many times a worker has started it, since it was submitted or retried. */
  attempts: number;
  /** What it has cost so far, in US dollars, and what else it used. */
  cost: number;
  /** The id of its session. */
  session: string;
  turns: number;
  tokens: number;
  seconds: number;
  /** The last answer of the model; null if the job has not ended with one. */
  answer: string | null;
  /** Why it failed or was parked. */
  error: string | null;
  labels: Record<string, string>;
  /** The commit with the files that the job left, if it works in a repository. */
  snapshot: string | null;
}

/** What a browser exchanges for a cookie. */
export interface Login {
  /** The code of a login link, or a token. */
  code: string;
}

/** A code for one login in a browser. */
export interface LoginCode {
  /** Append it to the address of the server: `/login#CODE`. */
  code: string;
  /** How many seconds it is valid. */
  expiresIn: number;
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

/** The session uses another model from now on. */
export interface ModelChanged {
  type: "model_changed";
  model: Model;
}

export interface ModelList {
  /** The models that can be used: their provider has a key, or needs none. */
  models: Model[];
}

/** Where in its tree the session should continue. */
export interface Move {
  /**
   * An entry of the session; null is the beginning. If it is a message of the user, the session continues before
   * it.
   */
  entryId: string | null;
  /** Whether the model gets a summary of the branch that is left. */
  summarize?: boolean;
  /** What the summary should pay attention to. */
  instructions?: string | null;
}

/** Where the session stands after a move. */
export interface Moved {
  /** The last entry there; null at the beginning. */
  leafId: string | null;
  /** The text of the message before which the session stands, to edit and send again. */
  text?: string;
}

/** A session to begin. Everything has a default. */
export interface NewSession {
  /** The working directory. It must exist, and lie inside the root of the server if that has one. */
  cwd?: string | null;
  /** A model such as `anthropic/claude-opus-5-5`, or a pattern for one. */
  model?: string | null;
  thinking?: "high" | "low" | "max" | "medium" | "minimal" | "off" | "xhigh" | null;
  approval?: "ask" | "auto" | "deny" | "write" | null;
  /** At most 200 characters, not only spaces, and no control characters such as line breaks. */
  name?: string | null;
}

/** US dollars per million tokens. */
export interface Price {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
}

/** A message of the user that starts a run. */
export interface Prompt {
  /** May be empty only with images. */
  text: string;
  /** Repeating a prompt with the same id returns the first answer and starts nothing. */
  id?: string | null;
  images?: ImageContent[];
  /**
   * What to do if a run is active: `steer` reaches the model in the next turn, `followUp` when it would stop.
   * Without it the prompt is refused.
   */
  behavior?: "followUp" | "steer" | null;
}

/**
 * How many seconds a provider keeps the beginning of a request in its cache: usually, and if it is asked to keep
 * it long.
 */
export interface PromptCache {
  short?: number;
  long?: number;
}

/** The work on an accepted message has ended. */
export interface PromptResult {
  type: "prompt_result";
  id: string;
  status: "aborted" | "completed" | "error";
  /** What went wrong. */
  error?: string;
}

/** The agent asks the user. The first answer of any client counts. */
export interface Question {
  type: "question";
  id: string;
  kind: "approval" | "confirm" | "editor" | "input" | "select";
  title: string;
  message?: string;
  /** For `select`. */
  options?: string[];
  /** For `input`. */
  placeholder?: string;
  /** For `editor`: the text to edit. */
  prefill?: string;
  /** For `approval`. */
  approval?: Approval;
  /** How long the agent waits, in milliseconds; absent if it waits for as long as it takes. */
  timeoutMs?: number;
}

/** A question no longer waits for an answer. */
export interface QuestionClosed {
  type: "question_closed";
  id: string;
  reason: "answered" | "expired" | "withdrawn";
}

/** A message of the user for the run that is active. */
export interface QueuedMessage {
  /** May be empty only with images. */
  text: string;
  /** Repeating a message with the same id returns the first answer and queues nothing. */
  id?: string | null;
  images?: ImageContent[];
}

/** A tool call that has ended. `args` is a short form of its arguments. */
export interface RecentTool {
  tool: string;
  args: string;
  endMs: number;
}

/** Events were missed, because the client was away for too long. Fetch a snapshot; later events follow. */
export interface Resync {
  type: "resync";
  lastEvent: number;
}

/** A tool call that has started and not ended. */
export interface RunningTool {
  toolCallId: string;
  toolName: string;
  args: Record<string, unknown>;
  /** What the tool has returned so far, as in `tool_execution_update`. */
  partialResult?: unknown;
}

/** An event that only this server sends. */
export type ServeEvent = Question | QuestionClosed | PromptResult | SessionReplaced | BranchChanged | ModelChanged | ApprovalModeChanged | TodosChanged | Shown | Resync;

export interface SessionList {
  /** The last changed first. */
  sessions: SessionSummary[];
  /** Pass it as `cursor` to get the next page; absent on the last page. */
  nextCursor?: string;
  /** Whether the server also serves the jobs of a fleet, under `/fleet`. */
  hasJobs?: boolean;
}

/** The process that has the lease of a session of a fleet. */
export interface SessionOwner {
  name: string;
  /** When its lease expires unless it is renewed, as ISO 8601 by the clock of the database. */
  until: string;
}

/** The body of a prompt to a session. The first prompt of a session says where it works. */
export interface SessionPrompt {
  prompt: string;
  /** Repeating a prompt with the same id returns the same job. It has the label `prompt` with the id. */
  id?: string | null;
  workdir?: string | null;
  repo?: string | null;
  commit?: string | null;
  model?: string | null;
  limits?: JobLimits | null;
  key?: string | null;
  priority?: number | null;
  container?: string | null;
  labels?: Record<string, string> | null;
}

/** An extension moved the session to another conversation. Fetch a snapshot of that one. */
export interface SessionReplaced {
  type: "session_replaced";
  sessionId: string;
}

/** A session that is open. */
export interface SessionState {
  id: string;
  cwd: string;
  name?: string;
  /** Null if no model is chosen. */
  model: Model | null;
  thinking: "high" | "low" | "max" | "medium" | "minimal" | "off" | "xhigh";
  approval: "ask" | "auto" | "deny" | "write";
  /** `running` from the moment a prompt is accepted until its run has settled. */
  status: "compacting" | "idle" | "running";
  /** Whether the user has to answer a question before the work can go on. */
  waiting?: boolean;
  /** The texts that wait for the next turn, and those that wait for the end of the run. */
  steering?: string[];
  followUp?: string[];
  messageCount: number;
  context?: ContextUse;
  /** US dollars. */
  cost: number;
  /** How many clients listen to its events. */
  listeners: number;
  /** Whether the last run was cut off, so that `resume` continues it. */
  interrupted?: boolean;
  /**
   * For a session of a fleet that another process works in: who that is. Until then this server can only read
   * it.
   */
  owner?: SessionOwner;
}

/** A session in a list. */
export interface SessionSummary {
  id: string;
  cwd: string;
  /** Its name, or the beginning of its first message. */
  title?: string;
  /** ISO 8601; null for a session that is not saved yet. */
  updatedAt: string | null;
  /** `saved` means that it is not open. It opens when it is used. */
  status: "compacting" | "idle" | "running" | "saved";
  /** Whether the user has to answer a question before the work can go on. */
  waiting?: boolean;
  /** For a session of a fleet that another process works in: the name of that process. */
  owner?: string;
}

/** An extension shows something to the user. It needs no answer. */
export interface Shown {
  type: "shown";
  method: "notify" | "openUrl" | "setEditorText" | "setStatus" | "setTitle" | "setWidget";
  /** For `setStatus` and `setWidget`: what is replaced. */
  key?: string;
  text?: string;
  lines?: string[];
  /** For `notify`: info, warning or error. For `setWidget`: aboveEditor or belowEditor. */
  kind?: string;
  url?: string;
}

/** A session as of event `lastEvent`. The events after that number continue it without a gap. */
export interface Snapshot {
  session: SessionState;
  /** The messages where the conversation stands, as pi writes them. */
  messages: unknown[];
  /** How many older messages were left out because of the query parameter `messages`. */
  skippedMessages?: number;
  /** The answer that is arriving; null if none is. */
  openMessage: unknown;
  runningTools: RunningTool[];
  /** The questions that wait for an answer. */
  questions: Question[];
  /** How the last prompts ended, for clients that missed the events. */
  promptResults: PromptResult[];
  /** The phases of the todo list, as in `todos_changed`. */
  todos: unknown[];
  /** The sub-agents that work, as in `subagent_progress` of pi. */
  subagents: SubagentActivity[];
  lastEvent: number;
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

/** What a user has written so far, up to the cursor. */
export interface TextBeforeCursor {
  text: string;
}

/** The todo list has changed. */
export interface TodosChanged {
  type: "todos_changed";
  /** The phases of the todo list, as in `get_state` of pi. */
  todos: unknown[];
}

/** All branches of a session. */
export interface Tree {
  /** In the order in which they were added. */
  entries: TreeEntry[];
  /** The entry at which the conversation stands, or the one above it that is shown; null at the beginning. */
  leafId: string | null;
}

/** An entry of a session that is worth showing in its tree. */
export interface TreeEntry {
  id: string;
  /** The entry above it that is shown too; absent for the first one. */
  parentId?: string;
  /** The role of a message, such as `user`, or the type of another entry, such as `compaction`. */
  kind: string;
  /** The beginning of its text, in one line. */
  text: string;
  /** ISO 8601. */
  timestamp: string;
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

/** The params and the result of each operation, by its name. */
export interface Operations {
  create_session: { params: NewSession; result: SessionState };
  list_sessions: { params: { cwd?: string; cursor?: string }; result: SessionList };
  get_session: { params: { messages?: number }; result: Snapshot };
  change_session: { params: Changes; result: SessionState };
  delete_session: { params: Record<string, never>; result: void };
  prompt: { params: Prompt; result: AcceptedPrompt };
  steer: { params: QueuedMessage; result: AcceptedPrompt };
  follow_up: { params: QueuedMessage; result: AcceptedPrompt };
  abort: { params: Record<string, never>; result: SessionState };
  resume: { params: Record<string, never>; result: SessionState };
  compact: { params: Compaction; result: CompactionResult };
  get_tree: { params: Record<string, never>; result: Tree };
  fork: { params: Fork; result: Forked };
  move: { params: Move; result: Moved };
  clear_queue: { params: Record<string, never>; result: ClearedQueue };
  complete: { params: TextBeforeCursor; result: Completions };
  listen: { params: { after?: number }; result: void };
  answer: { params: Answer; result: void };
  list_models: { params: Record<string, never>; result: ModelList };
  create_login_code: { params: Record<string, never>; result: LoginCode };
  log_in: { params: Login; result: void };
  log_out: { params: Record<string, never>; result: void };
  healthz: { params: Record<string, never>; result: Health };
  readyz: { params: Record<string, never>; result: Health };
  metrics: { params: Record<string, never>; result: string };
  openapi: { params: Record<string, never>; result: unknown };
  list_jobs: { params: Record<string, never>; result: JobResult[] };
  submit_jobs: { params: Job | Job[]; result: JobResult[] };
  get_job: { params: Record<string, never>; result: JobResult };
  job_events: { params: { after?: number }; result: void };
  job_patch: { params: Record<string, never>; result: string };
  cancel_job: { params: Record<string, never>; result: JobResult };
  retry_job: { params: Record<string, never>; result: JobResult };
  session_jobs: { params: Record<string, never>; result: JobResult[] };
  prompt_session: { params: SessionPrompt; result: JobResult };
  session_transcript: { params: Record<string, never>; result: string };
}
