# Two commands do everything: `make demo` and `make test`. Both build .venv first if it is missing or stale.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.installed-bench
DOCS_STAMP := $(VENV)/.installed-docs

# One thread for linear algebra: the suite is many small problems, on which threads only get in each other's way.
# A test that hangs is ended, and fails, after five minutes.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --quiet --timeout=300
PROCESSES ?= 2

.PHONY: setup demo test test-slow test-versions coverage lint docs bench format clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "steep needs Python 3.11 or newer; run: make PYTHON=python3.11"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: $(STAMP)
	$(BIN)/python examples/demo.py demo

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(PYTEST) -n $(PROCESSES) --dist worksteal --durations=5 -m "not slow"

# Proofs that take longer, such as fifty kills of a running campaign.
test-slow: $(STAMP)
	$(PYTEST) --timeout=1200 -m slow tests

# Other Pythons that are installed, and the lowest versions that pyproject.toml allows; all without torch.
test-versions:
	$(PYTHON) .ci/versions.py $(VERSIONS)

# The slow proofs too, and in the end the floor that pyproject.toml states.
coverage: $(STAMP)
	$(PYTEST) --timeout=1200 -n $(PROCESSES) --dist worksteal --cov --cov-report=term

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

# The guide, every cell of it run; a warning is an error. Open docs/_build/html/index.html.
docs: $(DOCS_STAMP)
	PATH=$(abspath $(BIN)):$$PATH $(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

$(BENCH_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	touch $@

bench: $(BENCH_STAMP)
	$(BIN)/python benchmarks/neighbors.py run --part development
	$(BIN)/python benchmarks/neighbors.py summary

clean:
	rm -rf $(VENV) .venv-* demo docs/_build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage
