# make run    the parameter server example on a simulated cluster
# make test   the whole test suite
# make test-deep   what make test leaves out, an hour and more: it goes on where it was (SHARD=2/6, ON=ray)
# make gpu-bundle, make gpu   what is run on a GPU, from wheels that travel with the repository
# make bench  what is measured, side by side with stock PyTorch and by turns with an old commit
# make explore   small worlds in every order, and every program of a size: an hour (JOBS=2)
# make stress   many threads on ThreadRuntime, for a minute (SECONDS=600 for longer)
# make notebooks   JupyterLab, opened on notebooks/
# make keep-notebooks   every notebook run anew and kept with its outputs (ARGS="03 07" for two)
# make test-browser   timelines in headless Chromium (apt-get install chromium chromium-driver)
# make findings TORCH=2.15.0   what that torch does in each case of docs/findings.md
# make pictures   the pictures of the documentation, made anew
# make architecture   the picture of the packages in docs/architecture.md, made from the source
# make commands   docs/commands.md, made anew from the help of every command
# make api   docs/api.md, made anew from the list of what scripts find otherwise than in stock
# make docs   the documentation as a site, in build/site; make docs-serve shows it as it is written
# make matrix   the suite and digests under other processors, Pythons and torches: hours
# make libraries   the table of libraries in docs/scripts.md, in an environment that has them
# make lint types layers   what else .ci/run asks of a change

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALLED := $(VENV)/.installed
READERS := $(VENV)/.readers
# what everything else here runs on
PINNED := torch==2.13.0

# How much runs at the same time: as many processes as there are processors; of the suite one more, since
# tests wait for each other's processes and for clocks.
JOBS ?= auto
# How long `make stress` goes on.
SECONDS ?= 60
# Of make test-deep: a share of it, or merge; and where it is judged, pool or ray.
SHARD ?=
ON ?= pool
# Passed on to pytest, for instance ARGS="-k rref -x".
ARGS ?=

.PHONY: gpu gpu-bundle covers run test test-deep explore stress test-browser pictures architecture commands api docs docs-serve notebooks keep-notebooks test-notebooks lint types layers findings bench install readers format clean matrix libraries

run: $(INSTALLED)
	$(BIN)/squall run examples/parameter_server.py --workers 4 --seed 7

# Bytecode is kept, whatever the environment says: each process of the suite, and each command that
# a test runs, would compile a thousand files anew. Threads of tests share two heaps of the C library:
# what each of sixteen had free would be no other's; and what is large has pages of its own, which go
# back when it is freed.
test test-deep: export PYTHONDONTWRITEBYTECODE =
test test-deep: export MALLOC_ARENA_MAX = 2
test test-deep: export MALLOC_MMAP_THRESHOLD_ = 65536
test test-deep: export MALLOC_TRIM_THRESHOLD_ = 131072
test: $(INSTALLED)
	$(BIN)/python -m pytest -q -n $(if $(filter auto,$(JOBS)),$(shell expr $$(nproc) + 1),$(JOBS)) --dist worksteal $(ARGS)

# What it costs is measured at its end, of shares when all are together: what is slower is told, and fails nothing.
BENCH = env -u MALLOC_ARENA_MAX -u MALLOC_MMAP_THRESHOLD_ -u MALLOC_TRIM_THRESHOLD_ \
	sh -c "$(BIN)/python -m benchmarks && $(BIN)/python -m benchmarks.history"
test-deep: $(INSTALLED)
	$(BIN)/python -m squall.properties.support.deep --shard "$(SHARD)" --on $(ON) --jobs $(JOBS) $(ARGS); \
	code=$$?; $(if $(filter-out merge,$(SHARD)),,[ $$code -gt 4 ] || { $(BENCH); };) exit $$code

# Nothing is to fail (exit code 1); an exploration whose budget is spent (4) says how much is left.
EXPLORED := squall/properties/sim/explore/scenarios
EXPLORE = explored() { $(BIN)/squall explore "$$@" --jobs $(if $(filter auto,$(JOBS)),2,$(JOBS)) || [ $$? -eq 4 ]; }
explore: $(INSTALLED)
	$(EXPLORE); explored $(EXPLORED)/small.json $(EXPLORED)/plain.json --unordered --budget 300s
	$(EXPLORE); explored $(EXPLORED)/small.json --faults one --budget 20s
	$(EXPLORE); explored $(EXPLORED)/small.json $(EXPLORED)/other.json --grain task --budget 300s
	$(EXPLORE); explored $(EXPLORED)/leaving.json --grain task --budget 600s
	$(EXPLORE); explored --programs "workers<=3, calls<=2" --unordered --budget 20s
	$(EXPLORE); explored --programs "workers<=2, calls<=2" --grain task --budget 20s
	$(EXPLORE); explored --programs "workers<=2, calls<=1" --faults one --budget 5s
	$(BIN)/python -m benchmarks.explore

stress: $(INSTALLED)
	$(BIN)/python -m squall.properties.support.stress --seconds $(SECONDS)

# JupyterLab wants to be told that root knows what it does, in a container for instance.
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

# Figures are kept as data that JupyterLab draws: plotly.js does not go into the notebooks.
notebooks: $(READERS)
	PLOTLY_RENDERER=plotly_mimetype $(BIN)/jupyter lab --notebook-dir=notebooks $(AS_ROOT)

keep-notebooks: $(READERS)
	$(BIN)/python -m squall.properties.notebooks.keep $(ARGS)

# Each notebook from a clean kernel; nothing is written into it.
test-notebooks: $(READERS)
	PLOTLY_RENDERER=plotly_mimetype $(BIN)/python -m pytest -q --nbmake --nbmake-timeout=600 -n $(JOBS) notebooks $(ARGS)

test-browser: $(INSTALLED)
	$(BIN)/python -m pytest -q -n $(JOBS) squall/properties/browser $(ARGS)

pictures: $(INSTALLED)
	$(BIN)/python -m squall.properties.browser.pictures

architecture: $(INSTALLED)
	$(BIN)/python -m squall.properties.support.packages

api: $(INSTALLED)
	$(BIN)/python -m squall.properties.sim.scripts.api > docs/api.md.new
	mv docs/api.md.new docs/api.md

commands: $(INSTALLED)
	$(BIN)/python -m squall.sim.cli.page > docs/commands.md.new
	mv docs/commands.md.new docs/commands.md

# Once its tools are installed, nothing of it needs a network. Material says at each start what else
# there is; that is no warning of ours.
docs: $(READERS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(READERS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

# The suite has a sample of what takes long; of the order of the packages nothing is left out.
layers: $(INSTALLED)
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q --tier all squall/properties/test_layers.py

# An environment on top of the one that everything else runs in.
PURELIB = import sysconfig; print(sysconfig.get_path("purelib"))
libraries: $(INSTALLED)
	test -d .libraries || $(BIN)/python -m venv .libraries
	echo "import site; site.addsitedir('$$($(BIN)/python -c '$(PURELIB)')')" \
	    > "$$(.libraries/bin/python -c '$(PURELIB)')/base.pth"
	.libraries/bin/python -m pip install -q --no-deps -r squall/properties/libraries/requirements.txt
	.libraries/bin/python -m squall.properties.libraries $(ARGS)

matrix: $(INSTALLED)
	$(BIN)/python -m squall.properties.matrix $(ARGS)

# What PyTorch does by itself in each finding, on a torch of its own: pip brings up to 6 GB.
findings: $(INSTALLED)
	$(BIN)/python -m squall.properties.findings run --torch $(if $(TORCH),$(TORCH),$(error make findings TORCH=2.15.0)) $(ARGS)

# What campaigns play first, by profile of faults: anew when the generator draws other programs.
covers: $(INSTALLED)
	SQUALL_STORE=.squall/covers-made $(BIN)/squall fuzz --distil 3000 --jobs $(shell nproc)
	for profile in mild rough storm; do \
	  SQUALL_STORE=.squall/covers-made $(BIN)/squall fuzz --distil 3000 --jobs $(shell nproc) --faults $$profile; \
	done
	cp .squall/covers-made/covers/*.json sim/search/covers/

# The run on a GPU, on a machine without a network that has PyTorch: `make gpu-bundle` here collects
# wheels for GPU_PYTHON into .gpu-bundle, which travels with the repository; `make gpu` there needs
# nothing else. Without a GPU, from what is installed: make gpu ARGS=--stand-in
GPU_PYTHON ?= 3.12
GPU_WHEELS := simpy greenlet networkx numpy pandas python-dateutil pytz tzdata six pydantic annotated-doc \
	pydantic-core annotated-types typing-inspection typing-extensions typer rich shellingham click \
	markdown-it-py mdurl pygments plotly narwhals jinja2 markupsafe pytest iniconfig packaging pluggy \
	expecttest hypothesis sortedcontainers starlette uvicorn anyio idna sniffio h11
gpu-bundle: $(INSTALLED)
	rm -rf .gpu-bundle && mkdir .gpu-bundle
	$(PIP) download -q -d .gpu-bundle --no-deps --only-binary=:all: -c constraints.txt \
	  --python-version $(GPU_PYTHON) --implementation cp --platform manylinux_2_28_x86_64 \
	  --platform manylinux_2_24_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
	  $(GPU_WHEELS)
	du -sh .gpu-bundle

gpu:
	if [ -d .gpu-bundle ] && ! [ -x $(BIN)/python ]; then \
	  [ -d build/gpu/packages ] || $(PYTHON) -m pip install -q --no-index --no-deps --find-links .gpu-bundle --target build/gpu/packages .gpu-bundle/*.whl; \
	  PYTHONPATH=build/gpu/packages:. $(PYTHON) -m benchmarks.gpu $(ARGS); \
	else PYTHONPATH=. $(BIN)/python -m benchmarks.gpu $(ARGS); fi

bench: $(INSTALLED)
	$(BENCH)

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

install: $(INSTALLED)

readers: $(READERS)

# PyTorch first and alone, so that nothing else can choose another one.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt $(PINNED)
	$(PIP) install -c constraints.txt setuptools
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[dev]'
	touch $@

# What notebooks and the site of the documentation need.
$(READERS): $(INSTALLED)
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[dev,notebooks,docs]'
	touch $@

clean:
	rm -rf $(VENV) .libraries .matrix build dist *.egg-info .squall
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
