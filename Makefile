# Everything runs in .venv, which the first command creates.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Without stored bytecode every worker rewrites the assertions of all tests, and every process compiles the package.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo paper study docs reference test check check-minimum coverage lint bench bench-accuracy bench-service bench-spark clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet -e .
	@touch $@

$(VENV)/.test: pyproject.toml paper/requirements.txt | $(BIN)/python
	$(BIN)/pip install --quiet -e ".[test,lint]" -r paper/requirements.txt
	@touch $@ $(VENV)/.core

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet -e ".[bench]"
	@touch $@ $(VENV)/.core

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet -e ".[demo]"
	@touch $@ $(VENV)/.core

$(VENV)/.paper: pyproject.toml paper/requirements.txt | $(BIN)/python
	$(BIN)/pip install --quiet -e ".[real,onnx,tflite]" -r paper/requirements.txt
	@touch $@ $(VENV)/.core

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet -e ".[docs]"
	@touch $@ $(VENV)/.core

demo: $(VENV)/.demo ## detect the changes of pace in a real run and write a report
	@$(BIN)/mfbocd demo --force

docs: $(VENV)/.docs ## build the documentation in site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

reference: $(VENV)/.test ## regenerate the reference pages of the commands and the configuration
	$(BIN)/python -m docs_tools

paper: $(VENV)/.paper ## every table and figure of the paper: docs/paper.md and its pictures; an hour or more
	$(BIN)/python -m paper all --docs docs

study: $(VENV)/.paper ## error and delay against spend: docs/frontier.md, docs/quickest.md, their pictures; about an hour
	$(BIN)/python -m paper frontier --trials 60 --docs docs
	$(BIN)/python -m paper quickest --trials 240 --docs docs

lint: $(VENV)/.test ## style, types and the import order of the packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: $(VENV)/.test ## the fast tests, in under two minutes
	$(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" --hypothesis-profile=quick

# Extras that are not in this list are not tested with the oldest versions. Their tests are skipped, which CI forbids
# elsewhere. The newest pyarrow refuses numpy 1.26.
MINIMUM := numpy==1.26.4 numba==0.60.0 click==8.1.8 pyarrow==18.1.0 scipy mpmath pytest pytest-xdist hypothesis polars

check-minimum: ## the fast tests with the oldest numpy, numba and click that pyproject.toml allows (Python 3.11 or 3.12)
	$(MAKE) VENV=.venv-minimum .venv-minimum/.minimum
	env -u CI .venv-minimum/bin/pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" \
	    --hypothesis-profile=quick tests/engine tests/policy tests/data src --ignore=src/mfbocd/adapters \
	    --ignore=src/mfbocd/datasets/_run_log.py \
	    --deselect src/mfbocd/calibrate/cost.py::mfbocd.calibrate.cost.onnx_operations

$(VENV)/.minimum: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet -e ".[frame,plot,report,table,serve,postgres,mqtt]" $(MINIMUM)
	@touch $@

# Several test processes share the cores: threads of a linear algebra library in each of them would only wait for each other.
test check coverage: export OPENBLAS_NUM_THREADS := 1
test check coverage: export OMP_NUM_THREADS := 1

test: $(VENV)/.test $(VENV)/.docs ## everything: lint, documentation and all tests
	$(MAKE) --no-print-directory -j 2 lint docs
	$(BIN)/pytest -q -n 4 --dist loadfile --no-loadscope-reorder

coverage: $(VENV)/.test ## line coverage of the fast tests
	$(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" --hypothesis-profile=quick --cov=mfbocd --cov-report=term:skip-covered

bench: $(VENV)/.bench ## speed compared with other packages, and the cost of pruning
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.pruning

bench-service: $(VENV)/.test ## throughput of the service, with and without the detector
	$(BIN)/python -m benchmarks.service

bench-spark: $(VENV)/.test ## overhead of the detectors in a Spark job
	$(BIN)/python -m benchmarks.spark

bench-accuracy: $(VENV)/.bench $(VENV)/.test ## accuracy on simulated and annotated series, and detection delay at a fixed false-alarm rate
	$(BIN)/python -m benchmarks.accuracy all
	$(BIN)/python -m benchmarks.outliers
	$(BIN)/python -m benchmarks.levels
	$(BIN)/python -m benchmarks.delay

clean: ## remove the environment and all caches
	rm -rf $(VENV) .venv-minimum site .pytest_cache .mypy_cache .ruff_cache .hypothesis out
