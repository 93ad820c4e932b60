// A chat bot with one lasting session per room. It reads lines such as `kitchen: What is for dinner?` from its input.
import { createInterface } from "node:readline";
import { ClientError, spawnAgent, type Client } from "fairlead-client";

const start = (room: string): Promise<Client> =>
  spawnAgent({
    args: ["--dialect", "pi", "--approval", "ask", "--session-id", room],
    ui: { approve: ({ toolName }) => (toolName === "write" || toolName === "edit" ? "allow" : "deny") },
  });

async function answer(client: Client, room: string, text: string): Promise<Client> {
  try {
    const result = await client.prompt(text, { signal: AbortSignal.timeout(300_000) });
    console.log(`${room}: ${result.status === "aborted" ? "Sorry, that took too long." : result.text}`);
  } catch (error) {
    if (!(error instanceof ClientError)) throw error;
    console.log(`${room}: Sorry, that did not work: ${error.message}`);
  }
  return client;
}

const rooms = new Map<string, Promise<Client>>(); // each settles when its last answer has arrived
for await (const line of createInterface({ input: process.stdin })) {
  const [room = "", ...words] = line.split(": ");
  rooms.set(room, (rooms.get(room) ?? start(room)).then((client) => answer(client, room, words.join(": "))));
}
for (const room of rooms.values()) await (await room).stop();
