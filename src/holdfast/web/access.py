"""Who may ask the server for what. Every request passes here first, whatever its path and method.

A page of another site must get nothing, even if its name leads to this machine (DNS rebinding): the `Host` must be one of ours,
and so must the `Origin`. What is not the page itself needs the token, which is printed when the server starts: in a cookie that
no other site's request carries, or as `Authorization: Bearer`. And every answer says what a browser may do with it.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.web.answers import BODY_BYTES_MAX, error_answer

SESSION_PATH = "/session"
_CODE_BYTES = 32
_PAGES = ("/r/", "/new/")
_STATIC = "/static/"
_LOOKS = ("GET", "HEAD")
_OUR_SITE = (None, "same-origin", "none")
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True, slots=True)
class Site:
    """The server as browsers name it: where it listens, and the token of this start."""

    host: str
    port: int
    token: str
    is_tls: bool = False
    read_only: bool = False
    own_name: str = ""
    _codes: set[str] = field(default_factory=set)
    """What a page may sign in with instead of the token, each once."""

    @property
    def scheme(self) -> str:
        """The beginning of its addresses."""
        return "https" if self.is_tls else "http"

    @property
    def cookie(self) -> str:
        """The name of the cookie. Cookies do not tell ports apart, so that two servers would share one."""
        return f"holdfast_{self.port}"

    def is_ours(self, host: str | None) -> bool:
        """Tell whether a `Host` is a name of this server."""
        name, port = _split(host or "")
        if port != self.port and not (port is None and self.port == (443 if self.is_tls else 80)):
            return False
        if name in ("localhost", "127.0.0.1", "::1") or name in (self.host.lower(), self.own_name.lower()):
            return bool(name)
        # Who listens on every address is asked by all of them. No name can be made to lead to us: only numbers are let in.
        return is_everywhere(self.host) and _address(name) is not None

    def is_own_origin(self, origin: str) -> bool:
        """Tell whether an `Origin` is this server's own page."""
        scheme, separator, host = origin.partition("://")
        return bool(separator) and scheme == self.scheme and self.is_ours(host)

    def knows(self, said: str) -> bool:
        """Tell whether this is the token. How long that takes tells nothing about it."""
        return hmac.compare_digest(said.encode("utf-8", "surrogateescape"), self.token.encode())

    def new_code(self) -> str:
        """Return what one page may sign in with, once. The words of a browser's command can be read by others."""
        code = secrets.token_urlsafe(_CODE_BYTES)
        self._codes.add(code)
        return code

    def admits(self, said: str) -> bool:
        """Tell whether a page may sign in with this. A code counts no more afterwards."""
        if said in self._codes:
            self._codes.remove(said)
            return True
        return self.knows(said)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def is_everywhere(host: str) -> bool:
    """Tell whether an address stands for every one of the machine."""
    address = _address(host)
    return address is not None and address.is_unspecified


class Guard:
    """The outermost part of the server: refuses what is not ours, and puts the headers on every answer."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app = app
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there is no other protocol here
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send_with_headers)
        else:
            await error_answer(*refusal)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> tuple[int, str, str] | None:
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        if len(headers.getlist("host")) != 1 or not self._site.is_ours(headers.get("host")):
            return 403, "this server has another name", "use the address that `holdfast serve` printed"
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and not self._site.is_own_origin(origin):
            return 403, "requests of other pages are refused", "use the page that `holdfast serve` printed"
        if site not in _OUR_SITE and not _is_visit(headers, method, path):
            return 403, "requests of other sites are refused", "use the page that `holdfast serve` printed"
        if (length := headers.get("content-length")) and _too_much(length):
            return 413, "the body is too large", f"send at most {BODY_BYTES_MAX:,} bytes"
        if not is_public(method, path) and not self._is_known(headers):
            return 401, "the token is missing or wrong", "open the address that `holdfast serve` printed"
        if self._site.read_only and method not in _LOOKS and path != SESSION_PATH:
            return 403, "this server only shows: it was started with --read-only", "use the command line"
        return None

    def _is_known(self, headers: Headers) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._site.knows(token.strip()):
            return True
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        found = cookies.get(self._site.cookie)
        return found is not None and self._site.knows(found.value)


def is_public(method: str, path: str) -> bool:
    """Tell whether a request needs no token: the page and its files hold nothing of the user's."""
    if path == SESSION_PATH:
        return method == "POST"
    return method in _LOOKS and (is_page(path) or path.startswith(_STATIC))


def is_page(path: str) -> bool:
    """Tell whether the page answers to a path: its beginning, or a link into it."""
    return path == "/" or path.startswith(_PAGES)


def _is_visit(headers: Headers, method: str, path: str) -> bool:
    """Tell whether somebody followed a link to the page. The cookie does not come along; the page asks again by itself."""
    return method == "GET" and is_page(path) and headers.get("sec-fetch-mode") == "navigate"


def _too_much(length: str) -> bool:
    return not length.isdecimal() or int(length) > BODY_BYTES_MAX


def _split(host: str) -> tuple[str, int | None]:
    """Return the name and the port of a `Host`."""
    name, port = host.strip().lower(), ""
    if not name.endswith("]") and ":" in name:
        name, _, port = name.rpartition(":")
    name = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    if port and not (port.isascii() and port.isdecimal()):
        return "", None
    return name, int(port) if port else None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
