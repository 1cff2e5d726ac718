# Every target installs what it needs, from a fresh clone: a virtual environment, the tools, the
# package. Required on the machine: python3 (3.11 or later), a C compiler, make; cargo for Rust.

PYTHON ?= python3
VENV ?= .venv
LINT_VENV ?= .venv-lint
BIN := $(VENV)/bin
LINT := $(LINT_VENV)/bin
CARGO := $(shell command -v cargo 2>/dev/null)

ROOT_SOURCES := pyproject.toml meson.build meson.options README.md \
  $(shell find ranking plugins cli -type f -not -name '*.pyc')
RUST_SOURCES := $(shell find rust -type f -not -path '*/target/*' -not -name '*.pyc')

ifdef CARGO
DISTRIBUTIONS := . ./rust
KERNELS := cython,rust
NOTE := :
else
DISTRIBUTIONS := .
KERNELS := cython
NOTE := echo "cargo was not found: the Rust kernel is skipped. Install Rust (rustup), then run make again."
endif

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast dev dev-cython lint fuzz kill sanitize bench docs clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.installed: $(BIN)/python $(ROOT_SOURCES) $(RUST_SOURCES)
	@$(NOTE)
	$(BIN)/python -m pip install --quiet $(DISTRIBUTIONS)
	@touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --group test
	@touch $@

demo: $(VENV)/.installed ## install, train on a small data set, evaluate
	@$(NOTE)
	@$(BIN)/python -P examples/demo.py

# Two processes: the suite takes at most 10 minutes on 2 cores, test-fast at most 2 minutes, without
# the time of the installation. JOBS=0 runs the tests in one process.
JOBS ?= 2
PYTEST = RANKING_REQUIRE_KERNELS=$(KERNELS) $(BIN)/pytest -n $(JOBS) --dist loadgroup

test: $(VENV)/.tested ## install, run all tests
	@$(NOTE)
ifdef CARGO
	cargo test --quiet --manifest-path rust/Cargo.toml -p ranking-core
endif
	$(PYTEST) --durations=10

test-fast: $(VENV)/.tested ## install, run the tests that are neither slow nor build or reproduce
	@$(NOTE)
	$(PYTEST) -m "not slow and not reproduction and not native_build and not ray"

dev: $(BIN)/python ## editable install of both languages
	$(BIN)/python -m pip install --quiet --group build
	@$(NOTE)
	. $(BIN)/activate && pip install --quiet --no-build-isolation --group test -e . $(if $(CARGO),-e ./rust)
	@touch $(VENV)/.installed $(VENV)/.tested

dev-cython: ## editable install without Rust
	$(MAKE) dev CARGO=

$(LINT)/ruff: pyproject.toml
	$(PYTHON) -m venv $(LINT_VENV)
	$(LINT)/python -m pip install --quiet --upgrade pip
	$(LINT)/python -m pip install --quiet --group lint
	@touch $@

lint: $(LINT)/ruff ## ruff, mypy, cython-lint, import-linter, codespell, sizes, rustfmt, clippy
	$(LINT)/ruff check .
	$(LINT)/ruff format --check .
	$(LINT)/mypy
	PATH=$(abspath $(LINT)):$$PATH cython-lint --ban-relative-imports ranking
	PYTHONPATH=.:plugins:cli $(LINT)/lint-imports
	$(LINT)/codespell
	$(LINT)/python tools/count_code.py --check
ifdef CARGO
	cargo fmt --manifest-path rust/Cargo.toml --all --check
	cargo clippy --quiet --manifest-path rust/Cargo.toml --workspace --all-targets -- -D warnings
endif

# Mutated data files, models and checkpoints: SECONDS of them, the same for the same SEED.
FUZZ_SECONDS ?= 60
FUZZ_SEED ?= 0
fuzz: $(VENV)/.tested ## mutate data, model files and checkpoints for FUZZ_SECONDS
	$(BIN)/python tools/fuzz.py --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED) --keep build/fuzz

KILLS ?= 100
kill: $(VENV)/.tested ## kill KILLS trainings at random moments and resume them
	$(BIN)/python tools/kill_training.py --kills $(KILLS)

# The whole Cython kernel with address and undefined-behaviour sanitizers, in a build of its own.
# OpenMP's and Python's own leaks are not ours.
SANITIZED := build/sanitize
sanitize: $(VENV)/.tested ## kernel and parity tests with ASan and UBSan
	$(BIN)/pytest -q tests/unit/kernels/test_c_library.py
	$(BIN)/python -m pip install --quiet --group build
	. $(BIN)/activate && pip install --quiet --no-build-isolation --no-deps --target $(SANITIZED) --upgrade . \
	  -Csetup-args=-Db_sanitize=address,undefined -Csetup-args=-Db_lundef=false -Cbuild-dir=build/sanitize-objects
	cd $(SANITIZED) && LD_PRELOAD="$$(cc -print-file-name=libasan.so) $$(cc -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=. $(abspath $(BIN))/python -m pytest -q -p no:cacheprovider \
	  $(abspath tests/parity) $(abspath tests/unit/kernels) -k "cython or not rust"

bench: $(VENV)/.installed ## a quick asv run, every kernel side by side
	$(BIN)/python -m pip install --quiet --group bench
	cd asv_benchmarks && $(abspath $(BIN))/asv machine --yes && \
	  $(abspath $(BIN))/asv run --quick --show-stderr --python=same

docs: $(VENV)/.installed ## build the documentation into site/
	$(BIN)/python -m pip install --quiet --group docs
	$(BIN)/sphinx-build -W --keep-going --quiet docs site

clean: ## remove everything that make created
	rm -rf build $(VENV) $(LINT_VENV) site demo .asv asv_benchmarks/.asv rust/target \
	  .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
