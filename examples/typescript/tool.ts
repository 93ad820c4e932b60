// A host whose model can use one of its functions. docs/first-host-tool.md explains it.
import { setTimeout as wait } from "node:timers/promises";
import { hostTool, spawnAgent } from "fairlead-client";

const shelves: Record<string, number> = { lamp: 3, desk: 1 };

const restock = hostTool<{ item: string; count: number }>({
  name: "restock",
  description: "Fetch more of something from the storeroom. Returns how many of each item there are.",
  parameters: {
    type: "object",
    properties: { item: { type: "string", description: "what to fetch, in the singular" }, count: { type: "integer" } },
    required: ["item", "count"],
  },
  timeoutMs: 30_000,
  async run({ item, count }, { progress, signal }) {
    if (!(item in shelves)) throw new Error(`There is no shelf for a ${item}.`);
    for (let number = 1; number <= count; number++) {
      await wait(100, undefined, { signal }); // a walk to the storeroom
      shelves[item]!++;
      progress(`${number} of ${count} fetched`);
    }
    return shelves;
  },
});

const client = await spawnAgent({ args: ["--dialect", "pi"], tools: [restock] });
console.log((await client.prompt(process.argv[2] ?? "Fetch two more lamps.")).text);
await client.stop();
