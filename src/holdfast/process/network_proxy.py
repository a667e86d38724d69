"""The only way out of a sandbox whose network is an allow-list: an HTTP proxy of ours, a process beside the supervisor.

The sandbox has a network of its own, in which there is nothing but loopback. The proxy's ports are opened in there from
outside, so nothing of ours runs inside, and programs that know nothing of proxies still reach an allowed port of this
machine. Connections to all else are made here, after the host was found in the list. The proxy ends with its
supervisor: it holds the reading end of a pipe that nobody else can write to.

It runs in a fork of the supervisor: it must import nothing beyond what the fork server loaded.
"""

from __future__ import annotations

import _socket
import ctypes
import os
import select
import signal
from collections.abc import Iterator
from contextlib import suppress

PROXY_PORT = 3128
PROXY_ADDRESS = f"http://127.0.0.1:{PROXY_PORT}"
_LOOPBACK = ("127.0.0.1", "localhost")
_USUAL_PORTS = (443, 80)
_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-")
_NAME_CHARS_MAX = 253
_LOCAL_NETWORKS = (
    (bytes([0]), 8), (bytes([10]), 8), (bytes([100, 64]), 10), (bytes([127]), 8), (bytes([169, 254]), 16),
    (bytes([168, 63, 129, 16]), 32), (bytes([172, 16]), 12), (bytes([192, 0, 0]), 24), (bytes([192, 168]), 16),
    (bytes([198, 18]), 15),
)  # fmt: skip
"""The first bytes of the IPv4 addresses of machines and clouds, not of hosts of the internet, and how many bits count."""
_LOCAL_NETWORKS_6 = (
    (bytes(12), 96), (bytes([0, 0x64, 0xFF, 0x9B, 0, 1]), 48), (bytes([0x20, 2]), 16), (bytes([0xFC]), 7),
    (bytes([0xFE, 0x80]), 9),
)  # fmt: skip
_EMBEDDED = (bytes(10) + bytes([255, 255]), bytes([0, 0x64, 0xFF, 0x9B]) + bytes(8))
"""How IPv6 addresses begin that stand for the IPv4 address in their last four bytes."""
_ALLOWED = "+"
_REFUSED_MAX = 3
_HEAD_BYTES_MAX = 65536
_CHUNK = 65536
_WAITING_BYTES_MAX = 4 * _CHUNK
_CONNECTIONS_MAX = 256
_HEAD_S = 60.0
_CONNECT_S = 30.0
_NS_GET_USERNS = 0xB701
_PR_SET_NAME = 15
_NAME = b"hf-proxy"
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_RIGHTS_BYTES = _socket.CMSG_SPACE(4 * 64)
_LIBC = ctypes.CDLL(None, use_errno=True)
_Pair = tuple[_socket.socket, _socket.socket]


class LaunchProxy:
    """The proxy of one launch, and the pipes between it and the sandbox.

    Bubblewrap writes the pid of its first process to `told`, and starts the command when it can read from `opened`.
    """

    def __init__(self, hosts: list[str], output: int) -> None:
        """Start the proxy of a launch that prints to `output`. Call it before this process becomes a subreaper."""
        read_told, self.told = os.pipe()
        self.opened, write_opened = os.pipe()
        alive, self._lifeline = os.pipe()
        self._notes, noted = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        middle = os.fork()
        if middle == 0:
            try:
                if os.fork() == 0:
                    _close_all_but(read_told, write_opened, alive, output, noted)
                    _run(hosts, read_told, write_opened, alive, output, noted)
            finally:
                os._exit(0)
        os.waitpid(
            middle, 0
        )  # the proxy is nobody's child here: when no child is left, the agent's tree is gone
        for fd in (read_told, write_opened, alive, noted):
            os.close(fd)
        for fd in (self.told, self.opened):
            os.set_inheritable(fd, True)

    @property
    def arguments(self) -> list[str]:
        """The arguments of bubblewrap that make it wait for the proxy."""
        return ["--info-fd", str(self.told), "--block-fd", str(self.opened)]

    def close(self) -> None:
        """Close what was only for the sandbox, after its start."""
        os.close(self.told)
        os.close(self.opened)

    def requests(self) -> dict[str, str | float]:
        """Return which hosts were refused, the most often asked for first, and how many requests were for allowed ones."""
        notes = b""
        with suppress(BlockingIOError):  # the proxy serves still
            while said := os.read(self._notes, _CHUNK):
                notes += said
        lines = notes.decode().splitlines()
        counts = {line: lines.count(line) for line in dict.fromkeys(lines) if line != _ALLOWED}
        refused = sorted(counts, key=lambda host: -counts[host])[:_REFUSED_MAX]
        return {"refused_hosts": " ".join(refused), "allowed_requests": lines.count(_ALLOWED)}


def is_allowed(host: str, port: int, entries: list[str]) -> bool:
    """Tell whether a host is in an allow-list: by its name, as `*.` and the end of it, or with the only port."""
    host = host.lower().rstrip(".")
    return any(_matches(host, port, entry.lower()) for entry in entries)


def _matches(host: str, port: int, entry: str) -> bool:
    name, colon, only = entry.rpartition(":")
    name, ports = (name, (only,)) if colon and only.isdecimal() else (entry, tuple(map(str, _USUAL_PORTS)))
    if str(port) not in ports:
        return False
    if name.startswith("*."):
        return host.endswith(name[1:]) and not _packed(host)
    address = _packed(host)
    return address == _packed(name.strip("[]")) if address else host == name


def is_reachable(address: str, host: str, port: int, entries: list[str]) -> bool:
    """Tell whether an allowed host may be at this address.

    A name must not lead to this machine or to others of its own network, unless the list has that very address.
    """
    if host in _LOOPBACK or is_allowed(address, port, entries):
        return True
    return not (_is_local(_packed(address)) or _is_of_this_machine(address))


def _packed(address: str) -> bytes:
    """Return the bytes of an IP address; none if it is a name."""
    for family in (_socket.AF_INET, _socket.AF_INET6):
        try:
            return _socket.inet_pton(family, address.partition("%")[0])
        except (OSError, ValueError):
            continue
    return b""


def _is_local(packed: bytes) -> bool:
    if packed[:12] in _EMBEDDED:
        packed = packed[12:]
    networks = _LOCAL_NETWORKS if len(packed) == 4 else _LOCAL_NETWORKS_6
    return any(_first_bits(packed, bits) == _first_bits(network, bits) for network, bits in networks)


def _first_bits(data: bytes, bits: int) -> int:
    size = (bits + 7) // 8
    return int.from_bytes(data[:size], "big") >> (8 * size - bits)


def _is_of_this_machine(address: str) -> bool:
    """Tell whether an address is one of this machine's: nobody can bind to another's."""
    family = _socket.AF_INET6 if ":" in address else _socket.AF_INET
    try:
        probe = _socket.socket(family, _socket.SOCK_DGRAM)
        try:
            probe.bind((address, 0))
        finally:
            probe.close()
    except OSError:
        return False
    return True


def _close_all_but(*kept: int) -> None:
    last = 2
    for fd in sorted(kept):
        os.closerange(last + 1, fd)
        last = fd
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))


def _run(hosts: list[str], told: int, opened: int, alive: int, output: int, noted: int) -> None:
    """Open the ports in the sandbox, let it start, and serve until the supervisor is gone. Without ports, nothing gets out."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    _LIBC.prctl(_PR_SET_NAME, _NAME, 0, 0, 0)
    os.chdir("/")
    listeners: list[_socket.socket] = []
    try:
        listeners = _open_ports(_sandbox_pid(told), [PROXY_PORT, *_local_ports(hosts)])
    except (OSError, ValueError) as error:
        os.write(output, f"holdfast: there is no way out of this sandbox: {error}\n".encode())
    for fd in (opened, told, output):
        os.close(fd)
    if listeners:
        _serve(listeners, hosts, alive, noted)


def _local_ports(hosts: list[str]) -> Iterator[int]:
    """Yield the allowed ports of this machine. Inside, they are where they are here."""
    for entry in hosts:
        name, _, port = entry.rpartition(":")
        if name.lower() in _LOOPBACK and port.isdecimal() and int(port) != PROXY_PORT:
            yield int(port)


def _sandbox_pid(told: int) -> int:
    """Return the first process of the sandbox, as bubblewrap tells it."""
    said = b""
    while b"}" not in said and (chunk := os.read(told, _CHUNK)):
        said += chunk
    return int(said.partition(b'"child-pid":')[2].partition(b",")[0].strip(b" \n}"))


def _open_ports(pid: int, ports: list[int]) -> list[_socket.socket]:
    """Return sockets that listen in the network of a process: made by a child that enters it, and handed over."""
    ours, theirs = _socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            _enter_network(pid)
            made = [_listener(port) for port in dict.fromkeys(ports)]
            rights = b"".join(one.fileno().to_bytes(4, "little") for one in made)
            theirs.sendmsg([b"."], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
        finally:
            os._exit(0)
    theirs.close()
    parts = ours.recvmsg(1, _RIGHTS_BYTES, _socket.MSG_CMSG_CLOEXEC)[1]
    os.waitpid(child, 0)
    ours.close()
    if not parts:
        raise OSError("its network cannot be entered")
    data = parts[0][2]
    return [
        _socket.socket(fileno=int.from_bytes(data[at : at + 4], "little")) for at in range(0, len(data), 4)
    ]


def _enter_network(pid: int) -> None:
    """Move this process into the network of another one. Who is not root must become root of its namespace first."""
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    owner = _LIBC.ioctl(network, _NS_GET_USERNS)
    if owner >= 0 and os.fstat(owner).st_ino != os.stat("/proc/self/ns/user").st_ino:  # noqa: PTH116
        _LIBC.setns(owner, _CLONE_NEWUSER)
    if _LIBC.setns(network, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _listener(port: int) -> _socket.socket:
    made = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    made.bind((_LOOPBACK[0], port))
    made.listen(_CONNECTIONS_MAX)
    return made


def _serve(listeners: list[_socket.socket], hosts: list[str], alive: int, noted: int) -> None:
    """Take connections, each in a process of its own, until the supervisor is gone."""
    poll, by_fd, running = select.poll(), {one.fileno(): one for one in listeners}, 0
    for fd in (*by_fd, alive):
        poll.register(fd, select.POLLIN)
    while True:
        ready = [fd for fd, _ in poll.poll(1000.0 if running else None)]
        if alive in ready:
            return
        for fd in ready:
            connection = _socket.socket(fileno=by_fd[fd]._accept()[0])  # type: ignore[attr-defined]  # noqa: SLF001
            port = by_fd[fd].getsockname()[1]
            if os.fork() == 0:
                try:
                    _handle(connection, port, hosts, alive, noted)
                finally:
                    os._exit(0)
            connection.close()
            running += 1
        running -= _reap(wait=running >= _CONNECTIONS_MAX)


def _reap(*, wait: bool) -> int:
    """Collect the processes of connections that ended; with `wait`, at least one. Return how many there were."""
    ended = 0
    try:
        while os.waitpid(-1, 0 if wait and not ended else os.WNOHANG)[0]:
            ended += 1
    except ChildProcessError:
        pass
    return ended


def _note(noted: int, words: str) -> None:
    """Tell the supervisor of a request, before it is answered. What no longer fits is left out: the first ones tell enough."""
    with suppress(OSError):  # full, or the supervisor is gone
        os.write(noted, f"{words}\n".encode())


def _handle(connection: _socket.socket, port: int, hosts: list[str], alive: int, noted: int) -> None:
    """Serve one connection: a port of this machine is passed on as it is, the proxy's own one is asked for a host."""
    if port != PROXY_PORT:
        _note(noted, _ALLOWED)
        _tunnel(connection, _connect(_LOOPBACK[0], port, hosts), alive)
        return
    connection.settimeout(_HEAD_S)
    head, rest = _read_head(connection)
    try:
        host, number, first = _target(head)
    except ValueError:
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        return
    if not is_allowed(host, number, hosts):
        why = (
            f"{host}:{number} is not allowed in this sandbox. Its user can allow it: {_way_out(host, number)}"
        )
        _note(noted, f"{_named(host)}:{number}")
        connection.sendall(_refusal(403, why))
        return
    _note(noted, _ALLOWED)
    try:
        server = _connect(host, number, hosts)
    except OSError as error:
        connection.sendall(_refusal(502, f"{host}:{number} cannot be reached: {error}"))
        return
    if first:
        server.sendall(first)
    else:
        connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
    server.sendall(rest)
    _tunnel(connection, server, alive)


def _read_head(connection: _socket.socket) -> tuple[bytes, bytes]:
    """Return the lines of a request, and what came after them."""
    data = b""
    while b"\r\n\r\n" not in data and len(data) < _HEAD_BYTES_MAX and (chunk := connection.recv(_CHUNK)):
        data += chunk
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _target(head: bytes) -> tuple[str, int, bytes]:
    """Return the host and the port that a request is for, and what to send there first. Raises ValueError if it is none.

    What a tunnel is asked for starts with nothing. Any other request is sent without the host, and is the only one.
    """
    method, target, version = head.partition(b"\r\n")[0].decode("ascii").split(" ")
    if method == "CONNECT":
        return *_host_and_port(target, 0), b""
    scheme, _, after = target.partition("://")
    if scheme.lower() != "http":
        raise ValueError(target)
    place, slash, path = after.partition("/")
    lines = [f"{method} {slash}{path} {version}" if slash else f"{method} / {version}"]
    dropped = (b"connection:", b"proxy-connection:", b"proxy-authorization:", b"keep-alive:")
    kept = [line for line in head.split(b"\r\n")[1:] if not line.lower().startswith(dropped)]
    first = b"\r\n".join([lines[0].encode(), *kept, b"Connection: close", b"", b""])
    return *_host_and_port(place, _USUAL_PORTS[1]), first


def _host_and_port(place: str, usual: int) -> tuple[str, int]:
    """Split what a request names. Raises ValueError if it has no port and needs one, or if the host cannot be one."""
    name, colon, port = place.rpartition(":")
    if not colon or place.endswith("]"):
        name, port = place, str(usual or "")
    host = name.strip("[]").lower()
    if not (_NAME_CHARS.issuperset(host) or _packed(host)) or not 0 < len(host) <= _NAME_CHARS_MAX:
        raise ValueError(place)
    return host, int(port)


def _way_out(host: str, port: int) -> str:
    return f"HOLDFAST_NETWORK_ALLOW={_named(host)}" + ("" if port in _USUAL_PORTS else f":{port}")


def _named(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _refusal(code: int, why: str) -> bytes:
    """Return an answer that says why, also in its first line: of a tunnel that was refused, programs show nothing else."""
    body = f"{why}\n".encode()
    length = str(len(body)).encode()
    first = why.encode("ascii", "replace").replace(b"\r", b" ").replace(b"\n", b" ")
    return b"HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Length: %s\r\n\r\n%s" % (
        code,
        first,
        length,
        body,
    )


def _connect(host: str, port: int, hosts: list[str]) -> _socket.socket:
    """Return a connection to the first address of a host that answers. Raises OSError if none does."""
    failed = OSError("it has no address")
    for family, kind, protocol, _, address in _socket.getaddrinfo(host, port, 0, _socket.SOCK_STREAM):
        place = str(address[0])
        if not is_reachable(place, host, port, hosts):
            failed = OSError(
                f"{place} is a private address. Its user can allow it, too: {_way_out(place, port)}"
            )
            continue
        made = _socket.socket(family, kind, protocol)
        made.settimeout(_CONNECT_S)
        try:
            made.connect(address)
        except OSError as error:
            failed = error
            made.close()
        else:
            return made
    raise failed


def _tunnel(one: _socket.socket, other: _socket.socket, alive: int) -> None:
    """Pass bytes on in both directions until both ends have said all, or the supervisor is gone."""
    for side in (one, other):
        side.setblocking(False)
    peers = {one.fileno(): (one, other), other.fileno(): (other, one)}
    waiting = dict.fromkeys(peers, b"")  # what was read from this side
    open_sides = set(peers)
    while open_sides or any(waiting.values()):
        poll = select.poll()
        poll.register(alive, select.POLLIN)
        for fd, (_, target) in peers.items():
            if fd in open_sides and len(waiting[fd]) < _WAITING_BYTES_MAX:
                poll.register(fd, select.POLLIN | (select.POLLOUT if waiting[target.fileno()] else 0))
            elif waiting[target.fileno()]:
                poll.register(fd, select.POLLOUT)
        ready = dict(poll.poll())
        if alive in ready:
            return
        for fd, pair in peers.items():
            if not _pass_on(fd, pair, ready, waiting, open_sides):
                return


def _pass_on(
    fd: int, pair: _Pair, ready: dict[int, int], waiting: dict[int, bytes], open_sides: set[int]
) -> bool:
    """Read from one side if it is ready, and write to the other what fits; return whether the tunnel still stands."""
    source, target = pair
    try:
        if ready.get(fd, 0) & ~select.POLLOUT and fd in open_sides:
            data = source.recv(_CHUNK)
            waiting[fd] += data
            if not data:
                open_sides.discard(fd)
        if waiting[fd]:
            waiting[fd] = waiting[fd][target.send(waiting[fd]) :]
        if fd not in open_sides and not waiting[fd]:
            target.shutdown(_socket.SHUT_WR)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return True
