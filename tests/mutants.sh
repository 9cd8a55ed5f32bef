#!/usr/bin/env bash
# Breaks a copy of the source in one place at a time, and lists the breaks that no test noticed. The unit tests of
# the crate go first, as they notice most breaks within seconds; five suites then try the remaining breaks. The suite of
# the detector does not run: it noticed none of thirty breaks that the detector's unit tests had missed, and takes forty
# seconds for each. See `make mutants`.
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
# with the stage's name. cargo-mutants takes no list, so all other places are marked as noticed: version 27.1 finds more
# places than `--re` names, and wrong ones with `--iterate` and `--shard` together.
mutate() {
  local stage=$1 places=$2 && shift 2
  [ -s "$places" ] || return 0
  mkdir -p "$out/$stage/mutants.out"
  grep -vxFf "$places" "$out/all.txt" >>"$out/$stage/mutants.out/previously_caught.txt"
  cargo mutants -o "$out/$stage" --iterate "${packages[@]}" "$@"
  # 2: some were missed, 3: some took too long. Any other code is an error.
  local result=$?
  [ $result -lt 4 ] && [ $result -ne 1 ] || exit $result
}

# Two breaks at a time, as compiling a break keeps one core busy for longer than its tests. The suites use both cores.
mutate units "$out/shard.txt" --jobs 2 --minimum-test-timeout 40
# There is no baseline, as it would look for the suites in the broken packages. Most tests wait for a server.
suites=(--test-package tower-pulse --cargo-arg=--test=features --cargo-arg=--test=integration)
grep -E '^crates/(core|model)/' "$out/units/mutants.out/missed.txt" >"$out/left.txt"
RUST_TEST_THREADS=8 mutate suites "$out/left.txt" --baseline skip --timeout 300 "${suites[@]}" \
  -- -- builder:: journal:: layer:: stores:: warnings::

{
  grep -E '^crates/detect/' "$out/units/mutants.out/missed.txt"
  cat "$out/suites/mutants.out/missed.txt" 2>/dev/null
} | sort >"$out/missed.txt"
echo "$(wc -l <"$out/missed.txt") breaks that no test noticed: $out/missed.txt"
