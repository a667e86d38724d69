"""The API against its own description: every answer has the shape that it promises, whatever is asked."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from holdfast.web.access import Site
from holdfast.web.api_description import openapi
from holdfast.web.app import API, ENDPOINTS
from holdfast.web.dashboard import Dashboard
from holdfast.web.metrics import METRICS
from holdfast.web.repositories import ServedRepositories
from tests.support.command import Cli
from tests.web.server import DashboardProcess

DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana-dashboard.json"
DESCRIPTION = openapi(ENDPOINTS, API)
STREAMS = [API + row.path for row in ENDPOINTS if row.messages]
CHECKS = (content_type_conformance, response_schema_conformance, status_code_conformance, unsupported_method)
load_all_checks()
SCHEMA = schemathesis.openapi.from_dict(DESCRIPTION).exclude(path=STREAMS)


def _validator(schema: Any) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({**schema, "components": DESCRIPTION["components"]})


@SCHEMA.parametrize()
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_odd_requests_are_answered_as_described(
    case: schemathesis.Case[Any], server: DashboardProcess
) -> None:
    """Schemathesis makes requests that fit the description, and some that do not."""
    case.call_and_validate(
        base_url=server.base, headers={"authorization": f"Bearer {server.token}"}, checks=list(CHECKS)
    )


@pytest.mark.parametrize("row", [row for row in ENDPOINTS if row.method == "GET"], ids=lambda row: row.path)
def test_real_answers_have_the_shape_that_is_described(
    row: Any, server: DashboardProcess, rested_run: str
) -> None:
    """Of a real run, not only of errors; of a stream, its first message."""
    path = row.path.format(repository="p", run=rested_run, task="a")
    shape = DESCRIPTION["paths"][API + row.path]["get"]["responses"]["200"]["content"]
    if row.messages:
        with server.stream(path) as stream:
            found = stream.next()
        _validator(shape["text/event-stream"]["schema"]["x-messages"][found.event]).validate(found.data)
    else:
        _validator(shape["application/json"]["schema"]).validate(server.get(path))


def test_the_description_is_served_and_names_every_endpoint(server: DashboardProcess) -> None:
    """What is served is what is tested here."""
    assert server.get("/openapi.json") == json.loads(json.dumps(DESCRIPTION))
    assert len({row.handler for row in ENDPOINTS}) == len(ENDPOINTS)


def test_the_page_and_the_command_line_show_the_same(
    server: DashboardProcess, rested: Cli, rested_run: str
) -> None:
    """The objects are those of `--json`."""
    path = server.run_path(rested_run)
    told = rested.json("status", rested_run)
    shown = server.get(path)["status"]
    assert {**shown, "metrics": None} == {**told, "metrics": None}
    assert server.get("/overview")["repositories"][0]["runs"] == rested.json("list")
    assert server.get(f"{path}/tasks/b")["history"] == rested.json("inspect", rested_run, "b")["tasks"][0]
    assert server.get(f"{path}/recap") == rested.json("recap", rested_run)
    assert server.get(f"{path}/review") == rested.json("review", rested_run)


def test_a_run_is_shown_as_it_was_at_each_event(server: DashboardProcess, rested_run: str) -> None:
    """Time travel: with every event the status is that of the events up to it."""
    path = server.run_path(rested_run)
    last = server.get(path)["last_seq"]
    shown = [server.get(f"{path}?at={seq}") for seq in range(1, last + 1)]
    assert [one["seq"] for one in shown] == list(range(1, last + 1))
    assert {one["last_seq"] for one in shown} == {last}
    landed = [one["status"]["metrics"]["completed"] for one in shown]
    assert (landed[0], landed[-1], landed) == (0, 1, sorted(landed))
    assert all(one["actions"] == [] for one in shown[:-1])
    for odd in ("0", str(last + 1)):
        assert server.client.get(f"{API}{path}?at={odd}").status_code == 404
    for odd in ("-1", "x", "٣", "1e3", "9" * 40):
        assert server.client.get(f"{API}{path}?at={odd}").status_code == 400


def test_checks_are_shown_with_what_they_printed(server: DashboardProcess, rested_run: str) -> None:
    """Of the attempt that landed, all passed."""
    found = server.get(f"{server.run_path(rested_run)}/tasks/a/checks")
    assert found["checks"] == [
        {"command": "echo checked; test -f a.js", "passed": True, "output": "checked\n"}
    ]


def test_figures_are_read_by_prometheus_and_named_by_the_dashboard(server: DashboardProcess) -> None:
    """Every line is a comment or a sample, and every panel asks for a figure that there is."""
    answer = server.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    sample = re.compile(r'(holdfast_\w+)\{(\w+="(\\.|[^"\\])*"(,|(?=\})))*\} -?\d+(\.\d+)?')
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    found = [sample.fullmatch(line) for line in lines]
    assert lines
    assert all(found)
    assert {one[1] for one in found if one} <= METRICS.keys()
    assert 'holdfast_tasks{repository="p",run="01-try-script-alert-1-script",status="completed"} 1' in lines


def test_the_grafana_dashboard_asks_only_for_figures_that_there_are() -> None:
    """A renamed figure would leave an empty panel."""
    board = json.loads(DASHBOARD.read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    named = {name for query in queries for name in re.findall(r"holdfast_\w+", query)}
    assert named == METRICS.keys()
    assert all(re.search(r"holdfast_\w+", query) for query in queries)


def test_the_overview_says_why_a_repository_cannot_be_read(tmp_path: Path) -> None:
    """The others are shown all the same."""
    broken, sound = Cli.of(tmp_path / "broken"), Cli.of(tmp_path / "sound")
    repositories = ServedRepositories([broken.here, sound.here, sound.here])
    dashboard = Dashboard(Site("127.0.0.1", 1, "t"), repositories)
    (broken.here / ".holdfast").mkdir()
    (broken.here / ".holdfast" / "journal.db").write_text("no journal")
    for part in dashboard.overview.parts:
        part.refresh()
    views = [part.view for part in dashboard.overview.parts]
    assert [view.id for view in views if view] == ["broken", "sound"]
    assert views[0]
    assert views[1]
    assert views[0].error
    assert views[1].error is None
