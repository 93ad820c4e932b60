// Everything that needs neither Node nor Bun. Bring your own transport.

export { Client, type ClientOptions, type Connect } from "./client.js";
export type { ConnectionOptions } from "./connection.js";
export * from "./errors.js";
export { EventStream } from "./events.js";
export type { CommandData, CommandName, CommandParams } from "./generated/commands.js";
export type * from "./generated/family.js";
export { hostTool, type HostTool, type ToolContext, type UriHandler } from "./host-tools.js";
export { MessageAssembler, textOf, toolCallsOf, type AssembledUpdate, type ClientEvent } from "./messages.js";
export type * as opal from "./generated/opal.js";
export type * as http from "./generated/http.js";
export {
    connectOpalServer,
    connectServer,
    ConnectionBrokeError,
    ServerRefusedError,
    type NetworkOptions,
    type ServerOptions,
} from "./network.js";
export {
    OpalClient,
    OpalRun,
    type OpalClientOptions,
    type OpalEvent,
    type OpalHandlers,
    type OpalRunResult,
} from "./opal-client.js";
export type { RequestOptions } from "./pending.js";
export { Run, type PromptOptions, type RunResult, type RunUsage } from "./run.js";
export {
    ServerClient,
    type Followed,
    type FollowJobOptions,
    type FollowOptions,
    type JobEvent,
    type ServerClientOptions,
    type SessionEvent,
} from "./server-client.js";
export { fromStreams, type NodeWritable, type Transport } from "./transport.js";
export {
    isApproval,
    type ApprovalDecision,
    type ApprovalRequest,
    type DisplayUiRequest,
    type UiContext,
    type UiHandlers,
} from "./ui.js";
