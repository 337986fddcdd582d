# Every target sets up $(VENV) by itself, again when a dependency changes.
#   make test PYTHON=python3.12 VENV=.venv312

PYTHON ?= python3
VENV   ?= .venv

BIN   := $(VENV)/bin
PIP   := $(BIN)/python -m pip
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test check bench mpi clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

demo: $(STAMP) ## train a small transformer on 2 ranks; writes coconet-demo.html
	$(BIN)/coconet demo

test: check ## check, then every test; no GPU needed
	$(BIN)/python -m pytest

check: $(STAMP) ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python

bench: $(STAMP) ## time the Adam step beside gloo and MPI; writes coconet-bench.json
	$(BIN)/coconet bench adam --ranks 2 --sizes 1Ki..64Mi --json coconet-bench.json

mpi: .mpi/mpich/lib .mpi/intel/lib ## fetch MPICH and Intel MPI into .mpi, for make bench

# Each in a folder of its own: in one environment they overwrite each other's libmpi.
# Later releases of impi-rt need a libfabric wheel, and shared memory needs none.
.mpi/mpich/lib: WANTED := mpich
.mpi/mpich/lib: WHEEL  := mpich
.mpi/intel/lib: WANTED := impi-rt<2021.19
.mpi/intel/lib: WHEEL  := impi_rt
# pip install --target leaves out what a wheel puts into lib, here all of libmpi.
.mpi/%/lib: | $(STAMP)
	rm -rf $(@D)
	$(PIP) download --quiet --no-deps --dest $(@D)/wheels mpi4py '$(WANTED)'
	$(PIP) install --quiet --no-deps --target $(@D) $(@D)/wheels/*.whl
	$(BIN)/python -m zipfile -e $(@D)/wheels/$(WHEEL)-*.whl $(@D)/wheels
	mv $(@D)/wheels/*.data/data/lib $@
	rm -r $(@D)/wheels

clean: ## remove everything that make and the tools wrote
	rm -rf $(VENV) .mpi build dist src/*.egg-info .pytest_cache .ruff_cache .hypothesis
	rm -f coconet-demo.html coconet-bench.json
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "coconet needs Python 3.11 or newer; say make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet -e '.[torch,dev]' -c constraints.txt
	@touch $@
