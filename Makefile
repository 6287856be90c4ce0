# Everything runs in .venv, which the first command creates.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo docs test check coverage lint bench bench-accuracy bench-service bench-spark clean

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

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet -e ".[demo]"
	@touch $@ $(VENV)/.core

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet -e ".[docs]"
	@touch $@ $(VENV)/.core

demo: $(VENV)/.demo ## find the changes of pace in a real run and write a report
	@$(BIN)/mfbocd demo

docs: $(VENV)/.docs ## the site, in site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lint: $(VENV)/.test ## style, types and the order of the rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: $(VENV)/.test ## the engine's tests, with fewer examples: under two minutes
	$(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" --hypothesis-profile=quick

test: $(VENV)/.test lint docs ## everything: lint, the site and all tests
	$(BIN)/pytest -q -n 4 --dist loadfile --no-loadscope-reorder

coverage: $(VENV)/.test ## which lines the fast tests run
	$(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" --hypothesis-profile=quick --cov=mfbocd --cov-report=term:skip-covered

bench: $(VENV)/.bench ## speed against peers and the cost of pruning
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.pruning

bench-service: $(VENV)/.test ## observations a second the service takes, with and without the detector
	$(BIN)/python -m benchmarks.service

bench-spark: $(VENV)/.test ## what the detectors add to a Spark job that keeps the same state and does nothing
	$(BIN)/python -m benchmarks.spark

bench-accuracy: $(VENV)/.bench $(VENV)/.test ## annotated real series, and delays at one rate of false alarms
	$(BIN)/python -m benchmarks.accuracy
	$(BIN)/python -m benchmarks.delay

clean: ## remove the environment and every cache
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis out
