"""What messages hold: text, thinking, images, tool calls, and the output of tools."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any

from fairlead.export import ansi, calls
from fairlead.export.markup import Markup
from fairlead.export.values import blocks, count, text

#: Raster images only: an SVG is a document of its own, with links and script.
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
#: Longer output shows its beginning, with the rest folded under it.
_WHOLE = 24
_BEGINNING = 12


class Contents:
    """Writes the contents of the messages of one page."""

    def __init__(self, markup: Markup, palette: ansi.Palette) -> None:
        self._markup = markup
        self._palette = palette

    @staticmethod
    def tool_calls(content: Any) -> list[Mapping[str, Any]]:
        return [block for block in blocks(content) if block.get("type") == "toolCall"]

    def blocks(self, content: Any, *, breaks: bool = False) -> str:
        """A message's content, block by block."""
        parts: list[str] = []
        for block in blocks(content):
            kind = block.get("type")
            if kind == "text":
                parts.append(self._markup.markdown(text(block.get("text")), breaks=breaks))
            elif kind == "thinking":
                parts.append(self._thinking(block))
            elif kind == "toolCall":
                parts.append(self._tool_call(block))
            elif kind == "image":
                parts.append(_image(block))
            else:
                parts.append(f'<p class="none">Content of type {escape(text(kind) or "unknown")} is not shown.</p>\n')
        return "".join(parts)

    def output(self, content: Any, *, file: str = "") -> str:
        """What a tool returned: terminal output or, if it is that of a file, code; and images."""
        parts: list[str] = []
        for block in blocks(content):
            if block.get("type") == "image":
                parts.append(_image(block))
            else:
                parts.append(self.terminal(text(block.get("text")), file=file))
        return "".join(parts)

    def prose(self, words: str) -> str:
        return self._markup.markdown(words)

    def json(self, code: str) -> str:
        return self._markup.code(code, "json")

    def command(self, command: str) -> str:
        return f'<pre class="command"><code>{self._markup.highlighted(command, "bash")}</code></pre>\n'

    def terminal(self, output: str, *, file: str = "") -> str:
        """Output as a terminal shows it, with a long rest folded."""
        output = output.rstrip("\n")
        if not output.strip():
            return ""
        if file and "\x1b" not in output and (code := self._file(output, file)):
            return code
        lines = ansi.lines(output, self._palette)
        if len(lines) <= _WHOLE:
            return _output(lines)
        return _output(lines[:_BEGINNING]) + _rest(lines[_BEGINNING:])

    def _file(self, source: str, file: str) -> str:
        """A file's text, highlighted. Tokens may span lines, so that a long one is folded in a piece of its own."""
        lines = source.split("\n")
        beginning = lines if len(lines) <= _WHOLE else lines[:_BEGINNING]
        code = [self._markup.highlighted("\n".join(beginning), file=file)]
        if len(beginning) == len(lines):
            return _output(code)
        rest = lines[_BEGINNING:]
        return _output(code) + _rest([self._markup.highlighted("\n".join(rest), file=file)], len(rest))

    def _thinking(self, block: Mapping[str, Any]) -> str:
        words = text(block.get("thinking"))
        if not words.strip():
            return '<p class="none">Thinking, withheld by the provider.</p>\n' if block.get("redacted") is True else ""
        return f'<details class="thinking"><summary>Thinking</summary>\n{self._markup.markdown(words, breaks=True)}</details>\n'

    def _tool_call(self, block: Mapping[str, Any]) -> str:
        name = f'<span class="tool">{escape(text(block.get("name")) or "tool")}</span>'
        about = calls.subject(block)
        title = f"{name} <code>{escape(about)}</code>" if about else name
        arguments = calls.arguments(block, self._markup)
        if not arguments:
            return f'<div class="call"><div class="title">{title}</div></div>\n'
        return f'<details class="call" open><summary class="title">{title}</summary>\n{arguments}</details>\n'


def _output(lines: list[str]) -> str:
    code = "\n".join(lines)
    return f'<pre class="output"><code>{code}</code></pre>\n'


def _rest(lines: list[str], amount: int | None = None) -> str:
    name = count(amount or len(lines), "more line")
    return f'<details class="rest"><summary>{name}</summary>\n{_output(lines)}</details>\n'


def _image(block: Mapping[str, Any]) -> str:
    kind = text(block.get("mimeType")).lower()
    data = "".join(text(block.get("data")).split())
    if kind not in _IMAGES:
        return f'<p class="none">An image of type {escape(kind or "unknown")} is not shown.</p>\n'
    if not _BASE64.fullmatch(data):
        return '<p class="none">An image that is not readable is not shown.</p>\n'
    return f'<img src="data:{kind};base64,{data}" alt="Image in the conversation" decoding="async">\n'
