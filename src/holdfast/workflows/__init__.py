"""Workflows: ways of working as data. A workflow file and its inputs expand into an ordinary plan.

Pure over bytes, apart from the files that come with the package. Nothing here runs a plan, looks for input files or
knows where they came from: a document to work through arrives as a `Plan` that some reader made of it.
"""

from holdfast.workflows.expand import expand
from holdfast.workflows.library import builtin_names, builtin_workflow
from holdfast.workflows.model import InputDocument, Workflow, WorkflowInputs
from holdfast.workflows.reader import parse_workflow

__all__ = [
    "InputDocument",
    "Workflow",
    "WorkflowInputs",
    "builtin_names",
    "builtin_workflow",
    "expand",
    "parse_workflow",
]
