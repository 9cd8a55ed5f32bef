#!/usr/bin/env bash
# Tests the dashboard of this version with the API of another version, and the reverse, in a real browser. Builds the
# demo of the other version from its commit, in a separate folder. See `make test-all-versions`.
# usage: OTHER=v0.1.0 versions.sh ARGUMENTS OF cargo build
set -euo pipefail
cd "$(dirname "$0")/../.."
# The last release or, before the first release, the first commit whose entries have version 1.
first=$(git log -1 --format=%h -S'ENTRY_VERSION: u8 = 1;' -- crates/model/src/entry.rs)
other=${OTHER:-$(git describe --tags --abbrev=0 2>/dev/null || echo "$first")}
commit=$(git rev-parse --verify --short "$other^{commit}")
folder=target/versions/$commit
if [ ! -d "$folder" ]; then
  mkdir -p "$folder.new"
  git archive "$commit" | tar -x -C "$folder.new"
  mv "$folder.new" "$folder"
fi
echo "The other version is $other ($commit)."
cargo build --quiet --locked --manifest-path "$folder/Cargo.toml" --target-dir target/versions/target --example demo
cargo build --quiet "$@" --example demo --example versions
target/debug/examples/versions target/versions/target/debug/examples/demo
