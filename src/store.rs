//! Storage of aggregates: three stores that behave alike, each of which is a [`Store`]. [`memory`] is the embedded
//! default; the store in `file` survives a restart; the store in `redis` is shared by a fleet.
//!
//! [`Builder`](crate::Builder) opens the store that it is configured for. Open one here to share it among
//! several of them by [`Builder::store`](crate::Builder::store), or to read it without recording anything:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use tower_pulse::{Clock, Pulse};
//! use tower_pulse::store::{CounterQuery, Precisions, Store, memory::MemoryStore};
//!
//! // One page for two parts of a service that are configured differently.
//! let store = Store::from(MemoryStore::new(Precisions::default(), Clock::system()));
//! let inner = Pulse::builder().store(store.clone()).build().unwrap();
//! let outer = Pulse::builder().store(store.clone()).build().unwrap();
//! inner.counter("sales").add(1);
//! outer.counter("sales").add(2);
//! inner.flush().await.unwrap();
//! outer.flush().await.unwrap();
//! let sold = store.counters(&CounterQuery::new(["sales"], 86_400)).await.unwrap();
//! assert_eq!(sold[0].sum(), 3);
//! # }
//! ```

use std::fmt;
use std::sync::Arc;

use tower_pulse_core::error::StoreError;
use tower_pulse_core::store as backend;
pub use tower_pulse_core::store::{
    CounterQuery, CounterSeries, Precision, Precisions, RankedContext, RankedId, SliceCount,
    SlowestQuery,
};

/// Where everything is kept: in memory, in a file or in Redis. Cheap to clone; all clones are one store.
///
/// Made of one of the stores of this module. Only they are stores: an application cannot bring one of its own.
#[derive(Clone)]
pub struct Store(Arc<dyn backend::Store>);

impl Store {
    /// The slices of counters that have been counted in, oldest first: one series per name of the query, in its order.
    ///
    /// # Errors
    /// The store failed, or it does not have the precision.
    ///
    /// # Cancel safety
    /// Dropping it changes nothing.
    pub async fn counters(&self, query: &CounterQuery) -> Result<Vec<CounterSeries>, StoreError> {
        self.0.counters(query).await
    }

    /// The slowest contexts by mean, slowest first: the recipe
    /// [access times](crate::guide::recipes#4-access-times-and-the-slowest-100).
    ///
    /// # Errors
    /// The store failed.
    ///
    /// # Cancel safety
    /// Dropping it changes nothing.
    pub async fn slowest(&self, query: &SlowestQuery) -> Result<Vec<RankedContext>, StoreError> {
        self.0.slowest(query).await
    }

    /// What it is, for people: without secrets.
    pub fn describe(&self) -> String {
        self.0.describe()
    }

    /// The precisions of its counters.
    pub fn precisions(&self) -> &Precisions {
        self.0.precisions()
    }

    /// What an operator must do something about.
    pub fn warnings(&self) -> Vec<String> {
        self.0.warnings()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.describe()).finish()
    }
}

impl From<Arc<dyn backend::Store>> for Store {
    fn from(store: Arc<dyn backend::Store>) -> Self {
        Self(store)
    }
}

impl<S: backend::Store> From<Arc<S>> for Store {
    fn from(store: Arc<S>) -> Self {
        Self(store)
    }
}

impl From<memory::MemoryStore> for Store {
    fn from(store: memory::MemoryStore) -> Self {
        Self(Arc::new(store))
    }
}

#[cfg(feature = "redis")]
impl From<tower_pulse_redis::RedisStore> for Store {
    fn from(store: tower_pulse_redis::RedisStore) -> Self {
        Self(Arc::new(store))
    }
}

impl From<Store> for Arc<dyn backend::Store> {
    fn from(store: Store) -> Self {
        store.0
    }
}

/// The store in the memory of this process.
pub mod memory {
    pub use tower_pulse_core::store::memory::MemoryStore;
}

/// The store in one file of this machine: history that survives a restart, without a server.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tower_pulse::Pulse;
/// use tower_pulse::store::{CounterQuery, Store};
/// use tower_pulse::store::file::{FileOptions, FileStore};
///
/// # let directory = std::env::temp_dir().join(format!("pulse-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let path = directory.join("pulse.redb");
/// let store = Store::from(FileStore::open(FileOptions::new(path)?)?);
/// let pulse = Pulse::builder().store(store.clone()).build()?;
/// pulse.counter("sales").add(3);
/// pulse.flush().await?;
/// let sold = store.counters(&CounterQuery::new(["sales"], 86_400)).await?;
/// assert_eq!(sold[0].sum(), 3);
/// if let Err(error) = pulse.shutdown().await {
///     eprintln!("tower-pulse: {error}");
/// }
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok(()) }
/// ```
#[cfg(feature = "file")]
pub mod file {
    pub use tower_pulse_file::{FileOptions, FileStore};
}

/// The store of a fleet: one Redis or Valkey, standalone, in a cluster or behind Sentinel, in the book's layout.
#[cfg(feature = "redis")]
pub mod redis {
    pub use tower_pulse_redis::{RedisCredentials, RedisOptions, RedisStore};
}
