// An extension in TypeScript, as for pi: a gate and a tool. Try it with `fairlead -e examples/pi_extension.ts`.
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { Type } from "typebox";

export default function (pi: ExtensionAPI) {
  pi.on("tool_call", async (event, ctx) => {
    if (event.toolName !== "bash" || !/\brm\b/.test(String(event.input.command))) return undefined;
    const allowed = ctx.hasUI && (await ctx.ui.confirm("Delete files?", String(event.input.command)));
    return allowed ? undefined : { block: true, reason: "Deleting needs permission. Ask the user to do it." };
  });

  pi.registerTool({
    name: "word_count",
    label: "Word count",
    description: "Count the words of a text.",
    parameters: Type.Object({ text: Type.String() }),
    async execute(_toolCallId, { text }) {
      return { content: [{ type: "text", text: String(text.split(/\s+/).length) }], details: {} };
    },
  });
}
