"""`land --pr`: push a run branch, and open a pull request with the user's `gh` or `glab`, or say what to open.

Those programs start in an empty folder and are told the repository by name: nothing that an agent left in the checkout or
in the repository's configuration takes part. If they fail, the branch is pushed all the same, and the user opens the page.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

import msgspec

from holdfast.cli.open_repo import OpenRepo
from holdfast.cli.output import CommandResult, command_result, note
from holdfast.cli.prompts import is_interactive, require_yes
from holdfast.core.ids import pushed_ref, short_name
from holdfast.core.status import RunStatus
from holdfast.errors import NeedsDecisionError
from holdfast.process.programs import ToolResult, run_tool
from holdfast.redaction import redact
from holdfast.repo.files import read_regular, write_durably
from holdfast.repo.git import Setting
from holdfast.repo.remotes import (
    HostedRepository,
    Remote,
    branch_at_remote,
    hosted_at,
    login_settings,
    push_branch,
    remote_for,
)
from holdfast.reporting.result_messages import pull_request_body, pull_request_title
from holdfast.runner.health import settings_since
from holdfast.runner.landing.result_landing import (
    LandingRequest,
    ResultToLand,
    nothing_landed,
    result_to_land,
    result_trailers,
)
from holdfast.views.text import one_line

_TOOL_S = 120.0
_ADDRESS = re.compile(r"https?://\S+")


@dataclass(frozen=True, slots=True)
class _PullRequest:
    """What a pull request is made of: the repository, the branches there, and the words."""

    hosted: HostedRepository
    branch: str
    target: str
    title: str
    body: Path


class _PushedTo(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run was pushed to before. The address may hold a password, so a digest of it is kept.

    `commits` were pushed there, or were about to be: it is written before a push, so a killed one is known as ours.
    """

    remote: str = ""
    address: str = ""
    commits: tuple[str, ...] = ()

    @classmethod
    def of(cls, remote: Remote, commits: tuple[str, ...] = ()) -> _PushedTo:
        address = hashlib.sha256(remote.url.encode("utf-8", "surrogateescape")).hexdigest()
        return cls(remote=remote.name, address=address, commits=commits)

    def is_at(self, remote: Remote) -> bool:
        """Tell whether this is about a remote, at the address that it has now."""
        return (self.remote, self.address) == (remote.name, _PushedTo.of(remote).address)


def make_pull_request(opened: OpenRepo, request: LandingRequest, args: Namespace) -> CommandResult:
    """Push a run's result and open a pull request for it. A second time, push what is new and find the pull request."""
    row = request.row
    result = result_to_land(opened.repo, opened.journal, request)
    if result.is_empty:
        return command_result(opened, row.run, nothing_landed(row, "there is nothing to push"))
    if row.status is not RunStatus.COMPLETED and not args.yes:
        raise NeedsDecisionError(
            f"run {row.run} is {row.status}, not completed",
            f"`holdfast resume {row.run}` finishes it; --yes pushes what there is",
        )
    before = _pushed_before(opened, row.run)
    remote = remote_for(opened.repo, result.target, args.remote or before.remote)
    new = _new_settings(opened)
    if not before.is_at(remote):
        _require_known(request, remote, new, args)
    branch = short_name(row.branch)
    target = branch_at_remote(opened.repo, remote, result.target)
    question = f"Push {branch} to {remote.name} ({remote.shown}) and open a pull request into {target}?"
    require_yes(question, args, "nothing was pushed")
    pushed = _push(opened, result, remote, branch, new)
    text = _write_text(opened, result)
    return _open(opened, result, remote, text, target, pushed=pushed)


def _push(opened: OpenRepo, result: ResultToLand, remote: Remote, branch: str, new: set[str]) -> bool:
    """Push a result; tell whether it was not there yet. That it may be ours is written before, the ref after it."""
    run, ref = result.row.run, pushed_ref(result.row.run, remote.name)
    before = _pushed_before(opened, run)
    recorded = (*(before.commits if before.is_at(remote) else ()), opened.repo.read_ref(ref))
    ours = {commit for commit in recorded if commit}
    intent = _PushedTo.of(remote, tuple(sorted(ours | {result.commit})))
    write_durably(opened.directory(run).pushed_to, msgspec.json.encode(intent))
    pushed = push_branch(
        opened.repo,
        remote,
        branch,
        result.commit,
        pushed_before=ours,
        trusted=_trusted(opened, new),
    )
    opened.repo.keep(ref, result.commit)
    return pushed


def _pushed_before(opened: OpenRepo, run: str) -> _PushedTo:
    """Return where the user had a run pushed to. If that is lost, or the remote is gone, the user is asked as at first."""
    try:
        before = msgspec.json.decode(read_regular(opened.directory(run).pushed_to), type=_PushedTo)
    except msgspec.MsgspecError:
        return _PushedTo()
    return before if f"remote.{before.remote}.url" in opened.repo.config.in_force else _PushedTo()


def _open(
    opened: OpenRepo, result: ResultToLand, remote: Remote, text: Path, target: str, *, pushed: bool
) -> CommandResult:
    """Open the pull request, or find it, or name the page where the user opens it."""
    run, branch, hosted = result.row.run, short_name(result.row.branch), hosted_at(remote.url)
    kept = {}
    detail = f"{run} is at {remote.name} as {branch}" + ("." if pushed else ", as before.")
    if hosted is not None:
        request = _PullRequest(hosted, branch, target, pull_request_title(result.row), text)
        url = _opened_by_tool(request)
        page = "" if url else hosted.compare_url(target, branch)
        kept = {"pull request": url, "open": page}
    if not any(kept.values()):
        detail += f" Open a pull request into {target} where {remote.name} is hosted."
    if not kept.get("pull request"):
        kept["text"] = str(text)
    return command_result(opened, run, detail, kept={name: where for name, where in kept.items() if where})


# -- which settings and addresses are the user's ----------------------------------------------------------------


def _new_settings(opened: OpenRepo) -> set[str]:
    """Return the settings of the repository that came after its first run began: an agent may have written them."""
    runs = opened.runs()
    return set(settings_since(opened.repo, opened.journal, runs[0].row.run)) if runs else set()


def _require_known(request: LandingRequest, remote: Remote, new: set[str], args: Namespace) -> None:
    """Raise NeedsDecisionError if an agent may have written the address, and nobody looks at it or named the remote."""
    if remote.setting in new and not args.remote and not (is_interactive() and not args.yes):
        raise NeedsDecisionError(
            f"the address of {remote.name} ({remote.shown}) is new in git since the first run began, by an agent or by you",
            f"if it is yours: `{request.command('--remote', remote.name)}`",
        )


def _trusted(opened: OpenRepo, new: set[str]) -> list[Setting]:
    settings = login_settings(opened.repo)
    unknown = sorted({key for key, _ in settings if key in new})
    if unknown:
        note(
            f"{', '.join(map(one_line, unknown))} of this repository came after the first run began and is not used; "
            "in your own configuration (`git config --global`) it would be"
        )
    return [(key, value) for key, value in settings if key not in new]


# -- the words, and the programs of the hosts -------------------------------------------------------------------


def _write_text(opened: OpenRepo, result: ResultToLand) -> Path:
    path = opened.directory(result.row.run).root / "pull-request.md"
    state = opened.journal.load(result.row.run).state()
    write_durably(path, pull_request_body(state, result_trailers(result)).encode("utf-8", "replace"))
    return path


def _opened_by_tool(request: _PullRequest) -> str:
    """Return the address of the pull request, which the host's program found or opened; empty if there is no such program."""
    tools = {"github": ("gh", _open_with_gh), "gitlab": ("glab", _open_with_glab)}
    if request.hosted.kind not in tools:
        return ""
    name, open_with = tools[request.hosted.kind]
    program = shutil.which(name)
    if program is None:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        found, said = open_with(program, Path(folder), request)
    if not found:
        note(f"`{name}` opened no pull request: {one_line(redact(said), 300) or 'it said nothing'}")
    return found


def _open_with_gh(program: str, folder: Path, request: _PullRequest) -> tuple[str, str]:
    which = ["--repo", f"{request.hosted.host}/{request.hosted.path}", "--head", request.branch]
    which += ["--base", request.target]
    listed = run_tool([program, "pr", "list", *which, "--state", "open", "--json", "url"], folder, _TOOL_S)
    if found := _first(listed, "url"):
        return found, ""
    words = ["--title", request.title, "--body-file", str(request.body)]
    made = run_tool([program, "pr", "create", *which, *words], folder, _TOOL_S)
    return _address_in(made), made.err or made.out


def _open_with_glab(program: str, folder: Path, request: _PullRequest) -> tuple[str, str]:
    which = ["--repo", f"https://{request.hosted.host}/{request.hosted.path}"]
    which += ["--source-branch", request.branch, "--target-branch", request.target]
    listed = run_tool([program, "mr", "list", *which, "--output", "json"], folder, _TOOL_S)
    if found := _first(listed, "web_url"):
        return found, ""
    words = ["--title", request.title, "--description", request.body.read_text(encoding="utf-8"), "--yes"]
    made = run_tool([program, "mr", "create", *which, *words], folder, _TOOL_S)
    return _address_in(made), made.err or made.out


def _first(listed: ToolResult, key: str) -> str:
    """Return the address of the first of the listed pull requests; empty if there is none, or no list."""
    try:
        found = json.loads(listed.out)[0][key]
    except (ValueError, LookupError, TypeError):
        return ""
    return found if listed.code == 0 and isinstance(found, str) and _ADDRESS.fullmatch(found) else ""


def _address_in(made: ToolResult) -> str:
    found = _ADDRESS.findall(made.out)
    return found[-1] if made.code == 0 and found else ""
