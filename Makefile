# Every target works on a fresh machine with Python 3.11 and Rust.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin

.PHONY: build dev demo test lint bench calibrate fuzz kill faults sweep-bench loom miri parity governor-parity swarm traces clean

RUST_SOURCES := $(shell find crates kernels machines -name '*.rs' -o -name '*.toml' -o -name '*.proto') \
	Cargo.toml Cargo.lock

# The tool that builds the extension module, alone; what runs beside it is installed while that compiles.
$(BIN)/python: requirements.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock maturin
	touch $@

# The extension module is built in place, so that Python sources are used as they stand.
$(VENV)/.built: export PIP_QUIET = 1
$(VENV)/.built: $(BIN)/python $(RUST_SOURCES) pyproject.toml
	. $(BIN)/activate && { \
		pip install --disable-pip-version-check -r requirements.lock & packages=$$!; \
		maturin develop --release --locked --quiet --skip-install && wait $$packages; }
	. $(BIN)/activate && maturin develop --release --locked --quiet
	touch $@

build: $(VENV)/.built

# What tests and linters need besides: a cluster, an S3 server, tuning.
$(VENV)/.dev: $(VENV)/.built requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
		-r requirements-dev.lock
	touch $@

dev: $(VENV)/.dev

demo: build
	$(BIN)/schedlab demo

test: dev
	cargo test --workspace --release --locked --quiet
	cargo test -p schedlab-digests --locked --quiet # The same digests in a debug build.
	$(BIN)/python -m pytest --quiet --numprocesses auto --dist loadfile

lint: dev
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --release --locked -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Against the real kernel's code: whole recordings of its decisions, SCHEDLAB_VECTORS=DIR make parity,
# and its idle governors.
parity: governor-parity
	target/release/examples/parity

# The kernel's own idle governors, compiled from Debian's source packages (installed where they are
# missing), decision by decision, in simulated runs and on traces, those of SCHEDLAB_TRACES among them.
# The examples are built as the tests build them, so that nothing is compiled twice.
governor-parity:
	crates/govsource/kernel-sources.sh target/kernel-sources
	cargo build --quiet --release --locked --workspace --examples
	target/release/examples/governor_parity \
		target/kernel-sources tests/data/traces $(SCHEDLAB_TRACES)

# The priority map's memory orderings: every interleaving of threads on small maps, and undefined
# behaviour on large ones. The second needs the nightly toolchain
# (rustup toolchain install nightly --component miri).
loom:
	cargo test --release --locked --quiet -p schedlab-kernel --features loom --test cpupri_loom

miri:
	cargo +nightly miri test --locked --quiet -p schedlab-kernel --test cpupri_layouts --target-dir target/miri

# Random machines, kernels and workloads, each drawn from a seed, with every checker on.
SWARM ?= 10000

swarm:
	SCHEDLAB_SWARM=$(SWARM) cargo test --release --locked --quiet -p schedlab-sim --test simulation swarm::

# Real traces against the tools that print them, and replayed under the kernel that they were taken
# under: SCHEDLAB_TRACES=DIR make traces
traces: build
	SCHEDLAB_TRACES="$(SCHEDLAB_TRACES)" cargo test --workspace --release --locked --quiet \
		--test readers real_files:: -- --nocapture
	PYTHONPATH=tests $(BIN)/python -m traces.check "$(SCHEDLAB_TRACES)"
	PYTHONPATH=tests $(BIN)/python -m traces.replay_check "$(SCHEDLAB_TRACES)"

# Speed: governor decisions, PELT, latency figures, simulated events, trace import (and, where
# trace-cmd is installed, the ratio to trace-cmd report on the same file).
bench:
	cargo bench --locked -p schedlab-kernel -p schedlab-metrics -p schedlab-trace -p schedlab-sim

# Every trace reader against made-up damage, FUZZ_SECONDS each. Needs the nightly toolchain and
# cargo-fuzz (rustup toolchain install nightly; cargo install cargo-fuzz). What it finds stays in
# fuzz/artifacts; what it learns goes to target/fuzz-corpus, so that the small corpus stays small.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := $(patsubst fuzz/fuzz_targets/%.rs,%,$(wildcard fuzz/fuzz_targets/*.rs))

fuzz:
	@for target in $(FUZZ_TARGETS); do \
		mkdir -p target/fuzz-corpus/$$target && \
		cargo +nightly fuzz run $$target target/fuzz-corpus/$$target fuzz/corpus/$$target -- \
			-max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=1024 -timeout=20 || exit 1; \
	done

# A thousand comparisons of a kernel with itself, on recorded and on simulated noise, and planted
# changes; beside benchstat where that is in PATH. Fails if a stated rate is not kept.
calibrate: build
	PYTHONPATH=tests $(BIN)/python -m calibration docs/calibration.md

# `schedlab bench run` killed with SIGKILL so often: nothing stored is lost, settings come back.
KILLS ?= 100

kill: build
	cd tests && ../$(BIN)/python -m bench_kill $(KILLS)

# Sweeps whose workers, client or scheduler are killed, whose disk is full and whose store is late:
# each so often. Nothing is lost, and nothing counts twice.
FAULTS ?= 20

faults: dev
	cd tests && ../$(BIN)/python -m sweep_faults $(FAULTS)

# What sweeps cost beside the simulations: time per run, memory over 100,000 runs, and what a store
# of a million figures answers in; docs/growth.md goes on from there.
sweep-bench: dev
	cd tests && ../$(BIN)/python -m sweep_bench

clean:
	rm -rf target $(VENV)
