// Requests to a server over HTTP, and the hosts' protocols over a WebSocket. Both use what the platform has.

import { Client, type ClientOptions } from "./client.js";
import { ClientError, CommandError, ConnectionClosedError } from "./errors.js";
import { OpalClient, type OpalClientOptions } from "./opal-client.js";
import type { Transport } from "./transport.js";

export interface ServerOptions {
    /** The token of the server. A page that the server itself sent needs none: its cookie counts. */
    token?: string;
    /** Allows http, which is not encrypted, to other machines. */
    insecure?: boolean;
    /** Sends requests instead of the global `fetch`, for example with other TLS settings. */
    fetch?: typeof fetch;
}

export interface NetworkOptions extends ServerOptions {
    /** The working directory on the server. */
    cwd?: string;
}

/** The server could not be reached, or the connection broke. Another attempt may succeed. */
export class ConnectionBrokeError extends ConnectionClosedError {
    constructor(
        message: string,
        /** Whether the server may have seen the request. */
        readonly wasSent = true,
    ) {
        super(message);
    }
}

/** The server refused a request. */
export class ServerRefusedError extends CommandError {
    constructor(
        command: string,
        message: string,
        code: string,
        /** The HTTP status. */
        readonly status: number,
        /** Seconds after which to try again, if the server said so. */
        readonly retryAfter: number | undefined,
    ) {
        super(command, message, code);
    }
}

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;
/** What happened before anything could be sent. */
const NOT_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "UND_ERR_CONNECT_TIMEOUT"]);
const CERTIFICATE = /CERT|SELF_SIGNED|UNABLE_TO_VERIFY|ALTNAME/;

/** Where a server is. The token is sent in a header only. */
export class ServerAddress {
    readonly url: string;
    #token: string | undefined;
    #fetch: typeof fetch;

    constructor(url: string, options: ServerOptions) {
        let parsed: URL;
        try {
            parsed = new URL(url);
        } catch {
            throw new ClientError("The address of the server is malformed. Expected https://HOST:PORT.");
        }
        if (parsed.username || parsed.password || parsed.search || parsed.hash)
            throw new ClientError(
                "The address of the server must not have a user, a query or a fragment. Give the token as `token`.",
            );
        if (parsed.protocol !== "http:" && parsed.protocol !== "https:")
            throw new ClientError(`Expected an address such as https://HOST:PORT, found ${url}.`);
        if (options.token !== undefined && !/^[!-~]+$/.test(options.token))
            throw new ClientError("The token must be printable ASCII without spaces. It is in the file serve.token of the server.");
        if (options.token && parsed.protocol === "http:" && !options.insecure && !LOOPBACK.test(parsed.hostname))
            throw new ClientError(
                `http would send the token to ${parsed.hostname} unencrypted. Use https, or set \`insecure\` if the network is safe.`,
            );
        this.url = parsed.origin + parsed.pathname.replace(/\/$/, "");
        this.#token = options.token;
        this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
    }

    get headers(): Record<string, string> {
        return this.#token === undefined ? {} : { Authorization: `Bearer ${this.#token}` };
    }

    /** Sends a request. Rejects with a ClientError that says what is wrong, unless the signal fired. */
    async send(path: string, init: RequestInit): Promise<Response> {
        try {
            const headers = { ...(init.headers as Record<string, string>), ...this.headers };
            return await this.#fetch(this.url + path, { ...init, headers, redirect: "manual", cache: "no-store" });
        } catch (error) {
            if (init.signal?.aborted) throw error;
            throw this.#failure(error as Error);
        }
    }

    /** The error for a server that answers, but not as fairlead does. */
    notFairlead(found: string): ConnectionClosedError {
        return new ConnectionClosedError(`${this.url} is not the address of a fairlead server: ${found}.`);
    }

    broke(): ConnectionBrokeError {
        return new ConnectionBrokeError(`The connection to ${this.url} broke.`);
    }

    #failure(error: Error): ConnectionClosedError {
        const cause = error.cause as { code?: string; message?: string } | undefined;
        const code = cause?.code ?? "";
        if (CERTIFICATE.test(code)) {
            const text = `The certificate of ${this.url} cannot be trusted: ${cause?.message}. With Node, NODE_EXTRA_CA_CERTS names more.`;
            return new ConnectionClosedError(text);
        }
        if (/WRONG_VERSION|PACKET_LENGTH|RECORD_LAYER/.test(code))
            return new ConnectionClosedError(`The server at ${this.url} does not speak TLS. Is its address http://?`);
        if (code.startsWith("HPE_")) return this.notFairlead("its answer is not HTTP");
        const why = cause?.message || code || error.message;
        return new ConnectionBrokeError(`The server at ${this.url} cannot be reached: ${why}.`, !NOT_SENT.has(code));
    }
}

/** Returns the error that a response reports. */
export async function refusalOf(address: ServerAddress, command: string, response: Response): Promise<ClientError> {
    const body = (await response.json().catch(() => undefined)) as { error?: { code?: unknown; message?: unknown } } | undefined;
    const { code, message } = body?.error ?? {};
    if (typeof code !== "string" || typeof message !== "string") {
        if ([502, 503, 504].includes(response.status))
            return new ConnectionBrokeError(`The server at ${address.url} is away (status ${response.status}).`);
        return address.notFairlead(`it answers ${command} with status ${response.status}`);
    }
    const after = response.headers.get("retry-after");
    const isAccess = response.status === 401 || response.status === 403;
    const text = isAccess ? `The server at ${address.url} refuses the request: ${message}` : message;
    return new ServerRefusedError(command, text, code, response.status, after ? Number(after) : undefined);
}

/**
 * Connects to `fairlead serve` and returns a client when it responds. The session belongs to the connection: when that ends, the
 * run is aborted and saved.
 */
export function connectServer(
    url: string,
    options: NetworkOptions & ClientOptions & { dialect?: "pi" | "omp" | "xcsh" } = {},
): Promise<Client> {
    const address = new ServerAddress(url, options);
    const query = { dialect: options.dialect ?? "pi", updates: options.updates ?? "delta", ...(options.cwd && { cwd: options.cwd }) };
    return Client.connect(() => openWebSocket(address, "/ws", query), options);
}

/** Connects to `fairlead serve` and returns a client of its Opal protocol. */
export function connectOpalServer(url: string, options: NetworkOptions & OpalClientOptions = {}): Promise<OpalClient> {
    const address = new ServerAddress(url, options);
    const query = { dialect: "opal", ...(options.cwd && { cwd: options.cwd }) };
    return OpalClient.connect(() => openWebSocket(address, "/ws", query), options);
}

/** Opens a WebSocket whose messages are lines. */
async function openWebSocket(address: ServerAddress, path: string, query: Record<string, string>): Promise<Transport> {
    if (typeof WebSocket === "undefined") throw new ClientError("This platform has no WebSocket. Use Node 22 or newer.");
    const url = `${address.url.replace(/^http/, "ws")}${path}?${new URLSearchParams(query)}`;
    const hasToken = "Authorization" in address.headers;
    let socket: WebSocket;
    try {
        // Node and Bun accept headers. Browsers do not: they refuse this argument.
        socket = hasToken ? new WebSocket(url, { headers: address.headers } as unknown as string[]) : new WebSocket(url);
    } catch (error) {
        throw new ClientError("The WebSocket of this platform cannot send a token. Use a page of the server, and its cookie.", {
            cause: error,
        });
    }
    const transport = new WebSocketTransport(socket, address.url);
    if (!(await transport.opened)) throw await whyRefused(address);
    return transport;
}

/** WebSockets do not say why they could not be opened. An ordinary request does. */
async function whyRefused(address: ServerAddress): Promise<ClientError> {
    try {
        const response = await address.send("/v1/models", { method: "GET" });
        if (response.status !== 200) return await refusalOf(address, "connect", response);
        const body = (await response.json().catch(() => undefined)) as { models?: unknown } | undefined;
        if (!Array.isArray(body?.models)) return address.notFairlead("it answers with something else");
    } catch (error) {
        if (error instanceof ClientError) return error;
    }
    return new ConnectionClosedError(`The server at ${address.url} refuses the connection. Is \`cwd\` a directory that it allows?`);
}

class WebSocketTransport implements Transport {
    readonly input: AsyncIterable<string>;
    readonly opened: Promise<boolean>;
    #socket: WebSocket;
    #closed: Promise<void>;
    #lines: string[] = [];
    #end: Error | true | undefined;
    #wake: () => void = () => {};

    constructor(socket: WebSocket, url: string) {
        this.#socket = socket;
        this.opened = new Promise((resolve) => {
            socket.addEventListener("open", () => resolve(true));
            socket.addEventListener("error", () => resolve(false));
            socket.addEventListener("close", () => resolve(false));
        });
        socket.addEventListener("message", ({ data }) => {
            this.#lines.push(`${data as string}\n`);
            this.#wake();
        });
        this.#closed = new Promise((resolve) => {
            socket.addEventListener("close", ({ code, reason }) => {
                const why = reason ? `code ${code}: ${reason}` : `code ${code}`;
                this.#end = code === 1000 || code === 1005 ? true : new Error(`${url} closed it with ${why}`);
                this.#wake();
                resolve();
            });
        });
        this.input = this.#read();
    }

    async send(text: string): Promise<void> {
        if (this.#socket.readyState !== WebSocket.OPEN) throw new Error("the connection is closed");
        for (const line of text.split("\n")) if (line) this.#socket.send(line);
    }

    close(): Promise<void> {
        this.#socket.close(1000);
        return this.#closed;
    }

    async *#read(): AsyncGenerator<string> {
        for (;;) {
            const line = this.#lines.shift();
            if (line !== undefined) yield line;
            else if (this.#end instanceof Error) throw this.#end;
            else if (this.#end) return;
            else await new Promise<void>((resolve) => (this.#wake = resolve));
        }
    }
}
