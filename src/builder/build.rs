//! Builds the store, and a [`Pulse`] with its tasks, from a valid configuration.

use std::sync::{Arc, Once};
use std::time::Duration;

use super::{Backend, Builder};
use crate::layer::IgnoreList;
use crate::pulse::{Pulse, ViewOptions};
use tower_pulse_core::error::BuildError;
use tower_pulse_core::handle::Handle;
use tower_pulse_core::health::Notices;
use tower_pulse_core::random::short_random_name;
use tower_pulse_core::recorder::panics::record_panics;
use tower_pulse_core::store::Store;
use tower_pulse_core::store::memory::MemoryStore;
use tower_pulse_core::task::Task;
#[cfg(feature = "file")]
use tower_pulse_file::{FileOptions, FileStore};
use tower_pulse_model::context::escape_hidden;
use tower_pulse_model::slice::Precisions;
use tower_pulse_model::tier::DAY;

const STORE_CHARS: usize = 48;
const HOST_CHARS: usize = 64;

fn shortened(store: &str) -> String {
    match store.char_indices().nth(STORE_CHARS) {
        Some((at, _)) => format!("{}…", &store[..at]),
        None => store.to_owned(),
    }
}

fn instance_name() -> String {
    let in_file = |path| std::fs::read_to_string(path).ok();
    let in_environment = |name| std::env::var(name).ok();
    let host = in_file("/proc/sys/kernel/hostname").or_else(|| in_file("/etc/hostname"));
    let host = host.or_else(|| in_environment("HOSTNAME"));
    let host = host.or_else(|| in_environment("COMPUTERNAME"));
    let host = host.unwrap_or_default();
    let host: String = host.trim().chars().take(HOST_CHARS).collect();
    let host = if host.is_empty() { "instance" } else { &*host };
    format!("{host}-{}", &short_random_name()[..6])
}

impl Builder {
    /// Builds the `Pulse`, and spawns its tasks on the current tokio runtime.
    ///
    /// # Errors
    /// A setting is not valid, or there is no tokio runtime.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use std::time::Duration;
    /// let error = tower_pulse::Pulse::builder()
    ///     .flush_interval(Duration::from_millis(1))
    ///     .build()
    ///     .unwrap_err();
    /// assert_eq!(error.field(), "flush_interval");
    /// assert!(error.to_string().contains("10 ms"));
    /// # }
    /// ```
    pub fn build(self) -> Result<Pulse, BuildError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| {
            let allowed =
                "call `build` within a tokio runtime, or run the tasks of `build_with_tasks` yourself";
            BuildError::new("runtime", "missing", allowed)
        })?;
        let (pulse, tasks) = self.build_with_tasks()?;
        pulse.join_later(tasks.into_iter().map(|task| runtime.spawn(task)));
        Ok(pulse)
    }

    /// Builds the `Pulse`, and returns its tasks, which the caller must run.
    ///
    /// # Errors
    /// A setting is not valid.
    pub fn build_with_tasks(self) -> Result<(Pulse, Vec<Task>), BuildError> {
        self.validate()?;
        let (store, queue_header) = (self.open()?, self.parsed_queue_header()?);
        let (precisions, history_days) = (self.all_precisions(), self.history_days());
        let mut options = self.options;
        options.precisions = precisions;
        options.history_days = history_days;
        // Instances that are built from clones of one builder must not share their warnings.
        options.notices = Notices::default();
        let name = options.flush.name.unwrap_or_else(instance_name);
        options.flush.name = Some(escape_hidden(&name).into());
        let limits = &mut options.limits;
        limits.queue_header = queue_header;
        limits.targets = options.targets.of_paths.clone();
        if let Some(version) = &mut limits.app_version {
            *version = escape_hidden(version).into();
        }
        let skips = IgnoreList::new(self.ignore.iter().map(String::as_str));
        static FIRST: Once = Once::new();
        FIRST.call_once(|| {
            tracing::info!("tower-pulse records in {}", shortened(&store.describe()))
        });
        if self.record_panics {
            record_panics();
        }
        let (handle, tasks) = Handle::new(options, store);
        #[cfg(feature = "tracing")]
        if let Some(timers) = &self.tracing {
            timers.attach(handle.recorder());
        }
        let view = ViewOptions {
            service: self.service,
            trace_url: self.trace_url,
        };
        Ok((Pulse::new(handle, skips, view), tasks))
    }

    /// Opens the configured store without recording. Pass the store to [`store`](Self::store) of several builders, or
    /// read from it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = tower_pulse::Pulse::builder().redis("redis://127.0.0.1/").service("shop").open_store()?;
    /// assert!(store.describe().contains("127.0.0.1"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// A setting is not valid.
    pub fn open_store(self) -> Result<crate::store::Store, BuildError> {
        self.validate()?;
        Ok(self.open()?.into())
    }

    fn open(&self) -> Result<Arc<dyn Store>, BuildError> {
        Ok(match &self.backend {
            Backend::Memory => {
                let (precisions, clock) = (self.all_precisions(), self.options.clock.clone());
                Arc::new(MemoryStore::in_memory(precisions, clock, self.memory_bytes))
            }
            #[cfg(feature = "file")]
            Backend::File(options) => Arc::new(FileStore::open(self.file_options(options)?)?),
            #[cfg(feature = "redis")]
            Backend::Redis(options) => self.open_redis(*options.clone()?)?,
            Backend::Custom(store) => store.clone(),
            #[cfg(not(all(feature = "file", feature = "redis")))]
            Backend::Missing(error) => return Err(error.clone()),
        })
    }

    #[cfg(feature = "file")]
    pub(super) fn file_options(
        &self,
        options: &Result<FileOptions, BuildError>,
    ) -> Result<FileOptions, BuildError> {
        let options = options.clone()?.precisions(self.all_precisions());
        let options = options.clock(self.options.clock.clone());
        options
            .file_bytes(self.file_bytes)?
            .durable_every(self.durable_every)
    }
}

impl<Of> Builder<Of> {
    pub(super) fn history_days(&self) -> Option<u32> {
        let days = |length: Duration| length.as_secs_f64() / f64::from(DAY);
        self.history.map(|length| days(length).ceil() as u32)
    }

    pub(super) fn all_precisions(&self) -> Precisions {
        Precisions::new(self.precisions.iter().copied(), self.retained_slices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_the_log_is_short() {
        assert_eq!(shortened("memory"), "memory");
        let longest = "\u{fc}".repeat(STORE_CHARS);
        assert_eq!(shortened(&longest), longest);
        assert_eq!(shortened(&(longest.clone() + "x")), longest + "…");
    }
}
