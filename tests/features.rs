//! Tests that pass with any set of features. `make test-all-feature-pairs` runs them with each feature alone.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

#[cfg(all(feature = "axum", feature = "query"))]
mod rig;

mod builder;
#[cfg(all(feature = "axum", feature = "query"))]
mod layer;
#[cfg(feature = "axum")]
mod warnings;
