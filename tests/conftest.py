"""What counts for every test: agents and checks are in no sandbox, unless a test is about that, and lines are as wide as in a pipe.

Most tests meet their agents at a FIFO or a file beside the project, which a sandbox hides. Workers of pytest-xdist set COLUMNS. It
is set while pytest starts, so it reaches every process that a test starts, too. So is the word for agents that refuse to work
for root outside of a sandbox: whoever runs the tests may be root. Ctrl-C ends what a test starts, also if the tests run in the
background of a shell, where it is ignored.
"""

from __future__ import annotations

import os
import signal

from holdfast.core.status import SandboxLevel
from holdfast.runner.sandbox_setting import SANDBOX_VARIABLE

os.environ.setdefault(SANDBOX_VARIABLE, SandboxLevel.OFF)
os.environ["IS_SANDBOX"] = "1"
os.environ.pop("COLUMNS", None)
signal.signal(signal.SIGINT, signal.default_int_handler)
