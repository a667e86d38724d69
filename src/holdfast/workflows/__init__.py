"""Workflows: ways of working as data. A workflow file and its inputs expand into an ordinary plan.

Only the workflow files of the package are read from disk. Nothing here runs a plan or looks for input files: a document
to work through arrives as a `Plan`.
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
