"""Names as stores hold them, as types: a codec refuses what cannot be one, whoever wrote it there.

What a store holds may come from somebody else, and these become folders, refs and words for git. The patterns are those of
`ids.py`, which loads no codec.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from holdfast.core.ids import ALL_RUN_BRANCHES, ID_PATTERN

Id = Annotated[str, msgspec.Meta(pattern=rf"\A{ID_PATTERN}\Z")]
"""The id of a run, a stage or a task."""
OptionalId = Annotated[str, msgspec.Meta(pattern=rf"\A({ID_PATTERN})?\Z")]
RunBranch = Annotated[str, msgspec.Meta(pattern=rf"\A{ALL_RUN_BRANCHES}{ID_PATTERN}\Z")]
"""The full ref of a run's branch."""
ObjectName = Annotated[str, msgspec.Meta(pattern=r"\A([0-9A-Za-z][0-9A-Za-z-]*)?\Z")]
"""The id of a commit or a tree, as git spells it; empty if there is none."""
BranchName = Annotated[str, msgspec.Meta(pattern=r"\A(?!-)[^\x00-\x20]*\Z")]
"""The name of a branch of the user's; empty if there is none."""
