"""The benchmark itself works; how fast anything is, no test says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from bench import w1_peers, w12_page
from bench.measurement import Report
from bench.peers.environment import PEERS, Peer

from tests.support.servers import url_of

_ROOT = Path(__file__).parents[1]
_W12 = pytest.param("W12", marks=pytest.mark.skipif(bool(w12_page.missing()), reason=w12_page.missing()))


def measure(workload: str) -> Report:
    """Run the small size of a workload as a user does, and return what it wrote."""
    argv = [sys.executable, "-m", "bench", "--quick", workload]
    done = subprocess.run(argv, cwd=_ROOT, capture_output=True, text=True, check=True)
    path = Path(done.stdout.splitlines()[-1].removeprefix("written to "))
    report = msgspec.json.decode(path.read_bytes(), type=Report)
    path.unlink()
    return report


@pytest.mark.parametrize("workload", ["W2", "W3", "W4", "W5", "W6", "W7", "W9", "W10", "W11", _W12, "W13"])
def test_every_workload_that_needs_no_agent_can_be_measured(workload: str) -> None:
    """Who changes what a workload uses hears of it."""
    assert {figure.workload for figure in measure(workload).figures} == {workload}


def test_the_benchmark_writes_its_figures_as_json_and_says_where() -> None:
    """`python -m bench --quick W1` ends well, and its last line leads to figures with units and bounds."""
    report = measure("W1")
    assert report.quick
    assert {figure.workload for figure in report.figures} == {"W1"}
    assert {"tasks/s", "x", "MB", "bytes"} <= {figure.unit for figure in report.figures}
    assert any(figure.bound is not None for figure in report.figures)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_peer_does_the_same_tasks_in_the_same_server(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its figures and ours come from one run, and the ratio has a bound. No test installs a peer."""
    if not peer.is_installed:
        pytest.skip(f"{peer.version} is not installed; `python -m bench --peers --store URL` does that")
    monkeypatch.setenv(
        "HOLDFAST_BENCH_STORE", url_of({"postgres": "postgresql"}.get(peer.server, peer.server))
    )
    assert peer.name in w1_peers.names()
    figures = w1_peers.workloads()[peer.name](quick=True)
    assert {figure.unit for figure in figures} == {"tasks/s", "x"}
    assert [figure.bound for figure in figures if figure.bound is not None] == [3]


def test_a_peer_that_cannot_be_installed_is_skipped_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other figures are measured all the same. What an installation left behind counts for nothing."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    peer = Peer("Nobody", "no.module", "redis", ("holdfast-no-such-peer==1.0",), tmp_path)
    assert "Nobody 1.0 cannot be installed" in peer.install()
    assert not peer.is_installed


def test_peers_without_a_server_are_refused() -> None:
    """They are measured in the server that `--store` names."""
    argv = [sys.executable, "-m", "bench", "--quick", "W7", "--peers"]
    done = subprocess.run(argv, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--peers needs --store" in done.stderr
