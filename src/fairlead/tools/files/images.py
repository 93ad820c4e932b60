"""Image files as a model can take them: measured without a library, made smaller with one."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.core.images import dimensions, is_too_large
from fairlead.core.messages import ImageContent, TextContent
from fairlead.core.tool import ToolResult
from fairlead.errors import ToolError
from fairlead.tools.background import Stop
from fairlead.tools.files.read import read_all
from fairlead.tools.truncate import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    sides = dimensions(data)
    if sides is not None and is_too_large(mime_type, sides):
        raise ToolError(_too_large(path, data, sides, "it has too many pixels to be decoded", "Shrink it first."))
    note = f"Read image file [{mime_type}]"
    if sides is not None:
        note += f" ({sides[0]}x{sides[1]})"
    if (sides is not None and max(sides) > MAX_SIDE) or _encoded_size(data) > MAX_ENCODED:
        smaller = _shrink(data, stop) if resize else None
        if smaller is not None:
            data, mime_type, new_sides = smaller
            note += f", resized to {new_sides[0]}x{new_sides[1]} [{mime_type}]"
        elif _encoded_size(data) > MAX_ENCODED:
            hint = "Install Pillow to have large images resized, or shrink it first." if resize else "Shrink it first."
            raise ToolError(_too_large(path, data, sides, f"the limit is {format_size(MAX_ENCODED // 4 * 3)}", hint))
    from base64 import b64encode

    return ToolResult([TextContent(note), ImageContent(b64encode(data).decode(), mime_type)])


def _encoded_size(data: bytes) -> int:
    return (len(data) + 2) // 3 * 4


def _too_large(path: Path, data: bytes, sides: tuple[int, int] | None, why: str, hint: str) -> str:
    measure = f"{sides[0]}x{sides[1]}, " if sides is not None else ""
    return f"{path} is too large an image to send ({measure}{format_size(len(data))}; {why}). {hint}"


def _shrink(data: bytes, stop: Stop) -> tuple[bytes, str, tuple[int, int]] | None:
    """Return a smaller copy of an image, within both limits; None if Pillow is missing or cannot read it."""
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
            image = image_module.open(io.BytesIO(data))
            if is_too_large(image.get_format_mimetype() or "", image.size):  # where the header could not be read above
                return None
            image.thumbnail((MAX_SIDE, MAX_SIDE))
            image = operations.exif_transpose(image)  # of the small copy: it is copied once more
            for smaller, mime_type in stop.each(_encodings(image)):
                if _encoded_size(smaller) <= MAX_ENCODED:
                    return smaller, mime_type, image.size
    # What Pillow raises on damaged images.
    except (OSError, ValueError, SyntaxError, image_module.DecompressionBombError) as error:
        logging.getLogger("fairlead.tools").debug("an image could not be made smaller (%s)", type(error).__name__)
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
