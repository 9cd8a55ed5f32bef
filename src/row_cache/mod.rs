//! Rows that are refreshed on schedule: the recipe
//! [row cache](crate::guide::recipes#6-row-cache).
//!
//! A page that the statistics name as hot loads the same rows over and over. Schedule those rows, and let the
//! page read them from the cache: its author chooses how old they may be, and the database sees one load per
//! row and turn, however many instances the service has.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use tower_pulse::Pulse;
//! use tower_pulse::row_cache::RowCache;
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Offer { name: String, stock: u32 }
//!
//! # async fn query(id: String) -> Result<Option<Offer>, std::io::Error> { Ok(Some(Offer { name: id, stock: 7 })) }
//! let pulse = Pulse::builder().build()?;
//! let offers = RowCache::builder(&pulse)
//!     .loader(|id: String| async move { query(id).await })
//!     .build()?;
//! offers.schedule("1", Duration::from_secs(5)).await?;
//! let offer = offers.get_or_load::<Offer>("1").await?.expect("there is such an offer");
//! assert_eq!(offer.value.stock, 7);
//! # Ok(()) }
//! ```

// Read `places` (how many rows are loaded at once), `loader`, `events` and `local` (what this process counts and
// remembers), `flights` (callers that share an answer), `shared` (refreshing and reading), `list`, `registry`, `handle`
// (what the application calls), `daemon` (the task that refreshes due rows), then `builder` (the configuration).

mod builder;
mod daemon;
mod error;
mod events;
mod flights;
mod handle;
mod list;
mod loader;
mod local;
mod places;
mod registry;
mod shared;

pub use self::builder::RowCacheBuilder;
pub use self::error::RowError;
pub use self::events::RowSums;
pub use self::handle::{Delay, Row, RowCache};
pub use self::list::{RowInfo, RowList};
pub use self::loader::RowLoader;
pub use self::local::FailedRow;
#[doc(hidden)]
pub use self::registry::RowCaches;
#[cfg(feature = "query")]
pub(crate) use self::shared::Shared;

use std::sync::Arc;

use crate::clock::Clock;
use crate::recorder::Recorder;
use crate::store::Store;
use crate::task::{Stopped, Task};

/// What a cache needs of the [`Pulse`](crate::Pulse) that it belongs to.
#[doc(hidden)]
pub struct Parts {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) clock: Clock,
    pub(crate) stopped: Stopped,
    pub(crate) caches: RowCaches,
    /// How long the `Pulse` may take to shut down.
    pub(crate) shutdown_timeout: std::time::Duration,
    /// Runs a task, and joins it when the `Pulse` shuts down. `None` outside of a runtime.
    pub(crate) spawn: Option<Box<dyn FnOnce(Task)>>,
}

/// What a [`RowCache`] belongs to: a [`Pulse`](crate::Pulse). Sealed.
pub trait Host: sealed::Sealed {}

pub(crate) mod sealed {
    pub trait Sealed {
        fn parts(&self) -> super::Parts;
    }
}
