//! Starting an instance: its stages and their tasks.

use std::sync::{Arc, Mutex};

use super::{Handle, HandleOptions, Inner, Stages};
use crate::changes::Judge;
use crate::cleaner::Cleaner;
use crate::flush::Flusher;
use crate::fold::{FoldLimits, Folder};
use crate::machine;
use crate::recorder::Recorder;
use crate::skew;
use crate::store::Store;
use crate::task::{BoxFuture, Stop, Stopped, Task, boxed};

/// The number of profiles beyond `max_contexts`: for `<unmatched>`, `<overflow>` and `<all>`.
const SYNTHETIC: usize = 3;

impl Handle {
    /// Creates an instance over a store, and returns the instance with its tasks. The caller must run the tasks.
    pub fn new(options: HandleOptions, store: Arc<dyn Store>) -> (Self, Vec<Task>) {
        let stages = Arc::new(Stages::new(options, store));
        let (stop, stopped) = Stop::new();
        let tasks = stages.tasks(&stopped);
        let inner = Inner {
            stages,
            stop,
            tasks: Mutex::default(),
            flushes: Default::default(),
            #[cfg(feature = "query")]
            query: std::sync::OnceLock::new(),
        };
        (Self(Arc::new(inner)), tasks)
    }
}

impl Stages {
    fn new(mut options: HandleOptions, store: Arc<dyn Store>) -> Self {
        if store.locality().read_every.is_some() {
            options.clock = skew::following(options.clock);
        }
        let clock = options.clock.clone();
        let max_contexts = options.limits.max_contexts;
        let recorder = Arc::new(Recorder::new(
            clock.clone(),
            options.precisions.clone(),
            options.limits.clone(),
        ));
        for name in &options.counters {
            recorder.counter(name);
        }
        let leaderless = Arc::<tokio::sync::Notify>::default();
        let flusher = Flusher::new(
            recorder.clone(),
            store.clone(),
            &options.flush,
            leaderless.clone(),
        );
        let folder = Folder::new(
            store.clone(),
            clock.clone(),
            flusher.status().unique_name,
            FoldLimits {
                records: store.locality().records_remembered * max_contexts,
                profiles: max_contexts + SYNTHETIC,
                history_days: options.history_days,
                step_contexts: options.fold_step_contexts,
            },
            leaderless,
        );
        let folder = Arc::new(folder);
        let judge = Judge::new(store.clone(), clock, folder.clone(), recorder.clone());
        Self {
            recorder,
            flusher: Arc::new(flusher),
            folder,
            store,
            judge: Arc::new(judge),
            options,
            busy: Default::default(),
            watch: Default::default(),
            queue_since: Default::default(),
            #[cfg(feature = "row-cache")]
            row_caches: Default::default(),
        }
    }

    /// The result of a future, or `None` after the store's deadline. A store in this process has no deadline, so such a
    /// store needs no timers of the runtime.
    pub(super) async fn in_time<T>(&self, future: BoxFuture<'_, T>) -> Option<T> {
        match self.store.locality().deadline {
            None => Some(future.await),
            Some(deadline) => tokio::time::timeout(deadline, future).await.ok(),
        }
    }

    fn tasks(self: &Arc<Self>, stopped: &Stopped) -> Vec<Task> {
        let cleaner = Cleaner {
            store: self.store.clone(),
            clock: self.options.clock.clone(),
            interval: self.options.clean_interval,
            retention: self.options.retention,
            instance: self.flusher.status().unique_name,
            health: self.flusher.cleaning.clone(),
            skipped: None,
        };
        let flush = {
            let (store, folder) = (self.store.clone(), self.folder.clone());
            let flushing = self.flusher.clone().flush_at_intervals(stopped.clone());
            async move {
                flushing.await;
                // With a store in this process, there may be no other instance to fold the entries of the last flush.
                if store.locality().read_every.is_none() {
                    let _ = folder.fold().await;
                }
            }
        };
        let folding = self.folder.clone().fold_at_intervals(stopped.admission());
        let asking = self.folder.clone().ask_for_history();
        let fold = async move {
            tokio::join!(folding, asking);
        };
        let heartbeat = (self.flusher.clone()).heartbeat_at_intervals(stopped.admission());
        let judge = self.judge.clone().judge_at_intervals(stopped.admission());
        let stoppable = |name, future| Task::new(name, stopped.clone().run(future));
        let tasks = vec![
            stoppable("drain", boxed(self.recorder.clone().drain_each_second())),
            Task::new("flush", flush),
            stoppable("fold", boxed(fold)),
            stoppable("heartbeat", boxed(heartbeat)),
            stoppable("judge", boxed(judge)),
            stoppable("watch", boxed(self.clone().watch_conditions())),
            stoppable("machine", boxed(machine::measure(self.recorder.clone()))),
            stoppable(
                "clean",
                boxed(cleaner.clean_at_intervals(stopped.admission())),
            ),
        ];
        let (clock, busy) = (&self.options.clock, &self.busy);
        let tasks = tasks.into_iter();
        let measured = tasks.map(|task| task.measured(clock.clone(), busy.clone()));
        measured.collect()
    }
}
