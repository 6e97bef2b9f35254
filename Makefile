# Needs python3 (3.11 or newer) with its venv module, make and git. Everything else comes from PyPI,
# and for the tests on Debian and Ubuntu from the distribution: see `system-packages`.
# Longer checks are commands with arguments, in docs/contributing/tests.md; others are nox sessions.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Processes that run tests at the same time. Those of `make test` wait for half of their time.
WORKERS ?= 2
test coverage: WORKERS = 3
# In the order of their names, so that the small files of tests/session and after are the last ones.
PARALLEL = -n $(WORKERS) --dist loadfile --no-loadscope-reorder
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
SOURCES := aiolead tests examples benchmarks docs/conf.py docs/_site noxfile.py

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint types docs coverage soak pictures bench system-packages

help: ## Lists the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.demo ## Elects a leader on the embedded server, and another one when that dies.
	$(BIN)/aiolead demo

test: lint ## Style, types and the tests of the promises, in less than five minutes; makes system-packages.
	@$(MAKE) --no-print-directory system-packages
	$(BIN)/mypy --python-version 3.11
	$(BIN)/mypy --python-version 3.11 examples/*.py
	$(BIN)/python -m pytest $(PARALLEL) --promises --durations 20 --durations-min 2

test-all: lint types ## Every test on every event loop and server, the wheel, other ZooKeepers; makes system-packages.
	@$(MAKE) --no-print-directory system-packages FOR=test-all
	$(BIN)/python -m pytest $(PARALLEL) --every-combination --durations 20 --durations-min 5
	AIOLEAD_CLIENT=aiozk $(BIN)/python -m pytest $(PARALLEL) tests/recipes
	@# The generations of ClickHouse Keeper, and RaftKeeper, as the embedded server imitates them.
	for engine in clickhouse-keeper:24.8 clickhouse-keeper:26.3 clickhouse-keeper:26.9 raftkeeper:2.3; do \
		$(BIN)/python -m pytest $(PARALLEL) --engine $$engine tests/client tests/recipes || exit; done
	tests/tools/try-wheel $(BIN)/python
	@# A version that cannot be fetched is in the table at the end.
	-$(BIN)/python tests/tools/fetch_zookeeper.py build/zookeepers
	PYTEST_ADDOPTS="-n $(WORKERS) --dist loadfile" $(BIN)/python tests/tools/every_zookeeper.py --others

lint: $(VENV)/.test ## Style, format, imports; spelling, prose and links of the pages; workflows.
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/lint-imports
	$(BIN)/codespell aiolead docs examples tests benchmarks changes *.md
	$(BIN)/python tests/tools/check_prose.py
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/docs/test_pages.py -k "links or fence"
	$(BIN)/zizmor --offline --quiet .github

types: $(VENV)/.dev ## mypy and pyright, for the oldest and the newest Python that is supported.
	$(BIN)/mypy --python-version 3.11
	$(BIN)/mypy --python-version 3.14
	$(BIN)/mypy --python-version 3.11 examples/*.py
	$(BIN)/pyright --pythonversion 3.11 --pythonpath $(BIN)/python
	$(BIN)/pyright --pythonversion 3.14 --pythonpath $(BIN)/python
	@# Whether users see the type of every public name.
	@mkdir -p build
	PATH="$(abspath $(BIN)):$$PATH" pyright --verifytypes aiolead --ignoreexternal >build/types.txt \
		|| { grep -B 1 -A 2 error build/types.txt; exit 1; }

docs: $(VENV)/.dev ## Builds the site from the pages and the docstrings, into build/site.
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -d build/doctrees docs build/site
	@echo "file://$(CURDIR)/build/site/index.html"

pictures: $(VENV)/.dev ## Takes the screenshots in docs/pictures again, with Chromium, on a quiet machine.
	$(BIN)/python docs/_site/dashboard_picture.py docs/pictures/dashboard.png docs/pictures/dashboard-path.png
	$(BIN)/python docs/_site/demo_picture.py docs/pictures/demo.svg

coverage: $(VENV)/.dev ## The lines and branches that `make test` reaches; BEFORE=another.json compares.
	@$(MAKE) --no-print-directory system-packages
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest $(PARALLEL) -q --promises
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage json --quiet -o build/coverage.json
	$(BIN)/python tests/tools/compare_coverage.py build/coverage.json $(BEFORE)

SCENARIOS ?= tests/assurance/simulation/scenarios.py:contend tests/assurance/simulation/scenarios.py:crowd \
	tests/assurance/simulation/scenarios.py:lockset \
	tests/assurance/simulation/scenarios_one_znode.py:one_znode \
	tests/assurance/simulation/scenarios_hostile.py:share_session \
	tests/assurance/simulation/scenarios_hostile.py:close_shared \
	tests/assurance/simulation/scenarios_hostile.py:hostile \
	tests/assurance/simulation/scenarios_hostile.py:threads
MINUTES ?= $(if $(SEEDS),,10)

soak: $(VENV)/.soak ## Simulates many schedules of faults: SEEDS=10000, MINUTES=60, SCENARIOS="...".
	$(BIN)/python -m aiolead.testing.simulation soak $(SCENARIOS) \
		$(if $(SEEDS),--seeds $(SEEDS)) $(if $(MINUTES),--minutes $(MINUTES)) \
		$(if $(FIRST),--first $(FIRST)) --report soak-report

bench: $(VENV)/.bench ## Measures aiolead and its peers, in 35 minutes (BENCH="--scale quick": 4); makes system-packages.
	@$(MAKE) --no-print-directory system-packages FOR=bench
	$(BIN)/python -m benchmarks run $(or $(BENCH),--minutes 35)

FOR ?= test

system-packages: $(VENV)/.test ## Installs what tests use, as root with apt: FOR=test (ZooKeeper, Java), test-all or bench.
	@tests/tools/system-packages $(BIN)/python $(FOR)

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

$(VENV)/.soak $(VENV)/.bench: $(VENV)/.%: pyproject.toml | $(VENV)/.dev
	$(PIP) install --group $*
	touch $@
