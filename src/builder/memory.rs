//! The bounds of what a configuration takes, and those of a process's memory in words.

use super::{Backend, Builder};
use crate::fold::Folder;
use crate::model::context::MAX_NAME;
use crate::model::worst_case::{Bounds, ProcessBytes, WorstCase};
use crate::recorder::Recorder;

impl Builder {
    /// The most memory that this configuration can ever take, whatever clients send. It is logged at
    /// the start and shown in [`Health`](crate::Health). The guide's page about [sizing](crate::guide::sizing) explains
    /// its parts.
    ///
    /// ```
    /// let builder = tower_pulse::Pulse::builder().max_contexts(100);
    /// let worst = builder.worst_case();
    /// // The store is in this process.
    /// assert!(worst.process_bytes < 340_000_000 && worst.store_bytes == 0);
    /// ```
    pub fn worst_case(&self) -> WorstCase {
        WorstCase::new(&self.bounds(), &self.all_precisions())
    }

    /// The parts of the bound of this process's memory.
    pub(super) fn process_bytes(&self) -> ProcessBytes {
        ProcessBytes::new(&self.bounds(), &self.all_precisions())
    }

    pub(super) fn bounds(&self) -> Bounds {
        // A store that a test brings along may have nothing to fold.
        let (is_in_process, has_journal) = match &self.backend {
            Backend::Memory => (true, true),
            #[cfg(feature = "redis")]
            Backend::Redis(_) => (false, true),
            Backend::Custom(store) => (store.is_in_process(), store.journal().is_some()),
        };
        Bounds {
            max_contexts: self.max_contexts,
            max_counters: self.max_counters,
            shards: Recorder::shards_of_this_machine(),
            replay_bytes: self.replay_bytes,
            pending_bytes: self.pending_bytes,
            folder_records: match has_journal {
                true => Folder::most_records(is_in_process, self.max_contexts),
                false => 0,
            },
            is_in_process,
            journal_bytes: match is_in_process {
                true => 0,
                false => self.journal_bytes,
            },
            memory_bytes: matches!(self.backend, Backend::Memory).then_some(self.memory_bytes),
            name_bytes: MAX_NAME,
            slow_text_bytes: self.details.max_bytes(),
            has_fleet: !matches!(self.backend, Backend::Memory),
            has_version: self.app_version.is_some(),
            query_bytes: match cfg!(feature = "query") {
                true => self.query_bytes,
                false => 0,
            },
            history_days: self.history_days().unwrap_or(0),
        }
    }

    /// Why the bound of this process's memory deserves attention, if it does.
    pub(super) fn memory_warning(&self) -> Option<String> {
        let most = self.process_bytes().total();
        let allowed = self.warn_above_bytes.filter(|allowed| most > *allowed)?;
        Some(format!(
            "recording may take {} of this process's memory, and {} are allowed (`warn_above_bytes`): \
             lower `max_contexts`, `max_counters`, `retained_slices`, `replay_bytes` or `query_bytes`, or allow more",
            bytes(most),
            bytes(allowed)
        ))
    }
}

impl ProcessBytes {
    /// In a sentence, for the log.
    pub(super) fn in_words(&self, bounds: &Bounds) -> String {
        let folding = bytes(self.folding);
        let slices = match bounds.memory_bytes.is_some() {
            true => "the slices and histograms that are stored here",
            false => "slices and histograms that wait, only after the store was away for days",
        };
        format!(
            "it never takes more than {} of this process's memory: {} for {} contexts and {} counters, \
             {} for calls that may have to be sent again, {folding} while this instance folds the journal, {} while it looks for changes, {} \
             while somebody looks at the admin pages, and {} for {slices}, with requests in \
             every context, every minute and at every duration; fewer contexts take less in proportion",
            bytes(self.total()),
            bytes(self.in_use),
            bounds.max_contexts,
            bounds.max_counters,
            bytes(self.replay),
            bytes(self.judging),
            bytes(self.asking),
            bytes(self.slices)
        )
    }
}

/// A number of bytes with a unit, for people.
pub(super) fn bytes(n: u64) -> String {
    match n {
        0..1_000_000 => format!("{} kB", n / 1_000),
        1_000_000..10_000_000 => format!("{:.1} MB", n as f64 / 1e6),
        _ => format!("{} MB", n / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use crate::Builder;

    #[test]
    fn the_parts_add_up_to_the_bound() {
        let builder = Builder::default();
        let parts = builder.process_bytes();
        assert_eq!(parts.total(), builder.worst_case().process_bytes);
        assert!(parts.folding > 16 << 20 && parts.folding < 64 << 20);
        assert!(parts.slices > parts.in_use && parts.replay == 8 << 20);
        let words = parts.in_words(&builder.bounds());
        assert!(words.contains("2000 contexts"), "{words}");
        assert!(words.contains("8.4 MB for calls") && words.contains("stored here"));
        let asking = if cfg!(feature = "query") {
            "83 MB while somebody"
        } else {
            "0 kB while somebody"
        };
        assert!(words.contains(asking), "{words}");
    }

    #[cfg(feature = "redis")]
    #[test]
    fn with_redis_folding_is_a_part_of_it() {
        let builder = Builder::default().redis("redis://127.0.0.1/");
        let parts = builder.process_bytes();
        assert_eq!(parts.total(), builder.worst_case().process_bytes);
        assert!(parts.folding > 24 << 20);
        let words = parts.in_words(&builder.bounds());
        assert!(words.contains("folds the journal") && words.contains("away for days"));
    }
}
