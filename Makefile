# Everything that people and CI do here. Paths are relative, so the clone may lie in a folder
# with spaces in its name. The work is in scripts/, where it can be read as a program.

PORT ?= 8501
# Only this machine sees the app, because a visitor may start trainings. 0.0.0.0 opens it up.
ADDRESS ?= localhost
PY := .venv/bin/python

# scripts/setup.sh looks for a Python by itself unless one is named here.
export PYTHON
# One thread a process: two test workers with several threads each get in each other's way.
test: export OMP_NUM_THREADS = 1

.PHONY: help app test check format results clean distclean dev

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
	@echo "  settings: PYTHON=/path/to/python  PORT=8501  ADDRESS=0.0.0.0 (open to the network)"

# exec, or the server would outlive a killed make.
app: ## install what is missing, then open the app
	@sh scripts/setup.sh
	@exec $(PY) -P scripts/serve.py --port "$(PORT)" --address "$(ADDRESS)"

# loadfile keeps a file's tests in one process, so its browser and its server start once.
test: dev ## run all tests, in a real browser too (it is installed if there is none)
	@BUDGETFORMER_BROWSER="$$(sh scripts/browser.sh)" && export BUDGETFORMER_BROWSER && \
	exec $(PY) -m pytest -n 2 --dist loadfile tests

check: dev ## lint, formatting, types, import rules
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	.venv/bin/lint-imports --no-logo
	sh scripts/ban_unsafe_html.sh

format: dev ## format the code and sort the imports
	$(PY) -m ruff check --fix-only --exit-zero --quiet .
	$(PY) -m ruff format .

results: dev ## write the README's table from the models' metrics
	$(PY) scripts/results.py

dev: # make .venv ready for development
	@sh scripts/setup.sh dev

clean: ## remove caches and test output, keep .venv and runs/
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	rm -rf build dist *.egg-info test-results
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean ## remove .venv as well
	rm -rf .venv
