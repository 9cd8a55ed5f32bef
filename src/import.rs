//! Bringing the history of a file into another store, exactly once, when a service becomes a fleet. It needs the
//! feature `import`; the [guide](crate::guide::file#growing) says in which order to do what.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tower_pulse::import::{FileImport, ImportErrorKind};
//! use tower_pulse::store::{Precisions, Store, memory::MemoryStore};
//! use tower_pulse::Clock;
//!
//! // In its place: RedisStore::open(RedisOptions::new("redis://127.0.0.1/")?.prefix("pulse:")?)?
//! let store = Store::from(MemoryStore::new(Precisions::default(), Clock::system()));
//! let error = FileImport::new("/var/lib/shop/no-such.redb")?.run(store).await.unwrap_err();
//! assert_eq!(error.kind(), ImportErrorKind::FileMissing);
//! # Ok(()) }
//! ```

pub use tower_pulse_file::import::{FileImport, ImportError, ImportErrorKind, ImportedFile};
