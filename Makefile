# make demo: environment, a real competition, a leaderboard. make test: everything but the soaks.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: env demo test test-long bench clean

env: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test]'
	touch $@

demo: env
	$(BIN)/harness run --agent eager,torch-compile,search,handwritten --suite smoke --budget attempts=5 \
		--half-width 0.08 --instances 4:6 --leaderboard .harness/leaderboard

test: env
	$(BIN)/python -m pytest -m 'not gpu and not long' --ignore tests/benchmarks tests

test-long: env
	$(BIN)/python -m pytest -m 'not gpu' --ignore tests/benchmarks tests

bench: env
	$(BIN)/python -m pytest tests/benchmarks --benchmark-only

clean:
	rm -rf $(VENV) .harness
