"""Lists of tasks that people have already: read once into a plan (`plan import`), never written back.

Pure over bytes. What a list marks as done is left out unless it is asked for: a plan is what remains to be done.
"""

from holdfast.formats.lists.kinds import ListKind, kind_of, read_list
from holdfast.formats.lists.model import Imported, LeftOut, Wishes

__all__ = ["Imported", "LeftOut", "ListKind", "Wishes", "kind_of", "read_list"]
