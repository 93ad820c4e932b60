"""What is accepted as a job, and what is refused with which words."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.fleet import MODEL, Fleet

from fairlead.errors import ConfigError, DatabaseUnavailable, JobConflict, JobError, JobNotFound
from fairlead.jobs import Job, JobLimits, Jobs
from fairlead.jobs.database import DBOS_VERSION, TABLES_VERSION, Database, DatabaseUrl, hide_password
from fairlead.jobs.task import read_tasks


async def test_submitting_the_same_job_again_changes_nothing(fleet: Fleet) -> None:
    async with Jobs(fleet.url) as jobs:
        first = await jobs.submit(fleet.job("a"))
        again = await jobs.submit(fleet.job("a"), fleet.job("b"))
        assert first[0].status == "queued" and [result.id for result in again] == ["a", "b"]
        assert [result.id for result in await jobs.list()] == ["a", "b"]


#: Submits three jobs, and dies when two of them are inserted.
DYING = """
import asyncio, os, signal, sys
from fairlead.jobs import Job, Jobs, jobs_client

inserted = []

def insert_or_die(transaction, job, type):
    inserted.append(job)
    if len(inserted) > 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return add_event(transaction, job, type)

add_event, jobs_client.add_event = jobs_client.add_event, insert_or_die

async def main():
    async with Jobs(sys.argv[1]) as jobs:
        await jobs.submit(*(Job(id=name, prompt="[]", workdir="/") for name in "abc"))

asyncio.run(main())
"""


async def test_a_client_that_dies_while_it_submits_has_submitted_nothing(fleet: Fleet) -> None:
    dying = await asyncio.create_subprocess_exec(sys.executable, "-c", DYING, fleet.url, env=fleet.env)
    assert await dying.wait() == -signal.SIGKILL
    async with Jobs(fleet.url) as jobs:
        assert await jobs.list() == []
        await jobs.submit(*(Job(id=name, prompt="[]", workdir="/") for name in "abc"))
        assert [result.id for result in await jobs.list()] == ["a", "b", "c"]


async def test_the_same_id_with_other_contents_is_refused_and_nothing_is_submitted(fleet: Fleet) -> None:
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a"))
        with pytest.raises(JobConflict, match=r"job a was submitted before with another prompt and another priority"):
            await jobs.submit(fleet.job("new"), fleet.job("a", "ls", priority=3))
        assert [result.id for result in await jobs.list()] == ["a"]


async def test_two_jobs_of_one_call_cannot_have_the_same_id(fleet: Fleet) -> None:
    async with Jobs(fleet.url) as jobs:
        with pytest.raises(JobError, match="the same id"):
            await jobs.submit(fleet.job("a"), fleet.job("a"))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"id": "../x"}, "id: expected"),
        ({"id": "a..b"}, "id: expected"),
        ({"id": "a.lock"}, "id: expected"),
        ({"id": ""}, "id: expected"),
        ({"id": "_a"}, "begin with a letter or digit"),
        ({"prompt": " "}, "prompt: it is empty"),
        ({"workdir": None}, "no place to work in. Give workdir, or repo and commit"),
        ({"repo": "r", "commit": "c"}, "workdir and repo contradict"),
        ({"workdir": None, "repo": "r"}, "repo needs commit"),
        ({"commit": "c"}, "commit needs repo"),
        ({"workdir": None, "repo": "r", "commit": "--upload-pack=x"}, "commit: expected"),
        ({"workdir": "~no-such-user/x"}, "workdir: this machine does not know the home directory"),
        ({"workdir": "a\0b"}, "workdir: expected a path"),
        ({"workdir": None, "repo": "~no-such-user/x", "commit": "c"}, "repo: this machine does not know"),
        ({"key": "a b"}, "key: expected"),
        ({"session": "a/b"}, "session: expected"),
        ({"workdir": ""}, "workdir: it is empty. Give a value, or leave it out"),
        ({"workdir": None, "repo": "", "commit": "c"}, "repo: it is empty"),
        ({"model": ""}, "model: it is empty"),
        ({"container": ""}, "container: it is empty"),
    ],
)
def test_a_job_with_an_invalid_field_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(JobError, match=problem):
        msgspec.convert({"id": "a", "prompt": "p", "workdir": "/w", **fields}, Job).validate()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"id": 5}, r"Expected `str`, got `int` - at `\$.id`"),
        ({"priority": 501}, "Expected `int` <= 500"),
        ({"labels": {"a": 1}}, "Expected `str`, got `int`"),
        ({"limits": JobLimits(turns=-1)}, r"Expected `int` >= 1 - at `\$.limits.turns`"),
        ({"prompt": "\ud800"}, "surrogates not allowed"),
        ({"workdir": 1j}, "expected str, bytes or os.PathLike object, not complex"),
    ],
)
def test_a_job_field_with_a_wrong_type_raises(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(JobError, match=rf"^The job .* cannot be submitted: .*{problem}"):
        given: dict[str, Any] = {"id": "a", "prompt": "p", "workdir": "/w", **fields}
        Job(**given).validate()


def test_a_field_that_is_null_counts_as_left_out() -> None:
    optional = {name: None for name in Job.__struct_fields__ if name not in ("id", "prompt", "workdir")}
    line = msgspec.json.encode({"id": "a", "prompt": "p", "workdir": "/w", **optional})
    [job] = read_tasks([line], "tasks.jsonl", Path("/base"))
    plain = Job(id="a", prompt="p", workdir="/w").validate()
    assert job == plain and job.contents() == plain.contents()
    assert (job.limits, job.priority, job.labels) == (JobLimits(), 0, {})
    assert Job(id="a", prompt="p", workdir="/w", limits=None, labels=None, priority=None).validate() == plain


def test_paths_become_absolute() -> None:
    job = Job(id="a", prompt="p", workdir="w").validate(Path("/base"))
    assert job.workdir == "/base/w"
    assert Job(id="a", prompt="p", repo="git@host:r.git", commit="c").validate().repo == "git@host:r.git"


def test_python_may_give_paths() -> None:
    given: dict[str, Any] = {"id": "a", "prompt": "p", "workdir": Path("w")}
    assert Job(**given).validate(Path("/base")) == Job(id="a", prompt="p", workdir="/base/w")


def task(**fields: Any) -> str:
    return json.dumps({"id": "a", "prompt": "p", "workdir": "/w", **fields})


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([task(), "{"], "tasks.jsonl, line 2: the JSON is not complete. Write each task on one line. Nothing was submitted."),
        (
            [task(), "", task(id="b", colour="red")],
            r"line 3: Object contains unknown field `colour`\. The fields are id, prompt, .*",
        ),
        (
            [task(limits={"minutes": 1})],
            r"unknown field `minutes` - at `\$.limits`\. The fields are turns, seconds, cost, tokens\.",
        ),
        ([task(), task()], "line 2: line 1 has the id 'a' too"),
        ([task(id="a b")], "line 1: id: expected"),
        ([task(limits={"turns": 0})], r"line 1: Expected `int` >= 1 - at `\$.limits.turns`\. Nothing was submitted\."),
        ([task(priority=501)], "line 1: Expected `int` <= 500"),
        ([""], "has no tasks"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_submitted(fleet: Fleet, lines: list[str], problem: str) -> None:
    (fleet.root / "tasks.jsonl").write_text("\n".join(lines))
    done = fleet.run("jobs", "submit", "tasks.jsonl")
    assert done.returncode == 1 and done.stdout == ""
    assert re.search(problem, done.stderr), done.stderr
    assert fleet.run("jobs", "list", "--json").stdout == ""


def test_a_file_of_tasks_may_begin_with_a_byte_order_mark(fleet: Fleet) -> None:
    (fleet.root / "tasks.jsonl").write_text("\ufeff" + task(), encoding="utf-8")
    assert fleet.run("jobs", "submit", "tasks.jsonl").stdout == "Submitted 1 job.\n"


def test_a_file_of_tasks_has_the_fields_of_a_job(fleet: Fleet) -> None:
    fields = {
        "repo": "/r",
        "commit": "HEAD",
        "model": "m",
        "limits": {"turns": 3, "seconds": 9.5, "cost": 0.5, "tokens": 1000},
        "key": "team-a",
        "priority": 7,
        "labels": {"suite": "x"},
    }
    job = msgspec.json.decode(json.dumps({"id": "a", "prompt": "p", **fields}), type=Job)
    assert job.limits == JobLimits(turns=3, seconds=9.5, cost=0.5, tokens=1000) and job.labels == {"suite": "x"}
    (fleet.root / "tasks.jsonl").write_text(json.dumps({"id": "a", "prompt": "p", **fields}) + "\n" + task(id="b") + "\n")
    assert fleet.run("jobs", "submit", "tasks.jsonl").stdout == "Submitted 2 jobs.\n"
    assert fleet.run("jobs", "submit", "tasks.jsonl").stdout == "Submitted 0 jobs; 2 jobs had been submitted before.\n"
    listed = [json.loads(line) for line in fleet.run("jobs", "list", "--json").stdout.splitlines()]
    assert listed[0] == {"id": "a", "status": "queued", "attempts": 0, "cost": 0.0, "session": "a"}
    assert [each["id"] for each in listed] == ["a", "b"]


async def test_an_unknown_id_is_an_error(fleet: Fleet) -> None:
    async with Jobs(fleet.url) as jobs:
        for call in (jobs.cancel("x"), jobs.retry("x"), anext(jobs.events("x")), anext(jobs.results(["x"])), jobs.patch("x")):
            with pytest.raises(JobNotFound, match="There is no job 'x'"):
                await call
        with pytest.raises(JobNotFound):
            await jobs.get("not utf-8: \udcff")
    done = fleet.run("jobs", "cancel", "x")
    assert done.returncode == 1 and "There is no job 'x'" in done.stderr


async def test_only_a_job_that_ended_badly_can_be_retried(fleet: Fleet) -> None:
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a"))
        with pytest.raises(JobError, match="The job a is queued"):
            await jobs.retry("a")
        assert (await jobs.cancel("a"))[0].status == "cancelled"
        assert (await jobs.cancel("a"))[0].status == "cancelled"
        assert (await jobs.retry("a"))[0].status == "queued"


def test_a_database_that_is_neither_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'mysql://u:\*\*\*@h/d' is not known. Give sqlite:///FILE or postgresql://"):
        Jobs("mysql://u:secret@h/d")


async def test_a_database_may_have_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    async with Jobs(f"sqlite:///{folder / 'a %41 ü?b=#c.db'}") as jobs:
        await jobs.submit(Job(id="a", prompt="[]", workdir="/"))
        assert [result.id for result in await jobs.list()] == ["a"]
    assert {path.name.removesuffix("-wal").removesuffix("-shm") for path in folder.iterdir()} == {"a %41 ü?b=#c.db"}


async def test_a_database_that_does_not_answer_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.jobs.jobs_client.PATIENCE", 0.2)
    jobs = Jobs("postgresql://user:secret@127.0.0.1:1/none")
    with pytest.raises(DatabaseUnavailable, match=r"postgresql://user:\*\*\*@127.0.0.1:1/none cannot be reached"):
        await jobs.open()
    await jobs.close()


async def test_a_file_that_is_not_a_database_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").write_text("not a database at all, but long enough to look at" * 100)
    jobs = Jobs(f"sqlite:///{tmp_path / 'jobs.db'}")
    with pytest.raises(ConfigError, match=r"cannot be used as a database: file is not a database\. Give another file\.$"):
        await jobs.open()
    await jobs.close()


async def test_nothing_advises_to_remove_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unable to open .*\. Check that the file and its directory can be written, or give"):
        await Jobs(f"sqlite:///{tmp_path}").open()


async def test_a_full_disk_is_named_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")  # what SQLite says if there is no space for its shared memory

    database = Database(DatabaseUrl(f"sqlite:///{tmp_path}/jobs.db"), patience=0.2)
    with monkeypatch.context() as patch:
        patch.setattr("sqlite3.connect", connect)
        with pytest.raises(DatabaseUnavailable, match=r"disk I/O error\. Check that its disk has space"):
            await database.create_tables()
    await database.create_tables()
    await database.close()


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("postgresql://u:se@cr:et@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u@h/d?a=b&password=secret&c=d", "postgresql://u@h/d?a=b&password=***&c=d"),
        ("postgresql://u@h/d?password=secret", "postgresql://u@h/d?password=***"),
        ("postgresql://u@h:1/d", "postgresql://u@h:1/d"),
    ],
)
def test_no_form_of_an_address_shows_its_password(url: str, text: str) -> None:
    assert hide_password(url) == text


async def test_closing_does_not_wait_for_a_database_that_is_away() -> None:
    database = Database(DatabaseUrl("postgresql://user@127.0.0.1:1/none"), patience=None)
    waiting = asyncio.create_task(database.rows("SELECT 1"))
    await asyncio.sleep(0.3)
    await asyncio.wait_for(database.close(), 10)
    with pytest.raises(DatabaseUnavailable):
        await waiting


async def test_a_database_that_permits_no_tables_is_an_error(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "other.db")
    connection.execute("CREATE VIEW fairlead_jobs AS SELECT 1")
    connection.close()
    with pytest.raises(ConfigError, match=r"other.db cannot be used: views may not be indexed"):
        await Jobs(f"sqlite:///{tmp_path}/other.db").open()


async def test_a_database_of_a_newer_fairlead_is_refused_and_left_alone(tmp_path: Path) -> None:
    async with Jobs(f"sqlite:///{tmp_path}/jobs.db") as jobs:
        await jobs.limit("key", rate=1)  # which creates the tables of DBOS
    file = tmp_path / "jobs.db"
    versions = {"fairlead_schema": TABLES_VERSION, "dbos_migrations": DBOS_VERSION}
    newer: list[tuple[str, int | str]] = [(table, known + 1) for table, known in versions.items()]
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        for table, version in (*newer, ("fairlead_schema", "later")):
            assert connection.execute(f"SELECT version FROM {table}").fetchall() == [(versions[table],)]
            connection.execute(f"UPDATE {table} SET version = ?", (version,))
            connection.execute("DROP TABLE IF EXISTS fairlead_workers")
            with pytest.raises(
                ConfigError, match=rf"newer fairlead .*: {table} has the version {version!r}, .*Update fairlead\."
            ):
                async with Jobs(f"sqlite:///{file}"):
                    pass
            found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'fairlead_workers'").fetchall()
            assert not found, "nothing was created"
            connection.execute(f"UPDATE {table} SET version = ?", (versions[table],))
    async with Jobs(f"sqlite:///{file}") as jobs:
        assert await jobs.list() == []


async def test_a_database_without_a_version_is_accepted_and_gets_one(tmp_path: Path) -> None:
    async with Jobs(f"sqlite:///{tmp_path}/jobs.db") as jobs:
        await jobs.submit(Job(id="kept", prompt="[]", workdir="/"))
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
        connection.execute("DROP TABLE fairlead_schema")
        async with Jobs(f"sqlite:///{tmp_path}/jobs.db") as jobs:
            assert [job.id for job in await jobs.list()] == ["kept"]
        assert connection.execute("SELECT version FROM fairlead_schema").fetchall() == [(TABLES_VERSION,)]


async def test_a_full_disk_is_waited_for(tmp_path: Path) -> None:
    database = Database(DatabaseUrl(f"sqlite:///{tmp_path}/jobs.db"), patience=None)
    await database.create_tables()
    await database.rows("PRAGMA max_page_count = 1")  # of this connection; the next attempt has another one
    row = ("a", 1, "x" * 100_000)
    assert await database.run("INSERT INTO fairlead_job_events (job, number, data) VALUES (?, ?, ?)", row) == 1
    await database.close()


def test_without_a_database_the_command_says_how_to_give_one(fleet: Fleet) -> None:
    done = fleet.run("jobs", "list", env={"FAIRLEAD_JOBS_DB": ""})
    assert done.returncode == 2 and "--db sqlite:///jobs.db" in done.stderr


@pytest.mark.parametrize("words", [["list"], ["watch"], ["cancel", "a"], ["retry", "a"], ["export", "results"]])
def test_a_database_that_does_not_exist_is_an_error_and_is_not_created(fleet: Fleet, words: list[str]) -> None:
    file = fleet.root / "mistyped.db"
    done = fleet.run("jobs", *words, env={"FAIRLEAD_JOBS_DB": f"sqlite:///{file}"})
    assert done.returncode == 1 and f"The database {file} does not exist." in done.stderr
    assert not file.exists()


def test_without_the_extra_the_command_says_how_to_install_it(fleet: Fleet) -> None:
    hidden = fleet.root / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys\nsys.modules['dbos'] = None\n")
    (fleet.root / "tasks.jsonl").write_text(task())
    done = fleet.run("jobs", "submit", "tasks.jsonl", env={"PYTHONPATH": str(hidden)})
    assert done.returncode == 1 and "fairlead.jobs needs dbos. This installs it: " in done.stderr


@pytest.mark.parametrize("words", [["jobs"], ["jobs", "frobnicate"], ["jobs", "submit"], ["jobs", "cancel"], ["jobs", "export"]])
def test_an_incomplete_command_line_is_explained(fleet: Fleet, words: list[str]) -> None:
    done = fleet.run(*words)
    assert done.returncode == 2 and "usage:" in done.stderr


def test_a_worker_that_cannot_write_to_its_directory_does_not_start(fleet: Fleet) -> None:
    (fleet.root / "file").touch()
    done = fleet.run("worker", "--data", str(fleet.root / "file" / "data"))
    assert done.returncode == 1 and "cannot be written" in done.stderr and "--data" in done.stderr


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--approval", "bogus"], "--approval: expected auto or write or ask or deny, got 'bogus'"),
        (["--sandbox", "bogus"], "--sandbox: expected off or workspace, got 'bogus'"),
        (["--tools", "read,+task"], "--tools: tool names cannot be mixed with"),
        (["--model", "test/no-such", "--provider", "elsewhere"], "elsewhere"),
        (["--model", "no-such"], 'Model "no-such" not found.'),
    ],
)
def test_a_worker_with_a_wrong_flag_does_not_start(fleet: Fleet, words: list[str], problem: str) -> None:
    done = fleet.run("worker", *words)
    assert done.returncode in (1, 2) and done.stdout == "" and problem in done.stderr


def test_a_worker_says_which_of_its_tools_do_not_exist(fleet: Fleet) -> None:
    fleet.start_worker("--tools", "read,bogus").stop()
    assert "fairlead: Unknown tools, left out: bogus. The tools are: read" in (fleet.root / "worker.log").read_text()


# One job, from the command line


def test_a_prompt_is_submitted_followed_and_shown(fleet: Fleet) -> None:
    fleet.start_worker("--model", MODEL)
    prompt = json.dumps([["printf", "one\\ntwo"]])
    done = fleet.run("jobs", "submit", "--prompt", prompt, "--workdir", str(fleet.workdir))
    found = re.match(r"Submitted (job-[0-9a-f]{8})\. `fairlead jobs logs \1` follows it\.\n$", done.stdout)
    assert found is not None, done
    logs = fleet.run("jobs", "logs", found[1])
    assert logs.returncode == 0 and logs.stdout.startswith("- Started by ") and f"> {prompt}\n" in logs.stdout, logs
    assert logs.stdout.endswith("The job is done.\n")
    events = [json.loads(line) for line in fleet.run("jobs", "logs", found[1], "--json").stdout.splitlines()]
    assert [event["number"] for event in events] == list(range(1, len(events) + 1)) and events[-1]["type"] == "done"
    shown = fleet.run("jobs", "show", found[1]).stdout
    assert re.search(r"^status +done$", shown, re.MULTILINE) and "\nAnswer:\n" in shown
    assert json.loads(fleet.run("jobs", "show", "--json", found[1]).stdout)["status"] == "done"


def test_a_prompt_works_in_the_current_directory_unless_flags_say_otherwise(fleet: Fleet) -> None:
    assert fleet.run("jobs", "submit", "--prompt", "p", "--id", "mine").returncode == 0
    assert "Submitted mine." in fleet.run("jobs", "submit", "--prompt", "p", "--id", "mine").stdout
    assert fleet.run("jobs", "submit", "--prompt", "another", "--id", "mine").returncode == 1
    shown = fleet.run("jobs", "show", "mine").stdout
    assert re.search(r"^status +queued$", shown, re.MULTILINE) and "Answer" not in shown


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["submit"], "takes one file of tasks"),
        (["submit", "--prompt", "p", "tasks.jsonl"], "not both"),
        (["submit", "--model", "m", "tasks.jsonl"], "--model needs --prompt"),
        (["submit", "--prompt", " "], "prompt: it is empty"),
        (["submit", "--prompt", "p", "--workdir", "/w", "--repo", "/r", "--commit", "c"], "contradict each other"),
        (["list", "--prompt", "p"], "--prompt is for fairlead jobs submit"),
        (["show"], "the id of one job"),
        (["logs", "a", "b"], "the id of one job"),
    ],
)
def test_a_bad_command_line_is_explained_and_nothing_is_submitted(fleet: Fleet, words: list[str], problem: str) -> None:
    (fleet.root / "tasks.jsonl").write_text(task())
    done = fleet.run("jobs", *words)
    assert done.returncode in (1, 2) and problem in done.stderr, done
    assert fleet.run("jobs", "list", "--json").stdout == ""


def test_logs_of_an_unknown_job_are_an_error(fleet: Fleet) -> None:
    fleet.run("jobs", "submit", "--prompt", "p")
    for action in ("show", "logs"):
        done = fleet.run("jobs", action, "x")
        assert done.returncode == 1 and "There is no job 'x'" in done.stderr
