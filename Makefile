# One command for each thing people do. A first run makes .venv; later runs only what changed.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := build/stamps
WORKERS ?= 2
SECONDS ?= 60
SOURCES = $(shell find csrc -name '*.c' -o -name "*.h" -o -name "*.hpp" -o -name '*.yaml' -o -name '*.py' -o -name '*.sources' 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help demo prepare test check oracle lint types examples asan tsan stress fuzz fuzz-wire fuzz-control model valgrind cpython-suite parity bench wheel docs clean build

help:
	@echo "make demo    install into $(VENV) and train with $(WORKERS) processes in shared memory"
	@echo "make check   the most telling tests of every file, in about three minutes"
	@echo "make test    the test suite"
	@echo "make oracle  the tests that compare with torch, which it installs"
	@echo "make examples  every program of examples/, shortly, with what it reached"
	@echo "make lint    layers, headers, style, strict C, doc strings, ruff, codespell"
	@echo "make types   mypy --strict, and whether the stubs say what is there at run time"
	@echo "make asan    the suite under AddressSanitizer and UBSan (make tsan: tests with threads)"
	@echo "make stress  kill, flood and fill, for minutes"
	@echo "make fuzz SECONDS=1800       random calls of operators, with sanitizers"
	@echo "make fuzz-wire SECONDS=600   random messages and handles, with sanitizers (clang)"
	@echo "make fuzz-control SECONDS=600  a member that writes over its session's tables (clang)"
	@echo "make model                   the sharing protocol, every state of its models (spin)"
	@echo "make valgrind                the manager, under valgrind"
	@echo "make cpython-suite  CPython's own tests of multiprocessing, on ours"
	@echo "make parity  operators against torch's, where torch is installed; writes docs/parity.md"
	@echo "make bench   the shorter benchmarks, beside torch and other packages that are installed:"
	@echo "             benchmarks/README.md, results.json, README's figures and a plot"
	@echo "make wheel   source archive and wheel into dist/, the self-test in an empty environment"
	@echo "make docs    the documentation as a site, in build/site"
	@echo "make clean   remove what builds made, except $(VENV)"

$(BIN)/python:
	@$(PYTHON) tools/check_machine.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --no-compile "pip>=22" "setuptools>=77"

$(STAMP):
	@mkdir -p $@

# A notice of a newer pip helps nobody here.
export PIP_DISABLE_PIP_VERSION_CHECK = 1

# The build requirements live in the environment, so that a rebuild needs no isolated one.
$(STAMP)/backend: pyproject.toml | $(BIN)/python $(STAMP)
	$(BIN)/python tools/build_requires.py | $(BIN)/python -m pip install -q -r /dev/stdin
	@touch $@

# --no-compile: of the packages, Python compiles what is imported, which is a small part of it.
$(STAMP)/install: pyproject.toml setup.py build_ffi.py $(STAMP)/backend | $(STAMP)
	@echo "the first compilation takes a few minutes"
	@$(BIN)/python build_ffi.py --this-machine
	@echo "installing what the examples need"
	@$(BIN)/python -m pip install -q --no-compile --no-build-isolation -e ".[examples]"
	@touch $@

$(STAMP)/test-extra: pyproject.toml $(STAMP)/install | $(STAMP)
	$(BIN)/python -m pip install -q --no-build-isolation -e ".[examples,test]"
	@touch $@

$(STAMP)/oracle-extra: pyproject.toml $(STAMP)/test-extra | $(STAMP)
	$(BIN)/python -m pip install -q --no-build-isolation -e ".[examples,test,oracle]"
	@touch $@

$(STAMP)/lint-extra: pyproject.toml $(STAMP)/install | $(STAMP)
	$(BIN)/python -m pip install -q --no-build-isolation -e ".[examples,lint]"
	@touch $@

$(STAMP)/docs-extra: pyproject.toml $(STAMP)/install | $(STAMP)
	$(BIN)/python -m pip install -q --no-build-isolation -e ".[examples,docs]"
	@touch $@

# Programs need kernels for this processor only; tests, those for all processors.
$(STAMP)/built-here: $(STAMP)/install $(SOURCES)
	@$(BIN)/python build_ffi.py --this-machine
	@touch $@

$(STAMP)/built: $(STAMP)/install $(SOURCES)
	@$(BIN)/python build_ffi.py
	@touch $@

build: $(STAMP)/built

# Everything that the checks need. Installations into one environment must not run at once, as checks may.
prepare: $(STAMP)/built $(STAMP)/lint-extra $(STAMP)/docs-extra $(STAMP)/test-extra

demo: $(STAMP)/built-here
	@$(BIN)/python examples/hogwild.py --workers $(WORKERS)
	@echo
	@echo "What to try next:"
	@echo "  $(BIN)/python examples/basics/queue_of_arrays.py   one of six small programs, to copy"
	@echo "  $(BIN)/python examples/hogwild.py --model cnn      and in another terminal:"
	@echo "  $(BIN)/shmtensor top                               what lies in shared memory, and who uses it"
	@echo "  docs/tutorial.md, examples/README.md"

# Of two tests at once, one often waits for a process; so one more runs than there are processors.
test: $(STAMP)/built $(STAMP)/test-extra
	$(BIN)/python -m pytest -n $$(($(WORKERS) + 1)) -q $(PYTEST_ARGS)

check: $(STAMP)/built $(STAMP)/test-extra
	$(BIN)/python -m pytest -n $(WORKERS) -q -m check $(PYTEST_ARGS)

examples: $(STAMP)/built $(STAMP)/test-extra
	$(BIN)/python tools/run_examples.py

# Tests that compare with torch, which the others do without.
ORACLE_TESTS = $(shell grep -rlE --include='test_*.py' '(importorskip|find_spec)..torch"|same_as_torch' tests)

oracle: $(STAMP)/built $(STAMP)/oracle-extra
	$(BIN)/python -m pytest -n $(WORKERS) -q $(PYTEST_ARGS) $(ORACLE_TESTS)

lint: $(STAMP)/lint-extra $(STAMP)/built
	$(BIN)/python tools/lint.py

types: $(STAMP)/lint-extra $(STAMP)/built
	$(BIN)/python -m mypy
	$(BIN)/python tools/check_typing.py examples
	$(BIN)/python tools/check_stubs.py

# Tests of bridges run in processes of their own: Zenoh's threads stay, and a process that is forked while one of them
# is in the sanitizer's malloc waits there for ever.
asan: $(STAMP)/built $(STAMP)/test-extra
	$(BIN)/python build_ffi.py --config asan
	$(BIN)/python tools/sanitize.py asan -- -n $(WORKERS) -q $(PYTEST_ARGS) --ignore tests/bridge tests
	$(BIN)/python tools/sanitize.py asan -- -n $(WORKERS) -q $(PYTEST_ARGS) tests/bridge

# Tests with threads that do not fork: ThreadSanitizer knows one process.
TSAN_TESTS = tests/autograd/test_threads.py tests/ops/test_iterator.py tests/ops/random/test_random.py \
  tests/ops/test_threads.py tests/ops/sorting/test_sort_parallel.py \
  tests/storage/test_memory.py tests/dispatch tests/multiprocessing/test_threads.py

tsan: $(STAMP)/built $(STAMP)/test-extra
	$(BIN)/python build_ffi.py --config tsan
	$(BIN)/python tools/sanitize.py tsan -- -q -k "not fork" $(PYTEST_ARGS) $(TSAN_TESTS)

stress: $(STAMP)/built $(STAMP)/test-extra
	$(BIN)/python -m pytest -q -m stress --timeout 900 $(PYTEST_ARGS)

# SEED=7 makes the same calls again.
fuzz: $(STAMP)/built
	$(BIN)/python build_ffi.py --config asan
	nice $(BIN)/python tools/fuzz_ops.py --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

fuzz-wire: $(STAMP)/built
	nice $(BIN)/python tools/fuzz.py --seconds $(SECONDS)

# ROUNDS=100000 SEED=7 instead of SECONDS.
fuzz-control: $(STAMP)/built
	nice $(BIN)/python tools/fuzz.py --seconds $(SECONDS) --control $(or $(ROUNDS),0) \
	  $(if $(SEED),--seed $(SEED))

model:
	nice $(PYTHON) tools/model.py $(if $(ONLY),--only $(ONLY))

valgrind: $(STAMP)/built
	$(BIN)/python tools/fuzz.py --valgrind 300

# SUITE_ARGS='--python PATH ...' for other interpreters, which need the extension built for them.
cpython-suite: $(STAMP)/built-here
	$(BIN)/python tools/cpython_suite.py $(SUITE_ARGS)

parity: $(STAMP)/built $(STAMP)/test-extra
	@$(BIN)/python -c "import torch" 2>/dev/null || \
	  { echo "torch is not installed; $(BIN)/pip install torch==2.13.0 expecttest hypothesis scipy"; exit 1; }
	$(BIN)/python tools/parity.py --jobs $(WORKERS) $(PARITY_ARGS)

bench: $(STAMP)/built-here
	$(BIN)/python benchmarks/summary.py
	$(BIN)/python benchmarks/figures.py

# The wheel is built from the archive, in a copy of the tree: everything is compiled again.
wheel: $(STAMP)/backend
	rm -rf dist build/wheel-venv
	$(BIN)/python -m pip install -q build
	cd / && $(abspath $(BIN))/python -m build --outdir "$(CURDIR)/dist" "$(CURDIR)"
	$(BIN)/python -m venv build/wheel-venv
	build/wheel-venv/bin/python -m pip install -q dist/*.whl
	cd / && "$(CURDIR)/build/wheel-venv/bin/python" -m shmtensor.testing

# The reference pages (docs/reference) are written by the build. The variable silences an advertisement of the theme.
docs: $(STAMP)/built $(STAMP)/docs-extra
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	$(BIN)/python tools/site/check.py build/site
	@echo "open build/site/index.html"

clean:
	rm -rf build dist runs *.egg-info shmtensor/_generated shmtensor/bin shmtensor/include shmtensor/lib shmtensor/_libs docs/reference
	rm -f shmtensor/_C*.so shmtensor/_C.pyi
