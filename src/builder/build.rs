//! Building: the store, the parts of a [`Pulse`] and its tasks, of a configuration that is allowed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::memory::{expected_in_words, most_in_words};
use super::{Backend, Builder};
use crate::changes::Judge;
use crate::cleaner::{Cleaner, CleanerStatus, Retention};
use crate::error::BuildError;
use crate::flush::{FlushOptions, Flusher};
use crate::fold::Folder;
use crate::layer::IgnoreList;
use crate::pulse::{Parts, Pulse};
use crate::recorder::{Limits, Recorder};
use crate::store::Store;
#[cfg(feature = "file")]
use crate::store::file::{FileOptions, FileStore};
use crate::store::memory::MemoryStore;
#[cfg(feature = "redis")]
use crate::store::redis::{RedisOptions, RedisStore};
use crate::task::{Stop, Task};
use tower_pulse_model::context::escape_hidden;
use tower_pulse_model::expected::{ExpectedBytes, USUAL_CONTEXTS};
use tower_pulse_model::slice::Precisions;
use tower_pulse_model::tier::DAY;

impl Builder {
    /// Builds it, and spawns its tasks on the current tokio runtime.
    ///
    /// # Errors
    /// A field that is out of range, or no runtime to spawn on.
    pub fn build(self) -> Result<Pulse, BuildError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| {
            BuildError::new(
                "runtime",
                "missing",
                "call `build` within a tokio runtime, or run the tasks of `build_with_tasks` yourself",
            )
        })?;
        let (pulse, tasks) = self.build_with_tasks()?;
        pulse.join_later(tasks.into_iter().map(|task| runtime.spawn(task)));
        Ok(pulse)
    }

    /// Builds it, and returns its tasks for the caller to run.
    ///
    /// # Errors
    /// A field that is out of range.
    pub fn build_with_tasks(self) -> Result<(Pulse, Vec<Task>), BuildError> {
        self.validate()?;
        let worst = self.worst_case();
        let (bounds, precisions) = (self.bounds(), self.all_precisions());
        let expected = ExpectedBytes::new(&bounds, &precisions, USUAL_CONTEXTS);
        let most = most_in_words(&self.process_bytes(), &bounds);
        let memory_warning = self.memory_warning();
        let history_days = self.history_days();
        let store: Arc<dyn Store> = match &self.backend {
            Backend::Memory => {
                let store = MemoryStore::new(precisions.clone(), self.clock.clone());
                Arc::new(store.with_record_bytes(self.memory_bytes))
            }
            #[cfg(feature = "file")]
            Backend::File(options) => Arc::new(FileStore::open(self.file_options(options)?)?),
            #[cfg(feature = "redis")]
            Backend::Redis(options) => self.open_redis(*options.clone()?)?,
            Backend::Custom(store) => store.clone(),
        };

        let limits = Limits {
            max_contexts: self.max_contexts,
            max_counters: self.max_counters,
            pending_bytes: self.pending_bytes,
            error_rule: self.error_rule,
            details: self.details,
            app_version: self
                .app_version
                .map(|version| escape_hidden(&version).into()),
        };
        let recorder = Arc::new(Recorder::new(
            self.clock.clone(),
            precisions.clone(),
            limits,
        ));
        let unattended = Arc::<tokio::sync::Notify>::default();
        let options = FlushOptions {
            interval: self.flush_interval,
            replay_bytes: self.replay_bytes,
            name: self.instance.map(|name| escape_hidden(&name).into()),
        };
        let flusher = Arc::new(Flusher::new(
            recorder.clone(),
            store.clone(),
            &options,
            unattended.clone(),
        ));
        let instance = flusher.status().unique_name;
        let folder = Folder::new(
            store.clone(),
            self.clock.clone(),
            instance.clone(),
            Folder::remembered_records(store.is_in_process(), self.max_contexts),
            unattended,
        );
        let folder = folder
            .with_history(history_days)
            .with_profiles(bounds.contexts() as usize);
        let folder = Arc::new(folder.with_step(self.fold_step_contexts));
        let unsent_since = {
            let recorder = recorder.clone();
            move || recorder.drain.unsent_since()
        };
        let judge = Judge::new(
            store.clone(),
            self.clock.clone(),
            self.max_contexts,
            folder.clone(),
            unsent_since,
        );
        let judge = Arc::new(judge);
        let cleaning = Arc::<Mutex<CleanerStatus>>::default();
        let cleaner = Cleaner {
            store: store.clone(),
            clock: self.clock.clone(),
            interval: self.clean_interval,
            retention: Retention {
                ranking_retention: self.ranking_retention,
                context_retention: self.context_retention,
            },
            instance,
            status: cleaning.clone(),
        };
        let skips = IgnoreList::default();
        self.ignore.iter().for_each(|path| skips.add(path));
        for name in &self.counters {
            recorder.counter(name);
        }
        let parts = Parts {
            worst,
            bounds,
            memory_warning,
            recorder,
            flusher,
            folder,
            store,
            judge,
            clock: self.clock,
            #[cfg(feature = "admin")]
            service: self.service,
            precisions,
            #[cfg(feature = "query")]
            target: self.target,
            #[cfg(feature = "query")]
            query_bytes: self.query_bytes,
            skips,
            #[cfg(feature = "row-cache")]
            row_caches: Default::default(),
            cleaning,
            shutdown_timeout: self.shutdown_timeout,
        };
        tracing::info!(
            store = %parts.store.describe(),
            expected_process_bytes = expected.process_bytes,
            expected_store_bytes = expected.store_bytes,
            max_process_bytes = parts.worst.process_bytes,
            max_store_bytes = parts.worst.store_bytes,
            "tower-pulse records; {}; {most}",
            expected_in_words(&expected)
        );
        if let Some(warning) = &parts.memory_warning {
            tracing::warn!("{warning}");
        }
        let (stop, stopped) = Stop::new();
        let drain = parts.recorder.clone().drain_each_second(stopped.clone());
        let flush = {
            let (store, folder) = (parts.store.clone(), parts.folder.clone());
            let flushing = parts.flusher.clone().flush_at_intervals(stopped.clone());
            async move {
                flushing.await;
                // In one process, nobody else may be there to fold what the last flush has appended.
                if store.is_in_process() {
                    let _ = folder.fold().await;
                }
            }
        };
        let fold = parts.folder.clone().fold_at_intervals(stopped.clone());
        let heartbeat = parts
            .flusher
            .clone()
            .heartbeat_at_intervals(stopped.clone());
        let judge = parts.judge.clone().judge_at_intervals(stopped.clone());
        let tasks = vec![
            Task::new("drain", drain),
            Task::new("flush", flush),
            Task::new("fold", fold),
            Task::new("heartbeat", heartbeat),
            Task::new("judge", judge),
            Task::new("clean", cleaner.clean_at_intervals(stopped)),
        ];
        Ok((Pulse::new(parts, stop), tasks))
    }

    /// The days of history that are asked for, the last one whole.
    pub(super) fn history_days(&self) -> Option<u32> {
        let days = |length: Duration| length.as_secs_f64() / f64::from(DAY);
        self.history.map(|length| days(length).ceil() as u32)
    }

    pub(super) fn all_precisions(&self) -> Precisions {
        Precisions::new(self.precisions.iter().copied(), self.retained_slices)
    }

    #[cfg(feature = "file")]
    pub(super) fn file_options(
        &self,
        options: &Result<FileOptions, BuildError>,
    ) -> Result<FileOptions, BuildError> {
        let options = options.clone()?.precisions(self.all_precisions());
        let options = options.clock(self.clock.clone());
        options
            .file_bytes(self.file_bytes)?
            .durable_every(self.durable_every)
    }

    #[cfg(feature = "redis")]
    pub(super) fn open_redis(&self, options: RedisOptions) -> Result<Arc<dyn Store>, BuildError> {
        let options = options
            .prefix(self.key_prefix())?
            .precisions(self.all_precisions())
            .expire_idle_keys(self.expire_idle_keys)
            .book_keys(self.book_keys)
            .journal_bytes(self.journal_bytes)
            .timeouts(self.redis_connection_timeout, self.redis_response_timeout);
        let store = RedisStore::open(options)?;
        // A clock moved by hand and the server's would soon be hours apart.
        Ok(match self.clock.is_manual() {
            true => Arc::new(store.with_clock(self.clock.clone())),
            false => Arc::new(store),
        })
    }

    #[cfg(feature = "redis")]
    fn key_prefix(&self) -> String {
        match (&self.prefix, &self.service) {
            (Some(prefix), _) => prefix.clone(),
            (None, Some(service)) => format!("pulse:{service}:"),
            (None, None) => "pulse:".to_owned(),
        }
    }
}
