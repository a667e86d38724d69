"""The page's own files: a fixed list, made when the server starts, so that no path of a request reaches the disk."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from holdfast.web.answers import RefusedRequestError

STATIC = Path(__file__).parent / "static"
_INDEX = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
}
_REVALIDATED = {"cache-control": "no-cache"}
"""A browser keeps a file, but asks each time whether it is still the same: after an update the page must fit the server."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file of the page: its content, its type, and a name for its content."""

    body: bytes
    media_type: str
    tag: str


class PageFiles:
    """All files of the page, in memory."""

    def __init__(self, folder: Path = STATIC) -> None:
        self.files = {
            str(path.relative_to(folder)): _read(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.suffix in _TYPES
        }

    async def page(self, request: Request) -> Response:
        """Answer with the page itself, which reads the rest of its address."""
        return self._answer(request, _INDEX)

    async def file(self, request: Request) -> Response:
        """Answer with a file of the page."""
        return self._answer(request, request.path_params["name"])

    def _answer(self, request: Request, name: str) -> Response:
        found = self.files.get(name)
        if found is None:
            raise RefusedRequestError(404, "there is no such file", "the page is at /")
        headers = {"etag": found.tag, **_REVALIDATED}
        if found.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(found.body, headers=headers, media_type=found.media_type)


def _read(path: Path) -> PageFile:
    body = path.read_bytes()
    return PageFile(body, _TYPES[path.suffix], f'"{hashlib.sha256(body).hexdigest()[:32]}"')
