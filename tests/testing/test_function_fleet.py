"""The stand-ins that ship with the product carry a real run."""

from __future__ import annotations

from pathlib import Path

import msgspec

from holdfast.core.status import RunStatus
from holdfast.fleet.protocol import LaunchSpec
from holdfast.plans.reader import parse_plan
from holdfast.repo.landing import branch_facts
from holdfast.runner.session import RunOptions, create_run, execute_run
from holdfast.testing import FunctionFleet, MemoryJournal
from tests.support.repositories import Project


def work(spec: LaunchSpec) -> int:
    """Write a file named after the task."""
    (spec.cwd / f"{spec.key.owner}.txt").write_text(spec.key.step)
    return 0


def test_a_whole_run_needs_no_process_and_no_journal_file(tmp_path: Path) -> None:
    """Functions as agents, a journal in memory, and real git: the landings are as real as ever."""
    repo = Project.create(tmp_path / "p").open()
    tasks = [{"id": f"T{n}", "prompt": "Write a file"} for n in range(5)]
    document = {
        "holdfast": 1,
        "goal": "Functions",
        "agent": "f",
        "agents": {"f": {"command": ["f"]}},
        "tasks": tasks,
    }
    plan = parse_plan(msgspec.json.encode(document), "plan.json", [])
    journal = MemoryJournal()
    run = create_run(repo, journal, plan, "plan.json")
    status = execute_run(repo, journal, run, RunOptions(), lambda events, state: None, FunctionFleet(work))
    assert status is RunStatus.COMPLETED
    row = journal.load(run).row
    assert sorted(at.task for at in branch_facts(repo, row.branch, row.base, run).landings) == [
        t["id"] for t in tasks
    ]
