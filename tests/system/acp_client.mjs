// Drives an agent with the client of the TypeScript SDK. Arguments: the module of the SDK, the working directory, and the
// agent's command or the address of its WebSocket. Prints what happened as one line of JSON.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [sdk, cwd, command, ...args] = process.argv.slice(2);
const acp = await import(pathToFileURL(sdk).href);
const { stream, close } = command.startsWith("ws") ? await connected(command) : spawned();

function spawned() {
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  return { stream: acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)), close: () => child.stdin.end() };
}

/** One message of the WebSocket is one message of the protocol. */
async function connected(url) {
  const socket = new WebSocket(url, { headers: { authorization: `Bearer ${process.env.TOKEN}` } });
  await new Promise((opened, failed) => Object.assign(socket, { onopen: opened, onerror: failed }));
  const readable = new ReadableStream({
    start(controller) {
      socket.onmessage = ({ data }) => controller.enqueue(JSON.parse(data));
      socket.onclose = () => controller.close();
    },
    cancel: () => void (socket.onclose = null),
  });
  const writable = new WritableStream({ write: (message) => socket.send(JSON.stringify(message)) });
  return { stream: { readable, writable }, close: () => socket.close() };
}

const updates = [];
const permissions = [];
const app = acp
  .client({ name: "system-test" })
  .onNotification(acp.methods.client.session.update, ({ params }) => void updates.push(params.update))
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
    permissions.push(params);
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  });
const result = await app.connectWith(stream, async (agent) => {
  const { session } = acp.methods.agent;
  const initialized = await agent.request(acp.methods.agent.initialize, { protocolVersion: 1, clientCapabilities: {} });
  const made = await agent.request(session.new, { cwd, mcpServers: [] });
  const sessionId = made.sessionId;
  const prompt = (text) => agent.request(session.prompt, { sessionId, prompt: [{ type: "text", text }] });
  const first = await prompt("write a file");
  const running = prompt("wait");
  while (!updates.some((update) => update.content?.text?.includes("word"))) await new Promise((go) => setTimeout(go, 10));
  await agent.notify(session.cancel, { sessionId });
  const second = await running;
  const listed = await agent.request(session.list, {});
  await agent.request(session.close, { sessionId });
  const before = updates.length;
  await agent.request(session.load, { sessionId, cwd, mcpServers: [] });
  const replayed = updates.slice(before).map((update) => update.sessionUpdate);
  return { initialized, sessionId, first, second, listed, replayed };
});
console.log(JSON.stringify({ ...result, updates, permissions }));
close();
