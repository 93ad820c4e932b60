"""Tool calls as text, for models whose server or template cannot do better: compat `toolCallsAsText`.

The tools and the form of a call are part of the system prompt, in the words that Qwen and Hermes models were trained with. A call
in the answer becomes a real one. Small models vary the form, so that a call is also found in a fenced block or as a bare JSON
object. It must name a tool of the request; all else stays text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Any, cast

from fairlead.core.messages import ToolCall
from fairlead.core.model import ToolSpec
from fairlead.core.partial_message import PartialMessage
from fairlead.models.apis.request_building import encode_json
from fairlead.models.apis.response_reading import BlockWriter, new_call_id

#: Ends an answer: after a call the model would invent its result.
STOPS = ("</tool_call>", "<tool_response>")

_INSTRUCTIONS = """\
# Tools

To use a tool, end your answer with one call in exactly this form:
<tool_call>
{"name": "TOOL", "arguments": {"ARGUMENT": "VALUE"}}
</tool_call>
The next message has its result in <tool_response> tags. If no tool is needed, answer in plain text without a call.

<tools>
%s
</tools>"""

#: What a call can begin with: a tag, a fence before an object, or an object at the start of a line.
_BEGINNING = re.compile(
    r"<(?:tool_call|tools|function_call|function|tool)>\s*(?=\{)"
    r"|```[a-z_]*\s*(?=\{)"
    r"|(?:(?<=\n)|\A)[ \t]*(?=\{\s*\"(?:name|tool|function)\")"
)
#: What can follow a call and belongs to it.
_END = re.compile(r"\A\s*(?:</(?:tool_call|tools|function_call|function|tool)>|```)?\s*")
_PART_OF_END = re.compile(r"\s*(?:<(?:/[a-z_]{0,32})?|`{1,2})?\Z")
#: The end of a text that may be the beginning of a call, once more has arrived.
_MAYBE = re.compile(
    r"(?:<[a-z_]{0,32}>?\s{0,64}|`{1,3}[a-z_]{0,32}\s{0,64}|(?:(?<=\n)|\A)[ \t]{0,64}(?:\{\s*(?:\"[a-z]{0,8})?)?)\Z"
)
#: The most characters that are held back as a call. What is longer is text.
_LONGEST_CALL = 1024 * 1024
_NAMES = ("name", "tool", "function")
_ARGUMENTS = ("arguments", "parameters", "args", "input")


def with_tools(system_prompt: str, tools: Sequence[ToolSpec]) -> str:
    """Return the system prompt with the tools and the form of a call. It ends with the system prompt's own words."""
    if not tools:
        return system_prompt
    fields = ({"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools)
    listed = "\n".join(encode_json(each).decode() for each in fields)
    return f"{_INSTRUCTIONS % listed}\n\n{system_prompt}".strip()


def call_text(call: ToolCall) -> str:
    """Return a call of an earlier answer in the form that the model is asked for."""
    return f"<tool_call>\n{encode_json({'name': call.name, 'arguments': call.arguments}).decode()}\n</tool_call>"


def result_text(text: str) -> str:
    """Return the result of a tool as the text of a message to the model."""
    return f"<tool_response>\n{text}\n</tool_response>"


class TextCallReader:
    """Separates the calls from the text of an answer that is arriving. Text that cannot be a call passes at once."""

    def __init__(self, partial: PartialMessage, blocks: BlockWriter, tools: Collection[str]) -> None:
        self._partial = partial
        self._blocks = blocks
        self._tools = tools
        #: What has arrived and may be part of a call.
        self._held = ""
        #: The object that is arriving, if `_held` begins with one.
        self._object: _ObjectEnd | None = None
        self._is_after_call = False
        self.found_calls = False

    def feed(self, piece: str) -> None:
        """Read the next piece of the answer."""
        self._held += piece
        while self._advance():
            pass
        if len(self._held) > _LONGEST_CALL:
            self._write(self._held)
            self._held, self._object = "", None

    def end(self) -> None:
        """The answer is complete: what is held back is a call or text."""
        while self._advance():
            pass
        self._write(self._held)
        self._held, self._object = "", None

    def _advance(self) -> bool:
        """Handle the beginning of what is held. Returns whether there may be more to handle."""
        if self._is_after_call:
            if _PART_OF_END.match(self._held):
                self._held = self._held.lstrip()
                return False  # the rest of the end may arrive; at the end of the answer it is dropped
            self._held = _END.sub("", self._held, count=1)
            self._is_after_call = False
        if self._object is None:
            return self._find_beginning()
        end = self._object.find(self._held)
        if end is None:
            return False
        start, self._object = self._object.start, None
        if not self._is_call(self._held[start:end]):
            self._write(self._held[:end])
        else:
            self._is_after_call = True
        self._held = self._held[end:]
        return bool(self._held)

    def _find_beginning(self) -> bool:
        found = _BEGINNING.search(self._held)
        if found is not None:
            self._write(self._held[: found.start()])
            self._held = self._held[found.start() :]
            self._object = _ObjectEnd(found.end() - found.start())
            return True
        maybe = _MAYBE.search(self._held)
        keep = maybe.start() if maybe is not None else len(self._held)
        self._write(self._held[:keep])
        self._held = self._held[keep:]
        return False

    def _write(self, text: str) -> None:
        if text and not (self._is_after_call or (self.found_calls and not text.strip())):
            self._blocks.text(text)

    def _is_call(self, text: str) -> bool:
        """Add the call in `text`, if it is one."""
        call = read_call(text, self._tools)
        if call is None:
            return False
        key = self._blocks.call(new_call_id(), call[0])
        self._partial.add(key, encode_json(call[1]).decode())
        self.found_calls = True
        return True


class _ObjectEnd:
    """Finds the end of a JSON object while it is arriving. Each character is looked at once."""

    def __init__(self, start: int) -> None:
        self.start = start
        self._at = start
        self._depth = 0
        self._in_string = False

    def find(self, text: str) -> int | None:
        """Return the index after the object; None if its end has not arrived."""
        for found in _STRUCTURE.finditer(text, self._at):
            mark = found[0]
            if mark[0] == "\\":
                if len(mark) == 1:  # the escaped character has not arrived
                    self._at = found.start()
                    return None
                continue
            if mark == '"':
                self._in_string = not self._in_string
            elif not self._in_string:
                self._depth += 1 if mark == "{" else -1
                if self._depth == 0:
                    return found.end()
        self._at = len(text)
        return None


_STRUCTURE = re.compile(r'\\.?|["{}]', re.DOTALL)


def read_call(text: str, tools: Collection[str]) -> tuple[str, dict[str, Any]] | None:
    """Read a call of one of `tools` from a JSON object. Returns its name and arguments; None if it is something else."""
    try:
        # Small models write line breaks in strings, which JSON forbids.
        value = json.loads(text, strict=False)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    fields = dict(cast("dict[str, Any]", value))
    inner = fields.get("function")
    if isinstance(inner, dict):  # the form of OpenAI's API
        fields = dict(cast("dict[str, Any]", inner))
    name = next((str(fields.pop(key)) for key in _NAMES if isinstance(fields.get(key), str)), "")
    if name not in tools:
        return None
    key = next((key for key in _ARGUMENTS if key in fields), None)
    arguments = fields if key is None else fields[key]
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments, strict=False)
        except ValueError:
            return None
    return (name, cast("dict[str, Any]", arguments)) if isinstance(arguments, dict) else None
