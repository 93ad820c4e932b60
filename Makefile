# Every target installs what it needs. You need only python3 (3.11 or newer), make and git.
# `make help` lists the targets. ARGS passes arguments on: make test ARGS="-k stdio", make bench ARGS="--full".

PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help run test test-system test-model test-core-versions endurance check docs format generate bench bench-fleet instructions peers client-typescript constraints clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Chat with the best available model: a provider's key, a local server, or a small model that runs here
	@$(PYTHON) scripts/run.py $(ARGS)

# Most tests wait for real processes and timeouts, so that two on each core keep it busy.
test: $(READY) ## Run the tests that need only this checkout
	$(BIN)/pytest -n $$((2 * $$(getconf _NPROCESSORS_ONLN))) --dist worksteal $(ARGS)

test-system: $(READY) peers ## Run the tests with real peers, terminals, browsers and databases
	$(BIN)/pytest -m system -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --dist worksteal $(ARGS)

test-model: $(READY) ## Let a small real model solve small tasks, beside pi (1.1 GB to download, up to 25 minutes; not in CI)
	$(BIN)/python -m bench.model_tasks $(ARGS)

test-core-versions: ## Run tests/core and tests/wire on Python 3.12 and 3.13, where installed
	$(PYTHON) scripts/core_versions.py $(ARGS)

endurance: $(READY) ## Run the tests that take hours: fuzzing, faults, kills, slow peers, secrets (ARGS="lines --seed 2"; not in CI)
	$(BIN)/python -m tests.endurance $(ARGS)

check: $(READY) ## Check style, format, types, layers, prose and generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python scripts/shape.py --check
	$(BIN)/python scripts/prose.py
	@set -e; for script in scripts/make_*.py; do echo "$$script --check"; $(BIN)/python $$script --check; done

docs: $(READY) ## Build the documentation site (build/docs); broken links are errors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "Look at the site with: python3 -m http.server --directory build/docs"

format: $(READY) ## Format the code and apply safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generate: $(READY) ## Rewrite the generated files, except constraints.txt and the code of others (scripts/make_vendored.py)
	@set -e; for script in $(filter-out scripts/make_constraints.py scripts/make_vendored.py,$(wildcard scripts/make_*.py)); do echo $$script; $(BIN)/python $$script; done

bench: $(READY) ## Compare fairlead with its peers, against the budgets (ARGS=--write: also write docs/performance.md)
	$(BIN)/python -m bench $(ARGS)

bench-fleet: $(READY) ## Measure jobs on a fleet: CPU per job, recovery, events (needs Postgres)
	$(BIN)/python -m bench.fleet $(ARGS)

instructions: $(READY) ## Count what the hot paths cost, in lines of Python and in instructions, and compare it with the baseline
	$(BIN)/python -m bench.instructions $(ARGS)

peers: $(READY) ## Install the real peers for the system tests and the benchmark (in .cache/peers)
	$(BIN)/python -m bench.peers

client-typescript: $(READY) ## Build the TypeScript client (clients/typescript/dist)
	$(BIN)/python -m bench.typescript_client

constraints: $(READY) ## Pin the installed versions in constraints.txt
	$(BIN)/python scripts/make_constraints.py
	@touch $(READY)

clean: ## Remove everything that make and the tools created
	rm -rf $(VENV) .venv-run .venv-3.* .cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis dist build
	rm -rf clients/typescript/dist clients/typescript/build clients/typescript/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt scripts/setup.py
	$(PYTHON) scripts/setup.py $(VENV) dev,rg
