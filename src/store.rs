//! Stores of recorded data: in memory, in a file and in Redis. All three have the type [`Store`].
//!
//! [`Builder`](crate::Builder) opens the configured store. Open a store yourself to share it among several builders by
//! [`Builder::store`](crate::Builder::store), or to read it without recording anything:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tower_pulse::Pulse;
//!
//! // One dashboard for two parts of a service that are configured differently.
//! let store = Pulse::builder().open_store()?;
//! let inner = Pulse::builder().store(store.clone()).build()?;
//! let outer = Pulse::builder().store(store.clone()).build()?;
//! inner.counter("sales").add(1);
//! outer.counter("sales").add(2);
//! inner.flush().await?;
//! outer.flush().await?;
//! let days = store.counter("sales", 86_400).await?;
//! assert_eq!(days.iter().map(|(_, sold)| sold).sum::<i64>(), 3);
//! # Ok(()) }
//! ```

use std::fmt;
use std::sync::Arc;

use tower_pulse_core::error::StoreError;
use tower_pulse_core::store as backend;
use tower_pulse_core::store::CounterQuery;
#[cfg(feature = "rankings")]
pub use tower_pulse_core::store::read::RankedId;
#[cfg(feature = "redis")]
pub use tower_pulse_redis::RedisCredentials;

/// The store of all recorded data: in memory, in a file or in Redis. Clones are cheap and share one store.
///
/// [`Builder::open_store`](crate::Builder::open_store) opens a store. An application cannot implement a store of its
/// own.
#[derive(Clone)]
pub struct Store(Arc<dyn backend::Store>);

impl Store {
    /// The slices of a counter that have a value, oldest first: the start of each, in Unix seconds, and its sum.
    ///
    /// # Errors
    /// The store failed, or has no counters of this `precision` (in seconds).
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn counter(&self, name: &str, precision: u32) -> Result<Vec<(i64, i64)>, StoreError> {
        let query = CounterQuery::new([name], precision);
        let series = self.0.query().counters(&query).await?.into_iter();
        let slices = series.flat_map(|series| series.slices);
        Ok(slices.map(|slice| (slice.start, slice.count)).collect())
    }

    /// The slowest contexts, at most `limit`, slowest first, each with its mean in seconds. Redis has them in
    /// [`slowest:AccessTime`](crate::guide::counters_rankings_rows#keys-that-other-programs-can-read).
    ///
    /// # Errors
    /// The store failed.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn slowest(&self, limit: usize) -> Result<Vec<(String, f64)>, StoreError> {
        let slowest = self.0.query().slowest(limit).await?.into_iter();
        Ok(slowest
            .map(|ranked| (ranked.context, ranked.mean))
            .collect())
    }

    /// The kind and address of the store, without secrets.
    pub fn describe(&self) -> String {
        self.0.describe()
    }

    /// Warnings about the store, for the operator. Most of them name a remedy.
    pub fn warnings(&self) -> Vec<String> {
        self.0.warnings()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.describe()).finish()
    }
}

#[doc(hidden)]
impl From<Arc<dyn backend::Store>> for Store {
    fn from(store: Arc<dyn backend::Store>) -> Self {
        Self(store)
    }
}

#[doc(hidden)]
impl<S: backend::Store> From<Arc<S>> for Store {
    fn from(store: Arc<S>) -> Self {
        Self(store)
    }
}

#[doc(hidden)]
impl From<Store> for Arc<dyn backend::Store> {
    fn from(store: Store) -> Self {
        store.0
    }
}
