# Everything runs in .venv, which the first command creates.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test check lint bench clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet -e .
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet -e ".[test,lint]"
	@touch $@ $(VENV)/.core

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet -e ".[bench]"
	@touch $@ $(VENV)/.core

demo: $(VENV)/.core ## run a detector over a built-in stream and write a report
	$(BIN)/mfbocd demo

lint: $(VENV)/.test ## style, types and the order of the rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: $(VENV)/.test ## the fast tests, under two minutes
	$(BIN)/pytest -q -n 2 -m "not slow"

test: $(VENV)/.test lint ## everything: lint and all tests
	$(BIN)/pytest -q -n 2

bench: $(VENV)/.bench ## speed against peers and the cost of pruning
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.pruning

clean: ## remove the environment and every cache
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis out
