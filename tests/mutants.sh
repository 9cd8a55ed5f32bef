#!/usr/bin/env bash
# Breaks a copy of the source in one place at a time, and lists the breaks that no test noticed: see `make mutants`.
# First runs the unit tests of the broken crate, which notice most breaks within seconds. Then runs five suites on the
# remaining breaks of core and model. The detector's breaks get unit tests only: the suite `changes` takes forty seconds
# for a break, and noticed none of thirty breaks that the unit tests had missed.
# usage: SHARD=3/12 ITERATE=1 mutants.sh, where ITERATE continues a stopped run
set -uo pipefail
export PROPTEST_CASES=32 PROPTEST_MAX_SHRINK_ITERS=0
out=target/mutants && mkdir -p "$out"
command -v cargo-mutants >/dev/null || cargo install --locked cargo-mutants || exit 1

packages=(--package tower-pulse-core --package tower-pulse-detect --package tower-pulse-model)
[ -n "${ITERATE:-}" ] || rm -rf "$out"/*
cargo mutants --list "${packages[@]}" >"$out/all.txt" || exit 1
cargo mutants --list "${packages[@]}" --sharding round-robin --shard "${SHARD:-0/12}" >"$out/shard.txt" || exit 1

# mutate STAGE PLACES ARGUMENTS OF cargo mutants: breaks the places in the file PLACES. The results are in a folder
# with the stage's name. cargo-mutants accepts no list of places, so this function marks all other places as caught. In
# version 27.1, `--re` selects more places than match, and `--iterate` with `--shard` selects wrong places.
mutate() {
  local stage=$1 places=$2 && shift 2
  [ -s "$places" ] || return 0
  mkdir -p "$out/$stage/mutants.out"
  grep -vxFf "$places" "$out/all.txt" >>"$out/$stage/mutants.out/previously_caught.txt"
  cargo mutants -o "$out/$stage" --iterate "${packages[@]}" "$@"
  # 0: all were caught, 2: some were missed, 3: some took too long. Any other code is an error.
  local result=$?
  [ $result -lt 4 ] && [ $result -ne 1 ] || exit $result
}

# Tries two breaks at a time, because compiling, which takes longer than the unit tests, uses one core. The suites use
# two cores, so they run for one break at a time.
mutate units "$out/shard.txt" --jobs 2 --minimum-test-timeout 40
# Skips the run without a break (the baseline), which would look for the suites in the broken packages. Eight tests run
# at a time, because most tests wait for a server.
suites=(--test-package tower-pulse --cargo-arg=--test=features --cargo-arg=--test=integration)
grep -E '^crates/(core|model)/' "$out/units/mutants.out/missed.txt" >"$out/left.txt"
RUST_TEST_THREADS=8 mutate suites "$out/left.txt" --baseline skip --timeout 300 "${suites[@]}" \
  -- -- builder:: journal:: layer:: stores:: warnings::

{
  grep -E '^crates/detect/' "$out/units/mutants.out/missed.txt"
  cat "$out/suites/mutants.out/missed.txt" 2>/dev/null
} | sort >"$out/missed.txt"
echo "$(wc -l <"$out/missed.txt") breaks that no test noticed: $out/missed.txt"
