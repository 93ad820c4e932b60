// Real agents, each in a home of its own, with a model that plays a script.
//
// The environment says what to start: PYTHON (one with fairlead), and AGENTS, the commands of agents by name as JSON.

import { spawn, type ChildProcess } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Client, startProcess, type ClientOptions, type ProcessTransport } from "fairlead-client";

export type Turn = Record<string, unknown>;

export const given = JSON.parse(process.env["AGENTS"] ?? "{}") as Record<string, string[]>;
export const AGENTS = Object.keys(given);
export const FAIRLEAD = AGENTS.filter((name) => name.startsWith("fairlead"));
if (!AGENTS.length)
    throw new Error('AGENTS is not set: run `make test-system ARGS="-k typescript"` in the root of the repository');

/** Options of each test. */
export const LIMIT = { timeout: 60_000 };

export interface Stage {
    client: Client;
    folder: string;
    /** The process that was started last. */
    agent: ProcessTransport;
}

/** Runs a test with a client of an agent whose model plays the turns. */
export async function withAgent(
    name: string,
    turns: Turn[],
    test: (stage: Stage) => Promise<void>,
    options: ClientOptions & { args?: string[] } = {},
): Promise<void> {
    const root = mkdtempSync(join(tmpdir(), "fairlead-client-"));
    const provider = await startProvider(turns);
    try {
        const environment = surroundings(root, provider.port);
        const folder = join(root, "work");
        const stage = { folder } as Stage;
        const connect = async (): Promise<ProcessTransport> => {
            const args = ["--model", "scripted/one", ...(options.args ?? [])];
            stage.agent = await startProcess(["--mode", "rpc"], { command: given[name]!, args, cwd: folder, env: environment });
            return stage.agent;
        };
        stage.client = await Client.connect(connect, options);
        try {
            await test(stage);
        } finally {
            await stage.client.stop();
        }
    } finally {
        provider.process.kill();
        rmSync(root, { recursive: true, force: true, maxRetries: 3 });
    }
}

/** Starts a model provider that plays the turns. */
export async function startProvider(turns: Turn[]): Promise<{ process: ChildProcess; port: number }> {
    const provider = spawn(process.env["PYTHON"]!, ["-m", "fairlead.testing.provider", "--script", "-"], {
        stdio: ["pipe", "pipe", "inherit"],
    });
    provider.stdin.end(JSON.stringify({ turns }));
    const line = await new Promise<string>((resolve) => provider.stdout.setEncoding("utf8").once("data", resolve));
    return { process: provider, port: Number(line.split(" ")[1]) };
}

/** The same models for each agent, and nothing from the caller. */
export function surroundings(root: string, port: number): Record<string, string> {
    const cost = { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 };
    const model = { id: "one", name: "one", reasoning: false, input: ["text"], contextWindow: 200_000, maxTokens: 8192, cost };
    const scripted = { baseUrl: `http://127.0.0.1:${port}`, api: "anthropic-messages", apiKey: "no-secret", models: [model] };
    const homes = { FAIRLEAD_HOME: join(root, ".fairlead"), PI_CODING_AGENT_DIR: join(root, ".pi", "agent") };
    for (const home of Object.values(homes)) {
        mkdirSync(home, { recursive: true });
        writeFileSync(join(home, "models.json"), JSON.stringify({ providers: { scripted } }));
        writeFileSync(join(home, "settings.json"), JSON.stringify({ retry: { enabled: true, maxRetries: 2, baseDelayMs: 50 } }));
    }
    mkdirSync(join(root, "work"));
    const quiet = { PI_OFFLINE: "1", PI_TELEMETRY: "0", PI_SKIP_VERSION_CHECK: "1" };
    return { PATH: process.env["PATH"]!, HOME: root, LANG: "C.UTF-8", TERM: "dumb", ...homes, ...quiet };
}
