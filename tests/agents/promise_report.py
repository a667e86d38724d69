"""A plugin of pytest, for `make test-agents`: at the end it prints which promise each agent kept in what just ran.

The tests tell which agent and promise they are about in their reports, so it makes no difference which worker ran them.
"""

from __future__ import annotations

import pytest

from tests.agents.promise_table import JUST_RAN, WRITE, store, table, word_for
from tests.agents.real_agents import RealAgent

_ABOUT = "agent and promise"


def pytest_configure(config: pytest.Config) -> None:
    """Collect the reports where all of them arrive, which is no worker of pytest-xdist."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(PromiseReport(), "promise report")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the report of each test of a promise say whose it is."""
    for item in items:
        marker = item.get_closest_marker("promise")
        tested = item.callspec.params["agent"] if marker and isinstance(item, pytest.Function) else None
        if marker and isinstance(tested, RealAgent):
            item.user_properties.append((_ABOUT, [tested.name, marker.args[0].value]))


class PromiseReport:
    """How the tests of promises ended so far, by agent and promise."""

    def __init__(self) -> None:
        self._results: dict[str, dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the end of a test, or a failure before or after it."""
        about = dict(report.user_properties).get(_ABOUT)
        if isinstance(about, list) and (report.when == "call" or report.outcome != "passed"):
            agent, promise = about
            why = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else None
            self._results.setdefault(agent, {})[promise] = word_for(failed=report.failed, skipped_because=why)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table and leave it in a file."""
        store(JUST_RAN, self._results)
        terminalreporter.section("promises")
        terminalreporter.write(table(self._results))
        terminalreporter.write_line(f"also in {JUST_RAN}; `{WRITE}` takes it over into the page")
