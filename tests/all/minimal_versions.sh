#!/usr/bin/env bash
# Compiles the published crates with the lowest version of each dependency that their manifests allow, because an
# application may use this version. See `make test-all-minimal-versions`.
set -euo pipefail
cd "$(dirname "$0")/../.."
copy=target/minimal-versions
rm -rf "$copy" && mkdir -p "$copy"

# Copies the published crates, without their dev-dependencies, which users do not compile.
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

# This option of cargo is unstable, but affects only the lock file. The command fails if a manifest asks for a lower
# version of a dependency than another dependency needs.
RUSTC_BOOTSTRAP=1 cargo update --quiet -Z direct-minimal-versions
cargo tree --workspace --all-features --edges normal --depth 1 --prefix none --no-dedupe --format '{p}' |
  sed '/^tower-pulse/d; /^$/d; s/ (proc-macro)//' | sort -u | paste -sd' ' | fold -s -w 118
cargo check --quiet --locked --workspace --all-features --target-dir ../test-all
cargo check --quiet --locked --package tower-pulse --target-dir ../test-all
echo "The published crates compile with the lowest versions that their manifests allow."
