#!/usr/bin/env bash
# Compiles the library and the tests of tower-pulse with no feature, with each feature alone and with each pair of
# features. Fails on warnings. Then runs the tests with no feature and with each feature alone. See
# `make test-all-feature-pairs`.
# usage: feature_pairs.sh [--list]
set -euo pipefail
cd "$(dirname "$0")/../.."
# All sets share a target folder, so most dependencies are compiled once. `-D warnings` does not affect crates from the
# registry, because cargo caps their lints.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target/test-all} RUSTFLAGS="${RUSTFLAGS:-} -D warnings"

# Maps each feature of the table [features] to the features that it turns on.
declare -A turns_on
names=()
while IFS='|' read -r name others; do
  names+=("$name")
  turns_on[$name]=$others
done < <(awk '
  /^\[/ { here = $0 == "[features]" }
  here && /^[a-z]/ && !/^default / {
    name = $1
    sub(/^[^\[]*\[/, ""); gsub(/[]",]/, "")
    print name "|" $0
  }' Cargo.toml)

# Prints all features of this crate that a set of features turns on, sorted.
closure() {
  local -A all=()
  local waiting=("$@")
  while [ "${#waiting[@]}" -gt 0 ]; do
    local name=${waiting[0]}
    waiting=("${waiting[@]:1}")
    if [ -z "${all[$name]:-}" ] && [ -n "${turns_on[$name]+known}" ]; then
      all[$name]=1
      local next
      read -ra next <<<"${turns_on[$name]}"
      waiting+=("${next[@]}")
    fi
  done
  printf '%s\n' "${!all[@]}" | sort | paste -sd, -
}

# Adds a set of features, unless an earlier set turns on the same features.
declare -A seen
sets=()
add() {
  local all
  all=$(closure "$@")
  if [ -z "${seen[x$all]:-}" ]; then
    seen[x$all]=1
    local IFS=,
    sets+=("$*")
  fi
}
add
for name in "${names[@]}"; do add "$name"; done
alone=${#sets[@]}
for ((i = 0; i < ${#names[@]}; i++)); do
  for ((j = i + 1; j < ${#names[@]}; j++)); do add "${names[i]}" "${names[j]}"; done
done
if [ "${1:-}" = --list ]; then
  printf '%s\n' "${sets[@]}"
  exit
fi

SECONDS=0
try() { # arguments: a command of cargo, a set of features
  local start=$SECONDS
  cargo "$1" --quiet --locked --package tower-pulse --lib --tests --no-default-features --features "$2" ||
    { echo "FAILED: cargo $1 with the features \"$2\"" >&2 && exit 1; }
  echo "cargo $1, \"$2\": $((SECONDS - start)) s"
}
for set in "${sets[@]}"; do try check "$set"; done
checked=$SECONDS
for set in "${sets[@]:0:alone}"; do try test "$set"; done
echo "${#sets[@]} sets of features compile without a warning ($checked s), and the tests of $alone pass ($((SECONDS - checked)) s)."
