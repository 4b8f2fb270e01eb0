# Two commands, each of which sets up its own virtual environment first:
#   make demo    train the embedded policy on the calculator and draw its learning curve
#   make test    every check, and the tests: a sample of the sweeps and of the slow ones, chosen by the commit
# And: make check (linters, types, arrows), make quick (tests that are not slow), make clean,
#   make test-all        every check and every test, as continuous integration runs them
#   make docs            the generated pages anew: the gallery, the README's counts, the algorithms, the reference
#   make test-adapters   each foreign framework in its own environment; ADAPTERS="trl gem" takes some
#   make test-vllm       the vLLM agent against a real vLLM on the CPU, in its own environment
#   make site            the documentation as a site in build/site, its links and anchors checked
#   make test-browser    the viewer in a real Chromium, which has to be installed
#   make smollm2         SmolLM2-135M-Instruct as models/smollm2, for examples/real/
#   make test-real       sampler, learner, resume and templates with its weights, made once in ~/.cache/rlvr
# Another interpreter: make test PYTHON=python3.12

PYTHON ?= python3
WORKERS ?= 2
ADAPTERS ?=
SAMPLE ?= 24
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
SOURCES := pyproject.toml setup.py constraints.txt

# Without it, `agents` and `adapters` at the top of this folder would hide installed packages of those names.
export PYTHONSAFEPATH := 1
# Hundreds of tests start an interpreter: where no bytecode is kept, each compiles the package anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test test-all check quick clean docs site test-adapters test-vllm test-browser test-real smollm2
.DELETE_ON_ERROR:

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | head -13

demo: $(VENV)/demo.stamp
	@out=runs/demo; n=1; while [ -e "$$out" ]; do n=$$((n + 1)); out=runs/demo-$$n; done; \
	set -x; $(BIN)/rlvr train --config examples/calculator.yaml --out "$$out"

test: check
	$(BIN)/pytest --numprocesses $(WORKERS) --dist worksteal --sample $(SAMPLE)

test-all: check
	$(BIN)/pytest --numprocesses $(WORKERS) --dist worksteal --quiet

check: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

quick: $(VENV)/test.stamp
	$(BIN)/pytest --numprocesses $(WORKERS) --dist worksteal --quiet -m "not slow"

# Foreign frameworks exclude one another, so each gets a virtual environment of its own, under .venvs/.
test-adapters: $(VENV)/test.stamp
	$(BIN)/python tests/adapters/run.py $(ADAPTERS)

test-vllm: $(VENV)/test.stamp
	$(BIN)/python tests/adapters/run.py vllm

test-browser: $(VENV)/test.stamp
	$(INSTALL) playwright
	$(BIN)/pytest --quiet -rs tests/adapters/test_viewer_browser.py tests/adapters/test_viewer_evaluations_browser.py

test-real: $(VENV)/test.stamp
	$(INSTALL) gguf
	$(BIN)/pytest --quiet -rs -m real tests/real

smollm2: $(VENV)/demo.stamp
	$(INSTALL) gguf
	$(BIN)/python benchmarks/smollm2.py models/smollm2

# What the docs say of the registries: the gallery, the README's counts, the algorithms' pages and examples, the
# reference of commands, fields and names, the stub of rlvr.algorithms, and the table of frameworks from what their tests last found.
docs: $(VENV)/test.stamp
	$(BIN)/python benchmarks/gallery.py
	$(BIN)/python benchmarks/algorithm_pages.py
	$(BIN)/python benchmarks/reference_pages.py
	$(BIN)/python benchmarks/stubs.py
	$(BIN)/python tests/adapters/run.py --table

# The test builds it; `.venv/bin/mkdocs serve` shows it while it is written.
site: $(VENV)/docs.stamp
	$(BIN)/pytest --quiet tests/test_site.py
	@echo "build/site/index.html"

clean:
	rm -rf $(VENV) .venvs build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What the tests need holds what the demonstration needs.
$(VENV)/demo.stamp: $(VENV)/made.stamp $(SOURCES)
	@newer=$$(find $(VENV)/test.stamp $(SOURCES:%=-newer %) 2>/dev/null); if [ -z "$$newer" ]; then \
	  echo "Installing rlvr and what training needs (minutes the first time) ..."; \
	  $(INSTALL) --editable ".[train]"; fi
	@touch $@

$(VENV)/test.stamp: $(VENV)/made.stamp $(SOURCES)
	@echo "Installing rlvr and what its tests need (minutes the first time) ..."
	$(INSTALL) --editable ".[all]"
	@touch $@

$(VENV)/docs.stamp: $(VENV)/test.stamp
	$(INSTALL) --editable ".[docs]"
	@touch $@

$(VENV)/made.stamp:
	@test -d src/rlvr/envs/core || { \
	  echo "src/rlvr/envs is not a folder, so this checkout lost its links." >&2; \
	  echo "Clone again with: git clone -c core.symlinks=true <address>" >&2; exit 1; }
	@command -v $(PYTHON) >/dev/null || { \
	  echo "There is no $(PYTHON) here. Install Python 3.11 or newer, or name it: make PYTHON=<interpreter>" >&2; exit 1; }
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || { \
	  echo "rlvr needs Python 3.11 or newer; $(PYTHON) is `$(PYTHON) -V 2>&1`. Name another: make PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
	  echo "$(PYTHON) -m venv failed; its message is above. On Debian and Ubuntu: apt install python3-venv" >&2; \
	  rm -rf $(VENV); exit 1; }
	@touch $@
