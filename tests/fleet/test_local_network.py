"""A launch with a network of its own: what it reaches, what it does not, and that its proxy ends with it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from holdfast.fleet.protocol import LaunchSpec, SandboxPolicy
from holdfast.process.network_proxy import PROXY_PORT, is_allowed, is_reachable
from tests.support.command import eventually
from tests.support.launches import FleetSetup
from tests.support.sandboxes import needs_sandbox

BODY = "x" * 300_000


class _Answers(BaseHTTPRequestHandler):
    """Answers every request with the path, the Host header and a long text."""

    def do_GET(self) -> None:
        """Answer."""
        data = f"{self.path} {self.headers['Host']} {BODY}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a server on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def inside(setup: FleetSetup, program: str, hosts: tuple[str, ...], **more: Any) -> LaunchSpec:
    """Return the launch of a Python program that reaches only these hosts."""
    (setup.work / "program.py").write_text(program)
    policy = SandboxPolicy(writable=(setup.work,), hosts=hosts)
    return replace(setup.sh(f"{sys.executable} program.py", **more), sandbox=policy)


def printed(setup: FleetSetup, spec: LaunchSpec) -> str:
    """Launch, wait for the end, and return what was printed."""
    asyncio.run(setup.finish(spec))
    return setup.fleet.output(spec.key).data.decode()


ASK = """
import urllib.request, urllib.error
opener = urllib.request.build_opener(urllib.request.ProxyHandler({{"http": "http://127.0.0.1:{proxy}"}}))
try:
    answer = opener.open("{url}", timeout=60).read().decode()
    print(answer[:40], len(answer))
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


def asks(url: str) -> str:
    """Return a program that asks the proxy for a page."""
    return ASK.format(proxy=PROXY_PORT, url=url)


@needs_sandbox
def test_without_hosts_there_is_only_loopback(setup: FleetSetup, port: int) -> None:
    """Its own one: a server inside can be reached, the machine's cannot."""
    program = f"""
import socket
own = socket.create_server(("127.0.0.1", 0))
socket.create_connection(own.getsockname())
print(socket.if_nameindex())
try:
    socket.create_connection(("127.0.0.1", {port}))
except ConnectionRefusedError:
    print("refused")
"""
    assert printed(setup, inside(setup, program, ())) == "[(1, 'lo')]\nrefused\n"


@needs_sandbox
def test_an_allowed_port_of_this_machine_is_reached_without_knowing_of_a_proxy(
    setup: FleetSetup, port: int
) -> None:
    """Such as that of a model that runs here. Others are not."""
    program = f"""
import urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
print(len(opener.open("http://127.0.0.1:{port}/", timeout=60).read()) > 300000)
"""
    assert printed(setup, inside(setup, program, (f"127.0.0.1:{port}",))) == "True\n"


@needs_sandbox
def test_what_is_not_allowed_is_refused_with_the_way_to_allow_it(setup: FleetSetup, port: int) -> None:
    """The agent sees why, and so does who reads its log."""
    said = printed(setup, inside(setup, asks("http://example.com/"), ("pypi.org",)))
    assert said.startswith("403 ")
    assert "HOLDFAST_NETWORK_ALLOW=example.com" in said


@needs_sandbox
def test_the_proxy_passes_requests_and_tunnels_on(setup: FleetSetup, port: int) -> None:
    """Both ways in which programs use a proxy; the answer is whole."""
    spec = inside(setup, asks(f"http://127.0.0.1:{port}/path?x=1"), (f"127.0.0.1:{port}",))
    assert printed(setup, spec).startswith(f"/path?x=1 127.0.0.1:{port} xxx")
    tunnel = f"""
import http.client
connection = http.client.HTTPConnection("127.0.0.1", {PROXY_PORT}, timeout=60)
connection.set_tunnel("127.0.0.1", {port})
for path in ("/one", "/two"):
    connection.request("GET", path)
    print(len(connection.getresponse().read()) > 300000)
"""
    again = inside(setup, tunnel, (f"127.0.0.1:{port}",), attempt=2)
    assert printed(setup, again) == "True\nTrue\n"


@needs_sandbox
def test_the_proxy_ends_with_the_launch_and_with_a_killed_supervisor(setup: FleetSetup, port: int) -> None:
    """Nothing is left behind, also of connections that were open, and a launch ends although its proxy lives until then."""
    program = f"""
import socket, sys
with socket.create_connection(("127.0.0.1", {port})) as connection:
    open("up", "w").write("there\\n")
    open("gate").read()
"""
    spec = inside(setup, program, (f"127.0.0.1:{port}",))
    before = proxies()
    asyncio.run(setup.fleet.launch(spec))
    setup.heard("up")
    eventually(lambda: len(proxies() - before) >= 2, "the proxy took the connection")
    os.kill(setup.supervisor(spec.key), signal.SIGKILL)
    eventually(lambda: not proxies() - before, "the proxy ended")
    assert printed(setup, inside(setup, "print(1)", ("pypi.org",), attempt=2)) == "1\n"
    eventually(lambda: not proxies() - before, "the proxy of the second launch ended")


def proxies() -> set[int]:
    """Return the processes that are proxies of launches."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "comm").read_text() == "hf-proxy\n":
                found.add(int(folder.name))
        except OSError:
            continue
    return found


@needs_sandbox
def test_no_descriptor_of_ours_reaches_the_agent(setup: FleetSetup) -> None:
    """Neither the pipes to the proxy nor anything else."""
    program = "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd')))"
    assert printed(setup, inside(setup, program, ("pypi.org",))) == "[0, 1, 2, 3]\n"


@pytest.mark.parametrize(
    ("host", "port", "allowed"),
    [
        ("pypi.org", 443, True),
        ("PyPI.org.", 80, True),
        ("pypi.org", 22, False),
        ("evil-pypi.org", 443, False),
        ("pypi.org.evil.com", 443, False),
        ("a.example.com", 443, True),
        ("example.com", 443, False),
        ("badexample.com", 443, False),
        ("127.0.0.1", 8000, True),
        ("127.0.0.1", 8001, False),
        ("fd00::1", 8000, True),
        ("fd00::1", 443, False),
        ("fd00::2", 8000, False),
    ],
)
def test_the_allow_list_means_whole_names_and_usual_ports(host: str, port: int, allowed: bool) -> None:
    """A name that only looks like one of the list is another host."""
    assert (
        is_allowed(host, port, ["pypi.org", "*.example.com", "127.0.0.1:8000", "[fd00:0::1]:8000"]) is allowed
    )


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "0.0.0.0", "10.0.0.7", "100.64.0.1", "169.254.169.254", "172.31.0.1", "192.168.1.1",
        "::1", "::", "fd00::1", "fe80::1", "::ffff:10.0.0.7", "64:ff9b::a00:7", "::127.0.0.1", "fec0::1", "64:ff9b:1::a00:7",
        "2002:7f00:1::1", "192.0.0.192", "198.19.0.1", "168.63.129.16",
    ],
)  # fmt: skip
def test_an_allowed_name_cannot_lead_to_this_machine_or_its_network(address: str) -> None:
    """Whoever owns a name decides its addresses."""
    assert not is_reachable(address, "api.example.com", 443, ["api.example.com", "*.0.0.7"])


def test_an_allowed_name_leads_to_the_internet_and_to_what_is_allowed_itself() -> None:
    """And localhost is this machine."""
    for address in ("93.184.216.34", "100.128.0.1", "172.32.0.1", "2606:2800:220:1::1"):
        assert is_reachable(address, "api.example.com", 443, ["api.example.com"])
    assert is_reachable("127.0.0.1", "localhost", 8000, ["localhost:8000"])
    assert is_reachable("10.0.0.7", "packages.example.com", 443, ["packages.example.com", "10.0.0.7"])
    assert is_reachable("fd00::7", "packages.example.com", 443, ["packages.example.com", "[fd00:0::7]"])


TUNNEL = """
import socket
for place in {places}:
    with socket.create_connection(("127.0.0.1", {proxy}), timeout=60) as proxy:
        proxy.sendall(b"CONNECT " + place + b" HTTP/1.1\\r\\n\\r\\n")
        print(proxy.makefile().readline().strip())
"""


@needs_sandbox
def test_the_first_line_of_a_refusal_says_why_even_if_nothing_is_allowed(setup: FleetSetup) -> None:
    """Of a refused tunnel, programs show no more. So the proxy is there even if its list is empty."""
    program = TUNNEL.format(proxy=PROXY_PORT, places=[b"api.example.com:443", b"api.example.com:8443"])
    first, second = printed(setup, inside(setup, program, ())).splitlines()
    assert first.startswith("HTTP/1.1 403 api.example.com:443 is not allowed")
    assert first.endswith("HOLDFAST_NETWORK_ALLOW=api.example.com")
    assert second.endswith("HOLDFAST_NETWORK_ALLOW=api.example.com:8443")


@needs_sandbox
def test_what_cannot_be_a_host_is_no_host_of_the_list(setup: FleetSetup, port: int) -> None:
    """The system's resolver ends a name at a zero byte, and an entry ends with what comes after it."""
    places = [
        f"127.0.0.1\0.example.com:{port}".encode(),
        b"a b.example.com:443",
        b"a@b.example.com:443",
        b":443",
    ]
    program = TUNNEL.format(proxy=PROXY_PORT, places=places)
    said = printed(setup, inside(setup, program, (f"*.example.com:{port}", "*.example.com"))).splitlines()
    assert said == ["HTTP/1.1 400 Bad Request"] * len(places)
