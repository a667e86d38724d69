"""The environment of agents and checks: an allow-list of the user's variables, `pass_env`, and our own.

What belongs to an agent session around Holdfast is never passed on (`core/session_variables.py`).

An agent may follow a stranger's text, and a check runs what an agent wrote. So neither gets a secret that the
user did not give it. A plan names everything else that it needs in `pass_env`. Two other places add
variables: `launch.py` those of the agent's preset, `process/spawn.py` the token.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from holdfast.core.session_variables import is_of_session
from holdfast.fleet.protocol import LaunchKey
from holdfast.redaction import holds_a_secret, names_a_secret
from holdfast.runner.store_choice import OF_STORES

_ORDINARY = frozenset((
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "LANG", "LANGUAGE", "TERM", "COLORTERM", "NO_COLOR",
    "FORCE_COLOR", "TZ", "TMPDIR", "TEMP", "TMP", "CI", "EDITOR", "PAGER", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY",
    "SOURCE_DATE_EPOCH", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "CC", "CXX", "CPP", "CFLAGS", "CXXFLAGS", "CPPFLAGS",
    "LDFLAGS", "MAKEFLAGS", "DOCKER_HOST", "VIRTUAL_ENV", "JAVA_HOME", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
))  # fmt: skip
_ORDINARY_FAMILIES = (
    "LC_", "XDG_", "SSL_CERT_", "PYTHON", "PYENV_", "CONDA_", "PIP_", "UV_", "POETRY_", "PYTEST_", "COVERAGE_",
    "NODE_", "NPM_", "npm_", "NVM_", "FNM_", "VOLTA_", "PNPM_", "YARN_", "BUN_", "DENO_", "CGO_", "CARGO_",
    "GOPATH", "GOROOT", "GOBIN", "GOCACHE", "GOMODCACHE", "GOENV", "GOFLAGS", "GOPROXY", "GOPRIVATE", "GONOPROXY", "GONOSUM",
    "GOSUM", "GOTOOL", "GOWORK", "GOOS", "GOARCH", "GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG", "GOEXPERIMENT",
    "RUST", "CMAKE_", "MAVEN_", "GRADLE_", "SDKMAN_", "ANDROID_", "DOTNET_", "RUBY", "GEM_", "BUNDLE_", "RBENV_",
    "PHP", "COMPOSER_", "ASDF_", "MISE_", "NIX_", "HOMEBREW_", "PLAYWRIGHT_", "CHROME_",
)  # fmt: skip
"""What programs and tool chains need to run at all. A variable that holds a secret is not ordinary."""

_AGENT_GIT_CONFIG = {
    # Auto-gc starts a session of its own and would outlive the attempt that caused it.
    "gc.auto": "0",
    "maintenance.auto": "false",
}


def attempt_environment(
    key: LaunchKey, workspace: Path, brief: Path | None, pass_env: tuple[str, ...]
) -> dict[str, str]:
    """Return the environment of one attempt's processes. `pass_env` names variables, or families as `NAME_*`."""
    env = {name: value for name, value in os.environ.items() if _is_passed(name, value, pass_env)}
    env |= _git_settings() | _search_path()
    # Git must never walk up from a damaged workspace into the user's own repository.
    env["GIT_CEILING_DIRECTORIES"] = str(workspace.parent)
    env |= {
        "HOLDFAST_RUN": key.run,
        "HOLDFAST_TASK": key.owner,
        "HOLDFAST_ATTEMPT_NUMBER": str(key.attempt),
        "HOLDFAST_WORKSPACE": str(workspace),
    }
    if brief is not None:
        env["HOLDFAST_BRIEF"] = str(brief)
    return env


def withheld_variables(pass_env: tuple[str, ...]) -> list[str]:
    """Return the variables that agents would get if there were no credentials in them, such as a proxy's password."""
    return sorted(
        name
        for name, value in os.environ.items()
        if _is_ordinary(name)
        and not names_a_secret(name)
        and holds_a_secret(name, value)
        and not _is_wanted(name, pass_env)
    )


def _is_passed(name: str, value: str, wanted: tuple[str, ...]) -> bool:
    if name.startswith("GIT_") or _is_of_session(name) or name in OF_STORES:
        return False  # these would point git, or the agent, somewhere else, or to where runs are kept
    return _is_wanted(name, wanted) or (_is_ordinary(name) and not _holds_a_secret(name, value))


def _is_wanted(name: str, wanted: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in wanted)


def _is_ordinary(name: str) -> bool:
    return name in _ORDINARY or name.startswith(_ORDINARY_FAMILIES)


# Every launch asks about the same variables.
_is_of_session = lru_cache(maxsize=1024)(is_of_session)
_holds_a_secret = lru_cache(maxsize=1024)(holds_a_secret)


@lru_cache
def _search_path() -> dict[str, str]:
    """Let agents find the `holdfast` command, even if it was started from an inactive environment."""
    path = os.environ.get("PATH", os.defpath)
    ours = sysconfig.get_path("scripts")
    return {"PATH": path if shutil.which("holdfast", path=path) else f"{path}{os.pathsep}{ours}"}


def _git_settings() -> dict[str, str]:
    settings = {"GIT_CONFIG_COUNT": str(len(_AGENT_GIT_CONFIG)), "GIT_TERMINAL_PROMPT": "0"}
    for index, (key, value) in enumerate(_AGENT_GIT_CONFIG.items()):
        settings[f"GIT_CONFIG_KEY_{index}"] = key
        settings[f"GIT_CONFIG_VALUE_{index}"] = value
    return settings
