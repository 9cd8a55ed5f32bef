//! How to do things, one page each.

#[cfg(feature = "admin")]
#[doc = include_str!("access.md")]
pub mod access {}

#[doc = include_str!("recipes.md")]
pub mod recipes {}

#[doc = include_str!("reading_health.md")]
pub mod reading_health {}

#[doc = include_str!("sizing.md")]
pub mod sizing {}

#[doc = include_str!("new_aggregate.md")]
pub mod new_aggregate {}
