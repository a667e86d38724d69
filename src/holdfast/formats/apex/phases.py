"""The phases that APEX knows: what each is for, and which of them may well change no file."""

from __future__ import annotations

import re

_WHAT = {
    "init": "Load what is known of the project: conventions, documents, tech stack, and what the task touches.",
    "analyze": "Find what exists for this task: patterns, files, dependencies, risks. Change nothing.",
    "plan": "Write the steps, the files to create and to modify, and the acceptance criteria. Change no code.",
    "execute": "Carry the plan out, step by step.",
    "validate": "Build, type-check and lint; mend what fails, and check every acceptance criterion.",
    "examine": "Review the work as an adversary would, and list what is wrong.",
    "resolve": "Mend what the examination found.",
    "security": "Look for vulnerabilities in what was changed, and mend those that are real.",
    "review": "Review the changes for correctness, clarity and fit, and mend what you find.",
    "tests": "Write the tests that this task needs.",
    "run-tests": "Run the tests and mend what fails until they pass.",
    "e2e-chrome": "Walk through the acceptance criteria in a browser, and mend what fails.",
    "playwright": "Write or update the end-to-end tests that run in CI.",
    "docs": "Bring the documentation up to date with the changes.",
    "cicd": "Check the CI pipeline against the changes, and update it where it needs to be.",
    "finish": "Sum up what was done, and see that nothing is left half-finished.",
    "brainstorm": "Explore the idea: users, scope, constraints, alternatives.",
    "prd": "Write the product requirements and the stories.",
    "architecture": "Decide and write down the architecture.",
    "scaffold": "Create the project's structure and boilerplate.",
    "mvp-implement": "Implement the stories of the first release.",
    "mvp-validate": "Build and check the first release; mend what fails.",
    "docker": "Write the container files.",
    "deploy": "Write the deployment manifests.",
}
_MAY_BE_EMPTY = re.compile(
    r"init|context|analy.*|plan|brainstorm|research|(.*-)?validate|security|review|examine|resolve|run-tests|e2e.*|"
    r"audit|check|verify|finish"
)

APEX = (
    ("0", "init"), ("1", "analyze"), ("2", "plan"), ("3", "execute"), ("4", "validate"), ("5", "security"),
    ("6", "review"), ("7", "tests"), ("8", "run-tests"), ("8b", "e2e-chrome"), ("8c", "playwright"), ("9", "docs"),
    ("10", "cicd"), ("11", "finish"),
)  # fmt: skip
APEX_INIT = (
    ("0", "init"), ("1", "brainstorm"), ("2", "prd"), ("3", "architecture"), ("4", "scaffold"), ("5", "validate"),
    ("6", "mvp-implement"), ("7", "mvp-validate"), ("7b", "e2e-chrome"), ("7c", "playwright"), ("8", "docker"),
    ("9", "deploy"), ("10", "cicd"), ("11", "docs"), ("12", "finish"),
)  # fmt: skip

FLAGS = (
    "auto",
    "examine",
    "tests",
    "security",
    "docs",
    "cicd",
    "pr",
    "save",
    "docker",
    "helm",
    "kustomize",
    "mvp",
)
_PHASE_OF_FLAG = {
    "examine": ("review", "examine"), "tests": ("tests",), "security": ("security",), "docs": ("docs",),
    "cicd": ("cicd",), "docker": ("docker",), "mvp": ("mvp-implement",),
}  # fmt: skip
_ALWAYS_ON = ("auto", "save")


def prompt_for(name: str) -> str:
    """Return what an agent is asked to do in a phase."""
    what = _WHAT.get(name.casefold(), "Do what this phase of the work is for.")
    return f"This is the phase `{name}`. {what}"


def may_be_empty(name: str) -> bool:
    """Tell whether a phase can be done without changing a file: looking, planning and checking can."""
    return _MAY_BE_EMPTY.fullmatch(name.casefold()) is not None


def flags_of(names: list[str]) -> dict[str, bool]:
    """Return the flags that ask for these phases: we save every phase and ask nothing in between."""
    return {
        flag: flag in _ALWAYS_ON or any(n in names for n in _PHASE_OF_FLAG.get(flag, ())) for flag in FLAGS
    }
