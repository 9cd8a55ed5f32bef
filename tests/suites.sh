#!/usr/bin/env bash
# Builds all tests, then runs the suites, JOBS at a time, because most tests wait for a server or a page. Prints the
# result and the seconds of each suite, and the output of failed suites. target/suites has the output of all suites.
# usage: JOBS=2 TEST_THREADS=4 suites.sh "LONG SUITES, WHICH START FIRST" ARGUMENTS OF cargo test
set -uo pipefail
long=$1 && shift
logs=target/suites && rm -rf "$logs" && mkdir -p "$logs"
# Builds the examples that tests start together with the tests. The linter has compiled the other examples.
cargo build "$@" --tests --example dashboard --example demo --example leaderboard --example replay || exit 1
cargo test --no-run "$@" --lib --bins --tests 2>&1 | tee "$logs/build" || exit 1

# Reads lines such as "Executable tests/main.rs (target/debug/deps/integration-0123456789abcdef)".
found=$(sed -n 's|.*Executable \([^(]*\)(.*/deps/\(.*\)-[0-9a-f]*)$|\1\2|p' "$logs/build")
suites=$(awk '$1 != "unittests" { print $NF }' <<<"$found" | sort -u)
first=$(for suite in $long; do grep -x "$suite" <<<"$suites"; done)
others=$(grep -vxF "$first" <<<"$suites")

# Runs a suite. `units` means the unit tests of all libraries and binaries, `docs` the documentation tests.
run() {
  suite=$1 logs=$2 && shift 2
  target=(--test "$suite")
  [ "$suite" != units ] || target=(--lib --bins)
  [ "$suite" != docs ] || target=(--doc)
  start=$SECONDS
  if cargo test --no-fail-fast "$@" "${target[@]}" >"$logs/$suite" 2>&1; then
    passed=$(sed -n 's/^test result: ok\. \([0-9]*\) passed.*/\1/p' "$logs/$suite" | paste -sd+)
    echo "$suite: $((passed)) passed in $((SECONDS - start)) s"
  else
    sed "s/^/$suite| /" "$logs/$suite"
    echo "$suite: FAILED in $((SECONDS - start)) s"
    exit 1
  fi
}
export -f run
export RUST_TEST_THREADS=${TEST_THREADS:-4}
printf '%s\n' $first units docs $others |
  xargs -P "${JOBS:-2}" -I{} bash -c 'run "$@"' run {} "$logs" "$@" || {
  echo "failed:" && grep -hE '^test .* FAILED$|^error: ' "$logs"/* | sort | uniq
  exit 1
}
