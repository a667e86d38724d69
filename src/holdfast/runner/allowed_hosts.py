"""Which hosts a launch may reach if its network is an allow-list: the providers of its agent, the package registries of the
repository's ecosystems, and what the user and the plan add.

The list is made from the commit that the run began on and from the user's own environment: nothing that an agent writes
can make it longer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from urllib.parse import urlsplit

from holdfast.core.ids import HOST_PATTERN
from holdfast.errors import HoldfastError, quoted
from holdfast.repo.commit_contents import list_files
from holdfast.repo.repository import Repository

ALLOW_VARIABLE = "HOLDFAST_NETWORK_ALLOW"
"""Names further hosts that the user lets agents reach."""
_LISTING_BYTES = 4 * 1024 * 1024
_REGISTRIES = {
    ("pyproject.toml", "requirements*.txt", "setup.py", "setup.cfg", "Pipfile"): ("pypi.org", "files.pythonhosted.org"),
    ("package.json",): ("registry.npmjs.org", "registry.yarnpkg.com"),
    ("Cargo.toml",): ("index.crates.io", "static.crates.io", "crates.io"),
    ("go.mod",): ("proxy.golang.org", "sum.golang.org", "storage.googleapis.com"),
    ("Gemfile", "*.gemspec"): ("rubygems.org", "index.rubygems.org"),
    ("composer.json",): ("repo.packagist.org", "packagist.org"),
    ("pom.xml", "build.gradle", "build.gradle.kts"): ("repo.maven.apache.org", "repo1.maven.org", "plugins.gradle.org"),
    ("*.csproj", "*.fsproj"): ("api.nuget.org",),
    ("mix.exs",): ("hex.pm", "repo.hex.pm"),
    ("pubspec.yaml",): ("pub.dev",),
}  # fmt: skip
"""The files that show an ecosystem, and where its packages are."""
_ADDRESSES = (
    "*_BASE_URL",
    "*_API_BASE",
    "*_ENDPOINT",
    "*_INDEX_URL",
    "*_DEFAULT_INDEX",
    "*_REGISTRY",
    "*_registry",
    "GOPROXY",
)
"""The variables in which users name the place of a model or a registry."""
_PORTS = {"http": 80, "https": 443}


def hosts_of_repository(repo: Repository, commit: str) -> tuple[str, ...]:
    """Return the package registries of the ecosystems that a commit has files of."""
    names = {path.rpartition("/")[2] for path in list_files(repo, commit, _LISTING_BYTES).splitlines()}
    return tuple(
        host
        for patterns, hosts in _REGISTRIES.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns for name in names)
        for host in hosts
    )


def hosts_of_user() -> tuple[str, ...]:
    """Return the hosts that the user's environment adds. Raises HoldfastError for what cannot be one."""
    named = tuple(filter(None, re.split(r"[,\s]+", os.environ.get(ALLOW_VARIABLE, ""))))
    for host in named:
        if not re.fullmatch(HOST_PATTERN, host):
            raise HoldfastError(
                f"{ALLOW_VARIABLE} names {quoted(host)}, which is no host",
                "write names with commas between them: api.example.com, *.example.com or 127.0.0.1:8000",
            )
    return named


def hosts_in_environment(env: Mapping[str, str]) -> Iterator[str]:
    """Yield the hosts that a launch's variables name as the place of a model or a registry, if their values are the user's own."""
    for name, value in env.items():
        if os.environ.get(name) == value and any(fnmatchcase(name, pattern) for pattern in _ADDRESSES):
            yield from _hosts_in(value)


@lru_cache(maxsize=64)
def _hosts_in(value: str) -> tuple[str, ...]:
    found = []
    for word in re.split(r"[,|\s]+", value):
        try:
            address = urlsplit(word)
            port = address.port or _PORTS.get(address.scheme)
        except ValueError:
            continue
        if address.hostname and port:
            found.append(f"{address.hostname}:{port}")
    return tuple(found)
