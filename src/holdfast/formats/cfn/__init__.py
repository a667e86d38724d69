"""CFN Loop: epics of sprints whose state lives in Redis, and the files that its releases leave in a project."""

from holdfast.formats.cfn.layout import PLACES, TRACES, companions
from holdfast.formats.cfn.read import read, recognises
from holdfast.formats.cfn.write import write

__all__ = ["PLACES", "TRACES", "companions", "read", "recognises", "write"]
