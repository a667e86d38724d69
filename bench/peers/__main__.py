"""`python -m bench.peers MODULE TASKS`: let a peer do the tasks, in its environment, and print what it cost.

The module is imported by its name, because its workers import it by that, too.
"""

from __future__ import annotations

import sys
from importlib import import_module

import_module(sys.argv[1]).main(int(sys.argv[2]))
