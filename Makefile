# Two commands do everything: `make fit` and `make test`. Each first makes .venv, once.
PYTHON ?= python3
BIN := .venv/bin
TORCH := $(shell sed -n 's/^torch==//p' constraints.txt)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: fit test setup lint types unit tensorboard corpus corpus-test parity parity-whole ranks resume faults fuzz mutants schema start-up

fit: setup
	$(BIN)/python -m project fit --config configs/default.yaml
	$(BIN)/python -m project test
	@echo "look at the runs: make tensorboard"

test: lint types unit

setup: .venv/installed

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: setup
	$(BIN)/mypy

# On all cores; a file's tests stay together, since they share what its fixtures have trained.
unit: setup
	$(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist loadfile

tensorboard: setup
	$(BIN)/tensorboard --logdir runs --host localhost

# Every cell of the matrix, compiled ones too: takes long; docs/parity.md holds the figures.
parity: setup
	$(BIN)/python scripts/parity_matrix.py
	$(BIN)/python scripts/parity_ranks.py

# The full product of the distributed cells, for which `make parity` takes a selection: two hours.
parity-whole: setup
	$(BIN)/python scripts/parity_ranks.py --whole

# Every test of several processes; the everyday suite has a selection.
ranks: setup
	$(BIN)/pytest tests/distributed tests/learn/test_not_finite.py -m "long or not long"

# Every test of continued runs, with 50 kills at random moments and torch.compile: some minutes.
resume: setup
	TWINLOOP_KILLS=50 $(BIN)/pytest tests/resume -m "long or not long"

# Every fault of docs/faults.md, every hostile checkpoint and 50 kills, counted at the end.
faults: setup
	$(BIN)/python scripts/survived.py

# Minutes of damaged rows, instead of the suite's seconds.
fuzz: setup
	FUZZ_EXAMPLES=20000 $(BIN)/pytest tests/faults/test_properties.py

# Breaks lines that both twins share, one at a time; the everyday tests have to notice each. Some minutes.
mutants: setup
	$(BIN)/python scripts/mutants.py

# What a person may write, for help and for faults; anew after a change to a key or to a network's arguments.
schema: setup
	$(BIN)/python scripts/make_schema.py

# How long commands take to start, as multiples of importing torch and Lightning.
start-up: setup
	$(BIN)/python scripts/start_up.py

# Writes data/errors/*.jsonl and data/README.md anew, the same bytes with the same torch.
corpus: setup
	$(BIN)/python data/errors/generator/make.py

# The generator's own tests; the everyday suite only checks that the shipped files are whole.
corpus-test: setup
	$(BIN)/pytest data/errors/generator/tests

# pip, since it finds the CPU build of torch where the registry offers one; without CUDA that build is asked for first.
.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if (3, 11) <= v < (3, 14) else \
	    f"error: Python {v.major}.{v.minor} found, 3.11 to 3.13 needed; name one: make setup PYTHON=python3.11")'
	@$(PYTHON) -m venv .venv || (echo "error: no venv module; on Debian: apt install python3-venv" >&2; exit 1)
	@echo "installing into .venv (about a minute, once) ..."
	@command -v nvidia-smi >/dev/null || $(PIP) "torch==$(TORCH)+cpu" 2>/dev/null || true
	@$(PIP) "torch==$(TORCH)"
	@$(PIP) --editable ".[dev]"
	@touch $@
