# `make run` and `make test` do everything on a fresh Debian or Ubuntu machine; `make help` lists the rest.

VENV := .venv
PYTHON := $(VENV)/bin/python
PROGRAM := $(VENV)/.program
TEST := $(VENV)/.test
TEST_ALL := $(VENV)/.test-all
CONSTRAINTS ?= constraints.txt
PIP = $(PYTHON) -m pip install -q $(addprefix -c ,$(CONSTRAINTS))
PYTEST_ARGS ?=
SOAK_SECONDS ?= 3600
MINUTES ?= 10
UPSTREAM ?= hive42
N ?= 5000
STORE ?= sql
TIER ?= test
PACKAGES ?=
NEWEST ?= tests/store tests/follower tests/clients tests/server/test_bridge.py tests/ops/test_supervisor.py

.DEFAULT_GOAL := help
.PHONY: help install install-all servers servers-all run run-hive lint quick test test-all newest constraints coverage \
  planted soak model torture differential trino hive lakehouse bench bench-all docs docs-site clean
# Every test starts Python programs: with their byte code kept, each start takes half a second less.
unexport PYTHONDONTWRITEBYTECODE
WORKERS ?= 2
FIGURES ?=
PYTEST = $(PYTHON) -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder $(if $(FIGURES),--figures)

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What is installed: the program; with what make quick and make test need; with what make test-all and the rest need.
$(PROGRAM): pyproject.toml $(CONSTRAINTS)
	.ci/prepare $(VENV) program
	$(PIP) -e .
	touch $@

$(TEST): pyproject.toml $(CONSTRAINTS)
	.ci/prepare $(VENV) quick
	$(PIP) -e '.[test]'
	touch $(PROGRAM) $@

# gssapi is built from source: without optimizations, which tests do not need, in a third of the time.
$(TEST_ALL): pyproject.toml $(CONSTRAINTS)
	.ci/prepare $(VENV) extras
	CFLAGS=-O0 $(PIP) -e '.[test-all]'
	touch $(PROGRAM) $(TEST) $@

servers:
	@.ci/prepare $(VENV) test

servers-all:
	@.ci/prepare $(VENV) all

install: $(TEST) servers ## Create .venv with the package and what make test needs, Debian packages too

install-all: $(TEST_ALL) servers-all ## The same for make test-all

constraints: ## Rewrite constraints.txt: the newest versions that pyproject.toml allows
	rm -rf .venv-constraints
	.ci/prepare .venv-constraints extras
	.venv-constraints/bin/python -m pip install -q -e '.[test-all]'
	.venv-constraints/bin/python -m pip freeze --exclude-editable > constraints.txt
	rm -rf .venv-constraints

run: $(PROGRAM) ## Start the proxy with an embedded metastore (no JVM, no server) and a little data; Ctrl-C ends it
	@exec $(PYTHON) -m tests.demo

run-hive: install ## The same in front of a Hive 4 metastore on PostgreSQL
	@exec $(PYTHON) -m tests.demo --hive

lint: $(TEST) ## ruff, its format, and mypy (strict on the package; bodies are checked everywhere)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

quick: lint ## Lint, then the tests that start no server: under three minutes (FIGURES=1 keeps its figures in docs/)
	$(PYTEST) --tier quick $(PYTEST_ARGS)

test: install lint ## Lint, then a sample of all kinds of tests: Hive 4.2 on PostgreSQL and the embedded metastore (SEED=, FIGURES=1)
	$(PYTEST) --tier test $(PYTEST_ARGS)

test-all: install-all lint ## Lint, then the tests of every metastore, database and client; repeats are sampled (SEED=, FIGURES=1)
	$(PYTEST) --tier all $(PYTEST_ARGS)

coverage: $(if $(filter all every,$(TIER)),install-all,install) lint ## Run a tier (TIER=test, or all, AFTER=test) and keep which lines it reaches; `python -m tests.covered quick test all` compares
	$(PYTHON) -m tests.covered --run $(TIER) $(if $(AFTER),--after $(AFTER)) -n $(WORKERS) --dist loadgroup --no-loadscope-reorder $(PYTEST_ARGS)

planted: install ## Plant a fault in each package (PACKAGES="cache wire"); make test's tests must see it
	$(PYTHON) -m tests.planted_faults $(PACKAGES)

soak: install ## One hour (SOAK_SECONDS) of histories: readers checked while everything is written, stopped and killed
	HISTORY_SECONDS=$$(($(SOAK_SECONDS) / 3)) $(PYTHON) -m pytest $(PYTEST_ARGS) tests/history/test_history.py::test_no_violation \
	  tests/history/test_fleet.py::test_no_violation tests/write_ids/test_history.py::test_no_violation

model: install-all ## Check the models of the cache's rules, then each rule left out (tests/model/README.md)
	$(PYTHON) -m tests.model

torture: install ## Clients of two proxies while everything around these is broken, MINUTES=10 (SEED=, FIGURES=1)
	$(PYTHON) -m tests.torture $(if $(SEED),--seed $(SEED)) --minutes $(MINUTES) $(if $(FIGURES),--figures)

differential: install-all ## Compare N=5000 replies with UPSTREAM=hive42|hive31|hive23|hive23-postgresql|hive42-mariadb|hive40 (SEED=1 STORE=sql|thrift|ttl)
	$(PYTHON) -m tests.differential --upstream $(UPSTREAM) --seed $(or $(SEED),1) --reads $(N) --store $(STORE)

trino: install ## Trino through the proxy and past it: answers compared, calls counted; with TLS and Kerberos (900 MB of downloads; FIGURES=1)
	$(PYTHON) -m tests.clients.trino $(if $(FIGURES),--figures)
	$(PYTHON) -m tests.clients.trino_secured

hive: install-all ## Hive's own Driver through two proxies, and directly: answers compared, calls counted (FIGURES=1)
	$(PYTHON) -m tests.clients.hive_job $(if $(FIGURES),--figures)
	$(PYTHON) -m tests.clients.hive_tez

lakehouse: install ## Iceberg and Delta on Spark 4.1 through the proxy, each step read back (500 MB of downloads; FIGURES=1)
	$(PYTHON) -m tests.clients.lakehouse $(if $(FIGURES),--figures)

bench: install-all ## Measure proxy, metastore and CachedStore side by side (docs/benchmarks.md)
	$(PYTHON) -m benchmarks

BENCHMARKS = prewarm following curves backlog statistics store_partitions cache_size cache_filters expressions \
  write_ids strict strict_mode fleet fleet_reads secured access_log advise sidecar listening
bench-all: bench ## Measure everything else that docs/benchmarks.md shows, too
	$(PYTHON) -m benchmarks --only cold,listing,constraints,aggregates,filters
	set -e; for name in $(BENCHMARKS); do $(PYTHON) -m benchmarks.$$name --keep; done

newest: ## The newest versions of everything, in .venv-newest: quick, and tests of the wire, the store, the cache and clients
	rm -rf .venv-newest
	$(MAKE) VENV=.venv-newest CONSTRAINTS= install quick
	.venv-newest/bin/python -m pytest --tier test $(PYTEST_ARGS) $(NEWEST)

docs: $(TEST) ## Write the generated parts of docs/ again, from the code and from docs/figures/
	$(PYTHON) docs/build.py

docs-site: $(TEST) ## Build the documents as a site, in build/site; a dead link is an error
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build

clean: ## Remove what was built or installed here, the test bed's downloads too
	rm -rf $(VENV) .venv-newest .testbed .mypy_cache .ruff_cache .pytest_cache *.egg-info

-include idl/Makefile.inc
