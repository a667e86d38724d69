"""Remotes of the user: which one a branch belongs to, what its address says, and pushing one branch of a run to it.

Only this module sends anything anywhere, and only when the user asked for it. Addresses are shown without credentials.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from holdfast.errors import HoldfastError, NeedsDecisionError
from holdfast.redaction import redact
from holdfast.repo.git import Setting, decode_text
from holdfast.repo.repository import Repository

_SCP_ADDRESS = re.compile(r"(?:[^@/:]+@)?(?P<host>[^/:]+):(?P<path>(?!//|:).+)")
_WEB_SCHEMES = ("https", "http", "ssh", "git", "git+ssh")
_HOSTS = ("github", "gitlab", "bitbucket", "gitea")
_LIKE_GITEA = ("codeberg", "forgejo")
_SAID_CHARS = 600
# Settings of the repository itself that say how to log in. Some name programs, so whoever uses them looks who wrote them.
_FOR_PUSHING = re.compile(
    r"core\.sshcommand|ssh\.variant|core\.askpass|credential\..+|http\..+|url\..+\.(push)?insteadof"
)


@dataclass(frozen=True, slots=True)
class Remote:
    """A remote of the user, by name and address, and the setting that the address is from."""

    name: str
    url: str
    setting: str

    @property
    def shown(self) -> str:
        """The address without a user's name or password."""
        hosted = hosted_at(self.url)
        return f"{hosted.host}/{hosted.path}" if hosted is not None else redact(self.url)


@dataclass(frozen=True, slots=True)
class HostedRepository:
    """A repository on a host that people open in a browser."""

    host: str
    path: str

    @property
    def kind(self) -> str:
        """Which kind of host it is, by its name: `github`, `gitlab`, `bitbucket`, `gitea`, or empty."""
        named = next((name for name in (*_HOSTS, *_LIKE_GITEA) if name in self.host), "")
        return "gitea" if named in _LIKE_GITEA else named

    def compare_url(self, target: str, branch: str) -> str:
        """Return the page that offers to open a pull request; empty if the host is of no known kind."""
        into, what = quote(target, safe=""), quote(branch, safe="")
        compared = f"{quote(target)}...{quote(branch)}"
        top = f"https://{self.host}/{self.path}"
        pages = {
            "github": f"{top}/compare/{compared}?expand=1",
            "gitea": f"{top}/compare/{compared}",
            "bitbucket": f"{top}/pull-requests/new?source={what}&dest={into}",
            "gitlab": f"{top}/-/merge_requests/new?merge_request%5Bsource_branch%5D={what}"
            f"&merge_request%5Btarget_branch%5D={into}",
        }
        return pages.get(self.kind, "")


def hosted_at(url: str) -> HostedRepository | None:
    """Return the repository that an address names, without credentials and port; None for a path on this machine."""
    if "://" in url:
        parts = urlsplit(url)
        if parts.scheme not in _WEB_SCHEMES or not parts.hostname:
            return None
        host, path = parts.hostname, parts.path
    elif found := _SCP_ADDRESS.fullmatch(url):
        host, path = found["host"], found["path"]
    else:
        return None
    return HostedRepository(host.lower(), path.strip("/").removesuffix(".git"))


def remote_for(repo: Repository, target: str, named: str = "") -> Remote:
    """Return the remote to push to: the named one, that of the target branch, or `origin`. Raises HoldfastError."""
    settings = repo.config.in_force
    name = named or settings.get(f"branch.{target}.remote", "") or "origin"
    for setting in (f"remote.{name}.pushurl", f"remote.{name}.url"):
        if url := settings.get(setting, ""):
            return Remote(name, url, setting)
    known = sorted({key.split(".")[1] for key in settings if re.fullmatch(r"remote\..+\.url", key)})
    listed = f"known: {', '.join(known)}" if known else "this repository has none"
    raise HoldfastError(
        f"there is no remote {name}; {listed}",
        "`git remote add origin ADDRESS` adds one; --remote names another",
    )


def branch_at_remote(repo: Repository, remote: Remote, target: str) -> str:
    """Return what the target branch is called at a remote."""
    settings = repo.config.in_force
    if settings.get(f"branch.{target}.remote") == remote.name:
        return settings.get(f"branch.{target}.merge", target).removeprefix("refs/heads/")
    return target


def login_settings(repo: Repository) -> list[Setting]:
    """Return the settings of the repository itself that say how to log in, whoever wrote them there."""
    return [setting for setting in repo.config.local if _FOR_PUSHING.fullmatch(setting[0])]


def push_branch(
    repo: Repository,
    remote: Remote,
    branch: str,
    commit: str,
    *,
    pushed_before: Collection[str] = (),
    trusted: Sequence[Setting] = (),
) -> bool:
    """Make a branch at a remote hold `commit`; tell whether it had to change. Idempotent.

    It moves only from where we saw it, by compare-and-swap, and only if that is a commit that we pushed before: a branch
    of somebody else is never moved, not even forward. Raises NeedsDecisionError.
    """
    ref = f"refs/heads/{branch}"
    there = _commit_at(repo, remote, ref, trusted)
    if there == commit:
        return False
    if there and there not in pushed_before:
        raise NeedsDecisionError(
            f"{branch} at {remote.name} is at {there[:12]}, which Holdfast did not push: nothing was pushed",
            f"look at it; `git push {remote.name} :{branch}` removes it",
        )
    options = ("--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no")
    lease = f"--force-with-lease={ref}:{there}"
    done = repo.git.run_as_user(
        "push", *options, lease, _address(repo, remote), f"{commit}:{ref}", settings=trusted
    )
    if done.rc != 0:
        raise _refused(remote, "push to", done.stderr or decode_text(done.stdout))
    return True


def _commit_at(repo: Repository, remote: Remote, ref: str, trusted: Sequence[Setting]) -> str:
    asked = repo.git.run_as_user("ls-remote", "--refs", _address(repo, remote), ref, settings=trusted)
    if asked.rc != 0:
        raise _refused(remote, "reach", asked.stderr)
    return decode_text(asked.stdout).partition("\t")[0].strip()


def _address(repo: Repository, remote: Remote) -> str:
    """Return the address for git. A path is one from the checkout, where we do not run git."""
    path = repo.checkout / remote.url
    return str(path) if hosted_at(remote.url) is None and path.is_dir() else remote.url


def _refused(remote: Remote, doing: str, said: str) -> NeedsDecisionError:
    words = " ".join(redact(said).split())[-_SAID_CHARS:]
    return NeedsDecisionError(
        f"git could not {doing} {remote.name} ({remote.shown}): {words}",
        f"`git ls-remote {remote.name}` shows whether your own git can; then run the command again",
    )
