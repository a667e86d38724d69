# Everything runs in a project-local venv; each target sets up what it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# Tests start the program thousands of times; compiling it each time would double what they take.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check bench crash clean

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3 ..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || apt-get install --yes --quiet python3-venv
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(READY)

demo: $(READY)                ## thirty seconds: a plan runs, is killed, resumes
	$(BIN)/holdfast demo --crash

test: check                   ## what CI runs
	$(BIN)/python -m pytest -n auto --dist worksteal

check: $(READY)               ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(READY)               ## figures, as a table and as JSON
	$(BIN)/python -m bench

crash: $(READY)               ## the long sweep: random kills, then every crash point
	$(BIN)/python -m tests.crash.chaos
	$(BIN)/python -m tests.crash.sweep --all

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache tests/crash/build
