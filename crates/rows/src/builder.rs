//! The configuration of a cache.

use std::any::Any;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::cache::{Cache, Options};
use super::daemon::Daemon;
use super::events::Events;
use super::handle::{RowCache, list};
use super::loader::{self, RowLoader};
use super::local::Local;
use super::permits::Permits;
use super::single_flight::SingleFlight;
use tower_pulse_core::error::BuildError;
use tower_pulse_core::handle::Handle;
use tower_pulse_core::row_lists::ListRows;
use tower_pulse_core::task::Task;
use tower_pulse_model::context::Kind;
use tower_pulse_redis::RedisStore;

const MAX_NAME: usize = 100;

/// Builds a [`RowCache`]. Created by [`RowCache::builder`].
#[must_use = "a builder does nothing until it builds"]
pub struct RowCacheBuilder<L = ()> {
    handle: Handle,
    loader: L,
    options: Options,
}

impl RowCache {
    /// Configures a cache that uses the store, the clock and the recorder of a `Pulse`. The task of the cache ends with
    /// the `Pulse`.
    pub fn builder(pulse: &impl AsRef<Handle>) -> RowCacheBuilder {
        RowCacheBuilder {
            handle: pulse.as_ref().clone(),
            loader: (),
            options: Options {
                name: String::new(),
                concurrency: 16,
                deadline: Duration::from_secs(5),
                max_age: None,
                unscheduled_age: Duration::from_secs(1),
                max_bytes: 1024 * 1024,
                max_rows: 100_000,
                drop_missing: false,
                local_fallback: false,
                read_through: None,
                local_bytes: 64 * 1024 * 1024,
            },
        }
    }
}

impl<L> RowCacheBuilder<L> {
    /// Sets the loader of rows: a closure from an id to a future, or a [`RowLoader`].
    pub fn loader<M: RowLoader>(self, loader: M) -> RowCacheBuilder<M> {
        RowCacheBuilder {
            handle: self.handle,
            loader,
            options: self.options,
        }
    }

    /// Names the cache, for a service with several caches. After the prefix, its keys are `delay:{name}:`,
    /// `schedule:{name}:` and `inv:{name}:{id}`; the unnamed cache has the book's `delay:`, `schedule:` and `inv:{id}`.
    /// At most 100 bytes, without colons and control characters.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.options.name = name.into();
        self
    }

    /// The most rows that this process loads at once, 16 by default: 1 to 1,000. Further loads wait, including those of
    /// [`get_or_load`](RowCache::get_or_load). Loads of scheduled rows and loads for callers alternate.
    ///
    /// A loader may ask its own cache for other rows. Such rows are loaded one at a time, and do not count towards the
    /// limit. Rows do count if a task that the loader has spawned asks for them.
    pub fn concurrency(mut self, rows: usize) -> Self {
        self.options.concurrency = rows;
        self
    }

    /// The longest time for loading a row, 5 s by default: 1 ms to 10 min. A shutdown waits for loads for at most half
    /// of `shutdown_timeout`.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.options.deadline = deadline;
        self
    }

    /// The largest row in JSON, in bytes, 1 MiB by default: 1 byte to 64 MiB. Loading a larger row counts as a failure.
    /// A larger row that another program has cached is not read: `get` finds no row, health names the key, and
    /// [`get_or_load`](RowCache::get_or_load) replaces the row.
    ///
    /// A row takes about four times its size in memory while it is loaded, read or written. Up to
    /// [`concurrency`](Self::concurrency) rows are loaded at once; rows above 4 MiB are read and written one at a time.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.options.max_bytes = bytes;
        self
    }

    /// The age at which a row that could not be refreshed is removed: 1 s to a year. By default, the last loaded row
    /// stays.
    pub fn max_age(mut self, age: Duration) -> Self {
        self.options.max_age = Some(age);
        self
    }

    /// The time that a row without a schedule stays cached after [`get_or_load`](RowCache::get_or_load), 1 s by
    /// default: 1 ms to a year.
    pub fn unscheduled_age(mut self, age: Duration) -> Self {
        self.options.unscheduled_age = age;
        self
    }

    /// The most scheduled rows, 100,000 by default: 1 to 10,000,000.
    pub fn max_rows(mut self, rows: usize) -> Self {
        self.options.max_rows = rows;
        self
    }

    /// If the loader says that a row does not exist, also removes the schedule of the row. By default, only the cached
    /// row is removed, and the loader is asked again at the next refresh.
    pub fn drop_missing(mut self, drop: bool) -> Self {
        self.options.drop_missing = drop;
        self
    }

    /// While the store is unreachable, answers a read of a row with the last value that this process has read. Off by
    /// default.
    pub fn local_fallback(mut self, on: bool) -> Self {
        self.options.local_fallback = on;
        self
    }

    /// Keeps a row in this process for `age` after a read: 1 ms to 1 h. Off by default.
    pub fn read_through(mut self, age: Duration) -> Self {
        self.options.read_through = Some(age);
        self
    }

    /// The most bytes of rows that this process keeps, 64 MiB by default, for
    /// [`local_fallback`](Self::local_fallback) and [`read_through`](Self::read_through).
    pub fn local_bytes(mut self, bytes: usize) -> Self {
        self.options.local_bytes = bytes;
        self
    }

    fn validate(&self) -> Result<(), BuildError> {
        const MS: Duration = Duration::from_millis(1);
        const MINUTE: Duration = Duration::from_secs(60);
        const YEAR: Duration = Duration::from_secs(365 * 86_400);
        let options = &self.options;
        let name = &options.name;
        if name.len() > MAX_NAME || name.contains(|c: char| c == ':' || c.is_control()) {
            let allowed = "must have at most 100 bytes, without colons and control characters";
            return Err(BuildError::new("name", format!("{name:?}"), allowed));
        }
        let [concurrency, bytes, rows] = [options.concurrency, options.max_bytes, options.max_rows];
        check("concurrency", concurrency, 1..=1_000, "1 to 1,000")?;
        check("max_bytes", bytes, 1..=64 << 20, "1 to 67,108,864")?;
        check("max_rows", rows, 1..=10_000_000, "1 to 10,000,000")?;
        let (deadline, unscheduled) = (options.deadline, options.unscheduled_age);
        check("deadline", deadline, MS..=10 * MINUTE, "1 ms to 10 min")?;
        check("unscheduled_age", unscheduled, MS..=YEAR, "1 ms to a year")?;
        if let Some(age) = options.max_age {
            check("max_age", age, MINUTE / 60..=YEAR, "1 s to a year")?;
        }
        if let Some(age) = options.read_through {
            check("read_through", age, MS..=60 * MINUTE, "1 ms to 1 h")?;
        }
        Ok(())
    }
}

fn check<T: PartialOrd + std::fmt::Debug>(
    field: &'static str,
    value: T,
    range: RangeInclusive<T>,
    allowed: &str,
) -> Result<(), BuildError> {
    match range.contains(&value) {
        true => Ok(()),
        false => Err(BuildError::new(field, format!("{value:?}"), allowed)),
    }
}

impl<L: RowLoader> RowCacheBuilder<L> {
    /// Builds the cache and spawns its task, which `Pulse::shutdown` joins.
    ///
    /// # Errors
    /// Fails if a field is out of range, the name is taken, the store is not in Redis, or there is no Tokio runtime.
    pub fn build(self) -> Result<RowCache, BuildError> {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            let allowed = "call `build` within a Tokio runtime, or use `build_with_task`";
            return Err(BuildError::new("runtime", "none", allowed));
        };
        let handle = self.handle.clone();
        let (cache, task) = self.build_with_task()?;
        handle.join_later(std::iter::once(runtime.spawn(task)));
        Ok(cache)
    }

    /// Builds the cache and returns its task, which the caller runs on a Tokio runtime.
    ///
    /// # Errors
    /// Fails if a field is out of range, the name is taken, or the store is not in Redis.
    pub fn build_with_task(self) -> Result<(RowCache, Task), BuildError> {
        self.validate()?;
        let (handle, options) = (self.handle, self.options);
        let store: Arc<dyn Any + Send + Sync> = handle.store().clone();
        let Ok(store) = store.downcast::<RedisStore>() else {
            let allowed = "a row cache needs a `Pulse` in Redis: name the server with `redis`";
            return Err(BuildError::new("store", handle.store().describe(), allowed));
        };
        let name = options.name.clone();
        let prefix = match &*name {
            "" => "row".to_owned(),
            name => format!("row:{name}"),
        };
        let (clock, recorder) = (handle.clock().clone(), handle.recorder());
        let cache = Arc::new(Cache {
            loading: recorder.context(Kind::Timer, &format!("{prefix}:load")),
            events: Events::new(recorder, &prefix),
            local: Local::new(clock.clone(), options.local_bytes),
            store,
            clock,
            loader: loader::any(self.loader, options.deadline, options.max_bytes),
            permits: Permits::new(options.concurrency),
            options,
            scheduled: Notify::new(),
            loads: SingleFlight::default(),
            fetches: SingleFlight::default(),
        });
        let listed = RowCache(cache.clone());
        let listing: Arc<ListRows> = Arc::new(move |query| {
            let cache = listed.clone();
            Box::pin(async move { list(&cache, &query).await })
        });
        if !handle.row_caches().add(&name, listing) {
            let allowed = "must be a name that no other cache of this `Pulse` has";
            return Err(BuildError::new("name", format!("{name:?}"), allowed));
        }
        let daemon = Daemon::new(cache.clone(), &handle);
        let task = Task::new("rows", daemon.refresh_until(handle.stopped()));
        Ok((RowCache(cache), task))
    }
}

impl<L> std::fmt::Debug for RowCacheBuilder<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowCacheBuilder")
            .field("name", &self.options.name)
            .finish_non_exhaustive()
    }
}
