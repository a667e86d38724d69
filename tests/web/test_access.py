"""Attacks on the server: another site, another name, no token, on every route and method; and what each answer says."""

from __future__ import annotations

import http.client
import re
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from holdfast.web.access import CSP, Site, is_public
from holdfast.web.app import routes
from tests.support.command import Cli, eventually, writes
from tests.web.conftest import SCRIPT
from tests.web.server import API, DashboardProcess, serving

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "ANYTHING")
PLACES = {"repository": "p", "run": "01-try-it", "task": "a", "name": "x.js", "rest": "p/01"}
PATHS = [re.sub(r"{(\w+)(?::path)?}", lambda found: PLACES[found[1]], route.path) for route in routes()]
UNKNOWN = ["/api/v1/nothing", "/nothing", "/api", "/.env", "/api/v1/repositories/p/runs/01-try-it/terminal"]
LOOKS = ("GET", "HEAD")
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


@pytest.fixture(scope="module")
def stranger(server: DashboardProcess) -> Iterator[httpx.Client]:
    """Somebody without the token."""
    with server.stranger() as client:
        yield client


def _ask(client: httpx.Client, method: str, path: str, **more: object) -> httpx.Response:
    """Ask for something and read only the beginning: streams never end."""
    with client.stream(method, path, **more) as answer:  # type: ignore[arg-type]
        if "event-stream" not in answer.headers.get("content-type", ""):
            answer.read()
        return answer


@pytest.mark.parametrize("path", [*PATHS, *UNKNOWN])
@pytest.mark.parametrize("method", METHODS)
def test_without_the_token_every_route_and_method_is_refused(
    stranger: httpx.Client, path: str, method: str
) -> None:
    """Also those that there are not, and those that are added: the list is the application's own."""
    if is_public(method, path):
        pytest.skip("the page itself, which holds nothing of the user's")
    assert _ask(stranger, method, path).status_code == 401


@pytest.mark.parametrize("method", METHODS)
def test_only_the_page_its_files_and_the_sign_in_are_public(method: str) -> None:
    """What needs no token is said here once more, apart from the code."""
    public = {path for path in [*PATHS, *UNKNOWN] if is_public(method, path)}
    looked_at = {"/", "/r/p/01", "/new/p/01", "/static/x.js"} if method in LOOKS else set()
    assert public == looked_at | ({"/session"} if method == "POST" else set())


@pytest.mark.parametrize("token", ["wrong", "x" * 43])
def test_a_wrong_token_is_no_token(server: DashboardProcess, stranger: httpx.Client, token: str) -> None:
    """As a header and as a cookie, and one that only begins right."""
    headers = [{"authorization": f"Bearer {token}"}, {"cookie": f"holdfast_{server.port}={token}"}]
    headers += [{"authorization": f"Bearer {server.token[:-1]}"}, {"authorization": f"Basic {server.token}"}]
    headers += [{"cookie": f"holdfast_1={server.token}"}]
    for one in headers:
        assert _ask(stranger, "GET", f"{API}/overview", headers=one).status_code == 401


@pytest.mark.parametrize("path", [*PATHS, *UNKNOWN])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS", "DELETE"])
def test_every_answer_says_what_a_browser_may_do_with_it(
    server: DashboardProcess, path: str, method: str
) -> None:
    """Also refusals, streams, and answers to odd methods."""
    answer = _ask(server.client, method, path)
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    assert answer.headers["cache-control"] in ("no-store", "no-cache")
    if answer.status_code >= 400 and method != "HEAD":
        assert answer.headers["content-type"] == "application/json"
        assert set(answer.json()) == {"error", "hint"}


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", "localhost", "[::2]:{port}", "127.0.0.1.evil.example:{port}", "localhost:{port}@evil.example", "127.0.0.2:{port}", ""])  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/static/app.js", f"{API}/overview", f"{API}/stream", "/session"])
def test_a_name_that_is_not_ours_gets_nothing(server: DashboardProcess, path: str, host: str) -> None:
    """A page whose name was made to lead to this machine (DNS rebinding) sends its own name, even with the token."""
    answer = _ask(server.client, "GET", path, headers={"host": host.format(port=server.port)})
    assert answer.status_code in (400, 403)


def test_two_hosts_are_none(server: DashboardProcess) -> None:
    """One for us and one for who stands between."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
        connection.putrequest("GET", f"{API}/overview", skip_host=True)
        for host in (f"127.0.0.1:{server.port}", "evil.example"):
            connection.putheader("Host", host)
        connection.putheader("Authorization", f"Bearer {server.token}")
        connection.endheaders()
        assert connection.getresponse().status in (400, 403)


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"])
def test_our_own_names_are_answered(server: DashboardProcess, host: str) -> None:
    """However somebody spells this machine."""
    headers = {"host": host.format(port=server.port)}
    assert _ask(server.client, "GET", f"{API}/overview", headers=headers).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1", "https://127.0.0.1:{port}", "http://127.0.0.1:{port}.evil.example", ""])  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_a_request_of_another_page_is_refused(server: DashboardProcess, origin: str, method: str) -> None:
    """Whatever its method, and even with the cookie: another port of this machine is another page."""
    headers = {"origin": origin.format(port=server.port), "cookie": f"holdfast_{server.port}={server.token}"}
    assert _ask(server.client, method, f"{API}/overview", headers=headers).status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "odd"])
def test_a_request_that_a_browser_calls_foreign_is_refused(server: DashboardProcess, site: str) -> None:
    """A picture or a form of another page sends no Origin, but the browser says where it came from."""
    headers = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
    for path in (f"{API}/overview", f"{API}/stream", "/", "/static/app.js"):
        assert _ask(server.client, "GET", path, headers=headers).status_code == 403


def test_a_link_from_elsewhere_leads_to_the_page_and_to_nothing_else(server: DashboardProcess) -> None:
    """Somebody sends a deep link to a colleague."""
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert _ask(server.client, "GET", "/r/p/01-try-it", headers=headers).status_code in (200, 404)
    assert _ask(server.client, "GET", f"{API}/overview", headers=headers).status_code == 403
    assert _ask(server.client, "POST", "/session", headers=headers).status_code == 403


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_a_form_of_another_page_does_nothing(server: DashboardProcess, rested_run: str, kind: str) -> None:
    """Forms can send these without asking first. Ours is JSON, for which a browser asks."""
    path = f"{API}{server.run_path(rested_run)}/actions"
    body = b'{"name": "abandon", "fields": {}}'
    answer = server.client.post(path, content=body, headers={"content-type": kind})
    assert answer.status_code == 400
    assert server.get(server.run_path(rested_run))["status"]["run"]["status"] == "blocked"


def test_the_token_becomes_a_cookie_that_other_sites_cannot_use(server: DashboardProcess) -> None:
    """Scripts cannot read it, and requests of other sites do not carry it."""
    with server.stranger() as browser:
        assert browser.post("/session", json={"token": "wrong"}).status_code == 401
        assert "set-cookie" not in browser.post("/session", json={"token": "wrong"}).headers
        answer = browser.post("/session", json={"token": server.token})
        assert answer.status_code == 204
        assert browser.get(f"{API}/overview").status_code == 200
    said = answer.headers["set-cookie"].lower()
    assert said.startswith(f"holdfast_{server.port}=")
    assert {"httponly", "samesite=strict", "path=/"} <= set(said.split("; "))
    assert "domain" not in said


def test_the_token_is_in_no_answer(server: DashboardProcess, rested_run: str) -> None:
    """Nor is it in an address that a browser would send along."""
    for path in ("/overview", server.run_path(rested_run), "/openapi.json"):
        assert server.token not in server.client.get(API + path).text


TRAVERSALS = ["..", "../../etc/passwd", "..%2f..%2fetc%2fpasswd", "/etc/passwd", "%2e%2e", "a/../../x", "\0", "%00", "~", "-", "--help", "*", "a b", "p/.git/config"]  # fmt: skip
PARAMETERS = sorted({(route.path, name) for route in routes() for name in re.findall(r"{(\w+)", route.path)})


def _ask_as_typed(server: DashboardProcess, path: str) -> tuple[int, str]:
    """Ask for a path as it is: browsers and libraries would tidy it up first."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
        connection.request("GET", path, headers={"Authorization": f"Bearer {server.token}"})
        answer = connection.getresponse()
        is_stream = "event-stream" in str(answer.getheader("content-type"))
        return answer.status, "" if is_stream else answer.read().decode()


@pytest.mark.parametrize(("path", "place"), PARAMETERS)
@pytest.mark.parametrize("odd", TRAVERSALS)
def test_no_part_of_a_path_leads_out(
    server: DashboardProcess, rested_run: str, path: str, place: str, odd: str
) -> None:
    """Every part is a name that is known, or there is nothing."""
    values = {**PLACES, "run": rested_run, place: odd if "%" in odd else quote(odd, safe="")}
    asked = re.sub(r"{(\w+)(?::path)?}", lambda found: values[found[1]], path)
    status, body = _ask_as_typed(server, asked)
    assert status in ((200, 404) if place == "rest" else (404, 405)), body
    assert "root:" not in body
    assert "[core]" not in body


@pytest.mark.parametrize("path", ["/overview", "{run}", "{run}/tasks/a", "{run}/diff", "{run}/tasks/a/diff", "{run}/events"])  # fmt: skip
def test_script_of_agents_arrives_as_text_in_json(
    server: DashboardProcess, rested_run: str, path: str
) -> None:
    """Titles, goals and files are data; no browser takes them for a page."""
    answer = server.client.get(API + path.format(run=server.run_path(rested_run)))
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.json()
    if not path.endswith("events"):
        assert "script>" in answer.text


def test_script_in_a_log_is_text(server: DashboardProcess, rested_run: str) -> None:
    """In a stream, too, it cannot end a message and begin another."""
    with server.stream(f"{server.run_path(rested_run)}/tasks/a/log") as stream:
        entries = stream.until("entries").data
    assert [entry["text"] for entry in entries] == [SCRIPT]


def test_a_huge_body_is_refused(server: DashboardProcess, rested_run: str) -> None:
    """Whether it says how long it is or not."""
    path = f"{API}{server.run_path(rested_run)}/actions"
    headers = {"content-type": "application/json"}
    huge = b" " * (1024 * 1024 + 1)
    assert server.client.post(path, content=huge, headers=headers).status_code == 413
    pieces = (b" " * 65_536 for _ in range(20))
    assert server.client.post(path, content=pieces, headers=headers).status_code == 413


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b'{"name": 1}', b'{"name": "stop", "more": 1}', b"\xff", b"[" * 100_000])  # fmt: skip
def test_a_body_that_is_not_what_was_asked_for_is_refused(
    server: DashboardProcess, rested_run: str, body: bytes
) -> None:
    """With words that say what is wrong."""
    path = f"{API}{server.run_path(rested_run)}/actions"
    answer = server.client.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_a_server_that_only_shows_does_nothing(rested: Cli) -> None:
    """Signing in is all that can be sent to it."""
    with serving(rested.here, "--read-only") as server:
        run = server.get("/overview")["repositories"][0]["runs"][0]["id"]
        assert server.get("/overview")["read_only"] is True
        for path in (
            f"{server.run_path(run)}/actions",
            "/repositories/p/runs",
            "/repositories/p/plans/preview",
        ):
            answer = server.post(path, {"name": "abandon", "fields": {}})
            assert (answer.status_code, "--read-only" in answer.text) == (403, True)
        assert server.client.post("/session", json={"token": server.token}).status_code == 204
        assert server.get(server.run_path(run))["status"]["run"]["status"] == "blocked"


def test_with_a_certificate_the_cookie_is_for_https_only(tmp_path: Path) -> None:
    """And pages of the same machine without it are other pages."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    files = [
        "-keyout",
        str(tmp_path / "key.pem"),
        "-out",
        str(tmp_path / "cert.pem"),
        "-subj",
        "/CN=localhost",
    ]
    subprocess.run([*made, *files], check=True, capture_output=True)
    words = ("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    with serving(cli.here, *words) as server:
        assert server.base.startswith("https://")
        assert ssl.get_server_certificate(("127.0.0.1", server.port)).startswith("-----BEGIN")
        answer = server.client.post("/session", json={"token": server.token})
        assert "; secure" in answer.headers["set-cookie"].lower()
        headers = {"origin": f"http://127.0.0.1:{server.port}"}
        assert server.client.get(f"{API}/overview", headers=headers).status_code == 403


def test_who_listens_everywhere_is_asked_by_numbers_and_its_own_name_only() -> None:
    """Any other name could have been made to lead here."""
    site = Site("0.0.0.0", 80, "t", own_name="build-7")
    assert [site.is_ours(host) for host in ("10.0.0.7", "build-7:80", "[fe80::1]", "localhost")] == [True] * 4
    assert [site.is_ours(host) for host in ("evil.example", "10.0.0.7.evil.example", "10.0.0.7:81", "")] == [
        False
    ] * 4


def test_a_browser_is_opened_with_a_code_that_counts_once(tmp_path: Path) -> None:
    """Other users of the machine can read the words of a command, so the token is not among them."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    opened, browser = tmp_path / "opened", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.new; mv {opened}.new {opened}\n')
    browser.chmod(0o755)
    with serving(cli.here, "--open", BROWSER=str(browser)) as server:
        eventually(opened.exists, "the browser was opened")
        address, _, code = opened.read_text().strip().partition("/#token=")
        assert server.token not in (code, "")
        said = [httpx.post(f"{address}/session", json={"token": code}).status_code for _ in range(2)]
    assert said == [204, 401]


def test_a_kept_token_is_the_same_after_a_restart(tmp_path: Path) -> None:
    """A scraper of figures needs one that stays; nobody else can read the file."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    kept = tmp_path / "token"
    tokens = []
    for _ in range(2):
        with serving(cli.here, "--token-file", str(kept)) as server:
            tokens.append(server.token)
    assert tokens == [kept.read_text().strip()] * 2
    assert kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--tls-cert", "plan.json", "--tls-key", "plan.json"), "plan.json with plan.json is no certificate"),
        (("--tls-cert", "gone.pem", "--tls-key", "gone.key"), "gone.pem with gone.key is no certificate"),
        (("--host", "a.invalid", "--insecure"), "nobody can listen on a.invalid: "),
    ],
)
def test_what_keeps_a_server_from_starting_is_named(
    tmp_path: Path, options: tuple[str, ...], told: str
) -> None:
    """The words of a library name neither the file nor the option."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    done = cli("serve", *options)
    assert done.code == 2
    assert told in done.err


def test_a_port_that_somebody_has_is_named(server: DashboardProcess, tmp_path: Path) -> None:
    """Another port is a way out."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    done = cli("serve", "--port", str(server.port))
    assert f"nobody can listen on 127.0.0.1, port {server.port}: Address already in use" in done.err
    assert "give another --port" in done.err
