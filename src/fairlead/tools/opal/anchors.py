"""What Opal's tools share: anchors that name lines, and what results hold besides text, for the wire.

An anchor lets a tool change only what the model saw. One such as `12:a3|text` has the number of the line, and two digits that
change with its text. The digits are Erlang's `phash2(Line, 256)` of the line without blanks at its ends. Opal computes the same,
so its anchors are valid here.

The `details` of a result may have

    meta      an object for the host only, the wire's `result.meta`: `{"diff": {...}}` from write_file and edit_file
    output    an object that replaces the text as the wire's `result.output`: from tasks

An update with text is a new piece of output, the wire's `tool_output`. An update without text reports something else in its
`details`

    skill       `{"name", "description"}`: use_skill has found that skill
    sub_agent   `{"id", "label", "model", "tools"}`: sub_agent is about to start a sub-agent with that id
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from fairlead.core.messages import TextContent
from fairlead.core.tool import ApprovedFile, ToolResult
from fairlead.errors import ToolError
from fairlead.tools.files.targets import Target
from fairlead.tools.workspace import Workspace

#: White space in Unicode. Unlike Elixir's trim, `str.strip()` would also remove U+001C to U+001F.
_BLANKS = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_WORD = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9
#: The initial value of phash2 for a binary.
_SEED = 13 * _GOLDEN & _WORD


class Anchor(Struct, frozen=True):
    """A line: its number, from 1, and its hash when it was shown."""

    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"


def line_hash(text: str) -> str:
    """The two digits of a line."""
    return f"{phash2(text.strip(_BLANKS).encode('utf-8', 'replace')) & 0xFF:02x}"


def tag_line(number: int, text: str, shown: str | None = None) -> str:
    """A line with its anchor. `shown` is the text to show, if it is not the whole line."""
    return f"{number}:{line_hash(text)}|{text if shown is None else shown}"


def tag_lines(lines: Iterable[str], first: int) -> Iterator[str]:
    return (tag_line(number, line) for number, line in enumerate(lines, first))


#: The most digits of a line number: more than any file needs.
_DIGITS = 18


def read_anchor(text: str, name: str) -> Anchor:
    """Parse the anchor that a model wrote in the argument `name`, perhaps with the line after it. Raises ToolError."""
    number, colon, rest = text.strip().partition(":")
    digits = rest.partition("|")[0].strip().lower()
    is_number = number.isascii() and number.isdigit() and len(number) <= _DIGITS and int(number) > 0
    if not (colon and is_number and len(digits) == 2):
        raise ToolError(f'{name}: expected the tag of a line as read_file shows it, such as "12:a3", found {text[:40]!r}.')
    return Anchor(int(number), digits)


def phash2(data: bytes) -> int:
    """Erlang's `phash2` of a binary, all 32 bits: Bob Jenkins' hash of 1996."""
    size = len(data)
    if not size:
        return _SEED
    a = b = _GOLDEN
    c = _SEED
    whole = size - size % 12
    word = int.from_bytes
    for at in range(0, whole, 12):
        a, b, c = _mix(
            a + word(data[at : at + 4], "little"),
            b + word(data[at + 4 : at + 8], "little"),
            c + word(data[at + 8 : at + 12], "little"),
        )
    rest = data[whole:]
    # The lowest byte of the last word holds the length.
    return _mix(a + word(rest[:4], "little"), b + word(rest[4:8], "little"), c + size + (word(rest[8:], "little") << 8))[2]


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    """Mix three words. Python's integers do not overflow, so bits that C would lose are masked before each right shift."""
    c &= _WORD
    a = (a - b - c & _WORD) ^ c >> 13
    b = (b - c - a ^ a << 8) & _WORD
    c = (c - a - b & _WORD) ^ b >> 13
    a = (a - b - c & _WORD) ^ c >> 12
    b = (b - c - a ^ a << 16) & _WORD
    c = (c - a - b & _WORD) ^ b >> 5
    a = (a - b - c & _WORD) ^ c >> 3
    b = (b - c - a ^ a << 10) & _WORD
    c = (c - a - b & _WORD) ^ b >> 15
    return a, b, c


class FileAccess(Struct, frozen=True):
    """The files that tools may use: those in the workspace and in `data_dir`, the session's own folder, if it has one."""

    workspace: Workspace
    data_dir: Path | None = None

    def find(self, path: str, approved: ApprovedFile | None = None, *, data: bool = True) -> Target:
        """Find the file of a call (see `Workspace.locate`), in the working directory or, with `data`, in `data_dir`.

        Messages name it with links resolved. Raises ToolError if it is outside.
        """
        real = self.workspace.locate(path, approved).real
        bases = [self.workspace.cwd, self.data_dir] if data else [self.workspace.cwd]
        if any(base is not None and real.is_relative_to(os.path.realpath(base)) for base in bases):
            return Target(real, real, approved)
        raise ToolError(f"Path escapes working directory: {path}")

    def name_of(self, path: Path) -> str:
        """The name of a file from `find` for the model and the host: relative to the working directory if it is in there."""
        cwd = os.path.realpath(self.workspace.cwd)
        return path.relative_to(cwd).as_posix() if path.is_relative_to(cwd) else path.as_posix()


META, OUTPUT, SKILL, SUB_AGENT = "meta", "output", "skill", "sub_agent"


def text_of(result: ToolResult) -> str:
    """Return the text of a result."""
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))
