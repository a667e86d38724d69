"""`serve`: the dashboard in a browser, for one repository or many. Only this command loads its libraries."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Arguments, flag, option, positional
from holdfast.errors import ExitCode, HoldfastError

if TYPE_CHECKING:
    from holdfast.web.access import Site

_LIBRARIES = ("starlette", "uvicorn", "anyio", "h11", "click")
_PORT_MAX = 65_535


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _PORT_MAX:
        raise ArgumentTypeError(f"{text} is not a port: a number from 0 to {_PORT_MAX}")
    return int(text)


ARGUMENTS: Arguments = (
    positional(
        "repositories",
        "folders of the repositories to show (the current one)",
        nargs="*",
        metavar="REPOSITORY",
    ),
    option("--port", "P", "the port (7433, or any that is free)", type=_port),
    option("--host", "H", "the address to listen on (127.0.0.1: only this machine)", default="127.0.0.1"),
    flag("--open", "open it in the browser"),
    flag("--read-only", "only show: nothing can be done from the page"),
    option("--tls-cert", "FILE", "serve HTTPS with this certificate"),
    option("--tls-key", "FILE", "the key of the certificate"),
    flag("--insecure", "let other machines reach it without HTTPS"),
    option("--token-file", "FILE", "keep the token in this file, so that it stays the same"),
)


def execute(args: Namespace) -> int:
    """Serve the dashboard until Ctrl-C."""
    try:
        from holdfast.web.server import ServerSettings, serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _LIBRARIES:
            raise
        raise HoldfastError(
            "the dashboard needs packages that are not installed", "`pip install 'holdfast[web]'` adds them"
        ) from None
    settings = ServerSettings(
        folders=[Path(folder) for folder in args.repositories] or [Path.cwd()],
        host=args.host,
        port=args.port,
        certificate=Path(args.tls_cert) if args.tls_cert else None,
        key=Path(args.tls_key) if args.tls_key else None,
        insecure=args.insecure,
        read_only=args.read_only,
        token_file=Path(args.token_file) if args.token_file else None,
    )
    serve(settings, lambda site, address: _announce(site, address, args))
    return ExitCode.DONE


def _announce(site: Site, address: str, args: Namespace) -> None:
    """Say where it is, and what others could do."""
    from holdfast.web.access import is_loopback

    print(f"Dashboard: {address}", flush=True)
    print("Ctrl-C ends it; runs go on.", file=sys.stderr)
    if not is_loopback(site.host):
        may = "read goals, prompts, logs and diffs" + ("" if args.read_only else ", and steer runs")
        how = "" if site.is_tls else " Nothing is encrypted: whoever reads along gets the token, too."
        print(f"Other machines reach it: whoever has the token may {may}.{how}", file=sys.stderr)
    if args.open:
        import webbrowser

        from holdfast.web.server import address_of

        webbrowser.open(address_of(site, site.new_code()))
