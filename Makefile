# What needs to be there: python3 (3.11 or newer) with its venv module, make and git. All else comes
# from PyPI, and for the tests on Debian and Ubuntu from the distribution.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SCENARIOS ?= tests/simulation/scenarios.py:contend tests/simulation/scenarios.py:crowd \
	tests/simulation/scenarios.py:lockset \
	tests/simulation/scenarios_one_znode.py:one_znode \
	tests/simulation/scenarios_hostile.py:share_session \
	tests/simulation/scenarios_hostile.py:close_shared \
	tests/simulation/scenarios_hostile.py:hostile \
	tests/simulation/scenarios_hostile.py:threads
MINUTES ?= $(if $(SEEDS),,10)
REPORT ?= soak-report
SECONDS ?= 60
# Processes that run tests at the same time. Those of `make test` wait for half of their time.
WORKERS ?= 2
test coverage: WORKERS = 3
# Each that docs/reference/support.md calls tested, for `make zookeepers`.
ZOOKEEPERS ?= 3.8.0 3.9.3 3.9.6
SOURCES := aiolead _aiolead_pytest.py tests examples benchmarks docs/conf.py docs/_site noxfile.py
# In the order of their names, so that the many small files of tests/unit are the last ones.
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint mypy types unit docs picture coverage soak chaos aiozk mutants fuzz verify bench bench-threads bench-quick zookeeper peers wheel zookeepers every-zookeeper oldest newest clean

help: ## Lists the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.demo ## Elects a leader on the embedded server, and another one when that dies.
	$(BIN)/aiolead demo

test: zookeeper lint mypy ## The promises, in less than five minutes: style, types, tests, a real ZooKeeper.
	$(PYTEST) --promises --durations 20 --durations-min 2

test-all: peers lint types ## Everything else: each test on every event loop and server, peers, browsers, frameworks, the wheel.
	$(PYTEST) --every-combination --durations 20 --durations-min 5
	$(MAKE) aiozk wheel every-zookeeper OTHERS=1

lint: $(VENV)/.test ## Style, format, imports; spelling, prose and links of the pages.
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/lint-imports
	$(BIN)/codespell aiolead docs examples tests benchmarks *.md
	$(BIN)/python tests/tools/check_prose.py
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/docs/test_pages.py -k "links or fence"

mypy: $(VENV)/.test ## The types alone, for the oldest Python that is supported.
	$(BIN)/mypy --python-version 3.11
	$(BIN)/mypy --python-version 3.11 examples/*.py

types: $(VENV)/.dev ## mypy and pyright, for the oldest and the newest Python that is supported.
	$(BIN)/mypy --python-version 3.11
	$(BIN)/mypy --python-version 3.14
	$(BIN)/pyright --pythonversion 3.11 --pythonpath $(BIN)/python
	$(BIN)/pyright --pythonversion 3.14 --pythonpath $(BIN)/python
	@# Whether users see the type of every public name.
	@mkdir -p build
	PATH="$(abspath $(BIN)):$$PATH" pyright --verifytypes aiolead --ignoreexternal >build/types.txt \
		|| { grep -B 1 -A 2 error build/types.txt; exit 1; }

unit: $(VENV)/.test ## Only the tests that need neither sockets nor Java.
	$(BIN)/python -m pytest tests/unit

docs: $(VENV)/.dev ## Builds the site from the pages and the docstrings, into build/site.
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -d build/doctrees docs build/site
	@echo "file://$(CURDIR)/build/site/index.html"

picture: $(VENV)/.dev ## Draws anew what the demo shows, docs/pictures/demo.svg, and the dashboard, docs/pictures/dashboard.png.
	$(BIN)/python docs/_site/demo_picture.py docs/pictures/demo.svg
	$(BIN)/python docs/_site/dashboard_picture.py docs/pictures/dashboard.png docs/pictures/dashboard-path.png

zookeeper: $(VENV)/.test ## Sees to it that there is a real ZooKeeper, or says how to get one.
	tests/tools/install-zookeeper $(BIN)/python

peers: $(VENV)/.dev ## The same for all that `make test-all` uses: Curator, Kerberos, Redis, tmux, Chromium.
	tests/tools/install-zookeeper $(BIN)/python everything

zookeepers: ## Fetches every supported ZooKeeper for the tests, into build: ZOOKEEPERS="3.9.3".
	$(PYTHON) tests/tools/fetch_zookeeper.py build/zookeepers $(ZOOKEEPERS)

every-zookeeper: zookeeper ## The tests with real servers, on every supported ZooKeeper; OTHERS=1: but the default.
	@# Versions that cannot be fetched are in the table at the end.
	-$(MAKE) zookeepers
	PYTEST_ADDOPTS="-n $(WORKERS) --dist loadfile" $(BIN)/python tests/tools/every_zookeeper.py $(if $(OTHERS),--others)

wheel: $(VENV)/.dev ## Builds the wheel and tries it in an environment with nothing else.
	tests/tools/try-wheel $(BIN)/python

coverage: zookeeper $(VENV)/.dev ## The lines and branches that `make test` alone reaches; BEFORE=another.json compares.
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -q --promises
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage json --quiet -o build/coverage.json
	$(BIN)/python tests/tools/compare_coverage.py build/coverage.json $(BEFORE)

soak: $(VENV)/.soak ## Simulates many schedules of faults: SEEDS=10000, MINUTES=60, SCENARIOS="...".
	$(BIN)/python -m aiolead.testing.simulation soak $(SCENARIOS) \
		$(if $(SEEDS),--seeds $(SEEDS)) $(if $(MINUTES),--minutes $(MINUTES)) \
		$(if $(FIRST),--first $(FIRST)) --report $(REPORT)

chaos: peers ## Processes and real servers under faults: SEEDS=5, RECIPES=aiolead,kazoo,curator.
	$(BIN)/python -m tests.chaos $(if $(SEEDS),--seeds $(SEEDS)) $(if $(RECIPES),--recipes $(RECIPES))

# What calls a dependency, in a few minutes: event loops, the command, the dashboard, the sinks.
DEPENDING ?= tests/unit tests/recipes/locks tests/recipes/election tests/client/test_client_connect.py \
	tests/client/test_client_hosts.py tests/blocking tests/cli/test_basics.py tests/cli/test_render.py \
	tests/cli/test_top.py tests/cli/test_dashboard.py

oldest: ## The tests that depend on other packages, with the lowest versions of those, in build/oldest.
	@mkdir -p build
	$(PYTHON) tests/tools/constraints.py >build/oldest.txt
	$(MAKE) build/oldest/.with-them CONSTRAINTS="--constraint build/oldest.txt"
	build/oldest/bin/python -m pytest -n $(WORKERS) --dist loadfile --promises $(DEPENDING)

newest: ## The same with the newest versions, in build/newest.
	$(MAKE) build/newest/.with-them CONSTRAINTS="--upgrade-strategy eager"
	build/newest/bin/python -m pytest -n $(WORKERS) --dist loadfile --promises $(DEPENDING)

.PHONY: build/oldest/.with-them build/newest/.with-them
build/oldest/.with-them build/newest/.with-them:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip --disable-pip-version-check --quiet install --upgrade 'pip>=25.1'
	$(@D)/bin/python -m pip --disable-pip-version-check --quiet install --upgrade $(CONSTRAINTS) \
		--editable '.[cli,trio]' --group check

aiozk: $(VENV)/.dev ## All tests of the recipes, over the adapter for aiozk's client.
	AIOLEAD_CLIENT=aiozk $(PYTEST) tests/recipes

mutants: $(VENV)/.dev ## Plants known bugs one by one, and publishes who notices (an hour or two).
	$(BIN)/python -m tests.mutants

fuzz: $(VENV)/.fuzz ## Feeds what reads the network with a coverage-guided fuzzer's bytes: SECONDS=600, TARGET=machine.
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(if $(TARGET),--target $(TARGET))

verify: zookeeper $(VENV)/.verify ## Model-checks the specifications in docs/spec, exhaustively (about 15 minutes): SPEC="lease".
	$(BIN)/python -m tests.spec $(SPEC)

bench: peers $(VENV)/.bench ## Measures everything beside its peers, on a quiet machine (about 35 minutes): BENCH="--scale quick".
	tests/tools/install-zookeeper $(BIN)/python benchmarks
	$(BIN)/python -m benchmarks run $(or $(BENCH),--minutes 35)

bench-threads: $(VENV)/.bench ## Measures aiolead.blocking beside kazoo in 1 to 32 threads, in two minutes.
	$(BIN)/python -m benchmarks run --settings standalone --out benchmark-report/threads \
		--workloads $(foreach n,1 2 4 8 16 32,threads-gets-$(n) threads-locks-$(n))

bench-quick: peers $(VENV)/.bench ## Measures the core of it, in less than four minutes.
	$(BIN)/python -m benchmarks run --scale quick

clean: ## Removes the environment and what tools left behind.
	rm -rf $(VENV) $(REPORT) screenshots benchmark-report fuzz-corpus fuzz-findings build dist .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache

# The stamps say what the environment holds; it is updated when the project's metadata change.

$(VENV)/.base:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "aiolead needs Python 3.11 or newer; set PYTHON to one" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade 'pip>=25.1'
	touch $@

$(VENV)/.demo: pyproject.toml | $(VENV)/.base
	$(PIP) install --editable '.[cli,trio]'
	touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/.base
	@echo "Installing into $(VENV): aiolead, pytest and what the tests of 'make test' import, ruff, mypy"
	$(PIP) install --editable '.[cli,trio]' --group check
	touch $@ $(VENV)/.demo

$(VENV)/.dev: pyproject.toml | $(VENV)/.base
	@echo "Installing into $(VENV): all that 'make test-all' uses (frameworks, browsers, pyright, Sphinx)"
	$(PIP) install --editable '.[cli,trio]' --group dev
	touch $@ $(VENV)/.test $(VENV)/.demo

$(VENV)/.verify: pyproject.toml | $(VENV)/.test
	$(PIP) install --group verify
	touch $@

$(VENV)/.bench: pyproject.toml | $(VENV)/.dev
	$(PIP) install --group bench
	touch $@

$(VENV)/.fuzz: pyproject.toml | $(VENV)/.dev
	$(PIP) install --group fuzz
	touch $@

$(VENV)/.soak: pyproject.toml | $(VENV)/.dev
	$(PIP) install --group soak
	touch $@
