"""CFN Loop: epics of sprints whose state lives in Redis, and the files that its releases leave in a project."""

from holdfast.formats.cfn.layout import PLACES, TRACES, companions
from holdfast.formats.cfn.read import read, recognises
from holdfast.formats.cfn.server import SERVER
from holdfast.formats.cfn.write import write
from holdfast.formats.model import ForeignFormat

__all__ = ["FORMAT", "companions", "read", "recognises", "write"]

FORMAT = ForeignFormat(
    title="CFN Loop",
    places=PLACES,
    traces=TRACES,
    recognises=recognises,
    companions=companions,
    read=read,
    write=write,
    server=SERVER,
)
