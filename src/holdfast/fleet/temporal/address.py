"""The address of a fleet of many machines, and the names that both sides derive: of queues, launches and refs.

`temporal://HOST:PORT/NAMESPACE?git=URL` says where Temporal is and through which git server workspaces travel. `labels=a,b`
are those that a host must have, `ttl=S` is for how long a host may be out of touch before its launches are lost.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Self
from urllib.parse import parse_qs, urlsplit

from holdfast.errors import LaunchError, did_you_mean, quoted
from holdfast.fleet.protocol import LaunchKey

SCHEME = "temporal"
NO_SANDBOX = "workers run agents and checks without a sandbox so far"
_PORT = 7233
_NAMESPACE = "default"
_TTL_S = 120.0
_TTL_MIN_S = 3.0
_FENCED_AT = 0.6
_RENEWALS = 6
_RENEW_MAX_S = 2.0
_SAVES = 4
_OPTIONS = ("git", "labels", "ttl")
_EXAMPLE = "such as temporal://server:7233/default?git=ssh://git@server/exchange.git"


@dataclass(frozen=True, slots=True)
class LaunchLease:
    """How long a launch may go on while its host is out of touch, and what follows from that."""

    ttl_s: float

    @property
    def renew_s(self) -> float:
        """How often a host renews it. Often, because a renewal also tells the host that the launch is cancelled."""
        return min(self.ttl_s / _RENEWALS, _RENEW_MAX_S)

    @property
    def fenced_s(self) -> float:
        """After which time without a renewal the host ends the launch: well before anybody calls it lost."""
        return self.ttl_s * _FENCED_AT

    @property
    def save_s(self) -> float:
        """How often a host saves the work of a launch elsewhere: so much is lost with the host at the most."""
        return self.ttl_s / _SAVES


@dataclass(frozen=True, slots=True)
class FleetAddress:
    """A fleet of many machines, as a URL names it."""

    target: str
    namespace: str
    git: str
    labels: frozenset[str]
    lease: LaunchLease

    @classmethod
    def parse(cls, url: str) -> Self:
        """Return what a URL says. Raises LaunchError, with a hint."""
        parts = urlsplit(url)
        given = parse_qs(parts.query)
        try:
            port = parts.port or _PORT
            ttl_s = float(given.get("ttl", [str(_TTL_S)])[-1])
        except ValueError as error:
            raise LaunchError(f"{quoted(url)} is no address of a fleet: {error}", _EXAMPLE) from error
        for name in given:
            if name not in _OPTIONS:
                raise LaunchError(
                    f"a fleet has no option {quoted(name)}{did_you_mean(name, _OPTIONS)}", _EXAMPLE
                )
        if parts.scheme != SCHEME or not parts.hostname or ttl_s < _TTL_MIN_S:
            raise LaunchError(
                f"{quoted(url)} is no address of a fleet", f"{_EXAMPLE}; ttl is at least {_TTL_MIN_S:g}"
            )
        labels = frozenset(filter(None, given.get("labels", [""])[-1].split(",")))
        namespace = parts.path.strip("/") or _NAMESPACE
        return cls(
            f"{parts.hostname}:{port}", namespace, given.get("git", [""])[-1], labels, LaunchLease(ttl_s)
        )


def workflow_id(clone: str, key: LaunchKey) -> str:
    """Return the permanent name of a launch of one clone of a repository: Temporal takes it once."""
    return f"holdfast/{clone}/{key.run}/{key.owner}/{key.attempt}/{key.step}"


def host_queue(host: str) -> str:
    """Return the queue of one host alone: on a shared one, a host that was cut off swallows what another could do."""
    return f"holdfast-host-{host}"


def runner_queue(clone: str) -> str:
    """Return the queue on which the runners of a clone decide about its launches."""
    return f"holdfast-runner-{clone}"


def start_ref(clone: str, commit: str) -> str:
    """Return the ref at the git server that carries a workspace to a host. Two runners never write the same one."""
    return f"refs/holdfast/fleet/{clone}/start/{commit}"


def state_ref(clone: str, key: LaunchKey) -> str:
    """Return the ref at the git server that carries what a launch has done. Only its host writes there."""
    digest = hashlib.sha256(workflow_id(clone, key).encode()).hexdigest()[:24]
    return f"refs/holdfast/fleet/{clone}/state/{digest}"
