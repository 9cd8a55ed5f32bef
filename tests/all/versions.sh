#!/usr/bin/env bash
# Opens the dashboard of this version over the API of another one, and the other way round, in a real browser. The demo
# of the other version is built from its commit in a folder of its own. See `make test-all-versions`.
# usage: OTHER=v0.1.0 versions.sh ARGUMENTS OF cargo build
set -euo pipefail
cd "$(dirname "$0")/../.."
# The last release; before there is one, the first commit whose entries have version 1.
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
