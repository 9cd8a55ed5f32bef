#!/usr/bin/env bash
# Breaks the source in one place at a time, in a copy of it, and lists the breaks that no test noticed. The unit tests of
# the crate go first, as they notice most breaks within two seconds; the suites then try those that are left: those of the
# detector judge whole fleets, the others store and read. See `make mutants`.
# usage: SHARD=3/12 ITERATE=1 mutants.sh, where ITERATE goes on with a run that was stopped
set -uo pipefail
export PROPTEST_CASES=32 PROPTEST_MAX_SHRINK_ITERS=0
out=target/mutants && mkdir -p "$out"
command -v cargo-mutants >/dev/null || cargo install --locked cargo-mutants || exit 1

# mutate STAGE ARGUMENTS OF cargo mutants; its results are in a folder of the stage's name.
mutate() {
  local stage=$1 && shift
  mkdir -p "$out/$stage"
  cargo mutants -o "$out/$stage" ${ITERATE:+--iterate} --package tower-pulse-core --package tower-pulse-detect \
    --package tower-pulse-model "$@"
  # 2: some were missed, 3: some took too long. All else is no result.
  local result=$?
  [ $result -lt 4 ] && [ $result -ne 1 ] || exit $result
}

# try_suites STAGE FOLDERS SUITES ARGUMENTS OF cargo mutants: tries what the unit tests of some folders have missed.
try_suites() {
  local stage=$1 folders=$2 suites=() names suite && shift 2
  for suite in $1; do suites+=("--cargo-arg=--test=$suite"); done && shift
  names=$(grep -E "^crates/($folders)/" "$out/units/mutants.out/missed.txt" |
    sed 's/[][().*+?{}|^$\\]/\\&/g; s/.*/^&$/' | paste -sd'|')
  [ -z "$names" ] || mutate "$stage" --re "$names" --test-package tower-pulse "${suites[@]}" "$@"
}

[ -n "${ITERATE:-}" ] || rm -rf "$out"/*/
mutate units --sharding round-robin --shard "${SHARD:-0/12}" --minimum-test-timeout 20
try_suites judging detect changes -- -- --skip in_redis
try_suites storing 'core|model' 'builder journal layer stores warnings'

for stage in judging storing; do
  cat "$out/$stage/mutants.out/missed.txt" 2>/dev/null
done | sort >"$out/missed.txt"
echo "$(wc -l <"$out/missed.txt") breaks that no test noticed: $out/missed.txt"
