#!/usr/bin/env bash
# Compares the public interface of tower-pulse with the interface of the last release, by cargo-semver-checks.
# The other crates are internal and change without notice. The tool ignores features that begin with `_`.
set -euo pipefail
cd "$(dirname "$0")/../.."
if ! tag=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null); then
  echo "No tag v… precedes this commit, so no release can be compared."
  exit 0
fi
echo "Comparing with $tag"
cargo semver-checks --package tower-pulse --baseline-rev "$tag"
