//! The bounds of what a configuration takes, and those of a process's memory in words.

use super::validate::{JOURNAL, MEMORY, NAMES, REPLAY, RETAINED, SECONDS, nearest};
use super::{Backend, Builder};
use tower_pulse_core::fold::Folder;
use tower_pulse_core::recorder::Recorder;
use tower_pulse_model::context::MAX_NAME;
use tower_pulse_model::expected::ExpectedBytes;
use tower_pulse_model::slice::Precisions;
use tower_pulse_model::tiers::MOST_DAYS;
use tower_pulse_model::worst_case::{Bounds, ProcessBytes, WorstCase};

impl Builder {
    /// The most memory that this configuration can ever take, whatever clients send: with requests in every context,
    /// every minute and at every duration. [`expected_bytes`](Self::expected_bytes) is what usual requests take, often a
    /// tenth of it. Both are logged at the start and shown in [`Health`](crate::Health). The guide's page about
    /// [sizing](crate::guide::sizing) explains its parts. A value that [`build`](Self::build) refuses counts as the nearest
    /// that is allowed.
    ///
    /// ```
    /// let builder = tower_pulse::Pulse::builder().max_contexts(100);
    /// let worst = builder.worst_case();
    /// // The store is in this process.
    /// assert!(worst.process_bytes < 340_000_000 && worst.store_bytes == 0);
    /// ```
    pub fn worst_case(&self) -> WorstCase {
        WorstCase::new(&self.bounds(), &self.bounded_precisions())
    }

    /// The memory that so many contexts are expected to take once they have had requests in each minute for two weeks,
    /// whose durations spread over about two octaves. It is no bound: that is [`worst_case`](Self::worst_case). More
    /// contexts than [`max_contexts`](Self::max_contexts) count as these.
    ///
    /// ```
    /// let expected = tower_pulse::Pulse::builder().expected_bytes(50);
    /// // The store is in this process.
    /// assert!(expected.process_bytes < 20_000_000 && expected.store_bytes == 0);
    /// ```
    pub fn expected_bytes(&self, contexts: usize) -> ExpectedBytes {
        ExpectedBytes::new(&self.bounds(), &self.bounded_precisions(), contexts)
    }

    /// The parts of the bound of this process's memory.
    pub(super) fn process_bytes(&self) -> ProcessBytes {
        ProcessBytes::new(&self.bounds(), &self.bounded_precisions())
    }

    /// The precisions that are allowed.
    fn bounded_precisions(&self) -> Precisions {
        let seconds = self.precisions.iter().copied();
        let seconds = seconds.filter(|seconds| SECONDS.contains(seconds));
        let retained = nearest(self.retained_slices as usize, &RETAINED);
        // The most that is allowed is far below the largest u32.
        Precisions::new(seconds, retained as u32)
    }

    pub(super) fn bounds(&self) -> Bounds {
        // A store that a test brings along may have nothing to fold.
        let (is_in_process, has_journal) = match &self.backend {
            Backend::Memory => (true, true),
            #[cfg(feature = "file")]
            Backend::File(_) => (true, true),
            #[cfg(feature = "redis")]
            Backend::Redis(_) => (false, true),
            #[cfg(not(all(feature = "file", feature = "redis")))]
            Backend::Missing(_) => (true, true),
            Backend::Custom(store) => (store.is_in_process(), store.journal().is_some()),
        };
        let max_contexts = nearest(self.max_contexts, &NAMES);
        let memory_bytes = nearest(self.memory_bytes, &MEMORY);
        let mut bounds = Bounds {
            max_contexts,
            max_counters: nearest(self.max_counters, &NAMES),
            shards: Recorder::shards_of_this_machine(),
            replay_bytes: nearest(self.replay_bytes, &REPLAY),
            pending_bytes: nearest(self.pending_bytes, &MEMORY),
            folder_records: match has_journal {
                true => Folder::most_records(is_in_process, max_contexts),
                false => 0,
            },
            is_in_process,
            journal_bytes: match is_in_process {
                true => 0,
                false => nearest(self.journal_bytes as usize, &JOURNAL) as u64,
            },
            memory_bytes: matches!(self.backend, Backend::Memory).then_some(memory_bytes),
            file_bytes: match &self.backend {
                #[cfg(feature = "file")]
                Backend::File(_) => Some(self.file_bytes),
                _ => None,
            },
            name_bytes: MAX_NAME,
            slow_text_bytes: self.details.max_bytes(),
            has_fleet: match &self.backend {
                Backend::Memory => false,
                #[cfg(feature = "file")]
                Backend::File(_) => false,
                _ => true,
            },
            has_version: self.app_version.is_some(),
            query_bytes: match cfg!(feature = "query") {
                true => nearest(self.query_bytes, &MEMORY),
                false => 0,
            },
            history_days: self.history_days().unwrap_or(0).min(MOST_DAYS),
            judging_bytes: 0,
        };
        bounds.judging_bytes = tower_pulse_detect::judging_bytes(bounds.contexts());
        bounds
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

/// The most characters of a store's description in the log.
const STORE_CHARS: usize = 48;

/// The first line of the log: the store, and the memory that is expected.
pub(super) fn expected_in_words(store: &str, expected: &ExpectedBytes) -> String {
    let shown: String = store.chars().take(STORE_CHARS).collect();
    let cut = if shown.len() < store.len() { "…" } else { "" };
    let stored = match expected.store_bytes {
        0 => String::new(),
        stored => format!(", and {} there", bytes(stored)),
    };
    format!(
        "tower-pulse records in {shown}{cut}: {} busy paths take about {} here{stored}",
        expected.contexts,
        bytes(expected.process_bytes)
    )
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
    use super::*;

    #[test]
    fn the_parts_add_up_to_the_bound() {
        let builder = Builder::default();
        let parts = builder.process_bytes();
        assert_eq!(parts.total(), builder.worst_case().process_bytes);
        assert!(parts.folding > 16 << 20 && parts.folding < 64 << 20);
        assert!(parts.slices > parts.in_use && parts.replay == 8 << 20);
        let asking = if cfg!(feature = "query") { 83 } else { 0 };
        assert_eq!(parts.asking / 1_000_000, asking);
    }

    #[test]
    fn what_build_refuses_counts_as_the_nearest_that_is_allowed() {
        let most = |n: usize| {
            Builder::default()
                .max_contexts(n)
                .max_counters(n)
                .replay_bytes(n)
                .pending_bytes(n)
                .memory_bytes(n)
                .query_bytes(n)
        };
        let beyond = most(usize::MAX)
            .retained_slices(u32::MAX)
            .history(std::time::Duration::MAX)
            .worst_case();
        assert!(beyond.process_bytes > most(1 << 20).worst_case().process_bytes);
        let below = most(0).precisions([0]).retained_slices(0).worst_case();
        assert!(below.process_bytes < Builder::default().worst_case().process_bytes);
    }

    /// The rows of the guide's page about sizing: contexts in use, then bytes on 2 and on 8 cores.
    #[cfg(feature = "query")]
    #[test]
    fn the_guide_tells_what_is_expected_and_what_is_possible_on_2_and_on_8_cores() {
        let guide = include_str!("../guide/sizing.md");
        let mut rows = Vec::new();
        for contexts in [50, 200, 2_000] {
            let builder = Builder::default().max_contexts(contexts);
            let of_cores = [2, 8].map(|shards| {
                let bounds = Bounds {
                    shards,
                    ..builder.bounds()
                };
                let precisions = builder.all_precisions();
                let expected = ExpectedBytes::new(&bounds, &precisions, contexts);
                let most = WorstCase::new(&bounds, &precisions);
                [expected.process_bytes, most.process_bytes].map(bytes)
            });
            let [[few, few_most], [many, many_most]] = of_cores;
            rows.push(format!(
                "| {contexts} | {few} | {few_most} | {many} | {many_most} |"
            ));
        }
        for row in &rows {
            assert!(guide.contains(row), "the guide lacks one of {rows:#?}");
        }
    }

    #[test]
    fn what_is_expected_is_far_below_the_bound() {
        let builder = Builder::default();
        let expected = builder.expected_bytes(50);
        assert!(expected.process_bytes < builder.worst_case().process_bytes / 10);
        let words = expected_in_words("memory", &expected);
        assert!(words.starts_with("tower-pulse records in memory: 50 busy paths"));
        assert!(words.ends_with(" MB here"), "{words}");
        let few = Builder::default().max_contexts(7);
        assert_eq!(few.expected_bytes(50), few.expected_bytes(7));
    }

    #[cfg(feature = "redis")]
    #[test]
    fn what_is_expected_of_redis_is_told_as_well() {
        let builder = Builder::default().redis("redis://127.0.0.1/");
        let expected = builder.expected_bytes(50);
        assert!(expected.store_bytes < builder.worst_case().store_bytes / 10);
        let words = expected_in_words(&"x".repeat(500), &expected);
        assert!(words.ends_with(" MB there"), "{words}");
        // The time, the level and the target stand before it.
        assert!(words.chars().count() <= 130, "{words}");
    }

    #[cfg(feature = "redis")]
    #[test]
    fn with_redis_folding_is_a_part_of_it() {
        let builder = Builder::default().redis("redis://127.0.0.1/");
        let parts = builder.process_bytes();
        assert_eq!(parts.total(), builder.worst_case().process_bytes);
        assert!(parts.folding > 24 << 20);
    }
}
