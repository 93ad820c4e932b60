// A host that uses the AI SDK with its provider for Claude Code: `claude_ai_sdk_host.mjs MODULES CLI CWD`. It prints what it saw.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, pathToClaudeCodeExecutable, cwd] = process.argv.slice(2);
const require = createRequire(`${modules}/x.js`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { generateText, generateObject, streamText } = await load("ai");
const { createClaudeCode } = await load("ai-sdk-provider-claude-code");
const { z } = await load("zod");

const claude = createClaudeCode({ defaultSettings: { pathToClaudeCodeExecutable, cwd, allowedTools: ["Bash"] } });
const model = claude("claude-sonnet-4-5");

const first = await generateText({ model, prompt: "go" });
const session = first.providerMetadata["claude-code"].sessionId;
const streamed = streamText({ model, prompt: "stream" });
let pieces = "";
for await (const piece of streamed.textStream) pieces += piece;
const resumed = await generateText({ model: claude("claude-sonnet-4-5", { resume: session }), prompt: "again" });
const object = await generateObject({ model, schema: z.object({ answer: z.number() }), prompt: "how much" });
console.log(
  JSON.stringify({
    text: first.text,
    usage: first.usage.outputTokens > 0,
    pieces,
    reason: await streamed.finishReason,
    resumed: [resumed.text, resumed.providerMetadata["claude-code"].sessionId === session],
    object: object.object,
  }),
);
