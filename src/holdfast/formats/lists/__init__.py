"""Lists of tasks that people have already: read once into a plan (`plan import`), never written back.

Pure over bytes. What a list marks as done is left out unless it is asked for: a plan is what remains to be done.
"""

from holdfast.formats.lists.kinds import ListKind, kind_of, read_list
from holdfast.formats.lists.model import ImportedPlan, ImportOptions, LeftOut

__all__ = ["ImportOptions", "ImportedPlan", "LeftOut", "ListKind", "kind_of", "read_list"]
