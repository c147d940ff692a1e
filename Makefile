# Two commands do everything on a fresh machine: `make demo` and `make test`. `make` alone lists all.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
MINIMUM_JAVA := 17

.DEFAULT_GOAL := help
.PHONY: help setup check-python check-java demo dev test lint test-unit test-spark test-dagster test-contract \
	test-e2e test-browser format clean

help: ## List the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make the virtual environment and install everything, pinned

$(STAMP): pyproject.toml constraints.txt | check-python
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
		rm -rf $(VENV); \
		echo "Python could not make a virtual environment. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(STAMP)

check-python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) --version 2>&1)."; \
		echo "Install one and name it: make PYTHON=python3.12 ..."; exit 1; }

check-java: ## Say whether the Java that Spark needs is there, and if not what to install
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -version 2>&1 | awk -F'"' '/version/ { split($$2, part, "."); print part[1] == 1 ? part[2] : part[1]; exit }'); \
	case "$$version" in \
	'' | *[!0-9]*) echo "Spark needs Java $(MINIMUM_JAVA) or newer, and '$$java' does not run."; \
		echo "Debian, Ubuntu: apt install openjdk-$(MINIMUM_JAVA)-jre-headless; macOS: brew install openjdk@$(MINIMUM_JAVA)"; \
		exit 1 ;; \
	*) test "$$version" -ge $(MINIMUM_JAVA) || { \
		echo "Spark needs Java $(MINIMUM_JAVA) or newer; '$$java' is version $$version."; \
		echo "Install a newer one and point JAVA_HOME at it."; exit 1; } ;; \
	esac

demo: check-java setup ## Run the main job on real data, with everything embedded; ends by itself
	@$(BIN)/python -m kcl_dagster.demo

dev: check-java setup ## Leave the same system running with a trickle of data, UI included; Ctrl-C ends it
	@$(BIN)/python -m kcl_dagster.demo dev

test: check-java lint ## Check style, types and imports, and run the tests (not the end-to-end and browser ones)
	$(BIN)/python -m pytest -q -m 'not e2e and not browser'

lint: setup ## Check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test-unit: setup ## Run only the tests that start neither Spark nor Dagster
	$(BIN)/python -m pytest -q tests/unit tests/test_architecture.py

test-spark: check-java setup ## Run only the tests that start a Spark session
	$(BIN)/python -m pytest -q -m spark

test-dagster: check-java setup ## Run only the tests that start a Dagster instance
	$(BIN)/python -m pytest -q -m 'dagster and not e2e'

test-contract: setup ## Run the same cases against every emulator that is there
	$(BIN)/python -m pytest -q -m contract

test-e2e: check-java setup ## Run the whole demo as a test
	$(BIN)/python -m pytest -q -m e2e

test-browser: check-java setup ## Look at the UI with headless Chromium
	$(BIN)/python -m pytest -q -m browser

format: setup ## Sort imports and format
	$(BIN)/ruff check --fix --select I .
	$(BIN)/ruff format .

clean: ## Remove the environment and all state
	rm -rf $(VENV) node_modules spark-warehouse .demo .dagster .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist *.egg-info
