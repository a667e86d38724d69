"""`plan workflows`, and `run --workflow`: where a workflow and its input come from. The result is a plan like any other."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

import msgspec

from holdfast.agents.presets import agent_names, presets_of
from holdfast.cli.arguments import JSON, Arguments, positional
from holdfast.cli.installed_agents import choose_agent
from holdfast.cli.output import as_json, note
from holdfast.cli.plan_import import read_list_at
from holdfast.core.brief import clip
from holdfast.core.plan import ListKind, Plan
from holdfast.errors import ExitCode, HoldfastError, did_you_mean, quoted
from holdfast.formats.discovery import FILE_BYTES_MAX, find_sources
from holdfast.formats.model import ClaimedStatus, ForeignRun, format_of
from holdfast.formats.registry import SYSTEM_NAMES, System
from holdfast.plans import read_plan
from holdfast.views.text import count, one_line
from holdfast.workflows import (
    InputDocument,
    Workflow,
    WorkflowInputs,
    builtin_names,
    builtin_workflow,
    expand,
    parse_workflow,
)

_PLAN_READER = "plan"
READERS = (*SYSTEM_NAMES, *(kind.value for kind in ListKind), _PLAN_READER)
"""The names that `readers:` of a workflow takes: the five systems, the task lists, and our own plans."""

_NOTES_MAX = 5
_SPECIFICATION_CHARS = 40_000
_NOT_PLANNED = ("no-plan", "salvaged")
"""Findings that mean that a document has no valid plan: it is missing or only partly readable."""
_EXPECTED = ("state-missing",)
"""Findings that only matter when a run continues, not when it starts."""
_SPECIFICATIONS = ("spec.md", "requirements.md", "requirements.json")


ARGUMENTS: Arguments = (
    positional(
        "workflow", "print one to start from, or check a file of yours", metavar="NAME|FILE", nargs="?"
    ),
    JSON,
)


class WorkflowLine(msgspec.Struct, frozen=True, kw_only=True):
    """One workflow of what `plan workflows --json` prints; `text` is its source if it was named."""

    name: str
    about: str
    input: str
    text: str | None = None


def execute(args: Namespace) -> int:
    """List the workflows, print one that comes with Holdfast, or check a file of the user."""
    if args.json:
        names = builtin_names() if args.workflow is None else [args.workflow]
        lines = [_workflow_line(name, whole=args.workflow is not None) for name in names]
        print(as_json(lines if args.workflow is None else lines[0]))
    elif args.workflow is None:
        for name in builtin_names():
            found = parse_workflow(builtin_workflow(name), name, READERS)
            print(f"{name:<12} {found.about}")
            print(f"{'':<12} input: {found.input.help}")
        print("\n`holdfast plan workflows NAME` prints one to start your own from.")
    elif args.workflow in builtin_names():
        sys.stdout.write(builtin_workflow(args.workflow).decode())
    else:
        _describe(_workflow(args.workflow))
    return ExitCode.DONE


def _workflow_line(name: str, *, whole: bool) -> WorkflowLine:
    found = _workflow(name)
    text = builtin_workflow(name).decode() if whole and name in builtin_names() else None
    return WorkflowLine(name=found.name, about=found.about, input=found.input.help, text=text)


def plan_of_workflow(args: Namespace, checkout: Path) -> tuple[Plan, str]:
    """Return the plan that a workflow makes from the user's input, and the source that the run remembers."""
    workflow = _workflow(args.workflow)
    given = _given(workflow, args)
    flags = workflow.flags_chosen(
        *(names.replace(",", " ").split() for names in (args.with_flags, args.without_flags))
    )
    values = workflow.values_given(_values(args.values))
    document = _document(workflow, Path(given), checkout, args) if workflow.input.kind == "document" else None
    inputs = WorkflowInputs(given, document, flags, values)
    plan = expand(workflow, inputs, agent_names(presets_of(checkout)), _agent(workflow, checkout, args))
    return plan, f"workflow {workflow.name}: {given}".rstrip(": ")


def _workflow(named: str) -> Workflow:
    """Read a workflow: a built-in one by its name, or a file."""
    if named in builtin_names():
        return parse_workflow(builtin_workflow(named), f"workflow {named}", READERS)
    path = Path(named)
    if not path.is_file():
        raise HoldfastError(
            f"there is no workflow {quoted(named)}{did_you_mean(named, builtin_names())}",
            "`holdfast plan workflows` lists them; name a file of yours by its path",
        )
    with path.open("rb") as file:
        return parse_workflow(file.read(FILE_BYTES_MAX), named, READERS)


def _given(workflow: Workflow, args: Namespace) -> str:
    given = (
        " ".join((args.goal or args.plan or "").split()) if workflow.input.kind != "document" else args.plan
    )
    if not given and workflow.input.kind != "none":
        raise HoldfastError(
            f"workflow {workflow.name} needs its input: {workflow.input.help or workflow.input.kind}",
            f"give it after the options: `holdfast run --workflow {args.workflow} INPUT`",
        )
    return given or ""


def _values(pairs: list[str]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise HoldfastError(
                f"{quoted(pair)} sets nothing", 'write --set NAME=TEXT, such as --set check="make test"'
            )
    return {name: text for name, _, text in (pair.partition("=") for pair in pairs)}


def _agent(workflow: Workflow, checkout: Path, args: Namespace) -> str:
    """Return the agent: the user's choice, else the workflow's own, else the first one installed."""
    if args.agent and args.agent not in workflow.body.get("agents", {}):
        return choose_agent(args.agent, presets_of(checkout))
    tasks = [task for stage in workflow.body["stages"] for task in stage["tasks"]]
    if args.agent or "agent" in workflow.body or all("run" in task or "agent" in task for task in tasks):
        return str(args.agent)
    return choose_agent("", presets_of(checkout))


def _document(workflow: Workflow, path: Path, checkout: Path, args: Namespace) -> InputDocument:
    """Read the document with the first of the workflow's readers that can; a spec without a plan is planned first."""
    first_error: HoldfastError | None = None
    for reader in workflow.input.readers or READERS:
        try:
            document = _read(reader, path, checkout)
        except HoldfastError as error:
            first_error = first_error or error
        else:
            if any(stage.tasks for stage in document.plan.stages):
                return document
    if workflow.input.planned and (text := _specification(path)):
        from holdfast.cli.plan import plan_for_specification

        name = path.resolve().name if path.is_dir() else path.resolve().parent.name
        return InputDocument(name, plan_for_specification(name, text, checkout, args), text)
    raise first_error or HoldfastError(f"{path} names no task", "there is nothing to do in it")


def _read(reader: str, path: Path, checkout: Path) -> InputDocument:
    if reader == _PLAN_READER:
        return InputDocument(path.stem, read_plan(path, agent_names(presets_of(checkout))))
    if reader in {kind.value for kind in ListKind}:
        name, imported = read_list_at(path, checkout, ListKind(reader))
        return InputDocument(name, imported.plan)
    system = System(reader)
    source, *others = find_sources(path, checkout, {system: format_of(system)})
    if others:
        names = ", ".join(found.main for found in (source, *others[:_NOTES_MAX]))
        raise HoldfastError(f"{path} holds {len(others) + 1} of them: {names}", "name one of them")
    run = format_of(system).read(source.main, source.documents)
    if any(finding.kind in _NOT_PLANNED for finding in run.findings):
        raise HoldfastError(
            f"{path} holds no valid plan", "restore its plan, or use a workflow that plans its input first"
        )
    _print_findings(run, path)
    return InputDocument(run.name, run.plan, _specification(path))


def _print_findings(run: ForeignRun, path: Path) -> None:
    """Say what was guessed, and that tasks marked as done are done again."""
    notes = [finding for finding in run.findings if finding.kind not in _EXPECTED]
    for finding in notes[:_NOTES_MAX]:
        note(one_line(finding.sentence, 160))
    if done := sum(claim.standing is ClaimedStatus.DONE for claim in run.claims):
        note(
            f"{done} of {count(len(run.claims), 'task')} {'is' if done == 1 else 'are'} marked as done there. This run does them all again; "
            f"`holdfast adopt {path}` keeps what git proves."
        )


def _specification(path: Path) -> str:
    """Return the text of the specification in a folder, or beside a file; empty if there is none."""
    folder = path if path.is_dir() else path.parent
    spec = next((folder / name for name in _SPECIFICATIONS if (folder / name).is_file()), None)
    if spec is None:
        return ""
    with spec.open(encoding="utf-8", errors="replace") as file:
        return clip(file.read(FILE_BYTES_MAX), _SPECIFICATION_CHARS)


def _describe(workflow: Workflow) -> None:
    print(f"{workflow.name}: {workflow.about}")
    print(f"  input: {workflow.input.kind} {workflow.input.help}".rstrip())
    for name, flag in workflow.flags.items():
        print(f"  flag {name} ({'on' if flag.default else 'off'}) {flag.help}".rstrip())
    for name, value in workflow.values.items():
        print(f"  value {name} ({quoted(value.default)}) {value.help}".rstrip())
    print("The workflow is valid: `holdfast run --workflow FILE INPUT --dry-run` shows its plan.")
