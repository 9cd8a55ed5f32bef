#!/usr/bin/env bash
# Compiles the published crates with all features, and tower-pulse with its default features, by the oldest Rust that
# Cargo.toml allows (`rust-version`).
set -euo pipefail
cd "$(dirname "$0")/../.."
rust=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
read -ra published <<<"$(sed -n 's/^name = "\(tower-pulse.*\)"$/--package \1/p' Cargo.toml crates/*/Cargo.toml | paste -sd' ')"
rustup toolchain install "$rust" --profile minimal --no-self-update
cargo "+$rust" check --locked --target-dir target/msrv "${published[@]}" --all-features
cargo "+$rust" check --locked --target-dir target/msrv --package tower-pulse
