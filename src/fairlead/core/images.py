"""Reads the type and the size of an image from its first bytes, without decoding it."""

from __future__ import annotations

from binascii import a2b_base64

#: The most pixels of an image. Providers scale larger ones down or refuse them, and decoding takes four bytes per pixel.
MOST_PIXELS = 40_000_000
#: The same for JPEG, which cameras produce, and which is scaled down while it is decoded.
MOST_JPEG_PIXELS = 64_000_000

#: How many parts of a JPEG to search for its size. A file could consist of millions of others.
_MOST_SEGMENTS = 4096
#: How many characters of base64 to search for the size. Cameras put previews before it.
_LOOKED_AT = 1 << 20


def image_type(start: bytes) -> str | None:
    """The MIME type of an image, from the first bytes of the file; None if models do not accept it."""
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if start.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if start.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return "image/webp"
    return None


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
    for _ in range(_MOST_SEGMENTS):
        if at + 9 > len(data) or data[at] != 0xFF:
            break
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
            continue
        # A frame header is C0 to CF, except the tables C4 and CC and the reserved C8.
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


def is_too_large(mime_type: str, sides: tuple[int, int]) -> bool:
    """Whether an image has too many pixels to decode, here or at a provider."""
    return sides[0] * sides[1] > (MOST_JPEG_PIXELS if mime_type == "image/jpeg" else MOST_PIXELS)


def read_encoded_dimensions(data: str) -> tuple[str, tuple[int, int]] | None:
    """The MIME type and the size of an image in base64; None if they cannot be read."""
    try:
        start = a2b_base64(data[:_LOOKED_AT])
    except ValueError:  # binascii.Error is one too
        return None
    kind, sides = image_type(start), dimensions(start)
    return None if kind is None or sides is None else (kind, sides)
