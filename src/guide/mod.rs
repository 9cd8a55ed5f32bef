//! How things are done, one page each.

#[doc = include_str!("new_aggregate.md")]
pub mod new_aggregate {}
