#!/usr/bin/env bash
# Breaks the source in one place at a time, in a copy of it, and lists the breaks that no test noticed. The unit tests of
# the crate go first, as they notice most breaks within two seconds; the suites then try those that are left: those of the
# detector judge whole fleets, the others store and read. See `make mutants`.
# usage: SHARD=3/12 ITERATE=1 mutants.sh, where ITERATE goes on with a run that was stopped
set -uo pipefail
export PROPTEST_CASES=32 PROPTEST_MAX_SHRINK_ITERS=0
out=target/mutants && mkdir -p "$out"
command -v cargo-mutants >/dev/null || cargo install --locked cargo-mutants || exit 1

# mutate STAGE ARGUMENTS OF cargo mutants: its results are in a folder of the stage's name. All stages have the same shard.
mutate() {
  local stage=$1 && shift
  mkdir -p "$out/$stage"
  cargo mutants -o "$out/$stage" --sharding round-robin --shard "${SHARD:-0/12}" --package tower-pulse-core \
    --package tower-pulse-detect --package tower-pulse-model "$@"
  # 2: some were missed, 3: some took too long. All else is no result.
  local result=$?
  [ $result -lt 4 ] && [ $result -ne 1 ] || exit $result
}

# try_suites STAGE FOLDERS SUITES ARGUMENTS OF cargo mutants: tries what the unit tests of some folders have missed. All
# other breaks count as noticed before, as cargo-mutants 27 finds more by `--re` than it is given. It has no baseline, as
# that would look for the suites in the packages that are broken.
try_suites() {
  local stage=$1 folders=$2 suites=() suite units=$out/units/mutants.out && shift 2
  for suite in $1; do suites+=("--cargo-arg=--test=$suite"); done && shift
  mkdir -p "$out/$stage/mutants.out"
  {
    cat "$units/caught.txt" "$units/timeout.txt" "$units/unviable.txt" "$units/previously_caught.txt"
    grep -vE "^crates/($folders)/" "$units/missed.txt"
  } 2>/dev/null >>"$out/$stage/mutants.out/previously_caught.txt"
  mutate "$stage" --iterate --baseline skip --timeout 300 --test-package tower-pulse "${suites[@]}" "$@"
}

[ -n "${ITERATE:-}" ] || rm -rf "$out"/*/
mutate units ${ITERATE:+--iterate} --minimum-test-timeout 20
try_suites judging detect changes -- -- --skip in_redis
try_suites storing 'core|model' 'builder journal layer stores warnings'

cat "$out"/{judging,storing}/mutants.out/missed.txt | sort >"$out/missed.txt"
echo "$(wc -l <"$out/missed.txt") breaks that no test noticed: $out/missed.txt"
