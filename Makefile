# Everything runs in a project-local venv; each target sets up what it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
FUSE   := $(VENV)/.fuse
BWRAP  := $(VENV)/.bubblewrap
SHELLS := $(VENV)/.shells
SERVERS := $(VENV)/servers/.ready
TOOLS  := $(VENV)/git-tools/.ready
CHROMIUM := $(VENV)/.chromium
AXE    := tests/web/page/node_modules/.ready
AGENTS := tests/agents/node_modules/.ready
MORE   := tests/agents/more/.ready
NPM    := npm install --no-save --no-progress --loglevel=error

# Tests start the program thousands of times; compiling it each time would double what they take.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo tools compiled test test-agents test-fleet check bench crash fuzz clean

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3 ..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { apt-get update --quiet && apt-get install --yes --quiet python3-venv; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(READY)

# Real agents for the tests. Where they cannot be had, their tests are skipped and say so.
$(AGENTS): tests/agents/package-lock.json
	@command -v npm >/dev/null || { apt-get update --quiet && apt-get install --yes --quiet nodejs npm; } || true
	@cd tests/agents && $(NPM) && touch $(notdir $(@D))/.ready || echo "no real agents: npm could not install them"

# A file system that lacks things, for the tests. Where FUSE cannot be had, its tests are skipped and say so.
$(FUSE): $(READY)
	@command -v fusermount3 >/dev/null || { apt-get update --quiet && apt-get install --yes --quiet fuse3; } || true
	touch $@

# The sandbox. Where bubblewrap cannot be had, its tests are skipped and say so.
$(BWRAP): $(READY)
	@command -v bwrap >/dev/null || { apt-get update --quiet && apt-get install --yes --quiet bubblewrap; } || true
	touch $@

# Shells whose completion is tested, and a terminal for the view in it. Where they cannot be had, their tests are skipped and say so.
$(SHELLS): $(READY)
	@command -v zsh >/dev/null && command -v fish >/dev/null && command -v tmux >/dev/null || \
	  { apt-get update --quiet && apt-get install --yes --quiet zsh fish tmux; } || true
	touch $@

# Redis, Valkey and Postgres. Where they cannot be had, their tests are skipped and say so.
$(SERVERS): $(READY) tests/support/install_servers.sh
	@tests/support/install_servers.sh $(@D) || true
	@mkdir -p $(@D) && touch $@

# A newer git, and git-lfs. Where they cannot be had, their tests are skipped and say so.
$(TOOLS): $(READY) tests/support/git_tools.sh
	@tests/support/git_tools.sh $(@D) || true
	@mkdir -p $(@D) && touch $@

# The browser that the page is tested in. Where it cannot be had, its tests are skipped and say so.
$(CHROMIUM): $(READY)
	@command -v chromium >/dev/null || { apt-get update --quiet && apt-get install --yes --quiet chromium; } || true
	touch $@

# What judges whether everybody can use the page. Where it cannot be had, its tests are skipped and say so.
$(AXE): tests/web/page/package-lock.json
	@command -v npm >/dev/null || { apt-get update --quiet && apt-get install --yes --quiet nodejs npm; } || true
	@cd tests/web/page && $(NPM) && touch $(notdir $(@D))/.ready || echo "no axe-core: npm could not install it"

# Agents from PyPI need different Pythons, each in an environment of its own. What cannot be had is skipped and says so.
$(MORE): tests/agents/more/package-lock.json
	@command -v npm >/dev/null || { apt-get update --quiet && apt-get install --yes --quiet nodejs npm; } || true
	cd tests/agents/more && $(NPM) || echo "no agents from npm here: it could not install them"
	cd tests/agents/more/older && $(NPM) || echo "no older agents from npm here: it could not install them"
	PYTHON=$(PYTHON) tests/agents/more/python_agent.sh aider aider-chat==0.86.2
	PYTHON=$(PYTHON) tests/agents/more/python_agent.sh mini mini-swe-agent==2.4.6 litellm==1.81.10
	PYTHON=$(PYTHON) tests/agents/more/python_agent.sh vibe mistral-vibe==3.0.2
	PYTHON=$(PYTHON) tests/agents/more/python_agent.sh openhands openhands==1.16.0
	touch $@

demo: $(READY)                ## thirty seconds: a plan runs, is killed, resumes
	$(BIN)/holdfast demo --crash

# What the tests need is fetched while types are checked and while pytest compiles the tests, once for all its workers.
# One worker more than processors: many tests wait for the processes that they start.
test: $(READY)                ## what CI runs
	@$(MAKE) --no-print-directory --jobs=3 --output-sync=target check tools compiled
	$(BIN)/python -m pytest -n $$(($$(nproc) + 1)) --dist worksteal -m 'not more_agents and not temporal'

# One after the other, also beside others: there is one apt on a machine.
tools: $(AGENTS) $(FUSE) $(BWRAP) $(SHELLS) $(SERVERS) $(TOOLS) $(CHROMIUM) $(AXE)
$(FUSE): | $(AGENTS)
$(BWRAP): | $(FUSE)
$(SHELLS): | $(BWRAP)
$(SERVERS): | $(SHELLS)
$(TOOLS): | $(SERVERS)
$(CHROMIUM): | $(TOOLS)

compiled: $(READY)
	@$(BIN)/python -m pytest --collect-only -qq > $(VENV)/collected || { cat $(VENV)/collected; exit 1; }

# What reads recordings is in `make test`. Work is stolen, because some agents take a hundred times as long as others.
test-agents: $(READY) $(AGENTS) $(BWRAP) $(MORE)  ## every real agent we can install, and which promise each one keeps
	$(BIN)/python -m pytest -p tests.agents.promise_report -n 2 --dist worksteal \
	  tests/agents/test_promises.py tests/agents/test_real_*.py tests/agents/test_claude_*.py tests/agents/test_acp.py

# They wait for leases of a few seconds, which a busy machine may not keep.
test-fleet: $(READY)          ## workers on a Temporal server
	$(BIN)/python -m pytest -n 2 --dist worksteal -m temporal

check: $(READY)               ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(READY)               ## figures, as a table and as JSON
	$(BIN)/python -m bench

crash: $(READY)               ## random kills, every crash point of every operation (docs/kill-matrix.md), every power cut
	$(BIN)/python -m tests.crash.chaos
	$(BIN)/python -m tests.crash.chaos --person
	$(BIN)/python -m tests.crash.command_pairs --rounds 30
	$(BIN)/python -m tests.crash.matrix
	$(BIN)/python -m tests.crash.power_cut --all
	$(BIN)/python -m tests.crash.power_cut --syncs

fuzz: $(READY)                ## 50,000 damaged files of other systems
	$(BIN)/python -m tests.formats.mutation

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache tests/crash/build \
	  tests/web/page/node_modules tests/agents/node_modules tests/agents/more/node_modules tests/agents/more/older/node_modules \
	  tests/agents/more/aider tests/agents/more/mini tests/agents/more/openhands tests/agents/more/vibe $(MORE)
