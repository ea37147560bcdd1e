# Set-up is two commands: `make demo` and `make test`. Each makes its own .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo fuzz test test-all test-pythons coverage mutate lint format docs bench dist clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@

demo: $(STAMP)          ## the paper's example between real processes, beside scikit-learn, as a page
	$(BIN)/coterie demo

test: $(STAMP)          ## all but the slow tests; three at a time, since many of them wait
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not slow"

test-all: $(STAMP)      ## everything; four at a time, since many of the slow ones wait
	$(BIN)/python -m pytest -n 4 --dist worksteal

test-pythons: $(STAMP)  ## transport, study and estimator with every other Python that is promised and found here
	.ci/pythons

fuzz: $(STAMP)          ## goes on where it ended; FUZZ_MINUTES bounds it, FUZZ_OPTIONS=--fresh starts over
	$(BIN)/python -m tests.fuzz --minutes $(or $(FUZZ_MINUTES),60) --processes $(or $(FUZZ_PROCESSES),2) $(FUZZ_OPTIONS)

coverage: $(STAMP)      ## lines and branches that the tests reach, into coverage/; COVERAGE_TESTS picks test files
	$(BIN)/python -m pytest -n $(or $(COVERAGE_PROCESSES),2) -m "not slow" --cov --cov-report=term --cov-report=html:coverage $(COVERAGE_TESTS)

mutate: $(STAMP)        ## a sample of mutants; goes on where it ended; MUTATE_MINUTES bounds it, MUTATE_OPTIONS="--sample 20"
	$(BIN)/python -m tests.mutation --minutes $(or $(MUTATE_MINUTES),120) --processes $(or $(MUTATE_PROCESSES),2) $(MUTATE_OPTIONS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)          ## the documentation, into docs/_build
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build

bench: $(STAMP)         ## rounds beside the paper's; one table beside scikit-learn; growth as plots
	$(BIN)/python benchmarks/rounds.py
	$(BIN)/python benchmarks/table.py --large
	$(BIN)/python benchmarks/growth.py

dist: $(STAMP)          ## what is released, into dist/: wheel, sources, bill of materials, checksums
	$(BIN)/python -m tools.dist

clean:
	rm -rf $(VENV) .venvs dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
