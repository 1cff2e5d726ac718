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
.PHONY: help demo test test-fast dev dev-cython lint fuzz fuzz-letor kill sanitize bench docs clean

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
# the time of the installation. A file is run by one process, so that its builds, clusters and data
# are not repeated. JOBS=0 runs all tests in one process.
JOBS ?= 2
PYTEST = RANKING_REQUIRE_KERNELS=$(KERNELS) $(BIN)/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

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

# The parser of LETOR text under libFuzzer, with what it found before in build/fuzz-letor/corpus.
CLANG ?= clang
LETOR := build/fuzz-letor
CYTHON_SOURCE := ranking/kernels/cython
LETOR_HEADERS := lanes dense random csr arena pairwise listwise sampling sparse_row bilinear \
  factored top_k alternating item_item shared_lists
fuzz-letor: $(BIN)/python ## fuzz the LETOR parser with libFuzzer (clang) for FUZZ_SECONDS
	$(BIN)/python -m pip install --quiet --group build
	mkdir -p $(LETOR)/corpus
	$(BIN)/python tools/headers_to_pxd.py $(LETOR_HEADERS:%=$(CYTHON_SOURCE)/src/%.h) $(LETOR)/c_library.pxd
	$(BIN)/cython -3 -Xboundscheck=False -Xwraparound=False -Xcdivision=True -Xinitializedcheck=False \
	  -I . -I $(LETOR) --module-name ranking.kernels.cython._letor $(CYTHON_SOURCE)/letor.pyx \
	  -o $(abspath $(LETOR))/letor.c
	prefix=$$($(BIN)/python -c "import sys; print(sys.base_prefix)"); \
	name=python$$($(BIN)/python -c "import sys; print('%d.%d' % sys.version_info[:2])"); \
	$(CLANG) -g -O1 -w -std=gnu11 -ffp-contract=off -fsanitize=fuzzer,address,undefined \
	  -fno-sanitize-recover=undefined -DLETOR_C='"$(abspath $(LETOR))/letor.c"' -I$$prefix/include/$$name \
	  -I$(CYTHON_SOURCE)/src tools/fuzzing/letor_fuzzer.c -L$$prefix/lib -Wl,-rpath,$$prefix/lib -l$$name -lm \
	  -o $(LETOR)/fuzzer
	ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=.:$$($(BIN)/python -c "import site; print(site.getsitepackages()[0])") \
	  $(LETOR)/fuzzer -max_total_time=$(FUZZ_SECONDS) -max_len=512 -timeout=5 -dict=tools/fuzzing/letor.dict \
	  $(LETOR)/corpus tests/safety/seeds/letor

KILLS ?= 100
kill: $(VENV)/.tested ## kill KILLS trainings at random moments and resume them
	$(BIN)/python tools/kill_training.py --kills $(KILLS)

# The whole Cython kernel with address and undefined-behaviour sanitizers, in a build of its own. A
# program that is wrong on purpose must be reported first. OpenMP's and Python's own leaks are not
# ours. SANITIZED_TESTS may name fewer tests.
SANITIZED := build/sanitize
SANITIZED_TESTS ?= tests/parity tests/unit/kernels
SANITIZED_PYTHON = cd $(SANITIZED) && \
  LD_PRELOAD="$$(cc -print-file-name=libasan.so) $$(cc -print-file-name=libubsan.so)" \
  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 PYTHONPATH=. \
  $(abspath $(BIN))/python
sanitize: $(VENV)/.tested ## kernel and parity tests with ASan and UBSan
	$(BIN)/pytest -q tests/unit/kernels/test_c_library.py
	$(BIN)/python -m pip install --quiet --group build
	. $(BIN)/activate && pip install --quiet --no-build-isolation --no-deps --target $(SANITIZED) --upgrade . \
	  -Csetup-args=-Db_sanitize=address,undefined -Csetup-args=-Db_lundef=false -Cbuild-dir=build/sanitize-objects
	! ($(SANITIZED_PYTHON) $(abspath tests/safety/wrong_on_purpose.py)) > build/sanitize.log 2>&1
	grep -q "AddressSanitizer: heap-buffer-overflow" build/sanitize.log
	$(SANITIZED_PYTHON) -m pytest -q -p no:cacheprovider $(abspath $(SANITIZED_TESTS)) -k "cython or not rust" \
	  --ignore $(abspath tests/unit/kernels/test_c_library.py)

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
