"""Writes what came of jobs into a directory: results as JSONL and CSV, transcripts, and patches."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from fairlead.errors import ConfigError

if TYPE_CHECKING:
    from fairlead.jobs.client import Jobs

#: The columns of results.csv, which are also the fields of results.jsonl.
COLUMNS = ("id", "status", "attempts", "cost", "session", "turns", "tokens", "seconds", "labels", "answer", "error", "patch")


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
            (folder / name).mkdir(parents=True, exist_ok=True)
        sessions: set[str] = set()
        for result in await jobs.list():
            patch = await jobs.patch(result.id)
            if patch is not None:
                (folder / "patches" / f"{result.id}.patch").write_text(patch, encoding="utf-8", newline="")
                counts.patches += 1
            if result.session not in sessions:
                sessions.add(result.session)
                text = await jobs.transcript(result.session)
                if text is not None:
                    (folder / "transcripts" / f"{result.session}.jsonl").write_bytes(text)
                    counts.transcripts += 1
            fields = {name: getattr(result, name) for name in COLUMNS if name != "patch"}
            rows.append({**fields, "patch": patch})
        counts.results = len(rows)
        (folder / "results.jsonl").write_bytes(msgspec.json.Encoder().encode_lines(rows))
        with (folder / "results.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows([_cell(row[name]) for name in COLUMNS] for row in rows)
    except OSError as error:
        raise ConfigError(f"{error.filename or folder} cannot be written: {error.strerror}.") from error
    return counts


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return msgspec.json.encode(value).decode() if isinstance(value, dict) else str(value)
