"""Tools of pi's extensions that choose how tools are declared, and what tools know about each other."""

from __future__ import annotations

from pathlib import Path

from tests.extend.extended import Extended, calling, notes, scripted

from fairlead.testing import Turn

TOOL = """
  const tool = (name: string, more: object) => pi.registerTool({ name, label: name, description: `does ${name}`, promptSnippet: `snippet of ${name}`,
    parameters: Type.Object({}), async execute() { return { content: [{ type: "text", text: name }], details: {} }; }, ...more } as any);
"""  # noqa: E501

HIDING = (
    TOOL
    + """
  tool("quiet", {});
  tool("guide", { exposure: "model-only", prepareLoadout: (loadout: any) => {
    note([loadout.declared.some((each: any) => each.name === "quiet"),
      loadout.callable.some((each: any) => each.name === "guide"),
      loadout.getExposure("guide"), loadout.registered.length > 5]);
    return { descriptions: { guide: "guides to quiet", bash: "runs" }, hiddenDeclarations: ["quiet", "unknown"] };
  } });
  pi.registerCommand("off", { handler: async () => pi.setActiveTools(pi.getActiveTools().filter((name) => name !== "guide")) });
"""
)


def declared(it: Extended) -> dict[str, str]:
    return {tool.name: tool.description for tool in it.model.requests[-1].tools}


async def test_an_active_tool_can_hide_others_and_replace_their_descriptions(tmp_path: Path) -> None:
    turns = [calling("quiet"), Turn(text="a"), Turn(text="b")]
    async with scripted(tmp_path, HIDING, turns=turns) as it:
        await it.agent.ask("hi")
        assert it.errors == [] and it.results == [("quiet", False)]
        assert "quiet" not in declared(it) and (declared(it)["guide"], declared(it)["bash"]) == ("guides to quiet", "runs")
        assert "snippet of quiet" not in it.model.requests[-1].system_prompt
        assert "snippet of guide" in it.model.requests[-1].system_prompt
        await it.command("/off")
        await it.agent.ask("hi")
        assert declared(it)["quiet"] == "does quiet" and declared(it)["bash"] != "runs" and "guide" not in declared(it)
        assert "snippet of quiet" in it.model.requests[-1].system_prompt
    assert notes(tmp_path) == [[True, False, "model-only", True]]


async def test_a_tool_that_fails_to_choose_changes_nothing_and_is_reported(tmp_path: Path) -> None:
    body = (
        TOOL
        + """
  tool("thrower", { prepareLoadout: () => { throw new Error("no idea"); } });
  tool("liar", { prepareLoadout: () => ({ descriptions: { bash: 5 }, hiddenDeclarations: "bash" }) });
  tool("nothing", { prepareLoadout: () => undefined });
"""
    )
    async with scripted(tmp_path, body) as it:
        assert str(await it.agent.ask("hi")) == "ok"
        assert "bash" in declared(it)
        assert [(event, error[:7]) for _, event, error in it.errors] == [
            ("prepare_loadout", "no idea"),
            ("prepare_loadout", "descrip"),
        ]


async def test_tools_know_the_data_that_others_return_and_what_they_reach(tmp_path: Path) -> None:
    body = (
        TOOL
        + """
  const outputSchema = { type: "object", properties: { answer: { type: "number" } } };
  tool("data", { outputSchema, reachesTools: (input: any) => input.words });
  tool("caller", { async execute(id: any, args: any, signal: any, update: any, ctx: any) {
    const find = (name: string) => ctx.tools.find((each: any) => each.name === name);
    note([find("data").outputSchema, Object.keys(find("bash").outputSchema.properties), find("edit").outputSchema ?? null]);
    const listed: any = pi.getAllTools().find((each) => each.name === "data");
    note([listed.reachesTools({ words: ["a"] }), "outputSchema" in listed]);
    return { content: [], details: {} };
  } });
"""
    )
    async with scripted(tmp_path, body, turns=[calling("caller"), Turn(text="ok")]) as it:
        await it.agent.ask("hi")
        assert it.errors == [] and it.results == [("", False)]
    bash = ["output", "truncated", "full_output_path", "exit_code", "wall_time_seconds"]
    assert notes(tmp_path) == [
        [{"type": "object", "properties": {"answer": {"type": "number"}}}, bash, None],
        [["a"], False],
    ]
