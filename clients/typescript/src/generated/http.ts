// `make generate` writes this file from the declarations in src/fairlead/protocol. Do not edit.
// The HTTP interface of fairlead serve.
/** What happened to a message: it started a run, it is queued, or an extension handled it. */
export interface AcceptedPrompt {
  status: "handled" | "queued" | "started";
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
  /** What the call would change, as a unified diff. */
  diff?: string;
  /** The sub-agent that makes the call; absent for the session itself. */
  subagentId?: string;
}

/** The session has another approval mode. */
export interface ApprovalModeChanged {
  type: "approval_mode_changed";
  mode: "ask" | "auto" | "deny" | "write";
}

/** What to change. Fields that are absent stay as they are. */
export interface Changes {
  /** The provider and the id of a model, such as `anthropic/claude-opus-5-5`. */
  model?: string | null;
  thinking?: "high" | "low" | "max" | "medium" | "minimal" | "off" | "xhigh" | null;
  name?: string | null;
  approval?: "ask" | "auto" | "deny" | "write" | null;
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

/** A session to begin. Everything has a default. */
export interface NewSession {
  /** The working directory. It must exist, and lie inside the root of the server if that has one. */
  cwd?: string | null;
  /** A model such as `anthropic/claude-opus-5-5`, or a pattern for one. */
  model?: string | null;
  thinking?: "high" | "low" | "max" | "medium" | "minimal" | "off" | "xhigh" | null;
  approval?: "ask" | "auto" | "deny" | "write" | null;
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
  text: string;
  /** Repeating a message with the same id returns the first answer and queues nothing. */
  id?: string | null;
  images?: ImageContent[];
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
export type ServeEvent = Question | QuestionClosed | PromptResult | SessionReplaced | ModelChanged | ApprovalModeChanged | TodosChanged | Shown | Resync;

export interface SessionList {
  /** The last changed first. */
  sessions: SessionSummary[];
  /** Pass it as `cursor` to get the next page; absent on the last page. */
  nextCursor?: string;
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
  /** The texts that wait for the next turn, and those that wait for the end of the run. */
  steering?: string[];
  followUp?: string[];
  messageCount: number;
  context?: ContextUse;
  /** US dollars. */
  cost: number;
  /** How many clients listen to its events. */
  listeners: number;
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
  lastEvent: number;
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
  compact: { params: Compaction; result: CompactionResult };
  get_tree: { params: Record<string, never>; result: Tree };
  fork: { params: Fork; result: Forked };
  listen: { params: { after?: number }; result: void };
  answer: { params: Answer; result: void };
  list_models: { params: Record<string, never>; result: ModelList };
  create_login_code: { params: Record<string, never>; result: LoginCode };
  log_in: { params: Login; result: void };
  log_out: { params: Record<string, never>; result: void };
  healthz: { params: Record<string, never>; result: Health };
  readyz: { params: Record<string, never>; result: Health };
  metrics: { params: Record<string, never>; result: void };
  openapi: { params: Record<string, never>; result: unknown };
}
