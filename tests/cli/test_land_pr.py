"""`land --pr`: a run branch is pushed to a real remote, and a pull request is opened by the host's program, or by hand."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.command import Cli, Done, on_terminal, writes
from tests.support.repositories import git

RUN = "01-add-letters"
BRANCH = f"holdfast/{RUN}"

GH = """#!/bin/sh
printf '%s|' "$PWD" "$@" >> {log}; echo >> {log}
case "$1 $2" in
"pr list") if test -e {made}; then echo '[{{"url": "https://github.com/me/shop/pull/7"}}]'; else echo '[]'; fi;;
"pr create") touch {made}; while test $# -gt 0; do
  case "$1" in --body-file) cp "$2" {body};; esac; shift; done; echo https://github.com/me/shop/pull/7;;
esac
"""
GLAB = """#!/bin/sh
printf '%s|' "$@" >> {log}; echo >> {log}
case "$1 $2" in
"mr list") echo '[]';;
"mr create") echo 'Creating merge request'; echo https://gitlab.com/me/shop/-/merge_requests/3;;
esac
"""


@dataclass(frozen=True, slots=True)
class Hosted:
    """A user with a remote, which is a bare repository here under the address of a host, and the host's program, if any."""

    cli: Cli
    bare: Path
    folder: Path

    @property
    def env(self) -> dict[str, str]:
        """The user's own configuration and programs."""
        programs = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return {"GIT_CONFIG_GLOBAL": str(self.folder / "gitconfig"), "PATH": programs}

    def __call__(self, *words: str) -> Done:
        """Run a command as this user."""
        return self.cli(*words, **self.env)

    def at_remote(self) -> str:
        """Return the commit of the run branch at the remote; empty if it is not there."""
        return git(self.bare, "for-each-ref", "--format=%(objectname)", f"refs/heads/{BRANCH}").strip()

    def install(self, name: str, script: str) -> Path:
        """Put a stand-in for a host's program on the PATH; return the file with what it was told."""
        log = self.folder / f"{name}.log"
        program = self.folder / "bin" / name
        program.parent.mkdir(exist_ok=True)
        names = {"log": log, "made": self.folder / "made", "body": self.folder / "body.md"}
        program.write_text(script.format(**{key: shlex.quote(str(path)) for key, path in names.items()}))
        program.chmod(0o755)
        return log


def hosted(tmp_path: Path, address: str = "https://github.com/me/shop.git") -> Hosted:
    """Make a completed run of two tasks in a clone of a hosted repository."""
    cli = Cli.of(tmp_path / "p", writes("a", title="add a"), writes("b"), goal="Add letters", verify=["true"])
    bare = tmp_path / "shop.git"
    git(cli.here, "clone", "-q", "--bare", str(cli.here), str(bare))
    cli.project.git("remote", "add", "origin", address)
    instead = (
        f'[url "file://{bare}"]\n\tinsteadOf = {address}\n[user]\n\tname = Ada\n\temail = ada@example.org\n'
    )
    (tmp_path / "gitconfig").write_text(instead)
    made = Hosted(cli, bare, tmp_path)
    assert made("run", "--yes").code == 0
    return made


def test_without_a_word_nothing_is_pushed(tmp_path: Path) -> None:
    """Pushing shows work to others: it needs consent."""
    user = hosted(tmp_path)
    refused = user("land", "--pr")
    assert (refused.code, user.at_remote()) == (3, "")
    assert f"Push {BRANCH} to origin (github.com/me/shop) and open a pull request into main?" in refused.err


def test_a_remote_whose_address_is_a_path_from_the_checkout_is_reached(tmp_path: Path) -> None:
    """As the user's own git reaches it."""
    user = hosted(tmp_path)
    user.cli.project.git("remote", "set-url", "origin", "../shop.git")
    done = user("land", "--pr", "--yes", "--remote", "origin")
    assert done.code == 0, done.err
    assert user.at_remote() == user.cli.project.git("rev-parse", BRANCH)


def test_a_pull_request_is_opened_with_words_from_the_run(tmp_path: Path) -> None:
    """Title, tasks, checks and trailers; the program starts in an empty folder, not in the checkout."""
    user = hosted(tmp_path)
    log = user.install("gh", GH)
    done = user("land", "--pr", "--yes")
    assert (done.code, "pull request: https://github.com/me/shop/pull/7" in done.out) == (0, True)
    assert user.at_remote() == user.cli.project.git("rev-parse", BRANCH)
    create = log.read_text().splitlines()[-1].split("|")
    assert create[1:9] == ["pr", "create", "--repo", "github.com/me/shop", "--head", BRANCH, "--base", "main"]
    assert create[9:11] == ["--title", "Add letters"]
    assert not create[0].startswith(str(user.cli.here))
    body = (tmp_path / "body.md").read_text()
    assert "- a: add a\n- b" in body
    assert "## Checks that passed\n\n- `true`" in body
    assert f"Holdfast-Run: {RUN}\nHoldfast-Result: {user.at_remote()}" in body


def test_a_second_time_finds_the_pull_request(tmp_path: Path) -> None:
    """Nothing is pushed twice, and no second one is opened."""
    user = hosted(tmp_path)
    log = user.install("gh", GH)
    user("land", "--pr", "--yes")
    again = user("land", "--pr", "--yes")
    assert (again.code, "as before" in again.out) == (0, True)
    assert "pull request: https://github.com/me/shop/pull/7" in again.out
    assert log.read_text().count("|create|") == 1


def test_a_merge_request_is_opened_at_gitlab(tmp_path: Path) -> None:
    """With `glab`, which is told the branches."""
    user = hosted(tmp_path, "git@gitlab.com:me/shop.git")
    log = user.install("glab", GLAB)
    done = user("land", "--pr", "--yes")
    assert "pull request: https://gitlab.com/me/shop/-/merge_requests/3" in done.out
    said = log.read_text()
    assert f"|--source-branch|{BRANCH}|--target-branch|main|" in said
    assert "--repo|https://gitlab.com/me/shop|" in said


@pytest.mark.parametrize(
    ("address", "page"),
    [
        ("https://ada:s3cr3tpassword@github.com/me/shop.git", f"https://github.com/me/shop/compare/main...{BRANCH}"),
        ("ssh://git@gitlab.example.org:2222/group/sub/shop.git", "https://gitlab.example.org/group/sub/shop/-/merge_requests/new?"),
        ("git@bitbucket.org:me/shop.git", "https://bitbucket.org/me/shop/pull-requests/new?source="),
        ("https://codeberg.org/me/shop", "https://codeberg.org/me/shop/compare/main..."),
    ],
)  # fmt: skip
def test_without_a_program_the_page_to_open_is_named(tmp_path: Path, address: str, page: str) -> None:
    """The branch is pushed all the same; title and body are in a file; no password is shown."""
    user = hosted(tmp_path, address)
    (tmp_path / "empty").mkdir()
    env = user.env | {"PATH": "/usr/bin:/bin"}
    done = user.cli("land", "--pr", "--yes", **env)
    assert done.code == 0, done.err
    opened = done.out.split("open: ")[1].splitlines()[0]
    assert opened.replace("%2F", "/").startswith(page)
    assert "s3cr3tpassword" not in done.out + done.err
    assert user.at_remote() == user.cli.project.git("rev-parse", BRANCH)
    text = Path(done.out.split("text: ")[1].strip()).read_text()
    assert text.startswith("Add letters\n\n## Tasks")


def test_a_program_that_fails_leaves_the_page_to_open(tmp_path: Path) -> None:
    """Say what it said; what was pushed stays."""
    user = hosted(tmp_path)
    user.install("gh", "#!/bin/sh\necho you are not logged in >&2\nexit 4\n")
    done = user("land", "--pr", "--yes")
    assert (done.code, "you are not logged in" in done.err, "open: https://github.com" in done.out) == (
        0,
        True,
        True,
    )


def test_a_branch_of_somebody_else_is_not_overwritten(tmp_path: Path) -> None:
    """Same name, other work: refused, and it is as it was."""
    user = hosted(tmp_path)
    user.cli.project.git("checkout", "-q", "-b", "other")
    user.cli.project.write("theirs.txt", "x")
    theirs = user.cli.project.commit("theirs")
    git(user.cli.here, "push", "-q", str(user.bare), f"{theirs}:refs/heads/{BRANCH}")
    user.cli.project.git("checkout", "-q", "main")
    refused = user("land", "1", "--pr", "--yes")
    assert (refused.code, user.at_remote()) == (3, theirs)
    assert "which Holdfast did not push" in refused.err


def test_a_branch_of_somebody_else_is_not_moved_forward_either(tmp_path: Path) -> None:
    """Somebody made it where the run began: a pull request would take it over."""
    user = hosted(tmp_path)
    theirs = git(user.bare, "rev-parse", "main").strip()
    git(user.bare, "branch", BRANCH, "main")
    refused = user("land", "--pr", "--yes")
    assert (refused.code, user.at_remote()) == (3, theirs)
    assert "which Holdfast did not push" in refused.err


def test_a_push_of_which_no_record_was_left_is_known_as_ours(tmp_path: Path) -> None:
    """Killed after the push, before its ref is kept: what is pushed later replaces it all the same."""
    user = hosted(tmp_path)
    assert user("land", "--pr", "--yes").code == 0
    pushed = user.at_remote()
    user.cli.project.git("update-ref", "-d", f"refs/holdfast/{RUN}/pushed/origin")
    later = user.cli.project.git("commit-tree", f"{BRANCH}^{{tree}}", "-p", BRANCH, "-m", "later")
    user.cli.project.git("update-ref", f"refs/heads/{BRANCH}", later)
    done = user("land", "--pr", "--yes", "--accept-branch", later)
    assert (done.code, user.at_remote()) == (0, later), done.err
    assert pushed != later


def test_a_second_push_replaces_our_own_branch_alone(tmp_path: Path) -> None:
    """What we pushed before may be replaced, by compare-and-swap, even if the branch was rewritten since."""
    user = hosted(tmp_path)
    user("land", "--pr", "--yes")
    before = user.at_remote()
    rewritten = user.cli.project.git("commit-tree", f"{BRANCH}^{{tree}}", "-p", "main", "-m", "rewritten")
    user.cli.project.git("update-ref", f"refs/heads/{BRANCH}", rewritten)
    assert user("land", "--pr", "--yes", "--accept-branch", rewritten).code == 0
    assert (before != rewritten, user.at_remote()) == (True, rewritten)


def test_hooks_and_programs_of_the_repository_are_not_run_by_a_push(tmp_path: Path) -> None:
    """A hook and a setting that an agent planted take no part; the user is told of the setting."""
    user = hosted(tmp_path)
    touched = tmp_path / "touched"
    hook = user.cli.project.git_dir / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {touched}\n")
    hook.chmod(0o755)
    user.cli.project.git("config", "core.sshCommand", f"touch {touched};")
    user.cli.project.git("config", "credential.helper", f"!touch {touched}")
    done = user("land", "--pr", "--yes")
    assert (done.code, touched.exists()) == (0, False)
    assert "core.sshcommand" in done.err
    assert user.at_remote()


def test_an_address_that_came_with_a_run_is_not_taken_unseen(tmp_path: Path) -> None:
    """An agent can redirect a remote: without a look or a word for it, nothing goes there."""
    user = hosted(tmp_path)
    elsewhere = tmp_path / "elsewhere.git"
    git(user.cli.here, "clone", "-q", "--bare", str(user.bare), str(elsewhere))
    user.cli.project.git("remote", "set-url", "origin", str(elsewhere))
    refused = user("land", "--pr", "--yes")
    assert (refused.code, "is new in git since the first run began" in refused.err) == (3, True)
    assert git(elsewhere, "branch", "--list", "holdfast/*") == ""
    assert user("land", "--pr", "--yes", "--remote", "origin").code == 0
    assert git(elsewhere, "branch", "--list", "holdfast/*").split() == [BRANCH]


def test_the_remote_that_was_named_is_remembered_as_long_as_its_address_stays(tmp_path: Path) -> None:
    """A second push needs no second word; if somebody redirects the remote, it does."""
    user = hosted(tmp_path)
    user.cli.project.git("remote", "add", "fork", str(user.bare))
    assert user("land", "--pr", "--yes", "--remote", "fork").code == 0
    again = user("land", "--pr", "--yes")
    assert (again.code, f"{RUN} is at fork as {BRANCH}, as before." in again.out) == (0, True), again.err
    user.cli.project.git("remote", "set-url", "fork", str(tmp_path / "elsewhere.git"))
    refused = user("land", "--pr", "--yes")
    assert (refused.code, "the address of fork" in refused.err) == (3, True)
    user.cli.project.git("remote", "remove", "fork")
    assert user("land", "--pr", "--yes").code == 0


def test_what_an_agent_printed_last_is_no_description(tmp_path: Path) -> None:
    """The text has titles, and what agents reported of their work; not the end of a log."""
    report = f"{sys.executable} -P -m holdfast report summary 'Letters have a home.'"
    one = {"id": "a", "title": "add a", "run": ["sh", "-c", "echo a > a.txt; echo 100% of 7 files, bye"]}
    other = {"id": "b", "prompt": "write b", "title": "add b", "agent": "robot"}
    agents = {"robot": {"command": ["sh", "-c", f"echo b > b.txt; {report}; echo exit ok"]}}
    cli = Cli.of(tmp_path / "p", one, other, goal="Add letters", agents=agents)
    assert cli("run", "--yes").code == 0
    git(cli.here, "clone", "-q", "--bare", str(cli.here), str(tmp_path / "shop.git"))
    cli.project.git("remote", "add", "origin", str(tmp_path / "shop.git"))
    done = cli("land", "--pr", "--yes", "--remote", "origin")
    text = Path(done.out.split("text: ")[1].strip()).read_text()
    assert "- a: add a\n- b: add b\n\n### b\n\n> Letters have a home.\n" in text
    assert ("bye" in text, "exit ok" in text) == (False, False)


def test_a_program_in_the_place_of_an_address_is_refused(tmp_path: Path) -> None:
    """Git would run it."""
    user = hosted(tmp_path)
    user.cli.project.git("config", "remote.origin.url", f"ext::touch {tmp_path}/touched")
    user.cli.project.git("config", "protocol.ext.allow", "always")
    refused = user("land", "--pr", "--yes", "--remote", "origin")
    assert (refused.code, (tmp_path / "touched").exists()) == (3, False)


def test_the_target_and_remote_are_those_of_the_users_branch(tmp_path: Path) -> None:
    """`main` may follow `trunk` of another remote."""
    user = hosted(tmp_path)
    log = user.install("gh", GH)
    user.cli.project.git("remote", "rename", "origin", "up")
    user.cli.project.git("config", "branch.main.remote", "up")
    user.cli.project.git("config", "branch.main.merge", "refs/heads/trunk")
    assert user("land", "--pr", "--yes", "--remote", "up").code == 0
    assert "|--base|trunk|" in log.read_text()


def test_a_remote_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With those that are."""
    user = hosted(tmp_path)
    refused = user("land", "--pr", "--yes", "--remote", "nowhere")
    assert (refused.code, "there is no remote nowhere; known: origin" in refused.err) == (2, True)


def test_on_a_terminal_the_question_shows_where_it_goes(tmp_path: Path) -> None:
    """Yes pushes."""
    user = hosted(tmp_path)
    user.install("gh", GH)
    code, screen = on_terminal(user.cli, "land", "--pr", answers="y\n", **user.env)
    assert (code, "(github.com/me/shop)" in screen, user.at_remote() != "") == (0, True, True)
