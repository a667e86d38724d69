"""W9: what a sandbox adds to a launch, at each level, beside the same launch without one."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import closing
from pathlib import Path
from statistics import median

from bench.measurement import Figure, scratch
from bench.project import generate_repository
from holdfast.core.status import NetworkAccess, SandboxLevel, SandboxMechanism
from holdfast.fleet.local import LocalFleet
from holdfast.fleet.protocol import LaunchKey, LaunchSpec, ResourceBounds, SandboxPolicy
from holdfast.process.landlock import landlock_obstacle
from holdfast.process.sandbox import BY_VARIABLE, probe_sandbox
from holdfast.repo.repository import Repository
from holdfast.runner.sandbox import Sandbox
from holdfast.runner.sandbox_setting import SandboxSetting

_RUN = "01-bench"
_MOST_MS = 30.0
_SETTINGS = {
    "workspace": SandboxSetting(SandboxLevel.WORKSPACE),
    "workspace by Landlock": SandboxSetting(SandboxLevel.WORKSPACE, by=SandboxMechanism.LANDLOCK),
    "strict": SandboxSetting(SandboxLevel.STRICT, NetworkAccess.ALLOW),
}


def missing() -> str:
    """Return why this cannot be measured here, or an empty string."""
    return probe_sandbox(closed_network=True).obstacle or landlock_obstacle()


def measure(*, quick: bool) -> list[Figure]:
    """Launch `/bin/true` in turn without and with each level, so that other work on the machine slows all equally."""
    rounds = 5 if quick else 60
    with scratch() as folder:
        generate_repository(folder / "repo", 20, 0)
        repo = Repository.open(folder / "repo")
        work = repo.state_dir.run(_RUN).workspaces / "0"
        work.mkdir(parents=True)
        policies = {"without": None, **{name: _policy(repo, work, one) for name, one in _SETTINGS.items()}}
        with closing(LocalFleet(repo.state_dir)) as fleet:
            taken = asyncio.run(_rounds(fleet, work, policies, rounds))
    bare = taken["without"]
    return [
        Figure("W9", "launch without a sandbox", bare, "ms", note="from the request until its end is known"),
        *(
            Figure("W9", f"what the level {name} adds", taken[name] - bare, "ms", bound=_MOST_MS, sense="<=")
            for name in _SETTINGS
        ),
    ]


def _policy(repo: Repository, work: Path, setting: SandboxSetting) -> SandboxPolicy:
    sandbox = Sandbox(repo, repo.state_dir.run(_RUN), setting, repo.resolve("HEAD"), ("example.com",))
    return sandbox.policy(work, ("/bin/true",), dict(os.environ))


async def _rounds(
    fleet: LocalFleet, work: Path, policies: dict[str, SandboxPolicy | None], rounds: int
) -> dict[str, float]:
    """Return the median time of a launch for each policy, in milliseconds. The first round is not counted."""
    taken: dict[str, list[float]] = {name: [] for name in policies}
    for number in range(rounds + 1):
        for name, policy in policies.items():
            bounds = ResourceBounds(pids=4096) if policy else ResourceBounds()
            os.environ[BY_VARIABLE] = _SETTINGS[name].by if policy else ""
            spec = LaunchSpec(
                LaunchKey(_RUN, name, number + 1, "agent"),
                ("/bin/true",),
                work,
                env=dict(os.environ),
                sandbox=policy,
                bounds=bounds,
            )
            began = time.perf_counter()
            await fleet.launch(spec)
            ended = (await fleet.wait(spec.key)).exit
            taken[name].append((time.perf_counter() - began) * 1000)
            assert ended is not None
            assert ended.code == 0
    return {name: median(times[1:]) for name, times in taken.items()}
