//! Rows in Redis that are refreshed on schedule: [cached rows](crate::guide::counters_rankings_rows#cached-rows).
//!
//! A hot page loads the same rows over and over. Schedule these rows at an interval of your choice, and let the page
//! read them from the cache. The database is asked once per row and interval, by one instance of the service.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use tower_pulse::Pulse;
//! use tower_pulse::row_cache::RowCache;
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Offer { name: String, stock: u32 }
//!
//! # async fn query(id: String) -> Result<Option<Offer>, std::io::Error> { Ok(Some(Offer { name: id, stock: 7 })) }
//! let pulse = Pulse::builder().redis("redis://127.0.0.1/").build()?;
//! let offers = RowCache::builder(&pulse)
//!     .loader(|id: String| async move { query(id).await })
//!     .build()?;
//! offers.schedule("1", Duration::from_secs(5)).await?;
//! let offer = offers.get_or_load::<Offer>("1").await?.expect("there is such an offer");
//! assert_eq!(offer.value.stock, 7);
//! # Ok(()) }
//! ```

pub use tower_pulse_rows::{Row, RowCache, RowCacheBuilder, RowError, RowLoader};
