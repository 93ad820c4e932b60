"""The read tool: a window of a text file, or an image, which is scaled down if it is too large."""

from __future__ import annotations

import base64
import io
import logging
import os
import shlex
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct

from fairlead.core import images
from fairlead.core.lenient import scrub_text
from fairlead.core.messages import ImageContent, TextContent
from fairlead.core.tool import StructuredResult, Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools import PATH, file_locations, object_schema, read_title, string
from fairlead.tools.background import Stop, in_thread
from fairlead.tools.files.targets import Document, Target, as_content, failure, open_regular
from fairlead.tools.truncate import MAX_BYTES, MAX_LINES, Truncation, format_size
from fairlead.tools.workspace import Workspace

_BLOCK = 1024 * 1024
#: How much of a file is looked at to tell whether it is an image, binary or text.
_SAMPLE = 8192

_PARAMETERS = object_schema(
    {
        "path": string("The file, absolute or relative to the working directory"),
        "offset": {"type": "integer", "description": "First line to read, from 1"},
        "limit": {"type": "integer", "minimum": 1, "description": "How many lines to read at most"},
    },
    "path",
)


def read_tool(workspace: Workspace) -> Tool:
    return Tool(
        name="read",
        label="read",
        description=(
            "Read a text file or an image (PNG, JPEG, GIF, WebP). At most 2000 lines or 50KB of text are returned, whichever"
            " comes first; continue with offset, which the result names."
        ),
        parameters=_PARAMETERS,
        run=partial(_run_read, workspace),
        kind="read",
        title=read_title,
        locations=partial(file_locations, workspace),
        idempotent=True,
        subject=PATH,
        snippet="Read files",
        guidelines=("Look at files with read, not with cat or sed.",),
        harmless=True,
        timeout=workspace.default_timeout,
    )


async def _run_read(workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    offset = max(int(arguments.get("offset") or 1), 1)
    limit = int(arguments["limit"]) if arguments.get("limit") else None
    if workspace.uris is not None and workspace.uris.has(arguments["path"]):
        document = await workspace.uris.read(arguments["path"], context.cancel)
        return await in_thread(context.cancel, lambda stop: _document_result(document, offset, limit, stop))
    target = workspace.locate(arguments["path"], context.target)

    def show(window: Window) -> ToolResult:
        return _text_result(arguments["path"], offset, limit, window)

    return await in_thread(context.cancel, lambda stop: read_file(workspace, target, offset, limit, show, stop))


def read_file(
    workspace: Workspace, target: Target, offset: int, limit: int | None, show: Callable[[Window], ToolResult], stop: Stop
) -> ToolResult:
    """Return an image, or the result of `show` for a window of a text file. Raises ToolError."""
    path = target.named
    with os.fdopen(open_regular(target, workspace.guard), "rb", buffering=0) as opened:
        file = opened.fileno()
        try:
            sample = os.pread(file, _SAMPLE, 0)
            mime_type = images.image_type(sample)
            if mime_type is not None:
                return read_image(file, path, mime_type, stop, resize=workspace.resize_images)
            if b"\0" in sample:
                size = format_size(os.fstat(file).st_size)
                raise ToolError(
                    f"{path} is a binary file ({size}), not text. Look at it with a shell command, such as file or xxd."
                )
            return show(read_window(lambda: os.read(file, _BLOCK), offset, limit, stop))
        except OSError as error:
            raise failure(error, "read", target) from error


def read_all(file: int, stop: Stop) -> bytes:
    """Read the rest of an open file."""
    blocks: list[bytes] = []
    while block := os.read(file, _BLOCK):
        stop.check()
        blocks.append(block)
    return b"".join(blocks)


class Window(Struct):
    """Some whole lines of a file, and the size of it all."""

    content: bytes
    lines: int
    #: The bytes of the first line, also when it was too long to keep.
    first_line_bytes: int
    #: Which limit ended the window before the end of the file; None: it reaches the end, or the caller's own limit.
    stopped_by: str | None
    total_lines: int
    total_bytes: int


class _LineReader:
    """Reads in blocks, until an empty one; line by line where lines are wanted and only counting where not."""

    def __init__(self, next_block: Callable[[], bytes], stop: Stop) -> None:
        self.total_bytes = 0
        self._newlines = 0
        self._next_block = next_block
        self._stop = stop
        self._block = b""
        self._at = 0

    def skip_lines(self, count: int) -> None:
        while count > 0 and self._more():
            newlines = self._block.count(b"\n", self._at)
            if newlines < count:
                count -= newlines
                self._at = len(self._block)
            else:
                rest = self._block[self._at :].split(b"\n", count)[-1]
                self._at = len(self._block) - len(rest)
                count = 0

    def read_line(self) -> tuple[bytes, int]:
        """The next line with its newline, and its length; of a line longer than a result may hold, only the length matters."""
        parts: list[bytes] = []
        size = 0
        while self._more():
            end = self._block.find(b"\n", self._at) + 1
            piece = self._block[self._at : end or len(self._block)]
            self._at += len(piece)
            size += len(piece)
            if size <= MAX_BYTES + 1:
                parts.append(piece)
            if end:
                break
        return b"".join(parts), size

    def count_lines(self) -> int:
        """Read to the end of the file and say how many lines it has."""
        ends_in_mid_line = False
        while True:
            if self._block:
                ends_in_mid_line = not self._block.endswith(b"\n")
            self._at = len(self._block)
            if not self._more():
                return self._newlines + (1 if ends_in_mid_line else 0)

    def _more(self) -> bool:
        """Return whether there is something at `_at`; reads the next block if need be."""
        if self._at == len(self._block):
            self._stop.check()
            block = self._next_block()
            if not block:
                return False
            self._block = block
            self._at = 0
            self.total_bytes += len(block)
            self._newlines += block.count(b"\n")
        return True


def read_window(next_block: Callable[[], bytes], offset: int, limit: int | None, stop: Stop) -> Window:
    """Return the lines from `offset` (from 1) on: at most `limit`, and never more than a result may hold. Memory stays flat."""
    reader = _LineReader(next_block, stop)
    reader.skip_lines(offset - 1)
    kept: list[bytes] = []
    size = first_line_bytes = 0
    stopped_by: str | None = None
    while len(kept) < min(limit or MAX_LINES, MAX_LINES):
        line, length = reader.read_line()
        if not length:
            break
        first_line_bytes = first_line_bytes or length
        # The newline of the last line is not shown, so it does not count.
        if size + length - (1 if line.endswith(b"\n") else 0) > MAX_BYTES:
            stopped_by = "bytes"
            break
        kept.append(line)
        size += length
    total_lines = reader.count_lines()
    if len(kept) == MAX_LINES and limit != MAX_LINES and offset + MAX_LINES <= total_lines:
        stopped_by = "lines"
    return Window(b"".join(kept), len(kept), first_line_bytes, stopped_by, total_lines, reader.total_bytes)


def _document_result(document: Document, offset: int, limit: int | None, stop: Stop) -> ToolResult:
    """Show a window of a document that is not a file, with the notes that came with it."""
    data = io.BytesIO(scrub_text(document.text).encode())
    result = _text_result(None, offset, limit, read_window(lambda: data.read(_BLOCK), offset, limit, stop))
    result.content += [*document.images, *as_content(document.notes)]
    result.details = document.details | (result.details or {})
    return result


def _text_result(file: str | None, offset: int, limit: int | None, window: Window) -> ToolResult:
    """Return what the model sees of a window. `file` is the path by which a command finds the text, if one does."""
    total = window.total_lines
    if offset > max(total, 1):
        raise ToolError(f"Offset {offset} is beyond end of file ({total} lines total)")
    after = offset + window.lines
    content = window.content
    if after <= total:
        content = content.removesuffix(b"\n")
    text = content.decode("utf-8", "replace")
    if window.stopped_by is None:
        left = total - after + 1
        if left > 0:
            text += f"\n\n[{left} more lines in file. Use offset={after} to continue.]"
        return _make_text_result(text)
    too_long = window.lines == 0
    truncation = Truncation(
        content=text,
        truncated=True,
        truncated_by="lines" if window.stopped_by == "lines" else "bytes",
        total_lines=total,
        total_bytes=window.total_bytes,
        output_lines=window.lines,
        output_bytes=len(content),
        first_line_exceeds_limit=too_long,
    )
    maximum = format_size(MAX_BYTES)
    if too_long:
        size = format_size(window.first_line_bytes)
        notice = f"[Line {offset} is {size}, exceeds {maximum} limit.{_way_around(file, offset)}]"
        return _make_text_result(notice, {"truncation": truncation.as_details()})
    why = f" ({maximum} limit)" if window.stopped_by == "bytes" else ""
    notice = f"[Showing lines {offset}-{after - 1} of {total}{why}. Use offset={after} to continue.]"
    return _make_text_result(f"{text}\n\n{notice}", {"truncation": truncation.as_details()})


def _make_text_result(text: str, details: dict[str, Any] | None = None) -> ToolResult:
    return StructuredResult([TextContent(text)], details, structured=lambda: text)


def _way_around(file: str | None, line: int) -> str:
    """Return how to see the start of a line that is too long to show, if there is a way."""
    if file is None:
        return ""
    return f" Use bash: sed -n '{line}p' {shlex.quote(file)} | head -c {MAX_BYTES}"


#: Larger sides are scaled down by the providers anyway.
MAX_SIDE = 2000
#: Of the base64 text; providers refuse images over 5 MB.
MAX_ENCODED = 4_718_592
#: Files larger than this are not even loaded.
_MAX_FILE = 64 * 1024 * 1024


def read_image(file: int, path: Path, mime_type: str, stop: Stop, *, resize: bool) -> ToolResult:
    """Return the image in an open file, with a note on its size. Raises ToolError if no model would take it."""
    size = os.fstat(file).st_size
    if size > _MAX_FILE:
        raise ToolError(f"{path} is an image of {format_size(size)}; images over {format_size(_MAX_FILE)} are not read.")
    data = read_all(file, stop)
    sides = images.dimensions(data)
    if sides is not None and images.is_too_large(mime_type, sides):
        raise ToolError(_too_large(path, data, sides, "it has too many pixels to be decoded", "Shrink it first."))
    note = f"Read image file [{mime_type}]"
    if sides is not None:
        note += f" ({sides[0]}x{sides[1]})"
    if (sides is not None and max(sides) > MAX_SIDE) or _compute_encoded_size(data) > MAX_ENCODED:
        smaller = _shrink(data, stop) if resize else None
        if smaller is not None:
            data, mime_type, new_sides = smaller
            note += f", resized to {new_sides[0]}x{new_sides[1]} [{mime_type}]"
        elif _compute_encoded_size(data) > MAX_ENCODED:
            hint = "Install Pillow to have large images resized, or shrink it first." if resize else "Shrink it first."
            raise ToolError(_too_large(path, data, sides, f"the limit is {format_size(MAX_ENCODED // 4 * 3)}", hint))
    image = ImageContent(base64.b64encode(data).decode(), mime_type)
    structured = {"type": "image", "data": image.data, "mimeType": mime_type, "note": note}
    return StructuredResult([TextContent(note), image], structured=lambda: structured)


def _compute_encoded_size(data: bytes) -> int:
    return (len(data) + 2) // 3 * 4


def _too_large(path: Path, data: bytes, sides: tuple[int, int] | None, why: str, hint: str) -> str:
    measure = f"{sides[0]}x{sides[1]}, " if sides is not None else ""
    return f"{path} is too large an image to send ({measure}{format_size(len(data))}; {why}). {hint}"


def _shrink(data: bytes, stop: Stop) -> tuple[bytes, str, tuple[int, int]] | None:
    """Return a smaller copy of an image, within both limits; None if Pillow is missing or cannot read it."""
    try:
        image_module: Any = import_module("PIL.Image")
        operations: Any = import_module("PIL.ImageOps")
    except ImportError:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of images it finds large
            image = image_module.open(io.BytesIO(data))
            if images.is_too_large(image.get_format_mimetype() or "", image.size):  # where the header could not be read above
                return None
            image.thumbnail((MAX_SIDE, MAX_SIDE))
            image = operations.exif_transpose(image)  # of the small copy: it is copied once more
            for smaller, mime_type in stop.each(_encodings(image)):
                if _compute_encoded_size(smaller) <= MAX_ENCODED:
                    return smaller, mime_type, image.size
    # What Pillow raises on damaged images.
    except (OSError, ValueError, SyntaxError, image_module.DecompressionBombError) as error:
        logging.getLogger("fairlead.tools").debug("an image could not be made smaller (%s)", type(error).__name__)
        return None
    return None


def _encodings(image: Any) -> Iterator[tuple[bytes, str]]:
    """The image in several encodings, best first; each is made only if those before were too large. Shrinks `image` at last."""

    def save(kind: str, **options: Any) -> bytes:
        target = io.BytesIO()
        (image if kind == "PNG" else image.convert("RGB")).save(target, kind, **options)
        return target.getvalue()

    yield save("PNG"), "image/png"
    while min(image.size) > 1:
        for quality in (85, 60):
            yield save("JPEG", quality=quality), "image/jpeg"
        image.thumbnail((image.width // 2, image.height // 2))
