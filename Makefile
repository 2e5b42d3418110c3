# Every target sets up what it needs; `make` alone lists them.
PY := .venv/bin/python
PYTEST := $(PY) -m pytest
ARGS ?=
# Three processes for two processors: one or the other always waits for Java or a server. A group of
# tests (tests/plugins/selection.py) has one process; all processes must collect tests in the same order.
PARALLEL := PYTHONHASHSEED=0 $(PYTEST) -n 3 --dist loadgroup --no-loadscope-reorder

# An activated or inherited environment must not leak into the project's own.
unexport VIRTUAL_ENV CONDA_PREFIX PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE \
	UV_PYTHON UV_SYSTEM_PYTHON UV_PROJECT_ENVIRONMENT

# A company's certificate authority is in the system's store, which uv reads only when told.
export UV_SYSTEM_CERTS ?= 1

.DEFAULT_GOAL := help
.PHONY: help setup serve test test-all test-rest check format unit conformance integration faults bench soak \
	scoreboard docs lock demo proto

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: ## install everything into .venv from the lock; quick if nothing changed
	@sh tools/setup.sh

serve: setup ## run the server; ARGS="--port 9000" adds options
	@exec .venv/bin/jetbridge serve $(ARGS)

test: setup ## one test of every kind and requirement; ten minutes
	$(PARALLEL) $(ARGS)

test-all: setup ## all tests but those of soak; half an hour
	$(PARALLEL) -m "not soak" $(ARGS)

test-rest: setup ## the tests of test-all that test leaves out
	$(PARALLEL) -m "full and not soak" $(ARGS)

check: setup ## formatter, linter, types, import rules, spelling, lock
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	.venv/bin/lint-imports --no-logo
	.venv/bin/codespell
	$(PY) tools/lock.py check

format: setup ## format the code and fix what the linter can
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

unit: setup ## the quick tests; seconds
	PYTHONHASHSEED=0 $(PYTEST) -n 2 tests/unit $(ARGS)

conformance: setup ## one suite over every backend, by the capabilities that it claims
	$(PYTEST) tests/conformance $(ARGS)

integration: setup ## server and client over real sockets
	$(PYTEST) tests/integration $(ARGS)

faults: setup ## cut streams, killed peers, slow readers
	$(PYTEST) tests/faults $(ARGS)

bench: setup ## measure, and write benchmarks/results; ARGS=lake or ARGS=service runs a part
	$(PY) -m benchmarks $(ARGS)

scoreboard: setup ## queries as stages in plain DuckDB, compared; ARGS="--tests WORKTREE" adds DuckDB's own
	nice $(PY) -m benchmarks.scoreboard $(ARGS)

soak: setup ## the tests that run for minutes
	$(PYTEST) -m soak $(ARGS)

docs: setup ## build the site of docs/ into site/, and check that documents and code agree
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build
	$(PYTEST) tests/unit/project/test_docs.py tests/unit/project/test_reference.py $(ARGS)

demo: setup ## load data, CREATE TABLE AS on Spark, UPDATE, time travel; leaves nothing behind
	@sh examples/demo.sh

lock: setup ## rewrite requirements.lock; ARGS="--upgrade" uses newer versions
	$(PY) tools/lock.py write $(ARGS)

proto: setup ## regenerate the Flight messages from flight.proto
	cd src && ../$(PY) -m grpc_tools.protoc -I. --python_out=. --pyi_out=. jetbridge/wire/flight.proto
