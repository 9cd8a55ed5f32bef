//! The parts of the bound of a process's memory, in words.

use crate::model::slice::Precisions;
use crate::model::worst_case::{Bounds, WorstCase};

/// The parts of [`WorstCase::process_bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessBytes {
    /// All contexts and counters in use, while the store answers.
    pub(super) in_use: u64,
    /// Acknowledged calls that may have to be sent again.
    pub(super) replay: u64,
    /// Folding the journal of the fleet.
    pub(super) folding: u64,
    /// Slices and histograms: of a store in this process, or those that wait for one which is away.
    pub(super) slices: u64,
}

impl ProcessBytes {
    pub(super) fn new(bounds: &Bounds, precisions: &Precisions) -> Self {
        let of = |bounds: &Bounds, precisions: &Precisions| {
            WorstCase::new(bounds, precisions).process_bytes
        };
        let total = of(bounds, precisions);
        let nothing = Precisions {
            counters: Vec::new(),
            histograms: Vec::new(),
        };
        let without_slices = of(bounds, &nothing);
        let without_folding = of(
            &Bounds {
                folder_records: 0,
                ..bounds.clone()
            },
            &nothing,
        );
        let replay = bounds.replay_bytes as u64;
        Self {
            in_use: without_folding.saturating_sub(replay),
            replay,
            folding: without_slices.saturating_sub(without_folding),
            slices: total.saturating_sub(without_slices),
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.in_use + self.replay + self.folding + self.slices
    }

    /// In a sentence, for the log.
    pub(super) fn in_words(&self, bounds: &Bounds, is_store_here: bool) -> String {
        let folding = match self.folding {
            0 => String::new(),
            n => format!("{} while this instance folds the journal, ", bytes(n)),
        };
        let slices = match is_store_here {
            true => "the slices and histograms that are stored here",
            false => "slices and histograms that wait, only after the store was away for days",
        };
        format!(
            "it never takes more than {} of this process's memory: {} for {} contexts and {} counters, \
             {} for calls that may have to be sent again, {folding}and {} for {slices}, with requests in \
             every context, every minute and at every duration; fewer contexts take less in proportion",
            bytes(self.total()),
            bytes(self.in_use),
            bounds.max_contexts,
            bounds.max_counters,
            bytes(self.replay),
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
        assert_eq!(parts.folding, 0);
        assert!(parts.slices > parts.in_use && parts.replay == 8 << 20);
        let words = parts.in_words(&builder.bounds(), true);
        assert!(words.contains("2000 contexts"), "{words}");
        assert!(words.contains("8.4 MB for calls") && words.contains("stored here"));
    }

    #[cfg(feature = "redis")]
    #[test]
    fn with_redis_folding_is_a_part_of_it() {
        let builder = Builder::default().redis("redis://127.0.0.1/");
        let parts = builder.process_bytes();
        assert_eq!(parts.total(), builder.worst_case().process_bytes);
        assert!(parts.folding > 24 << 20);
        let words = parts.in_words(&builder.bounds(), false);
        assert!(words.contains("folds the journal") && words.contains("away for days"));
    }
}
