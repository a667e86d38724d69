"""One HTTP POST: to the given address and nowhere else, bounded, its failures in words that do not give it away."""

from __future__ import annotations

import urllib.error
import urllib.request
from http.client import HTTPException
from typing import IO, Any


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The news goes where the plan says and nowhere else."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        """Refuse: the redirection becomes an error with its status."""


def post_json(url: str, body: bytes, timeout_s: float) -> str:
    """Post a JSON text; return what went wrong, or an empty string. Nothing returned contains the address."""
    headers = {"Content-Type": "application/json", "User-Agent": "holdfast"}
    try:
        request = urllib.request.Request(url, body, headers, method="POST")  # noqa: S310 - a plan has http(s) only
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=timeout_s):
            return ""
    except urllib.error.HTTPError as error:
        error.close()
        return f"it answered with {error.code}"
    except urllib.error.URLError as error:
        return (
            error.reason.strerror or "no connection" if isinstance(error.reason, OSError) else "no connection"
        )
    except (OSError, HTTPException, ValueError) as error:
        return f"it could not be reached ({type(error).__name__})"
