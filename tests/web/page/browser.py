"""Debian's Chromium, driven by Playwright, and `holdfast serve` as a real process to open in it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, Playwright, Request

from tests.support.command import COMMAND

_QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESK = {"width": 1280, "height": 800}
PHONE = {"width": 360, "height": 740}


def missing_browser() -> str:
    """Return why no browser can be driven here; empty if one can."""
    return "" if shutil.which("chromium") else "chromium is not installed: `make test` installs it by apt-get"


def launch(playwright: Playwright) -> Browser:
    """Start the browser. It reaches nothing but what a test serves."""
    program = shutil.which("chromium")
    assert program is not None
    return playwright.chromium.launch(executable_path=program, args=list(_QUIET))


class Watcher:
    """A page that keeps what went wrong in it: errors of scripts, refused contents, requests that left the machine."""

    def __init__(self, browser: Browser, size: dict[str, int] = DESK, **options: Any) -> None:
        self.problems: list[str] = []
        self._context: BrowserContext = browser.new_context(
            viewport={"width": size["width"], "height": size["height"]}, **options
        )
        self.page: Page = self._context.new_page()
        self.page.on("pageerror", lambda error: self.problems.append(f"script: {error}"))
        self.page.on("console", lambda message: self._heard(message.type, message.text))
        self.page.on("request", self._requested)
        self.page.on("dialog", lambda dialog: self.problems.append(f"dialog: {dialog.message}"))

    def _heard(self, kind: str, text: str) -> None:
        # The browser itself reports requests that fail while a server is away.
        if kind == "error" and "Failed to load resource" not in text:
            self.problems.append(f"console: {text}")

    def _requested(self, request: Request) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "data:", "about:", "blob:")):
            self.problems.append(f"request: {request.url}")

    def close(self) -> None:
        """Close the page with all that it kept."""
        self._context.close()


@contextmanager
def served(*folders: Path, options: tuple[str, ...] = (), port: int = 0) -> Iterator[str]:
    """Serve repositories and return the address that was printed, token included."""
    process = subprocess.Popen(
        [*COMMAND, "serve", *map(str, folders), "--port", str(port), *options],
        cwd=folders[0],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("Dashboard: "), line
        yield line.removeprefix("Dashboard: ").strip()
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def root_of(address: str) -> str:
    """Return the address of a dashboard without its token."""
    return address.partition("/#")[0]
