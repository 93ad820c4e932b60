"""Extensions written for pi that go to other sessions."""

from __future__ import annotations

from pathlib import Path

from tests.extend.extended import extended, notes, scripted, user_texts

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
        assert it.errors == [("command:fork", "command", "Entry nothing not found.")]


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
