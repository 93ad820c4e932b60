"""Writes what came of jobs into a directory: results as JSONL and CSV, transcripts, and patches."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from fairlead.errors import ConfigError
from fairlead.platform.open_files import make_private_folders, open_private

if TYPE_CHECKING:
    from fairlead.jobs.jobs_client import Jobs

#: The columns of results.csv, which are also the fields of results.jsonl.
COLUMNS = ("id", "status", "attempts", "cost", "session", "turns", "tokens", "seconds", "labels", "answer", "error", "patch")

#: Spaces, and characters that do not show.
_UNSEEN = (
    r"\s\x00-\x20\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f"
    r"\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc\U000e0000-\U000e0fff"
)
#: What spreadsheets take for the beginning of a formula, also after quotes and what does not show.
_FORMULA = rf"[\"'`{_UNSEEN}]*[=+\-@\u2212\ufe62\ufe63\ufe66\ufe6b\uff0b\uff0d\uff1d\uff20]"
#: Where a cell begins. Depending on their language, spreadsheets also split at semicolons, even inside quotes.
_CELL = re.compile(rf"(^[\t\r\n]|^(?={_FORMULA})|[;\t](?={_FORMULA}))")


class ExportCounts(Struct):
    """How many files of each kind an export has written."""

    results: int = 0
    transcripts: int = 0
    patches: int = 0


async def export_jobs(jobs: Jobs, folder: Path) -> ExportCounts:
    """Write all jobs of a database. Files of an earlier export are replaced.

    Args:
        jobs: The jobs.
        folder: Where to write: `results.jsonl`, `results.csv`, `transcripts/SESSION.jsonl` and `patches/ID.patch`.

    Raises:
        ConfigError: The directory cannot be written.
    """
    counts = ExportCounts()
    rows: list[dict[str, Any]] = []
    try:
        for name in ("transcripts", "patches"):
            make_private_folders(folder / name)
        sessions: set[str] = set()
        for result in await jobs.list():
            patch = await jobs.patch(result.id)
            if patch is not None:
                _write(folder / "patches" / f"{result.id}.patch", patch.encode())
                counts.patches += 1
            if result.session not in sessions:
                sessions.add(result.session)
                text = await jobs.transcript(result.session)
                if text is not None:
                    _write(folder / "transcripts" / f"{result.session}.jsonl", text)
                    counts.transcripts += 1
            fields = {name: getattr(result, name) for name in COLUMNS if name != "patch"}
            rows.append({**fields, "patch": patch})
        counts.results = len(rows)
        _write(folder / "results.jsonl", msgspec.json.Encoder().encode_lines(rows))
        table = io.StringIO(newline="")
        writer = csv.writer(table)
        writer.writerow(COLUMNS)
        writer.writerows([_cell(row[name]) for name in COLUMNS] for row in rows)
        _write(folder / "results.csv", table.getvalue().encode("utf-8", "replace"))
    except OSError as error:
        raise ConfigError(f"{error.filename or folder} cannot be written: {error.strerror}.") from error
    return counts


def _write(path: Path, data: bytes) -> None:
    with open_private(path, "wb") as file:
        file.write(data)


def _cell(value: Any) -> str:
    """Return a cell that no spreadsheet takes for a formula, as models and repositories decide what is in it."""
    if value is None:
        return ""
    if isinstance(value, (int, float)):
        return str(value)
    text = msgspec.json.encode(value).decode() if isinstance(value, dict) else str(value)
    return _CELL.sub(lambda found: f"'{found[0]}" if not found.start() else f"{found[0]}'", text)
