# `make` alone lists what there is. Everything is locked; the only things taken from the system are Python 3.11 or newer,
# cargo and a C++ compiler.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
MODEL ?= smollm2
ARGS ?=
TESTS ?= tests
export PATH := $(BIN):$(PATH)
export PYO3_PYTHON := $(BIN)/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1
PIP_LOCKED := $(BIN)/python -m pip install --quiet --require-hashes --only-binary :all:
NATIVE := $(shell find frontend-rs bindings csrc -type f \( -name '*.rs' -o -name '*.toml' -o -name '*.py' -o -name '*.cpp' \
	-o -name '*.hpp' -o -name '*.txt' \) 2>/dev/null) Cargo.toml Cargo.lock pyproject.toml

.DEFAULT_GOAL := help
.PHONY: help serve test quick dev lint format bench wheel requirements interop lock generate clean rust-test python-test

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | sed -E 's/:.*## /\t/' | expand -t 16

serve: $(VENV)/installed-release ## Build, then serve a model (MODEL=smollm2 ARGS="--port 8000")
	@exec $(BIN)/vllm-rs serve $(MODEL) $(ARGS)

test: lint rust-test python-test ## Everything that must pass: lints, Rust tests, Python and end-to-end tests

quick: $(VENV)/installed-ci $(VENV)/test-tools ## The Python tests without the slow ones
	$(BIN)/python -m pytest -m "not slow" $(TESTS)

dev: $(VENV)/build-tools ## Editable install with a fast, unoptimised Rust build
	VLLM_RS_CARGO_PROFILE=dev $(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --editable .
	@rm -f $(VENV)/installed-*

lint: $(VENV)/test-tools ## Formatters and linters, warnings as errors
	cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets --locked -- --deny warnings
	ruff check .
	ruff format --check .
	mypy
	find csrc -name '*.cpp' -o -name '*.hpp' | xargs clang-format --dry-run --Werror

format: $(VENV)/test-tools ## Format all sources
	cargo fmt --all
	ruff check --fix --quiet .
	ruff format .
	find csrc -name '*.cpp' -o -name '*.hpp' | xargs clang-format -i

rust-test:
	cargo test --quiet --locked --profile ci

python-test: export VLLM_RS_WERROR := ON
python-test: $(VENV)/installed-ci $(VENV)/test-tools
	$(BIN)/python -m pytest $(TESTS)

bench: $(VENV)/installed-release ## Measure every kernel against the limits of this machine
	$(BIN)/python benchmarks/micro/kernels.py $(ARGS)

wheel: $(VENV)/build-tools ## Build the wheel and the sdist into dist/
	$(BIN)/python -m pip wheel --no-build-isolation --no-deps --wheel-dir dist .
	$(BIN)/python -c 'import sys; sys.path.insert(0, "bindings/build_backend"); import conductor; conductor.build_sdist("dist")'
	@ls -l dist

requirements: ## Count the rows of docs/requirements.md that something shows
	@$(PYTHON) scripts/requirements.py $(ROWS)

interop: $(VENV)/installed-release $(VENV)/test-tools ## Smoke tests against an unmodified vLLM (needs one, see tests/interop)
	$(BIN)/python -m pytest -s tests/interop

generate: $(VENV)/test-tools ## Write the files that come from frontend-rs/flags/flags.toml
	$(BIN)/python frontend-rs/flags/generate.py

lock: $(VENV)/test-tools ## Refresh the locked Python requirements
	$(BIN)/python scripts/lock.py

clean: ## Remove what was built here (not the model cache)
	rm -rf build dist target $(VENV)
	find engine -name '*.so' -delete

$(VENV)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/build-tools: requirements/runtime.lock requirements/build.lock | $(VENV)/python
	$(PIP_LOCKED) --requirement requirements/build.lock --requirement requirements/runtime.lock
	@touch $@

$(VENV)/test-tools: requirements/test.lock | $(VENV)/build-tools
	$(PIP_LOCKED) --requirement requirements/test.lock
	@touch $@

# One installation at a time, in the profile that was asked for last. pip hides what it builds, so cargo goes first, in sight.
$(VENV)/installed-%: $(NATIVE) | $(VENV)/build-tools
	@command -v cargo > /dev/null || { echo "cargo not found: install Rust from https://rustup.rs, then open a new shell"; exit 1; }
	@command -v c++ > /dev/null || { echo "no C++ compiler: install g++ 12 or newer, e.g. apt-get install g++"; exit 1; }
	@test -x target/$*/vllm-rs || echo "Building; the first time takes 5 to 10 minutes on two cores."
	cargo build --profile $* --locked --package vllm-rs --bin vllm-rs
	VLLM_RS_CARGO_PROFILE=$* $(BIN)/python -m pip install --no-build-isolation --no-deps --editable .
	@rm -f $(VENV)/installed-* && touch $@
