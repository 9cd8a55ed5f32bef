//! Tests only: `make loom`.
