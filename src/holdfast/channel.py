"""The report channel between agents and the runner: the names and bounds that both of its ends agree on.

An agent appends one JSON line per report to a file inside its workspace, because that is where any sandbox lets it
write. A leaf module, and a light one: `holdfast report` must start at once.
"""

from __future__ import annotations

REPORT_VARIABLE = "HOLDFAST_REPORT"
"""Names the file to append to; it is set for agents and validators alone."""
BELL_VARIABLE = "HOLDFAST_BELL"
"""Names the FIFO that wakes the runner, if one listens and the sandbox lets the agent reach it."""
REPORT_FILE = "report.jsonl"

LINE_BYTES_MAX = 64 * 1024
CONTRACT_BYTES_MAX = 32 * 1024
FILE_BYTES_MAX = 4 * 1024 * 1024
