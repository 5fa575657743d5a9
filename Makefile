# `make demo` and `make test` are all a newcomer needs; each builds .venv from nothing on its first call.
# `make demo` installs only the package; the other targets install what tests, checks and docs need too.
PYTHON ?= python3
BIN := .venv/bin
PACKAGE := .venv/.package
STAMP := .venv/.installed

.PHONY: demo demo-all models test test-all reference reference-quick same-but-names calibrate check bench bench-full bench-gpu bench-real gallery study docs \
	strings format wheel clean

# `make demo LANGUAGE=go` is the same in that language, on a corpus that the machine has or can be given.
demo: $(PACKAGE)
	$(BIN)/sonde run $(if $(LANGUAGE),--language $(LANGUAGE))

# Every lens that needs no server on both bundled models, and the encoder compared with its 8-bit and its random weights.
DEMO := runs/demo-all
demo-all: $(PACKAGE)
	test -d $(DEMO)/mini-encoder-int8 || $(BIN)/sonde convert sonde/mini-encoder $(DEMO)/mini-encoder-int8 --weights int8
	test -d $(DEMO)/mini-encoder-random || $(BIN)/sonde convert sonde/mini-encoder $(DEMO)/mini-encoder-random --weights random
	$(BIN)/sonde run -f recipes/demo/decoder.toml -o $(DEMO)/decoder
	$(BIN)/sonde run -f recipes/demo/encoder.toml -m sonde/mini-encoder -m $(DEMO)/mini-encoder-int8 \
		-m $(DEMO)/mini-encoder-random -o $(DEMO)/encoder
	$(BIN)/sonde run -f recipes/demo/finetune.toml -o $(DEMO)/finetune
	$(BIN)/sonde compare $(DEMO)/encoder

# Real models for tests marked `real` and for trying things out, in models/ (2 GB); make models NAMES="minilm smollm2": some of them.
models: $(PACKAGE)
	$(BIN)/python -m tools.fetch_models $(NAMES)

# One process per core, each with one thread: torch's own threads would fight for the cores.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist worksteal

# `make test TIER=golden` is one of the tiers of CONTRIBUTING.md.
test: $(STAMP)
	$(PYTEST) -m "not slow$(if $(TIER), and $(TIER))"

# A process more than there are cores, since slow tests wait for servers, browsers and processes that they kill.
test-all: $(STAMP)
	PYTEST_XDIST_AUTO_NUM_WORKERS=$$($(BIN)/python -c 'import os; print((os.cpu_count() or 1) + 1)') $(PYTEST)

# Compares everything that the commands write and print, value by value, with the tree at the tag before-house; about forty
# minutes the first time. Worktrees share the results of the earlier tree through SONDE_REFERENCE_PLACE=FOLDER.
reference: $(STAMP)
	$(BIN)/python -m tests.reference

# The quick part of `make reference`, for every change.
reference-quick: $(STAMP)
	$(BIN)/python -m tests.reference --quick

# How often verdicts are wrong and intervals miss, over draws whose truth is known; an hour of two cores at most.
calibrate: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.calibration

check: $(STAMP)
	$(BIN)/ruff check src tests bench tools docs
	$(BIN)/ruff format --check src tests bench tools docs
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/python -m tools.plain --check
	$(BIN)/python -m tools.prose --check

# Checks that the sources differ from those of a revision only in names, comments, docstrings, imports and files; ALLOW names a
# file that lists the definitions that were meant to change.
BASE ?= before-house
same-but-names: $(STAMP)
	$(BIN)/python -m tools.same_but_names $(BASE) $(if $(ALLOW),--allow $(ALLOW))

bench: $(STAMP)
	$(BIN)/python -m bench

# Every figure of docs/performance.md in some rounds, peers of other projects among them: hours. SONDE_BENCH_SIZES=1000,10000
# gives the peers more functions.
bench-full: $(STAMP)
	$(BIN)/python -m bench._full
	$(BIN)/python docs/generate.py

# Real models side by side with plain scripts: hours. It takes those of `make models`; an interrupted call resumes.
# make bench-real NAMES=smollm2: one of them.
bench-real: $(STAMP)
	$(BIN)/python -m bench._real $(NAMES)
	$(BIN)/python docs/generate.py

# Wherever there is a Python with sonde's dependencies and an accelerator; without one it shows that it runs.
bench-gpu:
	PYTHONPATH=src:. $(PYTHON) -m bench._full --rounds 1 --into docs/measured/accelerator.json accelerator

# The runs of docs/gallery.md, which has their times; then its pages and README's examples, also if a run failed. It takes the
# models of `make models`; a run that lacks its models or packages is skipped. An interrupted call resumes.
# make gallery NAMES=probes: one of them.
gallery: $(STAMP)
	$(BIN)/python -m tools.gallery $(NAMES); made=$$?; $(BIN)/python docs/generate.py && exit $$made

# The runs of docs/studies/real-models.md, eight hours of two cores with all models; then its page. An interrupted call resumes.
# make study NAMES="calls probes": some of them; NAMES=--plan: their time and power; NAMES=--draw: draw the samples again.
study: $(STAMP)
	$(BIN)/python -m tools.study $(NAMES); made=$$?; $(BIN)/python docs/generate.py && exit $$made

# The pages that are generated from the code (a test says when they are stale), then the site in build/site.
docs: $(STAMP)
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	$(BIN)/python -m tools.gallery --site build/site

# Every text that a user can meet, by module; to be read with their eyes.
strings: $(STAMP)
	$(BIN)/python docs/strings.py

format: $(STAMP)
	$(BIN)/ruff check --fix src tests bench tools docs
	$(BIN)/ruff format src tests bench tools docs

wheel: $(STAMP)
	$(BIN)/python -m build --wheel

clean:
	rm -rf .venv build dist

PIP_INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

# torch is installed first and separately: the constraints name a CPU build, and resolving it together with the rest would
# let a dependency choose the much larger accelerator build.
$(PACKAGE): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sonde needs Python 3.11 or later")'
	@echo "installing sonde into .venv, once: about a minute, 1.6 GB"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP_INSTALL) torch
	$(PIP_INSTALL) -e .
	touch $(PACKAGE)

$(STAMP): $(PACKAGE)
	@echo "installing what tests, checks and docs need into .venv, once: minutes"
	$(PIP_INSTALL) -e '.[dev,docs]'
	touch $(STAMP)
