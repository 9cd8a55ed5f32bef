//! What is public for this crate's own tests and benches. It is hidden where `lib.rs` re-exports it, and not
//! here: what is re-exported from a hidden module would miss in the list of `make surface`.

#[path = "model/mod.rs"]
pub mod model;
