"""What extensions written for pi ask and show the user: questions, texts, and components that the front end draws."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, get_args

from fairlead.core.runtime import CancelToken, NotifyKind, Sheet
from fairlead.extend.extensions.calling import Deadline
from fairlead.extend.extensions.context import Context, pause_deadline
from fairlead.extend.node.bridge import BridgeLost, RemoteError

if TYPE_CHECKING:
    from fairlead.core.runtime import Canvas
    from fairlead.extend.extensions.engine import Engine
    from fairlead.extend.node.bridge import Answer, SlowAnswer
    from fairlead.extend.node.remote import RemoteExtensions

_log = logging.getLogger("fairlead.extend")

Params = Mapping[str, Any]
Report = Callable[[Any], None]

#: The most sheets at once, and the most lines and characters of one of them.
_MOST_SHEETS, _MOST_LINES, _LONGEST_LINE = 64, 200, 16_384
#: Seconds that a component has to handle a key. After that, the process is asked whether it still works.
_KEY_SECONDS = 2.0
#: The most keys that wait to be handled. More are dropped.
_MOST_KEYS = 1000


class UserRequests:
    """Answers what the extensions of `remote` ask about the user. It implements `fairlead.core.runtime.SheetOwner`."""

    def __init__(self, engine: Engine, remote: RemoteExtensions) -> None:
        self._engine = engine
        self._remote = remote
        self._sheets: dict[int, Sheet] = {}
        #: The numbers that sheets have had.
        self._numbers: dict[Sheet, int] = {}
        self._keys: set[asyncio.Task[None]] = set()

    def answers(self) -> dict[str, Answer]:
        """Return the requests that are answered at once, by name."""
        return {
            "show": self._show,
            "canvas": self._describe_canvas,
            "putSheet": self._put,
            "removeSheet": lambda params: self._remove(params["sheet"]),
            "editorKey": self._press_in_editor,
            "editorText": self._read_editor,
            "submit": self._submit,
        }

    def slow_answers(self) -> dict[str, SlowAnswer]:
        """Return the requests that take time, by name."""
        return {"ui": self._ask, "openSheet": self._open, "drawSheet": self._draw}

    def close(self) -> None:
        """Take everything off the screen: the process that draws it has ended or has a successor."""
        for number in list(self._sheets):
            self._remove(number)
        for task in list(self._keys):
            task.cancel()

    @property
    def _canvas(self) -> Canvas | None:
        return self._engine.session.host.ui.canvas

    def _context(self, params: Params) -> Context:
        return self._remote.context_of(params.get("call"))

    # Questions and texts

    async def _ask(self, params: Params, report: Report) -> Any:
        """Ask the user a question, on behalf of a call if that still runs: its clock stops meanwhile."""
        ui = self._context(params).ui
        timeout = params.get("timeout")
        cancel = CancelToken()
        limits: dict[str, Any] = {"timeout": None if timeout is None else timeout / 1000, "cancel": cancel}
        title = str(params.get("title", ""))
        match params["kind"]:
            case "select":
                asking = ui.select(title, [str(each) for each in params["options"]], **limits)
            case "confirm":
                asking = ui.confirm(title, str(params.get("message") or ""), **limits)
            case "input":
                asking = ui.input(title, params.get("placeholder"), **limits)
            case _:
                asking = ui.editor(title, params.get("prefill"), cancel=cancel)
        try:
            return await asking  # in this task, so that the question is shown in its first step
        except asyncio.CancelledError:  # the extension has withdrawn it
            cancel.fire()
            return None

    def _show(self, params: Params) -> None:
        ui = self._context({}).ui
        match params["kind"]:
            case "notify":
                kind = params.get("type")
                ui.notify(params["message"], kind if kind in get_args(NotifyKind) else None)
            case "setStatus":
                ui.set_status(params["key"], params.get("text"))
            case "setWidget":
                ui.set_widget(params["key"], params.get("lines"), params.get("placement"))
            case "setTitle":
                ui.set_title(params["title"])
            case "setWorking":
                if (canvas := self._canvas) is not None:
                    canvas.set_working(**{key: value for key, value in params.items() if key != "kind"})
            case _:
                ui.set_editor_text(params["text"])

    # Sheets

    def _describe_canvas(self, params: Params) -> dict[str, int] | None:
        canvas = self._canvas
        if canvas is None:
            return None
        columns, rows = canvas.size()
        return {"columns": columns, "rows": rows}

    def _make(self, params: Params, place: Any) -> tuple[Canvas, Sheet]:
        canvas = self._canvas
        if canvas is None:
            raise ValueError("This front end draws no components.")
        if len(self._sheets) >= _MOST_SHEETS:
            raise ValueError(f"Extensions draw {_MOST_SHEETS} components already.")
        sheet = Sheet(place, str(params.get("key") or ""), self)
        self._sheets[params["sheet"]] = sheet
        self._numbers[sheet] = params["sheet"]
        return canvas, sheet

    def _put(self, params: Params) -> None:
        canvas, sheet = self._make(params, params["place"])
        canvas.put(sheet)

    def _remove(self, number: int) -> None:
        sheet, canvas = self._sheets.pop(number, None), self._canvas
        if sheet is not None:
            self._numbers.pop(sheet, None)
            if canvas is not None and sheet.place != "dialog":
                canvas.remove(sheet)

    async def _open(self, params: Params, report: Report) -> None:
        """Show a dialog until the extension withdraws the request or the user closes it by force."""
        canvas, sheet = self._make(params, "dialog")
        try:
            with pause_deadline(self._context(params)):
                await canvas.show_dialog(sheet)
        finally:
            self._remove(params["sheet"])

    async def _draw(self, params: Params, report: Report) -> None:
        sheet, canvas = self._sheets.get(params["sheet"]), self._canvas
        if sheet is None or canvas is None:
            return
        lines: list[Any] = params["lines"][:_MOST_LINES]
        sheet.lines = [str(line)[:_LONGEST_LINE] for line in lines]
        match params.get("cursor"):
            case [int(row), int(column)]:
                sheet.cursor = row, column
            case _:
                sheet.cursor = None
        canvas.touch()

    # The editor

    def _press_in_editor(self, params: Params) -> None:
        if (canvas := self._canvas) is not None:
            canvas.press_in_editor(str(params["data"]))

    def _read_editor(self, params: Params) -> dict[str, Any]:
        canvas = self._canvas
        return _encode_text(*(("", 0) if canvas is None else canvas.editor_text()))

    def _submit(self, params: Params) -> None:
        if (canvas := self._canvas) is not None:
            canvas.submit(str(params["text"]))

    # What the front end says

    def press(self, sheet: Sheet, data: str) -> None:
        number = self._numbers.get(sheet)
        if number is None or len(self._keys) >= _MOST_KEYS:
            return
        task = asyncio.get_running_loop().create_task(self._press(number, data))
        self._keys.add(task)
        task.add_done_callback(self._keys.discard)

    async def _press(self, number: int, data: str) -> None:
        try:
            # A call that is cancelled makes sure that the process still works.
            async with asyncio.timeout(_KEY_SECONDS):
                await self._remote.call("canvasKey", {"sheet": number, "data": data}, self._no_call())
        except RemoteError as error:
            self._engine.report("extension", "key", error)
        except (TimeoutError, BridgeLost):
            _log.warning("A component did not handle a key in time.")

    def resize(self, columns: int, rows: int) -> None:
        self._remote.notify("canvasSize", {"columns": columns, "rows": rows})

    def follow_editor(self, text: str, at: int) -> None:
        self._remote.notify("canvasEditor", _encode_text(text, at))

    def _no_call(self) -> Context:
        return Context(self._engine, Deadline(None))


def _encode_text(text: str, at: int) -> dict[str, Any]:
    """Return a text and a place in it as JavaScript counts."""
    return {"text": text, "at": len(text[:at].encode("utf-16-le", "surrogatepass")) // 2}
