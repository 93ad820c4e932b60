"""read: windows of text, images, and things that are neither."""

from __future__ import annotations

import asyncio
import base64
import os
import struct
import sys
import zlib

import pytest
from tests.tools.box import Box

from fairlead.core.images import dimensions
from fairlead.core.messages import ImageContent
from fairlead.core.runtime import CancelToken


def numbered(count: int) -> str:
    return "\n".join(f"line {i}" for i in range(1, count + 1))


def test_a_whole_file_comes_as_it_is(box: Box) -> None:
    box.put("a.txt", "alpha\nbeta\r\n\ngamma\n")
    done = box.call("read", path="a.txt")
    assert (done.text, done.details, done.is_error) == ("alpha\nbeta\r\n\ngamma\n", None, False)


def test_an_empty_file_is_empty(box: Box) -> None:
    box.put("empty", "")
    assert box.call("read", path="empty").text == ""


def test_a_long_file_is_cut_by_lines(box: Box) -> None:
    box.put("big.txt", numbered(3000))
    done = box.call("read", path="big.txt")
    assert done.text == numbered(2000) + "\n\n[Showing lines 1-2000 of 3000. Use offset=2001 to continue.]"
    assert done.details == {
        "truncation": {
            "content": numbered(2000),
            "truncated": True,
            "truncatedBy": "lines",
            "totalLines": 3000,
            "totalBytes": 28892,
            "outputLines": 2000,
            "outputBytes": 18892,
            "lastLinePartial": False,
            "firstLineExceedsLimit": False,
            "maxLines": 2000,
            "maxBytes": 51200,
        }
    }


def test_the_offset_named_continues_to_the_end(box: Box) -> None:
    box.put("big.txt", numbered(3000) + "\n")
    done = box.call("read", path="big.txt", offset=2001)
    assert done.text == "".join(f"line {i}\n" for i in range(2001, 3001))
    assert done.details is None


def test_a_limit_says_how_much_is_left(box: Box) -> None:
    box.put("big.txt", numbered(3000))
    done = box.call("read", path="big.txt", offset=2990, limit=5)
    expected = "\n".join(f"line {i}" for i in range(2990, 2995))
    assert done.text == f"{expected}\n\n[6 more lines in file. Use offset=2995 to continue.]"
    assert done.details is None


def test_a_limit_that_reaches_the_end_says_nothing(box: Box) -> None:
    box.put("a.txt", "one\ntwo\n")
    assert box.call("read", path="a.txt", limit=2).text == "one\ntwo\n"
    assert box.call("read", path="a.txt", limit=1).text == "one\n\n[1 more lines in file. Use offset=2 to continue.]"


def test_a_limit_over_the_most_is_cut(box: Box) -> None:
    box.put("big.txt", numbered(5000))
    assert box.call("read", path="big.txt", limit=4000).text.endswith(
        "[Showing lines 1-2000 of 5000. Use offset=2001 to continue.]"
    )


def test_an_offset_beyond_the_end_is_an_error(box: Box) -> None:
    box.put("big.txt", numbered(3000))
    done = box.call("read", path="big.txt", offset=99999)
    assert (done.text, done.is_error, done.details) == ("Offset 99999 is beyond end of file (3000 lines total)", True, {})


def test_wide_lines_are_cut_by_bytes(box: Box) -> None:
    box.put("wide.txt", ("x" * 999 + "\n") * 100)
    done = box.call("read", path="wide.txt")
    assert done.text.endswith("x\n\n[Showing lines 1-51 of 100 (50.0KB limit). Use offset=52 to continue.]")
    assert done.details["truncation"]["outputBytes"] == 50_999


def test_exactly_as_much_as_allowed_is_not_cut(box: Box) -> None:
    box.put("just.txt", "x" * 51200 + "\n")
    assert box.call("read", path="just.txt").text == "x" * 51200 + "\n"


def test_a_line_that_is_too_long_comes_with_a_way_to_read_it(box: Box) -> None:
    box.put("min file.js", "short\n" + "x" * 3_000_000 + "\nend\n")
    done = box.call("read", path="min file.js", offset=2)
    assert done.text == "[Line 2 is 2.9MB, exceeds 50.0KB limit. Use bash: sed -n '2p' 'min file.js' | head -c 51200]"
    assert done.details["truncation"]["firstLineExceedsLimit"] is True
    hint = done.text.partition("Use bash: ")[2].removesuffix("]")
    assert box.call("bash", command=hint).text == "x" * 51200
    assert box.call("read", path="min file.js", offset=3).text == "end\n"
    assert (
        box.call("read", path="min file.js").text == "short\n\n[Showing lines 1-1 of 3 (50.0KB limit). Use offset=2 to continue.]"
    )


def test_windows_far_inside_a_large_file_are_right(box: Box) -> None:
    box.put("large.txt", "".join(f"{i:07d}\n" for i in range(1, 600_001)))
    for offset in (1, 131_072, 131_073, 262_144, 599_999, 600_000):
        done = box.call("read", path="large.txt", offset=offset, limit=2)
        assert done.text.splitlines()[0] == f"{offset:07d}"
    assert box.call("read", path="large.txt", offset=600_000).text == "0600000\n"
    assert box.call("read", path="large.txt", offset=600_001).text == "Offset 600001 is beyond end of file (600000 lines total)"


def test_a_missing_file_is_reported(box: Box) -> None:
    done = box.call("read", path="missing.txt")
    assert (done.text, done.is_error) == (f"ENOENT: no such file or directory, access '{box.cwd}/missing.txt'", True)


def test_a_forbidden_file_is_reported(box: Box) -> None:
    box.put("secret", "x").chmod(0)
    user = os.geteuid()
    if user == 0:  # root may read everything: be somebody else for a moment
        os.seteuid(65534)
    try:
        assert box.call("read", path="secret").text.startswith("EACCES: permission denied, ")
    finally:
        os.seteuid(user)


def test_paths_that_are_not_files_are_refused_at_once(box: Box) -> None:
    os.mkfifo(box.cwd / "fifo")
    (box.cwd / "loop").symlink_to("loop")
    assert "is a directory" in box.call("read", path=".").text
    assert "is a named pipe" in box.call("read", path="fifo").text
    assert "is a device" in box.call("read", path="/dev/zero").text
    assert box.call("read", path="loop").text.startswith("ELOOP: ")
    assert box.call("read", path="a.txt/b").is_error


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_files_without_a_size_are_read(box: Box) -> None:
    assert box.call("read", path="/proc/self/comm").text


def test_binary_files_are_not_shown(box: Box) -> None:
    box.put("tool", b"\x7fELF\0\0\0garbage")
    done = box.call("read", path="tool")
    assert done.is_error
    assert "is a binary file (14B), not text" in done.text


def test_other_encodings_are_shown_as_far_as_possible(box: Box) -> None:
    box.put("latin.txt", b"caf\xe9\n")
    assert box.call("read", path="latin.txt").text == "caf\ufffd\n"


async def test_abort_stops_a_long_scan(box: Box) -> None:
    with (box.cwd / "sparse").open("wb") as file:
        file.write(b"text\n" * 4000)
        file.truncate(1 << 40)
    cancel = CancelToken()
    reading = asyncio.create_task(box.acall("read", {"path": "sparse"}, cancel))
    while not reading.done():
        await asyncio.sleep(0)
        cancel.fire()
    done = await reading
    assert (done.text, done.is_error) == ("Operation aborted", True)


def png(width: int, height: int, payload: bytes = b"") -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + b"\x80" * 3 * width for _ in range(height))) if height < 4000 else b""
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"tEXt", payload) + chunk(b"IEND", b"")


def test_images_are_known_by_content_and_measured(box: Box) -> None:
    picture = png(3, 2)
    box.put("picture.txt", picture)
    done = box.call("read", path="picture.txt")
    _, image = done.content
    assert done.text == "Read image file [image/png] (3x2)"
    assert image == ImageContent(base64.b64encode(picture).decode(), "image/png")


def test_sizes_are_found_in_every_format() -> None:
    sof = b"\xff\xc2\x00\x11\x08\x01\x02\x03\x04\x03" + b"\0" * 9
    jpeg = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xff\xc4\x00\x03x" + sof
    webp = b"RIFF\0\0\0\0WEBP"
    assert dimensions(png(640, 480)) == (640, 480)
    assert dimensions(b"GIF89a" + struct.pack("<HH", 12, 34)) == (12, 34)
    assert dimensions(jpeg) == (0x304, 0x102)
    assert dimensions(webp + b"VP8X\0\0\0\0\0\0\0\0" + (99).to_bytes(3, "little") + (49).to_bytes(3, "little")) == (100, 50)
    assert dimensions(webp + b"VP8L\0\0\0\0\x2f" + (99 | 49 << 14).to_bytes(4, "little") + b"\0" * 8) == (100, 50)
    assert dimensions(webp + b"VP8 \0\0\0\0\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 100, 50)) == (100, 50)


def test_damaged_images_have_no_size() -> None:
    whole = png(9, 9)
    for length in range(8, 24):
        assert dimensions(whole[:length]) is None
    assert dimensions(b"\xff\xd8\xff\xe0") is None
    assert dimensions(b"\xff\xd8\xff\xe0\x00\x00" * 50) is None
    assert dimensions(b"RIFF\0\0\0\0WEBPVP8X") is None


def test_without_a_library_large_images_are_sent_as_long_as_they_are_accepted(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)  # what an import finds when the package is not installed
    monkeypatch.delitem(sys.modules, "PIL.Image", raising=False)
    box.put("wide.png", png(5000, 10))
    assert box.call("read", path="wide.png").text == "Read image file [image/png] (5000x10)"
    box.put("huge.png", png(5000, 10, b"x" * 4_000_000))
    done = box.call("read", path="huge.png")
    assert done.is_error
    assert "(5000x10, 3.8MB; the limit is 3.4MB). Install Pillow" in done.text


def test_large_images_are_resized(box: Box) -> None:
    box.put("wide.png", png(5000, 100))
    done = box.call("read", path="wide.png")
    assert done.text == "Read image file [image/png] (5000x100), resized to 2000x40 [image/png]"
    image = done.content[1]
    assert isinstance(image, ImageContent)
    assert dimensions(base64.b64decode(image.data)) == (2000, 40)
    box.workspace.resize_images = False
    assert box.call("read", path="wide.png").text == "Read image file [image/png] (5000x100)"


def test_images_with_too_many_pixels_are_not_decoded(box: Box) -> None:
    box.put("bomb.png", png(20_000, 20_000))
    done = box.call("read", path="bomb.png")
    assert done.is_error
    assert "is too large an image to send (20000x20000" in done.text


def test_an_image_whose_header_hides_its_size_is_not_decoded_either(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    # The size is found by Pillow alone, in a JPEG that begins with more parts than we look at.
    big = jpeg(9_000, 9_000)
    padded = big[:2] + b"\xff\xfe\x00\x02" * 5_000 + big[2:]
    assert dimensions(padded) is None
    box.put("hidden.jpg", padded + b"x" * 4_000_000)  # too large to be sent as it is
    done = box.call("read", path="hidden.jpg")
    assert done.is_error
    assert "too large an image" in done.text


def jpeg(width: int, height: int):
    """The beginning of a JPEG of that size."""
    return b"\xff\xd8\xff\xc0\x00\x11\x08" + struct.pack(">HH", height, width) + b"\x03\x01\x11\0\x02\x11\0\x03\x11\0"


def test_monstrous_images_are_not_even_loaded(box: Box) -> None:
    path = box.put("monster.png", png(3, 2))
    with path.open("r+b") as file:
        file.truncate(1 << 33)
    assert "is an image of 8192.0MB" in box.call("read", path="monster.png").text
