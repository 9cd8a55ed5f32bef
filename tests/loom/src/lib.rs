//! This package has only tests: `make loom`.
