"""Runs the instances of a benchmark like SWE-bench on a fleet, and scores the patches.

    fairlead worker --db sqlite:///jobs.db --sessions 4 &
    python benchmark_harness.py instances.jsonl --db sqlite:///jobs.db --repos repos/ --out results/

An instance is a line of JSON, with the fields that SWE-bench has: `instance_id`, `repo`, `base_commit`, `problem_statement`,
`test_patch`, `FAIL_TO_PASS` and `PASS_TO_PASS`. The last two are lists of tests, also as JSON in a string. `repo` is a directory
in --repos, with `/` written as `__`, or an address that git can clone. If the run is interrupted, start it again: jobs that were
submitted continue, and those that are done stay done.

It writes `predictions.jsonl`, which other evaluators of SWE-bench read too, and `report.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from fairlead.jobs import Job, JobLimits, JobResult, Jobs

PROMPT = """\
Resolve this issue in the repository of the current directory. Change only what the issue needs, and do not change the tests.

{problem}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("instances", type=Path, help="a file of instances")
    parser.add_argument("--db", required=True, help="the database of the fleet")
    parser.add_argument("--repos", type=Path, default=Path("repos"), help="the directory of repositories")
    parser.add_argument("--out", type=Path, default=Path("results"), help="where to write predictions and the report")
    parser.add_argument("--model", help="the model; by default that of the workers")
    parser.add_argument("--key", help="the provider key whose limits apply")
    parser.add_argument("--turns", type=int, default=60, help="how many turns an instance may take")
    parser.add_argument("--cost", type=float, help="how many dollars an instance may cost")
    parser.add_argument("--tests", default="python -m pytest -q", help="the command that runs tests")
    options = parser.parse_args()
    instances = [json.loads(line) for line in options.instances.read_text().splitlines() if line.strip()]
    report = asyncio.run(run(instances, options))
    print(f"{len(report['resolved'])} of {len(instances)} resolved, ${report['cost']:.2f}")


async def run(instances: list[dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """Submit all instances, score each as soon as it has ended, and write the files."""
    options.out.mkdir(parents=True, exist_ok=True)
    by_id = {instance["instance_id"]: instance for instance in instances}
    report: dict[str, Any] = {"resolved": [], "unresolved": [], "failed": {}, "cost": 0.0}
    predictions: list[dict[str, Any]] = []
    async with Jobs(options.db) as jobs:
        await jobs.submit(*(job_of(instance, options) for instance in instances))
        async for result in jobs.results(list(by_id)):
            patch = await jobs.patch(result.id) or ""
            predictions.append({
                "instance_id": result.id, "model_name_or_path": options.model or "fairlead", "model_patch": patch
            })  # fmt: skip
            outcome = await asyncio.to_thread(score, by_id[result.id], result, patch, options)
            print(f"{result.id}: {outcome}", flush=True)
            report["cost"] += result.cost
            if outcome in ("resolved", "unresolved"):
                report[outcome].append(result.id)
            else:
                report["failed"][result.id] = outcome
    (options.out / "predictions.jsonl").write_text("".join(json.dumps(each) + "\n" for each in predictions))
    (options.out / "report.json").write_text(json.dumps(report, indent=2))
    return report


def job_of(instance: dict[str, Any], options: argparse.Namespace) -> Job:
    """Return the job of an instance: its issue as a prompt, in its repository at its commit."""
    return Job(
        id=instance["instance_id"],
        prompt=PROMPT.format(problem=instance["problem_statement"]),
        repo=repository(instance, options),
        commit=instance["base_commit"],
        model=options.model,
        key=options.key,
        limits=JobLimits(turns=options.turns, cost=options.cost),
        labels={"repo": instance["repo"]},
    )


def repository(instance: dict[str, Any], options: argparse.Namespace) -> str:
    local = options.repos / instance["repo"].replace("/", "__")
    return str(local.absolute()) if local.is_dir() else instance["repo"]


def score(instance: dict[str, Any], result: JobResult, patch: str, options: argparse.Namespace) -> str:
    """Apply a patch and the tests of the instance to a fresh checkout, and run the tests.

    Returns `resolved`, `unresolved`, or why there is nothing to score.
    """
    if result.status != "done":
        return f"{result.status}: {result.error}"
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "checkout"
        git(["clone", "--quiet", "--no-checkout", repository(instance, options), str(checkout)])
        git(["checkout", "--quiet", "--detach", instance["base_commit"]], checkout)
        for text in (patch, instance.get("test_patch", "")):
            if text and not git(["apply", "-"], checkout, input=text, check=False):
                return "the patch does not apply"
        wanted = [*tests_in(instance, "FAIL_TO_PASS"), *tests_in(instance, "PASS_TO_PASS")]
        command = [*shlex.split(options.tests), *wanted]
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=1800, check=False)
    return "resolved" if done.returncode == 0 else "unresolved"


def tests_in(instance: dict[str, Any], name: str) -> list[str]:
    value = instance.get(name, [])
    return json.loads(value) if isinstance(value, str) else value


def git(words: list[str], folder: Path | None = None, *, input: str = "", check: bool = True) -> bool:
    done = subprocess.run(["git", *words], cwd=folder, input=input, capture_output=True, text=True, check=check)
    return done.returncode == 0


if __name__ == "__main__":
    main()
