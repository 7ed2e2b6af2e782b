# Two commands do everything: `make demo` and `make test`. Both build .venv first if it is missing or stale.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.installed-bench

.PHONY: setup demo test test-slow coverage lint bench format clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "steep needs Python 3.11 or newer; run: make PYTHON=python3.11"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: $(STAMP)
	$(BIN)/steep demo --output demo

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# One thread for linear algebra: the suite is many small problems, on which threads only get in each other's way.
test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --quiet --durations=5 -m "not slow"

# Proofs that take longer, such as fifty kills of a running campaign.
test-slow: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --quiet -m slow tests

coverage: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --cov --cov-report=term --quiet

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(BENCH_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	touch $@

bench: $(BENCH_STAMP)
	$(BIN)/python benchmarks/neighbors.py

clean:
	rm -rf $(VENV) demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage
