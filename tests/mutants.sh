#!/usr/bin/env bash
# Breaks the source in one place at a time, in a copy of it, and lists the breaks that no test noticed. The unit tests of
# the crate go first, as they notice most breaks within two seconds; the suites then try those that are left: those of the
# detector judge whole fleets, the others store and read. See `make mutants`.
# usage: SHARD=3/12 ITERATE=1 mutants.sh, where ITERATE goes on with a run that was stopped
set -uo pipefail
export PROPTEST_CASES=32 PROPTEST_MAX_SHRINK_ITERS=0
out=target/mutants && mkdir -p "$out"
command -v cargo-mutants >/dev/null || cargo install --locked cargo-mutants || exit 1

packages=(--package tower-pulse-core --package tower-pulse-detect --package tower-pulse-model)
[ -n "${ITERATE:-}" ] || rm -rf "$out"/*
cargo mutants --list "${packages[@]}" >"$out/all.txt" || exit 1
cargo mutants --list "${packages[@]}" --sharding round-robin --shard "${SHARD:-0/12}" >"$out/shard.txt" || exit 1

# mutate STAGE PLACES ARGUMENTS OF cargo mutants: breaks the places that are listed in a file. The results are in a folder
# of the stage's name. cargo-mutants takes no such list, so all other places count as noticed before: 27.1 finds more places
# than `--re` names, and other ones with `--iterate` and `--shard` together.
mutate() {
  local stage=$1 places=$2 && shift 2
  [ -s "$places" ] || return 0
  mkdir -p "$out/$stage/mutants.out"
  grep -vxFf "$places" "$out/all.txt" >>"$out/$stage/mutants.out/previously_caught.txt"
  cargo mutants -o "$out/$stage" --iterate "${packages[@]}" "$@"
  # 2: some were missed, 3: some took too long. All else is no result.
  local result=$?
  [ $result -lt 4 ] && [ $result -ne 1 ] || exit $result
}

# try_suites STAGE FOLDERS SUITES ARGUMENTS OF cargo mutants: tries what the unit tests of some folders have missed, without
# a baseline, which would look for the suites in the packages that are broken.
try_suites() {
  local stage=$1 folders=$2 suites=() suite && shift 2
  for suite in $1; do suites+=("--cargo-arg=--test=$suite"); done && shift
  grep -E "^crates/($folders)/" "$out/units/mutants.out/missed.txt" >"$out/$stage.txt"
  mutate "$stage" "$out/$stage.txt" --baseline skip --timeout 300 --test-package tower-pulse "${suites[@]}" "$@"
}

mutate units "$out/shard.txt" --minimum-test-timeout 20
try_suites judging detect changes -- -- --skip in_redis
try_suites storing 'core|model' 'builder journal layer stores warnings'

cat "$out"/{judging,storing}/mutants.out/missed.txt 2>/dev/null | sort >"$out/missed.txt"
echo "$(wc -l <"$out/missed.txt") breaks that no test noticed: $out/missed.txt"
