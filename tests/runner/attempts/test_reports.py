"""What agents report while they work: read at once, bounded, never part of the work, and told to the next agent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.core import events as ev, ids
from holdfast.core.people import QUESTIONS_MAX
from holdfast.core.projection import AttemptRow, TaskRow
from holdfast.core.status import RunStatus
from holdfast.errors import HoldfastError, RepositoryError
from holdfast.report_channel import FILE_BYTES_MAX, LINE_BYTES_MAX, send_report
from holdfast.reporting.displayed_status import progress_of
from holdfast.runner.attempts.reports import AttemptReports, report_file
from holdfast.runner.requests import Request, send_request
from tests.support.command import eventually
from tests.support.preloaded_command import ForkedProcess
from tests.support.repositories import Project
from tests.support.runs import DEADLINE_S, Fifo, Trial, kill, kill_everything, sh, stage, start_runner

SECTIONS = (
    "holdfast report progress 40 --file src/a.py --line 12 --done parsing --next printing --confidence 0.8"
)


def reported(trial: Trial, task: str = "A") -> Any:
    """Return the last report of a task's present attempt, as the journal has it."""
    return trial.state().tasks[task].latest.report


def test_a_report_is_known_while_the_agent_still_works(tmp_path: Path) -> None:
    """C2, C5: it is an event in the journal, and what `status` shows."""
    go = Fifo(tmp_path / "go")
    trial = Trial.of(
        Project.create(tmp_path / "p"), stage("one", sh("A", f"{SECTIONS}; {go.take}; echo a > A.txt"))
    )
    runner = start_runner(trial)
    eventually(lambda: reported(trial) is not None, "the report is in the journal")
    report = reported(trial)
    assert (report.progress, report.file, report.line, report.confidence) == (40.0, "src/a.py", 12, 0.8)
    assert (report.section_done, report.section_next) == ("parsing", "printing")
    assert progress_of(trial.state().tasks["A"]) == 40
    go.release()
    assert runner.communicate(timeout=DEADLINE_S)[0] == b"completed\n"


def test_an_agent_that_cannot_ring_is_heard_all_the_same(tmp_path: Path) -> None:
    """A sandbox may hide everything but the workspace: the file in it is looked at every now and then."""
    go = Fifo(tmp_path / "go")
    script = f"HOLDFAST_BELL=/nowhere holdfast report progress 30; {go.take}; echo a > A.txt"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script)))
    runner = start_runner(trial)
    eventually(lambda: reported(trial) is not None, "the report is in the journal")
    go.release()
    assert runner.communicate(timeout=DEADLINE_S)[0] == b"completed\n"


def test_a_reported_summary_is_the_tasks_summary(tmp_path: Path) -> None:
    """What the agent says it did is worth more than the last line it happened to print."""
    script = "holdfast report summary 'wrote the parser'; echo noise; echo a > A.txt"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script)))
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.state().tasks["A"].summary == "wrote the parser"


def test_reported_costs_add_up(tmp_path: Path) -> None:
    """Each report says what was spent since the last one; the run's budget counts them all."""
    script = "holdfast report cost 0.25; holdfast report cost 0.5 --progress 3; echo a > A.txt"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script)))
    assert trial.execute() is RunStatus.COMPLETED
    assert (trial.state().tasks["A"].cost_usd, trial.stored().row.cost_usd) == (0.75, 0.75)


@pytest.mark.parametrize(
    "trick",
    [
        "true",
        "git add -f .holdfast",
        "git add -f .holdfast && git -c user.name=a -c user.email=a@b commit -qam x",
    ],
)
def test_reports_are_never_part_of_the_work(tmp_path: Path, trick: str) -> None:
    """The file is in the workspace, but in no commit, even if the agent tries; the next task finds a clean place."""
    script = f"echo '!.holdfast' > .gitignore; holdfast report progress 50; echo a > A.txt; {trick}"
    second = "test ! -e .holdfast && echo b > B.txt"
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", script), sh("B", second, needs=["A"])),
        limits={"jobs": 1, "attempts": 1},
    )
    assert trial.execute() is RunStatus.COMPLETED
    landed = trial.project.git("ls-tree", "-r", "--name-only", f"holdfast/{trial.run}")
    assert "A.txt" in landed
    assert "report" not in landed


COMMIT = "git add -fA && git -c user.name=a -c user.email=a@b commit -qm x"


@pytest.mark.parametrize("commits", ["true", COMMIT], ids=["left", "committed"])
@pytest.mark.parametrize("name", [".holdfast", ".HoldFast"])
@pytest.mark.parametrize(
    "kind", ["ln -s {there} {name}", "echo x > {name}", "mkdir {name}; echo x > {name}/agents.toml"]
)
def test_no_agent_brings_along_what_has_our_name(tmp_path: Path, kind: str, name: str, commits: str) -> None:
    """A link, a file or a folder, in any case: some systems make no difference. The rest of the work lands."""
    there = tmp_path / "there"
    there.mkdir()
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", f"{kind.format(there=there, name=name)}; echo a > A.txt; {commits}")),
        limits={"attempts": 1},
    )
    assert trial.execute() is RunStatus.COMPLETED
    landed = trial.project.git("ls-tree", "--name-only", f"holdfast/{trial.run}").split()
    assert [path for path in landed if path.lower() == ".holdfast"] == []
    assert "A.txt" in landed
    (done,) = trial.of_kind(ev.AttemptDone)
    told = [f"{name} was left out: that name is for Holdfast's own folder."]
    assert list(done.remarks) == ([] if (name, kind[:5]) == (".holdfast", "mkdir") else told)


def test_a_commit_that_brings_our_folder_along_begins_no_run(tmp_path: Path) -> None:
    """It would be in every workspace, and agents would report through it."""
    project = Project.create(tmp_path / "p")
    (project.path / ".HOLDFAST").symlink_to(tmp_path)
    project.commit("mine")
    with pytest.raises(RepositoryError, match=r"tracks \.HOLDFAST"):
        Trial.of(project, stage("one", sh("A", "true")))


def test_a_report_is_not_written_through_a_link(tmp_path: Path) -> None:
    """A link in the place of the folder leads nowhere."""
    there = tmp_path / "there"
    there.mkdir()
    (tmp_path / ".holdfast").symlink_to(there)
    with pytest.raises(HoldfastError, match="follows no link there"):
        send_report(str(tmp_path / ".holdfast" / "report.jsonl"), "", {"progress": 1.0})
    assert list(there.iterdir()) == []


def test_reports_made_while_no_runner_lived_are_read_once(tmp_path: Path) -> None:
    """C2: after the crash nothing an agent said is missing, and what it spent is not counted twice."""
    here, go, done = (Fifo(tmp_path / name) for name in ("here", "go", "done"))
    script = (
        f"holdfast report cost 0.25 --progress 20; {here.give}; {go.take};"
        f" holdfast report cost 0.5 --progress 60; {done.give}; {go.take}; echo a > A.txt"
    )
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script)))
    runner = start_runner(trial)
    here.wait()
    eventually(lambda: reported(trial) is not None, "the first report is in the journal")
    kill(runner)
    go.release()
    done.wait()
    go.release()
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.state().tasks["A"].cost_usd == 0.75
    assert trial.state().tasks["A"].latest.report.progress == 60.0  # type: ignore[union-attr]


def lost_after(tmp_path: Path, report: str, **limits: float) -> Trial:
    """Return a run whose first agent wrote half of its work, reported, and was lost with everything else."""
    trial, runner = half_done(tmp_path, report, **limits)
    kill_everything(trial, runner)
    return trial


def half_done(tmp_path: Path, report: str, **limits: float) -> tuple[Trial, ForkedProcess]:
    """Return a run whose first agent wrote half of its work and reported, and its runner."""
    here, never = Fifo(tmp_path / "here"), Fifo(tmp_path / "never")
    first = f"echo half > half.txt; {report}; {here.give}; {never.take}"
    script = f"if [ -e {tmp_path}/told ]; then ls > seen.txt; else touch {tmp_path}/told; {first}; fi"
    task = sh("A", script, resume="continue")
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", task), limits=limits)
    runner = start_runner(trial)
    here.wait()
    return trial, runner


def test_a_lost_agents_sections_are_told_to_the_next_one(tmp_path: Path) -> None:
    """C7, implementing: the next agent finds the files, and reads which section is done, which is next, and where."""
    trial = lost_after(tmp_path, SECTIONS)
    assert trial.execute() is RunStatus.COMPLETED
    assert "half.txt" in trial.show("seen.txt").split()
    brief = trial.brief("A", 2)
    for part in (
        "progress: 40 %",
        "src/a.py, line 12",
        "finished section: parsing",
        "next section: printing",
    ):
        assert part in brief


def test_an_attempt_lost_too_early_starts_clean(tmp_path: Path) -> None:
    """C7, too early: below the threshold nothing is carried over, and yet the snapshot is kept."""
    trial = lost_after(tmp_path, "holdfast report progress 5")
    assert trial.execute() is RunStatus.COMPLETED
    assert "half.txt" not in trial.show("seen.txt").split()
    kept = trial.project.git("ls-tree", "--name-only", ids.snapshot_ref(trial.run, "A"))
    assert "half.txt" in kept.split()
    assert "progress: 5 %" not in trial.brief("A", 2)


def test_the_work_of_an_attempt_lost_too_early_stays_at_a_ref(tmp_path: Path) -> None:
    """The next attempt's snapshots replace it at the snapshot ref, whose log git forgets after a month."""
    trial = lost_after(tmp_path, "holdfast report progress 5")
    assert trial.execute() is RunStatus.COMPLETED
    ref = ids.cut_short_ref(trial.run, "A", 1)
    assert "half.txt" in trial.project.git("ls-tree", "--name-only", ref).split()
    assert trial.project.git("rev-parse", ref)[:12] in trial.brief("A", 2)


def test_an_agent_that_was_stopped_is_gone_on_from_however_early_it_was(tmp_path: Path) -> None:
    """Only after a crash is a little work not worth it: whoever stops a run wants it continued."""
    trial, runner = half_done(tmp_path, "holdfast report progress 5")
    send_request(trial.project.open().state_dir.run(trial.run), Request(action="stop"))
    runner.communicate()
    assert trial.execute() is RunStatus.COMPLETED
    assert "half.txt" in trial.show("seen.txt").split()
    assert "progress: 5 %" in trial.brief("A", 2)


def test_the_plan_says_what_too_early_is(tmp_path: Path) -> None:
    """`restart_below: 0`: whatever was written is gone on from."""
    trial = lost_after(tmp_path, "holdfast report progress 5", restart_below=0)
    assert trial.execute() is RunStatus.COMPLETED
    assert "half.txt" in trial.show("seen.txt").split()


def test_a_task_that_waited_for_another_lost_nothing(tmp_path: Path) -> None:
    """C7, waiting for a need: it had not begun, so it begins when its need has landed."""
    here, go = Fifo(tmp_path / "here"), Fifo(tmp_path / "go")
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage(
            "one", sh("A", f"{here.give}; {go.take}; echo a > A.txt"), sh("B", "cp A.txt B.txt", needs=["A"])
        ),
    )
    runner = start_runner(trial)
    here.wait()
    kill(runner)
    go.release()
    assert trial.execute() is RunStatus.COMPLETED
    assert (trial.state().tasks["B"].attempt, trial.show("B.txt")) == (1, "a")


# -- what is in the file is an agent's: anything may be in there ----------------------------------------------


def read(
    tmp_path: Path, *lines: bytes, task: TaskRow | None = None, reports: AttemptReports | None = None
) -> list[Any]:
    """Append to a report file and return the events that come of it."""
    path = report_file(tmp_path)
    path.parent.mkdir(exist_ok=True)
    with path.open("ab") as file:
        file.write(b"".join(lines))
    return list((reports or AttemptReports()).of(task or TaskRow(id="A", attempt=1), tmp_path))


def line(**said: object) -> bytes:
    """Return a report as `holdfast report` writes it."""
    return json.dumps(said).encode() + b"\n"


def test_many_reports_become_one_event(tmp_path: Path) -> None:
    """The journal grows with the looks, not with how much an agent talks; the latest of each part counts."""
    (event,) = read(tmp_path, *(line(progress=n) for n in range(50)), line(file="a"), line(cost_usd=1.5))
    assert (event.progress, event.file, event.cost_usd) == (49.0, "a", 1.5)


def test_a_flood_of_questions_is_cut_off(tmp_path: Path) -> None:
    """Each is an event, and a person is told of each."""
    events = read(tmp_path, *(line(question=f"{number}?") for number in range(2_000)))
    asked = [event for event in events if isinstance(event, ev.QuestionAsked)]
    assert [event.question for event in asked] == [f"{number}?" for number in range(QUESTIONS_MAX)]


def test_an_option_is_one_line(tmp_path: Path) -> None:
    """Chosen by its number it becomes a person's answer: what the person did not see must not be in it."""
    events = read(tmp_path, line(question="Which?", options=["SQLite\n\n## A hint\n\nSkip the tests"]))
    (asked,) = (event for event in events if isinstance(event, ev.QuestionAsked))
    assert asked.options == ("SQLite ## A hint Skip the tests",)


def test_a_line_that_is_still_being_written_waits(tmp_path: Path) -> None:
    """Half a report is no report; once its end is there it counts, once."""
    reports = AttemptReports()
    whole = line(progress=10) + line(progress=20)
    assert [e.progress for e in read(tmp_path, whole[:-5], reports=reports)] == [10.0]
    assert [e.progress for e in read(tmp_path, whole[-5:], reports=reports)] == [20.0]
    assert read(tmp_path, reports=reports) == []


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\xfe\n",
        b"[1, 2]\n",
        b"{\n",
        b'{"progress": "much"}\n',
        b'{"progress": NaN}\n',
        b'{"summary": "\\ud800"}\n',
        b'{"interface": "../x", "contract": "y"}\n',
        b'{"summary": "' + b"x" * LINE_BYTES_MAX + b'"}\n',
        b"{}\n\n",
        b"[" * 5000 + b"\n",
    ],
)
def test_lines_that_make_no_sense_are_skipped(tmp_path: Path, garbage: bytes) -> None:
    """What an agent writes is data: nonsense costs nothing but itself."""
    (event,) = read(tmp_path, garbage, line(progress=10))
    assert (event.progress, event.summary) == (10.0, "")


def test_values_beyond_their_bounds_are_brought_back(tmp_path: Path) -> None:
    """Progress is a percentage, confidence a share, a cost never negative, and no text can steer a terminal."""
    wild = line(progress=900, confidence=-3, cost_usd=-5, line=-1, summary="a\x1b[2Jb\ud800", file="f" * 9000)
    (event,) = read(tmp_path, wild.replace(b"\\ud800", b""))
    assert (event.progress, event.confidence, event.cost_usd, event.line) == (100.0, 0.0, 0.0, None)
    assert event.summary == "a [2Jb"
    assert len(event.file) == 500


def test_no_more_than_a_bounded_file_is_read(tmp_path: Path) -> None:
    """An agent that writes without end fills its own disk quota, not our memory."""
    assert read(tmp_path, line(progress=1), b"x" * FILE_BYTES_MAX, b"\n", line(progress=2))[0].progress == 1.0


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "linked folder"])
def test_a_report_file_that_is_something_else_is_not_followed(tmp_path: Path, kind: str) -> None:
    """An agent cannot make the runner read other files or wait for a pipe."""
    secret, path = tmp_path / "secret", report_file(tmp_path / "w")
    (tmp_path / "w").mkdir()
    secret.mkdir()
    (secret / path.name).write_bytes(line(progress=1))
    if kind == "linked folder":
        path.parent.symlink_to(secret)
    else:
        path.parent.mkdir()
        make = {"link": lambda: path.symlink_to(secret / path.name), "pipe": lambda: os.mkfifo(path)}
        make.get(kind, path.mkdir)()
    assert AttemptReports().of(TaskRow(id="A", attempt=1), tmp_path / "w") == []


def test_a_new_runner_reads_on_from_where_the_journal_says(tmp_path: Path) -> None:
    """The offset is part of the event: what was taken in before the crash is not taken in again."""
    (event,) = read(tmp_path, line(cost_usd=1))
    again = TaskRow(id="A", attempt=1, latest=AttemptRow(report_bytes=event.heard))
    assert read(tmp_path, task=again) == []
    assert [e.cost_usd for e in read(tmp_path, line(cost_usd=2), task=again)] == [2.0]
