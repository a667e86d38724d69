"""`python -m holdfast`: the same as the `holdfast` command."""

from __future__ import annotations

import sys

from holdfast.cli.main import program

sys.exit(program())
