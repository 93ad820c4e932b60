"""Extensions written for pi that go to other sessions."""

from __future__ import annotations

import json
from pathlib import Path

from tests.extend.extended import calling, extended, notes, scripted, user_texts

from fairlead.testing import Turn

FORKING = """
  pi.on("session_before_fork", (event) => { note([event.position]); return args === "cancel" ? { cancel: true } : undefined; });
  let args = "";
  pi.registerCommand("fork", { handler: async (given, ctx) => {
    args = given;
    const messages = ctx.sessionManager.getBranch().filter((entry: any) => entry.type === "message") as any[];
    const target = given === "answer" ? messages[1].id : given === "none" ? "nothing" : messages[2].id;
    const withSession = async (fresh: any) => note(fresh.sessionManager.getBranch().at(-1).message.role);
    note((await ctx.fork(target, { position: "at", withSession })).cancelled);
  } });
"""


async def test_a_session_is_copied_up_to_any_entry(tmp_path: Path) -> None:
    async with scripted(tmp_path, FORKING) as it:
        await it.agent.ask("one")
        await it.agent.ask("two")
        first = it.agent.session.history.id
        await it.command("/fork cancel")
        assert it.agent.session.history.id == first
        await it.command("/fork user")
        assert it.agent.session.history.id != first
        assert [message.role for message in it.agent.session.messages] == ["user", "assistant", "user"]
        await it.command("/fork answer")
        assert user_texts(it.agent.session.messages) == ["one"] and len(it.agent.session.messages) == 2
        assert it.errors == []
    assert notes(tmp_path) == [["at"], True, ["at"], "user", False, ["at"], "assistant", False]


async def test_a_copy_up_to_an_entry_that_does_not_exist_fails(tmp_path: Path) -> None:
    async with scripted(tmp_path, FORKING) as it:
        await it.agent.ask("one")
        await it.command("/fork none")
        assert it.errors == [("command:fork", "command", "Invalid entry ID for forking")]


async def test_a_python_extension_copies_a_session_up_to_an_entry(tmp_path: Path) -> None:
    source = """
    from fairlead.extension import CommandContext, Fairlead

    def setup(fl: Fairlead) -> None:
        async def fork(arguments: str, context: CommandContext) -> None:
            await context.fork(context.session.leaf, "at")

        fl.register_command("fork", fork)
    """
    async with extended(tmp_path, source) as it:
        await it.agent.ask("one")
        first = it.agent.session.history.id
        await it.command("/fork")
        assert it.agent.session.history.id != first
        assert [message.role for message in it.agent.session.messages] == ["user", "assistant"]


REPLACING = """
  const messages = (ctx: any) => ctx.sessionManager.getEntries().filter((entry: any) => entry.type === "message").length;
  pi.on("session_start", (event, ctx) => note([event.reason, messages(ctx)]));
  pi.registerCommand("fresh", { handler: async (args, ctx) => {
    await ctx.newSession({
      setup: async (session: any) => {
        session.appendMessage({ role: "user", content: [{ type: "text", text: "before" }], timestamp: 1 });
        if (args === "bad") throw new Error("Not like this.");
      },
      withSession: async (next: any) => {
        await next.sendUserMessage("go on");
        note(["sent", messages(next), next.isIdle()]);
        const tries = [() => ctx.cwd, () => ctx.isIdle(), () => ctx.ui, () => ctx.reload(), () => pi.getSessionName(), () => pi.exec("true", [])];
        note(tries.map((act) => { try { act(); return "done"; } catch (error: any) { return error.message.slice(0, 27); } }));
      },
    });
  } });
  pi.registerCommand("again", { handler: async (args, ctx) => { await ctx.reload(); ctx.ui.notify("late"); } });
"""  # noqa: E501


async def test_a_session_is_filled_before_it_starts_and_replaces_the_old_context(tmp_path: Path) -> None:
    async with scripted(tmp_path, REPLACING) as it:
        await it.command("/fresh")
        assert user_texts(it.agent.session.messages) == ["before", "go on"]
        assert it.errors == []
    stale = "This extension ctx is stale"
    assert notes(tmp_path) == [["startup", 0], ["new", 1], ["sent", 3, True], [stale] * 6]


async def test_a_setup_that_fails_fails_the_command_and_no_session_starts_or_ends(tmp_path: Path) -> None:
    async with scripted(tmp_path, REPLACING + 'pi.on("session_shutdown", (event) => note(["end", event.reason]));') as it:
        await it.command("/fresh bad")
        assert it.errors == [("command:fresh", "command", "Not like this.")]
        assert (await it.agent.ask("hi")).text == "ok"
        assert notes(tmp_path) == [["startup", 0], ["end", "new"]]
        await it.agent.session.history.new()
        assert notes(tmp_path) == [["startup", 0], ["end", "new"], ["new", 0]]


async def test_a_context_is_stale_after_a_reload(tmp_path: Path) -> None:
    async with scripted(tmp_path, REPLACING) as it:
        await it.command("/again")
        assert [error[:45] for _, _, error in it.errors] == ["This extension ctx is stale after session rep"]
        assert (await it.agent.ask("hi")).text == "ok"


async def test_a_branch_is_left_only_when_nothing_runs(tmp_path: Path) -> None:
    body = """
  let saved: any;
  const first = () => saved.sessionManager.getBranch().find((entry: any) => entry.type === "message").id;
  pi.on("session_before_tree", ({ preparation }) => note([preparation.commonAncestorId === preparation.targetId]));
  pi.registerCommand("save", { handler: async (args, ctx) => { saved = ctx; } });
  pi.registerTool({ name: "go", label: "go", description: "go", parameters: Type.Object({}), async execute() {
    await saved.navigateTree(first()).catch((error: Error) => note(error.message));
    return { content: [], details: {} };
  } });
  pi.registerCommand("go", { handler: async (args, ctx) => {
    note(await ctx.navigateTree(ctx.sessionManager.getLeafId()!));
    const answer = ctx.sessionManager.getBranch().find((entry: any) => entry.message?.role === "assistant")!.id;
    note(await ctx.navigateTree(answer));
  } });
"""
    async with scripted(tmp_path, body, turns=[calling("go"), Turn(text="ok"), Turn(text="more")]) as it:
        await it.command("/save")
        await it.agent.ask("hi")
        await it.agent.ask("again")
        await it.command("/go")
        assert it.errors == [] and len(it.agent.session.messages) == 2
    moved = {"cancelled": False}
    stopped = "Wait for the current response to finish before navigating the session tree."
    assert notes(tmp_path) == [stopped, moved, [True], moved]


GUIDING = """
  let answers: any[] = [];
  pi.on("session_before_tree", ({ preparation: { customInstructions, replaceInstructions, label } }) => {
    note([customInstructions ?? null, replaceInstructions, label ?? null]);
    return answers[0];
  });
  pi.on("session_before_tree", () => answers[1]);
  pi.on("session_tree", ({ fromExtension }) => note(fromExtension ?? null));
  pi.registerCommand("go", { handler: async (args, ctx) => {
    let options: any;
    [options, ...answers] = JSON.parse(args);
    const target = ctx.sessionManager.getBranch().find((entry: any) => entry.message?.role === "assistant")!.id;
    note((await ctx.navigateTree(target, options)).cancelled);
    note(ctx.sessionManager.getEntries().filter((entry) => ctx.sessionManager.getLabel(entry.id)).map((entry) => entry.type));
  } });
"""


async def test_instructions_and_labels_of_a_move_can_be_given_and_changed(tmp_path: Path) -> None:
    turns = [Turn(text=text) for text in ("a", "b", "left one", "c", "left two", "d")]
    async with scripted(tmp_path, GUIDING, turns=turns) as it:

        async def go(options: object, *answers: object) -> str:
            """Leave a branch, and return the end of what the model was asked last."""
            await it.command(f"/go {json.dumps([options, *answers])}")
            return user_texts(it.model.requests[-1].messages)[-1].rpartition("</conversation>")[2].strip()

        await it.agent.ask("one")
        await it.agent.ask("two")
        own = {"summarize": True, "customInstructions": "One haiku.", "replaceInstructions": True, "label": "left"}
        assert await go(own) == "One haiku."
        await it.agent.ask("three")
        ignored = {"customInstructions": "Ignored.", "label": "ignored"}
        added = await go({**own, "label": ""}, ignored, {"customInstructions": "Numbers.", "replaceInstructions": False})
        assert added.endswith("Numbers.") and added != "Numbers."
        await it.agent.ask("four")
        await go({}, {"label": "here"})
        assert it.errors == []
    labelled = ["branch_summary"]
    assert notes(tmp_path) == [
        *(["One haiku.", True, "left"], False, False, labelled),
        *(["One haiku.", True, ""], False, False, labelled),
        *([None, False, None], None, False, ["message", *labelled]),
    ]


async def test_an_entry_that_does_not_exist_is_named_as_in_pi(tmp_path: Path) -> None:
    body = 'pi.registerCommand("go", { handler: async (args, ctx) => { await ctx.navigateTree("nothing"); } });'
    async with scripted(tmp_path, body) as it:
        await it.agent.ask("one")
        await it.command("/go")
        assert it.errors == [("command:go", "command", "Entry nothing not found")]


async def test_a_session_has_its_header_and_its_first_entries_before_the_first_prompt(tmp_path: Path) -> None:
    body = """
  pi.on("session_start", (_event, ctx) => {
    const session = ctx.sessionManager;
    const { type, version, id, cwd } = session.getHeader();
    note([type, version, id === session.getSessionId(), cwd === ctx.cwd]);
    note(session.getBranch().map((entry) => entry.type));
    note(session.getLeafEntry().id === session.getLeafId());
  });
  pi.registerCommand("nothing", { handler: () => {} });
"""
    async with scripted(tmp_path, body) as it:
        await it.command("/nothing")
        assert it.errors == []
    assert notes(tmp_path) == [["session", 3, True, True], ["model_change", "thinking_level_change"], True]
