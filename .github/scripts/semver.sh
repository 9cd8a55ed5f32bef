#!/usr/bin/env bash
# Compares the public interface of tower-pulse with that of the last release before this commit, by cargo-semver-checks.
# The other crates are internal, and have no stability. The tool itself ignores features that begin with `_`.
set -euo pipefail
cd "$(dirname "$0")/../.."
if ! tag=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null); then
  echo "No tag v… leads here: there is no release yet to compare with."
  exit 0
fi
echo "Comparing with $tag"
cargo semver-checks --package tower-pulse --baseline-rev "$tag"
