// Makes pi's built-in tools for extensions that wrap them. They run in the agent, unless the extension brings operations of its
// own (for another machine): then a small version runs here, on these.

import fs from "node:fs/promises";
import path from "node:path";
import { spawn } from "node:child_process";
import { ask, askNow } from "../channel.mjs";
import { generateDiffString, generateUnifiedPatch } from "./diff.mjs";
import { truncateHead, truncateTail, formatSize, DEFAULT_MAX_BYTES } from "./truncate.mjs";

const text = (content, details = undefined) => ({ content: [{ type: "text", text: content }], details });
const absolute = (cwd, name) => path.resolve(cwd, name.replace(/^@/, "").replace(/^~(?=\/|$)/, process.env.HOME ?? "~"));

const locks = new Map();

/** Run `work` when no other work on the same file runs. */
export async function withFileMutationQueue(file, work) {
	const before = locks.get(file) ?? Promise.resolve();
	const mine = before.catch(() => {}).then(work);
	locks.set(file, mine);
	try {
		return await mine;
	} finally {
		if (locks.get(file) === mine) locks.delete(file);
	}
}

const remote = {
	async read({ path: name, offset, limit }, cwd, operations) {
		const file = absolute(cwd, name);
		await operations.access?.(file);
		const type = await operations.detectImageMimeType?.(file);
		const data = await operations.readFile(file);
		if (type) return { content: [{ type: "text", text: `Read image file [${type}]` }, { type: "image", data: data.toString("base64"), mimeType: type }] };
		const lines = data.toString("utf8").split("\n");
		const start = Math.max((offset ?? 1) - 1, 0);
		if (start >= lines.length) throw new Error(`Offset ${offset} is beyond end of file (${lines.length} lines total)`);
		const wanted = lines.slice(start, limit === undefined ? undefined : start + limit);
		const cut = truncateHead(wanted.join("\n"));
		if (cut.firstLineExceedsLimit) return text(`[Line ${start + 1} exceeds the ${formatSize(DEFAULT_MAX_BYTES)} limit.]`, { truncation: cut });
		const end = start + cut.outputLines;
		if (cut.truncated) return text(`${cut.content}\n\n[Showing lines ${start + 1}-${end} of ${lines.length}. Use offset=${end + 1} to continue.]`, { truncation: cut });
		if (end < lines.length && limit !== undefined) return text(`${cut.content}\n\n[${lines.length - end} more lines in file. Use offset=${end + 1} to continue.]`);
		return text(cut.content);
	},
	async write({ path: name, content }, cwd, operations) {
		const file = absolute(cwd, name);
		await operations.mkdir?.(path.dirname(file));
		await operations.writeFile(file, content);
		return text(`Successfully wrote ${Buffer.byteLength(content)} bytes to ${name}`);
	},
	async edit({ path: name, edits }, cwd, operations) {
		const file = absolute(cwd, name);
		await operations.access?.(file);
		const before = (await operations.readFile(file)).toString("utf8");
		let after = before;
		for (const { oldText, newText } of edits) {
			const count = oldText === "" ? 0 : before.split(oldText).length - 1;
			if (count !== 1) throw new Error(`The text to replace must occur exactly once in ${name}; it occurs ${count} times.`);
			after = after.replace(oldText, () => newText);
		}
		await operations.writeFile(file, after);
		const details = { ...generateDiffString(before, after), patch: generateUnifiedPatch(name, before, after) };
		return text(`Successfully replaced ${edits.length} block(s) in ${name}.`, details);
	},
	async bash({ command, timeout }, cwd, operations, { signal, onUpdate, env }) {
		const parts = [];
		const output = () => truncateTail(Buffer.concat(parts).toString("utf8"));
		const onData = (data) => {
			parts.push(Buffer.from(data));
			onUpdate?.(text(output().content));
		};
		const began = performance.now();
		const { exitCode } = await operations.exec(command, cwd, { onData, signal, timeout, env });
		const seconds = Math.round((performance.now() - began) / 100) / 10;
		const cut = output();
		const details = cut.truncated ? { truncation: cut } : undefined;
		if (exitCode === null) throw new Error(`${cut.content}\n\nCommand aborted`.trim());
		const structuredContent = { output: cut.content, truncated: cut.truncated, exit_code: exitCode, wall_time_seconds: seconds };
		const said = cut.content || "(no output)";
		if (exitCode === 0) return { ...text(said, details), structuredContent };
		return { ...text(`${said}\n\nCommand exited with code ${exitCode}`, details), structuredContent, isError: true };
	},
	async ls({ path: name = "." }, cwd, operations) {
		const folder = absolute(cwd, name);
		if (!(await operations.exists(folder))) throw new Error(`Path not found: ${folder}`);
		const names = [...(await operations.readdir(folder))].sort((left, right) => left.toLowerCase().localeCompare(right.toLowerCase()));
		const shown = [];
		for (const each of names) shown.push((await operations.stat(path.join(folder, each))).isDirectory() ? `${each}/` : each);
		return text(shown.join("\n") || "(empty directory)");
	},
	async find({ pattern, path: name = ".", limit = 1000 }, cwd, operations) {
		const found = await operations.glob(pattern, absolute(cwd, name), { ignore: ["**/node_modules/**", "**/.git/**"], limit });
		return text(found.join("\n") || "No files found matching pattern");
	},
};

function execute(name, cwd, options) {
	return async (toolCallId, args, signal, onUpdate) => {
		if (options.operations && remote[name]) {
			const hooked = hook(name, args, cwd, options);
			const result = await remote[name](hooked.args, hooked.cwd, options.operations, { signal, onUpdate, env: hooked.env });
			// The result of reading a text is this text, for tools that call others.
			return name === "read" && result.content[0].type === "text" && result.content.length === 1
				? { ...result, structuredContent: result.content[0].text }
				: result;
		}
		const hooked = hook(name, args, cwd, options);
		return ask("builtinTool", { name, toolCallId, args: hooked.args, cwd: hooked.cwd, env: hooked.env }, signal, onUpdate);
	};
}

function hook(name, args, cwd, options) {
	if (name !== "bash") return { args, cwd };
	const command = options.commandPrefix ? `${options.commandPrefix}\n${args.command}` : args.command;
	if (!options.spawnHook) return { args: { ...args, command }, cwd };
	const changed = options.spawnHook({ command, cwd, env: { ...process.env } });
	return { args: { ...args, command: changed.command }, cwd: changed.cwd, env: changed.env };
}

const PLAIN = Symbol("a tool that the agent has itself");

/** Whether a tool does just what the agent's tool of the same name does. */
export const isOwnTool = (tool) => tool[PLAIN] !== undefined && tool[PLAIN] === tool.execute;

/** Run a tool on the files of this machine, where no agent is that could do it. */
export function runHere(name, args, cwd, env, signal, onUpdate) {
	const exists = (file) => fs.access(file).then(() => true, () => false);
	const files = { readFile: fs.readFile, writeFile: fs.writeFile, access: fs.access, readdir: fs.readdir, stat: fs.stat, exists, mkdir: (folder) => fs.mkdir(folder, { recursive: true }) };
	if (!["bash", "read", "write", "edit", "ls"].includes(name)) throw new Error(`The tool ${name} cannot be called directly. Use createAgentSession().`);
	return remote[name](args, cwd, name === "bash" ? createLocalBashOperations() : files, { signal, onUpdate, env });
}

function factory(name) {
	return (cwd, options = {}) => {
		const { label, description, parameters, promptSnippet, promptGuidelines } = askNow("describeTool", { name });
		const own = execute(name, cwd, options);
		const isPlain = !options.operations && !options.spawnHook && !options.commandPrefix;
		return { name, label, description, parameters, promptSnippet, promptGuidelines, execute: own, ...(isPlain ? { [PLAIN]: own } : {}) };
	};
}

export const createReadTool = factory("read");
export const createWriteTool = factory("write");
export const createEditTool = factory("edit");
export const createBashTool = factory("bash");
export const createLsTool = factory("ls");
export const createFindTool = factory("find");
export const createGrepTool = factory("grep");
export const createReadToolDefinition = createReadTool;
export const createWriteToolDefinition = createWriteTool;
export const createEditToolDefinition = createEditTool;
export const createBashToolDefinition = createBashTool;
export const createLsToolDefinition = createLsTool;
export const createFindToolDefinition = createFindTool;
export const createGrepToolDefinition = createGrepTool;
export const createCodingTools = (cwd) => [createReadTool, createBashTool, createEditTool, createWriteTool].map((make) => make(cwd));
export const createReadOnlyTools = (cwd) => [createReadTool, createGrepTool, createFindTool, createLsTool].map((make) => make(cwd));

/** Shell commands on this machine, for extensions that change a command and then run it as usual. */
export function createLocalBashOperations({ shellPath } = {}) {
	return {
		exec: (command, cwd, { onData, signal, timeout, env }) =>
			new Promise((resolve, reject) => {
				const child = spawn(shellPath ?? "bash", ["-c", command], { cwd, env: env ?? process.env, stdio: ["ignore", "pipe", "pipe"], detached: true });
				const stop = () => {
					try {
						process.kill(-child.pid, "SIGKILL");
					} catch {
						child.kill("SIGKILL");
					}
				};
				const timer = timeout ? setTimeout(stop, timeout * 1000) : undefined;
				signal?.addEventListener("abort", stop, { once: true });
				child.stdout.on("data", onData);
				child.stderr.on("data", onData);
				child.on("error", reject);
				child.on("close", (exitCode) => {
					clearTimeout(timer);
					signal?.removeEventListener("abort", stop);
					resolve({ exitCode });
				});
			}),
	};
}
