#!/usr/bin/env bash
# Compiles the published crates with the lowest version of each dependency that their manifests allow: an application
# that holds one of them back must still compile. See `make test-all-minimal-versions`.
set -euo pipefail
cd "$(dirname "$0")/../.."
copy=target/minimal-versions
rm -rf "$copy" && mkdir -p "$copy"

# A workspace of the published crates alone, and without what only their tests need: the versions of these are no promise.
git ls-files -z -- Cargo.toml README.md ARCHITECTURE.md LICENSE-MIT LICENSE-APACHE src crates |
  xargs -0 cp --parents --no-dereference -t "$copy"
for manifest in "$copy"/Cargo.toml "$copy"/crates/*/Cargo.toml; do
  awk '
    /^\[/ { skipped = /^\[dev-dependencies\]|^\[\[test\]\]/ }
    skipped { next }
    /^    "(benches|examples|tests)/ { next }
    /^default-members = / { next }
    { print }
  ' "$manifest" >"$manifest.new"
  mv "$manifest.new" "$manifest"
done
cd "$copy"

# The resolver's option is not stable; it decides about the lock file only, and the compiler is as strict as ever. It
# fails where a dependency needs a higher version of another one than a manifest asks for.
RUSTC_BOOTSTRAP=1 cargo update --quiet -Z direct-minimal-versions
cargo tree --workspace --all-features --edges normal --depth 1 --prefix none --no-dedupe --format '{p}' |
  sed '/^tower-pulse/d; /^$/d; s/ (proc-macro)//' | sort -u | paste -sd' ' | fold -s -w 118
cargo check --quiet --locked --workspace --all-features --target-dir ../test-all
cargo check --quiet --locked --package tower-pulse --target-dir ../test-all
echo "The published crates compile with the lowest versions that their manifests allow."
