# Everything works in .venv; `make` alone lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help up test check fmt bench bench-peers clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: $(VENV)/.runtime ## set up, start everything with the sample documents, print the address
	@$(BIN)/readahead up --samples sample_docs $(ARGS)

# Several models share the cores in a test run, where spinning threads would stall each other.
test: $(VENV)/.dev ## set up, run the tests
	@$(BIN)/readahead models pull
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest $(ARGS)

check: $(VENV)/.dev ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy

fmt: $(VENV)/.dev ## format and mend what the linter can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.runtime ## time chat at concurrency 1, 4 and 16 on this machine
	$(BIN)/readahead bench chat $(ARGS)

bench-peers: $(VENV)/.runtime ## beside vLLM and llama.cpp, which are installed into a cache of their own (half an hour, 5 GB)
	@$(BIN)/readahead bench peers $(ARGS)

clean: ## remove the environment and caches (documents and models stay)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# A stamp is written last, so an interrupted install is done again and a finished one is not: the second run needs no
# network.
$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Readahead needs Python 3.11 or newer; name one with make PYTHON=python3.11")'
	@echo "Making the environment in $(VENV)."
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing some 120 packages, PyTorch among them. After the downloads pip writes their files for a minute or more,"
	@echo "without a word, and is not stuck."
	$(PIP) install --progress-bar on -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/.runtime
	$(PIP) install --progress-bar on -c constraints.txt -e '.[dev]'
	@touch $@
