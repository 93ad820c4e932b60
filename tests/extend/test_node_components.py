"""Components of extensions written for pi: what a front end that draws gets of them, and what it tells them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.extend.extended import Extended, calling, notes, scripted

from fairlead import NoUi, Sheet
from fairlead.testing import Turn


class Drawing(NoUi):
    """A front end that draws sheets, of a given size."""

    available = True

    def __init__(self, columns: int = 40, rows: int = 20) -> None:
        self.canvas = self
        self._size = columns, rows
        self.sheets: list[Sheet] = []
        self.closed: list[Sheet] = []
        self.frames: list[list[str]] = []
        self.pressed: list[str] = []
        self.submitted: list[str] = []
        self.text = ""
        self.working: list[dict[str, Any]] = []
        self._changed = asyncio.Event()
        self._dismissed: dict[Sheet, asyncio.Event] = {}

    def size(self) -> tuple[int, int]:
        return self._size

    async def show_dialog(self, sheet: Sheet) -> None:
        self.put(sheet)
        self._dismissed[sheet] = asyncio.Event()
        try:
            await self._dismissed[sheet].wait()
        finally:
            self.remove(sheet)

    def put(self, sheet: Sheet) -> None:
        self.sheets.append(sheet)
        self._changed.set()

    def remove(self, sheet: Sheet) -> None:
        with suppress(ValueError):
            self.sheets.remove(sheet)
            self.closed.append(sheet)
        self._changed.set()

    def touch(self) -> None:
        self.frames += [list(sheet.lines) for sheet in self.sheets]
        self._changed.set()

    def press_in_editor(self, data: str) -> None:
        self.pressed.append(data)
        self._changed.set()

    def submit(self, text: str) -> None:
        self.submitted.append(text)
        self._changed.set()

    def set_editor_text(self, text: str) -> None:
        self.text = text

    def editor_text(self) -> tuple[str, int]:
        return self.text, len(self.text)

    def set_working(self, **given: Any) -> None:
        self.working.append(given)

    def dismiss(self) -> None:
        """Close the newest dialog, as the user can do by force."""
        self._dismissed[self.sheets[-1]].set()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.sheets[-1].owner.press(self.sheets[-1], key)

    async def until(self, fits: Callable[[], Any]) -> None:
        while not fits():
            self._changed.clear()
            await self._changed.wait()

    async def shows(self, *lines: str) -> None:
        await self.until(lambda: any(tuple(sheet.lines) == lines for sheet in self.sheets))


def drawn_by(it: Extended, columns: int = 40, rows: int = 20) -> Drawing:
    ui = Drawing(columns, rows)
    it.agent.session.host.make_ui = lambda: ui
    return ui


COUNTER = """
  pi.registerCommand("count", { handler: async (_args, ctx) => {
    const result = await ctx.ui.custom((tui: any, theme: any, keys: any, done: any) => {
      let count = 0;
      return {
        render: (width: number) => [`${ctx.mode} ${width}`, `count ${count}`],
        handleInput(data: string) {
          if (keys.matches(data, "tui.select.confirm")) return done({ count, run: () => 7 });
          if (keys.matches(data, "tui.select.up")) count += 1;
          else note(data);
        },
        invalidate: () => note("invalidated"),
        dispose: () => note("disposed"),
      };
    });
    note(result === undefined ? "nothing" : [(result as any).count, (result as any).run()]);
  } });
"""


async def test_a_dialog_draws_gets_keys_and_is_done(tmp_path: Path) -> None:
    async with scripted(tmp_path, COUNTER) as it:
        ui = drawn_by(it)
        command = asyncio.create_task(it.command("/count"))
        await ui.shows("tui 40", "count 0")
        ui.press("\x1b[A", "\x1b[A", "x")
        await ui.shows("tui 40", "count 2")
        ui.sheets[0].owner.resize(30, 10)
        await ui.shows("tui 30", "count 2")
        ui.press("\r")
        await command
        assert it.errors == [] and ui.sheets == []
    assert notes(tmp_path) == ["x", "invalidated", "disposed", [2, 7]]


async def test_a_dialog_that_is_never_done_is_closed_by_the_user(tmp_path: Path) -> None:
    async with scripted(tmp_path, COUNTER) as it:
        ui = drawn_by(it)
        for _ in range(2):
            command = asyncio.create_task(it.command("/count"))
            await ui.shows("tui 40", "count 0")
            ui.dismiss()
            await command
        assert it.errors == [] and ui.sheets == []
    assert notes(tmp_path) == ["disposed", "nothing"] * 2


async def test_a_dialog_of_a_tool_ends_with_its_run(tmp_path: Path) -> None:
    body = """
  pi.registerTool({
    name: "ask", label: "Ask", description: "Ask", parameters: Type.Object({}),
    async execute(id: string, args: any, signal: any, onUpdate: any, ctx: any) {
      const answer = await ctx.ui.custom(() => ({ render: () => ["waiting"], invalidate() {} }));
      note(answer === undefined);
      return { content: [{ type: "text", text: "over" }], details: {} };
    },
  });
"""
    async with scripted(tmp_path, body, turns=[calling("ask"), Turn(text="done")]) as it:
        ui = drawn_by(it)
        run = asyncio.create_task(it.agent.ask("hi"))
        await ui.shows("waiting")
        await it.agent.session.abort()
        with suppress(Exception):
            await run
        await ui.until(lambda: not ui.sheets)
    assert notes(tmp_path) == [True]


async def test_a_component_that_fails_ends_its_dialog_with_the_error(tmp_path: Path) -> None:
    body = """
  const failing = (act: any) => async (_args: any, ctx: any) => {
    await ctx.ui.custom(act).catch((error: any) => note(error.message));
    ctx.ui.setWidget("bad", () => ({ render() { throw new Error("no widget"); }, invalidate() {} }));
  };
  pi.registerCommand("render", { handler: failing(() => ({ render() { throw new Error("no lines"); }, invalidate() {} })) });
  pi.registerCommand("make", { handler: failing(() => { throw new Error("no component"); }) });
  pi.registerCommand("later", { handler: failing(async () => { throw new Error("not even later"); }) });
  const atOnce = (tui: any, theme: any, keys: any, done: any) => { done(1); return { render: () => [] }; };
  pi.registerCommand("at-once", { handler: failing(atOnce) });
"""
    async with scripted(tmp_path, body) as it:
        ui = drawn_by(it)
        for command in ("/render", "/make", "/later", "/at-once"):
            await it.command(command)
            await ui.until(lambda: not ui.sheets)
        assert [error for *_, error in it.errors] == ["no widget"] * 4
    assert notes(tmp_path) == ["no lines", "no component", "not even later"]


async def test_what_a_component_draws_is_bounded(tmp_path: Path) -> None:
    body = """
  pi.registerCommand("flood", { handler: async (_args, ctx) => {
    await ctx.ui.custom((tui: any, theme: any, keys: any, done: any) => {
      let renders = 0;
      return {
        render(width: number) {
          renders += 1;
          return Array(100_000).fill("x".repeat(1_000_000)).concat(["last", 5, null, "a\\nb\\tc"]);
        },
        handleInput() {
          for (let at = 0; at < 100_000; at++) tui.requestRender();
          setTimeout(() => { note(renders < 10); done(); }, 200);
        },
        invalidate() {},
      };
    });
    await ctx.ui.custom((tui: any, theme: any, keys: any, done: any) => ({
      render: () => "no list" as any, handleInput: done, invalidate() {},
    }));
  } });
"""
    async with scripted(tmp_path, body) as it:
        ui = drawn_by(it)
        command = asyncio.create_task(it.command("/flood"))
        await ui.until(lambda: ui.frames)
        lines = ui.frames[0]
        assert len(lines) == 200 and set(map(len, lines[:-4])) == {40}
        assert lines[-4:] == ["last", "5", "null", "a b   c"]
        ui.press("x")
        await ui.until(lambda: len(ui.closed) == 1 and ui.sheets)
        ui.press("x")
        await command
        assert it.errors == []
    assert notes(tmp_path) == [True]


async def test_what_stays_on_the_screen_is_replaced_and_taken_away(tmp_path: Path) -> None:
    body = """
  const text = (words: string) => (tui: any, theme: any) => ({
    render: () => [words], invalidate() {}, dispose: () => note(`no ${words}`),
  });
  pi.registerCommand("put", { handler: async (_args, ctx) => {
    ctx.ui.setHeader(text("header"));
    ctx.ui.setWidget("one", text("one"));
    ctx.ui.setWidget("two", text("two"), { placement: "belowEditor" });
    ctx.ui.setStatus("key", "status");
    ctx.ui.setFooter((tui: any, theme: any, data: any) => ({
      render: () => [`${data.getGitBranch()} ${[...data.getExtensionStatuses().values()]}`], invalidate() {},
    }));
    ctx.ui.setWorkingMessage("Busy");
  } });
  pi.registerCommand("replace", { handler: async (_args, ctx) => {
    ctx.ui.setWidget("one", ["plain"]);
    ctx.ui.setWidget("two", text("second"));
    ctx.ui.setFooter(undefined);
  } });
"""
    async with scripted(tmp_path, body) as it:
        ui = drawn_by(it)
        await it.command("/put")
        found = {
            ("header", "", "header"),
            ("aboveEditor", "one", "one"),
            ("belowEditor", "two", "two"),
            ("footer", "", "null status"),
        }
        await ui.until(lambda: {(sheet.place, sheet.key, *sheet.lines) for sheet in ui.sheets} == found)
        await it.command("/replace")
        await ui.until(
            lambda: {(sheet.place, *sheet.lines) for sheet in ui.sheets} == {("header", "header"), ("aboveEditor", "second")}
        )
        assert notes(tmp_path) == ["no one", "no two"] and ui.working == [{"message": "Busy"}]
        await it.agent.reload_extensions()
        await ui.until(lambda: not ui.sheets)
        assert it.errors == []


async def test_a_dialog_ends_with_a_reload(tmp_path: Path) -> None:
    async with scripted(tmp_path, COUNTER) as it:
        ui = drawn_by(it)
        command = asyncio.create_task(it.command("/count"))
        await ui.shows("tui 40", "count 0")
        await it.agent.reload_extensions()
        await command
        assert it.errors == [] and ui.sheets == []
        again = asyncio.create_task(it.command("/count"))
        await ui.shows("tui 40", "count 0")
        ui.press("\r")
        await again
    assert notes(tmp_path) == ["disposed", "nothing", "disposed", [0, 7]]


async def test_nothing_stays_of_a_process_that_died(tmp_path: Path) -> None:
    body = """
  pi.registerCommand("die", { handler: async (_args, ctx) => {
    ctx.ui.setFooter(() => ({ render: () => ["footer"], invalidate() {} }));
    await ctx.ui.custom(() => ({
      render: () => ["dialog"], handleInput: () => process.kill(process.pid, "SIGKILL"), invalidate() {},
    }));
  } });
"""
    async with scripted(tmp_path, body) as it:
        ui = drawn_by(it)
        command = asyncio.create_task(it.command("/die"))
        await ui.shows("dialog")
        ui.press("x")
        await command
        await ui.until(lambda: not ui.sheets)
        assert "has ended" in it.errors[0][2]


async def test_a_component_that_hangs_is_ended_with_its_process(tmp_path: Path) -> None:
    body = """
  pi.registerCommand("hang", { handler: async (_args, ctx) => {
    await ctx.ui.custom(() => ({ render: () => ["dialog"], handleInput: () => { for (;;); }, invalidate() {} }));
  } });
"""
    async with scripted(tmp_path, body) as it:
        ui = drawn_by(it)
        command = asyncio.create_task(it.command("/hang"))
        await ui.shows("dialog")
        ui.press("x")
        await command
        assert ui.sheets == [] and "an extension blocked it" in it.errors[0][2]


async def test_an_overlay_has_its_width_and_its_side(tmp_path: Path) -> None:
    body = """
  pi.registerCommand("over", { handler: async (_args, ctx) => {
    await ctx.ui.custom((tui: any, theme: any, keys: any, done: any) => ({
      render: (width: number) => [String(width), "second", "third"], handleInput: () => done(undefined), invalidate() {},
    }), {
      overlay: true,
      overlayOptions: { width: "50%", anchor: "top-right", margin: 2, maxHeight: 2 },
      onHandle: (handle: any) => {
        note([handle.isHidden(), handle.isFocused()]);
        handle.setHidden(true);
        handle.setHidden(false);
        note([handle.isHidden(), handle.isFocused(), handle.getBounds().width]);
      },
    });
  } });
"""
    async with scripted(tmp_path, body) as it:
        ui = drawn_by(it)
        command = asyncio.create_task(it.command("/over"))
        await ui.shows(" " * 18 + "20", " " * 18 + "second")
        ui.press("x")
        await command
        assert it.errors == [] and ui.sheets == []
    assert notes(tmp_path) == [[False, True], [False, True, 20]]


async def test_an_editor_shows_the_text_of_the_front_end_and_gives_its_keys_back(tmp_path: Path) -> None:
    body = """
  pi.registerCommand("edit", { handler: async (_args, ctx) => {
    ctx.ui.setEditorComponent((tui: any, theme: any, keys: any) => {
      class Mine extends CustomEditor {
        handleInput(data: string) { if (data === "z") note(this.getText()); else super.handleInput(data); }
        render(width: number) { return super.render(width).slice(1, -1); }
      }
      return new Mine(tui, theme, keys);
    });
  } });
  pi.registerCommand("own", { handler: async (_args, ctx) => {
    ctx.ui.setEditorComponent((tui: any, theme: any) => new Editor(tui, theme) as any);
  } });
  pi.registerCommand("none", { handler: async (_args, ctx) => {
    ctx.ui.setEditorComponent(undefined);
    note(ctx.ui.getEditorComponent() === undefined);
  } });
"""
    async with scripted(tmp_path, body) as it:
        source = tmp_path / "one.ts"
        imports = (
            'import { CustomEditor } from "@earendil-works/pi-coding-agent";\nimport { Editor } from "@earendil-works/pi-tui";\n'
        )
        source.write_text(imports + source.read_text())
        ui = drawn_by(it)
        ui.text = "é𝄞a"
        await it.command("/edit")
        await ui.until(lambda: ui.sheets and ui.sheets[0].lines and "é𝄞a" in ui.sheets[0].lines[0])
        assert ui.sheets[0].place == "editor" and ui.sheets[0].cursor == (0, 3)
        ui.sheets[0].owner.follow_editor("é𝄞ab", 2)
        await ui.until(lambda: ui.sheets[0].cursor == (0, 2))
        ui.press("z", "b", "\x1b[D")
        await ui.until(lambda: ui.pressed == ["b", "\x1b[D"])
        await it.command("/own")
        await ui.until(lambda: len(ui.sheets) == 1 and ui.sheets[0].lines)
        ui.press("\x7f", "!", "\r")
        await ui.until(lambda: ui.submitted)
        await it.command("/none")
        assert it.errors == [] and ui.sheets == [] and ui.submitted == ["é𝄞!"]
    assert notes(tmp_path) == ["é𝄞ab", True]


async def test_keys_are_heard_before_they_have_an_effect(tmp_path: Path) -> None:
    body = """
  pi.registerCommand("listen", { handler: async (_args, ctx) => {
    const stop = ctx.ui.onTerminalInput((data: string) => {
      if (data === "a") return { consume: true };
      if (data === "b") return { data: "c" };
      if (data === "q") stop();
    });
  } });
"""
    async with scripted(tmp_path, body) as it:
        ui = drawn_by(it)
        await it.command("/listen")
        ui.press("a", "b", "d", "q")
        await ui.until(lambda: not ui.sheets and len(ui.pressed) == 3)
        assert it.errors == [] and ui.pressed == ["c", "d", "q"]
