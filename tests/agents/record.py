"""Records what real agents print: `python -m tests.agents.record AGENT|AGENT-CASE|PATTERN…`, after a version has changed.

Each case is one run against the scripted model. Standard output and standard error go to one file, as in an
attempt's log. Machine paths and ports are replaced. Of an agent that had to be killed only the first lines are kept:
one that repeats itself says nothing new. `streams/index.json` says how each run ended; `exit` is null where the agent
was killed after a minute, or after two and a half where it needs longer.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from holdfast.core.brief import closing_rule
from holdfast.core.plan import AgentSpec
from tests.agents.acp_adapters import CLAUDE_AGENT_ACP, CODEX_ACP
from tests.agents.json_agents import CLINE, DROID, OPENHANDS, PI
from tests.agents.real_agents import AGENTS as OLDER, CODEX, HERE, RealAgent
from tests.agents.recordings import STREAMS, heard, preset_of, recorded_task
from tests.scripted_model import ModelFault, Script, ScriptedModel, Shell, Write

PATIENCE_S = 60.0
_LONGER_S: Mapping[str, float] = {"aider": 240.0, "cline": 150.0, "droid": 150.0, "openhands": 150.0}
"""These repeat a request for longer than a minute before they say why it failed."""
LINES_MAX = 400
LINES_OF_KILLED = 40
NEWER = (CLAUDE_AGENT_ACP, CODEX_ACP, CLINE, DROID, PI, OPENHANDS)
AGENTS = {**OLDER, **{agent.name: agent for agent in NEWER}}
_BRIEF = "# Task T1: Greet\n\nWrite greeting.txt.\n"
_PATCH = "*** Begin Patch\n*** Add File: greeting.txt\n+hello\n*** End Patch"
_WORK = Script((Write("greeting.txt", "hello\n"), Shell("cat greeting.txt")), say="Wrote greeting.txt.")
_NOISE = '"type":"session.background_tasks_changed"'  # Copilot writes it dozens of times, with nothing in it
_BUN_ROOT = "/$bunfs/root/"
"""Where a program made with Bun believes that its own files are, on every machine."""
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)*(?:-[\w.]+)?")


@dataclass(frozen=True, slots=True)
class RecordingCase:
    """One recording: what the model does, and the mode of the server. `resumed` is the home of the session to resume."""

    served: str
    mode: str = "ok"
    script: Script = _WORK
    resumed: str = ""


_SERVED: Mapping[ModelFault, str] = {
    ModelFault.RATE_LIMIT: "429 to every request",
    ModelFault.USAGE_LIMIT: "429 that names a reset an hour ahead",
    ModelFault.OVERFLOW: "the context is exceeded",
    ModelFault.BAD_KEY: "401",
    ModelFault.SERVER_ERROR: "500 to every request",
    ModelFault.REFUSED: "nobody listens at the port",
    ModelFault.NOT_FOUND: "404: the API is not there",
    ModelFault.BAD_MODEL: "404 or 400: the model is not there",
    ModelFault.NO_CREDIT: "the account has no credit left, in the provider's words",
    ModelFault.PAYMENT_REQUIRED: "402, as gateways say that there is no credit left",
    ModelFault.CUT: "the connection is reset in the middle of every answer",
    ModelFault.EOF: "every answer ends early and cleanly",
    ModelFault.REFUSAL: "the model begins and declines: a stop reason that says so",
}
_LATE = (
    ModelFault.RATE_LIMIT,
    ModelFault.USAGE_LIMIT,
    ModelFault.OVERFLOW,
    ModelFault.BAD_KEY,
    ModelFault.SERVER_ERROR,
    ModelFault.REFUSED,
    ModelFault.CUT,
    ModelFault.EOF,
    ModelFault.REFUSAL,
)
"""The faults that also come after the first tool call, when there is work that could land half-done."""


def _late(fault: ModelFault) -> RecordingCase:
    return RecordingCase(f"a file, then: {_SERVED[fault]}", script=replace(_WORK, fault=fault, after=1))


CASES: Mapping[str, RecordingCase] = {
    "ok": RecordingCase("a file, a shell command, a text"),
    "failing-tool": RecordingCase(
        "a command that fails, then a text", script=Script((Shell("exit 3"),), say="It failed.")
    ),
    "no-tool": RecordingCase("a text and no tool call", script=Script(say="Nothing to do.")),
    "rate-limit-once": RecordingCase("429 to the first request, then as ok", "rate-limit-once"),
    **{fault.value: RecordingCase(served, fault.value) for fault, served in _SERVED.items()},
    **{f"late-{fault}": _late(fault) for fault in _LATE},
}
_CODEX_ONLY: Mapping[str, RecordingCase] = {
    "patch": RecordingCase(
        "a patch, as Codex applies it itself, then a text",
        script=Script((Shell(f"apply_patch <<'EOF'\n{_PATCH}\nEOF"),), say="Patched."),
    )
}

_SESSIONS: Mapping[str, RecordingCase] = {
    "resumed": RecordingCase("after the work, its session resumed: a text", resumed="home"),
    "unknown-session": RecordingCase("nothing: the session to resume is of another home", resumed="other"),
}


def main(names: list[str]) -> int:
    """Record every case of the named agents, or those that are named: `codex`, `codex-patch`, `'*-late-cut'`."""
    chosen = [
        (agent, case) for agent in AGENTS.values() for case in _cases(agent) if _is_named(names, agent, case)
    ]
    if not chosen:
        print("usage: python -m tests.agents.record AGENT|AGENT-CASE|PATTERN…")
        print("agents:", *AGENTS)
        print("cases:", *CASES)
        return 2
    for agent, case in chosen:
        print(agent.name, case, agent.missing or record_case(agent, case, _cases(agent)[case]), flush=True)
    return 0


def _cases(agent: RealAgent) -> Mapping[str, RecordingCase]:
    more = {**(_CODEX_ONLY if agent is CODEX else {}), **(_SESSIONS if agent.resume else {})}
    return {**CASES, **more}


def _is_named(names: list[str], agent: RealAgent, case: str) -> bool:
    return agent.name in names or any(fnmatchcase(f"{agent.name}-{case}", name) for name in names)


def record_case(agent: RealAgent, name: str, case: RecordingCase) -> dict[str, object]:
    """Record one case of an agent, in a folder of its own. Return its row of the index."""
    with scratch_folder(_brief(agent)) as root, ScriptedModel(lambda _prompt: case.script) as model:
        return record_run(agent, name, case, root, model)


def record_run(
    agent: RealAgent, name: str, case: RecordingCase, root: Path, model: ScriptedModel
) -> dict[str, object]:
    """Record one run of an agent in a scratch folder, and how it ended. Return its row of the index."""
    workspace, home, before = root / "workspace", root / "home", len(model.requests)
    spec = agent.spec(model.url(case.mode), home)
    if case.resumed:
        first = agent.spec(model.url(), root / case.resumed)
        spec = agent.resuming(spec, _session(agent, first, workspace))
    version, started = _version(agent, spec, workspace), time.time()
    code = _run(spec, workspace, root / "output", _LONGER_S.get(agent.name, PATIENCE_S))
    entry: dict[str, object] = {"agent": preset_of(agent.name), "case": name, "version": version}
    entry |= {"exit": code, "seconds": round(time.time() - started), "served": case.served}
    entry |= {"requests": len(model.requests) - before, "started_at": int(started)}
    places = {str(workspace): "/workspace", str(home): "/home/user", str(HERE): "/agents", str(root): "/"}
    # Some name a folder of their own after the workspace.
    places |= {sys.base_prefix: "/python", re.sub(r"[^A-Za-z0-9]", "-", str(workspace)): "-workspace"}
    # Without the mode, whose name would tell a reader what it should find out.
    places |= {model.url(case.mode): "http://127.0.0.1:8000"}
    places |= {url.split(":")[2].split("/")[0]: "8000" for url in (model.url(), model.url("refused"))}
    output = (root / "output").read_bytes().decode(errors="replace")
    file = f"{agent.name}-{name}.{'txt' if agent.plain else 'jsonl'}"
    (STREAMS / file).write_text("".join(_kept(_scrubbed(output, places), code)))
    _index(file, entry)
    return entry


def _brief(agent: RealAgent) -> str:
    """Return the brief of an agent, with the rule about its end that a run's brief would have."""
    rule = closing_rule(recorded_task(preset_of(agent.name)))
    return f"{_BRIEF}\n{rule}\n" if rule else _BRIEF


def _session(agent: RealAgent, spec: AgentSpec, workspace: Path) -> str:
    """Return the session of a run that is not recorded itself."""
    output = workspace.parent / "first"
    _run(spec, workspace, output)
    return heard(output.read_bytes(), preset_of(agent.name)).session


@contextmanager
def scratch_folder(brief: str = _BRIEF) -> Iterator[Path]:
    """Yield a folder with a repository and the brief, not below that for temporary files, which agents treat in ways of their own."""
    root = Path(tempfile.mkdtemp(prefix="record-", dir=Path.home()))
    subprocess.run(["git", "init", "-q", str(root / "workspace")], check=True)
    (root / "brief.md").write_text(brief)
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _run(spec: AgentSpec, workspace: Path, output: Path, patience_s: float = PATIENCE_S) -> int | None:
    """Return the exit code, None when it had to be killed. What it printed is in `output`."""
    brief = workspace.parent / "brief.md"
    given_brief = brief.read_text() if spec.prompt == "arg" else str(brief)
    argv = [
        word.replace("{brief}", given_brief).replace("{workspace}", str(workspace)) for word in spec.command
    ]
    # A file, not a pipe: what an agent leaves running in the background would hold that open.
    given = brief if spec.prompt == "stdin" else Path(os.devnull)
    with output.open("wb") as printed, given.open("rb") as stdin:
        process = subprocess.Popen(
            argv,
            cwd=workspace,
            env=_env(spec),
            stdin=stdin,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(patience_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None


def _env(spec: AgentSpec) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "TZ": "UTC", **spec.env}


def _version(agent: RealAgent, spec: AgentSpec, workspace: Path) -> str:
    """Return what the agent says its version is, or an empty string."""
    done = subprocess.run(
        [str(agent.program), "--version"],
        cwd=workspace,
        env=_env(spec),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    found = _VERSION.search(done.stdout + done.stderr)
    return found[0] if found else ""


def _kept(text: str, code: int | None) -> list[str]:
    lines = [line for line in text.splitlines(keepends=True) if _NOISE not in line]
    if code is None:
        return lines[:LINES_OF_KILLED]
    if len(lines) > LINES_MAX:
        raise ValueError(
            f"an agent printed {len(lines)} lines; the end is what counts, so none can be left out"
        )
    return lines


def _scrubbed(text: str, places: Mapping[str, str]) -> str:
    text = text.replace(_BUN_ROOT, "/")
    for place, neutral in places.items():
        text = re.sub(rf"(?<=:){place}\b" if place.isdigit() else re.escape(place), neutral, text)
    return text


def _index(file: str, entry: Mapping[str, object]) -> None:
    path = STREAMS / "index.json"
    with path.open("r+") as index:
        fcntl.flock(index, fcntl.LOCK_EX)  # several may record at once
        known = json.load(index)
        index.seek(0)
        index.write(json.dumps(dict(sorted({**known, file: dict(entry)}.items())), indent=2) + "\n")
        index.truncate()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
