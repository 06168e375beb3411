# Every command of the house. A fresh machine needs Python 3.11+ and make; the rest goes into .venv.

PYTHON ?= python3
VENV   := .venv
RUN    := $(VENV)/bin/python
PIP    := $(RUN) -m pip install -qq --disable-pip-version-check

# Exactly this version: the golden numbers of the tests belong to it, and an unpinned request
# may resolve to a build that brings gigabytes of GPU libraries along.
TORCH  := torch==2.13.0
# `make test ORACLE=no` leaves torch out; the tests that compare with it are then skipped.
ORACLE ?= yes
# `make mutants SEED=7 COUNT=150`: other mistakes, and more of them.
SEED   ?= 0
COUNT  ?= 60

.DEFAULT_GOAL := help
.PHONY: help demo test lint types layers docs docs-test check bench conformance mutants soak clean

help: ## list these commands
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | while IFS="$$(printf '\t')" read -r name what; \
	  do printf '  make %-10s %s\n' "$$name" "$$what"; done

# One thread: its matrices are small, and on a busy machine threads that wait for each other slow it down many times.
demo: $(VENV)/runtime.stamp ## train a small GPT (about a minute), print what it writes, save demo-report.html
	@OPENBLAS_NUM_THREADS=1 $(RUN) examples/char_gpt.py

test: $(VENV)/dev.stamp $(VENV)/torch.stamp ## run all tests (ORACLE=no: without installing torch)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(RUN) -m pytest -n 2

lint: $(VENV)/dev.stamp ## check style and formatting with ruff
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

types: $(VENV)/dev.stamp ## check types with mypy, strict on the engine
	$(RUN) -m mypy

layers: $(VENV)/dev.stamp ## check that every module imports only from lower layers
	$(VENV)/bin/lint-imports --no-logo

docs-test: $(VENV)/docs.stamp ## run all examples, check the generated pages, build the site and check its links
	$(RUN) docs/build.py --check
	$(RUN) -m pytest tests/test_docs.py tests/test_site.py src/pellucid --doctest-modules

docs: $(VENV)/docs.stamp ## write the pages made of the code's own tables, and build the site in build/site
	$(RUN) docs/build.py
	$(RUN) docs/website

check: lint types layers docs-test ## lint, types, layers and docs-test

bench: $(VENV)/dev.stamp $(VENV)/torch.stamp ## measure speed, interleaved with torch when it is installed
	$(RUN) bench/run.py

conformance: $(VENV)/dev.stamp $(VENV)/torch.stamp ## hold every operator to PyTorch's own database (needs torch)
	@$(PIP) expecttest
	$(RUN) bench/conformance.py

mutants: $(VENV)/dev.stamp $(VENV)/torch.stamp ## put small mistakes into the code (SEED, COUNT), list those that no test notices
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(RUN) bench/mutants.py --seed $(SEED) --count $(COUNT)

soak: $(VENV)/dev.stamp $(VENV)/torch.stamp ## the long forms of the tests, then memory and scaling
	PELLUCID_SOAK=1 PELLUCID_SEED=$${PELLUCID_SEED:-$$(date +%Y%m%d)} $(RUN) -m pytest -n 2 --timeout 3600
	$(RUN) bench/run.py --memory --scaling

clean: ## remove the environment, the caches and everything generated
	rm -rf $(VENV) build dist demo-report.html bench/results .pytest_cache .mypy_cache .ruff_cache \
	  .import_linter_cache .hypothesis
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUN):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Pellucid needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Order-only: the age of the interpreter says nothing about what is installed beside it.
$(VENV)/runtime.stamp: pyproject.toml | $(RUN)
	@echo "installing Pellucid and its runtime dependencies ..."
	@$(PIP) --editable .
	@$(RUN) -m compileall -q src/pellucid
	@touch $@

$(VENV)/dev.stamp: pyproject.toml | $(RUN)
	@echo "installing Pellucid with its developer tools ..."
	@$(PIP) --editable '.[dev,compile]'
	@$(RUN) -m compileall -q src/pellucid
	@touch $@ $(VENV)/runtime.stamp

$(VENV)/docs.stamp: pyproject.toml | $(VENV)/dev.stamp
	@$(PIP) --editable '.[docs]'
	@touch $@

# Tried once for an environment. Its absence is no failure: the tests that need it say so and skip.
$(VENV)/torch.stamp: | $(RUN)
ifeq ($(ORACLE),yes)
	@echo "installing the test oracle, $(TORCH) ..."
	@$(PIP) --only-binary :all: --retries 1 '$(TORCH)' \
	  || echo "$(TORCH) is not available here: the tests that compare with it will skip"
	@touch $@
else
	@echo "without the test oracle: the tests that compare with $(TORCH) will skip"
endif
