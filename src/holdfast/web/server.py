"""The server itself: its socket, its token, what it says when it starts, and how it ends."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import uvicorn

from holdfast.errors import HoldfastError
from holdfast.system_errors import doing
from holdfast.web.access import Site, is_everywhere, is_loopback
from holdfast.web.app import make_app
from holdfast.web.dashboard import Dashboard
from holdfast.web.repositories import ServedRepositories

USUAL_PORT = 7433
_TOKEN_BYTES = 32
_TOKEN_CHARS_MIN = 32
_GRACE_S = 2
_OWNER_ONLY, _OTHERS_MAY = 0o600, 0o077


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What the command line says about a server. `port` None: the usual one, or any that is free."""

    folders: Sequence[Path]
    host: str = "127.0.0.1"
    port: int | None = None
    certificate: Path | None = None
    key: Path | None = None
    insecure: bool = False
    read_only: bool = False
    token_file: Path | None = None


def serve(settings: ServerSettings, announce: Callable[[Site, str], None]) -> None:
    """Serve until a signal ends it. `announce` is told the address once it can be opened.

    Raises HoldfastError if it may not, or cannot, listen there.
    """
    require_safe(settings)
    require_certificate(settings)
    repositories = ServedRepositories(settings.folders)
    token = kept_token(settings.token_file) if settings.token_file else secrets.token_urlsafe(_TOKEN_BYTES)
    listening = listen(settings.host, settings.port)
    site = Site(
        settings.host,
        listening.getsockname()[1],
        token,
        is_tls=settings.certificate is not None,
        read_only=settings.read_only,
        own_name=socket.gethostname() if is_everywhere(settings.host) else "",
    )
    dashboard = Dashboard(site, repositories)
    server = _Server(
        _config(dashboard, settings), dashboard, lambda: announce(site, address_of(site, site.token))
    )
    try:
        asyncio.run(server.serve(sockets=[listening]))
    finally:
        listening.close()


def address_of(site: Site, secret: str) -> str:
    """Return the address to open. The secret, token or code, is behind the `#`, which browsers keep to themselves."""
    name = "127.0.0.1" if is_everywhere(site.host) else site.host
    name = f"[{name}]" if ":" in name else name
    return f"{site.scheme}://{name}:{site.port}/#token={secret}"


def require_safe(settings: ServerSettings) -> None:
    """Raise HoldfastError if others could read along and nobody said that they may."""
    if (settings.certificate is None) != (settings.key is None):
        raise HoldfastError("a certificate needs its key, and a key its certificate", "give both, or neither")
    if is_loopback(settings.host) or settings.certificate is not None or settings.insecure:
        return
    raise HoldfastError(
        f"{settings.host} can be reached by other machines, and nothing would be encrypted",
        "give --tls-cert and --tls-key; or forward a port: `ssh -L 7433:localhost:7433 HOST`; or, "
        "in a network where everybody may read along and use what they read, --insecure",
    )


def require_certificate(settings: ServerSettings) -> None:
    """Raise HoldfastError if the certificate that was given cannot be used."""
    if settings.certificate is None:
        return
    import ssl  # Imported here because most servers have no certificate.

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.certificate, settings.key)
    except OSError as error:
        raise HoldfastError(
            f"{settings.certificate} with {settings.key} is no certificate for HTTPS: {error.strerror}",
            "name the PEM file of a certificate, and that of its key",
        ) from error


def listen(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens. Without a port the usual one is tried first, then any."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    refused = ""
    for number in (USUAL_PORT, 0) if port is None else (port,):
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, number))
        except (OSError, OverflowError) as error:
            found.close()
            refused = str(getattr(error, "strerror", None) or error)
        else:
            found.listen(128)
            return found
    where = host if port is None else f"{host}, port {port}"
    raise HoldfastError(f"nobody can listen on {where}: {refused}", "give another --port or --host")


def kept_token(path: Path) -> str:
    """Return the token in a file, so that it is the same after a restart; make it if there is none."""
    with doing("make the file of the token", path):
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _OWNER_ONLY)
        except FileExistsError:
            return _read_token(path)
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        with os.fdopen(fd, "w") as file:
            file.write(f"{token}\n")
    return token


def _read_token(path: Path) -> str:
    with doing("read the token", path):
        if path.stat().st_mode & _OTHERS_MAY:
            raise HoldfastError(f"others can read {path}", f"`chmod 600 {path}` keeps the token private")
        token = path.read_text(encoding="utf-8").strip()
    if len(token) < _TOKEN_CHARS_MIN or not token.isascii() or not token.isprintable() or " " in token:
        raise HoldfastError(f"{path} holds no token", "delete it, and a new one is made")
    return token


def _config(dashboard: Dashboard, settings: ServerSettings) -> uvicorn.Config:
    return uvicorn.Config(
        make_app(dashboard),
        http="h11",
        loop="asyncio",
        ws="none",
        lifespan="on",
        access_log=False,
        log_level="error",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE_S,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
    )


class _Server(uvicorn.Server):
    """Uvicorn's server, which also says when it is ready, and lets streams end when it does."""

    def __init__(self, config: uvicorn.Config, dashboard: Dashboard, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._dashboard, self._ready = dashboard, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()
        self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End soon: streams would go on for ever."""
        self._loop.call_soon_threadsafe(self._dashboard.close)
        super().handle_exit(sig, frame)
