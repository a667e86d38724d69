"""Records what real agents print: `python -m tests.agents.record AGENT[-CASE]…`, after an agent's version has changed.

Each case is one run against the scripted model. Standard output and standard error go to one file, as in an
attempt's log. Machine paths and ports are replaced, and what comes after the first lines is left out: an agent that
repeats itself until it is killed says nothing new. `streams/index.json` says how each run ended; `exit` is null where
the agent was killed after a minute.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.core.plan import AgentSpec
from tests.agents.real_agents import AGENTS, AIDER, CODEX, HERE, RealAgent
from tests.scripted_model import ModelFault, Script, ScriptedModel, Shell, Write

STREAMS = HERE / "streams"
PATIENCE_S = 60.0
LINES_MAX = 40
BRIEF = "# Task T1: Greet\n\nWrite greeting.txt.\n"
_PATCH = "*** Begin Patch\n*** Add File: greeting.txt\n+hello\n*** End Patch"
_WORK = Script((Write("greeting.txt", "hello\n"), Shell("cat greeting.txt")), say="Wrote greeting.txt.")


@dataclass(frozen=True, slots=True)
class RecordingCase:
    """One recording: what the model does, and the mode of the server."""

    served: str
    mode: str = "ok"
    script: Script = _WORK


CASES: Mapping[str, RecordingCase] = {
    "ok": RecordingCase("a file, a shell command, a text"),
    "failing-tool": RecordingCase(
        "a command that fails, then a text", script=Script((Shell("exit 3"),), say="It failed.")
    ),
    "no-tool": RecordingCase("a text and no tool call", script=Script(say="Nothing to do.")),
    "rate-limit": RecordingCase("429 to every request", "rate-limit"),
    "rate-limit-once": RecordingCase("429 to the first request, then as ok", "rate-limit-once"),
    "usage-limit": RecordingCase("429 that names a reset an hour ahead", "usage-limit"),
    "late-usage-limit": RecordingCase(
        "a file, then 429 that names a reset an hour ahead",
        script=replace(_WORK, fault=ModelFault.USAGE_LIMIT, after=1),
    ),
    "overflow": RecordingCase("the context is exceeded", "overflow"),
    "bad-key": RecordingCase("401", "bad-key"),
    "cut": RecordingCase("the connection is reset in the middle of every answer", "cut"),
    "eof": RecordingCase("every answer ends early and cleanly", "eof"),
}
_CODEX_ONLY: Mapping[str, RecordingCase] = {
    "patch": RecordingCase(
        "a patch, as Codex applies it itself, then a text",
        script=Script((Shell(f"apply_patch <<'EOF'\n{_PATCH}\nEOF"),), say="Patched."),
    )
}


def main(names: list[str]) -> None:
    """Record every case of the named agents, or one case: `codex` or `codex-patch`."""
    for agent in AGENTS.values():
        cases = {**CASES, **_CODEX_ONLY} if agent is CODEX else CASES
        for name, case in cases.items():
            if agent.name in names or f"{agent.name}-{name}" in names:
                print(agent.name, name, record_case(agent, name, case))


def record_case(agent: RealAgent, name: str, case: RecordingCase) -> dict[str, object]:
    """Record one case of an agent, and return how it ended."""
    # Not the folder for temporary files, which agents treat in ways of their own.
    root = Path(tempfile.mkdtemp(prefix="record-", dir=Path.home()))
    workspace, home = root / "workspace", root / "home"
    workspace.mkdir()
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    (root / "brief.md").write_text(BRIEF)
    started = time.time()
    with ScriptedModel(lambda _prompt: case.script) as model:
        code, output = run_agent(agent.spec(model.url(case.mode), home), workspace)
        places, requests = places_of(root, model), len(model.requests)
    file = f"{agent.name}-{name}.{'txt' if agent is AIDER else 'jsonl'}"
    shutil.rmtree(root, ignore_errors=True)
    entry: dict[str, object] = {"exit": code, "seconds": round(time.time() - started), "served": case.served}
    entry |= {"requests": requests, "started_at": int(started)}
    keep_recording(file, output, places, entry)
    return entry


def places_of(root: Path, model: ScriptedModel) -> dict[str, str]:
    """Return what of this machine is in a recording, and what is written in its place."""
    port = model.url().split(":")[2].split("/")[0]
    places = {str(root / "workspace"): "/workspace", str(root / "home"): "/home/user", str(HERE): "/agents"}
    return {**places, port: "8000", str(root): "/"}


def keep_recording(file: str, output: str, places: Mapping[str, str], entry: Mapping[str, object]) -> None:
    """Keep the first lines of an output, without the places, and how it came about."""
    lines = _scrubbed(output, places).splitlines(keepends=True)
    (STREAMS / file).write_text("".join(lines[:LINES_MAX]))
    _index(file, entry)


def run_agent(spec: AgentSpec, workspace: Path) -> tuple[int | None, str]:
    """Return the exit code, None when it had to be killed, and all that was printed."""
    brief = BRIEF if spec.prompt == "arg" else str(workspace.parent / "brief.md")
    argv = [word.replace("{brief}", brief).replace("{workspace}", str(workspace)) for word in spec.command]
    env = {"PATH": os.environ["PATH"], "TZ": "UTC", **spec.env}
    process = subprocess.Popen(
        argv,
        cwd=workspace,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return None, output.decode(errors="replace")
    return process.returncode, output.decode(errors="replace")


def _scrubbed(text: str, places: Mapping[str, str]) -> str:
    for place, neutral in places.items():
        text = re.sub(rf"(?<=127\.0\.0\.1:){place}" if place.isdigit() else re.escape(place), neutral, text)
    return text


def _index(file: str, entry: Mapping[str, object]) -> None:
    path = STREAMS / "index.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(dict(sorted({**known, file: entry}.items())), indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
