"""Images as a model can take them: known by their content, measured without a library, made smaller with one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.core.messages import ImageContent, TextContent
from fairlead.core.tool import ToolResult
from fairlead.errors import ToolError
from fairlead.tools.background import Stop
from fairlead.tools.read import read_all
from fairlead.tools.truncate import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Larger sides are scaled down by the providers anyway.
MAX_SIDE = 2000
#: Of the base64 text; providers refuse images over 5 MB.
MAX_ENCODED = 4_718_592
#: Files larger than this are not even loaded.
_MAX_FILE = 64 * 1024 * 1024


def image_type(start: bytes) -> str | None:
    """The MIME type of an image that models accept, by the first bytes of the file."""
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if start.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if start.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return "image/webp"
    return None


def read_image(file: int, path: Path, mime_type: str, stop: Stop, *, resize: bool) -> ToolResult:
    """The image in an open file, with a note on its size. Raises ToolError if no model would take it."""
    size = os.fstat(file).st_size
    if size > _MAX_FILE:
        raise ToolError(f"{path} is an image of {format_size(size)}; images over {format_size(_MAX_FILE)} are not read.")
    data = read_all(file, stop)
    sides = dimensions(data)
    note = f"Read image file [{mime_type}]"
    if sides is not None:
        note += f" ({sides[0]}x{sides[1]})"
    if (sides is not None and max(sides) > MAX_SIDE) or _encoded_size(data) > MAX_ENCODED:
        smaller = _shrink(data, stop) if resize else None
        if smaller is not None:
            data, mime_type, new_sides = smaller
            note += f", resized to {new_sides[0]}x{new_sides[1]} [{mime_type}]"
        elif _encoded_size(data) > MAX_ENCODED:
            raise ToolError(_too_large(path, data, sides, resize=resize))
    from base64 import b64encode

    return ToolResult([TextContent(note), ImageContent(b64encode(data).decode(), mime_type)])


def dimensions(data: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG, JPEG, GIF or WebP image; None if the header is damaged."""
    mime_type = image_type(data)
    if mime_type == "image/png" and data[12:16] == b"IHDR" and len(data) >= 24:
        return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    if mime_type == "image/gif" and len(data) >= 10:
        return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    if mime_type == "image/jpeg":
        return _jpeg_dimensions(data)
    if mime_type == "image/webp" and len(data) >= 30:
        return _webp_dimensions(data)
    return None


def _jpeg_dimensions(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
            continue
        # A frame header is C0 to CF, but for the tables C4 and CC and the reserved C8.
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(data[at + 7 : at + 9], "big"), int.from_bytes(data[at + 5 : at + 7], "big")
        standalone = marker == 0x01 or 0xD0 <= marker <= 0xD8
        at += 2 if standalone else 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def _webp_dimensions(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF
    return None


def _encoded_size(data: bytes) -> int:
    return (len(data) + 2) // 3 * 4


def _too_large(path: Path, data: bytes, sides: tuple[int, int] | None, *, resize: bool) -> str:
    measure = f"{sides[0]}x{sides[1]}, " if sides is not None else ""
    limit = format_size(MAX_ENCODED // 4 * 3)
    hint = "Install Pillow to have large images resized, or shrink it first." if resize else "Shrink it first."
    return f"{path} is too large an image to send ({measure}{format_size(len(data))}; the limit is {limit}). {hint}"


def _shrink(data: bytes, stop: Stop) -> tuple[bytes, str, tuple[int, int]] | None:
    """A smaller copy of an image, within both limits; None if Pillow is missing or cannot read it."""
    from importlib import import_module

    try:
        image_module: Any = import_module("PIL.Image")
        operations: Any = import_module("PIL.ImageOps")
    except ImportError:
        return None
    import io
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of images it finds large
            image = operations.exif_transpose(image_module.open(io.BytesIO(data)))
            image.thumbnail((MAX_SIDE, MAX_SIDE))
            for smaller, mime_type in stop.each(_encodings(image)):
                if _encoded_size(smaller) <= MAX_ENCODED:
                    return smaller, mime_type, image.size
    except (OSError, ValueError, SyntaxError, image_module.DecompressionBombError):  # what Pillow raises on damaged images
        return None
    return None


def _encodings(image: Any) -> Iterator[tuple[bytes, str]]:
    """The image in several encodings, best first; each is made only if those before were too large. Shrinks `image` at last."""
    import io

    def save(kind: str, **options: Any) -> bytes:
        target = io.BytesIO()
        (image if kind == "PNG" else image.convert("RGB")).save(target, kind, **options)
        return target.getvalue()

    yield save("PNG"), "image/png"
    while min(image.size) > 1:
        for quality in (85, 60):
            yield save("JPEG", quality=quality), "image/jpeg"
        image.thumbnail((image.width // 2, image.height // 2))
