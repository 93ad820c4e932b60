"""A model or a repository puts formulas into the results that a user opens in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing

import pytest
from tests.support.fleet import Fleet

from fairlead.jobs import Jobs
from fairlead.jobs.results_export import export_jobs

pytest_plugins = ["tests.jobs.conftest"]

FORMULA = '=HYPERLINK("http://127.0.0.1/?"&A1)'
STARTS = [
    "",
    " ",
    "\t",
    "\r",
    "\n",
    "\r\n",
    "\0",
    '"',
    "'",
    '""',
    "' ",
    "\u200b",
    "\ufeff",
    "\u00a0",
    "\u2060\u00ad",
    "`",
    "\u202e",
    "\u2066",
    "\u061c",
    "\u180e",
    "\u034f",
    "\u3164",
    "\u2800",
    "\ufe0f",
    "\ufff9",
    "\U000e0041",
    "\x85",
    "\x7f",
]


async def exported(fleet: Fleet, answers: list[str]) -> tuple[list[dict[str, str]], bytes]:
    """Export jobs with these answers, and return the rows of the table and its bytes."""
    async with Jobs(fleet.url) as jobs:
        labels = {"=1+1": "@SUM(1)"}
        await jobs.submit(*(fleet.job(f"job-{n}", "true", labels=labels) for n in range(len(answers))))
        with closing(sqlite3.connect(fleet.url.removeprefix("sqlite:///"))) as connection:
            for number, answer in enumerate(answers):
                values = (answer, answer, answer, f"job-{number}")
                connection.execute("UPDATE fairlead_jobs SET answer = ?, error = ?, patch = ? WHERE id = ?", values)
            connection.commit()
        await export_jobs(jobs, fleet.root / "results")
    data = (fleet.root / "results" / "results.csv").read_bytes()
    return list(csv.DictReader(io.StringIO(data.decode(), newline=""))), data


@pytest.mark.parametrize(
    "sign", ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\ufe66", "\ufe62", "\ufe63", "\ufe6b"]
)
async def test_no_cell_begins_with_a_formula(fleet: Fleet, sign: str) -> None:
    rows, _ = await exported(fleet, [f"{start}{sign}{FORMULA[1:]}" for start in STARTS])
    for row in rows:
        for name in ("answer", "error", "patch"):
            assert row[name].startswith("'") and sign in row[name]


@pytest.mark.parametrize("split", [";", "\t", "; ", ';"', "\t\t"])
async def test_no_part_of_a_cell_begins_with_a_formula_where_others_split(fleet: Fleet, split: str) -> None:
    (row,), _ = await exported(fleet, [f"text{split}{FORMULA}"])
    after = row["answer"][row["answer"].index(split[0]) + 1 :]
    assert after.lstrip("\t").startswith("'")


async def test_cells_that_begin_with_white_space_only_spreadsheets_drop_are_marked(fleet: Fleet) -> None:
    rows, _ = await exported(fleet, ["\tx", "\rx"])
    assert all(row["answer"].startswith("'") for row in rows)


async def test_texts_without_formulas_and_numbers_stay(fleet: Fleet) -> None:
    texts = ["Done.", "a = b + c", "1;2;3", "line\n- item", "\u00e4\u4e2d"]
    rows, data = await exported(fleet, texts)
    assert [row["answer"] for row in rows] == texts and rows[0]["cost"] == "0.0" and data.startswith(b"id,")
    lines = (fleet.root / "results" / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["answer"] for line in lines] == texts
