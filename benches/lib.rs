//! Benches only: `make bench`, or `cargo bench -p pulse-benches --bench flush`.
