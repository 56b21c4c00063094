# make demo: environment, a real competition, a leaderboard. make test: everything but the soaks.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: env demo test test-long bench clean

INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

env: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) .
	touch $@

# What only the tests need, Triton among it, would make the demo wait.
$(VENV)/.tests-ready: $(VENV)/.ready
	$(INSTALL) '.[test]'
	touch $@

demo: env
	$(BIN)/harness run --agent eager,torch-compile,search,handwritten --suite smoke --budget attempts=5 \
		--half-width 0.08 --instances 4:6 --leaderboard .harness/leaderboard

test: $(VENV)/.tests-ready
	$(BIN)/python -m pytest -m 'not gpu and not long' --ignore tests/benchmarks tests

test-long: $(VENV)/.tests-ready
	$(BIN)/python -m pytest -m 'not gpu' --ignore tests/benchmarks tests

bench: $(VENV)/.tests-ready
	$(BIN)/python -m pytest tests/benchmarks --benchmark-only

clean:
	rm -rf $(VENV) .harness
